// RUN: to-hlo
// An op of chlo that HLO lacks is written out.
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.sinh %a : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

ENTRY main {
  a = f32[4]{0} parameter(0)
  exponential-minus-one.1 = f32[4]{0} exponential-minus-one(a)
  constant.2 = f32[] constant(-0.6931472)
  broadcast.3 = f32[4]{0} broadcast(constant.2), dimensions={}
  subtract.4 = f32[4]{0} subtract(broadcast.3, a)
  exponential.5 = f32[4]{0} exponential(subtract.4)
  add.6 = f32[4]{0} add(a, broadcast.3)
  exponential.7 = f32[4]{0} exponential(add.6)
  subtract.8 = f32[4]{0} subtract(exponential.7, exponential.5)
  constant.9 = f32[] constant(1)
  broadcast.10 = f32[4]{0} broadcast(constant.9), dimensions={}
  add.11 = f32[4]{0} add(exponential-minus-one.1, broadcast.10)
  divide.12 = f32[4]{0} divide(exponential-minus-one.1, add.11)
  add.13 = f32[4]{0} add(exponential-minus-one.1, divide.12)
  constant.14 = f32[] constant(0.5)
  broadcast.15 = f32[4]{0} broadcast(constant.14), dimensions={}
  multiply.16 = f32[4]{0} multiply(broadcast.15, add.13)
  abs.17 = f32[4]{0} abs(a)
  compare.18 = pred[4]{0} compare(abs.17, broadcast.10), direction=LT
  ROOT select.19 = f32[4]{0} select(compare.18, multiply.16, subtract.8)
}
