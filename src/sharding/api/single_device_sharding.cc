// SPDX-License-Identifier: Apache-2.0
// SingleDeviceSharding: the entire array on one device.
#include "src/sharding/api/sharding_impl.h"

namespace tessera {
namespace internal {
namespace {

class SingleDeviceImpl final : public ShardingImpl {
 public:
  static constexpr ShardingClass kClass = ShardingClass::single_device;
  using ShardingImpl::ShardingImpl;

  ShardingClass sharding_class() const override { return kClass; }
  Tiling tiling(std::int64_t, Location) const override { return {}; }
  bool is_fully_replicated() const override { return true; }
  std::shared_ptr<const ShardingImpl> with_memory_kind(std::string kind) const override {
    return std::make_shared<SingleDeviceImpl>(devices_, std::move(kind));
  }
  std::string to_string() const override {
    return "SingleDeviceSharding(device=" + devices_[0].to_string() +
           ", memory_kind=" + memory_kind_ + ")";
  }
  bool same(const ShardingImpl&) const override { return true; }
  std::size_t hash() const override { return 0; }
};

}  // namespace
}  // namespace internal

using internal::SingleDeviceImpl;

SingleDeviceSharding::SingleDeviceSharding(const Device& device, const std::string& memory_kind,
                                           Location location) {
  internal::check_memory_kind(memory_kind, {device}, location);
  impl_ = std::make_shared<SingleDeviceImpl>(std::vector<Device>{device}, memory_kind);
}

SingleDeviceSharding::SingleDeviceSharding(const Sharding& s, Location location) : Sharding(s) {
  internal::impl_as<SingleDeviceImpl>(s, "SingleDeviceSharding", location);
}

bool SingleDeviceSharding::is(const Sharding& s) {
  return s.valid() && s.impl().sharding_class() == SingleDeviceImpl::kClass;
}

const Device& SingleDeviceSharding::device() const { return impl().devices()[0]; }

}  // namespace tessera
