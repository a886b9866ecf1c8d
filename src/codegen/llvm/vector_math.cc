// SPDX-License-Identifier: Apache-2.0
// Own polynomials for the functions that networks are made of; the C library's vector functions
// (libmvec) for all others.
#include "src/codegen/llvm/vector_math.h"

#include <algorithm>
#include <limits>

namespace tessera::codegen {
namespace {

using ir::Opcode;
using llvm::Value;

Value* polynomial(const VectorBuilder& v, Value* x, std::initializer_list<double> highest_first) {
  Value* q = nullptr;
  for (const double c : highest_first) {
    Value* k = v.constant(x->getType(), c);
    q = q == nullptr ? k : v.multiply_add(q, x, k);
  }
  return q;
}

/// e^x = 2^n e^r with |r| <= ln(2) / 2; beyond the bounds the result is infinite or zero.
Value* exp_f32(const VectorBuilder& v, Value* x) {
  auto& b = v.b;
  llvm::Type* t = x->getType();
  const auto c = [&](double k) { return v.constant(t, k); };
  // An unordered comparison keeps a NaN.
  Value* y = v.select(b.CreateFCmpOGT(x, c(89)), c(89), x);
  y = v.select(b.CreateFCmpOLT(y, c(-104)), c(-104), y);
  constexpr double kRound = 12582912;  // 1.5 * 2^23: adding it leaves a whole number
  Value* n = b.CreateFSub(v.multiply_add(y, c(1.44269504f), c(kRound)), c(kRound));
  // ln(2) in two parts, the first with so few bits that n times it is exact.
  Value* r = v.multiply_add(n, c(-0.693359375), y);
  r = v.multiply_add(n, c(2.12194440e-4f), r);
  Value* q = polynomial(v, r,
                        {1.98909809e-4f, 1.39336410e-3f, 8.33331093e-3f, 4.16664650e-2f,
                         1.66666667e-1f, 5.00000001e-1f});
  Value* p = b.CreateFAdd(v.multiply_add(b.CreateFMul(r, r), q, r), c(1));
  // In two steps, as 2^n alone may leave the range that p 2^n stays in. A NaN has any n.
  llvm::Type* i = v.integers(32);
  Value* frozen = b.CreateFreeze(b.CreateFPToSI(n, i));
  Value* half = b.CreateAShr(frozen, 1);
  const auto power = [&](Value* e) {
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(e, v.integer(i, 127)), 23), t);
  };
  // An exact zero, as masked scores are: processors take long over products that underflow.
  Value* rest = v.select(b.CreateFCmpOLE(x, c(-104)), c(0), power(b.CreateSub(frozen, half)));
  return b.CreateFMul(b.CreateFMul(p, power(half)), rest);
}

Value* tanh_f32(const VectorBuilder& v, Value* x) {
  auto& b = v.b;
  const auto c = [&](double k) { return v.constant(x->getType(), k); };
  const auto with_sign = [&](Value* magnitude) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, x);
  };
  Value* a = v.intrinsic(llvm::Intrinsic::fabs, x);
  Value* z = b.CreateFMul(x, x);
  Value* q = polynomial(v, z,
                        {2.29430486e-3f, -8.34532114e-3f, 2.17693384e-2f, -5.39593111e-2f,
                         1.33333038e-1f, -3.33333332e-1f});
  Value* near = with_sign(v.multiply_add(x, b.CreateFMul(z, q), x));  // keeps -0
  Value* e = exp_f32(v, b.CreateFMul(a, c(2)));
  Value* far = with_sign(b.CreateFSub(c(1), b.CreateFDiv(c(2), b.CreateFAdd(e, c(1)))));
  return v.select(b.CreateFCmpOLT(a, c(0.625)), near, far);
}

