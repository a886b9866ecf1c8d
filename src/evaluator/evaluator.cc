// SPDX-License-Identifier: Apache-2.0
// Entry points of the evaluator: argument checks, one device or several side by side.
#include "src/evaluator/evaluator.h"

#include <new>
#include <numeric>
#include <stdexcept>

#include "src/base/arrays/subnormals.h"
#include "src/evaluator/interpreter.h"

namespace tessera::evaluator {
namespace {

void check_arguments(const ir::Computation& computation, std::span<const Literal> arguments,
                     const std::string& whose) {
  const auto& parameters = computation.parameters();
  if (arguments.size() != parameters.size()) {
    throw ValueError(computation.name() + " has " + std::to_string(parameters.size()) +
                     " parameters; " + std::to_string(arguments.size()) + " arguments" + whose +
                     " were given");
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].shape() == parameters[i]->shape) continue;
    throw ShapeError("parameter " + std::to_string(i) + " of " + computation.name() + " (" +
                         parameters[i]->describe() + ") is " + parameters[i]->shape.to_string() +
                         "; the argument" + whose + " is " + arguments[i].shape().to_string(),
                     parameters[i]->location());
  }
}

/// Memory that an operation needs besides its result may lack too.
template <class F>
auto within_memory(const ir::Computation* computation, F&& f) {
  const ScopedSubnormals flush(programs_flush_subnormals());
  const auto fail = [&]() -> RuntimeError {
    return RuntimeError("the memory of this machine does not suffice to evaluate " +
                        (computation ? computation->name() : std::string("an operation")));
  };
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw fail();
  } catch (const std::length_error&) {
    throw fail();
  }
}

Literal run_alone(Interpreter::Mode mode, const ir::Computation& computation,
                  std::span<const Literal> arguments) {
  check_arguments(computation, arguments, "");
  std::vector<Values> values;
  for (const Literal& a : arguments) values.push_back({a});
  std::vector<const Values*> pointers;
  for (const Values& v : values) pointers.push_back(&v);
  return within_memory(&computation, [&] {
    return std::move(Interpreter(mode, {}).run(computation, {0}, pointers)[0]);
  });
}

}  // namespace

Literal evaluate(const ir::Module& module, std::span<const Literal> arguments) {
  const auto mode = module.grid().devices() == 1 ? Interpreter::Mode::one_device
                                                 : Interpreter::Mode::no_collectives;
  return run_alone(mode, *module.entry(), arguments);
}

Literal evaluate(const ir::Computation& computation, std::span<const Literal> arguments) {
  return run_alone(Interpreter::Mode::no_collectives, computation, arguments);
}

Literal evaluate_instruction(const ir::Instruction& instruction,
                             std::span<const Literal> operands) {
  if (operands.size() != instruction.operands().size()) {
    throw ValueError(instruction.describe() + " has " +
                         std::to_string(instruction.operands().size()) + " operands; " +
                         std::to_string(operands.size()) + " were given",
                     instruction.location());
  }
  std::vector<Values> values;
  for (const Literal& x : operands) values.push_back({x});
  std::vector<const Values*> pointers;
  for (const Values& v : values) pointers.push_back(&v);
  Interpreter interpreter(Interpreter::Mode::no_collectives, {});
  return within_memory(nullptr,
                       [&] { return std::move(interpreter.step(instruction, {0}, pointers)[0]); });
}

std::vector<Literal> evaluate_spmd(const ir::Module& module,
                                   std::span<const std::vector<Literal>> arguments) {
  const std::int64_t devices = module.grid().devices();
  if (std::int64_t(arguments.size()) != devices) {
    throw ValueError("module " + module.name + " is for " + std::to_string(devices) +
                     " devices; arguments for " + std::to_string(arguments.size()) + " were given");
  }
  const ir::Computation& entry = *module.entry();
  Active active(arguments.size());
  std::iota(active.begin(), active.end(), std::int64_t(0));
  std::vector<Values> values(entry.parameters().size());
  for (std::size_t d = 0; d < arguments.size(); ++d) {
    check_arguments(entry, arguments[d], " of device " + std::to_string(d));
    for (std::size_t p = 0; p < values.size(); ++p) values[p].push_back(arguments[d][p]);
  }
  std::vector<const Values*> pointers;
  for (const Values& v : values) pointers.push_back(&v);
  return within_memory(&entry, [&] {
    return Interpreter(Interpreter::Mode::side_by_side, module.grid()).run(entry, active, pointers);
  });
}

}  // namespace tessera::evaluator
