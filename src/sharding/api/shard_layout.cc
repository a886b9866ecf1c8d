// SPDX-License-Identifier: Apache-2.0
// Which part of an array each device holds, and which copy of it (cached).
#include "src/sharding/api/shard_layout.h"

#include <map>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "src/base/check.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {
namespace {

Dims ways_of(const Tiling& t, std::size_t rank) {
  if (t.kind != Tiling::Kind::tiled) return Dims(rank, 1);
  return Dims(t.tile.begin(), t.tile.begin() + std::ptrdiff_t(rank));
}

Dims divided(const Sharding& s, const Tiling& t, const Dims& shape, Location location) {
  const Dims ways = ways_of(t, shape.size());
  Dims out = shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] % ways[i] != 0) {
      throw IndivisibleError("sharding " + s.to_string() + " splits dimension " +
                                 std::to_string(i) + " into " + std::to_string(ways[i]) +
                                 " equal parts, but its size is " + std::to_string(shape[i]) +
                                 " (full shape: " + to_string(shape) +
                                 ", parts per dimension: " + to_string(ways) +
                                 "); the size must be a multiple of " + std::to_string(ways[i]),
                             location);
    }
    out[i] = shape[i] / ways[i];
  }
  return out;
}

void check_shape(const Dims& shape, Location location) {
  for (std::int64_t d : shape) {
    if (d < 0) throw ValueError("negative dimension in shape " + to_string(shape), location);
  }
}

[[noreturn]] void says_no_parts(const Sharding& s, Location location) {
  throw NotImplementedError("sharding " + s.to_string() +
                                " does not say which part of an array each device holds; this "
                                "is supported for tiled and replicated ones only",
                            location);
}

/// The partial sum that each position of the tiling's device list holds: its index along the
/// unreduced subgroups.
std::int64_t partial_sum(const Tiling& t, std::size_t rank, std::int64_t p) {
  std::int64_t out = 0, ways = 1;
  for (std::size_t g = t.subgroups.size(); g-- > 0;) {
    const std::int64_t size = t.tile[rank + g];
    if (t.subgroups[g] == Tiling::Subgroup::unreduced) {
      out += p % size * ways;
      ways *= size;
    }
    p /= size;
  }
  return out;
}

ShardLayout compute(const Sharding& s, const Dims& shape, Location location) {
  check_shape(shape, location);
  const Tiling t = s.impl().tiling(std::int64_t(shape.size()), location);
  ShardLayout out;
  bool no_parts = t.kind == Tiling::Kind::manual || t.kind == Tiling::Kind::unknown;
  for (Tiling::Subgroup g : t.subgroups) no_parts |= g == Tiling::Subgroup::manual;
  out.partial_sums = t.has_partial_values();
  if (no_parts) says_no_parts(s, location);
  out.shard_shape = divided(s, t, shape, location);
  const std::vector<Device>& devices = s.impl().devices();
  const Dims ways = ways_of(t, shape.size());
  // Row-major index of each device's tile; without tiles all hold number 0.
  std::vector<std::int64_t> tile_of(devices.size(), 0);
  std::vector<std::int64_t> sum_of(devices.size(), 0);
  std::vector<bool> holds(devices.size(), t.kind != Tiling::Kind::maximal);
  if (t.kind == Tiling::Kind::maximal) holds[std::size_t(t.device)] = true;
  if (t.kind == Tiling::Kind::tiled) {
    const std::vector<std::int64_t> list = t.device_list();
    const std::int64_t copies = std::int64_t(list.size()) / element_count(ways);
    for (std::size_t p = 0; p < list.size(); ++p) {
      tile_of[std::size_t(list[p])] = std::int64_t(p) / copies;
      sum_of[std::size_t(list[p])] = partial_sum(t, shape.size(), std::int64_t(p));
    }
  } else if (out.partial_sums) {
    std::iota(sum_of.begin(), sum_of.end(), 0);
  }
  const Dims strides = row_major_strides(ways);
  std::map<std::pair<Dims, std::int64_t>, std::int64_t> copies_seen;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (!holds[d]) continue;
    Index index(shape.size());
    Dims offset(shape.size(), 0);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (ways[i] == 1) continue;
      offset[i] = tile_of[d] / strides[i] % ways[i] * out.shard_shape[i];
      index[i] = IndexSlice{offset[i], offset[i] + out.shard_shape[i]};
    }
    out.devices.push_back(devices[d]);
    out.indices.push_back(std::move(index));
    // Keyed by the slice, not by the tile: all slices of a dimension of size 0 are the same.
    out.replica_ids.push_back(copies_seen[{offset, sum_of[d]}]++);
    out.offsets.push_back(std::move(offset));
  }
  return out;
}

struct Cache {
  struct Entry {
    Sharding sharding;
    Dims shape;
    std::shared_ptr<const ShardLayout> layout;
  };
  std::mutex mutex;
  std::unordered_multimap<std::size_t, Entry> entries;
};

Cache& cache() {
  static Cache& c = *new Cache;
  return c;
}

constexpr std::size_t kMaxEntries = 4096;

}  // namespace

std::shared_ptr<const ShardLayout> shard_layout(const Sharding& s, const Dims& shape,
                                                Location location) {
  auto layout = layout_of_parts(s, shape, location);
  if (layout->partial_sums) says_no_parts(s, location);
  return layout;
}

std::shared_ptr<const ShardLayout> layout_of_parts(const Sharding& s, const Dims& shape,
                                                   Location location) {
  std::size_t key = s.hash();
  for (std::int64_t d : shape) internal::hash_mix(key, std::hash<std::int64_t>()(d));
  {
    std::lock_guard lock(cache().mutex);
    auto [begin, end] = cache().entries.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      if (it->second.shape == shape && it->second.sharding == s) return it->second.layout;
    }
  }
  auto layout = std::make_shared<const ShardLayout>(compute(s, shape, location));
  std::lock_guard lock(cache().mutex);
  auto [begin, end] = cache().entries.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    // Another thread was faster: share its result.
    if (it->second.shape == shape && it->second.sharding == s) return it->second.layout;
  }
  if (cache().entries.size() >= kMaxEntries) cache().entries.clear();
  cache().entries.emplace(key, Cache::Entry{s, shape, layout});
  return layout;
}

Sharding::Dims Sharding::shard_shape(const Dims& global_shape, Location location) const {
  check_shape(global_shape, location);
  return divided(*this, impl().tiling(std::int64_t(global_shape.size()), location), global_shape,
                 location);
}

}  // namespace tessera
