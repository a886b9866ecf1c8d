// SPDX-License-Identifier: Apache-2.0
// Shardings on meshes with other device orders, and the permutes between them.
#include "src/spmd/reshard/device_orders.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/spmd/reshard/planner.h"

namespace tessera::spmd {
namespace {

// Shards that are compared while an equivalent sharding is looked for.
constexpr std::int64_t kSearchWork = 1 << 20;

/// The shard that each device has, row-major.
std::vector<std::int64_t> shards_of(const TensorSharding& s, std::int64_t devices) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(devices), 0);
  if (!s.mesh) return out;
  TESSERA_CHECK(s.mesh->device_ids.empty() || s.mesh->num_devices() == devices,
                "a device order of another number of devices");
  const Dims strides = s.mesh->strides();
  // By position: finding a device's position is a search.
  for (std::int64_t position = 0; position < devices; ++position) {
    std::int64_t index = 0;
    for (const DimSharding& dim : s.dims) {
      for (const int a : dim.axes) {
        const std::int64_t size = s.mesh->axes[std::size_t(a)].size;
        index = index * size + position / strides[std::size_t(a)] % size;
      }
    }
    out[std::size_t(s.mesh->device_at(position))] = index;
  }
  return out;
}

/// Tries ways to give each dim its number of parts.
class StandIn {
 public:
  StandIn(const TensorSharding& s, const MeshRef& mesh)
      : mesh_(mesh), devices_(mesh->num_devices()), counts_(s.shards()) {
    wanted_ = shards_of(s, devices_);
    trial_ = TensorSharding::replicated_on(mesh, s.rank());
    used_.assign(mesh->axes.size(), 0);
    budget_ = std::max<std::int64_t>(64, kSearchWork / devices_);
  }

  TensorSharding run() {
    fill(0, counts_.empty() ? 1 : counts_[0]);
    TESSERA_CHECK(best_ >= 0, "a number of parts that the mesh can't make");
    return found_;
  }

 private:
  void fill(std::size_t dim, std::int64_t left) {
    if (best_ == kSame || (best_ >= 0 && budget_ <= 0)) return;
    if (dim == counts_.size()) {
      --budget_;
      const std::int64_t score = shards_of(trial_, devices_) == wanted_ ? kSame
                                 : keeps_named_axes()                   ? 1
                                                                        : 0;
      if (score > best_) {
        best_ = score;
        found_ = trial_;
      }
      return;
    }
    if (left == 1) {
      const std::size_t next = dim + 1;
      return fill(next, next < counts_.size() ? counts_[next] : 1);
    }
    for (std::size_t a = 0; a < used_.size(); ++a) {
      const std::int64_t size = mesh_->axes[a].size;
      if (used_[a] || size == 1 || left % size != 0) continue;
      used_[a] = 1;
      trial_.dims[dim].axes.push_back(int(a));
      fill(dim, left / size);
      trial_.dims[dim].axes.pop_back();
      used_[a] = 0;
    }
  }

  static constexpr std::int64_t kSame = 2;

  /// Named axes are not cut, their pieces side by side: as other shardings of a program do.
  bool keeps_named_axes() const {
    for (const DimSharding& d : trial_.dims) {
      std::int64_t end = 1;
      const MeshAxis* last = nullptr;
      for (int a : d.axes) {
        const MeshAxis& axis = mesh_->axes[std::size_t(a)];
        const bool starts = last == nullptr || end == last->full;
        if (starts ? axis.pre != 1 : axis.name != last->name || axis.pre != end) return false;
        last = &axis;
        end = axis.pre * axis.size;
      }
      if (last && end != last->full) return false;
    }
    return true;
  }

  MeshRef mesh_;
  const std::int64_t devices_;
  const Dims counts_;
  std::vector<std::int64_t> wanted_;
  TensorSharding trial_, found_;
  std::vector<char> used_;
  std::int64_t best_ = -1, budget_ = 0;
};

/// Whether each axis of `coarse` is one of `fine`, or is made of several: their common refinement
/// is `fine` itself.
bool is_refinement(const MeshRef& fine, const MeshRef& coarse) {
  if (fine == coarse) return true;
  if (!same_mesh(fine, coarse)) return false;
  // Both have all pieces of each axis: it is cut here wherever it is cut there.
  return std::all_of(coarse->axes.begin(), coarse->axes.end(), [&](const MeshAxis& a) {
    return std::any_of(fine->axes.begin(), fine->axes.end(),
                       [&](const MeshAxis& b) { return b.pre == a.pre && b.name == a.name; });
  });
}

}  // namespace

bool representable_on(const TensorSharding& s, const MeshRef& mesh) {
  return !s.mesh || is_refinement(mesh, s.mesh);
}

TensorSharding equivalent_on(const TensorSharding& s, const MeshRef& mesh) {
  if (s.mesh->num_devices() != mesh->num_devices()) {
    throw ShardingError("the sharding " + s.to_string() + " is on " +
                        std::to_string(s.mesh->num_devices()) +
                        " devices in a program whose mesh " + mesh->name + " has " +
                        std::to_string(mesh->num_devices()));
  }
  if (!s.unreduced.empty() || !s.manual.empty()) {
    throw NotImplementedError("the sharding " + s.to_string() +
                              " of partial or per-device values is on other axes than those of "
                              "the program's mesh " +
                              mesh->name);
  }
  TensorSharding out = StandIn(s, mesh).run();
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    out.dims[d].open = s.dims[d].open;
    out.dims[d].priority = s.dims[d].priority;
  }
  out.shard_group = s.shard_group;
  out.shard_like = s.shard_like;
  return out;
}

const TensorSharding& StandIns::of(const TensorSharding& sharding) {
  for (const auto& [known, stand_in] : known_) {
    if (known == sharding) return stand_in;
  }
  return known_.emplace_back(sharding, equivalent_on(sharding, mesh_)).second;
}

std::vector<std::pair<std::int64_t, std::int64_t>> reorder_pairs(const TensorSharding& from,
                                                                 const TensorSharding& to) {
  const std::int64_t devices = from.mesh->num_devices();
  TESSERA_CHECK(from.shards() == to.shards() && to.mesh->num_devices() == devices,
                "no permute leads from " + from.to_string() + " to " + to.to_string());
  return pairs_between(shards_of(from, devices), shards_of(to, devices));
}

}  // namespace tessera::spmd