/// log x = e log 2 + log(1 + f), with 1 + f in [sqrt(1/2), sqrt(2)).
Value* log_f32(const VectorBuilder& v, Value* x) {
  auto& b = v.b;
  llvm::Type* t = x->getType();
  llvm::Type* i = v.integers(32);
  const auto c = [&](double k) { return v.constant(t, k); };
  constexpr double kLeast = 1.17549435e-38, kInfinity = std::numeric_limits<double>::infinity();
  Value* is_small = b.CreateFCmpOLT(x, c(kLeast));
  Value* scaled = v.select(is_small, b.CreateFMul(x, c(8388608)), x);
  constexpr std::uint64_t kRootOfHalf = 0x3f3504f3;
  Value* above = b.CreateSub(b.CreateBitCast(scaled, i), v.integer(i, kRootOfHalf));
  Value* e = b.CreateSIToFP(b.CreateAShr(above, 23), t);
  e = b.CreateFSub(e, v.select(is_small, c(23), c(0)));
  Value* m = b.CreateAdd(b.CreateAnd(above, v.integer(i, 0x7fffff)), v.integer(i, kRootOfHalf));
  Value* f = b.CreateFSub(b.CreateBitCast(m, t), c(1));
  Value* q = polynomial(v, f,
                        {0.0674663782f, -0.116756514f, 0.118881628f, -0.124055892f, 0.142195523f,
                         -0.166679963f, 0.200021192f, -0.250000089f, 0.333333135f});
  Value* square = b.CreateFMul(f, f);
  // log 2 in two parts, the first with so few bits that e times it is exact.
  Value* rest = v.multiply_add(e, c(-2.12194440e-4f), b.CreateFMul(b.CreateFMul(square, f), q));
  rest = v.multiply_add(square, c(-0.5), rest);
  Value* out = v.multiply_add(e, c(0.693359375), b.CreateFAdd(rest, f));
  out = v.select(b.CreateFCmpOEQ(x, c(kInfinity)), x, out);
  out = v.select(b.CreateFCmpOEQ(x, c(0)), c(-kInfinity), out);
  // Also of a NaN.
  Value* defined = b.CreateFCmpOGE(x, c(0));
  return v.select(defined, out, c(std::numeric_limits<double>::quiet_NaN()));
}

/// log(1 + x): what 1 + x loses is made good to first order.
Value* log1p_f32(const VectorBuilder& v, Value* x) {
  auto& b = v.b;
  const auto c = [&](double k) { return v.constant(x->getType(), k); };
  Value* u = b.CreateFAdd(x, c(1));
  Value* lost = b.CreateFDiv(b.CreateFSub(x, b.CreateFSub(u, c(1))), u);
  Value* log = log_f32(v, u);
  Value* corrected = b.CreateFAdd(log, lost);
  // At 0 and infinity there is nothing to be made good, and near 0 it is x itself.
  Value* finite = b.CreateFCmpOLT(v.intrinsic(llvm::Intrinsic::fabs, log),
                                  c(std::numeric_limits<double>::infinity()));
  Value* out = v.select(finite, corrected, log);
  return v.select(b.CreateFCmpOEQ(u, c(1)), x, out);
}

/// A function of libmvec, in as many calls as its vectors need.
Value* library(const VectorBuilder& v, const char* name, DType t, llvm::ArrayRef<Value*> operands) {
  if (!v.machine.vector_math || (t != DType::f32 && t != DType::f64)) return nullptr;
  auto& b = v.b;
  const bool single = t == DType::f32;
  const unsigned lanes = v.machine.vector_bytes / (single ? 4 : 8);
  llvm::Type* scalar = single ? b.getFloatTy() : b.getDoubleTy();
  auto* vector = llvm::FixedVectorType::get(scalar, lanes);
  const std::string symbol = std::string("_ZGV") + v.machine.vector_abi + "N" +
                             std::to_string(lanes) + std::string(operands.size(), 'v') + "_" +
                             name + (single ? "f" : "");
  llvm::Module* module = b.GetInsertBlock()->getModule();
  const llvm::SmallVector<llvm::Type*> parameters(operands.size(), vector);
  llvm::FunctionCallee f =
      module->getOrInsertFunction(symbol, llvm::FunctionType::get(vector, parameters, false));
  auto* function = llvm::cast<llvm::Function>(f.getCallee());
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();
  llvm::SmallVector<Value*> parts;
  for (unsigned first = 0; first < v.width; first += lanes) {
    llvm::SmallVector<int> from;
    for (unsigned k = 0; k < lanes; ++k) from.push_back(int(std::min(first + k, v.width - 1)));
    llvm::SmallVector<Value*> arguments;
    for (Value* o : operands) {
      arguments.push_back(lanes == v.width ? o : b.CreateShuffleVector(o, from));
    }
    parts.push_back(b.CreateCall(f, arguments));
  }
  if (lanes == v.width) return parts[0];
  // Joined by halves; the width is a power of two.
  while (parts.size() > 1) {
    llvm::SmallVector<Value*> joined;
    for (std::size_t k = 0; k < parts.size(); k += 2) {
      const auto n = llvm::cast<llvm::FixedVectorType>(parts[k]->getType())->getNumElements();
      llvm::SmallVector<int> all;
      for (unsigned j = 0; j < 2 * n; ++j) all.push_back(int(j));
      joined.push_back(b.CreateShuffleVector(parts[k], parts[k + 1], all));
    }
    parts = std::move(joined);
  }
  if (lanes < v.width) return parts[0];
  llvm::SmallVector<int> first_lanes;
  for (unsigned k = 0; k < v.width; ++k) first_lanes.push_back(int(k));
  return b.CreateShuffleVector(parts[0], first_lanes);
}

