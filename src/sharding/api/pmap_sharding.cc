// SPDX-License-Identifier: Apache-2.0
// PmapSharding: dims divided over the dims of an array of devices, as in jax.pmap.
#include <map>

#include "src/base/arrays/shape.h"
#include "src/base/check.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {
namespace internal {
namespace {

class PmapImpl final : public ShardingImpl {
 public:
  static constexpr ShardingClass kClass = ShardingClass::pmap;
  PmapImpl(std::vector<Device> devices, ShardingSpec spec, std::string memory_kind)
      : ShardingImpl(std::move(devices), std::move(memory_kind)),
        spec_(std::move(spec)),
        ways_(ways_of(spec_)) {}

  ShardingClass sharding_class() const override { return kClass; }

  Tiling tiling(std::int64_t ndim, Location location) const override {
    if (is_fully_replicated()) return {};
    if (ndim != std::int64_t(ways_.size())) {
      throw ShardingError("sharding " + to_string() + " is only valid for values of rank " +
                              std::to_string(ways_.size()) +
                              ", but was applied to a value of rank " + std::to_string(ndim),
                          location);
    }
    // The dims of the devices in the order in which the tiles use them: the divisions, the copies.
    Tiling t;
    t.kind = Tiling::Kind::tiled;
    t.reshape = spec_.devices_shape();
    std::map<std::int64_t, int> of_division;
    IndexList copies;
    std::int64_t copy_count = 1;
    for (std::size_t i = 0; i < spec_.mesh_mapping.size(); ++i) {
      if (const auto* axis = std::get_if<ShardedAxis>(&spec_.mesh_mapping[i])) {
        of_division[axis->axis] = int(i);
      } else {
        copies.push_back(int(i));
        copy_count *= t.reshape[i];
      }
    }
    for (const auto& [axis, dim] : of_division) t.perm.push_back(dim);
    for (const int dim : copies) t.perm.push_back(dim);
    t.tile = ways_;
    t.tile.push_back(copy_count);
    t.subgroups = {Tiling::Subgroup::replicated};
    return t.canonical();
  }

  bool is_fully_replicated() const override { return element_count(ways_) == 1; }
  std::shared_ptr<const ShardingImpl> with_memory_kind(std::string kind) const override {
    return std::make_shared<PmapImpl>(devices_, spec_, std::move(kind));
  }
  std::string to_string() const override {
    std::string list;
    for (std::size_t i = 0; i < devices_.size() && i < 16; ++i) {
      list += (i ? ", " : "") + devices_[i].to_string();
    }
    if (devices_.size() > 16) list += ", ...";
    return "PmapSharding(sharding_spec=" + spec_.to_string() + ", devices=[" + list +
           "], memory_kind=" + memory_kind_ + ")";
  }
  bool same(const ShardingImpl& other) const override {
    return spec_ == static_cast<const PmapImpl&>(other).spec_;
  }
  std::size_t hash() const override { return spec_.hash(); }

  const ShardingSpec& spec() const { return spec_; }

 private:
  /// Number of parts of each dim.
  static Dims ways_of(const ShardingSpec& spec) {
    Dims ways;
    for (const AvalDimSharding& dim : spec.sharding) {
      std::int64_t n = 1;
      if (const auto* chunked = std::get_if<Chunked>(&dim)) n = element_count(chunked->chunks);
      if (const auto* unstacked = std::get_if<Unstacked>(&dim)) n = unstacked->size;
      ways.push_back(n);
    }
    return ways;
  }

  ShardingSpec spec_;
  Dims ways_;
};

}  // namespace
}  // namespace internal

using internal::PmapImpl;

PmapSharding PmapSharding::make_default(const std::vector<std::int64_t>& shape,
                                        std::optional<std::int64_t> sharded_dim,
                                        std::vector<Device> devices, Location location) {
  const std::int64_t rank = std::int64_t(shape.size());
  const std::string shape_text = tessera::to_string(shape);
  std::int64_t count = devices.empty() ? 1 : std::int64_t(devices.size());
  if (sharded_dim) {
    if (*sharded_dim < 0 || *sharded_dim >= rank) {
      throw ValueError("PmapSharding: there is no dimension " + std::to_string(*sharded_dim) +
                           " in shape " + shape_text,
                       location);
    }
    count = shape[std::size_t(*sharded_dim)];
  }
  if (devices.empty()) {
    const std::vector<Device>& all = tessera::devices();
    if (!sharded_dim) count = std::int64_t(all.size());
    if (count > std::int64_t(all.size())) {
      throw ValueError("PmapSharding: dimension " + std::to_string(*sharded_dim) + " of shape " +
                           shape_text + " needs " + std::to_string(count) +
                           " devices and there are " + std::to_string(all.size()),
                       location);
    }
    devices.assign(all.begin(), all.begin() + std::ptrdiff_t(count));
  }
  internal::check_devices(devices, "PmapSharding", location);
  if (std::int64_t(devices.size()) != count) {
    throw ValueError("PmapSharding: dimension " + std::to_string(*sharded_dim) + " of shape " +
                         shape_text + " has size " + std::to_string(count) +
                         ", which must be the number of devices, " + std::to_string(devices.size()),
                     location);
  }
  ShardingSpec spec;
  spec.sharding.assign(std::size_t(rank), NoSharding{});
  if (sharded_dim) {
    spec.sharding[std::size_t(*sharded_dim)] = Chunked{{count}};
    spec.mesh_mapping = {ShardedAxis{0}};
  } else {
    spec.mesh_mapping = {Replicated{count}};
  }
  return PmapSharding(std::move(devices), spec, location);
}

PmapSharding::PmapSharding(std::vector<Device> devices, const ShardingSpec& spec,
                           Location location) {
  const Dims shape = spec.devices_shape(location);
  internal::check_devices(devices, "PmapSharding", location);
  if (element_count(shape) != std::int64_t(devices.size())) {
    throw ValueError("PmapSharding: " + spec.to_string() + " needs devices of shape " +
                         tessera::to_string(shape) + ", " + std::to_string(element_count(shape)) +
                         " of them, and " + std::to_string(devices.size()) + " are given",
                     location);
  }
  impl_ = std::make_shared<PmapImpl>(std::move(devices), spec, std::string("device"));
}

PmapSharding::PmapSharding(const Sharding& s, Location location) : Sharding(s) {
  internal::impl_as<PmapImpl>(s, "PmapSharding", location);
}

bool PmapSharding::is(const Sharding& s) {
  return s.valid() && s.impl().sharding_class() == PmapImpl::kClass;
}

const std::vector<Device>& PmapSharding::devices() const { return impl().devices(); }

const ShardingSpec& PmapSharding::sharding_spec() const {
  return internal::impl_as<PmapImpl>(*this, "PmapSharding").spec();
}

}  // namespace tessera
