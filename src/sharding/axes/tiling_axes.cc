// SPDX-License-Identifier: Apache-2.0
// Tilings to and from axes of a mesh.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "src/base/check.h"
#include "src/sharding/axes/device_order.h"
#include "src/sharding/axes/tiling.h"

namespace tessera {

Tiling to_tiling(const TensorSharding& s) {
  Tiling t;
  t.shard_group = s.shard_group;
  t.shard_like = s.shard_like;
  if (s.kind == TensorSharding::Kind::maximal) {
    t.kind = Tiling::Kind::maximal;
    t.device = s.device;
    return t;
  }
  if (s.kind == TensorSharding::Kind::unknown) {
    t.kind = Tiling::Kind::unknown;
    return t;
  }
  if (!s.mesh) return t;
  const LogicalMesh& mesh = *s.mesh;
  const Dims strides = mesh.strides();
  t.kind = Tiling::Kind::tiled;
  std::vector<Digit> digits;
  std::vector<bool> used(mesh.axes.size(), false);
  auto take = [&](int a) {
    TESSERA_CHECK(!used[std::size_t(a)], "an axis stands twice in " + s.to_string());
    used[std::size_t(a)] = true;
    digits.push_back({mesh.axes[std::size_t(a)].size, strides[std::size_t(a)]});
    return mesh.axes[std::size_t(a)].size;
  };
  for (const DimSharding& d : s.dims) {
    std::int64_t size = 1;
    for (int a : d.axes) size *= take(a);
    t.tile.push_back(size);
  }
  auto subgroup = [&](IndexList axes, Tiling::Subgroup kind) {
    std::sort(axes.begin(), axes.end());
    std::int64_t size = 1;
    for (int a : axes) size *= take(a);
    t.tile.push_back(size);
    t.subgroups.push_back(kind);
  };
  subgroup(s.manual, Tiling::Subgroup::manual);
  subgroup(s.unreduced, Tiling::Subgroup::unreduced);
  IndexList rest;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) rest.push_back(int(i));
  }
  subgroup(rest, Tiling::Subgroup::replicated);
  // An array with the sizes of the axes, its dims in the order in which the tile dims use them.
  std::erase_if(digits, [](const Digit& d) { return d.size == 1; });
  iota_of_digits(digits, &t.reshape, &t.perm);
  if (!mesh.device_ids.empty()) {
    t.devices = t.device_list();
    for (std::int64_t& d : t.devices) d = mesh.device_at(d);
    t.reshape.clear();
    t.perm.clear();
  }
  return t.canonical();
}

namespace {

/// A mesh under construction: a device order and the strides at which axes begin. Each cut divides
/// the next one; 1 and the number of devices are always included.
struct MeshDraft {
  DeviceIds device_ids;  // empty: identity
  std::set<std::int64_t> cuts;
  std::vector<std::size_t> members;
};

struct Placed {
  std::size_t draft = 0;
  std::vector<std::vector<Digit>> parts;  // digits of each tile dim
};

bool is_chain(const std::set<std::int64_t>& cuts) {
  std::int64_t previous = 1;
  for (std::int64_t c : cuts) {
    if (c % previous != 0) return false;
    previous = c;
  }
  return true;
}

std::set<std::int64_t> cuts_of(const std::vector<std::vector<Digit>>& parts) {
  std::set<std::int64_t> out;
  for (const auto& part : parts) {
    for (const Digit& d : part) {
      out.insert(d.stride);
      out.insert(d.stride * d.size);
    }
  }
  return out;
}

MeshDraft make_draft(DeviceIds ids, std::int64_t n) {
  MeshDraft draft;
  draft.cuts = {1, n};
  draft.device_ids = std::move(ids);
  return draft;
}

/// The tiling's digits in terms of the draft's positions.
std::optional<std::vector<std::vector<Digit>>> express(const Tiling& t, const MeshDraft& draft) {
  std::optional<std::vector<Digit>> digits;
  if (draft.device_ids.empty() && !t.reshape.empty()) {
    digits = digits_of_iota(t.reshape, t.perm);
  } else {
    std::vector<std::int64_t> list = t.device_list();
    if (!draft.device_ids.empty()) {
      for (std::int64_t& d : list) d = draft.device_ids.position_of(d);
    }
    digits = digits_of_list(list);
  }
  if (!digits) return std::nullopt;
  return split_digits(*digits, t.tile);
}

/// Adds the tiling's cuts if the draft can express the tiling and the cuts still nest.
bool join_draft(const Tiling& t, MeshDraft& draft, Placed& placed) {
  auto parts = express(t, draft);
  if (!parts) return false;
  std::set<std::int64_t> cuts = draft.cuts;
  cuts.merge(cuts_of(*parts));
  if (!is_chain(cuts)) return false;
  draft.cuts = std::move(cuts);
  placed.parts = std::move(*parts);
  return true;
}

/// A mesh with generated axis names for the cuts of a draft.
MeshRef anonymous_mesh(const MeshDraft& draft, const std::string& name) {
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::int64_t upper = 0;
  for (auto c = draft.cuts.rbegin(); c != draft.cuts.rend(); ++c) {
    if (upper != 0) axes.emplace_back("axis_" + std::to_string(axes.size()), upper / *c);
    upper = *c;
  }
  return make_logical_mesh(std::move(axes), draft.device_ids, name);
}

/// The preferred mesh, refined at the draft's cuts.
MeshRef refined_mesh(const MeshRef& preferred, const MeshDraft& draft) {
  const Dims strides = preferred->strides();
  std::vector<Dims> pieces;
  bool any = false;
  for (std::size_t i = 0; i < preferred->axes.size(); ++i) {
    const std::int64_t low = strides[i], high = strides[i] * preferred->axes[i].size;
    Dims sizes;
    std::int64_t upper = high;
    for (auto c = draft.cuts.rbegin(); c != draft.cuts.rend(); ++c) {
      if (*c >= high || *c < low) continue;
      sizes.push_back(upper / *c);
      upper = *c;
    }
    if (sizes.size() <= 1) sizes.clear();
    any = any || !sizes.empty();
    pieces.push_back(std::move(sizes));
  }
  return any ? refine(preferred, pieces) : preferred;
}

/// The axes of digits, split at the boundaries of the mesh's axes, major to minor.
IndexList axes_of(const std::vector<Digit>& digits, const LogicalMesh& mesh) {
  const Dims strides = mesh.strides();
  IndexList out;
  for (const Digit& d : digits) {
    for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
      if (mesh.axes[i].size > 1 && strides[i] >= d.stride && strides[i] < d.stride * d.size) {
        out.push_back(int(i));
      }
    }
  }
  return out;
}

