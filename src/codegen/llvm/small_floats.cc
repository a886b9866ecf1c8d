// SPDX-License-Identifier: Apache-2.0
// Floats of a byte: their bits are moved to and from where f32 has them.
#include "src/codegen/llvm/small_floats.h"

#include <cmath>
#include <cstdint>

#include "src/base/arrays/small_floats.h"

namespace tessera::codegen {
namespace {

using llvm::Value;
using Special = SmallFloatSpecial;

constexpr int kMantissa = 23, kBias = 127;  // of f32
constexpr std::uint32_t kInfinity = 0x7f800000, kNaN = 0x7fc00000, kSize = 0x7fffffff;

/// A format in terms of the bits of f32.
struct Form {
  explicit Form(DType t) : f(small_float_form(t)) {}
  SmallFloatForm f;
  int drop() const { return kMantissa - f.mantissa_bits; }
  int sign_bit() const { return f.exponent_bits + f.mantissa_bits; }
  std::uint32_t all_ones() const { return (1u << sign_bit()) - 1; }
  std::uint32_t infinity() const { return ((1u << f.exponent_bits) - 1) << f.mantissa_bits; }
  std::uint32_t largest() const {
    return f.special == Special::ieee      ? infinity() - 1
           : f.special == Special::one_nan ? all_ones() - 1
                                           : all_ones();
  }
  /// The unit of subnormal numbers.
  double unit() const { return std::ldexp(1.0, 1 - f.bias - f.mantissa_bits); }
};

/// Integers of 32 bits.
struct Words {
  const VectorBuilder& v;
  llvm::IRBuilder<>& b = v.b;
  llvm::Type* type = v.integers(32);
  llvm::Type* single = v.vector(b.getFloatTy());
  Value* operator()(std::uint32_t k) const { return v.integer(type, k); }
  Value* bits(Value* number) const { return b.CreateBitCast(number, type); }
  Value* number(Value* bits) const { return b.CreateBitCast(bits, single); }
};

Value* powers_of_two(const Words& w, Value* codes) {
  auto& b = w.b;
  Value* bits = b.CreateShl(codes, std::uint64_t(kMantissa));
  bits = w.v.select(b.CreateICmpEQ(codes, w(0)), w(0x00400000), bits);
  return w.number(w.v.select(b.CreateICmpEQ(codes, w(0xff)), w(kNaN), bits));
}

/// To the nearest power of two, ties to the greater one.
Value* codes_of_powers(const Words& w, Value* u) {
  auto& b = w.b;
  Value* rounded = b.CreateLShr(b.CreateAdd(u, w(0x00400000)), std::uint64_t(kMantissa));
  Value* small = b.CreateZExt(b.CreateICmpUGE(u, w(0x00600000)), w.type);
  Value* code = w.v.select(b.CreateICmpULT(u, w(0x00800000)), small, rounded);
  // Zero, what has a sign, infinity and NaN.
  Value* none = b.CreateOr(b.CreateICmpEQ(u, w(0)), b.CreateICmpUGE(u, w(kInfinity)));
  return w.v.select(none, w(0xff), code);
}

}  // namespace

Value* emit_small_float_numbers(const VectorBuilder& v, DType small, Value* codes) {
  auto& b = v.b;
  const Words w{v};
  Value* code = b.CreateZExt(codes, w.type);
  if (small == DType::f8e8m0fnu) return powers_of_two(w, code);
  const Form form(small);
  Value* size = b.CreateAnd(code, w(form.all_ones()));
  Value* normal = b.CreateAdd(b.CreateShl(size, std::uint64_t(form.drop())),
                              w(std::uint32_t(kBias - form.f.bias) << kMantissa));
  Value* subnormal =
      w.bits(b.CreateFMul(b.CreateUIToFP(size, w.single), v.constant(w.single, form.unit())));
  Value* bits = v.select(b.CreateICmpULT(size, w(1u << form.f.mantissa_bits)), subnormal, normal);
  if (form.f.special == Special::ieee) {
    bits = v.select(b.CreateICmpEQ(size, w(form.infinity())), w(kInfinity), bits);
    bits = v.select(b.CreateICmpUGT(size, w(form.infinity())), w(kNaN), bits);
  } else if (form.f.special == Special::one_nan) {
    bits = v.select(b.CreateICmpEQ(size, w(form.all_ones())), w(kNaN), bits);
  }
  Value* sign = b.CreateAnd(b.CreateShl(code, std::uint64_t(31 - form.sign_bit())), w(~kSize));
  bits = b.CreateOr(bits, sign);
  if (form.f.special == Special::neg_zero) {
    bits = v.select(b.CreateICmpEQ(code, w(1u << form.sign_bit())), w(kNaN), bits);
  }
  return w.number(bits);
}

Value* emit_small_float_codes(const VectorBuilder& v, DType small, Value* numbers) {
  auto& b = v.b;
  const Words w{v};
  Value* u = w.bits(numbers);
  if (small == DType::f8e8m0fnu) return b.CreateTrunc(codes_of_powers(w, u), v.integers(8));
  const Form form(small);
  Value* size = b.CreateAnd(u, w(kSize));
  // Rounding may carry into the exponent, as it should.
  const auto drop = std::uint64_t(form.drop());
  Value* last = b.CreateAnd(b.CreateLShr(size, drop), w(1));
  Value* rounded = b.CreateAdd(size, b.CreateAdd(last, w((1u << (drop - 1)) - 1)));
  Value* normal = b.CreateSub(b.CreateLShr(rounded, drop),
                              w(std::uint32_t(kBias - form.f.bias) << form.f.mantissa_bits));
  // Added to a number whose last place is their unit, subnormal ones are rounded to it.
  Value* large = v.constant(w.single, std::ldexp(form.unit(), kMantissa));
  Value* subnormal = b.CreateSub(w.bits(b.CreateFAdd(w.number(size), large)), w.bits(large));
  Value* least = w(std::uint32_t(kBias + 1 - form.f.bias) << kMantissa);
  Value* code = v.select(b.CreateICmpULT(size, least), subnormal, normal);
  Value* is_nan = b.CreateICmpUGT(size, w(kInfinity));
  Value* too_large = b.CreateOr(b.CreateICmpUGT(code, w(form.largest())), is_nan);
  const bool is_ieee = form.f.special == Special::ieee;
  code = v.select(too_large, w(is_ieee ? form.infinity() : form.all_ones()), code);
  if (is_ieee) {
    code = v.select(is_nan, w(form.infinity() | 1u << (form.f.mantissa_bits - 1)), code);
  }
  Value* signed_code =
      b.CreateOr(code, b.CreateShl(b.CreateLShr(u, 31), std::uint64_t(form.sign_bit())));
  const std::uint32_t negative_zero = 1u << form.sign_bit();
  if (form.f.special == Special::neg_zero) {
    signed_code = v.select(b.CreateICmpEQ(code, w(0)), w(0), signed_code);
    signed_code = v.select(too_large, w(negative_zero), signed_code);
  } else if (form.f.special == Special::none) {
    signed_code = v.select(is_nan, w(negative_zero), signed_code);
  }
  return b.CreateTrunc(signed_code, v.integers(8));
}

}  // namespace tessera::codegen
