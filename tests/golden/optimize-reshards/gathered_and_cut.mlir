// RUN: optimize-reshards
// What is gathered for nothing but to be cut again is brought there at once.
sdy.mesh @mesh = <["x"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = sdy.reshard %a <@mesh, [{}, {}]> : tensor<8x16xf32>
  %1 = sdy.reshard %0 <@mesh, [{}, {"x"}]> : tensor<8x16xf32>
  %2 = stablehlo.negate %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
// OUT: 1 change
module @module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.reshard %arg0 <@mesh, [{}, {"x"}]> : tensor<8x16xf32>
    %1 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
