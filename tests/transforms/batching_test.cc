// SPDX-License-Identifier: Apache-2.0
// The rule of every op: small programs on batches along all dims, compared with loops over entries.
#include <set>
#include <utility>

#include "src/ir/analysis/equivalence.h"
#include "tests/transforms/batch_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

const std::string kXY = "x = f32[2,4] parameter(0)\n y = f32[2,4] parameter(1)\n";

/// A row: entry, and callees of its own.
struct BatchCase {
  const char* name;
  std::string entry;
  std::string callees = "";
  bool exact = true;
};

std::vector<BatchCase> movement_cases() {
  return {
      {"select", kXY + "p = pred[2,4] parameter(2)\n ROOT r = f32[2,4] select(p, x, y)"},
      {"select by a scalar", kXY + "p = pred[] parameter(2)\n ROOT r = f32[2,4] select(p, x, y)"},
      {"select of scalars",
       "p = pred[] parameter(0)\n x = f32[] parameter(1)\n y = f32[] parameter(2)\n"
       "ROOT r = f32[] select(p, x, y)"},
      {"clamp", kXY + "z = f32[2,4] parameter(2)\n ROOT r = f32[2,4] clamp(x, y, z)"},
      {"clamp by scalars",
       "a = f32[] parameter(0)\n x = f32[2,4] parameter(1)\n b = f32[] parameter(2)\n"
       "ROOT r = f32[2,4] clamp(a, x, b)"},
      {"clamp by one scalar",
       "a = f32[] parameter(0)\n x = f32[2,4] parameter(1)\n b = f32[2,4] parameter(2)\n"
       "ROOT r = f32[2,4] clamp(a, x, b)"},
      {"stochastic_convert",
       "x = f32[2,4] parameter(0)\n n = u32[2,4] parameter(1)\n"
       "ROOT r = s8[2,4] stochastic-convert(x, n)"},
      {"set_dimension_size",
       "x = f32[2,4] parameter(0)\n n = s32[] constant(4)\n"
       "s = f32[2,4] set-dimension-size(x, n), dimensions={1}\n z = f32[] constant(0)\n"
       "ROOT r = f32[2] reduce(s, z), dimensions={1}, to_apply=add"},
      {"clamp of a scalar",
       "a = f32[] parameter(0)\n x = f32[] parameter(1)\n b = f32[] parameter(2)\n"
       "ROOT r = f32[] clamp(a, x, b)"},
      {"bitcast_convert",
       "x = f32[2,4] parameter(0)\n a = s32[2,4] bitcast-convert(x)\n"
       "b = u16[2,4,2] bitcast-convert(x)\n ROOT r = (s32[2,4], u16[2,4,2]) tuple(a, b)"},
      {"bitcast_convert to wider",
       "x = u16[3,2] parameter(0)\n ROOT r = u32[3] bitcast-convert(x)"},
      {"generated",
       "x = f32[4] parameter(0)\n i = s32[4] iota(), iota_dimension=0\n c = s32[4] convert(x)\n"
       "k = s32[4] constant({1,2,3,4})\n d = u32[] partition-id()\n f = u32[] replica-id()\n"
       "s = s32[4] add(c, i)\n t = s32[4] add(s, k)\n e = u32[] add(d, f)\n"
       "ROOT r = (s32[4], s32[4], u32[]) tuple(t, i, e)"},
      {"broadcast",
       "x = f32[2,4] parameter(0)\n a = f32[4,3,2] broadcast(x), dimensions={2,0}\n"
       "s = f32[] parameter(1)\n b = f32[5] broadcast(s), dimensions={}\n"
       "ROOT r = (f32[4,3,2], f32[5]) tuple(a, b)"},
      {"concatenate",
       "x = f32[2,4] parameter(0)\n y = f32[2,1] parameter(1)\n z = f32[2,3] parameter(2)\n"
       "ROOT r = f32[2,8] concatenate(x, y, z), dimensions={1}"},
      {"pad",
       "x = f32[2,4] parameter(0)\n v = f32[] parameter(1)\n"
       "ROOT r = f32[4,9] pad(x, v), padding=1_1_0x-1_3_1"},
      {"reshape",
       "x = f32[2,6] parameter(0)\n a = f32[12] reshape(x)\n b = f32[2,2,3] reshape(x)\n"
       "c = f32[4,3] reshape(x)\n d = f32[1,2,6,1] reshape(x)\n"
       "ROOT r = (f32[12], f32[2,2,3], f32[4,3], f32[1,2,6,1]) tuple(a, b, c, d)"},
      {"reverse", "x = f32[2,4,3] parameter(0)\n ROOT r = f32[2,4,3] reverse(x), dimensions={0,2}"},
      {"slice", "x = f32[5,4] parameter(0)\n ROOT r = f32[2,2] slice(x), slice={[1:5:2], [1:3]}"},
      {"transpose",
       "x = f32[2,4,3] parameter(0)\n ROOT r = f32[3,2,4] transpose(x), dimensions={2,0,1}"},
      {"structure",
       kXY +
           "u = (f32[2,4], f32[2,4]) tuple(y, x)\n"
           "t = (f32[2,4], (f32[2,4], f32[2,4])) tuple(x, u)\n" +
           "b = (f32[2,4], (f32[2,4], f32[2,4])) opt-barrier(t)\n"
           "c = (f32[2,4], f32[2,4]) get-tuple-element(b), index=1\n"
           "d = f32[2,4] get-tuple-element(c), index=0\n a = token[] after-all()\n"
           "n = f32[2,4] add-dependency(d, a)\n s = s32[] get-dimension-size(n), dimensions={1}\n"
           "k = (f32[2,4], f32[2,4]) copy(c)\n"
           "ROOT r = (f32[2,4], s32[], (f32[2,4], f32[2,4])) tuple(n, s, k)"},
  };
}

