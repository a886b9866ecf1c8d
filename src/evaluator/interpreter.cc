// SPDX-License-Identifier: Apache-2.0
// The interpreter loop: instructions in order for all devices that are active.
#include "src/evaluator/interpreter.h"

#include "src/base/machine_memory.h"
#include "src/evaluator/ops.h"
#include "src/ir/analysis/last_uses.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/text_attributes.h"

namespace tessera::evaluator {

using ir::Opcode;

const Interpreter::Plan& Interpreter::plan_of(const ir::Computation& computation) {
  std::unique_ptr<Plan>& plan = plans_[&computation];
  if (plan) return *plan;
  plan = std::make_unique<Plan>();
  const auto& list = computation.instructions();
  const std::vector<std::int64_t> last = ir::last_uses(computation);
  plan->dead_after.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].get() == computation.root()) continue;
    plan->dead_after[std::size_t(last[i])].push_back(std::int64_t(i));
  }
  return *plan;
}

Values Interpreter::run(const ir::Computation& computation, const Active& active,
                        const std::vector<const Values*>& arguments) {
  TESSERA_CHECK(arguments.size() == computation.parameters().size(),
                "wrong number of arguments for " + computation.name());
  const Plan& plan = plan_of(computation);
  std::vector<Values> values(computation.instructions().size());
  std::vector<const Values*> operands;
  for (const auto& owned : computation.instructions()) {
    const ir::Instruction& in = *owned;
    const std::size_t at = std::size_t(in.index);
    if (in.is(Opcode::parameter)) {
      values[at] = *arguments[std::size_t(in.get<ir::ParameterAttrs>().number)];
    } else {
      operands.clear();
      for (const ir::Instruction* o : in.operands()) {
        operands.push_back(&values[std::size_t(o->index)]);
      }
      values[at] = step(in, active, operands);
    }
    for (std::int64_t dead : plan.dead_after[at]) Values().swap(values[std::size_t(dead)]);
  }
  return std::move(values[std::size_t(computation.root()->index)]);
}

Values Interpreter::run_random_state(const ir::Instruction& in, const Active& active,
                                     const std::vector<const Values*>& operands) {
  constexpr std::uint64_t kFirst = 0x7012395;
  const auto [at, first] = random_states_.try_emplace(&in, std::array<std::uint64_t, 2>{kFirst, 0});
  std::array<std::uint64_t, 2>& state = at->second;
  Values results;
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (in.is(Opcode::rng)) {
      const Literal* xs[] = {&(*operands[0])[i], &(*operands[1])[i]};
      results.push_back(eval_rng(in, xs, state[0]));
      continue;
    }
    Literal value(Shape(DType::u64, {2}));
    std::copy(state.begin(), state.end(), value.mutable_data<std::uint64_t>().begin());
    results.push_back(std::move(value));
  }
  const std::uint64_t delta =
      in.is(Opcode::rng) ? 1 : std::uint64_t(ir::text_integer(in.attrs, "delta", 0));
  state[0] += delta;
  if (state[0] < delta) ++state[1];
  return results;
}

namespace {

/// Refuses a result that is larger than memory, before its operation starts.
void check_fits(const ir::Instruction& in, const Shape& shape) {
  for (const Shape& element : shape.elements) check_fits(in, element);
  if (!shape.is_array() || in.is(Opcode::constant)) return;
  const auto bytes = std::size_t(shape.byte_count());
  if (bytes > machine_memory()) refuse_array_of(bytes);
}

}  // namespace

Values Interpreter::step(const ir::Instruction& in, const Active& active,
                         const std::vector<const Values*>& operands) {
  check_fits(in, in.shape);
  switch (in.opcode) {
    case Opcode::while_:
      return run_while(in, active, *operands[0]);
    case Opcode::conditional:
      return run_conditional(in, active, operands);
    case Opcode::custom_call:
      return run_custom_call(in, active, operands);
    case Opcode::manual_computation:
      // Its body is for devices of their own.
      ir::need_custom_call(in);
      break;
    case Opcode::custom_partitioning:
      return run_custom_partitioning(in, active, operands);
    case Opcode::call:
    case Opcode::custom_derivative:
    case Opcode::fusion:
    case Opcode::remat:
      return run_call(in, active, operands);
    case Opcode::async_start: {
      Values results = run_call(in, active, operands);
      for (std::size_t i = 0; i < results.size(); ++i) {
        std::vector<Literal> given;
        for (const Values* o : operands) given.push_back((*o)[i]);
        std::vector<Literal> parts = {Literal::tuple(std::move(given)), Literal(results[i])};
        for (std::size_t e = 2; e < in.shape.elements.size(); ++e) {
          parts.emplace_back(in.shape.elements[e]);
        }
        results[i] = Literal::tuple(std::move(parts));
      }
      return results;
    }
    case Opcode::rng:
    case Opcode::rng_get_and_update_state:
      return run_random_state(in, active, operands);
    case Opcode::replica_id:
    case Opcode::partition_id: {
      Values results;
      for (std::int64_t device : active) {
        Literal id(in.shape);
        id.mutable_data<std::uint32_t>()[0] =
            std::uint32_t(in.is(Opcode::replica_id) ? device / grid_.num_partitions
                                                    : device % grid_.num_partitions);
        results.push_back(std::move(id));
      }
      return results;
    }
    default:
      break;
  }
  if (ir::is_collective(in.opcode)) return run_collective(in, active, operands);
  Values results;
  results.reserve(active.size());
  std::vector<const Literal*> xs(operands.size());
  for (std::size_t i = 0; i < active.size(); ++i) {
    for (std::size_t o = 0; o < operands.size(); ++o) xs[o] = &(*operands[o])[i];
    results.push_back(eval_op(in, xs));
  }
  return results;
}

}  // namespace tessera::evaluator
