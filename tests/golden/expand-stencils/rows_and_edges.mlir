// RUN: propagate, expand-stencils, eliminate-common, to-hlo
// Neighbours in an array with its edges repeated: a row of each neighbour is fetched, and the edge
// is put in its place on the first and the last device.
sdy.mesh @mesh = <["x"=4]>

func.func @main(%a: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.slice %a [0:1, 0:3] : (tensor<8x3xf32>) -> tensor<1x3xf32>
  %1 = stablehlo.slice %a [7:8, 0:3] : (tensor<8x3xf32>) -> tensor<1x3xf32>
  %p = stablehlo.concatenate %0, %a, %1, dim = 0 : (tensor<1x3xf32>, tensor<8x3xf32>, tensor<1x3xf32>) -> tensor<10x3xf32>
  %s = stablehlo.slice %p [0:8, 0:3] : (tensor<10x3xf32>) -> tensor<8x3xf32>
  %t = stablehlo.slice %p [2:10, 0:3] : (tensor<10x3xf32>) -> tensor<8x3xf32>
  %r = stablehlo.add %s, %t : tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}
// OUT: 1 change
HloModule module, entry_computation_layout={(f32[8,3]{1,0})->f32[8,3]{1,0}}, num_partitions=4

ENTRY main {
  a = f32[8,3]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  iota = s32[4]{0} iota(), iota_dimension=0, sharding={devices=[4]<=[4]}
  constant.2 = s32[] constant(1), sharding={replicated}
  broadcast = s32[4]{0} broadcast(constant.2), dimensions={}, sharding={devices=[4]<=[4]}
  compare = pred[4]{0} compare(iota, broadcast), direction=GE, sharding={devices=[4]<=[4]}
  broadcast.1 = pred[4,1,3]{2,1,0} broadcast(compare), dimensions={0}, sharding={devices=[4,1,1]<=[4]}
  reshape = f32[4,2,3]{2,1,0} reshape(a), sharding={devices=[4,1,1]<=[4]}
  slice = f32[4,1,3]{2,1,0} slice(reshape), slice={[0:4], [1:2], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  constant = f32[] constant(0), sharding={replicated}
  pad = f32[4,1,3]{2,1,0} pad(slice, constant), padding=1_-1x0_0x0_0, sharding={devices=[4,1,1]<=[4]}
  slice.3 = f32[4,1,3]{2,1,0} slice(reshape), slice={[0:4], [0:1], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  pad.1 = f32[4,1,3]{2,1,0} pad(slice.3, constant), padding=-1_1x0_0x0_0, sharding={devices=[4,1,1]<=[4]}
  concatenate = f32[4,4,3]{2,1,0} concatenate(pad, reshape, pad.1), dimensions={1}, sharding={devices=[4,1,1]<=[4]}
  slice.7 = f32[4,1,3]{2,1,0} slice(concatenate), slice={[0:4], [0:1], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  slice.6 = f32[4,1,3]{2,1,0} slice(concatenate), slice={[0:4], [1:2], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  select = f32[4,1,3]{2,1,0} select(broadcast.1, slice.7, slice.6), sharding={devices=[4,1,1]<=[4]}
  slice.8 = f32[4,2,3]{2,1,0} slice(concatenate), slice={[0:4], [1:3], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  constant.3 = s32[] constant(3), sharding={replicated}
  broadcast.2 = s32[4]{0} broadcast(constant.3), dimensions={}, sharding={devices=[4]<=[4]}
  compare.1 = pred[4]{0} compare(iota, broadcast.2), direction=GE, sharding={devices=[4]<=[4]}
  broadcast.3 = pred[4,1,3]{2,1,0} broadcast(compare.1), dimensions={0}, sharding={devices=[4,1,1]<=[4]}
  slice.10 = f32[4,1,3]{2,1,0} slice(concatenate), slice={[0:4], [2:3], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  slice.9 = f32[4,1,3]{2,1,0} slice(concatenate), slice={[0:4], [3:4], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  select.1 = f32[4,1,3]{2,1,0} select(broadcast.3, slice.10, slice.9), sharding={devices=[4,1,1]<=[4]}
  concatenate.1 = f32[4,4,3]{2,1,0} concatenate(select, slice.8, select.1), dimensions={1}, sharding={devices=[4,1,1]<=[4]}
  slice.11 = f32[4,2,3]{2,1,0} slice(concatenate.1), slice={[0:4], [0:2], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  reshape.1 = f32[8,3]{1,0} reshape(slice.11), sharding={devices=[4,1]<=[4]}
  slice.12 = f32[4,2,3]{2,1,0} slice(concatenate.1), slice={[0:4], [2:4], [0:3]}, sharding={devices=[4,1,1]<=[4]}
  reshape.2 = f32[8,3]{1,0} reshape(slice.12), sharding={devices=[4,1]<=[4]}
  add = f32[8,3]{1,0} add(reshape.1, reshape.2), sharding={devices=[4,1]<=[4]}
  tuple.7 = (f32[8,3]{1,0}) tuple(add), sharding={{devices=[4,1]<=[4]}}
  ROOT get-tuple-element.8 = f32[8,3]{1,0} get-tuple-element(tuple.7), index=0, sharding={devices=[4,1]<=[4]}
}
