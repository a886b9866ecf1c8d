// SPDX-License-Identifier: Apache-2.0
// Errors of operations that are used wrongly: the class of the error, the caller's line, the
// operands and what would be valid.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <cstring>

namespace tessera {
namespace {

template <class E, class F>
void expect_error(F f, const std::vector<std::string>& parts, unsigned line) {
  try {
    f();
  } catch (const E& e) {
    const std::string what = e.what();
    for (const std::string& part : parts) {
      EXPECT_NE(what.find(part), std::string::npos) << "no \"" << part << "\" in: " << what;
    }
    ASSERT_TRUE(e.location().known()) << what;
    EXPECT_EQ(e.location().line, line) << what;
    EXPECT_NE(std::strstr(e.location().file, "ops_error_test.cc"), nullptr) << what;
    const std::string place = "ops_error_test.cc:" + std::to_string(line) + ": ";
    EXPECT_NE(what.find(place), std::string::npos) << what;
    return;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another error: " << e.what();
    return;
  }
  ADD_FAILURE() << "no error";
}

/// The call stands on the line of the macro, so that its location is known here.
#define EXPECT_SAYS(error, call, ...) \
  expect_error<error>([&] { (void)(call); }, {__VA_ARGS__}, __LINE__)

class OpErrors : public ::testing::Test {
 protected:
  Array f23_ = ones({2, 3}), f34_ = ones({3, 4}), v3_ = ones({3}), scalar_ = ones({});
  Array ints_ = ones({2, 3}, s32), flags_ = ones({2, 3}, pred), z_ = ones({2}, c64);
  Array key_ = random::key(0);
};

TEST_F(OpErrors, OfElementwiseOperations) {
  EXPECT_SAYS(ShapeError, f23_ + f34_, "add", "[2,3]", "[3,4]", "broadcast");
  EXPECT_SAYS(ShapeError, f23_ < ones({2}), "less", "[2,3]", "[2]");
  EXPECT_SAYS(DTypeError, z_ < z_, "less", "complex");
  EXPECT_SAYS(DTypeError, f23_ & f23_, "bitwise_and", "integers");
  EXPECT_SAYS(DTypeError, flags_ - flags_, "subtract", "logical_xor");
  EXPECT_SAYS(DTypeError, -flags_, "negative", "logical_not");
  EXPECT_SAYS(DTypeError, floor(z_), "floor", "c64[2]");
  EXPECT_SAYS(DTypeError, floor_divide(z_, z_), "floor_divide", "complex");
  EXPECT_SAYS(DTypeError, erf_inv(z_), "erf_inv", "c64[2]");
  EXPECT_SAYS(ShapeError, where(flags_, f34_, 0.0), "where", "[2,3]", "[3,4]");
  EXPECT_SAYS(ShapeError, bitcast_convert(ones({3}, u8), u32), "bitcast_convert", "last dim");
  EXPECT_SAYS(DTypeError, bitcast_convert(ones({3}, u8), DType::f6e2m3fn), "bitcast-convert",
              "8 bits as ones of 6", "u8 and f6e2m3fn");
  EXPECT_SAYS(DTypeError, bitcast_convert(ones({3}).astype(DType::f6e3m2fn), u8), "bitcast-convert",
              "6 bits as ones of 8");
  EXPECT_SAYS(ValueError, sqrt(Array()), "empty Array");
}

TEST_F(OpErrors, OfReductions) {
  EXPECT_SAYS(ValueError, sum(f23_, 2), "sum", "axis 2", "rank 2", "-2 to 1");
  EXPECT_SAYS(ValueError, sum(f23_, {0, -2}), "sum", "twice");
  EXPECT_SAYS(ValueError, max(zeros({0, 3}), 0), "max", "no elements", "f32[0,3]");
  EXPECT_SAYS(DTypeError, max(z_), "max", "complex");
  EXPECT_SAYS(ValueError, argmin(zeros({0})), "argmin", "no elements");
}

TEST_F(OpErrors, OfShapes) {
  EXPECT_SAYS(ShapeError, reshape(f23_, {4, 2}), "reshape", "f32[2,3]", "[4,2]", "6", "8");
  EXPECT_SAYS(ShapeError, reshape(f23_, {-1, -1}), "reshape", "only one");
  EXPECT_SAYS(ShapeError, reshape(f23_, {-1, 4}), "reshape", "no multiple of 4");
  EXPECT_SAYS(ShapeError, reshape(f23_, {-2, 3}), "reshape", "-2");
  EXPECT_SAYS(ShapeError, squeeze(f23_, 1), "squeeze", "axis 1", "size 3");
  EXPECT_SAYS(ValueError, expand_dims(f23_, 5), "expand_dims", "axis 5");
  EXPECT_SAYS(ValueError, transpose(f23_, {0}), "transpose", "f32[2,3]", "[0]", "2 axes");
  EXPECT_SAYS(ValueError, transpose(f23_, {0, 0}), "transpose", "twice");
  EXPECT_SAYS(ValueError, swapaxes(f23_, 0, 7), "swapaxes", "axis 7");
  EXPECT_SAYS(ValueError, moveaxis(f23_, {0, 1}, 0), "moveaxis", "pair up");
  EXPECT_SAYS(ShapeError, broadcast_to(f23_, {3, 2}), "broadcast_to", "f32[2,3]", "[3,2]");
  EXPECT_SAYS(ShapeError, broadcast_arrays({f23_, f34_}), "broadcast_arrays", "[3,4]");
  EXPECT_SAYS(ShapeError, concatenate({f23_, f34_}), "concatenate", "array 1", "[3,4]", "[2,3]");
  EXPECT_SAYS(ValueError, concatenate({}), "concatenate", "no arrays");
  EXPECT_SAYS(ShapeError, concatenate({scalar_}), "concatenate", "stack");
  EXPECT_SAYS(ValueError, concatenate({f23_}, 2), "concatenate", "axis 2");
  EXPECT_SAYS(ShapeError, stack({f23_, v3_}), "stack", "array 1", "[3]");
  EXPECT_SAYS(ShapeError, hstack({f23_, f34_}), "hstack", "[3,4]");
  EXPECT_SAYS(ShapeError, split(f23_, 2, 1), "split", "f32[2,3]", "axis 1", "array_split");
  EXPECT_SAYS(ValueError, split(f23_, 0), "split", "1 or more");
  EXPECT_SAYS(ValueError, unstack(scalar_), "unstack", "scalar");
  EXPECT_SAYS(ValueError, tile(f23_, {-1}), "tile", "[-1]");
  EXPECT_SAYS(ValueError, repeat(f23_, -1), "repeat", "-1");
  EXPECT_SAYS(ValueError, flip(f23_, 3), "flip", "axis 3");
  EXPECT_SAYS(ValueError, roll(f23_, {1, 2, 3}, {0, 1}), "roll", "[1,2,3]", "[0,1]");
  EXPECT_SAYS(ShapeError, rot90(v3_), "rot90", "f32[3]");
  EXPECT_SAYS(ValueError, pad(f23_, {{1, 1}, {1, 1}, {1, 1}}), "pad", "3 pairs", "2");
  EXPECT_SAYS(ValueError, pad(f23_, {{-1, 0}}), "pad", "-1", "0 or more");
  EXPECT_SAYS(ShapeError, pad(zeros({0}), {{1, 0}}, {.mode = PadMode::wrap}), "pad", "wrap");
  EXPECT_SAYS(ValueError, pad(v3_, {{1, 0}}, {PadMode::edge, Array(1)}), "pad", "edge");
  EXPECT_SAYS(ShapeError, diagonal(v3_), "diagonal", "rank 2", "f32[3]");
  EXPECT_SAYS(ValueError, diagonal(f23_, 0, 1, -1), "diagonal", "both 1");
  EXPECT_SAYS(ShapeError, trace(v3_), "trace", "f32[3]");
  EXPECT_SAYS(ShapeError, diag(ones({2, 2, 2})), "diag", "f32[2,2,2]");
  EXPECT_SAYS(ShapeError, meshgrid({f23_}), "meshgrid", "f32[2,3]");
}

TEST_F(OpErrors, OfIndexing) {
  EXPECT_SAYS(ValueError, index(f23_, {2}), "index 2", "dim 0", "f32[2,3]", "-2 to 1");
  EXPECT_SAYS(ValueError, index(f23_, {0, 0, 0}), "index", "3 entries", "2 dims");
  EXPECT_SAYS(ValueError, index(f23_, {ellipsis, ellipsis}), "index", "one ellipsis");
  EXPECT_SAYS(ValueError, index(f23_, {Slice{0, 2, 0}}), "index", "step");
  EXPECT_SAYS(ShapeError, index(f23_, {ones({3}, pred)}), "index", "mask", "pred[3]", "f32[2,3]");
  EXPECT_SAYS(DTypeError, index(f23_, {v3_}), "index", "f32[3]", "integer");
  EXPECT_SAYS(ShapeError, slice(f23_, {0}, {1}), "slice", "f32[2,3]", "2 entries");
  EXPECT_SAYS(ShapeError, slice(f23_, {0, 0}, {3, 3}), "slice", "[0, 3)", "dim 0", "[0, 2)");
  EXPECT_SAYS(ValueError, slice(f23_, {0, 0}, {2, 3}, {1, 0}), "slice", "stride 0");
  EXPECT_SAYS(ShapeError, dynamic_slice(f23_, {0, 0}, {3, 1}), "dynamic_slice", "size 3", "0 to 2");
  EXPECT_SAYS(ShapeError, dynamic_slice(f23_, {0}, {1, 1}), "dynamic_slice", "1 start", "2 dims");
  EXPECT_SAYS(DTypeError, dynamic_slice(f23_, {0.5, 0}, {1, 1}), "dynamic_slice", "f32[]");
  EXPECT_SAYS(ShapeError, dynamic_update_slice(f23_, f34_, {0, 0}), "dynamic_update_slice",
              "f32[3,4]", "f32[2,3]");
  EXPECT_SAYS(DTypeError, dynamic_update_slice(f23_, ints_, {0, 0}), "s32[2,3]", "astype");
  EXPECT_SAYS(DTypeError, take(f23_, v3_), "take", "f32[3]", "integers");
  EXPECT_SAYS(ValueError, take(f23_, 0, 4), "take", "axis 4");
  EXPECT_SAYS(ShapeError, take(zeros({0, 2}), 0, 0), "take", "no elements");
  EXPECT_SAYS(ShapeError, take_along_axis(f23_, ones({2}, s32), 1), "take_along_axis", "s32[2]",
              "one rank");
  EXPECT_SAYS(ShapeError, embedding_lookup(v3_, 0), "embedding_lookup", "f32[3]");
  EXPECT_SAYS(ValueError, top_k(f23_, 4), "top_k", "k = 4", "0 to 3");
  EXPECT_SAYS(ValueError, sort(f23_, 2), "sort", "axis 2");
  EXPECT_SAYS(ShapeError, searchsorted(f23_, 1.0), "searchsorted", "f32[2,3]");
}

TEST_F(OpErrors, OfProducts) {
  EXPECT_SAYS(ShapeError, matmul(f34_, f34_), "matmul", "f32[3,4]", "size 4", "size 3", "equal");
  EXPECT_SAYS(ShapeError, matmul(f23_, scalar_), "matmul", "multiply");
  EXPECT_SAYS(ShapeError, matmul(ones({2, 2, 3}), ones({3, 3, 2})), "matmul", "2 and 3",
              "broadcast");
  EXPECT_SAYS(DTypeError, matmul(f23_, f34_, {.preferred = s8}), "matmul", "f32", "s8");
  EXPECT_SAYS(ShapeError, dot(f23_, f23_), "dot", "size 3", "size 2");
  EXPECT_SAYS(ShapeError, vdot(f23_, v3_), "vdot", "f32[2,3]", "f32[3]");
  EXPECT_SAYS(ShapeError, inner(f23_, f34_), "inner", "size 3", "size 4");
  EXPECT_SAYS(ValueError, tensordot(f23_, v3_, 2), "tensordot", "0 to 1");
  EXPECT_SAYS(ShapeError, tensordot(f23_, f34_, {0, 1}, {0}), "tensordot", "pair up");
  EXPECT_SAYS(ShapeError, dot_general(f23_, f34_, {.lhs_contracting = {0}, .rhs_contracting = {0}}),
              "dot_general", "contracting", "size 2", "size 3");
  EXPECT_SAYS(ValueError, einsum("ij,jk->ik", f23_), "einsum(\"ij,jk->ik\")", "2 operands", "1");
  EXPECT_SAYS(ValueError, einsum("ijk->i", f23_), "einsum", "\"ijk\"", "f32[2,3]");
  EXPECT_SAYS(ValueError, einsum("ij->ik", f23_), "einsum", "'k'", "no operand");
  EXPECT_SAYS(ValueError, einsum("ij->ii", f23_), "einsum", "'i'", "twice");
  EXPECT_SAYS(ValueError, einsum("i?->i", f23_), "einsum", "'?'", "no label");
  EXPECT_SAYS(ValueError, einsum("...j->j", f23_), "einsum", "ellipsis");
  EXPECT_SAYS(ShapeError, einsum("ij,jk", f23_, f23_), "einsum", "'j'", "size 3", "2");
}

TEST_F(OpErrors, OfTransformsAndNetworks) {
  EXPECT_SAYS(ValueError, fft(f23_, {.axis = 2}), "fft", "axis 2");
  EXPECT_SAYS(ValueError, fft(f23_, {.n = 0}), "fft", "length 0");
  EXPECT_SAYS(DTypeError, rfft(z_), "rfft", "c64[2]");
  EXPECT_SAYS(ValueError, irfft(ones({1}, c64)), "irfft", "length 0");
  EXPECT_SAYS(ValueError, fft2(v3_), "fft2", "axis -2");
  EXPECT_SAYS(DTypeError, relu(z_), "relu", "c64[2]");
  EXPECT_SAYS(ValueError, softmax(f23_, 2), "softmax", "axis 2");
  EXPECT_SAYS(ShapeError, glu(f23_), "glu", "f32[2,3]", "even");
  EXPECT_SAYS(ValueError, one_hot(ints_, -1), "one_hot", "-1");
}

TEST_F(OpErrors, OfCreation) {
  EXPECT_SAYS(ShapeError, zeros({-1}), "[-1]");
  EXPECT_SAYS(ShapeError, array(std::vector<float>{1, 2}, {3}), "array", "2 values", "[3]");
  EXPECT_SAYS(ShapeError, full({2}, v3_), "full", "scalar", "f32[3]");
  EXPECT_SAYS(ValueError, arange(0, 1, 0), "arange", "step");
  EXPECT_SAYS(ValueError, linspace(0, 1, -1), "linspace", "-1");
  EXPECT_SAYS(ShapeError, tril(v3_), "tril", "f32[3]");
}

TEST_F(OpErrors, OfRandomNumbers) {
  EXPECT_SAYS(TypeError, random::key(1.5), "random::key", "integer");
  EXPECT_SAYS(DTypeError, random::normal(f23_, {2}), "random::normal", "f32[2,3]", "random::key");
  EXPECT_SAYS(ShapeError, random::normal(random::split(key_), {2}), "u32[2,2]", "array of keys");
  EXPECT_SAYS(DTypeError, random::uniform(key_, {2}, s32), "random::uniform", "s32", "f32");
  EXPECT_SAYS(DTypeError, random::bits(key_, {2}, s32), "random::bits", "s32", "u32");
  EXPECT_SAYS(ShapeError, random::bits(key_, {-1}), "random::bits", "[-1]");
  EXPECT_SAYS(DTypeError, random::randint(key_, {2}, 0.5, 2), "random::randint", "integers");
  EXPECT_SAYS(DTypeError, random::randint(key_, {2}, 0, 2, f32), "random::randint", "f32");
  EXPECT_SAYS(ShapeError, random::uniform(key_, {2}, f32, v3_, 1.0), "random::uniform", "[3]");
  EXPECT_SAYS(TypeError, random::fold_in(key_, v3_), "random::fold_in", "f32[3]");
  EXPECT_SAYS(ShapeError, random::categorical(key_, f23_, -1, random::Shape{3}), "categorical",
              "[3]", "[2]");
  EXPECT_SAYS(ValueError, random::choice(key_, 3, {4}, {.replace = false}), "random::choice",
              "without replacement", "at most 3");
  EXPECT_SAYS(ShapeError, random::choice(key_, 3, {4}, {.p = ones({2})}), "random::choice",
              "f32[2]");
}

TEST_F(OpErrors, UnderJitNameTheSameLines) {
  auto f = jit([](Array x) {
    expect_error<ShapeError>([&] { (void)matmul(x, x); }, {"matmul", "f32[2,3]"}, __LINE__);
    expect_error<ShapeError>([&] { (void)(x + ones({4})); }, {"add", "[2,3]"}, __LINE__);
    return x;
  });
  EXPECT_EQ(f(f23_).shape(), (std::vector<std::int64_t>{2, 3}));
}

}  // namespace
}  // namespace tessera
