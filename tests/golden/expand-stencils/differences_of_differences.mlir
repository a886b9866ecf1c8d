// RUN: propagate, expand-stencils, eliminate-common, to-hlo
// 9 differences of 10 rows, of which one device would have 3 and the last none: each device computes
// those that it needs, one of them twice.
sdy.mesh @mesh = <["x"=4]>

func.func @main(%a: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %p = stablehlo.pad %a, %c, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<10x3xf32>
  %0 = stablehlo.slice %p [1:10, 0:3] : (tensor<10x3xf32>) -> tensor<9x3xf32>
  %1 = stablehlo.slice %p [0:9, 0:3] : (tensor<10x3xf32>) -> tensor<9x3xf32>
  %d = stablehlo.subtract %0, %1 : tensor<9x3xf32>
  %2 = stablehlo.slice %d [1:9, 0:3] : (tensor<9x3xf32>) -> tensor<8x3xf32>
  %3 = stablehlo.slice %d [0:8, 0:3] : (tensor<9x3xf32>) -> tensor<8x3xf32>
  %r = stablehlo.subtract %2, %3 : tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}
// OUT: 1 change
HloModule module, entry_computation_layout={(f32[8,3]{1,0})->f32[8,3]{1,0}}, num_partitions=4

ENTRY main {
  a = f32[8,3]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  constant.1 = f32[] constant(1), sharding={replicated}
  iota = s32[4,3]{1,0} iota(), iota_dimension=0, sharding={devices=[4,1]<=[4]}
  constant.3 = s32[] constant(2), sharding={replicated}
  broadcast.1 = s32[4,3]{1,0} broadcast(constant.3), dimensions={}, sharding={devices=[4,1]<=[4]}
  multiply = s32[4,3]{1,0} multiply(iota, broadcast.1), sharding={devices=[4,1]<=[4]}
  iota.1 = s32[4,3]{1,0} iota(), iota_dimension=1, sharding={devices=[4,1]<=[4]}
  add = s32[4,3]{1,0} add(multiply, iota.1), sharding={devices=[4,1]<=[4]}
  constant.4 = s32[] constant(8), sharding={replicated}
  broadcast.2 = s32[4,3]{1,0} broadcast(constant.4), dimensions={}, sharding={devices=[4,1]<=[4]}
  compare = pred[4,3]{1,0} compare(add, broadcast.2), direction=LT, sharding={devices=[4,1]<=[4]}
  broadcast.3 = pred[4,3,3]{2,1,0} broadcast(compare), dimensions={0,1}, sharding={devices=[4,1,1]<=[4]}
  reshape = f32[4,2,3]{2,1,0} reshape(a), sharding={devices=[4,1,1]<=[4]}
  slice = f32[4,1,3]{2,1,0} slice(reshape), slice={[0:4], [1:2], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  constant = f32[] constant(0), sharding={replicated}
  pad.3 = f32[4,1,3]{2,1,0} pad(slice, constant), padding=1_-1x0_0x0_0, sharding={devices=[4,1,1]<=[4]}
  slice.1 = f32[4,1,3]{2,1,0} slice(reshape), slice={[0:4], [0:1], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  pad.4 = f32[4,1,3]{2,1,0} pad(slice.1, constant), padding=-1_1x0_0x0_0, sharding={devices=[4,1,1]<=[4]}
  concatenate = f32[4,4,3]{2,1,0} concatenate(pad.3, reshape, pad.4), dimensions={1}, sharding={devices=[4,1,1]<=[4]}
  slice.2 = f32[4,3,3]{2,1,0} slice(concatenate), slice={[0:4], [1:4], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  broadcast = f32[4,3,3]{2,1,0} broadcast(constant.1), dimensions={}, sharding={devices=[4,1,1]<=[4]}
  select = f32[4,3,3]{2,1,0} select(broadcast.3, slice.2, broadcast), sharding={devices=[4,1,1]<=[4]}
  reshape.1 = f32[12,3]{1,0} reshape(select), sharding={devices=[4,1]<=[4]}
  constant.6 = s32[] constant(1), sharding={replicated}
  broadcast.6 = s32[4,3]{1,0} broadcast(constant.6), dimensions={}, sharding={devices=[4,1]<=[4]}
  compare.1 = pred[4,3]{1,0} compare(add, broadcast.6), direction=GE, sharding={devices=[4,1]<=[4]}
  broadcast.7 = pred[4,3,3]{2,1,0} broadcast(compare.1), dimensions={0,1}, sharding={devices=[4,1,1]<=[4]}
  slice.5 = f32[4,3,3]{2,1,0} slice(concatenate), slice={[0:4], [0:3], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  select.1 = f32[4,3,3]{2,1,0} select(broadcast.7, slice.5, broadcast), sharding={devices=[4,1,1]<=[4]}
  reshape.2 = f32[12,3]{1,0} reshape(select.1), sharding={devices=[4,1]<=[4]}
  subtract = f32[12,3]{1,0} subtract(reshape.1, reshape.2), sharding={devices=[4,1]<=[4]}
  reshape.3 = f32[4,3,3]{2,1,0} reshape(subtract), sharding={devices=[4,1,1]<=[4]}
  slice.8 = f32[4,2,3]{2,1,0} slice(reshape.3), slice={[0:4], [1:3], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  reshape.4 = f32[8,3]{1,0} reshape(slice.8), sharding={devices=[4,1]<=[4]}
  slice.9 = f32[4,2,3]{2,1,0} slice(reshape.3), slice={[0:4], [0:2], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  reshape.5 = f32[8,3]{1,0} reshape(slice.9), sharding={devices=[4,1]<=[4]}
  subtract.1 = f32[8,3]{1,0} subtract(reshape.4, reshape.5), sharding={devices=[4,1]<=[4]}
  tuple.9 = (f32[8,3]{1,0}) tuple(subtract.1), sharding={{devices=[4,1]<=[4]}}
  ROOT get-tuple-element.10 = f32[8,3]{1,0} get-tuple-element(tuple.9), index=0, sharding={devices=[4,1]<=[4]}
}
