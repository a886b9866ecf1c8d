// RUN: propagate, partition, to-hlo
// A program without shardings is the same on each device.
sdy.mesh @mesh = <["x"=2, "y"=4]>

func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.negate %a : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[8,16]{1,0})->f32[8,16]{1,0}}, num_partitions=8

ENTRY main {
  a = f32[8,16]{1,0} parameter(0), sharding={replicated}
  ROOT negate = f32[8,16]{1,0} negate(a), sharding={replicated}
}
