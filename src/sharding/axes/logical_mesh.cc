// SPDX-License-Identifier: Apache-2.0
// Logical meshes: coordinates of devices, and refinement of axes into factors.
#include "src/sharding/axes/logical_mesh.h"

#include <algorithm>
#include <numeric>

#include "src/base/check.h"
#include "src/sharding/axes/axis_name.h"
#include "src/sharding/axes/limits.h"

namespace tessera {
namespace {

// Far above what is useful: with kMaxDevices devices at most 20 axes can have a size above 1.
constexpr std::size_t kMaxMeshAxes = 256;

}  // namespace

std::string MeshAxis::to_string() const {
  if (is_full()) return name;
  return name + ":(" + std::to_string(pre) + ")" + std::to_string(size);
}

std::int64_t LogicalMesh::num_devices() const {
  std::int64_t n = 1;
  for (const MeshAxis& a : axes) n = checked_multiply(n, a.size);
  return n;
}

Dims LogicalMesh::strides() const {
  Dims sizes;
  sizes.reserve(axes.size());
  for (const MeshAxis& a : axes) sizes.push_back(a.size);
  return row_major_strides(sizes);
}

std::int64_t LogicalMesh::position_of(std::int64_t device) const {
  if (device_ids.empty()) return device;
  const std::int64_t position = device_ids.position_of(device);
  TESSERA_CHECK(position >= 0, "device " + std::to_string(device) + " is not in the mesh");
  return position;
}

std::int64_t LogicalMesh::coordinate(std::int64_t device, int axis) const {
  std::int64_t stride = 1;
  for (std::size_t i = std::size_t(axis) + 1; i < axes.size(); ++i) stride *= axes[i].size;
  return position_of(device) / stride % axes[std::size_t(axis)].size;
}

int LogicalMesh::find(const std::string& axis_name) const {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == axis_name && axes[i].is_full()) return int(i);
  }
  return -1;
}

void check_axis_name(const std::string& name, Location location) {
  for (const char c : name) {
    if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) continue;
    std::string shown;
    for (const char s : name) {
      const bool control = static_cast<unsigned char>(s) < 0x20 || s == 0x7f;
      shown += control ? '?' : s;
    }
    throw ShardingError(
        "the name of a mesh axis must not hold quotes, backslashes or control "
        "characters, which programs' text can't carry: '" +
            shown + "'",
        location);
  }
}

MeshRef make_logical_mesh(std::vector<std::pair<std::string, std::int64_t>> axes,
                          DeviceIds device_ids, std::string name) {
  auto mesh = std::make_shared<LogicalMesh>();
  mesh->name = std::move(name);
  if (axes.size() > kMaxMeshAxes) {
    throw ShardingError("mesh @" + mesh->name + " has " + std::to_string(axes.size()) +
                        " axes; valid are at most " + std::to_string(kMaxMeshAxes));
  }
  std::int64_t positions = 1;
  for (auto& [axis, size] : axes) {
    check_axis_name(axis);
    if (size < 1) {
      throw ShardingError("axis '" + axis + "' of mesh @" + mesh->name + " has size " +
                          std::to_string(size) + "; sizes are at least 1");
    }
    for (const MeshAxis& other : mesh->axes) {
      if (other.name == axis) {
        throw ShardingError("mesh @" + mesh->name + " has two axes named '" + axis + "'");
      }
    }
    if (__builtin_mul_overflow(positions, size, &positions) || positions > kMaxMeshDevices) {
      throw ShardingError("mesh @" + mesh->name + " has too many devices; valid are at most " +
                          std::to_string(kMaxMeshDevices));
    }
    mesh->axes.push_back(MeshAxis{std::move(axis), size, 1, size});
  }
  if (!device_ids.empty()) {
    if (std::int64_t(device_ids.size()) != mesh->num_devices()) {
      throw ShardingError("mesh @" + mesh->name + " has " + std::to_string(mesh->num_devices()) +
                          " positions and " + std::to_string(device_ids.size()) + " device ids");
    }
    std::size_t in_order = 0;
    while (in_order < device_ids.size() && device_ids[in_order] == std::int64_t(in_order)) {
      ++in_order;
    }
    // Canonical, so that equal meshes compare equal.
    if (in_order < device_ids.size()) mesh->device_ids = std::move(device_ids);
  }
  return mesh;
}

