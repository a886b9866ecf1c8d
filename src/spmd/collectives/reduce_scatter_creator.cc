// SPDX-License-Identifier: Apache-2.0
// Turns all-reduce and per-device slice into reduce-scatter, and gather and slice into nothing.
#include <algorithm>
#include <map>
#include <optional>

#include "src/ir/analysis/loop_invariance.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/collectives/groups.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/collectives/partition_id_constants.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr int kMaxCuts = 8;

/// A slice with a start per device that is known, in each dim that it cuts.
struct Cut {
  struct Dim {
    std::int64_t dim = 0, size = 0;
    std::vector<std::int64_t> start;  ///< by device
  };
  std::vector<Dim> dims;
  friend bool operator==(const Dim& a, const Dim& b) {
    return a.dim == b.dim && a.size == b.size && a.start == b.start;
  }
};

bool equal(const Cut& a, const Cut& b) { return a.dims == b.dims; }

class OwnShards {
 public:
  OwnShards(ir::Computation* c, GroupTable* groups)
      : r_(c), groups_(*groups), values_(groups->devices()) {}

  std::size_t run() {
    for (std::size_t n = 0; n < r_.size(); ++n) {
      Instruction* i = r_.at(n);
      if (!r_.untouched(i) || !ir::is_plain_collective(*i)) continue;
      if (i == r_.computation()->root()) continue;
      if (i->is(Opcode::all_reduce)) reduced(i);
      if (i->is(Opcode::all_gather)) gathered(i);
    }
    return r_.finish();
  }

 private:
  std::optional<Cut> cut_of(const Instruction& slice) {
    Cut cut;
    const Dims& from = slice.operand(0)->shape.dims;
    for (std::size_t d = 0; d < from.size(); ++d) {
      const std::int64_t size = slice.shape.dims[d], most = from[d] - size;
      if (most == 0) continue;
      Cut::Dim one{std::int64_t(d), size, {}};
      if (slice.is(Opcode::slice)) {
        const auto& a = slice.get<ir::SliceAttrs>();
        if (!a.strides.empty() && a.strides[d] != 1) return std::nullopt;
        one.start.assign(std::size_t(groups_.devices()), a.starts[d]);
      } else {
        const auto* start = values_.scalar(slice.operand(d + 1));
        if (!start) return std::nullopt;
        one.start = *start;
        for (std::int64_t& s : one.start) s = std::clamp<std::int64_t>(s, 0, most);
      }
      cut.dims.push_back(std::move(one));
    }
    return cut;
  }

  static bool is_slice(const Instruction& i) {
    return i.is(Opcode::dynamic_slice) || i.is(Opcode::slice);
  }

  /// The slices that are all that is made of `x`, possibly after a move of its elements.
  struct Use {
    std::vector<Instruction*> chain;  ///< from `x` on
    std::vector<Instruction*> slices;
    Cut cut;
  };
  std::optional<Use> only_cut(Instruction* x) {
    Use use;
    const Instruction* at = x;
    while (r_.untouched(at) && r_.users(at).size() == 1 && only_moves(*r_.users(at)[0]) &&
           at != r_.computation()->root()) {
      use.chain.push_back(r_.users(at)[0]);
      at = use.chain.back();
    }
    if (!r_.untouched(at) || at == r_.computation()->root() || r_.users(at).empty()) {
      return std::nullopt;
    }
    for (Instruction* user : r_.users(at)) {
      if (!is_slice(*user) || !r_.untouched(user) || user->operand(0) != at) return std::nullopt;
      if (std::count(user->operands().begin(), user->operands().end(), at) != 1)
        return std::nullopt;
      auto cut = cut_of(*user);
      if (!cut || cut->dims.empty()) return std::nullopt;
      if (use.slices.empty())
        use.cut = std::move(*cut);
      else if (!equal(use.cut, *cut))
        return std::nullopt;
      use.slices.push_back(user);
    }
    return use;
  }

  // ----- all-reduce

  struct Scatter {
    std::size_t dim = 0;  ///< of the cut
    ir::DeviceGroups groups;
  };

