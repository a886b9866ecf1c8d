// SPDX-License-Identifier: Apache-2.0
// PositionalSharding: an array of devices that is reshaped and transposed.
#include <algorithm>
#include <numeric>

#include "src/base/arrays/shape.h"
#include "src/base/check.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {
namespace internal {
namespace {

/// An array of device sets: `ids` has positions in devices(), row-major, with dims shape × copies.
class PositionalImpl final : public ShardingImpl {
 public:
  static constexpr ShardingClass kClass = ShardingClass::positional;
  PositionalImpl(std::vector<Device> devices, Dims shape, std::vector<std::int64_t> ids,
                 std::string memory_kind)
      : ShardingImpl(std::move(devices), std::move(memory_kind)),
        shape_(std::move(shape)),
        ids_(std::move(ids)) {}

  ShardingClass sharding_class() const override { return kClass; }

  Tiling tiling(std::int64_t ndim, Location location) const override {
    if (is_fully_replicated()) return {};
    if (std::int64_t(shape_.size()) != ndim) {
      throw ShardingError("sharding " + to_string() + " is only valid for values of rank " +
                              std::to_string(shape_.size()) +
                              ", but was applied to a value of rank " + std::to_string(ndim),
                          location);
    }
    Tiling t;
    t.kind = Tiling::Kind::tiled;
    t.tile = shape_;
    t.tile.push_back(copies());
    t.subgroups = {Tiling::Subgroup::replicated};
    t.devices = ids_;
    return t.canonical();
  }

  bool is_fully_replicated() const override { return element_count(shape_) == 1; }
  std::shared_ptr<const ShardingImpl> with_memory_kind(std::string kind) const override {
    return std::make_shared<PositionalImpl>(devices_, shape_, ids_, std::move(kind));
  }

  std::string to_string() const override {
    std::string out = "PositionalSharding(";
    std::size_t next = 0;
    print(0, next, out);
    return out + ", memory_kind=" + memory_kind_ + ", shape=" + tessera::to_string(shape_) + ")";
  }
  bool same(const ShardingImpl& other) const override {
    const auto& o = static_cast<const PositionalImpl&>(other);
    return shape_ == o.shape_ && ids_ == o.ids_;
  }
  std::size_t hash() const override {
    std::size_t h = shape_.size();
    for (std::int64_t s : shape_) hash_mix(h, std::size_t(s));
    for (std::int64_t i : ids_) hash_mix(h, std::size_t(i));
    return h;
  }

  const Dims& shape() const { return shape_; }
  const std::vector<std::int64_t>& ids() const { return ids_; }
  std::int64_t copies() const { return std::int64_t(ids_.size()) / element_count(shape_); }

 private:
  void print(std::size_t dim, std::size_t& next, std::string& out) const {
    if (dim == shape_.size()) {
      out += "{";
      for (std::int64_t k = 0; k < copies(); ++k) {
        out += (k ? ", " : "") + devices_[std::size_t(ids_[next++])].to_string();
      }
      out += "}";
      return;
    }
    out += "[";
    for (std::int64_t i = 0; i < shape_[dim]; ++i) {
      if (i) out += " ";
      print(dim + 1, next, out);
    }
    out += "]";
  }

  Dims shape_;
  std::vector<std::int64_t> ids_;
};

const PositionalImpl& positional(const Sharding& s) {
  return impl_as<PositionalImpl>(s, "PositionalSharding");
}

/// The ids with the array's dims (copies last) in another order.
std::vector<std::int64_t> transposed(const PositionalImpl& p, const Dims& order) {
  Dims dims = p.shape();
  dims.push_back(p.copies());
  const Dims strides = row_major_strides(dims);
  std::vector<std::int64_t> sources{0};
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t block = sources.size();
    for (std::int64_t v = 1; v < dims[std::size_t(order[k])]; ++v) {
      for (std::size_t i = 0; i < block; ++i) {
        sources.push_back(sources[i] + v * strides[std::size_t(order[k])]);
      }
    }
  }
  for (std::int64_t& s : sources) s = p.ids()[std::size_t(s)];
  return sources;
}

}  // namespace
}  // namespace internal

using internal::positional;
using internal::PositionalImpl;

PositionalSharding::PositionalSharding(std::vector<Device> devices, Location location)
    : PositionalSharding(OneDim{}, std::move(devices), "device", location) {}

PositionalSharding::PositionalSharding(OneDim, std::vector<Device> devices,
                                       const std::string& memory_kind, Location location)
    : PositionalSharding(devices, Dims{std::int64_t(devices.size())}, memory_kind, location) {}

