// SPDX-License-Identifier: Apache-2.0
// Moves transposes from the operands of elementwise ops to their result, and leaves out those that
// undo them.
#include "src/passes/products/sink_transposes.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// What may be transposed so that there is a y of which an array is a transpose.
enum class Allowed : std::uint8_t {
  nothing,
  small_operands,  ///< of broadcasts that are several times as large
};
constexpr std::int64_t kSmallShare = 8;

/// The dims of a broadcast that is before `x`.
Dims dims_before(const Instruction& x, const Dims& perm) {
  Dims dims;
  for (const std::int64_t d : x.get<ir::DimensionsAttrs>().dims) {
    dims.push_back(perm[std::size_t(d)]);
  }
  return dims;
}

/// Whether there is a y of which `x` is transpose(y, perm), and which takes no transpose to make
/// but those allowed. Sets `any` if there was one before.
bool can_be_before(const Instruction& x, const Dims& perm, Allowed allowed, bool* any) {
  if (!x.control_predecessors().empty()) return false;
  if (x.is(Opcode::transpose)) {
    *any = true;
    return x.get<ir::DimensionsAttrs>().dims == perm;
  }
  if (x.is(Opcode::broadcast)) {
    const Dims dims = dims_before(x, perm);
    return std::is_sorted(dims.begin(), dims.end()) ||
           (allowed == Allowed::small_operands &&
            x.operand(0)->shape.element_count() * kSmallShare <= x.shape.element_count());
  }
  if (x.is(Opcode::iota)) return true;
  return ir::is_elementwise(x.opcode) && x.use_count() == 1 &&
         std::all_of(x.operands().begin(), x.operands().end(), [&](const Instruction* o) {
           return o->shape.dims == x.shape.dims && can_be_before(*o, perm, allowed, any);
         });
}

Instruction* before(ir::Builder& b, const Instruction& x, const Dims& perm) {
  if (x.is(Opcode::transpose)) return x.operand(0);
  b.metadata = x.metadata;
  const Dims order = ir::inverse_order(perm);
  Dims dims;
  for (const std::int64_t d : order) dims.push_back(x.shape.dim(d));
  const Shape shape(x.shape.dtype, dims);
  if (x.is(Opcode::broadcast)) {
    const Dims to = dims_before(x, perm);
    Dims sorted(to.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::sort(sorted.begin(), sorted.end(), [&](std::int64_t l, std::int64_t r) {
      return to[std::size_t(l)] < to[std::size_t(r)];
    });
    Instruction* part = x.operand(0);
    if (!std::is_sorted(to.begin(), to.end())) part = b.transpose(part, sorted);
    ir::DimensionsAttrs attrs;
    for (const std::int64_t d : sorted) attrs.dims.push_back(to[std::size_t(d)]);
    return b.emit_shaped(Opcode::broadcast, shape, {part}, attrs);
  }
  if (x.is(Opcode::iota)) {
    return b.iota(shape, perm[std::size_t(x.get<ir::IotaAttrs>().dim)]);
  }
  std::vector<Instruction*> operands;
  for (Instruction* o : x.operands()) operands.push_back(before(b, *o, perm));
  return ir::emit_like(b, x, std::move(operands), &shape);
}

/// The transpose among what an elementwise op is computed of, by ops that have no other user: each
/// is looked at once.
const Instruction* first_transpose(const Instruction& x) {
  for (const Instruction* o : x.operands()) {
    if (o->is(Opcode::transpose)) return o;
    const bool below = ir::is_elementwise(o->opcode) && o->use_count() == 1;
    if (const Instruction* found = below ? first_transpose(*o) : nullptr) return found;
  }
  return nullptr;
}

/// Whether dots alone read an elementwise op's result.
bool only_for_dots(const Instruction& i) {
  if (!ir::is_elementwise(i.opcode) || i.shape.rank() < 2 || i.parent->root() == &i ||
      i.use_count() == 0 || !i.control_predecessors().empty()) {
    return false;
  }
  const ir::UserList users = i.users();
  return std::all_of(users.begin(), users.end(),
                     [](const Instruction* u) { return u->is(Opcode::dot); });
}

/// The transpose of what `i` is before it; null where a transpose would have to be added.
Instruction* transposed_late(const Instruction& i, ir::Builder& b) {
  if (!only_for_dots(i)) return nullptr;
  const Instruction* transpose = first_transpose(i);
  if (transpose == nullptr) return nullptr;
  const Dims perm = transpose->get<ir::DimensionsAttrs>().dims;
  bool any = false;
  const bool can = std::all_of(i.operands().begin(), i.operands().end(), [&](const Instruction* o) {
    return o->shape.dims == i.shape.dims && can_be_before(*o, perm, Allowed::nothing, &any);
  });
  if (!can || !any) return nullptr;
  Instruction* early = before(b, i, perm);
  b.metadata = transpose->metadata;
  return b.transpose(early, perm);
}

/// What an elementwise op makes, computed in the order in which it is read.
Instruction* transposed_early(const Instruction& i, ir::Builder& b) {
  const Instruction& x = *i.operand(0);
  if (!ir::is_elementwise(x.opcode) || !i.control_predecessors().empty()) return nullptr;
  const Dims perm = ir::inverse_order(i.get<ir::DimensionsAttrs>().dims);
  bool any = false;
  return can_be_before(x, perm, Allowed::small_operands, &any) ? before(b, x, perm) : nullptr;
}

}  // namespace

std::size_t cancel_transposes(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("cancel-transposes").add(Opcode::transpose, transposed_early));
  return ir::walk_and_apply_patterns(module, patterns);
}

std::size_t sink_transposes(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("sink-transposes").add_if(ir::is_elementwise, transposed_late));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
