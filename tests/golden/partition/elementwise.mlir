// RUN: propagate, partition, to-hlo
// Each device computes its rows; nothing moves.
sdy.mesh @mesh = <["x"=2, "y"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.negate %a : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[4,4]{1,0})->f32[4,4]{1,0}}, num_partitions=8

ENTRY main {
  a = f32[4,4]{1,0} parameter(0), sharding={devices=[2,4]<=[8]}
  ROOT negate = f32[4,4]{1,0} negate(a), sharding={devices=[2,4]<=[8]}
}
