// SPDX-License-Identifier: Apache-2.0
// LLVM IR of each elementwise op: by family of types.
#include "src/codegen/llvm/elementwise_ops.h"

#include <llvm/Analysis/VectorUtils.h>

#include <limits>

#include "src/codegen/llvm/complex_math.h"
#include "src/codegen/llvm/conversions.h"
#include "src/codegen/llvm/vector_math.h"

namespace tessera::codegen {
namespace {

using ir::Direction;
using ir::Opcode;
using llvm::Value;
using Result = std::optional<Lanes>;

Result result(Value* v) {
  if (v == nullptr) return std::nullopt;
  return v->getType()->isIntOrIntVectorTy(1) ? VectorBuilder::mask(v) : VectorBuilder::bits(v);
}

Value* float_unary(const VectorBuilder& v, Opcode op, DType t, Value* x) {
  auto& b = v.b;
  namespace I = llvm::Intrinsic;
  const auto c = [&](double k) { return v.constant(x->getType(), k); };
  switch (op) {
    case Opcode::abs:
      return v.intrinsic(I::fabs, x);
    case Opcode::ceil:
      return v.intrinsic(I::ceil, x);
    case Opcode::floor:
      return v.intrinsic(I::floor, x);
    case Opcode::negate:
      return b.CreateFNeg(x);
    case Opcode::real:
      return x;
    case Opcode::round_nearest_afz:
      return v.intrinsic(I::round, x);
    case Opcode::round_nearest_even:
      return v.intrinsic(I::roundeven, x);
    case Opcode::sqrt:
      return v.intrinsic(I::sqrt, x);
    case Opcode::rsqrt:
      return b.CreateFDiv(c(1), v.intrinsic(I::sqrt, x));
    case Opcode::sign: {
      // Not x: where subnormal numbers are zeros, their sign is one.
      Value* negative = v.select(b.CreateFCmpOLT(x, c(0)), c(-1), b.CreateFAdd(x, x));
      return v.select(b.CreateFCmpOGT(x, c(0)), c(1), negative);
    }
    case Opcode::is_finite:
      return b.CreateFCmpOLT(v.intrinsic(I::fabs, x),
                             v.constant(x->getType(), std::numeric_limits<double>::infinity()));
    default:
      return emit_math(v, op, t, {x});
  }
}

Value* float_binary(const VectorBuilder& v, Opcode op, DType t, Value* x, Value* y) {
  auto& b = v.b;
  switch (op) {
    case Opcode::add:
      return b.CreateFAdd(x, y);
    case Opcode::subtract:
      return b.CreateFSub(x, y);
    case Opcode::multiply:
      return b.CreateFMul(x, y);
    case Opcode::divide:
      return b.CreateFDiv(x, y);
    case Opcode::remainder:
      return b.CreateFRem(x, y);
    case Opcode::maximum:
    case Opcode::minimum:
      return emit_extremum(v, op == Opcode::maximum, x, y);
    default:
      return emit_math(v, op, t, {x, y});
  }
}

Value* integer_unary(const VectorBuilder& v, Opcode op, DType t, Value* x) {
  auto& b = v.b;
  Value* zero = v.integer(x->getType(), 0);
  switch (op) {
    case Opcode::abs:
      if (!is_signed_integer(t)) return x;
      return v.select(b.CreateICmpSLT(x, zero), b.CreateNeg(x), x);
    case Opcode::negate:
      return b.CreateNeg(x);
    case Opcode::not_:
      return b.CreateNot(x);
    case Opcode::sign: {
      Value* positive = b.CreateICmp(
          is_signed_integer(t) ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT, x, zero);
      Value* out = b.CreateZExt(positive, x->getType());
      if (!is_signed_integer(t)) return out;
      return b.CreateSub(out, b.CreateZExt(b.CreateICmpSLT(x, zero), x->getType()));
    }
    case Opcode::popcnt:
      return v.intrinsic(llvm::Intrinsic::ctpop, x);
    case Opcode::count_leading_zeros:
      return b.CreateIntrinsic(llvm::Intrinsic::ctlz, {x->getType()}, {x, b.getFalse()});
    default:
      return nullptr;
  }
}

Value* to_double(const VectorBuilder& v, DType t, Value* x, llvm::Type* type) {
  return is_signed_integer(t) ? v.b.CreateSIToFP(x, type) : v.b.CreateUIToFP(x, type);
}

/// By what is the same in all lanes, of at most 32 bits and not zero: times its inverse in f64,
/// which a loop computes once. The inverse is made larger by 2^-51 of itself, so that the product
/// is never less than the quotient in size, however it is rounded, and more by less than 2^-17 /
/// |y|. The next whole number is at least 1 / |y| away: the whole part is exact.
Value* divided_by_one(const VectorBuilder& v, DType t, Value* x, Value* scalar) {
  auto& b = v.b;
  llvm::Type* const f64 = b.getDoubleTy();
  Value* inverse =
      b.CreateFDiv(llvm::ConstantFP::get(f64, 1 + 0x1p-51), to_double(v, t, scalar, f64));
  Value* product = b.CreateFMul(to_double(v, t, x, v.vector(f64)), v.splat(inverse));
  return is_signed_integer(t) ? b.CreateFPToSI(product, x->getType())
                              : b.CreateFPToUI(product, x->getType());
}

/// A quotient by zero is -1, and one that overflows wraps, as XLA has them.
Value* divided(const VectorBuilder& v, DType t, Value* x, Value* y) {
  auto& b = v.b;
  const bool is_signed = is_signed_integer(t);
  const auto replaced = [&](Value* by) {
    llvm::Type* type = by->getType();
    Value* unsafe = b.CreateICmpEQ(by, v.integer(type, 0));
    if (is_signed) {
      Value* minus_one = llvm::Constant::getAllOnesValue(type);
      unsafe = b.CreateOr(unsafe, b.CreateICmpEQ(by, minus_one));
    }
    return b.CreateSelect(unsafe, v.integer(type, 1), by);
  };
  llvm::Type* type = x->getType();
  Value* safe = replaced(y);
  Value* q;
  if (byte_size(t) > 4 || llvm::isa<llvm::Constant>(safe)) {
    // By what is known while compiling, LLVM multiplies instead.
    q = is_signed ? b.CreateSDiv(x, safe) : b.CreateUDiv(x, safe);
  } else if (Value* one = v.width >= 4 ? llvm::getSplatValue(y) : nullptr) {
    q = divided_by_one(v, t, x, replaced(one));
  } else {
    // Exact: no quotient of integers of 32 bits rounds to another whole number in f64.
    llvm::Type* wide = v.vector(b.getDoubleTy());
    Value* quotient = b.CreateFDiv(to_double(v, t, x, wide), to_double(v, t, safe, wide));
    q = is_signed ? b.CreateFPToSI(quotient, type) : b.CreateFPToUI(quotient, type);
  }
  if (is_signed) {
    Value* negated = b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(type));
    q = v.select(negated, b.CreateNeg(x), q);
  }
  Value* by_zero = b.CreateICmpEQ(y, v.integer(type, 0));
  return v.select(by_zero, llvm::Constant::getAllOnesValue(type), q);
}

Value* remainder_of(const VectorBuilder& v, DType t, Value* x, Value* y) {
  auto& b = v.b;
  // By zero, x; by -1, 0: x minus the wrapped product.
  Value* q = divided(v, t, x, y);
  Value* r = b.CreateSub(x, b.CreateMul(q, y));
  return v.select(b.CreateICmpEQ(y, v.integer(y->getType(), 0)), x, r);
}

/// By squaring, a step for each bit of the exponent. To a negative power it is the whole part.
Value* integer_power(const VectorBuilder& v, DType t, Value* base, Value* exponent) {
  auto& b = v.b;
  llvm::Type* type = base->getType();
  Value* zero = v.integer(type, 0);
  Value* one = v.integer(type, 1);
  Value* factor = base;
  Value* out = one;
  const auto bits = unsigned(byte_size(t)) * 8;
  for (unsigned k = 0; k < bits; ++k) {
    Value* is_set =
        b.CreateICmpNE(b.CreateAnd(exponent, v.integer(type, std::uint64_t(1) << k)), zero);
    out = v.select(is_set, b.CreateMul(out, factor), out);
    if (k + 1 < bits) factor = b.CreateMul(factor, factor);
  }
  if (!is_signed_integer(t)) return out;
  Value* minus_one = llvm::Constant::getAllOnesValue(type);
  Value* is_odd = b.CreateICmpNE(b.CreateAnd(exponent, one), zero);
  Value* inverse = v.select(b.CreateICmpEQ(base, one), one, zero);
  inverse = v.select(b.CreateICmpEQ(base, minus_one), v.select(is_odd, minus_one, one), inverse);
  return v.select(b.CreateICmpSLT(exponent, zero), inverse, out);
}

Value* integer_binary(const VectorBuilder& v, Opcode op, DType t, Value* x, Value* y) {
  auto& b = v.b;
  using P = llvm::CmpInst;
  llvm::Type* type = x->getType();
  const bool is_signed = is_signed_integer(t);
  const std::uint64_t bits = byte_size(t) * 8;
  const auto shifted = [&](Value* made) {
    return v.select(b.CreateICmpUGE(y, v.integer(type, bits)), v.integer(type, 0), made);
  };
  Value* within = b.CreateAnd(y, v.integer(type, bits - 1));
  switch (op) {
    case Opcode::add:
      return b.CreateAdd(x, y);
    case Opcode::subtract:
      return b.CreateSub(x, y);
    case Opcode::multiply:
      return b.CreateMul(x, y);
    case Opcode::maximum:
      return v.select(b.CreateICmp(is_signed ? P::ICMP_SGT : P::ICMP_UGT, x, y), x, y);
    case Opcode::minimum:
      return v.select(b.CreateICmp(is_signed ? P::ICMP_SLT : P::ICMP_ULT, x, y), x, y);
    case Opcode::and_:
      return b.CreateAnd(x, y);
    case Opcode::or_:
      return b.CreateOr(x, y);
    case Opcode::xor_:
      return b.CreateXor(x, y);
    case Opcode::divide:
      return divided(v, t, x, y);
    case Opcode::remainder:
      return remainder_of(v, t, x, y);
    case Opcode::power:
      return integer_power(v, t, x, y);
    case Opcode::shift_left:
      return shifted(b.CreateShl(x, within));
    case Opcode::shift_right_logical:
      return shifted(b.CreateLShr(x, within));
    case Opcode::shift_right_arithmetic: {
      Value* most = v.integer(type, bits - 1);
      return b.CreateAShr(x, v.select(b.CreateICmpUGE(y, v.integer(type, bits)), most, within));
    }
    default:
      return nullptr;
  }
}

/// Numbers of one bit, but for a sum: that is "or".
Value* pred_binary(const VectorBuilder& v, Opcode op, Value* x, Value* y) {
  auto& b = v.b;
  switch (op) {
    case Opcode::add:
    case Opcode::or_:
    case Opcode::maximum:
      return b.CreateOr(x, y);
    case Opcode::subtract:
    case Opcode::xor_:
      return b.CreateXor(x, y);
    case Opcode::multiply:
    case Opcode::and_:
    case Opcode::minimum:
      return b.CreateAnd(x, y);
    default:
      return nullptr;
  }
}

Result complex_unary(const VectorBuilder& v, Opcode op, DType t, const Lanes& operand) {
  auto& b = v.b;
  const Lanes x = v.as_complex(t, operand);
  switch (op) {
    case Opcode::negate:
      return VectorBuilder::complex(b.CreateFNeg(x.value), b.CreateFNeg(x.imaginary));
    case Opcode::real:
      return VectorBuilder::bits(x.value);
    case Opcode::imag:
      return VectorBuilder::bits(x.imaginary);
    case Opcode::abs:
      return result(emit_hypot(v, t == DType::c64 ? DType::f32 : DType::f64, x.value, x.imaginary));
    default:
      return emit_complex_function(v, op, t, x);
  }
}

Result complex_binary(const VectorBuilder& v, Opcode op, DType t, const Lanes& left,
                      const Lanes& right) {
  auto& b = v.b;
  if (op == Opcode::complex) return VectorBuilder::complex(v.as(t, left), v.as(t, right));
  const Lanes x = v.as_complex(t, left), y = v.as_complex(t, right);
  switch (op) {
    case Opcode::add:
      return VectorBuilder::complex(b.CreateFAdd(x.value, y.value),
                                    b.CreateFAdd(x.imaginary, y.imaginary));
    case Opcode::subtract:
      return VectorBuilder::complex(b.CreateFSub(x.value, y.value),
                                    b.CreateFSub(x.imaginary, y.imaginary));
    case Opcode::multiply: {
      Value* re =
          b.CreateFSub(b.CreateFMul(x.value, y.value), b.CreateFMul(x.imaginary, y.imaginary));
      Value* im =
          b.CreateFAdd(b.CreateFMul(x.value, y.imaginary), b.CreateFMul(x.imaginary, y.value));
      return VectorBuilder::complex(re, im);
    }
    case Opcode::divide:
      return emit_complex_quotient(v, t, x, y);
    case Opcode::power:
      return emit_complex_power(v, t, x, y);
    default:
      return std::nullopt;
  }
}

/// Floats as integers in their total order.
Value* total_order_key(const VectorBuilder& v, Value* x) {
  auto& b = v.b;
  const unsigned bits = x->getType()->getScalarSizeInBits();
  Value* i = b.CreateBitCast(x, v.integers(bits));
  Value* flipped = b.CreateXor(i, v.integer(i->getType(), ~std::uint64_t(0) >> (65 - bits)));
  return v.select(b.CreateICmpSLT(i, v.integer(i->getType(), 0)), flipped, i);
}

Value* compared(const VectorBuilder& v, const BlockOp& op, const Lanes& left, const Lanes& right) {
  auto& b = v.b;
  using P = llvm::CmpInst;
  const auto d = std::size_t(op.direction);
  constexpr P::Predicate kSigned[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_SLT,
                                      P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  if (is_complex(op.type)) {
    const Lanes x = v.as_complex(op.type, left), y = v.as_complex(op.type, right);
    if (op.direction == Direction::eq) {
      return b.CreateAnd(b.CreateFCmpOEQ(x.value, y.value),
                         b.CreateFCmpOEQ(x.imaginary, y.imaginary));
    }
    if (op.direction != Direction::ne) return nullptr;
    return b.CreateOr(b.CreateFCmpUNE(x.value, y.value), b.CreateFCmpUNE(x.imaginary, y.imaginary));
  }
  Value* x = v.as(op.type, left);
  Value* y = v.as(op.type, right);
  if (is_float(op.type)) {
    if (op.comparison == ir::ComparisonType::total_order) {
      return b.CreateICmp(kSigned[d], total_order_key(v, x), total_order_key(v, y));
    }
    constexpr P::Predicate kFloat[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT,
                                       P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
    return b.CreateFCmp(kFloat[d], x, y);
  }
  constexpr P::Predicate kUnsigned[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_ULT,
                                        P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  return b.CreateICmp(is_signed_integer(op.type) ? kSigned[d] : kUnsigned[d], x, y);
}

Lanes selected(const VectorBuilder& v, unsigned element_bytes, const std::vector<Lanes>& operands) {
  Value* mask = v.as_mask(operands[0]);
  Lanes yes = operands[1], no = operands[2];
  if (yes.kind == Lanes::Kind::complex || no.kind == Lanes::Kind::complex) {
    const DType t = element_bytes == 8 ? DType::c64 : DType::c128;
    yes = v.as_complex(t, yes);
    no = v.as_complex(t, no);
    return VectorBuilder::complex(v.select(mask, yes.value, no.value),
                                  v.select(mask, yes.imaginary, no.imaginary));
  }
  if (yes.kind == Lanes::Kind::mask && no.kind == Lanes::Kind::mask) {
    return VectorBuilder::mask(v.select(mask, yes.value, no.value));
  }
  return VectorBuilder::bits(
      v.select(mask, v.as_bits(yes, element_bytes), v.as_bits(no, element_bytes)));
}

/// min(max(low, x), high); a NaN anywhere wins.
Value* clamped(const VectorBuilder& v, DType t, Value* low, Value* x, Value* high) {
  if (is_float(t)) {
    return emit_extremum(v, false, emit_extremum(v, true, low, x), high);
  }
  return integer_binary(v, Opcode::minimum, t, integer_binary(v, Opcode::maximum, t, low, x), high);
}

}  // namespace

Value* emit_extremum(const VectorBuilder& v, bool greatest, Value* x, Value* y) {
  auto& b = v.b;
  // Of equal ones, all that differs is the sign of zeros: "and" of the signs for the greatest.
  llvm::Type* bits = v.integers(x->getType()->getScalarSizeInBits());
  Value* xb = b.CreateBitCast(x, bits);
  Value* yb = b.CreateBitCast(y, bits);
  Value* equal = b.CreateBitCast(greatest ? b.CreateAnd(xb, yb) : b.CreateOr(xb, yb), x->getType());
  Value* x_wins = greatest ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y);
  x_wins = b.CreateOr(x_wins, b.CreateFCmpUNO(x, x));
  return v.select(b.CreateFCmpOEQ(x, y), equal, v.select(x_wins, x, y));
}

Result emit_operation(const VectorBuilder& v, const BlockOp& op,
                      const std::vector<Lanes>& operands) {
  const DType t = op.type;
  switch (op.kind) {
    case BlockOp::Kind::copy:
      return operands[0];
    case BlockOp::Kind::take:
      return std::nullopt;  // of an array, not of lanes
    case BlockOp::Kind::select:
      return selected(v, unsigned(op.element_bytes), operands);
    case BlockOp::Kind::compare:
      return result(compared(v, op, operands[0], operands[1]));
    case BlockOp::Kind::clamp:
      return result(
          clamped(v, t, v.as(t, operands[0]), v.as(t, operands[1]), v.as(t, operands[2])));
    case BlockOp::Kind::convert:
      return emit_convert(v, t, op.to, operands[0]);
    case BlockOp::Kind::lift:
      return result(emit_lift(v, t, operands[0]));
    case BlockOp::Kind::round: {
      const Result narrow = emit_convert(v, DType::f32, t, operands[0]);
      return narrow ? result(emit_lift(v, t, *narrow)) : std::nullopt;
    }
    case BlockOp::Kind::reduce_precision:
      return result(emit_reduce_precision(v, op.precision, v.as(t, operands[0])));
    case BlockOp::Kind::unary: {
      if (op.opcode == Opcode::copy) return operands[0];
      if (is_complex(t)) return complex_unary(v, op.opcode, t, operands[0]);
      if (t == DType::pred) {
        if (op.opcode != Opcode::not_) return std::nullopt;
        return result(v.b.CreateNot(v.as_mask(operands[0])));
      }
      Value* x = v.as(t, operands[0]);
      return result(is_float(t) ? float_unary(v, op.opcode, t, x)
                                : integer_unary(v, op.opcode, t, x));
    }
    case BlockOp::Kind::binary: {
      if (op.opcode == Opcode::complex || is_complex(t)) {
        return complex_binary(v, op.opcode, t, operands[0], operands[1]);
      }
      if (t == DType::pred) {
        return result(pred_binary(v, op.opcode, v.as_mask(operands[0]), v.as_mask(operands[1])));
      }
      Value* x = v.as(t, operands[0]);
      Value* y = v.as(t, operands[1]);
      return result(is_float(t) ? float_binary(v, op.opcode, t, x, y)
                                : integer_binary(v, op.opcode, t, x, y));
    }
  }
  return std::nullopt;
}

}  // namespace tessera::codegen
