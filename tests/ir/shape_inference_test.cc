// SPDX-License-Identifier: Apache-2.0
// The inferred shape of each opcode, and the messages for invalid operands.
#include "src/ir/shapes/shape_inference.h"

#include "tests/ir/text_cases.h"

namespace tessera::ir::testing {
namespace {

// Operands that the cases use, on one line, so that the case stands on the next.
std::string body_with(const std::string& line) {
  static const char* const kParameters[] = {
      "x = f32[4,6]",      "y = f32[4,6]",       "v = f32[6]",         "s = f32[]",
      "i = s32[]",         "p = pred[4,6]",      "n = s32[4,6]",       "u = u32[4,6]",
      "z = c64[4,6]",      "d = f64[4,6]",       "m = f32[4,4]",       "t = (f32[4,6], s32[])",
      "k = token[]",       "img = f32[2,8,8,3]", "g = f32[3]",         "ker = f32[3,3,3,4]",
      "idx = s32[3,1]",    "upd = f32[3,6]",     "src = f32[2,4,4,3]", "q = pred[]",
      "f = f32[4]",        "key = u64[2]",       "b3 = f32[5,4,6]",    "w3 = f32[5,6,7]",
      "bidx = s32[5,2,1]", "h = bf16[4,6]",      "mb = f32[5,4,4]",    "e = f32[0,6]"};
  std::string out;
  int number = 0;
  for (const char* p : kParameters) {
    out += std::string(p) + " parameter(" + std::to_string(number++) + ") ";
  }
  return out + "\n" + line;
}

struct Case {
  const char* line;
  const char* shape;  ///< the result, or the parts of the message if it starts with '!'
};

class ShapeInference : public ::testing::TestWithParam<Case> {};

TEST_P(ShapeInference, GivesTheShapeOrSaysWhyNot) {
  const Case& c = GetParam();
  std::string text = with_body(body_with(c.line));
  if (c.shape[0] != '!') {
    std::unique_ptr<Module> m;
    ASSERT_NO_THROW(m = parse_hlo(text, "t.hlo")) << c.line;
    EXPECT_EQ(m->entry()->instructions().back()->shape.to_string(), c.shape) << c.line;
    return;
  }
  try {
    parse_hlo(text, "t.hlo");
    ADD_FAILURE() << "accepted: " << c.line;
  } catch (const Error& e) {
    bool kind = dynamic_cast<const ShapeError*>(&e) || dynamic_cast<const DTypeError*>(&e);
    std::string what = e.what();
    EXPECT_TRUE(kind) << what;
    EXPECT_EQ(what.substr(0, 10), "t.hlo:21: ") << what;
    EXPECT_NE(what.find("r = "), std::string::npos) << what;
    std::istringstream in(c.shape + 1);
    for (std::string part; std::getline(in, part, '|');) {
      EXPECT_NE(what.find(part), std::string::npos) << "no \"" << part << "\" in: " << what;
    }
  }
}

// clang-format off: one case, one line.
const Case kElementwise[] = {
    {"r = add(x, y)", "f32[4,6]"},
    {"r = add(p, p)", "pred[4,6]"},
    {"r = add(x, v)", "!add(f32[4,6], f32[6]): |dims [4,6] and [6]|must be equal (broadcast one)"},
    {"r = add(x, d)", "!element types f32 and f64|convert one"},
    {"r = add(t, x)", "!operand 0 must be an array, not (f32[4,6], s32[])"},
    {"r = subtract(p, p)",
     "!operand 0 has element type pred; valid: integer, floating point, complex"},
    {"r = maximum(z, z)", "!c64; valid: pred, integer, floating point"},
    {"r = and(x, x)", "!f32; valid: pred, integer"},
    {"r = and(n, n)", "s32[4,6]"},
    {"r = shift-left(p, p)", "!pred; valid: integer"},
    {"r = exponential(n)", "!s32; valid: floating point, complex"},
    {"r = tanh(z)", "c64[4,6]"},
    {"r = floor(z)", "!c64; valid: floating point"},
    {"r = abs(z)", "f32[4,6]"},
    {"r = real(z)", "f32[4,6]"},
    {"r = imag(d)", "f64[4,6]"},
    {"r = real(n)", "!s32; valid: floating point, complex"},
    {"r = complex(x, y)", "c64[4,6]"},
    {"r = complex(h, h)", "!must be f32 or f64, not bf16"},
    {"r = is-finite(x)", "pred[4,6]"},
    {"r = not(p)", "pred[4,6]"},
    {"r = not(x)", "!f32; valid: pred, integer"},
    {"r = popcnt(u)", "u32[4,6]"},
    {"r = remainder(z, z)", "!c64; valid: integer, floating point"},
    {"r = compare(x, y), direction=LT", "pred[4,6]"},
    {"r = compare(z, z), direction=EQ", "pred[4,6]"},
    {"r = compare(z, z), direction=LT", "!complex numbers have no order; valid directions: EQ, NE"},
    {"r = compare(n, n), direction=LT, type=FLOAT",
     "!comparison type FLOAT doesn't fit element type s32"},
    {"r = compare(x, y), direction=LT, type=UNSIGNED", "!UNSIGNED doesn't fit element type f32"},
    {"r = select(p, x, y)", "f32[4,6]"},
    {"r = select(q, x, y)", "f32[4,6]"},
    {"r = select(x, x, y)", "!operand 0 chooses and must be pred, not f32"},
    {"r = select(p, v, v)", "!operands 0 and 1 have dims [4,6] and [6]"},
    {"r = select(p, x, n)", "!element types f32 and s32"},
    {"r = clamp(s, x, s)", "f32[4,6]"},
    {"r = clamp(x, x, y)", "f32[4,6]"},
    {"r = clamp(v, x, s)", "!operands 0 and 1 have dims [6] and [4,6]"},
    {"r = clamp(i, x, i)", "!element types s32 and f32"},
    {"r = s32[4,6] convert(x)", "s32[4,6]"},
    {"r = convert(x)", "!shape can't be inferred from the operands and must be given"},
    {"r = f32[4,6] convert(z)", "!complex number can't be converted to f32; take its real part"},
    {"r = f32[6,4] convert(x)", "!the result is f32[4,6] and f32[6,4] was declared"},
    {"r = u32[4,6] bitcast-convert(x)", "u32[4,6]"},
    {"r = u8[4,6,4] bitcast-convert(x)", "u8[4,6,4]"},
    {"r = u64[] bitcast-convert(key)", "!the result is u64[2] and u64[] was declared"},
    {"r = f64[4] bitcast-convert(x)", "!the last dim must be 2, the number of parts"},
    {"r = f6e2m3fn[4,6] bitcast-convert(h)", "!16 bits as ones of 6 (bf16 and f6e2m3fn); valid"},
    {"r = f4e2m1fn[4,6,4] bitcast-convert(h)", "f4e2m1fn[4,6,4]"},
    {"r = pred[4,6] bitcast-convert(x)", "!pred has no bits"},
    {"r = f64[4,6] bitcast-convert(z)", "!between real and complex"},
    {"r = reduce-precision(x), exponent_bits=5, mantissa_bits=10", "f32[4,6]"},
    {"r = reduce-precision(x), exponent_bits=0, mantissa_bits=10", "!valid: at least 1 and 0"},
    {"r = copy(t)", "(f32[4,6], s32[])"},
    {"r = bf16[4,6] stochastic-convert(x, u)", "bf16[4,6]"},
    {"r = bf16[4,6] stochastic-convert(x, n)", "!must be unsigned"},
};

const Case kStructure[] = {
    {"r = f32[4,6] broadcast(v), dimensions={1}", "f32[4,6]"},
    {"r = f32[6,4] broadcast(x), dimensions={1,0}", "f32[6,4]"},
    {"r = f32[4,6] broadcast(v), dimensions={0}",
     "!operand dim 0 of size 6 goes to dim 0 of f32[4,6]|must be equal"},
    {"r = f32[4,6] broadcast(v), dimensions={2}", "!broadcast dim 2 is not in [0, 2)"},
    {"r = f32[4,6] broadcast(v), dimensions={}", "!one result dim per operand dim (1)"},
    {"r = f32[4,6] broadcast(x), dimensions={0,0}", "!broadcast dim 0 stands twice"},
    {"r = broadcast(s), dimensions={}", "!must be given"},
    {"r = f32[24] reshape(x)", "f32[24]"},
    {"r = f32[25] reshape(x)", "!can't become f32[25]: 24 elements are not 25"},
    {"r = transpose(b3), dimensions={2,0,1}", "f32[6,5,4]"},
    {"r = transpose(x), dimensions={0}", "!must be a permutation of 2 dims"},
    {"r = transpose(x), dimensions={0,2}", "!transposed dim 2 is not in [0, 2)"},
    {"r = concatenate(x, y), dimensions={1}", "f32[4,12]"},
    {"r = concatenate(x, m), dimensions={0}",
     "!operand 1 is f32[4,4] and operand 0 is f32[4,6]; they may differ in dim 0 only"},
    {"r = concatenate(x, m), dimensions={1}", "f32[4,10]"},
    {"r = concatenate(s, s), dimensions={0}", "!rank 0 array (it has no dims)"},
    {"r = concatenate(x, n), dimensions={0}", "!element types f32 and s32"},
    {"r = concatenate(x), dimensions={0,1}", "!exactly one dimension, not {0,1}"},
    {"r = slice(x), slice={[1:4], [0:6:4]}", "f32[3,2]"},
    {"r = slice(x), slice={[1:5], [0:6]}", "![1:5:1] of dim 0; valid: 0 <= start <= limit <= 4"},
    {"r = slice(x), slice={[1:4], [0:6:0]}", "!stride >= 1"},
    {"r = slice(x), slice={[1:4]}", "!one [start:limit] per dim (2), not 1"},
    {"r = pad(x, s), padding=1_2x0_0_3", "f32[7,21]"},
    {"r = pad(x, s), padding=-3_0x0_0", "f32[1,6]"},
    {"r = pad(x, s), padding=-3_-2x0_0", "!padding -3_-2_0 gives dim 0 the negative size -1"},
    {"r = pad(x, s), padding=0_0", "!padding for each of 2 dims, not 1"},
    {"r = pad(x, v), padding=0_0x0_0", "!operand 1, the padding value, must be a scalar"},
    {"r = pad(x, s), padding=0_0_-1x0_0", "!interior padding -1 of dim 0"},
    {"r = pad(x, s), padding=9223372036854775807_1x0_0", "!beyond 64 bits"},
    {"r = pad(e, s), padding=0_0_5x0_0", "f32[0,6]"},
    {"r = reverse(x), dimensions={1}", "f32[4,6]"},
    {"r = reverse(x), dimensions={1,1}", "!reversed dim 1 stands twice in {1,1}"},
    {"r = s32[3,4] iota(), iota_dimension=1", "s32[3,4]"},
    {"r = s32[3,4] iota(), iota_dimension=2", "!iota_dimension 2 is not in [0, 2)"},
    {"r = s32[] iota(), iota_dimension=0", "!rank 0"},
    {"r = pred[3] iota(), iota_dimension=0", "!can't count in pred"},
    {"r = u32[24] bitcast(x)", "u32[24]"},
    {"r = u32[23] bitcast(x)", "!96 bytes are not 92"},
    {"r = dynamic-slice(x, i, i), dynamic_slice_sizes={1,6}", "f32[1,6]"},
    {"r = dynamic-slice(x, i), dynamic_slice_sizes={1,6}",
     "!one start position per dim (2), not 1"},
    {"r = dynamic-slice(x, i, i), dynamic_slice_sizes={5,6}",
     "!slice size 5 of dim 0 is not in [0, 4]"},
    {"r = dynamic-slice(x, s, s), dynamic_slice_sizes={1,6}",
     "!start position and must be an integer, not f32"},
    {"r = dynamic-slice(x, i, i), dynamic_slice_sizes={1}", "!must have 2 entries"},
    {"r = dynamic-update-slice(x, m, i, i)", "f32[4,6]"},
    {"r = dynamic-update-slice(m, x, i, i)", "!the update f32[4,6] must have the rank of f32[4,4]"},
    {"r = dynamic-update-slice(x, v, i, i)", "!the update f32[6]"},
    {"r = dynamic-update-slice(x, n, i, i)", "!element types f32 and s32"},
    {"r = get-dimension-size(x), dimensions={1}", "s32[]"},
    {"r = get-dimension-size(x), dimensions={2}", "!dimension 2 is not in [0, 2)"},
    {"r = f32[4,6] set-dimension-size(x, s), dimensions={1}",
     "!operand 1, the size, must be s32[]"},
};

#define GATHER(rest) "r = gather(x, idx), " rest
#define SCATTER(rest) "r = scatter(x, idx, upd), " rest ", to_apply=add"
const Case kIndexed[] = {
    {GATHER("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1,6}"),
     "f32[3,6]"},
    {GATHER("offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, "
            "slice_sizes={4,2}"),
     "f32[4,3,2]"},
    {"r = gather(b3, bidx), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
     "index_vector_dim=2, slice_sizes={1,1,6}, operand_batching_dims={0}, "
     "start_indices_batching_dims={0}",
     "f32[5,2,6]"},
    {GATHER("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, "
            "slice_sizes={1,6}"),
     "!an index vector has 1 entries and 2 operand dims are indexed"},
    {GATHER("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={2,6}"),
     "!dim 0 is dropped from the result and has slice size 2"},
    {GATHER("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1,7}"),
     "!slice size 7 of dim 1 is not in [0, 6]"},
    {GATHER("offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1,6}"),
     "!offset_dims={} must name 1 result dims"},
    {GATHER("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={2}, index_vector_dim=1, "
            "slice_sizes={1,6}"),
     "!start_index_map entry 2 is not in [0, 2)"},
    {GATHER("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=3, "
            "slice_sizes={1,6}"),
     "!index_vector_dim=3 is not in [0, 2]"},
    {GATHER("offset_dims={1,0}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1,6}"),
     "!offset_dims={1,0} must be in ascending order"},
    {"r = gather(x, s), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=0, slice_sizes={1,6}",
     "!holds positions and must be integer"},
    {"r = gather(b3, idx), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, "
     "index_vector_dim=1, slice_sizes={1,1,6}, operand_batching_dims={0}, "
     "start_indices_batching_dims={0}",
     "!batching dims 0 (size 5) and 0 (size 3) must be equal"},
    {SCATTER("update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
             "index_vector_dim=1"),
     "f32[4,6]"},
    {SCATTER("update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
             "index_vector_dim=1"),
     "!update_window_dims={1} must name 2 update dims"},
    {SCATTER("update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
             "index_vector_dim=1"),
     "!update dim 1 of size 6 must be 3, as in the index array"},
    {SCATTER("update_window_dims={1}, inserted_window_dims={2}, scatter_dims_to_operand_dims={0}, "
             "index_vector_dim=1"),
     "!inserted window dim 2 is not in [0, 2)"},
    {"r = scatter(x, idx, n), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     "!element types f32 and s32"},
    {"r = scatter(x, idx), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     "!n inputs, one index array and n updates, not 2 operands"},
    {"r = scatter(x, idx, upd), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=ge",
     "!combiner ge gives pred[] and must give f32[]"},
    {"r = scatter(x, idx, upd), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=branch",
     "!combiner branch has 1 parameter and needs 2"},
};

const Case kCompute[] = {
    {"r = reduce(x, s), dimensions={0}, to_apply=add", "f32[6]"},
    {"r = reduce(b3, s), dimensions={2,0}, to_apply=add", "f32[4]"},
    {"r = reduce(x, s), dimensions={}, to_apply=add", "f32[4,6]"},
    {"r = reduce(x, s), dimensions={2}, to_apply=add", "!reduced dim 2 is not in [0, 2)"},
    {"r = reduce(x, v), dimensions={0}, to_apply=add",
     "!operand 1, an initial value, must be a scalar"},
    {"r = reduce(n, i), dimensions={0}, to_apply=add",
     "!parameter 0 of reducer add is f32[] and must be s32[]"},
    {"r = reduce(x, y, s), dimensions={0}, to_apply=add",
     "!n arrays and n initial values, not 3 operands"},
    {"r = reduce(x, s), dimensions={0}, to_apply=ge",
     "!reducer ge gives pred[] and must give f32[]"},
    {"r = reduce-window(x, s), window={size=2x3 stride=2x1 pad=0_0x1_1}, to_apply=add", "f32[2,6]"},
    {"r = reduce-window(x, s), window={size=5x1}, to_apply=add", "f32[0,6]"},
    {"r = reduce-window(x, s), window={size=2x2 lhs_dilate=2x1 rhs_dilate=1x3}, to_apply=add",
     "f32[6,3]"},
    {"r = reduce-window(x, s), window={size=2}, to_apply=add",
     "!the window has 1 dim and the array 2"},
    {"r = reduce-window(x, s), window={size=0x1}, to_apply=add",
     "!window dim 0: size 0; valid: 1 or more"},
    {"r = reduce-window(x, s), window={size=2x2 stride=0x1}, to_apply=add", "!stride 0"},
    {"r = reduce-window(x, s), window={size=1x1 pad=-5_0x0_0}, to_apply=add",
     "!padding makes the size negative (-1)"},
    {"r = select-and-scatter(img, src, s), window={size=1x2x2x1 stride=1x2x2x1}, select=ge, "
     "scatter=add",
     "f32[2,8,8,3]"},
    {"r = select-and-scatter(img, img, s), window={size=1x2x2x1 stride=1x2x2x1}, select=ge, "
     "scatter=add",
     "!the source has dims [2,8,8,3] and the windows of operand 0 are [2,4,4,3]"},
    {"r = select-and-scatter(img, src, s), window={size=1x2x2x1 stride=1x2x2x1}, select=add, "
     "scatter=add",
     "!select must give pred[], not f32[]"},
    {"r = map(x, y), dimensions={0,1}, to_apply=add", "f32[4,6]"},
    {"r = map(x, y), dimensions={0,1}, to_apply=ge", "pred[4,6]"},
    {"r = map(x, y), dimensions={0}, to_apply=add", "!must list all dims of the operands in order"},
    {"r = sort(x), dimensions={1}, to_apply=ge", "f32[4,6]"},
    {"r = sort(x), dimensions={2}, to_apply=ge", "!sorted dim 2 is not in [0, 2)"},
    {"r = sort(x), dimensions={1}, to_apply=add", "!comparator add must give pred[], not f32[]"},
    {"r = sort(x, n), dimensions={1}, to_apply=ge", "!comparator ge has 2 parameters and needs 4"},
    {"r = topk(x), k=2, largest=true", "(f32[4,2], s32[4,2])"},
    {"r = topk(x), k=7, largest=true", "!k=7 is not in [0, 6]"},
    {"r = topk(s), k=0, largest=true", "!rank 1 or more"},
    {"r = batch-norm-training(img, g, g), epsilon=0.1, feature_index=3",
     "(f32[2,8,8,3], f32[3], f32[3])"},
    {"r = batch-norm-inference(img, g, g, g, g), epsilon=0.1, feature_index=3", "f32[2,8,8,3]"},
    {"r = batch-norm-training(img, g, g), epsilon=0.1, feature_index=2",
     "!operand 1 must be f32[8], one value per feature"},
    {"r = batch-norm-training(img, g, g), epsilon=0.1, feature_index=4",
     "!feature_index 4 is not in [0, 4)"},
    {"r = (u64[2], u32[9]) rng-bit-generator(key), algorithm=rng_default", "(u64[2], u32[9])"},
    {"r = (u64[3], u32[9]) rng-bit-generator(key), algorithm=rng_default",
     "!the result must be (u64[2], bits)"},
    {"r = (u64[2], f32[9]) rng-bit-generator(key), algorithm=rng_default",
     "!must be an array of integers, not f32[9]"},
    {"r = (u64[2], u32[9]) rng-bit-generator(x), algorithm=rng_default",
     "!the state, must be a vector of unsigned integers"},
    {"r = f32[3] rng(s, s), distribution=rng_uniform", "f32[3]"},
    {"r = f32[3] rng(x, s), distribution=rng_uniform", "!operand 0 must be a scalar"},
};

const Case kLinear[] = {
    {"r = dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[4]"},
    {"r = dot(b3, w3), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}",
     "f32[5,4,7]"},
    {"r = dot(v, v)", "f32[6,6]"},
    {"r = f32[4,4] dot(h, h), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "f32[4,4]"},
    {"r = dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "!contracting dims 1 (size 6) and 0 (size 4) must be equal"},
    {"r = dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={}",
     "!contracting dims {1} of the left and {} of the right operand must pair up"},
    {"r = dot(x, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
     "!left batch or contracting dim 2 is not in [0, 2)"},
    {"r = dot(x, x), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={1}, "
     "rhs_contracting_dims={1}",
     "!dim 1 stands twice"},
    {"r = dot(x, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
     "!element types f32 and f64"},
    {"r = f32[4,4] dot(x, n), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
     "!f32 and s32 can't be multiplied"},
    {"r = convolution(img, ker), window={size=3x3 stride=2x2 pad=0_1x0_1}, "
     "dim_labels=b01f_01io->b01f",
     "f32[2,4,4,4]"},
    {"r = convolution(img, ker), window={size=3x3 lhs_dilate=2x2 rhs_dilate=1x2}, "
     "dim_labels=b01f_01io->bf01",
     "f32[2,4,13,11]"},
    {"r = convolution(img, ker), window={size=3}, dim_labels=b01f_01io->b01f",
     "!rank 4 and the window 2 dims"},
    {"r = convolution(img, ker), window={size=2x3}, dim_labels=b01f_01io->b01f",
     "!window dim 0 has size 2 and the kernel 3"},
    {"r = convolution(img, ker), window={size=3x3}, dim_labels=b01f_01oi->b01f",
     "!the input has 3 features in 1 group and the kernel takes 4 per group"},
    {"r = convolution(img, ker), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=2",
     "!3 features in 2 groups"},
    {"r = convolution(img, ker), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "batch_group_count=2",
     "f32[1,6,6,4]"},
    {"r = convolution(x, ker), window={size=3x3}, dim_labels=b01f_01io->b01f",
     "!both operands must have rank 4"},
    {"r = fft(z), fft_type=FFT, fft_length={4,6}", "c64[4,6]"},
    {"r = fft(x), fft_type=RFFT, fft_length={6}", "c64[4,4]"},
    {"r = fft(z), fft_type=IRFFT, fft_length={10}", "f32[4,10]"},
    {"r = fft(z), fft_type=IRFFT, fft_length={9}", "!dim 1 of size 6 must be 5"},
    {"r = fft(x), fft_type=FFT, fft_length={6}",
     "!complex numbers (only RFFT takes real ones), not f32"},
    {"r = fft(z), fft_type=RFFT, fft_length={6}", "!RFFT takes f32 or f64, not c64"},
    {"r = fft(z), fft_type=FFT, fft_length={5}", "!must be 5 for fft_length={5}"},
    {"r = fft(z), fft_type=FFT, fft_length={}", "!1 to 3 entries"},
    {"r = cholesky(mb), lower=true", "f32[5,4,4]"},
    {"r = cholesky(x), lower=true", "!operand 0 must be square in its last two dims"},
    {"r = cholesky(n), lower=true", "!floating point or complex, not s32"},
    {"r = triangular-solve(m, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
     "f32[4,6]"},
    {"r = triangular-solve(m, x), left_side=false, lower=true, transpose_a=NO_TRANSPOSE",
     "!dim 1 of the right side has size 6 and the matrix 4"},
    {"r = triangular-solve(mb, x), left_side=true, transpose_a=NO_TRANSPOSE", "!same batch dims"},
};

const Case kControl[] = {
    {"r = tuple(x, i)", "(f32[4,6], s32[])"},
    {"r = tuple()", "()"},
    {"r = get-tuple-element(t), index=1", "s32[]"},
    {"r = get-tuple-element(t), index=2", "!index=2 of a tuple of 2 elements"},
    {"r = get-tuple-element(x), index=0", "!operand 0 must be a tuple, not f32[4,6]"},
    {"r = call(f), to_apply=branch", "f32[4]"},
    {"r = call(x), to_apply=branch",
     "!parameter 0 of callee branch is f32[4] and must be f32[4,6]"},
    {"r = call(f, f), to_apply=branch", "!callee branch has 1 parameter and needs 2"},
    {"r = conditional(i, f, f), branch_computations={branch, branch}", "f32[4]"},
    {"r = conditional(i, f), branch_computations={branch, branch}",
     "!one operand per branch (2) after the index, not 1"},
    {"r = conditional(s, f, f), branch_computations={branch, branch}",
     "!must be pred[] or s32[], not f32[]"},
    {"r = conditional(q, f), branch_computations={branch}", "!needs 2 called computations, not 1"},
    {"r = conditional(i, x, f), branch_computations={branch, branch}",
     "!parameter 0 of branch branch is f32[4] and must be f32[4,6]"},
    {"r = while(f), condition=branch, body=branch",
     "!condition branch must give pred[], not f32[4]"},
    {"r = while(x), condition=branch, body=branch",
     "!parameter 0 of condition branch is f32[4] and must be f32[4,6]"},
    {"r = f32[3] custom-call(x), custom_call_target=\"any\"", "f32[3]"},
    {"r = custom-call(x), custom_call_target=\"any\"", "!must be given"},
    {"r = f32[3] custom-call(x), custom_call_target=\"Sharding\"",
     "!the result is f32[4,6] and f32[3] was declared"},
    {"r = opt-barrier(t)", "(f32[4,6], s32[])"},
    {"r = partition-id()", "u32[]"},
    {"r = after-all(k, k)", "token[]"},
    {"r = after-all(x)", "!operand 0 must be a token, not f32[4,6]"},
    {"r = add-dependency(x, k)", "f32[4,6]"},
    {"r = add-dependency(x, x)", "!operand 1 must be a token"},
    {"r = fusion(f), kind=kLoop, calls=branch", "f32[4]"},
};

#define GROUPS ", channel_id=1, replica_groups={{0,1},{2,3}}"
const Case kCollective[] = {
    {"r = all-gather(x), dimensions={1}" GROUPS, "f32[4,12]"},
    {"r = all-gather(x, i), dimensions={1}" GROUPS, "!dimension 1 of a rank 0 array"},
    {"r = all-gather(x, v), dimensions={0}" GROUPS, "(f32[8,6], f32[12])"},
    {"r = all-gather(x), dimensions={2}" GROUPS, "!dimension 2 is not in [0, 2)"},
    {"r = all-gather(x), dimensions={0,1}" GROUPS, "!exactly one dimension, not {0,1}"},
    {"r = f32[4,6] all-gather(x), dimensions={1}" GROUPS,
     "!the result is f32[4,12] and f32[4,6] was declared"},
    {"r = all-gather(x), dimensions={1}, replica_groups={{0,1},{2}}",
     "!replica groups of 2 and 1 devices; they must be equal"},
    {"r = all-gather(x), dimensions={1}, replica_groups={{0,1},{1,2}}",
     "!device 1 stands twice in replica_groups"},
    {"r = all-gather(x), dimensions={1}, replica_groups={{0,-1}}", "!device -1 in replica_groups"},
    {"r = all-gather(x), dimensions={1}, replica_groups={{}}", "!a replica group is empty"},
    {"r = all-reduce(x), to_apply=add" GROUPS, "f32[4,6]"},
    {"r = all-reduce(x, v), to_apply=add" GROUPS, "(f32[4,6], f32[6])"},
    {"r = all-reduce(n), to_apply=add" GROUPS,
     "!parameter 0 of reducer add is f32[] and must be s32[]"},
    {"r = all-reduce(x), to_apply=ge" GROUPS, "!reducer ge gives pred[]"},
    {"r = all-reduce(t), to_apply=add" GROUPS, "!operand 0 must be an array"},
    {"r = reduce-scatter(x), dimensions={0}, to_apply=add" GROUPS, "f32[2,6]"},
    {"r = reduce-scatter(x), dimensions={1}, to_apply=add, replica_groups={{0,1,2,3}}",
     "!dim 1 of size 6 can't be split over groups of 4 devices"},
    {"r = all-to-all(x), dimensions={0}" GROUPS, "f32[4,6]"},
    {"r = all-to-all(x), dimensions={1}, replica_groups={{0,1,2,3}}",
     "!dim 1 of size 6 can't be split over groups of 4"},
    {"r = all-to-all(x, y)" GROUPS, "(f32[4,6], f32[4,6])"},
    {"r = all-to-all(x, y), replica_groups={{0,1,2,3}}",
     "!takes an operand for each of the 4 members of a group, not 2"},
    {"r = all-to-all(x, v)" GROUPS, "!all operands must have equal shapes"},
    {"r = all-to-all(x, y), dimensions={0}" GROUPS, "!takes 1 operand, not 2"},
    {"r = collective-permute(x), source_target_pairs={{0,1},{1,0}}", "f32[4,6]"},
    {"r = collective-permute(x), source_target_pairs={{0,1},{0,2}}",
     "!device 0 stands twice as a source"},
    {"r = collective-permute(x), source_target_pairs={{0,1},{2,1}}",
     "!device 1 stands twice as a target"},
    {"r = collective-permute(x), source_target_pairs={{0,-1}}",
     "!device -1 in source_target_pairs"},
    {"r = collective-broadcast(x)" GROUPS, "f32[4,6]"},
    {"r = all-reduce-start(x), to_apply=add" GROUPS, "f32[4,6]"},
    {"r = all-reduce()" GROUPS ", to_apply=add", "!at least 1 operand, not 0"},
    {"r = all-gather-done(x)", "!must be a tuple of at least 2 elements"},
    {"r = f32[4,6] all-gather-start(x), dimensions={0}",
     "!must be a tuple of operands, results and state"},
    {"r = (f32[4,6], f32[64,6]) all-gather-start(x), dimensions={0}" GROUPS,
     "!the result holds f32[64,6] and all-gather gives f32["},
    {"r = (f32[6,4], f32[8,6]) all-gather-start(x), dimensions={0}" GROUPS,
     "!the result carries f32[6,4] and the operands are f32[4,6]"},
    {"r = (f32[4,6], f32[6,4], u32[], u32[]) collective-permute-start(x), "
     "source_target_pairs={{0,1}}",
     "!the result holds f32[6,4] and collective-permute gives f32[4,6]"},
    {"r = copy-start(x)", "(f32[4,6], f32[4,6], u32[])"},
    {"r = send(x, k), channel_id=1", "(f32[4,6], u32[], token[])"},
    {"r = outfeed(x, k)", "token[]"},
    {"r = ((f32[6]), f32[4], s32[]) async-start(f), calls=branch",
     "!the result must be ((operands), outputs, state...)"},
    {"r = ((f32[4]), f32[5], s32[]) async-start(f), calls=branch",
     "!the result holds f32[5] and branch gives f32[4]"},
};

// clang-format on

INSTANTIATE_TEST_SUITE_P(Elementwise, ShapeInference, ::testing::ValuesIn(kElementwise));
INSTANTIATE_TEST_SUITE_P(Structure, ShapeInference, ::testing::ValuesIn(kStructure));
INSTANTIATE_TEST_SUITE_P(Indexed, ShapeInference, ::testing::ValuesIn(kIndexed));
INSTANTIATE_TEST_SUITE_P(Compute, ShapeInference, ::testing::ValuesIn(kCompute));
INSTANTIATE_TEST_SUITE_P(Linear, ShapeInference, ::testing::ValuesIn(kLinear));
INSTANTIATE_TEST_SUITE_P(Control, ShapeInference, ::testing::ValuesIn(kControl));
INSTANTIATE_TEST_SUITE_P(Collective, ShapeInference, ::testing::ValuesIn(kCollective));

TEST(ShapeInferenceRules, OperandCountsAreCheckedWithoutText) {
  Module m;
  Computation* c = m.add_computation("e");
  auto p = std::make_unique<Instruction>();
  p->opcode = Opcode::parameter;
  p->shape = Shape(DType::f32, {2});
  p->attrs = ParameterAttrs{0};
  Instruction* x = c->add(std::move(p));
  std::vector<Instruction*> one{x};
  EXPECT_THROW(infer_shape(Opcode::add, one, {}, {}, nullptr, {}), ShapeError);
  EXPECT_THROW(infer_shape(Opcode::reverse, one, IotaAttrs{0}, {}, nullptr, {}), InternalError);
}

TEST(ShapeInferenceRules, SymbolicGroupsGiveTheirSize) {
  MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  Module m;
  m.num_partitions = 8;
  Computation* c = m.add_computation("e");
  auto p = std::make_unique<Instruction>();
  p->opcode = Opcode::parameter;
  p->shape = Shape(DType::f32, {3, 5});
  p->attrs = ParameterAttrs{0};
  Instruction* x = c->add(std::move(p));
  std::vector<Instruction*> one{x};
  CollectiveAttrs a;
  a.groups = DeviceGroups::over(mesh, {1});
  a.dims = {1};
  EXPECT_EQ(infer_shape(Opcode::all_gather, one, a, {}, nullptr, {}, {8, 1}).to_string(),
            "f32[3,20]");
  a.groups = {};
  EXPECT_EQ(infer_shape(Opcode::all_gather, one, a, {}, nullptr, {}, {8, 1}).to_string(),
            "f32[3,40]");
}

}  // namespace
}  // namespace tessera::ir::testing
