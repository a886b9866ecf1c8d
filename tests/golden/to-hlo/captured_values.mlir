// RUN: to-hlo
// Regions become computations; what they capture is carried.
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
   cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %w = stablehlo.add %v, %v : tensor<4xf32>
    stablehlo.return %j, %w : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[4]{0}, s32[])->f32[4]{0}}

region_2 {
  parameter.4 = (s32[], f32[4]{0}, s32[]) parameter(0)
  get-tuple-element.5 = s32[] get-tuple-element(parameter.4), index=0
  get-tuple-element.7 = s32[] get-tuple-element(parameter.4), index=2
  ROOT compare.8 = pred[] compare(get-tuple-element.5, get-tuple-element.7), direction=LT
}

region_8 {
  parameter.10 = (s32[], f32[4]{0}, s32[]) parameter(0)
  get-tuple-element.11 = s32[] get-tuple-element(parameter.10), index=0
  get-tuple-element.12 = f32[4]{0} get-tuple-element(parameter.10), index=1
  constant.2 = s32[] constant(1)
  add.13 = s32[] add(get-tuple-element.11, constant.2)
  add.14 = f32[4]{0} add(get-tuple-element.12, get-tuple-element.12)
  get-tuple-element.15 = s32[] get-tuple-element(parameter.10), index=2
  ROOT tuple.16 = (s32[], f32[4]{0}, s32[]) tuple(add.13, add.14, get-tuple-element.15)
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  n = s32[] parameter(1)
  constant.1 = s32[] constant(0)
  tuple.17 = (s32[], f32[4]{0}, s32[]) tuple(constant.1, x, n)
  while.18 = (s32[], f32[4]{0}, s32[]) while(tuple.17), condition=region_2, body=region_8
  ROOT get-tuple-element.20 = f32[4]{0} get-tuple-element(while.18), index=1
}
