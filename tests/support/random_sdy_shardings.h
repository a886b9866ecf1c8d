// SPDX-License-Identifier: Apache-2.0
// Random meshes and shardings as sdy writes them.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
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
  int mesh = 0;              ///< -1: one without axes
  bool in_place = false;     ///< the mesh stands in the sharding
  std::int64_t device = -1;  ///< of a mesh that is one device
  std::vector<SdyAxes> dims;
  std::vector<bool> open;
  std::vector<int> priority;  ///< -1: none
  SdyAxes replicated, unreduced;
  int kind = 0;  ///< what joins unreduced parts: sum, max, min

  void close() {
    std::fill(open.begin(), open.end(), false);
    std::fill(priority.begin(), priority.end(), -1);
  }
};

/// Where code stands: in manual computations there are only the free axes of their mesh.
struct SdyScope {
  int mesh = -1;  ///< -1: in none
  std::vector<int> bound;
  std::vector<int> alike;  ///< of these: along them all devices have the same
  int number = 0;
  bool is_free(int axis) const { return std::count(bound.begin(), bound.end(), axis) == 0; }
};

inline std::int64_t product_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  return n;
}

/// The meshes of a program: one, often others with another order, other axes or other devices,
/// single devices, and none.
class SdyMeshes {
 public:
  struct Mesh {
    std::string name;
    std::vector<std::int64_t> sizes, ids;
    char first_axis = 'a';
    std::int64_t devices() const { return product_of(sizes); }
  };

  explicit SdyMeshes(Dice& dice) : dice_(dice) {
    static const std::vector<std::vector<std::int64_t>> kSizes = {
        {2},    {4},    {8},       {2, 2}, {2, 4}, {4, 2}, {2, 2, 2},
        {1, 4}, {3, 2}, {2, 1, 3}, {5},    {1},    {4, 4}};
    meshes_.push_back({"mesh", dice.pick(kSizes), {}, 'a'});
    const std::int64_t main = meshes_[0].devices();
    if (dice.chance(0.2)) meshes_[0].ids = shuffled(main);
    if (main > 2 && dice.chance(0.3)) {
      Mesh other{"other", meshes_[0].sizes, {}, 'a'};
      do {
        other.ids = shuffled(main);
      } while (other.ids == in_order(meshes_[0]));
      meshes_.push_back(std::move(other));
    }
    for (const bool recut : {true, false}) {
      if (!dice.chance(0.2)) continue;
      Mesh next{recut ? "recut" : "part", dice.pick(kSizes), {}, dice.chance(0.5) ? 'a' : 'p'};
      // The same mesh by two names is one that collectives can't go between.
      if ((next.devices() == main) != recut || next.sizes == meshes_[0].sizes) continue;
      if (dice.chance(0.3)) next.ids = shuffled(next.devices());
      meshes_.push_back(std::move(next));
    }
    for (const Mesh& m : meshes_) devices_ = std::max(devices_, m.devices());
    const std::int64_t largest = devices_;
    // Devices that no mesh has.
    if (dice.chance(0.05)) devices_ *= 2;
    if (dice.chance(0.2)) singles_.push_back(dice.below(devices_));
    if (dice.chance(0.1)) singles_.push_back(dice.below(devices_));
    if (singles_.size() == 2 && singles_[0] == singles_[1]) singles_.pop_back();
    none_ = dice.chance(0.15);
    in_place_ = dice.chance(0.1);
    const bool differ = std::any_of(meshes_.begin(), meshes_.end(),
                                    [&](const Mesh& m) { return m.devices() != devices_; });
    partly_ = int(dice.below(count()));
    if (dice.chance(0.6) || mesh(partly_).devices() != largest) partly_ = 0;
    // Without a count the text is for the devices that it happens to name.
    says_count_ = differ || dice.chance(0.5);
  }

  int count() const { return int(meshes_.size()); }
  const Mesh& mesh(int m) const { return meshes_[std::size_t(m)]; }
  const std::vector<std::int64_t>& sizes(int m) const { return mesh(m).sizes; }
  bool divides(int m) const { return devices_ % mesh(m).devices() == 0; }
  /// The only one of whose axes some may be manual and others not.
  int partly_manual() const { return partly_; }
  std::string axis_name(int m, int axis) const {
    return std::string(1, char(mesh(m).first_axis + axis));
  }
  /// A mesh with the same axes in another order of devices; itself if there is none.
  int with_other_order(int m) const {
    return count() > 1 && m < 2 && mesh(1).name == "other" ? 1 - m : m;
  }