/// `meshes`: of the drafts; empty if no tiling needs one.
TensorSharding to_axes(const Tiling& t, const Placed& placed, const std::vector<MeshRef>& meshes,
                       std::int64_t rank) {
  const MeshRef common = meshes.empty() ? nullptr : meshes[0];
  TensorSharding s = TensorSharding::replicated_on(common, rank);
  switch (t.kind) {
    case Tiling::Kind::replicated:
      break;
    case Tiling::Kind::maximal:
      s.kind = TensorSharding::Kind::maximal;
      s.device = t.device;
      break;
    case Tiling::Kind::unknown:
      s.kind = TensorSharding::Kind::unknown;
      break;
    case Tiling::Kind::manual:
      return TensorSharding::manual_on(common, rank);
    case Tiling::Kind::unreduced:
      s.unreduced.resize(common->axes.size());
      std::iota(s.unreduced.begin(), s.unreduced.end(), 0);
      break;
    case Tiling::Kind::tiled: {
      s.mesh = meshes[placed.draft];
      for (std::size_t k = 0; k < placed.parts.size(); ++k) {
        IndexList axes = axes_of(placed.parts[k], *s.mesh);
        if (k < s.dims.size()) {
          s.dims[k].axes = std::move(axes);
          continue;
        }
        std::sort(axes.begin(), axes.end());
        const Tiling::Subgroup kind = t.subgroups[k - s.dims.size()];
        if (kind == Tiling::Subgroup::manual) s.manual = std::move(axes);
        if (kind == Tiling::Subgroup::unreduced) s.unreduced = std::move(axes);
      }
      break;
    }
  }
  return s;
}

}  // namespace

std::vector<TensorSharding> from_tilings(std::span<const Tiling> tilings,
                                         std::span<const std::int64_t> ranks,
                                         std::int64_t num_devices, MeshRef preferred) {
  TESSERA_CHECK(tilings.size() == ranks.size(), "one rank per tiling");
  if (preferred && preferred->num_devices() != num_devices) preferred = nullptr;
  std::vector<MeshDraft> drafts;
  drafts.push_back(make_draft(preferred ? preferred->device_ids : DeviceIds(), num_devices));
  if (preferred) {
    for (std::int64_t s : preferred->strides()) drafts[0].cuts.insert(s);
  }

  std::vector<Tiling> canonical;
  std::vector<Placed> placed(tilings.size());
  bool needs_mesh = preferred != nullptr;
  for (std::size_t i = 0; i < tilings.size(); ++i) {
    check_tiling(tilings[i], num_devices);
    canonical.push_back(tilings[i].canonical());
    const Tiling& t = canonical.back();
    if (tilings[i].kind == Tiling::Kind::tiled && tilings[i].rank() != ranks[i]) {
      throw ShardingError("sharding " + t.to_string() + " is for a value of rank " +
                          std::to_string(tilings[i].rank()) + " and stands on one of rank " +
                          std::to_string(ranks[i]));
    }
    if (t.kind == Tiling::Kind::manual || t.kind == Tiling::Kind::unreduced) needs_mesh = true;
    if (t.kind != Tiling::Kind::tiled) continue;
    needs_mesh = true;
    std::size_t d = 0;
    while (d < drafts.size() && !join_draft(t, drafts[d], placed[i])) ++d;
    if (d == drafts.size()) {
      // Another mesh over the identity order; if that doesn't fit, one whose device order is the
      // tiling's own.
      drafts.push_back(make_draft({}, num_devices));
      if (!join_draft(t, drafts[d], placed[i])) {
        drafts[d] = make_draft(t.device_list(), num_devices);
        const bool plain = join_draft(t, drafts[d], placed[i]);
        TESSERA_CHECK(plain, "a device list isn't plain in its own order");
      }
    }
    placed[i].draft = d;
  }

  std::vector<MeshRef> meshes;
  for (std::size_t d = 0; d < drafts.size() && needs_mesh; ++d) {
    const std::string name = d == 0 ? "mesh" : "mesh_" + std::to_string(d);
    meshes.push_back(d == 0 && preferred ? refined_mesh(preferred, drafts[d])
                                         : anonymous_mesh(drafts[d], name));
  }

  std::vector<TensorSharding> out;
  for (std::size_t i = 0; i < tilings.size(); ++i) {
    const Tiling& t = canonical[i];
    TensorSharding s = to_axes(t, placed[i], meshes, ranks[i]);
    s.shard_group = t.shard_group;
    s.shard_like = t.shard_like;
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace tessera