std::vector<BatchCase> indexed_cases() {
  return {
      {"dynamic_slice",
       "x = f32[5,4,2] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)\n"
       "k = s32[] constant(0)\n"
       "ROOT r = f32[2,3,2] dynamic-slice(x, i, j, k), dynamic_slice_sizes={2,3,2}"},
      {"dynamic_slice by a vector",
       "x = f32[5,4] parameter(0)\n i = s32[2] parameter(1)\n"
       "ROOT r = f32[2,3] dynamic-slice(x, i), dynamic_slice_sizes={2,3}"},
      {"dynamic_slice of all",
       "x = f32[5] parameter(0)\n i = s32[] parameter(1)\n"
       "ROOT r = f32[5] dynamic-slice(x, i), dynamic_slice_sizes={5}"},
      {"dynamic_update_slice",
       "x = f32[5,4] parameter(0)\n u = f32[2,3] parameter(1)\n i = s32[] parameter(2)\n"
       "j = s32[] parameter(3)\n ROOT r = f32[5,4] dynamic-update-slice(x, u, i, j)"},
      {"dynamic_update_slice by small integers",
       "x = f32[300,2] parameter(0)\n u = f32[2,2] parameter(1)\n i = u8[] parameter(2)\n"
       "j = u8[] constant(3)\n ROOT r = f32[300,2] dynamic-update-slice(x, u, i, j)"},
      {"gather",
       "x = f32[5,4] parameter(0)\n i = s32[3,2] parameter(1)\n"
       "ROOT r = f32[3,1,3] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, "
       "start_index_map={1,0}, index_vector_dim=1, slice_sizes={1,3}"},
      {"gather of rows",
       "x = f32[5,4] parameter(0)\n i = s32[3,2] parameter(1)\n"
       "ROOT r = f32[3,4,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
       "start_index_map={0}, index_vector_dim=2, slice_sizes={1,4}"},
      {"gather with batching dims",
       "x = f32[3,5,4] parameter(0)\n i = s32[2,3] parameter(1)\n"
       "ROOT r = f32[2,3,4] gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, "
       "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={1}, "
       "index_vector_dim=2, slice_sizes={1,1,4}"},
      {"scatter",
       "x = f32[5,4] parameter(0)\n i = s32[3] parameter(1)\n u = f32[3,4] parameter(2)\n"
       "ROOT r = f32[5,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"},
      {"scatter of windows",
       "x = f32[5,4] parameter(0)\n i = s32[2,3] parameter(1)\n u = f32[2,3,2] parameter(2)\n"
       "ROOT r = f32[5,4] scatter(x, i, u), update_window_dims={0,2}, inserted_window_dims={}, "
       "scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=add"},
      {"scatter of two",
       "x = f32[5] parameter(0)\n y = s32[5] parameter(1)\n i = s32[3,1] parameter(2)\n"
       "u = f32[3] parameter(3)\n v = s32[3] parameter(4)\n"
       "ROOT r = (f32[5], s32[5]) scatter(x, y, i, u, v), update_window_dims={}, "
       "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
       "to_apply=argmax"},
      {"scatter with batching dims",
       "x = f32[3,5] parameter(0)\n i = s32[2,3] parameter(1)\n u = f32[2,3] parameter(2)\n"
       "ROOT r = f32[3,5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1}, "
       "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
       "scatter_indices_batching_dims={1}, index_vector_dim=2, to_apply=max"},
  };
}

