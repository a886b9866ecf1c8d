// RUN: propagate, insert-reshards, to-hlo
// Two ops need the array in one layout: it is brought there once. A constant has a copy for each.
sdy.mesh @mesh = <["x"=4]>

func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %c = stablehlo.constant dense<2.0> : tensor<8x16xf32>
  %0 = sdy.reshard %a <@mesh, [{}, {"x"}]> : tensor<8x16xf32>
  %1 = stablehlo.add %0, %c : tensor<8x16xf32>
  %2 = sdy.reshard %a <@mesh, [{}, {"x"}]> : tensor<8x16xf32>
  %3 = stablehlo.multiply %2, %c : tensor<8x16xf32>
  return %1, %3 : tensor<8x16xf32>, tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[8,16]{1,0})->(f32[8,16]{1,0}, f32[8,16]{1,0})}, num_partitions=4

ENTRY main {
  a = f32[8,16]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  constant = f32[] constant(2), sharding={replicated}
  broadcast = f32[8,16]{1,0} broadcast(constant), dimensions={}, sharding={devices=[1,4]<=[4]}
  custom-call = f32[8,16]{1,0} custom-call(a), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}, frontend_attributes={tessera.reshard="sharding constraint"}
  add = f32[8,16]{1,0} add(custom-call, broadcast), sharding={devices=[1,4]<=[4]}
  broadcast.1 = f32[8,16]{1,0} broadcast(constant), dimensions={}, sharding={devices=[1,4]<=[4]}
  multiply = f32[8,16]{1,0} multiply(custom-call, broadcast.1), sharding={devices=[1,4]<=[4]}
  ROOT tuple = (f32[8,16]{1,0}, f32[8,16]{1,0}) tuple(add, multiply), sharding={{devices=[1,4]<=[4]}, {devices=[1,4]<=[4]}}
}
