// SPDX-License-Identifier: Apache-2.0
// Custom calls that compute on buffers.
#include "src/ir/custom_call.h"
#include "src/evaluator/ops.h"

namespace tessera::evaluator {
namespace {

void append(const Literal& x, std::vector<BufferView>* out) {
  if (x.is_tuple()) {
    for (const Literal& e : x.elements()) append(e, out);
    return;
  }
  out->emplace_back(x.dtype(), std::span<const std::int64_t>(x.dims()), x.bytes());
}

void append(Literal& x, std::vector<MutableBufferView>* out) {
  if (x.is_tuple()) {
    for (Literal& e : x.mutable_elements()) append(e, out);
    return;
  }
  std::byte* const bytes = x.mutable_bytes();
  out->emplace_back(x.dtype(), std::span<const std::int64_t>(x.dims()), bytes);
}

}  // namespace

Literal eval_prepared_call(const ir::Instruction& in, const ir::PreparedCall& call, Operands xs) {
  std::vector<BufferView> operands;
  for (const Literal* x : xs) append(*x, &operands);
  Literal out(in.shape);
  std::vector<MutableBufferView> results;
  append(out, &results);
  call.run(operands, results, 0, call.units);
  return out;
}

}  // namespace tessera::evaluator