MeshRef refine(const MeshRef& mesh, const std::vector<Dims>& pieces) {
  TESSERA_CHECK(mesh != nullptr, "no mesh to refine");
  TESSERA_CHECK(pieces.size() == mesh->axes.size(), "one list of pieces per axis");
  auto out = std::make_shared<LogicalMesh>();
  out->name = mesh->name;
  out->device_ids = mesh->device_ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const MeshAxis& axis = mesh->axes[i];
    if (pieces[i].empty() || axis.size == 1) {
      out->axes.push_back(axis);
      continue;
    }
    std::int64_t pre = axis.pre;
    for (std::int64_t size : pieces[i]) {
      TESSERA_CHECK(size > 1, "an axis was cut into a piece of size " + std::to_string(size));
      out->axes.push_back(MeshAxis{axis.name, size, pre, axis.full});
      pre *= size;
    }
    TESSERA_CHECK(pre == axis.pre * axis.size,
                  "the pieces " + to_string(pieces[i]) + " don't make up axis " + axis.to_string());
  }
  return out;
}

MeshRef refine_to_primes(const MeshRef& mesh) {
  std::vector<Dims> pieces;
  for (const MeshAxis& a : mesh->axes) {
    Dims primes;
    std::int64_t rest = a.size;
    for (std::int64_t p = 2; p * p <= rest; ++p) {
      for (; rest % p == 0; rest /= p) primes.push_back(p);
    }
    if (rest > 1) primes.push_back(rest);
    std::reverse(primes.begin(), primes.end());
    pieces.push_back(std::move(primes));
  }
  return refine(mesh, pieces);
}

namespace {

struct NamedAxis {
  std::string name;
  std::int64_t full;
  Dims cuts;  ///< `pre` of the pieces, ascending
};

std::vector<NamedAxis> named_axes(const LogicalMesh& mesh) {
  std::vector<NamedAxis> out;
  for (const MeshAxis& a : mesh.axes) {
    if (out.empty() || out.back().name != a.name) out.push_back({a.name, a.full, {}});
    out.back().cuts.push_back(a.pre);
  }
  return out;
}

}  // namespace

bool same_mesh(const MeshRef& a, const MeshRef& b) {
  if (a == b) return true;
  if (!a || !b || a->device_ids != b->device_ids) return false;
  // Pieces of a named axis stand side by side.
  const auto next = [](const LogicalMesh& mesh, std::size_t i) {
    const std::string& name = mesh.axes[i].name;
    while (i < mesh.axes.size() && mesh.axes[i].name == name) ++i;
    return i;
  };
  std::size_t i = 0, k = 0;
  while (i < a->axes.size() && k < b->axes.size()) {
    if (a->axes[i].name != b->axes[k].name || a->axes[i].full != b->axes[k].full) return false;
    i = next(*a, i);
    k = next(*b, k);
  }
  return i == a->axes.size() && k == b->axes.size();
}

MeshRef common_refinement(const MeshRef& a, const MeshRef& b) {
  if (a == b) return a;
  if (!same_mesh(a, b)) return nullptr;
  if (a->axes == b->axes) return a;
  const auto x = named_axes(*a), y = named_axes(*b);
  auto out = std::make_shared<LogicalMesh>();
  out->name = a->name;
  out->device_ids = a->device_ids;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Dims cuts = x[i].cuts;
    cuts.insert(cuts.end(), y[i].cuts.begin(), y[i].cuts.end());
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    cuts.push_back(x[i].full);
    for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
      if (cuts[k + 1] % cuts[k] != 0) return nullptr;
      out->axes.push_back(MeshAxis{x[i].name, cuts[k + 1] / cuts[k], cuts[k], x[i].full});
    }
  }
  return out;
}

}  // namespace tessera
