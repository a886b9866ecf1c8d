// RUN: to-hlo
// Several results are a tuple; the function's name is the entry's.
func.func @f(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.sine %a : tensor<4xf32>
  %1 = stablehlo.cosine %a : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// OUT:
HloModule module, entry_computation_layout={(f32[4]{0})->(f32[4]{0}, f32[4]{0})}

ENTRY f {
  a = f32[4]{0} parameter(0)
  sine.1 = f32[4]{0} sine(a)
  cosine.2 = f32[4]{0} cosine(a)
  ROOT tuple.3 = (f32[4]{0}, f32[4]{0}) tuple(sine.1, cosine.2)
}
