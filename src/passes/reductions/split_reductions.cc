// SPDX-License-Identifier: Apache-2.0
// Splits long reductions. The stretches depend on the shape alone, so that sums don't depend on how
// many workers there are.
#include "src/passes/reductions/split_reductions.h"

#include "src/base/contains.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Results from which there is enough to share; elements of a stretch that pay for it; and how many
/// stretches there may be.
constexpr std::int64_t kManyResults = 32, kLeastStretch = 16384, kMostStretches = 64;
/// So many columns are read a stretch of rows at a time, as they stand in memory, if the stretch is
/// so long that its results are few next to it, and all are not in cache anyway.
constexpr std::int64_t kManyColumns = 256, kLeastRows = 16, kLeastElements = 1 << 18;

Instruction* split(const Instruction& reduce, ir::Builder& b) {
  if (reduce.operands().size() != 2 || reduce.shape.is_tuple) return nullptr;
  const Shape& from = reduce.operand(0)->shape;
  const auto op = ir::as_binary_reducer(*reduce.called().at(0));
  // Sums of 16-bit floats are accumulated in f32, and would be rounded twice.
  if (!op || from.dtype != reduce.shape.dtype ||
      (is_floating(from.dtype) && byte_size(from.dtype) < 4)) {
    return nullptr;
  }
  const std::optional<Literal> identity = ir::identity_of(*op, from.dtype);
  if (!identity) return nullptr;
  const Dims& dims = reduce.get<ir::DimensionsAttrs>().dims;
  std::int64_t before = 1, reduced = 1, after = 1;
  int stage = 0;
  for (std::int64_t d = 0; d < from.rank(); ++d) {
    const std::int64_t size = from.dim(d);
    if (size == 1) continue;
    const bool is_reduced = contains(dims, d);
    if (is_reduced && stage == 2) return nullptr;
    if (is_reduced) {
      stage = 1;
      reduced *= size;
    } else {
      if (stage == 1) stage = 2;
      (stage == 0 ? before : after) *= size;
    }
  }
  if (before >= kManyResults) return nullptr;
  std::int64_t pieces = 1;
  for (std::int64_t n = 2; n <= kMostStretches; ++n) {
    const std::int64_t rows = reduced / n;
    const bool pays = after >= kManyColumns
                          ? rows >= kLeastRows && reduced * after >= kLeastElements
                          : rows * after >= kLeastStretch;
    if (reduced % n == 0 && pays) pieces = n;
  }
  if (pieces == 1) return nullptr;
  ir::Computation* reducer = reduce.called()[0];
  Instruction* all = b.reshape(reduce.operand(0), {before, pieces, reduced / pieces, after});
  Instruction* some = b.reduce(all, b.constant(*identity), {2}, reducer);
  Instruction* one = b.reduce(some, reduce.operand(1), {1}, reducer);
  return b.reshape(one, reduce.shape.dims);
}

}  // namespace

std::size_t split_reductions(ir::Module* module) {
  // The parts may be long themselves, and are left so.
  static const auto& patterns =
      ir::keep(ir::PatternSet("split-reductions").add(Opcode::reduce, split));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
