// SPDX-License-Identifier: Apache-2.0
// The harness of tests that run a program and compare with the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/random_program.h"

namespace tessera::testing {

inline Literal random_value(const Shape& shape, Dice& dice, bool exact) {
  if (!shape.is_tuple) return random_literal(dice, shape.dtype, shape.dims, exact);
  std::vector<Literal> parts;
  for (const Shape& s : shape.elements) parts.push_back(random_value(s, dice, exact));
  return Literal::tuple(std::move(parts));
}

/// For the entry's parameters; `exact`: small whole numbers, of which sums are exact.
inline std::vector<Literal> random_arguments(const ir::Module& module, Dice& dice,
                                             bool exact = true) {
  std::vector<Literal> out;
  for (const ir::Instruction* p : module.entry()->parameters()) {
    out.push_back(random_value(p->shape, dice, exact));
  }
  return out;
}

/// The same for each of several devices.
inline std::vector<std::vector<Literal>> random_arguments_of_devices(const ir::Module& module,
                                                                     std::int64_t devices,
                                                                     Dice& dice,
                                                                     bool exact = true) {
  std::vector<std::vector<Literal>> out;
  for (std::int64_t d = 0; d < devices; ++d) out.push_back(random_arguments(module, dice, exact));
  return out;
}

/// The arrays of a value, in order.
inline std::vector<Literal> leaves_of(const Literal& value) {
  if (!value.is_tuple()) return {value};
  std::vector<Literal> out;
  for (const Literal& element : value.elements()) {
    for (Literal& leaf : leaves_of(element)) out.push_back(std::move(leaf));
  }
  return out;
}
inline std::vector<Literal> leaves_of(const std::vector<Literal>& values) {
  return leaves_of(Literal::tuple(values));
}

/// Runs a pass, and expects a well-formed module that gives the same results on these arguments,
/// bit by bit. Returns what the pass returns.
template <class Pass>
auto keeps_results(ir::Module* module, std::span<const Literal> arguments, Pass&& pass) {
  const Literal before = evaluator::evaluate(*module, arguments);
  auto result = pass(module);
  ir::verify(*module);
  EXPECT_TRUE(evaluator::evaluate(*module, arguments) == before) << ir::to_string(*module);
  return result;
}

}  // namespace tessera::testing
