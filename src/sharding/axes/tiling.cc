// SPDX-License-Identifier: Apache-2.0
// Tilings, HLO's device-list shardings: validation, canonical form, printing.
#include "src/sharding/axes/tiling.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/sharding/axes/device_order.h"
#include "src/sharding/axes/limits.h"

namespace tessera {

bool Tiling::has_partial_values() const {
  return kind == Kind::unreduced ||
         (kind == Kind::tiled && contains(subgroups, Subgroup::unreduced));
}

std::int64_t Tiling::num_devices() const {
  if (kind == Kind::maximal) return 1;
  if (kind != Kind::tiled) return 0;
  return element_count(tile);
}

std::vector<std::int64_t> Tiling::device_list() const {
  if (reshape.empty()) return devices;
  const std::vector<Digit> digits = digits_of_iota(reshape, perm);
  std::vector<std::int64_t> out{0};
  out.reserve(std::size_t(element_count(reshape)));
  // Each digit, from the minor one on, repeats the list made so far.
  for (std::size_t i = digits.size(); i-- > 0;) {
    const std::size_t block = out.size();
    for (std::int64_t v = 1; v < digits[i].size; ++v) {
      for (std::size_t k = 0; k < block; ++k) out.push_back(out[k] + v * digits[i].stride);
    }
  }
  return out;
}

namespace {

constexpr std::array kSubgroupOrder = {Tiling::Subgroup::manual, Tiling::Subgroup::unreduced,
                                       Tiling::Subgroup::replicated};

Tiling plain(Tiling::Kind kind, const Tiling& from) {
  Tiling t;
  t.kind = kind;
  t.shard_group = from.shard_group;
  t.shard_like = from.shard_like;
  return t;
}

Tiling::Kind plain_kind(Tiling::Subgroup s) {
  switch (s) {
    case Tiling::Subgroup::manual:
      return Tiling::Kind::manual;
    case Tiling::Subgroup::unreduced:
      return Tiling::Kind::unreduced;
    case Tiling::Subgroup::replicated:
      break;
  }
  return Tiling::Kind::replicated;
}

/// The digits with those of the copies of a tile, the last ones, in ascending order. Empty if the
/// copies don't begin at a digit.
std::optional<std::vector<Digit>> with_sorted_copies(const std::vector<Digit>& digits,
                                                     std::int64_t copies) {
  if (copies == 1) return digits;
  std::int64_t n = 1;
  for (const Digit& d : digits) n *= d.size;
  const std::int64_t tile[] = {n / copies, copies};
  auto parts = split_digits(digits, tile);
  if (!parts) return std::nullopt;
  std::sort((*parts)[1].begin(), (*parts)[1].end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  std::vector<Digit> out = (*parts)[0];
  out.insert(out.end(), (*parts)[1].begin(), (*parts)[1].end());
  return joined_digits(out);
}

/// The device list of a tiling with its tile dims permuted.
std::vector<std::int64_t> transposed(const std::vector<std::int64_t>& list, const Dims& tile,
                                     const std::vector<std::size_t>& order) {
  const Dims strides = row_major_strides(tile);
  std::vector<std::int64_t> sources{0};
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t block = sources.size();
    for (std::int64_t v = 1; v < tile[order[k]]; ++v) {
      for (std::size_t i = 0; i < block; ++i) {
        sources.push_back(sources[i] + v * strides[order[k]]);
      }
    }
  }
  std::vector<std::int64_t> out;
  out.reserve(list.size());
  for (std::int64_t s : sources) out.push_back(list[std::size_t(s)]);
  return out;
}

}  // namespace

Tiling Tiling::canonical() const {
  if (kind != Kind::tiled) return *this;
  const std::size_t data_dims = std::size_t(rank());
  Tiling out = plain(Kind::tiled, *this);
  out.tile.assign(tile.begin(), tile.begin() + std::ptrdiff_t(data_dims));
  std::vector<std::size_t> order(data_dims);
  std::iota(order.begin(), order.end(), std::size_t(0));
  for (Subgroup kind_of_group : kSubgroupOrder) {
    std::int64_t size = 1;
    for (std::size_t i = 0; i < subgroups.size(); ++i) {
      if (subgroups[i] != kind_of_group) continue;
      order.push_back(data_dims + i);
      size *= tile[data_dims + i];
    }
    if (size == 1) continue;
    out.tile.push_back(size);
    out.subgroups.push_back(kind_of_group);
  }
  const bool splits = std::any_of(tile.begin(), tile.begin() + std::ptrdiff_t(data_dims),
                                  [](std::int64_t t) { return t != 1; });
  if (!splits && out.subgroups.size() <= 1) {
    return plain(out.subgroups.empty() ? Kind::replicated : plain_kind(out.subgroups[0]), *this);
  }
  const std::int64_t copies =
      !out.subgroups.empty() && out.subgroups.back() == Subgroup::replicated ? out.tile.back() : 1;
  std::optional<std::vector<Digit>> digits;
  const bool in_order = std::is_sorted(order.begin(), order.end());
  if (in_order && !reshape.empty()) {
    digits = with_sorted_copies(digits_of_iota(reshape, perm), copies);
  }
  if (!digits) {
    std::vector<std::int64_t> list = device_list();
    if (!in_order) list = transposed(list, tile, order);
    for (auto block = list.begin(); copies > 1 && block != list.end(); block += copies) {
      std::sort(block, block + copies);
    }
    digits = digits_of_list(list);
    if (!digits) out.devices = std::move(list);
  }
  if (digits) iota_of_digits(*digits, &out.reshape, &out.perm);
  return out;
}

std::string Tiling::to_string() const {
  const Tiling t = canonical();
  std::string out = "{";
  switch (t.kind) {
    case Kind::replicated:
      out += "replicated";
      break;
    case Kind::maximal:
      out += "maximal device=" + std::to_string(t.device);
      break;
    case Kind::manual:
      out += "manual";
      break;
    case Kind::unknown:
      out += "unknown";
      break;
    case Kind::unreduced:
      out += "unreduced";
      break;
    case Kind::tiled:
      out += "devices=" + tessera::to_string(t.tile);
      if (!t.reshape.empty()) {
        out += "<=" + tessera::to_string(t.reshape);
        if (!t.perm.empty()) {
          const Dims order(t.perm.begin(), t.perm.end());
          out += "T(" + join(order) + ")";
        }
      } else {
        out += join(t.devices);
      }
      if (t.subgroups.size() == 1 && t.subgroups[0] == Subgroup::replicated) {
        out += " last_tile_dim_replicate";
      } else if (!t.subgroups.empty()) {
        out += " last_tile_dims={";
        for (std::size_t i = 0; i < t.subgroups.size(); ++i) {
          if (i) out += ", ";
          out += t.subgroups[i] == Subgroup::manual      ? "manual"
                 : t.subgroups[i] == Subgroup::unreduced ? "unreduced"
                                                         : "replicated";
        }
        out += "}";
      }
      break;
  }
  if (t.shard_group >= 0) {
    out += (t.shard_like ? " shard_like " : " shard_as ") + std::to_string(t.shard_group);
  }
  return out + "}";
}

namespace {

/// Whether the fields describe one device for each tile at all; only then is there a text.
bool is_well_formed(const Tiling& t) {
  if (t.kind != Tiling::Kind::tiled) return true;
  const auto count = [](const Dims& sizes) {
    std::int64_t n = 1;
    for (const std::int64_t size : sizes) {
      if (size < 1 || size > kMaxMeshDevices / n) return std::int64_t{0};
      n *= size;
    }
    return n;
  };
  const std::int64_t n = count(t.tile);
  if (n == 0 || t.subgroups.size() > t.tile.size()) return false;
  if (t.reshape.empty()) return std::int64_t(t.devices.size()) == n;
  if (count(t.reshape) != n) return false;
  std::vector<bool> seen(t.reshape.size(), false);
  for (const int d : t.perm) {
    if (d < 0 || std::size_t(d) >= seen.size() || seen[std::size_t(d)]) return false;
    seen[std::size_t(d)] = true;
  }
  return t.perm.empty() || t.perm.size() == t.reshape.size();
}

}  // namespace

void check_tiling(const Tiling& t, std::int64_t num_devices) {
  if (!is_well_formed(t)) {
    throw ShardingError("a sharding has tiles " + tessera::to_string(t.tile) + ", " +
                        std::to_string(t.subgroups.size()) + " of them subgroups, and " +
                        (t.reshape.empty()
                             ? "lists " + std::to_string(t.devices.size()) + " devices"
                             : "devices <=" + tessera::to_string(t.reshape) + "T(" +
                                   join(Dims(t.perm.begin(), t.perm.end())) + ")") +
                        "; valid: one device for each tile, at most " +
                        std::to_string(kMaxMeshDevices) + ", their order a permutation");
  }
  auto refuse = [&](const std::string& why) {
    throw ShardingError("sharding " + t.to_string() + " " + why);
  };
  if (t.kind == Tiling::Kind::maximal && (t.device < 0 || t.device >= num_devices)) {
    refuse("names a device that is not among the " + std::to_string(num_devices) + " there are");
  }
  if (t.kind != Tiling::Kind::tiled) return;
  if (t.num_devices() != num_devices) {
    refuse("is for " + std::to_string(t.num_devices()) + " devices and there are " +
           std::to_string(num_devices));
  }
  if (!t.reshape.empty()) return;
  std::vector<bool> seen(std::size_t(num_devices), false);
  for (std::int64_t d : t.devices) {
    if (d < 0 || d >= num_devices) {
      refuse("names device " + std::to_string(d) + " of " + std::to_string(num_devices));
    }
    if (seen[std::size_t(d)]) refuse("names device " + std::to_string(d) + " twice");
    seen[std::size_t(d)] = true;
  }
}

}  // namespace tessera