PositionalSharding::PositionalSharding(std::vector<Device> devices,
                                       const std::vector<std::int64_t>& shape,
                                       const std::string& memory_kind, Location location) {
  internal::check_devices(devices, "PositionalSharding", location);
  internal::check_memory_kind(memory_kind, devices, location);
  std::int64_t places = 1;
  bool valid = true;
  for (const std::int64_t d : shape) {
    valid = valid && d >= 1 && !__builtin_mul_overflow(places, d, &places);
  }
  if (!valid || places != std::int64_t(devices.size())) {
    throw ValueError("PositionalSharding: " + std::to_string(devices.size()) +
                         " devices don't fill an arrangement of shape " +
                         tessera::to_string(shape) +
                         (valid ? ", which has " + std::to_string(places) + " places"
                                : "; its sizes must be at least 1"),
                     location);
  }
  std::vector<std::int64_t> ids(devices.size());
  std::iota(ids.begin(), ids.end(), std::int64_t(0));
  impl_ = std::make_shared<PositionalImpl>(std::move(devices), shape, std::move(ids), memory_kind);
}

PositionalSharding::PositionalSharding(const Mesh& mesh, Location location)
    : PositionalSharding(mesh.devices(location), mesh.axis_sizes(), "device", location) {}

PositionalSharding::PositionalSharding(const Sharding& s, Location location) : Sharding(s) {
  internal::impl_as<PositionalImpl>(s, "PositionalSharding", location);
}

bool PositionalSharding::is(const Sharding& s) {
  return s.valid() && s.impl().sharding_class() == PositionalImpl::kClass;
}

const std::vector<std::int64_t>& PositionalSharding::shape() const {
  return positional(*this).shape();
}

PositionalSharding PositionalSharding::reshape(const std::vector<std::int64_t>& shape,
                                               Location location) const {
  const PositionalImpl& p = positional(*this);
  const std::int64_t count = element_count(p.shape());
  Dims target = shape;
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  bool valid = true;
  for (std::int64_t& d : target) {
    if (d == -1 && open == nullptr) {
      open = &d;
    } else if (d < 1 || d > count) {
      valid = false;
    } else if (__builtin_mul_overflow(known, d, &known)) {
      valid = false;
    }
  }
  if (valid && open != nullptr && count % known == 0) *open = count / known;
  if (valid && open != nullptr && *open == -1) valid = false;
  if (!valid || element_count(target) != count) {
    throw ShardingError("PositionalSharding: can't reshape an arrangement of shape " +
                            tessera::to_string(p.shape()) + " to " + tessera::to_string(shape) +
                            ": the number of places must stay " + std::to_string(count),
                        location);
  }
  return PositionalSharding(
      Sharding(std::make_shared<PositionalImpl>(p.devices(), target, p.ids(), p.memory_kind())));
}

PositionalSharding PositionalSharding::transpose(const std::vector<std::int64_t>& perm,
                                                 Location location) const {
  const PositionalImpl& p = positional(*this);
  const std::int64_t rank = std::int64_t(p.shape().size());
  Dims order = perm;
  if (perm.empty()) {
    for (std::int64_t i = rank; i-- > 0;) order.push_back(i);
  }
  Dims sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool valid = std::int64_t(order.size()) == rank;
  for (std::size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == std::int64_t(i);
  if (!valid) {
    throw ShardingError("PositionalSharding: " + tessera::to_string(perm) +
                            " is no permutation of the " + std::to_string(rank) +
                            " dimensions of an arrangement of shape " +
                            tessera::to_string(p.shape()),
                        location);
  }
  Dims shape;
  for (std::int64_t i : order) shape.push_back(p.shape()[std::size_t(i)]);
  order.push_back(rank);
  return PositionalSharding(Sharding(std::make_shared<PositionalImpl>(
      p.devices(), shape, internal::transposed(p, order), p.memory_kind())));
}

PositionalSharding PositionalSharding::replicate(std::optional<std::int64_t> axis, bool keepdims,
                                                 Location location) const {
  const PositionalImpl& p = positional(*this);
  const std::int64_t rank = std::int64_t(p.shape().size());
  std::int64_t dim = axis.value_or(0);
  if (dim < 0) dim += rank;
  if (axis && (dim < 0 || dim >= rank)) {
    throw ShardingError("PositionalSharding: there is no dimension " + std::to_string(*axis) +
                            " in an arrangement of shape " + tessera::to_string(p.shape()),
                        location);
  }
  // The merged dims become the major part of the copies.
  Dims order, shape, merged;
  for (std::int64_t i = 0; i < rank; ++i) {
    const bool merge = !axis || i == dim;
    (merge ? merged : order).push_back(i);
    if (!merge) shape.push_back(p.shape()[std::size_t(i)]);
    if (merge && keepdims) shape.push_back(1);
  }
  order.insert(order.end(), merged.begin(), merged.end());
  order.push_back(rank);
  return PositionalSharding(Sharding(std::make_shared<PositionalImpl>(
      p.devices(), shape, internal::transposed(p, order), p.memory_kind())));
}

}  // namespace tessera