  /// Lists of the devices that differ along these axes alone.
  std::vector<std::vector<std::int64_t>> groups(int m, const std::vector<int>& axes) const {
    const std::vector<std::int64_t> ids = in_order(mesh(m));
    std::vector<std::vector<std::int64_t>> out;
    std::vector<std::int64_t> leaders;  // positions at 0 along the axes
    for (std::int64_t position = 0; position < std::int64_t(ids.size()); ++position) {
      std::int64_t leader = position, stride = 1;
      for (int a = int(sizes(m).size()) - 1; a >= 0; --a) {
        const std::int64_t size = sizes(m)[std::size_t(a)];
        if (std::count(axes.begin(), axes.end(), a) > 0) {
          leader -= position / stride % size * stride;
        }
        stride *= size;
      }
      const auto at = std::find(leaders.begin(), leaders.end(), leader) - leaders.begin();
      if (std::size_t(at) == leaders.size()) {
        leaders.push_back(leader);
        out.emplace_back();
      }
      out[std::size_t(at)].push_back(ids[std::size_t(position)]);
    }
    return out;
  }

  /// The declarations, in one form or another. Aliases go in front of the module.
  std::string declarations(std::string* aliases) {
    std::string out;
    for (const Mesh& m : meshes_) out += declaration(m.name, body(m), aliases);
    for (const std::int64_t id : singles_) {
      out += declaration("on_" + std::to_string(id), one_device(id), aliases);
    }
    if (none_) out += declaration("none", "<[]>", aliases);
    return out;
  }
  /// ` attributes {mhlo.num_partitions = 8 : i32}`
  std::string count_attribute() const {
    if (!says_count_) return "";
    return " attributes {mhlo.num_partitions = " + std::to_string(devices_) + " : i32}";
  }

