// SPDX-License-Identifier: Apache-2.0
// Formulas on arrays, for functions that HLO has no opcode for: written once, emitted into programs
// that are read and into those that are traced.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::ir {

namespace formulas {
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
}  // namespace formulas

class Formula;

/// An array of the formula's shape.
struct Num {
  Formula* m = nullptr;
  Instruction* i = nullptr;
};

/// Emits the ops of a formula in one dtype, on arrays of one shape.
class Formula {
 public:
  virtual ~Formula() = default;

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  bool wide() const { return dtype_ == DType::f64 || dtype_ == DType::c128; }
  Num operator()(Instruction* i) { return {this, i}; }
  Num constant(double v);
  Num unary(Opcode opcode, Num x) { return {this, make(opcode, x.i->shape, {x.i})}; }
  Num binary(Opcode opcode, Num a, Num b) { return {this, make(opcode, a.i->shape, {a.i, b.i})}; }
  Num compare(Direction direction, Num a, Num b);
  Num select(Num pred, Num a, Num b) {
    return {this, make(Opcode::select, a.i->shape, {pred.i, a.i, b.i})};
  }
  Num convert(Num x, DType dtype);
  Num bits(Num x, DType dtype) {
    return {this, make(Opcode::bitcast_convert, Shape(dtype, dims_), {x.i})};
  }
  /// Highest power first.
  Num polynomial(Num x, std::span<const double> coefficients);
  /// Half of the first coefficient counts last, as in Cephes.
  Num chebyshev(Num x, std::span<const double> coefficients);

  virtual Instruction* make(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                            Attributes attributes = {}, std::vector<Computation*> called = {}) = 0;
  /// What loops are made by; null if the formula can't have any.
  virtual Builder* builder() { return nullptr; }

 protected:
  /// Formulas in `dtype`, on arrays of these dims.
  Formula(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)) {}
  /// All elements equal to a number of the formula's dtype.
  virtual Instruction* filled(double v) = 0;

 private:
  DType dtype_;
  Dims dims_;
  std::map<std::uint64_t, Instruction*> numbers_;
};

/// Formulas that a builder emits.
class BuilderFormula final : public Formula {
 public:
  BuilderFormula(Builder& b, DType dtype, Dims dims) : Formula(dtype, std::move(dims)), b_(b) {}
  Instruction* make(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                    Attributes attributes = {}, std::vector<Computation*> called = {}) override {
    return b_.emit_shaped(opcode, std::move(shape), std::move(operands), std::move(attributes),
                          std::move(called));
  }
  Builder* builder() override { return &b_; }

 private:
  Instruction* filled(double v) override { return b_.splat(b_.scalar(dtype(), v), dims()); }

  Builder& b_;
};

/// One trip of a loop: what becomes of the state, and which elements go on.
struct Trip {
  std::vector<Num> state;
  Num going;
};
/// Repeats `step` while an element goes on, at most `limit` times. Those that don't go on keep
/// their state. `step` has the trip's number, from 1, the state, and values that all trips share.
std::vector<Num> repeat(
    Formula& m, const std::string& name, Num going, std::vector<Num> state,
    const std::vector<Num>& shared, int limit,
    const std::function<Trip(Num trip, std::vector<Num> state, std::vector<Num> shared)>& step);

inline Num operator+(Num a, Num b) { return a.m->binary(Opcode::add, a, b); }
inline Num operator-(Num a, Num b) { return a.m->binary(Opcode::subtract, a, b); }
inline Num operator*(Num a, Num b) { return a.m->binary(Opcode::multiply, a, b); }
inline Num operator/(Num a, Num b) { return a.m->binary(Opcode::divide, a, b); }
inline Num operator+(Num a, double b) { return a + a.m->constant(b); }
inline Num operator-(Num a, double b) { return a - a.m->constant(b); }
inline Num operator*(Num a, double b) { return a * a.m->constant(b); }
inline Num operator/(Num a, double b) { return a / a.m->constant(b); }
inline Num operator+(double a, Num b) { return b.m->constant(a) + b; }
inline Num operator-(double a, Num b) { return b.m->constant(a) - b; }
inline Num operator*(double a, Num b) { return b.m->constant(a) * b; }
inline Num operator/(double a, Num b) { return b.m->constant(a) / b; }
inline Num operator-(Num a) { return a.m->unary(Opcode::negate, a); }
inline Num operator<(Num a, Num b) { return a.m->compare(Direction::lt, a, b); }
inline Num operator<=(Num a, Num b) { return a.m->compare(Direction::le, a, b); }
inline Num operator>(Num a, Num b) { return a.m->compare(Direction::gt, a, b); }
inline Num operator>=(Num a, Num b) { return a.m->compare(Direction::ge, a, b); }
inline Num operator==(Num a, Num b) { return a.m->compare(Direction::eq, a, b); }
inline Num operator!=(Num a, Num b) { return a.m->compare(Direction::ne, a, b); }
inline Num operator<(Num a, double b) { return a < a.m->constant(b); }
inline Num operator<=(Num a, double b) { return a <= a.m->constant(b); }
inline Num operator>(Num a, double b) { return a > a.m->constant(b); }
inline Num operator>=(Num a, double b) { return a >= a.m->constant(b); }
inline Num operator==(Num a, double b) { return a == a.m->constant(b); }
inline Num operator!=(Num a, double b) { return a != a.m->constant(b); }
inline Num operator&(Num a, Num b) { return a.m->binary(Opcode::and_, a, b); }
inline Num operator|(Num a, Num b) { return a.m->binary(Opcode::or_, a, b); }
inline Num operator!(Num a) { return a.m->unary(Opcode::not_, a); }
inline Num choose(Num pred, Num a, Num b) { return pred.m->select(pred, a, b); }
inline Num choose(Num pred, Num a, double b) { return choose(pred, a, a.m->constant(b)); }
inline Num choose(Num pred, double a, Num b) { return choose(pred, b.m->constant(a), b); }
inline Num abs(Num x) { return x.m->unary(Opcode::abs, x); }
inline Num sign(Num x) { return x.m->unary(Opcode::sign, x); }
inline Num log(Num x) { return x.m->unary(Opcode::log, x); }
inline Num log1p(Num x) { return x.m->unary(Opcode::log_plus_one, x); }
inline Num exp(Num x) { return x.m->unary(Opcode::exponential, x); }
inline Num expm1(Num x) { return x.m->unary(Opcode::exponential_minus_one, x); }
inline Num sqrt(Num x) { return x.m->unary(Opcode::sqrt, x); }
inline Num floor(Num x) { return x.m->unary(Opcode::floor, x); }
inline Num sin(Num x) { return x.m->unary(Opcode::sine, x); }
inline Num cos(Num x) { return x.m->unary(Opcode::cosine, x); }
inline Num pow(Num x, Num y) { return x.m->binary(Opcode::power, x, y); }
inline Num max(Num x, Num y) { return x.m->binary(Opcode::maximum, x, y); }

}  // namespace tessera::ir
