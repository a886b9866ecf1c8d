// SPDX-License-Identifier: Apache-2.0
// Random meshes and shardings as sdy writes them.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/random_program.h"

namespace tessera::testing {

/// An axis, or a part of one, in sdy's terms: x:(pre)size.
struct SdyAxis {
  int axis = 0;
  std::int64_t pre = 1, size = 1;
  friend bool operator==(const SdyAxis&, const SdyAxis&) = default;
};
using SdyAxes = std::vector<SdyAxis>;

struct SdySharding {
  std::vector<SdyAxes> dims;
  std::vector<bool> open;
  std::vector<int> priority;  ///< -1: none
  SdyAxes replicated, unreduced;
  bool other_order = false;  ///< on the mesh with another order of devices
};

class SdyMesh {
 public:
  explicit SdyMesh(Dice& dice) : dice_(dice) {
    static const std::vector<std::vector<std::int64_t>> kSizes = {
        {2}, {4}, {8}, {2, 2}, {2, 4}, {4, 2}, {2, 2, 2}, {1, 4}, {3, 2}, {2, 1, 3}, {5}};
    sizes_ = dice.pick(kSizes);
    devices_ = 1;
    for (const std::int64_t s : sizes_) devices_ *= s;
    order_ = dice.chance(0.2) ? shuffled() : std::vector<std::int64_t>();
    other_ = dice.chance(0.3) ? shuffled() : std::vector<std::int64_t>();
    in_place_ = dice.chance(0.1);
  }

  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::int64_t devices() const { return devices_; }
  bool has_order() const { return !order_.empty() || !other_.empty(); }
  std::string axis_name(int axis) const { return std::string(1, char('a' + axis)); }

  /// The declarations, in one form or another.
  std::string declarations() {
    std::string out = declaration("mesh", order_);
    if (!other_.empty()) out += declaration("other", other_);
    return out;
  }

  /// Parts of all axes, cut at random.
  SdyAxes atoms() {
    SdyAxes out;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      std::int64_t pre = 1;
      while (pre < sizes_[i]) {
        std::int64_t size = sizes_[i] / pre;
        if (size % 2 == 0 && size > 2 && dice_.chance(0.4))
          size = size > 4 ? 1 << dice_.between(1, 2) : 2;
        out.push_back({int(i), pre, size});
        pre *= size;
      }
    }
    return out;
  }

  /// Each atom on a dim, among the replicated or unreduced axes, or nowhere. `without`: axes that
  /// may not occur.
  SdySharding sharding(const Dims& dims, bool may_be_unreduced,
                       const std::vector<int>& without = {}) {
    SdySharding s;
    s.dims.resize(dims.size());
    s.open.assign(dims.size(), false);
    s.priority.assign(dims.size(), -1);
    s.other_order = !other_.empty() && without.empty() && dice_.chance(0.2);
    SdyAxes all = atoms();
    for (std::size_t i = all.size(); i > 1; --i) {
      std::swap(all[i - 1], all[std::size_t(dice_.below(std::int64_t(i)))]);
    }
    Dims shards(dims.size(), 1);
    for (const SdyAxis& a : all) {
      if (std::count(without.begin(), without.end(), a.axis) > 0) continue;
      if (!dims.empty() && dice_.chance(0.65)) {
        const auto d = std::size_t(dice_.below(std::int64_t(dims.size())));
        // Mostly even: shards of one size.
        const std::int64_t parts = shards[d] * a.size;
        if (dims[d] % parts == 0 || dice_.chance(0.1)) {
          s.dims[d].push_back(a);
          shards[d] = parts;
        }
      } else if (dice_.chance(0.2)) {
        s.replicated.push_back(a);
      } else if (may_be_unreduced && !s.other_order && dice_.chance(0.15)) {
        s.unreduced.push_back(a);
      }
    }
    for (std::size_t d = 0; d < dims.size(); ++d) {
      s.open[d] = dice_.chance(0.25);
      if (dice_.chance(0.15) && (s.open[d] || !s.dims[d].empty()))
        s.priority[d] = int(dice_.below(4));
    }
    return s;
  }

  std::string axes(SdyAxes list) const {
    std::string out;
    for (std::size_t i = 0; i < list.size(); ++i) {
      // Neighbours that make up one part are written as it.
      while (i + 1 < list.size() && list[i + 1].axis == list[i].axis &&
             list[i].pre * list[i].size == list[i + 1].pre) {
        list[i + 1].pre = list[i].pre;
        list[i + 1].size *= list[i].size;
        ++i;
      }
      const SdyAxis& a = list[i];
      out += (out.empty() ? "\"" : ", \"") + axis_name(a.axis) + "\"";
      if (a.size != sizes_[std::size_t(a.axis)]) {
        out += ":(" + std::to_string(a.pre) + ")" + std::to_string(a.size);
      }
    }
    return out;
  }

  /// `<@mesh, [{"a"}, {?}]>`
  std::string text(const SdySharding& s) const {
    std::string out = "<" + reference(s.other_order) + ", [";
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      std::string inside = axes(s.dims[d]);
      if (s.open[d]) inside += inside.empty() ? "?" : ", ?";
      out += (d > 0 ? ", {" : "{") + inside + "}";
      if (s.priority[d] >= 0) out += "p" + std::to_string(s.priority[d]);
    }
    out += "]";
    if (!s.replicated.empty()) out += ", replicated={" + axes(ordered(s.replicated)) + "}";
    if (!s.unreduced.empty()) out += ", unreduced={" + axes(ordered(s.unreduced)) + "}";
    return out + ">";
  }

  static SdyAxes ordered(SdyAxes list) {
    std::sort(list.begin(), list.end(), [](const SdyAxis& x, const SdyAxis& y) {
      return std::tie(x.axis, x.pre) < std::tie(y.axis, y.pre);
    });
    return list;
  }

 private:
  std::vector<std::int64_t> shuffled() {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < devices_; ++i) ids.push_back(i);
    for (std::size_t i = ids.size(); i > 1; --i) {
      std::swap(ids[i - 1], ids[std::size_t(dice_.below(std::int64_t(i)))]);
    }
    return ids;
  }

  std::string body(const std::vector<std::int64_t>& ids) const {
    std::string out = "<[";
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      out += (i > 0 ? ", \"" : "\"") + axis_name(int(i)) + "\"=" + std::to_string(sizes_[i]);
    }
    out += "]";
    for (std::size_t i = 0; i < ids.size(); ++i) {
      out += (i > 0 ? ", " : ", device_ids=[") + std::to_string(ids[i]);
    }
    return out + (ids.empty() ? ">" : "]>");
  }

  std::string declaration(const std::string& name, const std::vector<std::int64_t>& ids) {
    const std::string mesh = body(ids);
    switch (dice_.below(4)) {
      case 0:
        return "sdy.mesh @" + name + " = #sdy.mesh" + mesh + "\n";
      case 1:
        return "#" + name + "_ = #sdy.mesh" + mesh + "\nsdy.mesh @" + name + " = #" + name + "_\n";
      case 2:
        return "\"sdy.mesh\"() <{mesh = #sdy.mesh" + mesh + ", sym_name = \"" + name +
               "\"}> : () -> ()\n";
      default:
        return "sdy.mesh @" + name + " = " + mesh + "\n";
    }
  }

  std::string reference(bool other_order) const {
    if (in_place_) return "mesh" + body(other_order ? other_ : order_);
    return other_order ? "@other" : "@mesh";
  }

  Dice& dice_;
  std::vector<std::int64_t> sizes_, order_, other_;
  std::int64_t devices_ = 1;
  bool in_place_ = false;
};

}  // namespace tessera::testing
