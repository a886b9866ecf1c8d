// RUN: propagate, partition, to-hlo
// Rows that move to a neighbour travel in one permute of one row.
sdy.mesh @mesh = <["x"=2, "y"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %c, low = [1, 0], high = [-1, 0], interior = [0, 0] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[2,16]{1,0})->f32[2,16]{1,0}}, num_partitions=8

ENTRY main {
  a = f32[2,16]{1,0} parameter(0), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  slice = f32[1,16]{1,0} slice(a), slice={[0:1], [0:16]}
  slice.1 = f32[1,16]{1,0} slice(a), slice={[1:2], [0:16]}
  collective-permute = f32[1,16]{1,0} collective-permute(slice.1), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{4,5},{5,6},{6,7}}
  ROOT concatenate = f32[2,16]{1,0} concatenate(collective-permute, slice), dimensions={0}, sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
}
