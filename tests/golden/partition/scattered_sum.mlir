// RUN: propagate, partition, to-hlo
// The result of the same dot is asked for split over "y": the reduction is a
// reduce-scatter. Each device along "x" computes its own columns, which are gathered.
sdy.mesh @mesh = <["x"=2, "y"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}, %b: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[8,4]{1,0}, f32[4,32]{1,0})->f32[2,32]{1,0}}, num_partitions=8

add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT add = f32[] add(a, b)
}

ENTRY main {
  a = f32[8,4]{1,0} parameter(0), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  b = f32[4,32]{1,0} parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  partition-id = u32[] partition-id()
  convert = s32[] convert(partition-id)
  constant = s32[] constant(4)
  divide = s32[] divide(convert, constant)
  constant.1 = s32[] constant(16)
  multiply = s32[] multiply(divide, constant.1)
  constant.2 = s32[] constant(0)
  dynamic-slice = f32[4,16]{1,0} dynamic-slice(b, constant.2, multiply), dynamic_slice_sizes={4,16}
  dot = f32[8,16]{1,0} dot(a, dynamic-slice), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  reduce-scatter = f32[2,16]{1,0} reduce-scatter(dot), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, dimensions={0}, to_apply=add_f32
  ROOT all-gather = f32[2,32]{1,0} all-gather(reduce-scatter), channel_id=2, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, dimensions={1}, sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
}