/// Sine and cosine in doubles, in which what is left of an angle without its half turns has digits
/// enough: off by little more than half a unit in the last place. libmvec's are off by up to 4; it
/// is asked for vectors with an angle of very many turns, or none at all.
Value* sine_f32(const VectorBuilder& v, Value* x, bool cosine) {
  auto& b = v.b;
  llvm::Type* wide = v.vector(b.getDoubleTy());
  const auto c = [&](double k) { return v.constant(wide, k); };
  constexpr double kRound = 6755399441055744;  // 1.5 * 2^52: adding it leaves a whole number
  Value* angle = b.CreateFPExt(x, wide);
  // A cosine is a sine of a quarter turn more: its half turns are those up to half a one less.
  Value* turns = cosine ? v.multiply_add(angle, c(0.318309886183790672), c(0.5)) : nullptr;
  Value* whole = cosine ? b.CreateFAdd(turns, c(kRound))
                        : v.multiply_add(angle, c(0.318309886183790672), c(kRound));
  Value* n = b.CreateFSub(whole, c(kRound));
  if (cosine) n = b.CreateFSub(n, c(0.5));
  Value* r = v.multiply_add(n, c(-3.141592653589793116), angle);
  r = v.multiply_add(n, c(-1.2246467991473532e-16), r);
  Value* q = polynomial(v, b.CreateFMul(r, r),
                        {-2.3888908280353394e-08, 2.7525384369000636e-06, -1.9840868208835885e-04,
                         8.333331108595082e-03, -1.6666666626149454e-01, 1});
  // The sign turns with each half turn.
  llvm::Type* i = v.integers(64);
  Value* sign = b.CreateShl(b.CreateBitCast(whole, i), 63);
  r = b.CreateBitCast(b.CreateXor(b.CreateBitCast(r, i), sign), wide);
  Value* near = b.CreateFPTrunc(b.CreateFMul(r, q), x->getType());  // keeps -0
  constexpr double kMost = 1099511627776;                           // 2^40
  Value* far =
      b.CreateFCmpUGT(v.intrinsic(llvm::Intrinsic::fabs, x), v.constant(x->getType(), kMost));
  const auto of_many_turns = [&]() -> std::vector<Value*> {
    return {v.select(far, library(v, cosine ? "cos" : "sin", DType::f32, {x}), near)};
  };
  return emit_unless_any(b, far, {near}, of_many_turns)[0];
}

/// libmvec's is off by up to 4 units in the last place, more on some machines than on others: a
/// step of Newton's leaves less than one.
Value* cbrt_f32(const VectorBuilder& v, Value* x) {
  Value* y = library(v, "cbrt", DType::f32, {x});
  if (y == nullptr) return nullptr;
  auto& b = v.b;
  const auto c = [&](double k) { return v.constant(x->getType(), k); };
  Value* square = b.CreateFMul(y, y);
  Value* step =
      b.CreateFDiv(v.multiply_add(square, y, b.CreateFNeg(x)), b.CreateFMul(c(3), square));
  // Below, the residual has too few digits; an infinity has none.
  Value* size = v.intrinsic(llvm::Intrinsic::fabs, x);
  Value* better = b.CreateAnd(b.CreateFCmpOGT(size, c(1e-30)), b.CreateFCmpOLE(size, c(3.4e38)));
  return v.select(better, b.CreateFSub(y, step), y);
}