  /// Parts of all axes that are free, cut at random.
  SdyAxes atoms(int m, const SdyScope& scope = {}) {
    SdyAxes out;
    for (std::size_t i = 0; i < sizes(m).size(); ++i) {
      std::int64_t pre = 1;
      while (pre < sizes(m)[i]) {
        std::int64_t size = sizes(m)[i] / pre;
        if (size % 2 == 0 && size > 2 && dice_.chance(0.4))
          size = size > 4 ? 1 << dice_.between(1, 2) : 2;
        if (scope.is_free(int(i))) out.push_back({int(i), pre, size});
        pre *= size;
      }
    }
    return out;
  }

  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[std::size_t(dice_.below(std::int64_t(i)))]);
    }
  }

  static SdySharding none_of(std::size_t rank) {
    SdySharding s;
    s.dims.resize(rank);
    s.open.assign(rank, false);
    s.priority.assign(rank, -1);
    return s;
  }

  /// Any that is legal for an array there.
  SdySharding any(const Dims& dims, const SdyScope& scope) {
    SdySharding s = none_of(dims.size());
    s.in_place = in_place_ || dice_.chance(0.05);
    if (scope.mesh < 0 && !singles_.empty() && dice_.chance(0.12)) {
      s.device = dice_.pick(singles_);
      return s;
    }
    if (scope.mesh < 0 && none_ && dice_.chance(0.12)) {
      s.mesh = -1;
      leave_open(&s);
      return s;
    }
    return on_axes(dims, scope);
  }

  /// One that says where on a mesh an array is.
  SdySharding on_axes(const Dims& dims, const SdyScope& scope) {
    SdySharding s = none_of(dims.size());
    s.in_place = in_place_ || dice_.chance(0.05);
    s.mesh = scope.mesh >= 0 ? scope.mesh : dice_.chance(0.7) ? 0 : int(dice_.below(count()));
    SdyAxes all = atoms(s.mesh, scope);
    shuffle(all);
    place(all, dims, 0.65, &s);
    leave_open(&s);
    return s;
  }

  /// Each atom on a dim, among the replicated or unreduced axes, or nowhere.
  void place(const SdyAxes& atoms, const Dims& dims, double on_dim, SdySharding* s) {
    for (const SdyAxis& a : atoms) {
      if (!dims.empty() && dice_.chance(on_dim)) {
        const auto d = std::size_t(dice_.below(std::int64_t(dims.size())));
        // Mostly even: shards of one size.
        const std::int64_t parts = shards(s->dims[d]) * a.size;
        if (dims[d] % parts == 0 || dice_.chance(0.1)) s->dims[d].push_back(a);
      } else if (dice_.chance(0.2)) {
        s->replicated.push_back(a);
      } else if (dice_.chance(0.15)) {
        s->unreduced.push_back(a);
      }
    }
    if (dice_.chance(0.4)) s->kind = int(dice_.between(1, 2));
  }

  void leave_open(SdySharding* s) {
    for (std::size_t d = 0; d < s->dims.size(); ++d) {
      s->open[d] = dice_.chance(0.25);
      if (dice_.chance(0.15) && (s->open[d] || !s->dims[d].empty())) {
        s->priority[d] = int(dice_.below(4));
      }
    }
  }

  static std::int64_t shards(const SdyAxes& axes) {
    std::int64_t n = 1;
    for (const SdyAxis& a : axes) n *= a.size;
    return n;
  }

  std::string axes(int m, SdyAxes list) const {
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
      out += (out.empty() ? "\"" : ", \"") + axis_name(m, a.axis) + "\"";
      if (a.size != sizes(m)[std::size_t(a.axis)]) {
        out += ":(" + std::to_string(a.pre) + ")" + std::to_string(a.size);
      }
    }
    return out;
  }

  /// `<@mesh, [{"a"}, {?}]>`
  std::string text(const SdySharding& s) const {
    if (s.device >= 0) {
      return s.in_place ? "<mesh" + one_device(s.device) + ", []>"
                        : "<@on_" + std::to_string(s.device) + ", []>";
    }
    std::string out = "<" + reference(s) + ", [";
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      std::string inside = s.dims[d].empty() ? "" : axes(s.mesh, s.dims[d]);
      if (s.open[d]) inside += inside.empty() ? "?" : ", ?";
      out += (d > 0 ? ", {" : "{") + inside + "}";
      if (s.priority[d] >= 0) out += "p" + std::to_string(s.priority[d]);
    }
    out += "]";
    if (!s.replicated.empty()) out += ", replicated={" + axes(s.mesh, ordered(s.replicated)) + "}";
    if (!s.unreduced.empty()) {
      static const char* const kKinds[] = {"", "max", "min"};
      out += std::string(", unreduced=") + kKinds[s.kind] + "{" +
             axes(s.mesh, ordered(s.unreduced)) + "}";
    }
    return out + ">";
  }

  static SdyAxes ordered(SdyAxes list) {
    std::sort(list.begin(), list.end(), [](const SdyAxis& x, const SdyAxis& y) {
      return std::tie(x.axis, x.pre) < std::tie(y.axis, y.pre);
    });
    return list;
  }

 private:
  static std::vector<std::int64_t> in_order(const Mesh& m) {
    std::vector<std::int64_t> ids = m.ids;
    for (std::int64_t i = 0; m.ids.empty() && i < m.devices(); ++i) ids.push_back(i);
    return ids;
  }
  std::vector<std::int64_t> shuffled(std::int64_t devices) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < devices; ++i) ids.push_back(i);
    shuffle(ids);
    return ids;
  }

  static std::string one_device(std::int64_t id) {
    return "<[], device_ids=[" + std::to_string(id) + "]>";
  }
  static std::string body(const Mesh& m) {
    std::string out = "<[";
    for (std::size_t i = 0; i < m.sizes.size(); ++i) {
      out += (i > 0 ? ", \"" : "\"") + std::string(1, char(m.first_axis + int(i))) +
             "\"=" + std::to_string(m.sizes[i]);
    }
    out += "]";
    for (std::size_t i = 0; i < m.ids.size(); ++i) {
      out += (i > 0 ? ", " : ", device_ids=[") + std::to_string(m.ids[i]);
    }
    return out + (m.ids.empty() ? ">" : "]>");
  }

  std::string declaration(const std::string& name, const std::string& mesh, std::string* aliases) {
    switch (dice_.below(5)) {
      case 0:
        return "sdy.mesh @" + name + " = #sdy.mesh" + mesh + "\n";
      case 1:
        *aliases += "#" + name + "_ = #sdy.mesh" + mesh + "\n";
        return "sdy.mesh @" + name + " = #" + name + "_\n";
      case 2:
        return "\"sdy.mesh\"() <{mesh = #sdy.mesh" + mesh + ", sym_name = \"" + name +
               "\"}> : () -> ()\n";
      case 3:
        return "sdy.mesh @" + name + " = #sdy<mesh" + mesh + ">\n";
      default:
        return "sdy.mesh @" + name + " = " + mesh + "\n";
    }
  }

  std::string reference(const SdySharding& s) const {
    const std::string in_place = s.mesh < 0 ? "<[]>" : body(mesh(s.mesh));
    if (s.in_place) return "mesh" + in_place;
    return s.mesh < 0 ? "@none" : "@" + mesh(s.mesh).name;
  }

  Dice& dice_;
  std::vector<Mesh> meshes_;
  std::vector<std::int64_t> singles_;
  std::int64_t devices_ = 1;
  int partly_ = 0;
  bool in_place_ = false, none_ = false, says_count_ = false;
};

}  // namespace tessera::testing
