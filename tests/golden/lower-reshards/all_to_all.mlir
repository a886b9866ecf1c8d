// RUN: lower-reshards, to-hlo
// A reshard from rows to columns is an all-to-all; the op is that on a device's part.
sdy.mesh @mesh = <["x"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = sdy.reshard %a <@mesh, [{}, {"x"}]> : tensor<8x16xf32>
  %1 = stablehlo.negate %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[2,16]{1,0})->f32[8,4]{1,0}}, num_partitions=4

ENTRY main {
  a = f32[2,16]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  reshape = f32[2,4,4]{2,1,0} reshape(a)
  transpose = f32[4,2,4]{2,1,0} transpose(reshape), dimensions={1,0,2}
  reshape.1 = f32[8,4]{1,0} reshape(transpose)
  all-to-all = f32[8,4]{1,0} all-to-all(reshape.1), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT negate = f32[8,4]{1,0} negate(all-to-all), sharding={devices=[1,4]<=[4]}
}
