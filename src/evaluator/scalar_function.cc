// SPDX-License-Identifier: Apache-2.0
// Compiles reducers and comparators to a list of steps that run on many elements at a time.
#include "src/evaluator/scalar_function.h"

#include <array>

#include "src/evaluator/elementwise.h"
#include "src/evaluator/evaluator.h"
#include "src/evaluator/strided.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::evaluator {

using ir::Opcode;

ScalarFunction::ScalarFunction(const ir::Computation& computation) : computation_(computation) {
  std::vector<int> arguments;
  for (const ir::Instruction* p : computation.parameters()) {
    TESSERA_CHECK(p->shape.is_array() && p->shape.element_count() == 1,
                  "parameter of " + computation.name() + " is no scalar");
    parameters_.push_back(p->shape.dtype);
    arguments.push_back(new_slot(p->shape.dtype));
  }
  const Shape& root = computation.root()->shape;
  if (root.is_tuple) {
    for (const Shape& s : root.elements) results_.push_back(s.dtype);
  } else {
    results_.push_back(root.dtype);
  }
  if (results_.size() == 1 && parameters_.size() == 2 && !root.is_tuple &&
      parameters_[0] == parameters_[1] && parameters_[0] == results_[0]) {
    single_op_ = ir::as_binary_reducer(computation);
  }
  compiled_ = compile(computation, arguments, roots_);
}

int ScalarFunction::new_slot(DType t) {
  slot_types_.push_back(t);
  return int(slot_types_.size()) - 1;
}

bool ScalarFunction::compile(const ir::Computation& computation, const std::vector<int>& arguments,
                             std::vector<int>& roots) {
  // The slots of each instruction's leaves.
  std::vector<std::vector<int>> at(computation.instructions().size());
  for (const auto& owned : computation.instructions()) {
    const ir::Instruction& in = *owned;
    std::vector<int>& slots = at[std::size_t(in.index)];
    const auto operand = [&](std::size_t i) -> const std::vector<int>& {
      return at[std::size_t(in.operands()[i]->index)];
    };
    if (in.is(Opcode::tuple)) {
      for (std::size_t i = 0; i < in.operands().size(); ++i) {
        if (in.operands()[i]->shape.is_tuple) return false;
        slots.push_back(operand(i)[0]);
      }
      continue;
    }
    if (in.is(Opcode::get_tuple_element)) {
      slots.push_back(operand(0)[std::size_t(in.get<ir::GetTupleElementAttrs>().index)]);
      continue;
    }
    if (in.is(Opcode::call) || in.is(Opcode::fusion)) {
      std::vector<int> inner;
      for (std::size_t i = 0; i < in.operands().size(); ++i) {
        if (in.operands()[i]->shape.is_tuple) return false;
        inner.push_back(operand(i)[0]);
      }
      if (!compile(*in.called()[0], inner, slots)) return false;
      continue;
    }
    if (!in.shape.is_array() || in.shape.element_count() != 1) return false;
    switch (in.opcode) {
      case Opcode::parameter:
        slots = {arguments[std::size_t(in.get<ir::ParameterAttrs>().number)]};
        break;
      case Opcode::constant: {
        const auto& attrs = in.get<ir::ConstantAttrs>();
        if (attrs.elided) return false;
        slots = {new_slot(in.shape.dtype)};
        constants_.push_back({slots[0], &attrs.value});
        break;
      }
      case Opcode::reshape:
      case Opcode::broadcast:
      case Opcode::transpose:
      case Opcode::opt_barrier:
        if (in.operands()[0]->shape.is_tuple || in.operands()[0]->shape.element_count() != 1) {
          return false;
        }
        slots = operand(0);
        break;
      default: {
        if (!is_lane_op(in.opcode)) return false;
        Step step{&in, {}, new_slot(in.shape.dtype)};
        for (std::size_t i = 0; i < in.operands().size(); ++i)
          step.operands.push_back(operand(i)[0]);
        slots = {step.result};
        steps_.push_back(std::move(step));
      }
    }
  }
  roots = at[std::size_t(computation.root()->index)];
  return true;
}

void ScalarFunction::run(const std::byte* const* inputs, std::byte* const* results,
                         std::int64_t n) {
  if (n <= 0) return;
  if (single_op_) {
    apply_binary(*single_op_, parameters_[0], inputs[0], inputs[1], results[0], n);
  } else if (compiled_) {
    run_steps(inputs, results, n);
  } else {
    run_slowly(inputs, results, n);
  }
}

bool ScalarFunction::test(const std::byte* const* inputs) {
  std::byte answer{0};
  std::byte* results[] = {&answer};
  run(inputs, results, 1);
  return answer != std::byte(0);
}

void ScalarFunction::run_steps(const std::byte* const* inputs, std::byte* const* results,
                               std::int64_t n) {
  if (n > capacity_) {
    capacity_ = n;
    slots_.resize(slot_types_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].resize(byte_size(slot_types_[i]) * std::size_t(n));
    }
    for (const Constant& c : constants_) {
      fill(byte_size(c.value->dtype()), slots_[std::size_t(c.slot)].data(), n, c.value->bytes());
    }
  }
  const auto bytes_of = [&](int slot) -> const std::byte* {
    return std::size_t(slot) < parameters_.size() ? inputs[slot] : slots_[std::size_t(slot)].data();
  };
  for (const Step& step : steps_) {
    std::array<const std::byte*, 3> operands{};
    for (std::size_t i = 0; i < step.operands.size(); ++i) operands[i] = bytes_of(step.operands[i]);
    apply_elementwise(*step.instruction, operands.data(), slots_[std::size_t(step.result)].data(),
                      n);
  }
  // A result that is an input may be stored where another result goes: take all before any is
  // written.
  std::vector<std::vector<std::byte>> kept(roots_.size());
  for (std::size_t r = 0; r < roots_.size(); ++r) {
    const std::size_t size = byte_size(results_[r]) * std::size_t(n);
    const std::byte* from = bytes_of(roots_[r]);
    if (roots_.size() > 1 && std::size_t(roots_[r]) < parameters_.size()) {
      kept[r].assign(from, from + size);
    }
  }
  for (std::size_t r = 0; r < roots_.size(); ++r) {
    const std::byte* from = kept[r].empty() ? bytes_of(roots_[r]) : kept[r].data();
    std::memmove(results[r], from, byte_size(results_[r]) * std::size_t(n));
  }
}

void ScalarFunction::run_slowly(const std::byte* const* inputs, std::byte* const* results,
                                std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<Literal> arguments;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const std::size_t size = byte_size(parameters_[p]);
      arguments.emplace_back(computation_.parameters()[p]->shape,
                             std::span<const std::byte>(inputs[p] + std::size_t(i) * size, size));
    }
    const Literal out = evaluate(computation_, arguments);
    for (std::size_t r = 0; r < results_.size(); ++r) {
      const Literal& leaf = out.is_tuple() ? out.elements()[r] : out;
      const std::size_t size = byte_size(results_[r]);
      std::memcpy(results[r] + std::size_t(i) * size, leaf.bytes(), size);
    }
  }
}

}  // namespace tessera::evaluator