std::vector<BatchCase> linear_cases() {
  return {
      {"dot",
       "x = f32[2,3,4] parameter(0)\n y = f32[5,4,2] parameter(1)\n"
       "ROOT r = f32[2,3,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={2}, "
       "lhs_contracting_dims={2}, rhs_contracting_dims={1}"},
      {"dot of vectors",
       "x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
       "ROOT r = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
      {"ragged_dot",
       "x = f32[5,3] parameter(0)\n y = f32[2,3,4] parameter(1)\n g = s32[2] constant({2,3})\n"
       "ROOT r = f32[5,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"},
      {"ragged_dot with groups of each entry",
       "x = f32[5,3] parameter(0)\n y = f32[2,3,4] parameter(1)\n a = s32[] parameter(2)\n"
       "z = s32[] constant(0)\n f = s32[] constant(5)\n c = s32[] clamp(z, a, f)\n"
       "d = s32[] subtract(f, c)\n c1 = s32[1] reshape(c)\n d1 = s32[1] reshape(d)\n"
       "g = s32[2] concatenate(c1, d1), dimensions={0}\n"
       "ROOT r = f32[5,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"},
      {"scaled_dot",
       "x = f32[2,4] parameter(0)\n y = f32[3,4] parameter(1)\n a = f32[2,2] parameter(2)\n"
       "b = f32[3,2] parameter(3)\n ROOT r = f32[2,3] scaled-dot(x, y, a, b), "
       "lhs_contracting_dims={1}, rhs_contracting_dims={1}"},
      {"outer product",
       "x = f32[4,2] parameter(0)\n y = f32[3] parameter(1)\n"
       "ROOT r = f32[4,2,3] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}"},
      {"convolution",
       "x = f32[2,5,6,3] parameter(0)\n k = f32[2,3,3,4] parameter(1)\n"
       "ROOT r = f32[2,5,3,4] convolution(x, k), window={size=2x3 stride=1x2 pad=0_1x1_1}, "
       "dim_labels=b01f_01io->b01f"},
      {"convolution in groups",
       "x = f32[2,6,4] parameter(0)\n k = f32[2,2,6] parameter(1)\n"
       "ROOT r = f32[2,6,3] convolution(x, k), window={size=2}, "
       "dim_labels=bf0_i0o->bf0, feature_group_count=3"},
      {"convolution in groups of the batch",
       "x = f32[4,3,4] parameter(0)\n k = f32[2,6,3] parameter(1)\n"
       "ROOT r = f32[6,2,3] convolution(x, k), window={size=2}, "
       "dim_labels=bf0_0oi->fb0, batch_group_count=2"},
      {"fft",
       "x = f32[2,4,6] parameter(0)\n a = c64[2,4,4] fft(x), fft_type=RFFT, fft_length={4,6}\n"
       "b = c64[2,4,4] fft(a), fft_type=IFFT, fft_length={4}\n"
       "c = f32[2,4,6] fft(b), fft_type=IRFFT, fft_length={6}\n"
       "ROOT r = (c64[2,4,4], f32[2,4,6]) tuple(a, c)",
       "", false},
      {"cholesky",
       "x = f32[3,3] parameter(0)\n p = f32[3,3] dot(x, x), lhs_contracting_dims={1}, "
       "rhs_contracting_dims={1}\n i = s32[3,3] iota(), iota_dimension=0\n"
       "j = s32[3,3] iota(), iota_dimension=1\n d = pred[3,3] compare(i, j), direction=EQ\n"
       "n = f32[] constant(9)\n m = f32[3,3] broadcast(n), dimensions={}\n q = f32[3,3] add(p, m)\n"
       "s = f32[3,3] select(d, q, p)\n ROOT r = f32[3,3] cholesky(s), lower=true",
       "", false},
      {"triangular_solve",
       "a = f32[2,3,3] parameter(0)\n b = f32[2,3,4] parameter(1)\n o = f32[] constant(5)\n"
       "p = f32[2,3,3] broadcast(o), dimensions={}\n c = f32[2,3,3] add(a, p)\n"
       "ROOT r = f32[2,3,4] triangular-solve(c, b), left_side=true, lower=true, "
       "unit_diagonal=false, transpose_a=NO_TRANSPOSE",
       "", false},
      {"triangular_solve from the right",
       "a = f32[3,3] parameter(0)\n b = f32[4,3] parameter(1)\n o = f32[] constant(5)\n"
       "p = f32[3,3] broadcast(o), dimensions={}\n c = f32[3,3] add(a, p)\n"
       "ROOT r = f32[4,3] triangular-solve(c, b), left_side=false, lower=false, "
       "unit_diagonal=true, transpose_a=TRANSPOSE",
       "", false},
  };
}

std::vector<BatchCase> reduction_cases() {
  return {
      {"reduce",
       "x = f32[2,4,3] parameter(0)\n z = f32[] parameter(1)\n"
       "ROOT r = f32[4] reduce(x, z), dimensions={2,0}, to_apply=add"},
      {"reduce by another function",
       "x = f32[2,4] parameter(0)\n z = f32[] parameter(1)\n"
       "ROOT r = f32[2] reduce(x, z), dimensions={1}, to_apply=mix"},
      {"reduce of two",
       "x = f32[2,4] parameter(0)\n i = s32[2,4] parameter(1)\n a = f32[] constant(-inf)\n"
       "k = s32[] parameter(2)\n"
       "ROOT r = (f32[2], s32[2]) reduce(x, i, a, k), dimensions={1}, to_apply=argmax"},
      {"reduce_window",
       "x = f32[5,4] parameter(0)\n z = f32[] parameter(1)\n"
       "ROOT r = f32[3,4] reduce-window(x, z), window={size=2x1 stride=2x1 pad=0_1x0_0}, "
       "to_apply=max"},
      {"select_and_scatter",
       "x = f32[4,6] parameter(0)\n s = f32[2,3] parameter(1)\n z = f32[] parameter(2)\n"
       "ROOT r = f32[4,6] select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=ge, "
       "scatter=add"},
      {"map", kXY + "ROOT r = f32[2,4] map(x, y), dimensions={0,1}, to_apply=mix"},
      {"sort",
       "x = f32[4,3] parameter(0)\n ROOT r = f32[4,3] sort(x), dimensions={0}, to_apply=lt"},
      {"sort of two",
       "x = f32[4,3] parameter(0)\n i = s32[4,3] parameter(1)\n"
       "ROOT r = (f32[4,3], s32[4,3]) sort(x, i), dimensions={1}, is_stable=true, to_apply=lt2"},
      {"topk",
       "x = f32[4,5] parameter(0)\n ROOT r = (f32[4,2], s32[4,2]) topk(x), k=2, largest=true"},
      {"batch_norm_training",
       "x = f32[4,3,2] parameter(0)\n s = f32[3] parameter(1)\n o = f32[3] parameter(2)\n"
       "ROOT r = (f32[4,3,2], f32[3], f32[3]) batch-norm-training(x, s, o), epsilon=0.01, "
       "feature_index=1",
       "", false},
      {"batch_norm_inference",
       "x = f32[4,3] parameter(0)\n s = f32[3] parameter(1)\n o = f32[3] parameter(2)\n"
       "m = f32[3] parameter(3)\n w = f32[3] parameter(4)\n v = f32[3] abs(w)\n"
       "ROOT r = f32[4,3] batch-norm-inference(x, s, o, m, v), epsilon=0.01, feature_index=1",
       "", false},
      {"batch_norm_grad",
       "x = f32[3,4] parameter(0)\n s = f32[3] parameter(1)\n m = f32[3] parameter(2)\n"
       "w = f32[3] parameter(3)\n v = f32[3] abs(w)\n g = f32[3,4] parameter(4)\n"
       "ROOT r = (f32[3,4], f32[3], f32[3]) batch-norm-grad(x, s, m, v, g), epsilon=0.1, "
       "feature_index=0",
       "", false},
      {"rng_bit_generator",
       "k = u64[2] parameter(0)\n"
       "ROOT r = (u64[2], u32[5]) rng-bit-generator(k), algorithm=rng_three_fry"},
  };
}

std::string callee_of(const std::string& target, const std::string& rest) {
  return "custom-call(x, y), custom_call_target=\"" + target + "\", " + rest;
}

std::vector<BatchCase> call_cases() {
  const std::string f = R"(
f { x = f32[2,4] parameter(0)
  y = f32[2,4] parameter(1)
  n = f32[2,4] negate(y)
  s = f32[2,4] multiply(x, n)
  ROOT t = (f32[2,4], f32[2,4]) tuple(s, n) }
swapped { t = (f32[2,4], f32[2,4]) parameter(0)
  a = f32[2,4] get-tuple-element(t), index=0
  b = f32[2,4] get-tuple-element(t), index=1
  ROOT r = (f32[2,4], f32[2,4]) tuple(b, a) }
)";
  const std::string result = "ROOT r = (f32[2,4], f32[2,4]) ";
  return {
      {"call",
       kXY +
           "c = (f32[2,4], f32[2,4]) call(x, y), to_apply=f\n"
           "d = (f32[2,4], f32[2,4]) call(c), to_apply=swapped\n" +
           result + "call(d), to_apply=swapped",
       f},
      {"fusion", kXY + result + "fusion(x, y), kind=kLoop, calls=f", f},
      {"remat",
       kXY + result +
           callee_of("tessera.Remat",
                     "policies=[dots_saveable], prevent_cse=true, "
                     "differentiated=false, label=\"g\", called_computations={f}"),
       f},
      {"custom_partitioning",
       kXY + result + callee_of("CustomSPMDPartitioning", "called_computations={f}"), f},
      {"custom_derivative",
       kXY + result +
           callee_of("tessera.CustomDerivative",
                     "rule=jvp, num_nondiff=0, symbolic_zeros=false, label=\"g\", "
                     "called_computations={f}"),
       f},
      {"constraints",
       "x = f32[2,4] parameter(0)\n"
       "a = f32[2,4] custom-call(x), custom_call_target=\"Sharding\", sharding={devices=[2,1]<=[2]}"
       "\n b = f32[2,4] custom-call(a), custom_call_target=\"xla.sdy.PropagationBarrier\", "
       "frontend_attributes={xla.sdy.allowed_direction=\"FORWARD\"}\n"
       "c = f32[2,4] custom-call(b), custom_call_target=\"tessera.pvary\", manual_axes=[\"x\"]\n"
       "ROOT r = f32[2,4] custom-call(c), custom_call_target=\"MoveToHost\""},
      {"custom_call that stands for a program",
       "x = f32[2,6] parameter(0)\n a = f32[2,6] custom-call(x), custom_call_target=\"mhlo.tan\"\n"
       "k = (f32[2,3], s32[2,3]) custom-call(x), custom_call_target=\"TopK\"\n"
       "ROOT r = (f32[2,6], (f32[2,3], s32[2,3])) tuple(a, k)",
       "", false},
  };
}

