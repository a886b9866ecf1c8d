// SPDX-License-Identifier: Apache-2.0
// Sharding: the queries common to all kinds of sharding.
#include <tessera/sharding.h>

#include <algorithm>

#include "src/base/arrays/shape.h"
#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/base/platforms.h"
#include "src/base/processes/processes.h"
#include "src/sharding/api/named_sharding.h"
#include "src/sharding/api/shard_layout.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {

std::string IndexSlice::to_string() const {
  if (!start && !stop) return ":";
  return (start ? std::to_string(*start) : "") + ":" + (stop ? std::to_string(*stop) : "");
}

const internal::ShardingImpl& Sharding::impl() const {
  if (!impl_) throw ValueError("an empty Sharding was used");
  return *impl_;
}

namespace {
/// Throws unless the sharding has devices.
const std::vector<Device>& devices_for(const Sharding& s, const char* what, Location location) {
  if (s.impl().is_abstract()) {
    throw ValueError(std::string(what) + " of " + s.to_string() +
                         " isn't there: its mesh is abstract, which means that there are no "
                         "devices behind it",
                     location);
  }
  return s.impl().devices();
}
}  // namespace

std::set<Device> Sharding::device_set(Location location) const {
  const auto& d = devices_for(*this, "device_set", location);
  return {d.begin(), d.end()};
}

std::vector<Device> Sharding::device_list(Location location) const {
  return devices_for(*this, "device_list", location);
}

std::set<Device> Sharding::addressable_devices(Location location) const {
  std::set<Device> out;
  for (const Device& d : devices_for(*this, "addressable_devices", location)) {
    if (is_local(d)) out.insert(d);
  }
  return out;
}

std::int64_t Sharding::num_devices() const { return impl().device_count(); }
bool Sharding::is_abstract() const { return impl().is_abstract(); }

std::map<Device, Index> Sharding::devices_indices_map(const Dims& global_shape,
                                                      Location location) const {
  (void)devices_for(*this, "devices_indices_map", location);
  const auto layout = shard_layout(*this, global_shape, location);
  std::map<Device, Index> out;
  for (std::size_t i = 0; i < layout->devices.size(); ++i) {
    out.emplace(layout->devices[i], layout->indices[i]);
  }
  return out;
}

std::map<Device, Index> Sharding::addressable_devices_indices_map(const Dims& global_shape,
                                                                  Location location) const {
  std::map<Device, Index> out = devices_indices_map(global_shape, location);
  std::erase_if(out, [](const auto& entry) { return !is_local(entry.first); });
  return out;
}

std::map<Device, std::int64_t> Sharding::replica_ids(const Dims& global_shape,
                                                     Location location) const {
  (void)devices_for(*this, "replica_ids", location);
  const auto layout = shard_layout(*this, global_shape, location);
  std::map<Device, std::int64_t> out;
  for (std::size_t i = 0; i < layout->devices.size(); ++i) {
    out.emplace(layout->devices[i], layout->replica_ids[i]);
  }
  return out;
}

bool Sharding::is_fully_replicated() const { return impl().is_fully_replicated(); }

bool Sharding::is_fully_addressable(Location location) const {
  const auto& d = devices_for(*this, "is_fully_addressable", location);
  return !d.empty() && std::all_of(d.begin(), d.end(), is_local);
}

namespace {

/// What joins the parts of arrays of that sharding, if they have any: sums but where a spec says
/// otherwise.
UnreducedKind kind_of(const Sharding& s) {
  if (!NamedSharding::is(s)) return UnreducedKind::sum;
  const auto& named = static_cast<const internal::NamedShardingImpl&>(s.impl());
  return named.spec().unreduced_kind().value_or(UnreducedKind::sum);
}

}  // namespace

bool Sharding::is_equivalent_to(const Sharding& other, std::int64_t ndim) const {
  if (impl_ == other.impl_) return true;
  const internal::ShardingImpl& a = impl();
  const internal::ShardingImpl& b = other.impl();
  if (!internal::same_devices(a, b) || a.memory_kind() != b.memory_kind()) return false;
  const Tiling tiling = a.tiling(ndim, {});
  // Tilings say that there are parts, not what joins them.
  return tiling == b.tiling(ndim, {}) &&
         (kind_of(*this) == kind_of(other) || !tiling.has_partial_values());
}

std::string Sharding::memory_kind() const { return impl().memory_kind(); }

Sharding Sharding::with_memory_kind(const std::string& kind, Location location) const {
  internal::check_memory_kind(kind, impl().is_abstract() ? std::vector<Device>() : impl().devices(),
                              location);
  return Sharding(impl().with_memory_kind(kind));
}

std::string Sharding::to_hlo_text(std::int64_t ndim, Location location) const {
  return impl().tiling(ndim, location).to_string();
}

std::string Sharding::to_string() const { return impl_ ? impl_->to_string() : "Sharding()"; }

bool operator==(const Sharding& a, const Sharding& b) {
  if (a.impl_ == b.impl_) return true;
  if (!a.impl_ || !b.impl_) return false;
  return a.impl_->sharding_class() == b.impl_->sharding_class() &&
         a.impl_->memory_kind() == b.impl_->memory_kind() &&
         internal::same_devices(*a.impl_, *b.impl_) && a.impl_->same(*b.impl_);
}

std::size_t Sharding::hash() const {
  if (!impl_) return 0;
  std::size_t h = std::size_t(impl_->sharding_class());
  internal::hash_mix(h, std::hash<std::string>()(impl_->memory_kind()));
  internal::hash_mix(h, std::size_t(impl_->device_count()));
  if (!impl_->is_abstract()) {
    for (const Device& d : impl_->devices()) {
      internal::hash_mix(h, std::hash<std::int64_t>()(d.id));
    }
  }
  internal::hash_mix(h, impl_->hash());
  return h;
}

namespace internal {

bool same_devices(const ShardingImpl& a, const ShardingImpl& b) {
  if (a.is_abstract() || b.is_abstract()) {
    return a.is_abstract() == b.is_abstract() && a.device_count() == b.device_count();
  }
  return &a.devices() == &b.devices() || a.devices() == b.devices();
}

void check_memory_kind(const std::string& kind, const std::vector<Device>& devices,
                       Location location) {
  if (kind == "device") return;
  // Which devices an abstract mesh will stand for is not known: that they have the kind is checked
  // then.
  const std::vector<MemoryKind>& kinds =
      memory_kinds_of(devices.empty() ? virtual_platform() : devices[0].platform);
  const auto requested = memory_kind_named(kind);
  if (requested && contains(kinds, *requested)) return;
  const std::string who = devices.empty() ? "a device" : "device " + devices[0].to_string();
  throw ValueError("memory kind '" + kind + "' can't be used: " + who +
                       " can address the kinds: " + list_of(kinds),
                   location);
}

void check_devices(const std::vector<Device>& devices, const std::string& who, Location location) {
  if (devices.empty()) throw ValueError(who + " needs at least one device", location);
  std::set<Device> seen;
  for (const Device& d : devices) {
    if (!seen.insert(d).second) {
      throw ValueError(who + ": device " + d.to_string() + " stands twice", location);
    }
  }
}

void wrong_class(const Sharding& s, const char* expected, Location location) {
  throw TypeError("expected a " + std::string(expected) + " and got " + s.to_string(), location);
}

}  // namespace internal
}  // namespace tessera
