// SPDX-License-Identifier: Apache-2.0
// A dot whose result is only used transposed (gradients of weights) is the dot of its operands the
// other way round, if that is the required order: no array is moved. Of types whose kernels take
// operands in one order only, that holds where the result is sent or returned. One that is only
// read with dims of its first operand last is the dot of its operands the other way round, whose
// elements along that dim are moved together. What else is computed from one reads it transposed as
// it is. A dot of a transposed array is the dot of the array with
// other dims named, where kernels take that as it stands.
#include "src/passes/products/fold_transposes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Batch dims as they are, then the second operand's dims, then the first's.
Dims swapped_order(const Instruction& dot) {
  const auto& attrs = dot.get<ir::DotAttrs>();
  const auto batch = std::int64_t(attrs.lhs_batch.size());
  const std::int64_t own =
      dot.operand(0)->shape.rank() - batch - std::int64_t(attrs.lhs_contracting.size());
  Dims out;
  for (std::int64_t d = 0; d < batch; ++d) out.push_back(d);
  for (std::int64_t d = batch + own; d < dot.shape.rank(); ++d) out.push_back(d);
  for (std::int64_t d = batch; d < batch + own; ++d) out.push_back(d);
  return out;
}

/// The transpose that makes of an array in order `order` what `perm` makes of it as it was.
Dims after(const Dims& order, const Dims& perm) {
  const Dims now = ir::inverse_order(order);
  Dims out;
  for (const std::int64_t d : perm) out.push_back(now[std::size_t(d)]);
  return out;
}

/// Whether a transpose of a dot of floats ends with the last dim of its first operand, where the
/// dot ends with one of its second.
bool ends_with_first(const Instruction& dot, const Dims& perm) {
  const auto& attrs = dot.get<ir::DotAttrs>();
  const auto batch = std::int64_t(attrs.lhs_batch.size());
  const std::int64_t own =
      dot.operand(0)->shape.rank() - batch - std::int64_t(attrs.lhs_contracting.size());
  return is_floating(dot.shape.dtype) && own > 0 && batch + own < dot.shape.rank() &&
         perm.back() == batch + own - 1;
}

/// Whether the kernel takes its operands with the contracted dims first or last.
bool takes_any_order(const Instruction& dot) {
  return is_floating(dot.shape.dtype) || is_complex(dot.shape.dtype);
}

/// Whether what is made of it is needed as it is: by collectives, or as a result.
bool leaves(const Instruction& array, std::span<Instruction* const> users) {
  const bool out = std::all_of(users.begin(), users.end(), [](const Instruction* u) {
    return ir::is_collective(u->opcode) || u->is(Opcode::tuple);
  });
  return out && (!users.empty() || array.parent->root() == &array);
}

/// A dot that is only read by transposes, with its operands the other way round.
bool swap(Instruction& dot, ir::PatternRewriter& r) {
  const bool free = dot.control_predecessors().empty() && dot.parent->root() != &dot;
  if (!free || dot.use_count() == 0) return false;
  const ir::UserList transposes = dot.users();
  const Dims order = swapped_order(dot);
  const bool only = std::all_of(transposes.begin(), transposes.end(), [&](const Instruction* u) {
    if (!u->is(Opcode::transpose) || !u->control_predecessors().empty()) return false;
    const Dims& perm = u->get<ir::DimensionsAttrs>().dims;
    return (perm == order && (takes_any_order(dot) || leaves(*u, u->users()))) ||
           ends_with_first(dot, perm);
  });
  if (!only || std::is_sorted(order.begin(), order.end())) return false;
  ir::DotAttrs attrs = dot.get<ir::DotAttrs>();
  std::swap(attrs.lhs_batch, attrs.rhs_batch);
  std::swap(attrs.lhs_contracting, attrs.rhs_contracting);
  std::reverse(attrs.operand_precision.begin(), attrs.operand_precision.end());
  Dims dims;
  for (const std::int64_t d : order) dims.push_back(dot.shape.dim(d));
  Instruction* other = r.builder().emit_shaped(Opcode::dot, Shape(dot.shape.dtype, dims),
                                               {dot.operand(1), dot.operand(0)}, attrs);
  for (Instruction* t : transposes) {
    const Dims rest = after(order, t->get<ir::DimensionsAttrs>().dims);
    if (std::is_sorted(rest.begin(), rest.end())) {
      other->sharding = t->sharding;
      r.replace(t, other);
    } else {
      r.replace(t, r.builder(t).transpose(other, rest));
    }
  }
  return true;
}

/// Whether a kernel takes an operand as it stands: batch dims in front, then the free and the
/// contracted ones, each in one piece; `contracted_first`: in that order only.
bool stands(std::int64_t rank, const Dims& batch, const Dims& contracting, bool contracted_first) {
  Dims free;
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto is = [d](std::int64_t other) { return other == d; };
    if (std::none_of(batch.begin(), batch.end(), is) &&
        std::none_of(contracting.begin(), contracting.end(), is)) {
      free.push_back(d);
    }
  }
  const auto in_order = [&](const Dims& first, const Dims& second) {
    Dims all = batch;
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), second.begin(), second.end());
    return std::is_sorted(all.begin(), all.end());
  };
  return in_order(contracting, free) || (!contracted_first && in_order(free, contracting));
}

