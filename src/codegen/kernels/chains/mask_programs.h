// SPDX-License-Identifier: Apache-2.0
// Masks as loops of their own, taken out of those that use them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

/// Whether all elements of a row, of so many, read one.
bool same_in_row(const LoopExpr::Register& r, std::int64_t row);
/// The mask of and(true, mask), as masks are written that come with others or not.
int without_true(const LoopExpr& loop, int predicate);
/// Of rows that are read one after the other, the same again and again: how many. 0 if there is
/// more to it.
std::int64_t period_of(const LoopExpr::Register& r, std::int64_t row);
/// A program with one register of another as its output, of that type.
std::shared_ptr<const LoopExpr> program_of_register(const LoopExpr& loop, int wanted, DType type);
/// What an operation makes, as text; empty if that of an operand is, or if it would be long.
std::string text_of(const LoopExpr::Op& op, const std::vector<std::string>& operands);
/// The number that a register of f32 always has.
std::optional<double> constant_of(const LoopExpr& loop, int reg);

}  // namespace tessera::codegen
