// SPDX-License-Identifier: Apache-2.0
// The implementation of the public class Sharding: one subclass per public class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <tessera/sharding.h>

#include "src/base/arrays/memory_kind.h"
#include "src/sharding/api/hash_mix.h"
#include "src/sharding/api/mesh_impl.h"
#include "src/sharding/axes/tiling.h"

namespace tessera::internal {

enum class ShardingClass : std::uint8_t { named, single_device, positional, pmap, gspmd };

class ShardingImpl {
 public:
  ShardingImpl(std::vector<Device> devices, std::string memory_kind)
      : devices_(std::move(devices)), memory_kind_(std::move(memory_kind)) {}
  virtual ~ShardingImpl() = default;

  virtual ShardingClass sharding_class() const = 0;
  /// Over positions in devices(), in canonical form. ShardingError if the sharding can't be used
  /// for that rank.
  virtual Tiling tiling(std::int64_t ndim, Location location) const = 0;
  virtual bool is_fully_replicated() const = 0;
  virtual std::shared_ptr<const ShardingImpl> with_memory_kind(std::string kind) const = 0;
  virtual std::string to_string() const = 0;
  /// Compares with a sharding of the same class; the caller compares memory kind and devices.
  virtual bool same(const ShardingImpl& other) const = 0;
  /// Hash of what `same` compares.
  virtual std::size_t hash() const = 0;

  /// On an abstract mesh: placeholders (see mesh_impl.h).
  virtual const std::vector<Device>& devices() const { return devices_; }
  virtual std::int64_t device_count() const { return std::int64_t(devices_.size()); }
  /// True if the devices are placeholders.
  virtual bool is_abstract() const {
    return !devices_.empty() && is_placeholder_device(devices_[0]);
  }
  const std::string& memory_kind() const { return memory_kind_; }

 protected:
  std::vector<Device> devices_;
  std::string memory_kind_;
};

/// Whether both lists are equal, or both are placeholders and equally long.
bool same_devices(const ShardingImpl& a, const ShardingImpl& b);
/// ValueError naming the device and its kinds of memory, unless `kind` is one of them.
void check_memory_kind(const std::string& kind, const std::vector<Device>& devices,
                       Location location);
/// The kind of memory that arrays of this sharding are in.
inline MemoryKind memory_of(const Sharding& s) {
  return memory_kind_named(s.impl().memory_kind()).value_or(MemoryKind::device);
}
/// The same in memory of that kind.
inline Sharding in_memory(const Sharding& s, MemoryKind kind) {
  return memory_of(s) == kind ? s : s.with_memory_kind(name(kind));
}
/// ValueError if a device occurs twice or there is none. `who` begins the message.
void check_devices(const std::vector<Device>& devices, const std::string& who, Location location);
/// The impl as class T; TypeError naming both classes otherwise.
template <class T>
const T& impl_as(const Sharding& s, const char* expected, Location location = {});
[[noreturn]] void wrong_class(const Sharding& s, const char* expected, Location location);

template <class T>
const T& impl_as(const Sharding& s, const char* expected, Location location) {
  if (!s.valid() || s.impl().sharding_class() != T::kClass) wrong_class(s, expected, location);
  return static_cast<const T&>(s.impl());
}

}  // namespace tessera::internal
