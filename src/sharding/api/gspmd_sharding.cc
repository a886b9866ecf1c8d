// SPDX-License-Identifier: Apache-2.0
// GSPMDSharding: a sharding given as HLO text.
#include "src/base/check.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {
namespace internal {
namespace {

class GSPMDImpl final : public ShardingImpl {
 public:
  static constexpr ShardingClass kClass = ShardingClass::gspmd;
  GSPMDImpl(std::vector<Device> devices, Tiling tiling, std::string memory_kind)
      : ShardingImpl(std::move(devices), std::move(memory_kind)),
        tiling_(std::move(tiling)),
        canonical_(tiling_.canonical()),
        text_(canonical_.to_string()) {
    if (canonical_.kind == Tiling::Kind::maximal && devices_.size() == 1) canonical_ = {};
  }

  ShardingClass sharding_class() const override { return kClass; }

  Tiling tiling(std::int64_t ndim, Location location) const override {
    if (canonical_.kind != Tiling::Kind::tiled) return canonical_;
    const std::int64_t rank = canonical_.rank();
    if (rank == ndim) return canonical_;
    Dims data(canonical_.tile.begin(), canonical_.tile.begin() + std::ptrdiff_t(rank));
    while (std::int64_t(data.size()) < ndim) data.push_back(1);
    // Trailing unsplit dims may be omitted in both.
    while (std::int64_t(data.size()) > ndim && data.back() == 1) data.pop_back();
    if (std::int64_t(data.size()) > ndim) {
      throw ShardingError("sharding " + to_string() +
                              " is only valid for values of rank at least " +
                              std::to_string(data.size()) +
                              ", but was applied to a value of rank " + std::to_string(ndim),
                          location);
    }
    Tiling out = canonical_;
    data.insert(data.end(), canonical_.tile.begin() + std::ptrdiff_t(rank), canonical_.tile.end());
    out.tile = std::move(data);
    return out.canonical();
  }

  bool is_fully_replicated() const override {
    return devices_.size() == 1 || canonical_.kind == Tiling::Kind::replicated;
  }
  std::shared_ptr<const ShardingImpl> with_memory_kind(std::string kind) const override {
    return std::make_shared<GSPMDImpl>(devices_, tiling_, std::move(kind));
  }
  std::string to_string() const override {
    return "GSPMDSharding(" + text_ + ", memory_kind=" + memory_kind_ + ")";
  }
  bool same(const ShardingImpl& other) const override {
    return canonical_ == static_cast<const GSPMDImpl&>(other).canonical_;
  }
  std::size_t hash() const override { return std::hash<std::string>()(canonical_.to_string()); }

  const std::string& text() const { return text_; }

 private:
  Tiling tiling_;
  Tiling canonical_;
  std::string text_;
};

}  // namespace
}  // namespace internal

using internal::GSPMDImpl;

GSPMDSharding::GSPMDSharding(std::vector<Device> devices, const std::string& hlo_sharding,
                             const std::string& memory_kind, Location location) {
  internal::check_devices(devices, "GSPMDSharding", location);
  internal::check_memory_kind(memory_kind, devices, location);
  bool is_tuple = false;
  std::vector<Tiling> tilings;
  try {
    tilings = parse_tilings(hlo_sharding, &is_tuple);
    if (is_tuple)
      throw ValueError("GSPMDSharding: " + hlo_sharding + " is for a tuple, not for one array");
    check_tiling(tilings[0], std::int64_t(devices.size()));
  } catch (const ParseError& e) {
    throw ParseError("GSPMDSharding: " + e.message(), location);
  } catch (const ShardingError& e) {
    throw ShardingError("GSPMDSharding: " + e.message(), location);
  } catch (const ValueError& e) {
    throw ValueError(e.message(), location);
  }
  if (tilings[0].kind == Tiling::Kind::maximal && devices.size() > 1) {
    // The entire array is on one device; the others hold nothing.
    devices = {devices[std::size_t(tilings[0].device)]};
    tilings[0].device = 0;
  }
  impl_ = std::make_shared<GSPMDImpl>(std::move(devices), std::move(tilings[0]), memory_kind);
}

GSPMDSharding::GSPMDSharding(const Sharding& s, Location location) : Sharding(s) {
  internal::impl_as<GSPMDImpl>(s, "GSPMDSharding", location);
}

GSPMDSharding GSPMDSharding::get_replicated(std::vector<Device> devices, Location location) {
  return GSPMDSharding(std::move(devices), "{replicated}", "device", location);
}

bool GSPMDSharding::is(const Sharding& s) {
  return s.valid() && s.impl().sharding_class() == GSPMDImpl::kClass;
}

const std::string& GSPMDSharding::hlo_sharding() const {
  return internal::impl_as<GSPMDImpl>(*this, "GSPMDSharding").text();
}

}  // namespace tessera
