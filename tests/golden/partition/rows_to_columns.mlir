// RUN: propagate, partition, to-hlo
// From rows to columns over the same axis: one all-to-all.
sdy.mesh @mesh = <["x"=2, "y"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
  return %a : tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[2,16]{1,0})->f32[8,4]{1,0}}, num_partitions=8

ENTRY main {
  a = f32[2,16]{1,0} parameter(0), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  reshape = f32[2,4,4]{2,1,0} reshape(a)
  transpose = f32[4,2,4]{2,1,0} transpose(reshape), dimensions={1,0,2}
  reshape.1 = f32[8,4]{1,0} reshape(transpose)
  ROOT all-to-all = f32[8,4]{1,0} all-to-all(reshape.1), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
}
