// SPDX-License-Identifier: Apache-2.0
// Evaluates dynamic-slice and dynamic-update-slice with clamped starts.
#include <algorithm>
#include <limits>

#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"
#include "src/evaluator/wide.h"

namespace tessera::evaluator {

std::int64_t index_at(const Literal& x, std::int64_t i) {
  std::uint64_t v = 0;
  load(x.dtype(), x.bytes() + std::size_t(i) * byte_size(x.dtype()), 1, &v);
  constexpr std::uint64_t top = std::uint64_t(std::numeric_limits<std::int64_t>::max());
  if (x.dtype() == DType::u64 && v > top) return std::int64_t(top);
  return std::int64_t(v);
}

namespace {

/// Start indices, moved so that a box of `sizes` is inside `dims`. They are scalars, one operand
/// each, or (an old form) one vector.
Dims clamped_starts(Operands xs, std::size_t first, const Dims& dims, const Dims& sizes) {
  Dims starts;
  const bool vector = xs.size() == first + 1 && xs[first]->dims().size() == 1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t at =
        vector ? index_at(*xs[first], std::int64_t(d)) : index_at(*xs[first + d], 0);
    starts.push_back(std::clamp<std::int64_t>(at, 0, dims[d] - sizes[d]));
  }
  return starts;
}

}  // namespace

Literal eval_dynamic_slice(const ir::Instruction& in, Operands xs) {
  const Dims& sizes = in.get<ir::DynamicSliceAttrs>().sizes;
  return sliced(*xs[0], clamped_starts(xs, 1, xs[0]->dims(), sizes), sizes);
}

Literal eval_dynamic_update_slice(const ir::Instruction&, Operands xs) {
  Literal out = *xs[0];
  write_box(out, *xs[1], clamped_starts(xs, 2, xs[0]->dims(), xs[1]->dims()));
  return out;
}

}  // namespace tessera::evaluator
