// SPDX-License-Identifier: Apache-2.0
// Building blocks of formulas on arrays.
#include "src/ir/formulas/formula.h"

#include <bit>

#include "src/base/check.h"

namespace tessera::ir {

Num Formula::constant(double v) {
  Instruction*& i = numbers_[std::bit_cast<std::uint64_t>(v)];
  if (i == nullptr) i = filled(v);
  return {this, i};
}

Num Formula::compare(Direction direction, Num a, Num b) {
  return {this, make(Opcode::compare, Shape(DType::pred, dims_), {a.i, b.i},
                     CompareAttrs{direction, ComparisonType::by_dtype})};
}

Num Formula::convert(Num x, DType dtype) {
  if (x.i->shape.dtype == dtype) return x;
  return {this, make(Opcode::convert, Shape(dtype, dims_), {x.i})};
}

Num Formula::polynomial(Num x, std::span<const double> coefficients) {
  Num p = constant(coefficients[0]);
  for (double c : coefficients.subspan(1)) p = p * x + c;
  return p;
}

Num Formula::chebyshev(Num x, std::span<const double> coefficients) {
  Num b0 = constant(coefficients[0]), b1 = constant(0), b2 = constant(0);
  for (double c : coefficients.subspan(1)) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + c;
  }
  return 0.5 * (b0 - b2);
}

std::vector<Num> repeat(
    Formula& m, const std::string& name, Num going, std::vector<Num> state,
    const std::vector<Num>& shared, int limit,
    const std::function<Trip(Num trip, std::vector<Num> state, std::vector<Num> shared)>& step) {
  Builder* outer = m.builder();
  TESSERA_CHECK(outer != nullptr, name + " in a formula without loops");
  // (trips, going, state..., shared...)
  std::vector<Instruction*> init{outer->scalar(DType::s32, 0), going.i};
  for (const Num& n : state) init.push_back(n.i);
  for (const Num& n : shared) init.push_back(n.i);
  Instruction* packed = outer->tuple(init);

  Builder condition(outer->module()->add_computation(name + ".condition"));
  {
    Instruction* in = condition.parameter(0, packed->shape);
    Instruction* any = condition.get_tuple_element(in, 1);
    if (!m.dims().empty()) {
      Dims all;
      for (std::size_t d = 0; d < m.dims().size(); ++d) all.push_back(std::int64_t(d));
      any = condition.reduce(any, condition.zero(DType::pred), all,
                             scalar_computation(outer->module(), Opcode::or_, DType::pred));
    }
    Instruction* left = condition.compare(Direction::lt, condition.get_tuple_element(in, 0),
                                          condition.scalar(DType::s32, limit));
    condition.computation()->set_root(condition.binary(Opcode::and_, left, any));
  }
  Builder body(outer->module()->add_computation(name + ".body"));
  {
    BuilderFormula f(body, m.dtype(), m.dims());
    Instruction* in = body.parameter(0, packed->shape);
    Instruction* trip =
        body.binary(Opcode::add, body.get_tuple_element(in, 0), body.scalar(DType::s32, 1));
    std::vector<Num> before, fixed;
    const Num on = f(body.get_tuple_element(in, 1));
    for (std::size_t k = 0; k < state.size() + shared.size(); ++k) {
      const Num n = f(body.get_tuple_element(in, std::int64_t(2 + k)));
      (k < state.size() ? before : fixed).push_back(n);
    }
    const Trip next = step(f(body.splat(body.convert(trip, m.dtype()), m.dims())), before, fixed);
    std::vector<Instruction*> out{trip, (on & next.going).i};
    for (std::size_t k = 0; k < state.size(); ++k) {
      out.push_back(choose(on, next.state[k], before[k]).i);
    }
    for (const Num& n : fixed) out.push_back(n.i);
    body.computation()->set_root(body.tuple(out));
  }
  Instruction* loop = outer->while_loop(condition.computation(), body.computation(), packed);
  for (std::size_t k = 0; k < state.size(); ++k) {
    state[k].i = outer->get_tuple_element(loop, std::int64_t(2 + k));
  }
  return state;
}

}  // namespace tessera::ir
