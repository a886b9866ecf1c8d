// SPDX-License-Identifier: Apache-2.0
#include "src/passes/trip_counts.h"

#include <optional>

#include "src/base/literal_util.h"

namespace tessera::passes {
namespace {

using ir::Direction;
using ir::Instruction;
using ir::Opcode;

/// The integer that a scalar is known to be.
std::optional<std::int64_t> integer_of(const Instruction* i) {
  // Bounds the walk, not the programs that are understood.
  for (int steps = 0; steps < 16; ++steps) {
    if (!i->shape.is_array() || !is_integer(i->shape.dtype) || i->shape.element_count() != 1) {
      return std::nullopt;
    }
    switch (i->opcode) {
      case Opcode::constant: {
        const auto& c = i->get<ir::ConstantAttrs>();
        // Larger unsigned numbers than s64 holds would be misread.
        if (c.elided || i->shape.dtype == DType::u64) return std::nullopt;
        return to_scalar<std::int64_t>(c.value);
      }
      case Opcode::copy:
      case Opcode::reshape:
      case Opcode::bitcast:
      case Opcode::broadcast:
        if (i->operand(0)->shape.dtype != i->shape.dtype) return std::nullopt;
        i = i->operand(0);
        break;
      case Opcode::get_tuple_element: {
        const Instruction* tuple = i->operand(0);
        if (!tuple->is(Opcode::tuple)) return std::nullopt;
        i = tuple->operand(std::size_t(i->get<ir::GetTupleElementAttrs>().index));
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

/// k, if the instruction is the k-th value that the loop carries.
std::optional<std::size_t> carried(const Instruction* i, const ir::Computation& computation) {
  while (i->is(Opcode::copy)) i = i->operand(0);
  if (!i->is(Opcode::get_tuple_element) || i->operand(0) != computation.parameter(0)) {
    return std::nullopt;
  }
  return std::size_t(i->get<ir::GetTupleElementAttrs>().index);
}

class Loop {
 public:
  explicit Loop(const Instruction& loop)
      : init_(*loop.operand(0)), condition_(*loop.called[0]), body_(*loop.called[1]) {}

  std::optional<std::int64_t> trips() const {
    const Instruction* test = condition_.root();
    if (!init_.is(Opcode::tuple) || !body_.root()->is(Opcode::tuple) ||
        !test->is(Opcode::compare)) {
      return std::nullopt;
    }
    Direction direction = test->get<ir::CompareAttrs>().direction;
    auto counter = counter_of(test->operand(0));
    auto limit = limit_of(test->operand(1));
    if (!counter || !limit) {
      counter = counter_of(test->operand(1));
      limit = limit_of(test->operand(0));
      direction = swapped(direction);
    }
    if (!counter || !limit) return std::nullopt;
    const auto start = integer_of(init_.operand(*counter));
    const auto step = step_of(*counter);
    if (!start || !step || *step == 0) return std::nullopt;
    return count(*start, *limit, *step, direction, init_.operand(*counter)->shape.dtype);
  }

 private:
  static Direction swapped(Direction d) {
    switch (d) {
      case Direction::lt:
        return Direction::gt;
      case Direction::le:
        return Direction::ge;
      case Direction::gt:
        return Direction::lt;
      case Direction::ge:
        return Direction::le;
      default:
        return d;
    }
  }

  /// A carried value that changes from trip to trip.
  std::optional<std::size_t> counter_of(const Instruction* i) const {
    const auto k = carried(i, condition_);
    return k && carried(body_.root()->operand(*k), body_) != k ? k : std::nullopt;
  }

  /// A constant, or a carried value that starts as one and stays as it is.
  std::optional<std::int64_t> limit_of(const Instruction* i) const {
    const auto k = carried(i, condition_);
    if (!k) return integer_of(i);
    if (carried(body_.root()->operand(*k), body_) != k) return std::nullopt;
    return integer_of(init_.operand(*k));
  }

  std::optional<std::int64_t> step_of(std::size_t k) const {
    const Instruction* next = body_.root()->operand(k);
    while (next->is(Opcode::copy)) next = next->operand(0);
    if (next->is(Opcode::subtract)) {
      const auto step = integer_of(next->operand(1));
      if (carried(next->operand(0), body_) != k || !step || *step == INT64_MIN) return std::nullopt;
      return -*step;
    }
    if (!next->is(Opcode::add)) return std::nullopt;
    if (carried(next->operand(0), body_) == k) return integer_of(next->operand(1));
    if (carried(next->operand(1), body_) == k) return integer_of(next->operand(0));
    return std::nullopt;
  }

  static std::optional<std::int64_t> count(std::int64_t start, std::int64_t limit,
                                           std::int64_t step, Direction direction, DType dtype) {
    using Wide = __int128;
    Wide distance = Wide(limit) - start, by = step;
    if (direction == Direction::gt || direction == Direction::ge) {
      distance = -distance;
      by = -by;
      direction = direction == Direction::gt ? Direction::lt : Direction::le;
    }
    Wide trips = 0;
    if (direction == Direction::ne) {
      if (distance % by != 0 || distance / by < 0) return std::nullopt;
      trips = distance / by;
    } else if (direction == Direction::lt || direction == Direction::le) {
      if (direction == Direction::le) ++distance;
      if (distance <= 0) return 0;
      if (by <= 0) return std::nullopt;
      trips = (distance + by - 1) / by;
    } else {
      return std::nullopt;
    }
    // A counter that wraps around runs on.
    const int bits = int(8 * byte_size(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
    const Wide last = Wide(start) + trips * step;
    const Wide above = Wide(1) << bits, below = is_signed_integer(dtype) ? -above : 0;
    if (last >= above || last < below || trips > INT64_MAX) return std::nullopt;
    return std::int64_t(trips);
  }

  const Instruction& init_;
  const ir::Computation& condition_;
  const ir::Computation& body_;
};

}  // namespace

std::size_t find_trip_counts(ir::Module* module) {
  std::size_t found = 0;
  for (const auto& computation : module->computations()) {
    for (const auto& i : computation->instructions()) {
      if (!i->is(Opcode::while_)) continue;
      auto& attrs = i->edit<ir::WhileAttrs>();
      if (attrs.known_trip_count) continue;
      attrs.known_trip_count = Loop(*i).trips();
      found += attrs.known_trip_count.has_value();
    }
  }
  return found;
}

}  // namespace tessera::passes