/// libmvec takes negative bases one by one: it is asked for their absolute values.
Value* power(const VectorBuilder& v, DType t, Value* x, Value* y) {
  auto& b = v.b;
  const auto c = [&](double k) { return v.constant(x->getType(), k); };
  const auto is_whole = [&](Value* n) {
    return b.CreateFCmpOEQ(v.intrinsic(llvm::Intrinsic::trunc, n), n);
  };
  Value* out = library(v, "pow", t, {v.intrinsic(llvm::Intrinsic::fabs, x), y});
  if (out == nullptr) return nullptr;
  // To odd powers the sign stays, also that of zero and infinity; to broken ones there is none.
  Value* whole = is_whole(y);
  Value* odd = b.CreateAnd(whole, b.CreateNot(is_whole(b.CreateFMul(y, c(0.5)))));
  Value* one = c(1);
  Value* sign = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, one, x);
  out = b.CreateFMul(out, v.select(odd, sign, one));
  Value* below = b.CreateAnd(b.CreateFCmpOLT(x, c(0)),
                             b.CreateFCmpOGT(x, c(-std::numeric_limits<double>::infinity())));
  return v.select(b.CreateAnd(below, b.CreateNot(whole)),
                  c(std::numeric_limits<double>::quiet_NaN()), out);
}

const char* library_name(Opcode op) {
  switch (op) {
    case Opcode::acos:
      return "acos";
    case Opcode::acosh:
      return "acosh";
    case Opcode::asin:
      return "asin";
    case Opcode::asinh:
      return "asinh";
    case Opcode::atan2:
      return "atan2";
    case Opcode::atanh:
      return "atanh";
    case Opcode::cbrt:
      return "cbrt";
    case Opcode::cosine:
      return "cos";
    case Opcode::cosh:
      return "cosh";
    case Opcode::erf:
      return "erf";
    case Opcode::exponential:
      return "exp";
    case Opcode::exponential_minus_one:
      return "expm1";
    case Opcode::log:
      return "log";
    case Opcode::log_plus_one:
      return "log1p";
    case Opcode::sine:
      return "sin";
    case Opcode::sinh:
      return "sinh";
    case Opcode::tan:
      return "tan";
    case Opcode::tanh:
      return "tanh";
    default:
      return nullptr;
  }
}

}  // namespace

Value* emit_math(const VectorBuilder& v, Opcode op, DType t, llvm::ArrayRef<Value*> operands) {
  auto& b = v.b;
  if (op == Opcode::logistic) {
    Value* one = v.constant(operands[0]->getType(), 1);
    Value* e = emit_math(v, Opcode::exponential, t, {b.CreateFNeg(operands[0])});
    return e == nullptr ? nullptr : b.CreateFDiv(one, b.CreateFAdd(one, e));
  }
  if (t == DType::f32 && (op == Opcode::sine || op == Opcode::cosine) && v.machine.fma &&
      v.machine.vector_math) {
    return sine_f32(v, operands[0], op == Opcode::cosine);
  }
  if (op == Opcode::power) return power(v, t, operands[0], operands[1]);
  if (t == DType::f32 && op == Opcode::cbrt) return cbrt_f32(v, operands[0]);
  if (t == DType::f32 && op == Opcode::exponential) return exp_f32(v, operands[0]);
  if (t == DType::f32 && op == Opcode::tanh) return tanh_f32(v, operands[0]);
  if (t == DType::f32 && op == Opcode::log) return log_f32(v, operands[0]);
  if (t == DType::f32 && op == Opcode::log_plus_one) return log1p_f32(v, operands[0]);
  const char* name = library_name(op);
  return name == nullptr ? nullptr : library(v, name, t, operands);
}

Value* emit_hypot(const VectorBuilder& v, DType t, Value* x, Value* y) {
  return library(v, "hypot", t, {x, y});
}

}  // namespace tessera::codegen
