// SPDX-License-Identifier: Apache-2.0
// PmapSharding: one dim split over the devices, as in jax.pmap.
#include "src/base/check.h"
#include "src/base/shape.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {
namespace internal {
namespace {

class PmapImpl final : public ShardingImpl {
 public:
  static constexpr ShardingClass kClass = ShardingClass::pmap;
  PmapImpl(std::vector<Device> devices, std::int64_t rank, std::optional<std::int64_t> dim,
           std::string memory_kind)
      : ShardingImpl(std::move(devices), std::move(memory_kind)), rank_(rank), dim_(dim) {}

  ShardingClass sharding_class() const override { return kClass; }

  Tiling tiling(std::int64_t ndim, Location location) const override {
    if (is_fully_replicated()) return {};
    if (ndim != rank_) {
      throw ShardingError("sharding " + to_string() + " is only valid for values of rank " +
                              std::to_string(rank_) + ", but was applied to a value of rank " +
                              std::to_string(ndim),
                          location);
    }
    Tiling t;
    t.kind = Tiling::Kind::tiled;
    t.tile.assign(std::size_t(rank_), 1);
    t.tile[std::size_t(*dim_)] = std::int64_t(devices_.size());
    t.reshape = {std::int64_t(devices_.size())};
    return t.canonical();
  }

  bool is_fully_replicated() const override { return !dim_ || devices_.size() == 1; }
  std::shared_ptr<const ShardingImpl> with_memory_kind(std::string kind) const override {
    return std::make_shared<PmapImpl>(devices_, rank_, dim_, std::move(kind));
  }
  std::string to_string() const override {
    std::string list;
    for (std::size_t i = 0; i < devices_.size() && i < 16; ++i) {
      list += (i ? ", " : "") + devices_[i].to_string();
    }
    if (devices_.size() > 16) list += ", ...";
    return "PmapSharding(sharding_spec=" + spec() + ", devices=[" + list +
           "], memory_kind=" + memory_kind_ + ")";
  }
  bool same(const ShardingImpl& other) const override {
    const auto& o = static_cast<const PmapImpl&>(other);
    return rank_ == o.rank_ && dim_ == o.dim_;
  }
  std::size_t hash() const override { return std::size_t(rank_ * 64 + dim_.value_or(-1)); }

  std::string spec() const {
    const std::string n = std::to_string(devices_.size());
    std::string out = "ShardingSpec((";
    for (std::int64_t i = 0; i < rank_; ++i) {
      if (i) out += ", ";
      out += dim_ && *dim_ == i ? "Chunked(" + n + ")" : "NoSharding()";
    }
    if (rank_ == 1) out += ",";
    return out + "), (" + (dim_ ? "ShardedAxis(0)" : "Replicated(" + n + ")") + ",))";
  }

 private:
  std::int64_t rank_;
  std::optional<std::int64_t> dim_;
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
  return PmapSharding(Sharding(
      std::make_shared<PmapImpl>(std::move(devices), rank, sharded_dim, std::string("device"))));
}

PmapSharding::PmapSharding(const Sharding& s, Location location) : Sharding(s) {
  internal::impl_as<PmapImpl>(s, "PmapSharding", location);
}

bool PmapSharding::is(const Sharding& s) {
  return s.valid() && s.impl().sharding_class() == PmapImpl::kClass;
}

const std::vector<Device>& PmapSharding::devices() const { return impl().devices(); }

std::string PmapSharding::sharding_spec() const {
  return internal::impl_as<PmapImpl>(*this, "PmapSharding").spec();
}

}  // namespace tessera
