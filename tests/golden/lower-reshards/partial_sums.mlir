// RUN: lower-reshards, to-hlo
// A dot along a split dim leaves partial sums; the reshard adds them up, each device its columns.
sdy.mesh @mesh = <["x"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.reshard %0 <@mesh, [{}, {"x"}]> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[8,4]{1,0}, f32[4,8]{1,0})->f32[8,2]{1,0}}, num_partitions=4

add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT add = f32[] add(a, b)
}

ENTRY main {
  a = f32[8,4]{1,0} parameter(0), sharding={devices=[1,4]<=[4]}
  b = f32[4,8]{1,0} parameter(1), sharding={devices=[4,1]<=[4]}
  dot = f32[8,8]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT reduce-scatter = f32[8,2]{1,0} reduce-scatter(dot), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={1}, to_apply=add_f32, sharding={devices=[1,4]<=[4]}
}
