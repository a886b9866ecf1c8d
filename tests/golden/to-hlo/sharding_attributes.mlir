// RUN: to-hlo
// Shardings in axes become tilings of the devices; a mesh gives the number of partitions.
sdy.mesh @mesh = <["x"=2, "y"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x", "y"}]>}) {
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[8,16]{1,0})->f32[8,16]{1,0}}, num_partitions=8

ENTRY main {
  a = f32[8,16]{1,0} parameter(0), sharding={devices=[4,2]<=[2,4]T(1,0)}
  tanh.1 = f32[8,16]{1,0} tanh(a)
  tuple.2 = (f32[8,16]{1,0}) tuple(tanh.1)
  ROOT get-tuple-element.3 = f32[8,16]{1,0} get-tuple-element(tuple.2), index=0, sharding={devices=[1,8]<=[8]}
}