/// Names the dims of what operand `k` is a transpose of, if the others keep their order.
bool see_through(Instruction* dot, std::size_t k) {
  Instruction* transpose = dot->operand(k);
  if (!transpose->is(Opcode::transpose) || !transpose->control_predecessors().empty()) return false;
  const Dims& perm = transpose->get<ir::DimensionsAttrs>().dims;
  ir::DotAttrs attrs = dot->get<ir::DotAttrs>();
  Dims& batch = k == 0 ? attrs.lhs_batch : attrs.rhs_batch;
  Dims& contracting = k == 0 ? attrs.lhs_contracting : attrs.rhs_contracting;
  std::int64_t last = -1;
  for (std::int64_t d = 0; d < std::int64_t(perm.size()); ++d) {
    const auto is = [d](std::int64_t other) { return other == d; };
    if (std::any_of(batch.begin(), batch.end(), is) ||
        std::any_of(contracting.begin(), contracting.end(), is)) {
      continue;
    }
    if (perm[std::size_t(d)] < last) return false;
    last = perm[std::size_t(d)];
  }
  for (Dims* dims : {&batch, &contracting}) {
    for (std::int64_t& d : *dims) d = perm[std::size_t(d)];
  }
  const bool one_order = k == 1 && !takes_any_order(*dot);
  if (!stands(std::int64_t(perm.size()), batch, contracting, one_order)) return false;
  dot->set_operand(k, transpose->operand(0));
  dot->attrs = attrs;
  return true;
}

/// The dims of a dot's operand in the other order of its groups: batch dims, then those that are
/// not with the dim `last`, then those that are. Nothing if it doesn't stand so.
std::optional<Dims> last_group_last(const Instruction& dot, std::size_t k, std::int64_t last) {
  const auto& attrs = dot.get<ir::DotAttrs>();
  const Dims& batch = k == 0 ? attrs.lhs_batch : attrs.rhs_batch;
  const Dims& contracting = k == 0 ? attrs.lhs_contracting : attrs.rhs_contracting;
  const std::int64_t rank = dot.operand(k)->shape.rank();
  if (!is_floating(dot.shape.dtype) || contains(batch, last) ||
      !stands(rank, batch, contracting, false)) {
    return std::nullopt;
  }
  Dims out = batch;
  for (const bool with_last : {false, true}) {
    for (std::int64_t d = 0; d < rank; ++d) {
      if (contains(batch, d)) continue;
      if ((contains(contracting, d) == contains(contracting, last)) == with_last) out.push_back(d);
    }
  }
  if (out.back() != last) return std::nullopt;
  return out;
}

std::size_t keep_last_dims_in(ir::Computation* c) {
  std::vector<std::pair<Instruction*, Dims>> found;
  for (const auto& i : c->instructions()) {
    if (!i->is(Opcode::transpose) || !i->control_predecessors().empty() || i->use_count() == 0 ||
        c->root() == i.get()) {
      continue;
    }
    const Dims& perm = i->get<ir::DimensionsAttrs>().dims;
    const auto rank = std::int64_t(perm.size());
    const std::int64_t last = std::find(perm.begin(), perm.end(), rank - 1) - perm.begin();
    if (rank == 0 || last == rank - 1) continue;
    std::optional<Dims> order;
    bool all = true;
    for (Instruction* user : i->users()) {
      for (std::size_t k = 0; all && k < user->operands().size(); ++k) {
        if (user->operand(k) != i.get()) continue;
        const auto its = user->is(Opcode::dot) ? last_group_last(*user, k, last) : std::nullopt;
        all = its && (!order || order == its);
        order = its;
      }
    }
    if (all && order) found.push_back({i.get(), *std::move(order)});
  }
  ir::Builder b(c);
  for (auto& [transpose, order] : found) {
    const ir::UserList users = transpose->users();
    b.metadata = transpose->metadata;
    Dims perm;
    for (const std::int64_t d : order) {
      perm.push_back(transpose->get<ir::DimensionsAttrs>().dims[std::size_t(d)]);
    }
    Instruction* other = b.transpose(transpose->operand(0), perm);
    const Dims now = ir::inverse_order(order);
    for (Instruction* dot : users) {
      ir::DotAttrs attrs = dot->get<ir::DotAttrs>();
      for (std::size_t k = 0; k < 2; ++k) {
        if (dot->operand(k) != transpose) continue;
        for (Dims* dims : k == 0 ? std::array{&attrs.lhs_batch, &attrs.lhs_contracting}
                                 : std::array{&attrs.rhs_batch, &attrs.rhs_contracting}) {
          for (std::int64_t& d : *dims) d = now[std::size_t(d)];
        }
        dot->set_operand(k, other);
      }
      dot->attrs = attrs;
    }
  }
  if (found.empty()) return 0;
  c->sort_topologically();
  c->remove_dead();
  return found.size();
}

}  // namespace

std::size_t keep_last_dims(ir::Module* module) {
  std::size_t n = 0;
  for (const auto& c : module->computations()) n += keep_last_dims_in(c.get());
  return n;
}

std::size_t fold_transposes(ir::Module* module) {
  std::size_t n = 0;
  for (const auto& c : module->computations()) {
    std::size_t here = 0;
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::dot)) continue;
      for (std::size_t k = 0; k < 2; ++k) here += see_through(i.get(), k) ? 1 : 0;
    }
    if (here > 0) c->remove_dead();
    n += here;
  }
  return n;
}

std::size_t swap_transposed_dots(ir::Module* module) {
  // Two swaps of a dot may be none.
  static const auto& patterns =
      ir::keep(ir::PatternSet("swap-transposed-dots").add(Opcode::dot, swap));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
