// RUN: bind-manual, to-hlo
// "y" is left automatic: the body's parameters and results are open but for the manual axes.
// NOT EVALUATED: its body is for one device, its arguments for all
sdy.mesh @mesh = <["x"=2, "y"=4]>

func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg: tensor<4x16xf32>) {
    %1 = stablehlo.negate %arg : tensor<4x16xf32>
    sdy.return %1 : tensor<4x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[8,16]{1,0})->f32[8,16]{1,0}}, num_partitions=8

region_0 {
  parameter.2 = f32[4,16]{1,0} parameter(0), sharding={devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}
  negate.3 = f32[4,16]{1,0} negate(parameter.2)
  copy = f32[4,16]{1,0} copy(negate.3)
  ROOT tuple = (f32[4,16]{1,0}) tuple(copy), sharding={{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}}
}

ENTRY main {
  a = f32[8,16]{1,0} parameter(0)
  manual_operand = f32[8,16]{1,0} custom-call(a), custom_call_target="Sharding", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  ROOT custom-call.4 = f32[8,16]{1,0} custom-call(manual_operand), custom_call_target="tessera.ManualComputation", in_shardings=[<@mesh, [{"x"}, {}]>], out_shardings=[<@mesh, [{"x"}, {}]>], manual_axes=["x"], called_computations={region_0}, sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
}
