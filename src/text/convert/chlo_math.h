// SPDX-License-Identifier: Apache-2.0
// Formulas on arrays, for functions that HLO has no opcode for.
#pragma once

#include <map>
#include <span>

#include "src/text/read/reader.h"

namespace tessera::text {

class ChloMath;

/// An array of the formula's shape.
struct Num {
  ChloMath* m = nullptr;
  ir::Instruction* i = nullptr;
};

class ChloMath {
 public:
  /// Formulas in `dtype`, on arrays of these dims, as parts of `op`.
  ChloMath(Reader& reader, const Operation& op, DType dtype, Dims dims)
      : reader_(reader), op_(op), dtype_(dtype), dims_(std::move(dims)) {}

  DType dtype() const { return dtype_; }
  bool wide() const { return dtype_ == DType::f64 || dtype_ == DType::c128; }
  Num operator()(ir::Instruction* i) { return {this, i}; }
  Num constant(double v);
  Num unary(ir::Opcode opcode, Num x);
  Num binary(ir::Opcode opcode, Num a, Num b);
  Num compare(ir::Direction direction, Num a, Num b);
  Num select(Num pred, Num a, Num b);
  Num convert(Num x, DType dtype);
  Num bits(Num x, DType dtype);
  ir::Instruction* make(ir::Opcode opcode, Shape shape, std::vector<ir::Instruction*> operands,
                        ir::Attributes attributes = {}, std::vector<ir::Computation*> called = {});
  /// Highest power first.
  Num polynomial(Num x, std::span<const double> coefficients);

  Num lgamma(Num x);
  Num digamma(Num x);
  Num zeta(Num x, Num q);
  Num polygamma(Num n, Num x);
  Num bessel_i1e(Num x);
  Num erfc(Num x);
  Num erf_inv(Num x);
  Num next_after(Num x, Num y);

 private:
  Num chebyshev(Num x, std::span<const double> coefficients);

  Reader& reader_;
  const Operation& op_;
  DType dtype_;
  Dims dims_;
  std::map<std::pair<DType, std::uint64_t>, ir::Instruction*> numbers_;
};

inline Num operator+(Num a, Num b) { return a.m->binary(ir::Opcode::add, a, b); }
inline Num operator-(Num a, Num b) { return a.m->binary(ir::Opcode::subtract, a, b); }
inline Num operator*(Num a, Num b) { return a.m->binary(ir::Opcode::multiply, a, b); }
inline Num operator/(Num a, Num b) { return a.m->binary(ir::Opcode::divide, a, b); }
inline Num operator+(Num a, double b) { return a + a.m->constant(b); }
inline Num operator-(Num a, double b) { return a - a.m->constant(b); }
inline Num operator*(Num a, double b) { return a * a.m->constant(b); }
inline Num operator/(Num a, double b) { return a / a.m->constant(b); }
inline Num operator+(double a, Num b) { return b.m->constant(a) + b; }
inline Num operator-(double a, Num b) { return b.m->constant(a) - b; }
inline Num operator*(double a, Num b) { return b.m->constant(a) * b; }
inline Num operator/(double a, Num b) { return b.m->constant(a) / b; }
inline Num operator-(Num a) { return a.m->unary(ir::Opcode::negate, a); }
inline Num operator<(Num a, Num b) { return a.m->compare(ir::Direction::lt, a, b); }
inline Num operator<=(Num a, Num b) { return a.m->compare(ir::Direction::le, a, b); }
inline Num operator>(Num a, Num b) { return a.m->compare(ir::Direction::gt, a, b); }
inline Num operator>=(Num a, Num b) { return a.m->compare(ir::Direction::ge, a, b); }
inline Num operator==(Num a, Num b) { return a.m->compare(ir::Direction::eq, a, b); }
inline Num operator!=(Num a, Num b) { return a.m->compare(ir::Direction::ne, a, b); }
inline Num operator<(Num a, double b) { return a < a.m->constant(b); }
inline Num operator<=(Num a, double b) { return a <= a.m->constant(b); }
inline Num operator>(Num a, double b) { return a > a.m->constant(b); }
inline Num operator>=(Num a, double b) { return a >= a.m->constant(b); }
inline Num operator==(Num a, double b) { return a == a.m->constant(b); }
inline Num operator&(Num a, Num b) { return a.m->binary(ir::Opcode::and_, a, b); }
inline Num operator|(Num a, Num b) { return a.m->binary(ir::Opcode::or_, a, b); }
inline Num choose(Num pred, Num a, Num b) { return pred.m->select(pred, a, b); }
inline Num choose(Num pred, Num a, double b) { return choose(pred, a, a.m->constant(b)); }
inline Num choose(Num pred, double a, Num b) { return choose(pred, b.m->constant(a), b); }
inline Num abs(Num x) { return x.m->unary(ir::Opcode::abs, x); }
inline Num sign(Num x) { return x.m->unary(ir::Opcode::sign, x); }
inline Num log(Num x) { return x.m->unary(ir::Opcode::log, x); }
inline Num log1p(Num x) { return x.m->unary(ir::Opcode::log_plus_one, x); }
inline Num exp(Num x) { return x.m->unary(ir::Opcode::exponential, x); }
inline Num sqrt(Num x) { return x.m->unary(ir::Opcode::sqrt, x); }
inline Num floor(Num x) { return x.m->unary(ir::Opcode::floor, x); }
inline Num sin(Num x) { return x.m->unary(ir::Opcode::sine, x); }
inline Num cos(Num x) { return x.m->unary(ir::Opcode::cosine, x); }
inline Num pow(Num x, Num y) { return x.m->binary(ir::Opcode::power, x, y); }

}  // namespace tessera::text