std::vector<BatchCase> control_cases() {
  const std::string branches = R"(
left { t = (f32[3], s32[]) parameter(0)
  x = f32[3] get-tuple-element(t), index=0
  k = s32[] get-tuple-element(t), index=1
  n = f32[3] negate(x)
  ROOT r = (f32[3], s32[]) tuple(n, k) }
right { x = f32[3] parameter(0)
  k = s32[] constant(7)
  ROOT r = (f32[3], s32[]) tuple(x, k) }
middle { x = f32[3] parameter(0)
  c = f32[3] constant({1,2,3})
  k = s32[] constant(7)
  ROOT r = (f32[3], s32[]) tuple(c, k) }
)";
  const std::string operands =
      "x = f32[3] parameter(1)\n k = s32[] parameter(2)\n t = (f32[3], s32[]) tuple(x, k)\n"
      "ROOT r = (f32[3], s32[]) conditional(i, t, ";
  const std::string loops = R"(
below { s = (s32[], f32[3], f32[3], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=3
  ROOT r = pred[] compare(i, n), direction=LT }
grow { s = (s32[], f32[3], f32[3], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  w = f32[3] get-tuple-element(s), index=2
  n = s32[] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[3] add(x, w)
  ROOT r = (s32[], f32[3], f32[3], s32[]) tuple(j, y, w, n) }
far { x = f32[] parameter(0)
  n = f32[] constant(50)
  ROOT r = pred[] compare(x, n), direction=LT }
double { x = f32[] parameter(0)
  o = f32[] constant(5)
  y = f32[] add(x, o)
  ROOT r = f32[] add(y, y) }
below5 { s = (f32[3], s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(2)
  ROOT r = pred[] compare(i, n), direction=LT }
shift { s = (f32[3], s32[], f32[3], f32[3]) parameter(0)
  a = f32[3] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  b = f32[3] get-tuple-element(s), index=2
  c = f32[3] get-tuple-element(s), index=3
  o = s32[] constant(1)
  j = s32[] add(i, o)
  ROOT r = (f32[3], s32[], f32[3], f32[3]) tuple(c, j, a, b) }
step { x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  m = s32[] parameter(2)
  k = f32[3] parameter(3)
  d = f32[3] multiply(c, k)
  e = f32[3] add(d, x)
  o = s32[] constant(1)
  n = s32[] add(m, o)
  ROOT t = (f32[3], s32[], f32[3], s32[]) tuple(e, m, e, n) }
)";
  const std::string init =
      "i = s32[] parameter(0)\n x = f32[3] parameter(1)\n"
      "w = f32[3] parameter(2)\n n = s32[] parameter(3)\n";
  return {
      {"conditional",
       "i = pred[] parameter(0)\n" + operands +
           "x), true_computation=left, false_computation=right",
       branches},
      {"conditional of three",
       "i = s32[] parameter(0)\n" + operands + "x, x), branch_computations={left, right, middle}",
       branches},
      {"while",
       init + "t = (s32[], f32[3], f32[3], s32[]) tuple(i, x, w, n)\n"
              "ROOT r = (s32[], f32[3], f32[3], s32[]) while(t), condition=below, body=grow",
       loops},
      {"while of one number",
       "x = f32[] parameter(0)\n ROOT r = f32[] while(x), condition=far, body=double", loops},
      {"while whose carries change places",
       "i = s32[] constant(0)\n a = f32[3] parameter(0)\n b = f32[3] parameter(1)\n"
       "c = f32[3] parameter(2)\n t = (f32[3], s32[], f32[3], f32[3]) tuple(a, i, b, c)\n"
       "ROOT r = (f32[3], s32[], f32[3], f32[3]) while(t), condition=below5, body=shift, "
       "backend_config={\"known_trip_count\":{\"n\":\"2\"}}",
       loops},
      {"scan",
       "x = f32[4,3] parameter(0)\n c = f32[3] parameter(1)\n m = s32[] parameter(2)\n"
       "k = f32[3] parameter(3)\n"
       "ROOT r = (f32[4,3], s32[4], f32[3], s32[]) custom-call(x, c, m, k), "
       "custom_call_target=\"tessera.Scan\", dimensions={0}, num_carries=2, is_reverse=true, "
       "length=4, num_constants=1, called_computations={step}",
       loops},
      {"scan along dim 1",
       "x = f32[3,4] parameter(0)\n c = f32[3] parameter(1)\n"
       "ROOT r = (f32[3,4], f32[3]) scan(x, c), dimensions={1}, num_carries=1, to_apply=sum",
       R"(
sum { x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  d = f32[3] add(c, x)
  ROOT t = (f32[3], f32[3]) tuple(d, d) }
)"},
  };
}

std::vector<BatchCase> all_cases() {
  std::vector<BatchCase> out;
  for (auto family :
       {movement_cases, indexed_cases, linear_cases, reduction_cases, call_cases, control_cases}) {
    for (BatchCase& c : family()) out.push_back(std::move(c));
  }
  return out;
}

void expect_family(const std::vector<BatchCase>& cases) {
  for (const BatchCase& c : cases) {
    SCOPED_TRACE(c.name);
    expect_batched_at_random(batch_program(c.entry, c.callees), c.exact);
  }
}

TEST(Batching, OpsThatMoveElements) { expect_family(movement_cases()); }
TEST(Batching, OpsWhosePositionsAreValues) { expect_family(indexed_cases()); }
TEST(Batching, DotsConvolutionsTransformsAndSolvers) { expect_family(linear_cases()); }
TEST(Batching, ReductionsWindowsSortsAndStatistics) { expect_family(reduction_cases()); }
TEST(Batching, Calls) { expect_family(call_cases()); }
TEST(Batching, BranchesAndLoops) { expect_family(control_cases()); }

DType type_for(Opcode op, bool* exact) {
  const unsigned t = ir::info(op).types;
  *exact = true;
  if ((t & ir::types::floating) == 0) {
    return (t & (ir::types::signed_integer | ir::types::unsigned_integer)) != 0 ? DType::s32
           : (t & ir::types::complex) != 0                                      ? DType::c64
                                                                                : DType::pred;
  }
  *exact = !ir::has_trait(op, ir::traits::transcendental);
  return DType::f32;
}

/// The ops that are given apart, as they take other operands.
bool is_plain_elementwise(Opcode op) {
  return ir::is_elementwise(op) && op != Opcode::select && op != Opcode::clamp &&
         op != Opcode::bitcast_convert && op != Opcode::stochastic_convert;
}

TEST(Batching, ElementwiseOps) {
  Dice dice(3);
  for (int n = 0; n < ir::opcode_count(); ++n) {
    const auto op = Opcode(n);
    if (!is_plain_elementwise(op)) continue;
    SCOPED_TRACE(std::string(ir::name(op)));
    bool exact = false;
    const Shape shape(type_for(op, &exact), {2, 3});
    ir::Module module;
    ir::Builder b(module.add_computation("e"));
    module.set_entry(b.computation());
    std::vector<ir::Instruction*> xs{b.parameter(0, shape)};
    if (ir::info(op).operands == 2) xs.push_back(b.parameter(1, shape));
    ir::Attributes attrs;
    if (op == Opcode::compare) attrs = ir::CompareAttrs{ir::Direction::lt};
    if (op == Opcode::reduce_precision) attrs = ir::ReducePrecisionAttrs{5, 3};
    ir::Instruction* root = op == Opcode::convert
                                ? b.emit_shaped(op, Shape(DType::s32, shape.dims), xs)
                                : b.emit(op, xs, attrs);
    b.computation()->set_root(root);
    for (int trial = 0; trial < 4; ++trial) {
      Dims axes;
      for (std::size_t k = 0; k < xs.size(); ++k) {
        axes.push_back(k == 0 || trial % 2 == 0 ? dice.below(3) : -1);
      }
      if (trial == 3) std::swap(axes.front(), axes.back());
      expect_batched(module, axes, 4, dice, exact && shape.dtype != DType::f32);
    }
  }
}

#define NAME_OF(token) #token
#define RULE_NAME(token) NAME_OF(token)

/// Ops whose value no test can compare: noise, and what stands for other ops.
TEST(Batching, EveryOpWithARuleHasACase) {
  std::set<Opcode> seen{Opcode::rng, Opcode::domain, Opcode::custom_call,
                        Opcode::manual_computation};
  for (const BatchCase& c : all_cases()) {
    const auto module = ir::parse_hlo(batch_program(c.entry, c.callees));
    for (const auto& part : module->computations()) {
      for (const auto& i : part->instructions()) seen.insert(i->opcode);
    }
  }
  const std::vector<std::pair<Opcode, std::string>> rules = {
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, transpose, batch)                             \
  {Opcode::enumerator, RULE_NAME(batch)},
#include "src/ir/opcode_list.inc"
  };
  for (const auto& [op, rule] : rules) {
    if (rule == "batch_none" || is_plain_elementwise(op) || ir::is_collective(op)) continue;
    EXPECT_EQ(seen.count(op), 1u) << ir::name(op) << ", which " << rule << " batches";
  }
}

}  // namespace
}  // namespace tessera::testing
