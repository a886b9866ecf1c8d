// SPDX-License-Identifier: Apache-2.0
// What the evaluator has for the column EVALUATE of the op table.
#pragma once

#include <span>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"

namespace tessera::evaluator {

using Operands = std::span<const Literal* const>;

// The ops of the table, in files by family; each gives the value of `in` on operands `xs`.
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, ...) \
  Literal evaluate(const ir::Instruction& in, Operands xs);
#include "src/ir/opcode_list.inc"

/// xs[0] combined with xs[1], ... element by element, in order.
Literal reduce_together(const ir::Computation& reducer, Operands xs);
/// A dot of two arrays that are no instructions' values.
Literal dot_of(const ir::Instruction& dot, const Literal& lhs, const Literal& rhs);

/// rng: numbers of the distribution, drawn from the stream of bits that `counter` starts.
Literal eval_rng(const ir::Instruction& in, Operands xs, std::uint64_t counter);

/// evaluate_instruction for everything that needs no interpreter; NotImplementedError otherwise.
Literal eval_op(const ir::Instruction& in, Operands xs);

/// The element of an integer literal of any type, as an index; u64 beyond the range saturates.
std::int64_t index_at(const Literal& x, std::int64_t i);

}  // namespace tessera::evaluator