  /// One more dim scattered: the groups of the scatter, and those that are still to be reduced over
  /// afterwards.
  std::optional<DeviceLists> scattered(const Cut::Dim& d, std::int64_t full, DeviceLists* left) {
    if (d.size == 0 || full % d.size != 0) return std::nullopt;
    const std::int64_t parts = full / d.size;
    DeviceLists scatter, rest;
    for (const auto& group : *left) {
      std::vector<std::vector<std::int64_t>> takers(static_cast<std::size_t>(parts));
      for (const std::int64_t device : group) {
        const std::int64_t start = d.start[std::size_t(device)];
        if (start % d.size != 0) return std::nullopt;
        takers[std::size_t(start / d.size)].push_back(device);
      }
      const std::size_t each = takers[0].size();
      if (each == 0) return std::nullopt;
      for (const auto& t : takers) {
        if (t.size() != each) return std::nullopt;
      }
      for (std::size_t k = 0; k < each; ++k) {
        scatter.emplace_back();
        for (const auto& t : takers) scatter.back().push_back(t[k]);
      }
      rest.insert(rest.end(), takers.begin(), takers.end());
    }
    *left = std::move(rest);
    return scatter;
  }

  bool same_in_groups(const Cut::Dim& d, const DeviceLists& groups) const {
    for (const auto& group : groups) {
      for (const std::int64_t device : group) {
        if (d.start[std::size_t(device)] != d.start[std::size_t(group[0])]) return false;
      }
    }
    return true;
  }

  void reduced(Instruction* all) {
    auto use = only_cut(all);
    if (!use) return;
    Instruction* slice = use->slices[0];
    const auto& attrs = all->get<ir::CollectiveAttrs>();
    const Dims& dims = slice->operand(0)->shape.dims;
    DeviceLists left = groups_.lists(attrs.groups);
    const DeviceLists unsplit = left;
    std::vector<std::size_t> before;
    std::vector<Scatter> scatters;
    for (std::size_t k = 0; k < use->cut.dims.size(); ++k) {
      const Cut::Dim& d = use->cut.dims[k];
      if (same_in_groups(d, unsplit)) {
        before.push_back(k);
        continue;
      }
      auto lists = scattered(d, dims[std::size_t(d.dim)], &left);
      if (!lists) return;
      scatters.push_back({k, as_groups(std::move(*lists), attrs.groups.mesh, groups_.devices())});
    }
    ir::Builder& b = r_.builder(all);
    Instruction* x = all->operand(0);
    for (Instruction* move : use->chain) {
      x = b.emit_shaped(move->opcode, move->shape, {x}, move->attrs);
    }
    if (!before.empty()) x = sliced(b, x, *slice, use->cut, before);
    for (const Scatter& s : scatters) {
      ir::CollectiveAttrs a = attrs;
      a.groups = s.groups;
      a.dims = {use->cut.dims[s.dim].dim};
      if (a.channel_id) a.channel_id = ir::next_channel_id(b.module());
      x = b.emit(Opcode::reduce_scatter, {x}, std::move(a), all->called());
    }
    if (scatters.empty() || left.front().size() > 1) {
      x = regrouped(b, *all, x,
                    scatters.empty()
                        ? attrs.groups
                        : as_groups(std::move(left), attrs.groups.mesh, groups_.devices()));
    }
    r_.touch(all);
    for (Instruction* move : use->chain) r_.touch(move);
    for (Instruction* s : use->slices) r_.replace(s, x);
  }

  /// Cuts these dims of `x` as `slice` does.
  static Instruction* sliced(ir::Builder& b, Instruction* x, const Instruction& slice,
                             const Cut& cut, const std::vector<std::size_t>& which) {
    Dims sizes = x->shape.dims;
    for (const std::size_t k : which) sizes[std::size_t(cut.dims[k].dim)] = cut.dims[k].size;
    if (slice.is(Opcode::dynamic_slice)) {
      // Starts of the other dims are clamped to 0, since all of them is taken.
      return b.dynamic_slice(x, {slice.operands().begin() + 1, slice.operands().end()}, sizes);
    }
    const auto& a = slice.get<ir::SliceAttrs>();
    Dims starts(sizes.size(), 0), limits = x->shape.dims;
    for (const std::size_t k : which) {
      const auto d = std::size_t(cut.dims[k].dim);
      starts[d] = a.starts[d];
      limits[d] = a.limits[d];
    }
    return b.slice(x, starts, limits);
  }

  // ----- all-gather

