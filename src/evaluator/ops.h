// SPDX-License-Identifier: Apache-2.0
// One function per operation that is neither elementwise nor control flow nor a collective.
#pragma once

#include <span>

#include "src/base/literal.h"
#include "src/ir/module.h"

namespace tessera::ir {}

namespace tessera::evaluator {

using Operands = std::span<const Literal* const>;

// data_movement.cc
Literal eval_broadcast(const ir::Instruction& in, const Literal& x);
Literal eval_transpose(const ir::Instruction& in, const Literal& x);
Literal eval_reverse(const ir::Instruction& in, const Literal& x);
Literal eval_slice(const ir::Instruction& in, const Literal& x);
Literal eval_pad(const ir::Instruction& in, const Literal& x, const Literal& value);
Literal eval_concatenate(const ir::Instruction& in, Operands xs);
Literal eval_iota(const ir::Instruction& in);
/// The same bytes under another type or other dims.
Literal eval_bitcast(const ir::Instruction& in, const Literal& x);

// dynamic_slice.cc
Literal eval_dynamic_slice(const ir::Instruction& in, Operands xs);
Literal eval_dynamic_update_slice(const ir::Instruction& in, Operands xs);

// reduce.cc
Literal eval_reduce(const ir::Instruction& in, Operands xs);
Literal eval_map(const ir::Instruction& in, Operands xs);
/// xs[0] combined with xs[1], ... element by element, in order.
Literal reduce_together(const ir::Computation& reducer, Operands xs);

// reduce_window.cc
Literal eval_reduce_window(const ir::Instruction& in, Operands xs);
Literal eval_select_and_scatter(const ir::Instruction& in, Operands xs);

// dot.cc, convolution.cc, fft.cc, gather_scatter.cc, sort.cc, linalg.cc, rng.cc, batch_norm.cc
Literal eval_dot(const ir::Instruction& in, const Literal& lhs, const Literal& rhs);
Literal eval_convolution(const ir::Instruction& in, const Literal& input, const Literal& kernel);
Literal eval_fft(const ir::Instruction& in, const Literal& x);
Literal eval_gather(const ir::Instruction& in, const Literal& x, const Literal& indices);
Literal eval_scatter(const ir::Instruction& in, Operands xs);
Literal eval_sort(const ir::Instruction& in, Operands xs);
Literal eval_topk(const ir::Instruction& in, const Literal& x);
Literal eval_cholesky(const ir::Instruction& in, const Literal& x);
Literal eval_triangular_solve(const ir::Instruction& in, const Literal& a, const Literal& b);
Literal eval_rng_bit_generator(const ir::Instruction& in, const Literal& state);
Literal eval_batch_norm_training(const ir::Instruction& in, Operands xs);
Literal eval_batch_norm_inference(const ir::Instruction& in, Operands xs);
Literal eval_batch_norm_grad(const ir::Instruction& in, Operands xs);

/// A custom call that computes on buffers.

/// rng: numbers of the distribution, drawn from the stream of bits that `counter` starts.
Literal eval_rng(const ir::Instruction& in, Operands xs, std::uint64_t counter);

// rare_ops.cc
Literal eval_ragged_dot(const ir::Instruction& in, Operands xs);
Literal eval_scaled_dot(const ir::Instruction& in, Operands xs);
Literal eval_scan(const ir::Instruction& in, Operands xs);
Literal eval_stochastic_convert(const ir::Instruction& in, Operands xs);
Literal eval_set_dimension_size(const ir::Instruction& in, const Literal& x, const Literal& size);
Literal eval_dynamic_reshape(const ir::Instruction& in, Operands xs);

/// evaluate_instruction for everything that needs no interpreter; NotImplementedError otherwise.
Literal eval_op(const ir::Instruction& in, Operands xs);

/// The element of an integer literal of any type, as an index; u64 beyond the range saturates.
std::int64_t index_at(const Literal& x, std::int64_t i);

}  // namespace tessera::evaluator
