// SPDX-License-Identifier: Apache-2.0
// Evaluates one instruction without control flow: the switch over opcodes.
#include "src/evaluator/elementwise.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"

namespace tessera::evaluator {
namespace {

using ir::Opcode;

Literal eval_elementwise(const ir::Instruction& in, Operands xs) {
  Literal out(Shape(in.shape.dtype, in.shape.dims));
  std::vector<Literal> spread;
  spread.reserve(xs.size());
  std::vector<const std::byte*> operands;
  for (const Literal* x : xs) {
    // select takes a scalar predicate, clamp scalar bounds.
    if (x->dims().empty() && !in.shape.dims.empty()) {
      spread.emplace_back(Shape(x->dtype(), in.shape.dims));
      fill(byte_size(x->dtype()), spread.back().mutable_bytes(), out.element_count(), x->bytes());
      operands.push_back(spread.back().bytes());
    } else {
      operands.push_back(x->bytes());
    }
  }
  apply_elementwise(in, operands.data(), out.mutable_bytes(), out.element_count());
  return out;
}

Literal eval_dimension_size(const ir::Instruction& in, const Literal& x) {
  Literal out(in.shape);
  out.mutable_data<std::int32_t>()[0] =
      std::int32_t(x.dims().at(std::size_t(in.get<ir::DimensionsAttrs>().dims.at(0))));
  return out;
}

Literal eval_constant(const ir::Instruction& in) {
  const auto& attrs = in.get<ir::ConstantAttrs>();
  if (attrs.elided) {
    throw RuntimeError(
        "the value of constant " + in.describe() + " was left out of the program's text ({...})",
        in.location());
  }
  return attrs.value;
}

/// (dest, source, context): copy-start hands the copy over in front.
Literal eval_copy_start(const ir::Instruction& in, const Literal& x) {
  std::vector<Literal> parts = {x, x};
  for (std::size_t e = 2; e < in.shape.elements.size(); ++e) {
    parts.emplace_back(in.shape.elements[e]);
  }
  return Literal::tuple(std::move(parts));
}

}  // namespace

Literal eval_op(const ir::Instruction& in, Operands xs) {
  switch (in.opcode) {
    case Opcode::constant:
      return eval_constant(in);
    case Opcode::iota:
      return eval_iota(in);
    case Opcode::replica_id:
      return Literal(in.shape);
    case Opcode::after_all:
      return Literal(Shape::token());
    case Opcode::tuple: {
      std::vector<Literal> elements;
      for (const Literal* x : xs) elements.push_back(*x);
      return Literal::tuple(std::move(elements));
    }
    case Opcode::get_tuple_element:
      return xs[0]->elements().at(std::size_t(in.get<ir::GetTupleElementAttrs>().index));
    case Opcode::opt_barrier:
    case Opcode::domain:
    case Opcode::add_dependency:
    case Opcode::all_reduce_done:
    case Opcode::async_update:
      return *xs[0];
    case Opcode::copy:
      return *xs[0];
    case Opcode::copy_start:
      return eval_copy_start(in, *xs[0]);
    case Opcode::copy_done:
      return xs[0]->elements().at(0);
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::async_done:
      return xs[0]->elements().at(1);
    case Opcode::broadcast:
      return eval_broadcast(in, *xs[0]);
    case Opcode::reshape:
      return xs[0]->reshaped(in.shape.dims);
    case Opcode::bitcast:
    case Opcode::bitcast_convert:
      return eval_bitcast(in, *xs[0]);
    case Opcode::transpose:
      return eval_transpose(in, *xs[0]);
    case Opcode::reverse:
      return eval_reverse(in, *xs[0]);
    case Opcode::slice:
      return eval_slice(in, *xs[0]);
    case Opcode::pad:
      return eval_pad(in, *xs[0], *xs[1]);
    case Opcode::concatenate:
      return eval_concatenate(in, xs);
    case Opcode::dynamic_slice:
      return eval_dynamic_slice(in, xs);
    case Opcode::dynamic_update_slice:
      return eval_dynamic_update_slice(in, xs);
    case Opcode::reduce:
      return eval_reduce(in, xs);
    case Opcode::map:
      return eval_map(in, xs);
    case Opcode::reduce_window:
      return eval_reduce_window(in, xs);
    case Opcode::select_and_scatter:
      return eval_select_and_scatter(in, xs);
    case Opcode::dot:
      return eval_dot(in, *xs[0], *xs[1]);
    case Opcode::convolution:
      return eval_convolution(in, *xs[0], *xs[1]);
    case Opcode::fft:
      return eval_fft(in, *xs[0]);
    case Opcode::gather:
      return eval_gather(in, *xs[0], *xs[1]);
    case Opcode::scatter:
      return eval_scatter(in, xs);
    case Opcode::sort:
      return eval_sort(in, xs);
    case Opcode::topk:
      return eval_topk(in, *xs[0]);
    case Opcode::cholesky:
      return eval_cholesky(in, *xs[0]);
    case Opcode::triangular_solve:
      return eval_triangular_solve(in, *xs[0], *xs[1]);
    case Opcode::rng_bit_generator:
      return eval_rng_bit_generator(in, *xs[0]);
    case Opcode::batch_norm_training:
      return eval_batch_norm_training(in, xs);
    case Opcode::batch_norm_inference:
      return eval_batch_norm_inference(in, xs);
    case Opcode::batch_norm_grad:
      return eval_batch_norm_grad(in, xs);
    case Opcode::get_dimension_size:
      return eval_dimension_size(in, *xs[0]);
    case Opcode::set_dimension_size:
      return eval_set_dimension_size(in, *xs[0], *xs[1]);
    case Opcode::dynamic_reshape:
      return eval_dynamic_reshape(in, xs);
    case Opcode::ragged_dot:
      return eval_ragged_dot(in, xs);
    case Opcode::scaled_dot:
      return eval_scaled_dot(in, xs);
    case Opcode::scan:
      return eval_scan(in, xs);
    case Opcode::stochastic_convert:
      return eval_stochastic_convert(in, xs);
    case Opcode::infeed:
    case Opcode::outfeed:
    case Opcode::send:
    case Opcode::send_done:
    case Opcode::recv:
    case Opcode::recv_done:
      throw NotImplementedError(std::string(ir::name(in.opcode)) + " " + in.describe() +
                                    " talks to the host while the program runs, which is not " +
                                    "supported; pass the values as arguments and results",
                                in.location());
    default:
      if (ir::is_elementwise(in.opcode) && is_lane_op(in.opcode)) return eval_elementwise(in, xs);
      throw NotImplementedError(std::string(ir::name(in.opcode)) + " " + in.describe() +
                                    " has no reference meaning in the evaluator yet",
                                in.location());
  }
}

}  // namespace tessera::evaluator