  void gathered(Instruction* all) {
    const auto& attrs = all->get<ir::CollectiveAttrs>();
    const std::int64_t dim = attrs.dims.at(0), block = all->operand(0)->shape.dim(dim);
    const DeviceLists& lists = groups_.lists(attrs.groups);
    if (block == 0) return;
    // Of each slice by itself: the gather may have other users.
    const ir::UserList users = r_.users(all);
    for (Instruction* slice : users) {
      if (!is_slice(*slice) || !r_.untouched(slice) || slice->operand(0) != all) continue;
      auto cut = cut_of(*slice);
      if (!cut) continue;
      const auto at = std::find_if(cut->dims.begin(), cut->dims.end(),
                                   [&](const Cut::Dim& d) { return d.dim == dim; });
      if (at == cut->dims.end() || at->size > block) continue;
      // The place in the device's own block, if that is where all of them look.
      std::optional<std::int64_t> place;
      bool own = true;
      for (const auto& group : lists) {
        for (std::size_t k = 0; k < group.size() && own; ++k) {
          const std::int64_t p = at->start[std::size_t(group[k])] - std::int64_t(k) * block;
          own = p >= 0 && p + at->size <= block && (!place || *place == p);
          place = p;
        }
      }
      if (!own || !place || covered(lists) != groups_.devices()) {
        if (users.size() == 1 && r_.has_one_use(all)) elsewhere(all, slice, *cut, *at);
        continue;
      }
      ir::Builder& b = r_.builder(slice);
      r_.replace(slice, own_part(b, all->operand(0), *slice, *cut, dim, *place));
    }
  }
  static std::int64_t covered(const DeviceLists& lists) {
    std::int64_t n = 0;
    for (const auto& g : lists) n += std::int64_t(g.size());
    return n;
  }

  /// What `slice` takes, of a device's own block.
  Instruction* own_part(ir::Builder& b, Instruction* x, const Instruction& slice, const Cut& cut,
                        std::int64_t dim, std::int64_t place) {
    std::vector<std::size_t> others;
    for (std::size_t k = 0; k < cut.dims.size(); ++k) {
      if (cut.dims[k].dim != dim) others.push_back(k);
    }
    const std::int64_t size = slice.shape.dim(dim);
    if (x->shape.dim(dim) != size) {
      Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
      starts[std::size_t(dim)] = place;
      limits[std::size_t(dim)] = place + size;
      x = b.slice(x, starts, limits);
    }
    return others.empty() ? x : sliced(b, x, slice, cut, others);
  }

  /// Each device looks at one other's block, and no two at the same: a permute brings it.
  void elsewhere(Instruction* all, Instruction* slice, const Cut& cut, const Cut::Dim& d) {
    const auto& attrs = all->get<ir::CollectiveAttrs>();
    const std::int64_t block = all->operand(0)->shape.dim(d.dim);
    const DeviceLists& lists = groups_.lists(attrs.groups);
    if (!attrs.channel_id || covered(lists) != groups_.devices()) return;
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    std::vector<char> taken(static_cast<std::size_t>(groups_.devices()), 0);
    for (const auto& group : lists) {
      for (const std::int64_t device : group) {
        const std::int64_t start = d.start[std::size_t(device)];
        if (start % block != 0 || d.size != block) return;
        const std::int64_t source = group[std::size_t(start / block)];
        if (taken[std::size_t(source)]++) return;
        pairs.emplace_back(source, device);
      }
    }
    std::sort(pairs.begin(), pairs.end());
    ir::Builder& b = r_.builder(all);
    Instruction* x = b.collective_permute(all->operand(0), std::move(pairs));
    r_.touch(all);
    r_.replace(slice, own_part(b, x, *slice, cut, d.dim, 0));
  }

  ir::Rewriter r_;
  GroupTable& groups_;
  PartitionIdConstants values_;
};

bool may_cut(const ir::Computation& c) {
  bool cuts = false, communicates = false;
  for (const auto& i : c.instructions()) {
    cuts = cuts || i->is(Opcode::dynamic_slice) || i->is(Opcode::slice);
    communicates = communicates || i->is(Opcode::all_reduce) || i->is(Opcode::all_gather);
  }
  return cuts && communicates;
}

}  // namespace

std::size_t create_reduce_scatters(ir::Module* module) {
  GroupTable groups(module->num_partitions);
  return run_to_fixed_point(module, kMaxCuts, may_cut,
                            [&](ir::Computation* c) { return OwnShards(c, &groups).run(); });
}

}  // namespace tessera::spmd
