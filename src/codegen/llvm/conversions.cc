// SPDX-License-Identifier: Apache-2.0
// Conversions: floats to integers saturate, bf16 is rounded in integers.
#include "src/codegen/llvm/conversions.h"

#include <algorithm>
#include <cmath>

#include "src/base/arrays/small_floats.h"
#include "src/codegen/llvm/small_floats.h"

namespace tessera::codegen {
namespace {

using llvm::Value;

/// Toward zero, saturating; NaN is 0.
Value* to_integer(const VectorBuilder& v, Value* x, DType to) {
  auto& b = v.b;
  const bool is_signed = is_signed_integer(to);
  const unsigned bits = unsigned(byte_size(to)) * 8;
  const unsigned digits = is_signed ? bits - 1 : bits;
  llvm::Type* type = v.integers(bits);
  const auto c = [&](double k) { return v.constant(x->getType(), k); };
  const double above = std::ldexp(1.0, int(digits));
  Value* too_large = b.CreateFCmpOGE(x, c(above));
  Value* too_small = b.CreateFCmpOLE(x, c(is_signed ? -above : 0));
  // An ordered comparison: a NaN is in no range.
  Value* in_range =
      b.CreateAnd(b.CreateFCmpOLT(x, c(above)), b.CreateFCmpOGT(x, c(is_signed ? -above : 0)));
  Value* safe = v.select(in_range, x, c(0));
  Value* out = is_signed ? b.CreateFPToSI(safe, type) : b.CreateFPToUI(safe, type);
  const std::uint64_t most = ~std::uint64_t(0) >> (64 - digits);
  out = v.select(too_large, v.integer(type, most), out);
  return v.select(too_small, v.integer(type, is_signed ? ~most : 0), out);
}

/// Round to nearest, ties to even; a NaN stays one.
Value* to_bf16(const VectorBuilder& v, Value* x) {
  auto& b = v.b;
  llvm::Type* type = v.integers(32);
  const auto c = [&](std::uint64_t k) { return v.integer(type, k); };
  Value* u = b.CreateBitCast(x, type);
  Value* last = b.CreateAnd(b.CreateLShr(u, 16), c(1));
  Value* rounded = b.CreateLShr(b.CreateAdd(u, b.CreateAdd(last, c(0x7fff))), 16);
  Value* quiet = b.CreateOr(b.CreateLShr(u, 16), c(0x40));
  return b.CreateTrunc(v.select(b.CreateFCmpUNO(x, x), quiet, rounded), v.integers(16));
}

Value* to_float(const VectorBuilder& v, DType from, Value* x, llvm::Type* to) {
  if (is_float(from)) return v.b.CreateFPCast(x, to);
  return is_signed_integer(from) ? v.b.CreateSIToFP(x, to) : v.b.CreateUIToFP(x, to);
}

}  // namespace

Value* emit_lift(const VectorBuilder& v, DType small, const Lanes& x) {
  auto& b = v.b;
  if (is_small_float(small)) return emit_small_float_numbers(v, small, v.as_bits(x, 1));
  Value* bits = v.as_bits(x, 2);
  llvm::Type* single = v.vector(b.getFloatTy());
  if (small == DType::bf16) {
    return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, v.integers(32)), 16), single);
  }
  if (!v.machine.half) return nullptr;
  return b.CreateFPExt(b.CreateBitCast(bits, v.vector(b.getHalfTy())), single);
}

