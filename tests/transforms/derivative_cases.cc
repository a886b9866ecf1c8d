// SPDX-License-Identifier: Apache-2.0
// Programs with each op that has a derivative, by kind of op.
#include "tests/transforms/derivative_cases.h"

namespace tessera::testing {
namespace {

const std::string kDerivativeCallees = R"(
add { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] add(a, b) }
mul { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] multiply(a, b) }
max { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] maximum(a, b) }
min { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] minimum(a, b) }
second { a = f64[] parameter(0)
  ROOT r = f64[] parameter(1) }
cadd { a = c128[] parameter(0)
  b = c128[] parameter(1)
  ROOT r = c128[] add(a, b) }
mix { a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] multiply(a, b)
  ROOT r = f64[] subtract(c, b) }
ge { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
lt { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
lt2 { a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] parameter(2)
  d = f64[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
argmax { a = f64[] parameter(0)
  i = s32[] parameter(1)
  b = f64[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  v = f64[] select(gt, a, b)
  k = s32[] select(gt, i, j)
  ROOT t = (f64[], s32[]) tuple(v, k) }
square { a = f64[3] parameter(0)
  ROOT r = f64[3] multiply(a, a) }
sine { a = f64[3] parameter(0)
  ROOT r = f64[3] sine(a) }
callee { a = f64[3] parameter(0)
  b = f64[3] multiply(a, a)
  c = f64[3] sine(b)
  ROOT r = (f64[3], f64[3]) tuple(b, c) }
step { x = f64[2] parameter(0)
  c = f64[2] parameter(1)
  w = f64[2,2] parameter(2)
  d = f64[2] dot(w, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f64[2] add(d, x)
  t = f64[2] tanh(e)
  y = f64[2] multiply(t, x)
  ROOT r = (f64[2], f64[2]) tuple(y, t) }
cond { s = (s32[], f64[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f64[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f64[3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f64[3] sine(x)
  z = f64[3] multiply(y, x)
  ROOT r = (s32[], f64[3]) tuple(j, z) }
small { x = f64[3] parameter(0)
  z = f64[] constant(0)
  s = f64[] reduce(x, z), dimensions={0}, to_apply=add
  l = f64[] constant(9)
  ROOT r = pred[] compare(s, l), direction=LT }
double { x = f64[3] parameter(0)
  y = f64[3] multiply(x, x)
  ROOT r = f64[3] add(x, y) }
)";

std::string unary(const std::string& op) {
  return "x = f64[5] parameter(0)\n ROOT r = f64[5] " + op + "(x)";
}
std::string binary(const std::string& op) {
  return "x = f64[5] parameter(0)\n y = f64[5] parameter(1)\n ROOT r = f64[5] " + op + "(x, y)";
}

std::vector<DerivativeCase> elementwise_derivatives() {
  return {
      {"abs", unary("abs")},
      {"acos", unary("acos"), -0.9, 0.9},
      {"acosh", unary("acosh"), 1.2, 3},
      {"asin", unary("asin"), -0.9, 0.9},
      {"asinh", unary("asinh")},
      {"atanh", unary("atanh"), -0.9, 0.9},
      {"cbrt", unary("cbrt"), 0.2, 2},
      {"cosine", unary("cosine")},
      {"cosh", unary("cosh")},
      {"erf", unary("erf")},
      {"exponential", unary("exponential")},
      {"exponential_minus_one", unary("exponential-minus-one")},
      {"log", unary("log"), 0.2, 2},
      {"log_plus_one", unary("log-plus-one"), -0.5, 2},
      {"logistic", unary("logistic")},
      {"negate", unary("negate")},
      {"rsqrt", unary("rsqrt"), 0.2, 2},
      {"sine", unary("sine")},
      {"sinh", unary("sinh")},
      {"sqrt", unary("sqrt"), 0.2, 2},
      {"tan", unary("tan")},
      {"tanh", unary("tanh")},
      {"copy", unary("copy")},
      {"add", binary("add")},
      {"subtract", binary("subtract")},
      {"multiply", binary("multiply")},
      {"divide", binary("divide"), 0.3, 2},
      {"remainder", binary("remainder"), 0.4, 2.9},
      {"power", binary("power"), 0.3, 2},
      {"atan2", binary("atan2"), 0.2, 2},
      {"maximum", binary("maximum")},
      {"minimum", binary("minimum")},
      {"clamp",
       "a = f64[] parameter(0)\n x = f64[5] parameter(1)\n b = f64[] parameter(2)\n"
       "ROOT r = f64[5] clamp(a, x, b)"},
      {"select",
       "x = f64[5] parameter(0)\n y = f64[5] parameter(1)\n p = pred[5] compare(x, y), "
       "direction=LT\n"
       "ROOT r = f64[5] select(p, x, y)"},
      {"zero",
       "x = f64[5] parameter(0)\n a = f64[5] floor(x)\n b = f64[5] sign(x)\n"
       "c = f64[5] round-nearest-even(x)\n d = f64[5] ceil(x)\n e = f64[5] multiply(a, x)\n"
       "f = f64[5] multiply(b, x)\n g = f64[5] multiply(c, d)\n i = s32[5] convert(x)\n"
       "j = f64[5] convert(i)\n p = pred[5] is-finite(x)\n q = f64[5] select(p, j, g)\n"
       "h = f64[5] add(e, f)\n k = f64[5] round-nearest-afz(x)\n l = f64[5] add(h, k)\n"
       "ROOT r = f64[5] add(l, q)",
       0.1, 0.4},
      {"complex",
       "x = f64[4] parameter(0)\n y = f64[4] parameter(1)\n z = c128[4] complex(x, y)\n"
       "w = c128[4] multiply(z, z)\n e = c128[4] exponential(w)\n d = c128[4] divide(e, z)\n"
       "g = c128[4] sign(d)\n q = c128[4] add(g, d)\n a = f64[4] abs(q)\n b = f64[4] real(q)\n"
       "i = f64[4] imag(q)\n s = f64[4] add(a, b)\n ROOT r = f64[4] multiply(s, i)",
       0.3, 1},
      {"convert",
       "x = f64[5] parameter(0)\n y = c128[5] convert(x)\n z = c128[5] multiply(y, y)\n"
       "ROOT r = f64[5] real(z)"},
  };
}

std::vector<DerivativeCase> shape_derivatives() {
  return {
      {"broadcast",
       "x = f64[2,3] parameter(0)\n y = f64[3,4,2] broadcast(x), dimensions={2,0}\n"
       "ROOT r = f64[3,4,2] multiply(y, y)"},
      {"reshape", "x = f64[2,6] parameter(0)\n ROOT r = f64[3,4] reshape(x)"},
      {"transpose",
       "x = f64[2,3,4] parameter(0)\n ROOT r = f64[4,2,3] transpose(x), dimensions={2,0,1}"},
      {"reverse", "x = f64[2,3] parameter(0)\n ROOT r = f64[2,3] reverse(x), dimensions={1}"},
      {"slice", "x = f64[7,4] parameter(0)\n ROOT r = f64[3,2] slice(x), slice={[1:7:2], [1:3]}"},
      {"pad",
       "x = f64[2,3] parameter(0)\n v = f64[] parameter(1)\n"
       "ROOT r = f64[4,7] pad(x, v), padding=1_1_0x-1_3_1"},
      {"concatenate",
       "x = f64[2,3] parameter(0)\n y = f64[2,1] parameter(1)\n"
       "ROOT r = f64[2,7] concatenate(x, y, x), dimensions={1}"},
      {"dynamic_slice",
       "x = f64[5,4] parameter(0)\n i = s32[] constant(9)\n j = s32[] constant(1)\n"
       "ROOT r = f64[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}"},
      {"dynamic_update_slice",
       "x = f64[5,4] parameter(0)\n u = f64[2,3] parameter(1)\n i = s32[] constant(9)\n"
       "j = s32[] constant(1)\n ROOT r = f64[5,4] dynamic-update-slice(x, u, i, j)"},
      {"gather",
       "x = f64[5,4] parameter(0)\n i = s32[3,2] constant({{0,3},{2,-7},{9,1}})\n"
       "ROOT r = f64[3,1,3] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, "
       "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,3}"},
      {"scatter_add",
       "x = f64[5,4] parameter(0)\n i = s32[3] constant({4,1,4})\n"
       "u = f64[3,4] parameter(1)\n ROOT r = f64[5,4] scatter(x, i, u), "
       "update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"},
      {"scatter_dropped",
       "x = f64[5,4] parameter(0)\n i = s32[3] constant({4,-1,7})\n"
       "u = f64[3,4] parameter(1)\n ROOT r = f64[5,4] scatter(x, i, u), "
       "update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"},
      {"scatter_replace",
       "x = f64[5,4] parameter(0)\n i = s32[3] constant({4,1,4})\n"
       "u = f64[3,4] parameter(1)\n ROOT r = f64[5,4] scatter(x, i, u), "
       "update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second"},
      {"scatter_max",
       "x = f64[5,4] parameter(0)\n i = s32[3] constant({4,1,4})\n"
       "u = f64[3,4] parameter(1)\n ROOT r = f64[5,4] scatter(x, i, u), "
       "update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max"},
      {"scatter_mul",
       "x = f64[5,4] parameter(0)\n i = s32[2] constant({4,1})\n"
       "u = f64[2,4] parameter(1)\n ROOT r = f64[5,4] scatter(x, i, u), "
       "update_window_dims={1}, inserted_window_dims={0}, unique_indices=true, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=mul"},
      {"sort",
       "x = f64[2,5] parameter(0)\n ROOT r = f64[2,5] sort(x), dimensions={1}, to_apply=lt"},
      {"sort_pairs",
       "x = f64[5,2] parameter(0)\n y = f64[5,2] parameter(1)\n"
       "ROOT r = (f64[5,2], f64[5,2]) sort(x, y), dimensions={0}, to_apply=lt2"},
      {"topk",
       "x = f64[2,6] parameter(0)\n t = (f64[2,3], s32[2,3]) topk(x), k=3, largest=true\n"
       "ROOT r = f64[2,3] get-tuple-element(t), index=0"},
      {"barrier",
       "x = f64[3] parameter(0)\n y = f64[3] parameter(1)\n"
       "t = (f64[3], f64[3]) tuple(x, y)\n b = (f64[3], f64[3]) opt-barrier(t)\n"
       "p = f64[3] get-tuple-element(b), index=0\n"
       "q = f64[3] get-tuple-element(b), index=1\n a = token[] after-all()\n"
       "n = f64[3] add-dependency(p, a)\n ROOT r = f64[3] multiply(n, q)"},
      {"placement",
       "x = f64[3] parameter(0)\n"
       "w = f64[3] custom-call(x), custom_call_target=\"MoveToHost\"\n"
       "y = f64[3] custom-call(w), custom_call_target=\"MoveToDevice\"\n"
       "ROOT r = f64[3] multiply(y, x)"},
  };
}

std::vector<DerivativeCase> reduction_derivatives() {
  const std::string init =
      "x = f64[4,6] parameter(0)\n z = f64[] constant(0)\n"
      "one = f64[] constant(1)\n low = f64[] constant(-9)\n"
      "high = f64[] constant(9)\n";
  return {
      {"reduce_add", init + "ROOT r = f64[4] reduce(x, z), dimensions={1}, to_apply=add"},
      {"reduce_max", init + "ROOT r = f64[6] reduce(x, low), dimensions={0}, to_apply=max"},
      {"reduce_max_of_init", init + "top = f64[] constant(0.5)\n"
                                    "ROOT r = f64[4] reduce(x, top), dimensions={1}, to_apply=max"},
      {"reduce_min", init + "ROOT r = f64[] reduce(x, high), dimensions={0,1}, to_apply=min"},
      {"reduce_mul", init + "ROOT r = f64[4] reduce(x, one), dimensions={1}, to_apply=mul"},
      {"reduce_of_init",
       "x = f64[4] parameter(0)\n i = f64[] parameter(1)\n"
       "ROOT r = f64[] reduce(x, i), dimensions={0}, to_apply=add"},
      {"argmax", init + "n = s32[] constant(0)\n i = s32[4,6] iota(), iota_dimension=1\n"
                        "t = (f64[4], s32[4]) reduce(x, i, low, n), dimensions={1}, "
                        "to_apply=argmax\n ROOT r = f64[4] get-tuple-element(t), index=0"},
      {"window_add", init + "ROOT r = f64[2,4] reduce-window(x, z), window={size=2x3 stride=2x1 "
                            "pad=0_0x0_0}, to_apply=add"},
      {"window_add_dilated", init + "ROOT r = f64[4,5] reduce-window(x, z), window={size=2x3 "
                                    "stride=1x2 pad=0_1x1_1 lhs_dilate=1x2 rhs_dilate=1x2}, "
                                    "to_apply=add"},
      {"window_max", init + "ROOT r = f64[2,4] reduce-window(x, low), window={size=2x3 stride=2x1 "
                            "pad=0_0x0_0}, to_apply=max"},
      {"window_mul", init + "ROOT r = f64[2,4] reduce-window(x, one), window={size=2x3 stride=2x1 "
                            "pad=0_0x0_0}, to_apply=mul"},
      {"cumulative_mul", init + "ROOT r = f64[4,6] reduce-window(x, one), window={size=1x6 "
                                "pad=0_0x5_0}, to_apply=mul"},
      {"cumulative_mul_from_the_end",
       "x = f64[7] parameter(0)\n one = f64[] constant(1)\n"
       "ROOT r = f64[7] reduce-window(x, one), window={size=7 pad=0_6}, to_apply=mul"},
      {"cumulative_mul_of_eleven",
       "x = f64[11] parameter(0)\n one = f64[] constant(1)\n"
       "ROOT r = f64[11] reduce-window(x, one), window={size=11 pad=10_0}, to_apply=mul"},
      {"cumulative_mul_by_an_initial_value",
       "x = f64[5] parameter(0)\n i = f64[] parameter(1)\n"
       "ROOT r = f64[5] reduce-window(x, i), window={size=5 pad=4_0}, to_apply=mul"},
      {"cumulative_max_by_an_initial_value",
       "x = f64[6] parameter(0)\n i = f64[] constant(0.1)\n"
       "ROOT r = f64[6] reduce-window(x, i), window={size=6 pad=0_5}, to_apply=max"},
      {"cumulative_argmax",
       "x = f64[6] parameter(0)\n i = s32[6] iota(), iota_dimension=0\n low = f64[] "
       "constant(-inf)\n n = s32[] constant(0)\n"
       "t = (f64[6], s32[6]) reduce-window(x, i, low, n), window={size=6 pad=5_0}, "
       "to_apply=argmax\n ROOT r = f64[6] get-tuple-element(t), index=0"},
      {"cumulative_max", init + "ROOT r = f64[4,6] reduce-window(x, low), window={size=4x1 "
                                "pad=0_3x0_0}, to_apply=max"},
      {"select_and_scatter",
       "x = f64[4,6] parameter(0)\n s = f64[2,3] parameter(1)\n"
       "z = f64[] constant(0)\n ROOT r = f64[4,6] select-and-scatter(x, s, z),"
       " window={size=2x2 stride=2x2}, select=ge, scatter=add"},
      {"map",
       "x = f64[4] parameter(0)\n y = f64[4] parameter(1)\n"
       "ROOT r = f64[4] map(x, y), dimensions={0}, to_apply=mix"},
      {"batch_norm_training",
       "x = f64[4,3] parameter(0)\n g = f64[3] parameter(1)\n b = f64[3] parameter(2)\n"
       "ROOT r = (f64[4,3], f64[3], f64[3]) batch-norm-training(x, g, b), epsilon=0.01, "
       "feature_index=1"},
      {"batch_norm_inference",
       "x = f64[4,3] parameter(0)\n g = f64[3] parameter(1)\n b = f64[3] parameter(2)\n"
       "m = f64[3] parameter(3)\n v = f64[3] parameter(4)\n"
       "ROOT r = f64[4,3] batch-norm-inference(x, g, b, m, v), epsilon=0.01, feature_index=1",
       0.3, 1},
      {"batch_norm_grad",
       "x = f64[4,3] parameter(0)\n g = f64[3] parameter(1)\n m = f64[3] parameter(2)\n"
       "v = f64[3] parameter(3)\n d = f64[4,3] parameter(4)\n"
       "ROOT r = (f64[4,3], f64[3], f64[3]) batch-norm-grad(x, g, m, v, d), epsilon=0.01, "
       "feature_index=1",
       0.3, 1},
  };
}

std::string convolution(const std::string& x, const std::string& k, const std::string& out,
                        const std::string& attributes) {
  return "x = f64" + x + " parameter(0)\n k = f64" + k + " parameter(1)\n ROOT r = f64" + out +
         " convolution(x, k), " + attributes;
}

std::vector<DerivativeCase> product_derivatives() {
  return {
      {"dot",
       "x = f64[2,3,4] parameter(0)\n y = f64[5,4,2] parameter(1)\n"
       "ROOT r = f64[2,3,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={2}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={1}"},
      {"dot_of_several",
       "x = f64[2,3,4] parameter(0)\n y = f64[4,5,2] parameter(1)\n"
       "ROOT r = f64[3,5] dot(x, y), lhs_contracting_dims={0,2}, "
       "rhs_contracting_dims={2,0}"},
      {"convolution", convolution("[2,5,6,3]", "[3,2,3,4]", "[2,3,3,4]",
                                  "window={size=3x2 stride=2x2 pad=1_1x0_0}, "
                                  "dim_labels=b01f_01io->b01f")},
      {"convolution_dilated", convolution("[2,5,3]", "[3,3,4]", "[2,7,4]",
                                          "window={size=3 pad=1_1 lhs_dilate=2 rhs_dilate=2}, "
                                          "dim_labels=b0f_0io->b0f")},
      {"convolution_reversed", convolution("[2,5,3]", "[3,3,4]", "[2,3,4]",
                                           "window={size=3 rhs_reversal=1}, "
                                           "dim_labels=b0f_0io->b0f")},
      {"convolution_feature_groups",
       convolution("[2,5,4]", "[3,2,6]", "[2,3,6]",
                   "window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2")},
      {"convolution_batch_groups",
       convolution("[4,5,3]", "[3,3,6]", "[2,3,6]",
                   "window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=2")},
      {"fft",
       "x = f64[2,6] parameter(0)\n y = f64[2,6] parameter(1)\n z = c128[2,6] complex(x, y)\n"
       "a = c128[2,6] fft(z), fft_type=FFT, fft_length={6}\n"
       "b = c128[2,6] fft(a), fft_type=IFFT, fft_length={2,6}\n"
       "p = f64[2,6] real(b)\n q = f64[2,6] imag(a)\n ROOT r = f64[2,6] add(p, q)"},
      {"rfft",
       "x = f64[2,6] parameter(0)\n a = c128[2,4] fft(x), fft_type=RFFT, fft_length={6}\n"
       "p = f64[2,4] real(a)\n q = f64[2,4] imag(a)\n ROOT r = f64[2,4] multiply(p, q)"},
      {"irfft",
       "x = f64[2,4] parameter(0)\n y = f64[2,4] parameter(1)\n"
       "z = c128[2,4] complex(x, y)\n a = f64[2,6] fft(z), fft_type=IRFFT, fft_length={6}\n"
       "b = f64[2,7] fft(z), fft_type=IRFFT, fft_length={7}\n"
       "ROOT r = (f64[2,6], f64[2,7]) tuple(a, b)"},
      {"triangular_solve",
       "a = f64[2,3,3] parameter(0)\n b = f64[2,3,2] parameter(1)\n"
       "ROOT r = f64[2,3,2] triangular-solve(a, b), left_side=true, lower=true, "
       "unit_diagonal=false, transpose_a=NO_TRANSPOSE",
       0.5, 1.5},
      {"triangular_solve_right",
       "a = f64[3,3] parameter(0)\n b = f64[2,3] parameter(1)\n"
       "ROOT r = f64[2,3] triangular-solve(a, b), left_side=false, lower=false, "
       "unit_diagonal=true, transpose_a=TRANSPOSE",
       0.5, 1.5},
      {"cholesky",
       "a = f64[3,3] parameter(0)\n t = f64[3,3] dot(a, a), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}\n i = f64[3,3] constant({{2,0,0},{0,2,0},{0,0,2}})\n"
       "s = f64[3,3] add(t, i)\n ROOT r = f64[3,3] cholesky(s), lower=true"},
  };
}

std::vector<DerivativeCase> control_derivatives() {
  return {
      {"call",
       "x = f64[3] parameter(0)\n t = (f64[3], f64[3]) call(x), to_apply=callee\n"
       "a = f64[3] get-tuple-element(t), index=0\n b = f64[3] get-tuple-element(t), index=1\n"
       "ROOT r = f64[3] multiply(a, b)"},
      {"conditional",
       "x = f64[3] parameter(0)\n y = f64[3] parameter(1)\n i = s32[] constant(1)\n"
       "c = f64[3] conditional(i, x, y), branch_computations={square, sine}\n"
       "p = pred[] constant(true)\n"
       "d = f64[3] conditional(p, c, x), true_computation=square, "
       "false_computation=sine\n ROOT r = f64[3] add(c, d)"},
      {"counted_while",
       "x = f64[3] parameter(0)\n z = s32[] constant(0)\n"
       "s = (s32[], f64[3]) tuple(z, x)\n"
       "w = (s32[], f64[3]) while(s), condition=cond, body=body\n"
       "ROOT r = f64[3] get-tuple-element(w), index=1"},
      {"while", "x = f64[3] parameter(0)\n ROOT r = f64[3] while(x), condition=small, body=double",
       0.5, 1, true},
      {"scan",
       "xs = f64[4,2] parameter(0)\n c = f64[2] parameter(1)\n w = f64[2,2] parameter(2)\n"
       "ROOT r = (f64[4,2], f64[2]) custom-call(xs, c, w), "
       "custom_call_target=\"tessera.Scan\", dimensions={0}, "
       "length=4, num_carries=1, num_constants=1, is_reverse=true, to_apply=step"},
  };
}

}  // namespace

std::string f64_program(const std::string& entry) {
  return "HloModule m\n" + kDerivativeCallees + "\nENTRY e {\n" + entry + "\n}\n";
}

std::vector<DerivativeCase> all_derivatives() {
  std::vector<DerivativeCase> out;
  for (const auto& cases : {elementwise_derivatives(), shape_derivatives(), reduction_derivatives(),
                            product_derivatives(), control_derivatives()}) {
    out.insert(out.end(), cases.begin(), cases.end());
  }
  return out;
}

}  // namespace tessera::testing
