// SPDX-License-Identifier: Apache-2.0
// The batch is in front, and the dims of what is broadcast behind it, those that are contracted in
// one piece.
#include "src/ir/analysis/shared_matrices.h"

#include <algorithm>

#include "src/base/contains.h"

namespace tessera::ir {

bool is_shared_matrix(const Instruction& dot, std::size_t k) {
  const Instruction& all = *dot.operand(k);
  const DType t = dot.shape.dtype;
  if (!all.is(Opcode::broadcast) || !(is_floating(t) || is_complex(t)) ||
      dot.operand(0)->shape.dtype != t || dot.operand(1)->shape.dtype != t) {
    return false;
  }
  const auto& a = dot.get<DotAttrs>();
  const Dims& batch = k == 0 ? a.lhs_batch : a.rhs_batch;
  const Dims& contracting = k == 0 ? a.lhs_contracting : a.rhs_contracting;
  const Dims& made_of = all.get<DimensionsAttrs>().dims;
  const auto first = std::int64_t(batch.size());
  std::int64_t matrices = 1;
  for (std::int64_t d = 0; d < first; ++d) {
    if (batch[std::size_t(d)] != d) return false;
    matrices *= all.shape.dim(d);
  }
  if (matrices <= 1 || std::int64_t(made_of.size()) != all.shape.rank() - first) return false;
  for (std::size_t d = 0; d < made_of.size(); ++d) {
    if (made_of[d] != first + std::int64_t(d)) return false;
  }
  if (!std::is_sorted(contracting.begin(), contracting.end())) return false;
  const auto contracted = std::int64_t(contracting.size());
  return contracted == 0 || contracting.back() == all.shape.rank() - 1
             ? contracted == 0 || contracting.front() == all.shape.rank() - contracted
             : contracting.front() == first && contracting.back() == first + contracted - 1;
}

bool only_shows_matrix(const Instruction& broadcast) {
  if (!broadcast.is(Opcode::broadcast) || broadcast.use_count() == 0 ||
      broadcast.parent->root() == &broadcast) {
    return false;
  }
  for (const Instruction* user : broadcast.users()) {
    if (!user->is(Opcode::dot)) return false;
    for (std::size_t k = 0; k < 2; ++k) {
      if (user->operand(k) == &broadcast && !is_shared_matrix(*user, k)) return false;
    }
  }
  return true;
}

}  // namespace tessera::ir