std::optional<Lanes> emit_convert(const VectorBuilder& v, DType from, DType to, const Lanes& x) {
  auto& b = v.b;
  if (is_complex(from)) {
    const Lanes z = v.as_complex(from, x);
    if (is_complex(to)) {
      llvm::Type* part = v.vector(v.element(to));
      return VectorBuilder::complex(b.CreateFPCast(z.value, part),
                                    b.CreateFPCast(z.imaginary, part));
    }
    if (to == DType::pred) {
      Value* zero = llvm::Constant::getNullValue(z.value->getType());
      return VectorBuilder::mask(
          b.CreateOr(b.CreateFCmpUNE(z.value, zero), b.CreateFCmpUNE(z.imaginary, zero)));
    }
    return emit_convert(v, real_type(from), to, VectorBuilder::bits(z.value));
  }
  Value* value = from == DType::pred ? b.CreateZExt(v.as_mask(x), v.integers(8)) : v.as(from, x);
  if (to == DType::pred) {
    Value* zero = llvm::Constant::getNullValue(value->getType());
    return VectorBuilder::mask(is_float(from) ? b.CreateFCmpUNE(value, zero)
                                              : b.CreateICmpNE(value, zero));
  }
  if (is_complex(to)) {
    llvm::Type* part = v.vector(v.element(to));
    return VectorBuilder::complex(to_float(v, from, value, part),
                                  llvm::Constant::getNullValue(part));
  }
  if (is_float(to)) return VectorBuilder::bits(to_float(v, from, value, v.vector(v.element(to))));
  if (to == DType::f16 || to == DType::bf16 || is_small_float(to)) {
    // Rounded once: only from what f32 holds exactly.
    if (!(from == DType::f32 || (!is_float(from) && byte_size(from) <= 2))) return std::nullopt;
    Value* single = to_float(v, from, value, v.vector(b.getFloatTy()));
    if (is_small_float(to)) return VectorBuilder::bits(emit_small_float_codes(v, to, single));
    if (to == DType::bf16) return VectorBuilder::bits(to_bf16(v, single));
    if (!v.machine.half) return std::nullopt;
    return VectorBuilder::bits(b.CreateFPTrunc(single, v.vector(b.getHalfTy())));
  }
  if (is_float(from)) return VectorBuilder::bits(to_integer(v, value, to));
  llvm::Type* type = v.integers(unsigned(byte_size(to)) * 8);
  return VectorBuilder::bits(is_signed_integer(from) ? b.CreateSExtOrTrunc(value, type)
                                                     : b.CreateZExtOrTrunc(value, type));
}

Value* emit_reduce_precision(const VectorBuilder& v, const ir::ReducePrecisionAttrs& to, Value* x) {
  auto& b = v.b;
  const bool single = x->getType()->getScalarSizeInBits() == 32;
  const int mantissa = single ? 23 : 52, exponent = single ? 8 : 11, width = single ? 32 : 64;
  const int drop = mantissa - int(std::min<std::int64_t>(to.mantissa_bits, mantissa));
  const int bits = int(std::min<std::int64_t>(to.exponent_bits, exponent));
  llvm::Type* type = v.integers(unsigned(width));
  const auto c = [&](std::uint64_t k) { return v.integer(type, k); };
  const std::uint64_t one = 1, sign_mask = one << (width - 1);
  const std::uint64_t exponent_mask = ((one << exponent) - 1) << mantissa;
  Value* u = b.CreateBitCast(x, type);
  if (drop > 0) {
    Value* last = b.CreateAnd(b.CreateLShr(u, c(std::uint64_t(drop))), c(1));
    u = b.CreateAdd(u, b.CreateAdd(last, c((one << (drop - 1)) - 1)));
    u = b.CreateAnd(u, c(~((one << drop) - 1)));
  }
  if (bits < exponent) {
    const std::uint64_t bias = (one << (exponent - 1)) - 1, reduced = (one << (bits - 1)) - 1;
    Value* magnitude = b.CreateAnd(u, c(exponent_mask));
    Value* sign = b.CreateAnd(u, c(sign_mask));
    Value* large = b.CreateICmpUGT(magnitude, c((bias + reduced) << mantissa));
    Value* small = b.CreateICmpULE(magnitude, c((bias - reduced) << mantissa));
    u = v.select(large, b.CreateOr(sign, c(exponent_mask)), v.select(small, sign, u));
  }
  return v.select(b.CreateFCmpUNO(x, x), x, b.CreateBitCast(u, x->getType()));
}

}  // namespace tessera::codegen
