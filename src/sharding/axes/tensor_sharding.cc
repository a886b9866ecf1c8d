// SPDX-License-Identifier: Apache-2.0
// TensorSharding: axes per dim on a logical mesh; printing, comparison, shard shapes.
#include "src/sharding/axes/tensor_sharding.h"

#include <algorithm>
#include <numeric>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/sharding/axes/ways.h"

namespace tessera {
namespace {

/// The axes without those of size 1, and with adjacent pieces of a named axis merged: the same for
/// all shardings with the same placement, however the mesh is refined.
std::vector<MeshAxis> joined(const LogicalMesh& mesh, const IndexList& axes) {
  std::vector<MeshAxis> out;
  for (int i : axes) {
    const MeshAxis& a = mesh.axes[std::size_t(i)];
    if (a.size == 1) continue;
    if (!out.empty() && out.back().name == a.name && out.back().pre * out.back().size == a.pre) {
      out.back().size *= a.size;
    } else {
      out.push_back(a);
    }
  }
  return out;
}

/// As `joined`, for a set of axes.
std::vector<MeshAxis> joined_set(const LogicalMesh& mesh, IndexList axes) {
  std::sort(axes.begin(), axes.end());
  return joined(mesh, axes);
}

/// Axes as printed: pieces merged as sdy's canonical form requires, axes of size 1 kept.
std::vector<std::string> axis_texts(const LogicalMesh& mesh, const IndexList& axes, bool quoted) {
  std::vector<MeshAxis> list;
  for (int i : axes) {
    const MeshAxis& a = mesh.axes[std::size_t(i)];
    if (!list.empty() && list.back().name == a.name &&
        list.back().pre * list.back().size == a.pre) {
      list.back().size *= a.size;
    } else {
      list.push_back(a);
    }
  }
  std::vector<std::string> out;
  for (const MeshAxis& a : list) {
    std::string text = quoted ? "\"" + a.name + "\"" : a.name;
    if (!a.is_full()) text += ":(" + std::to_string(a.pre) + ")" + std::to_string(a.size);
    out.push_back(std::move(text));
  }
  return out;
}

std::string comma(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& p : parts) out += (out.empty() ? "" : ", ") + p;
  return out;
}

}  // namespace

const char* to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::max:
      return "max";
    case Reduction::min:
      return "min";
    case Reduction::other:
      break;
  }
  return "other";
}

TensorSharding TensorSharding::replicated_on(MeshRef mesh, std::int64_t rank) {
  TensorSharding s;
  s.mesh = std::move(mesh);
  s.dims.resize(std::size_t(rank));
  return s;
}

TensorSharding TensorSharding::open_on(MeshRef mesh, std::int64_t rank) {
  TensorSharding s = replicated_on(std::move(mesh), rank);
  for (DimSharding& d : s.dims) d.open = true;
  return s;
}

TensorSharding TensorSharding::manual_on(MeshRef mesh, std::int64_t rank) {
  TensorSharding s = replicated_on(std::move(mesh), rank);
  s.manual.resize(s.mesh->axes.size());
  std::iota(s.manual.begin(), s.manual.end(), 0);
  return s;
}

TensorSharding TensorSharding::maximal_on(std::int64_t device) {
  TensorSharding s;
  s.kind = Kind::maximal;
  s.device = device;
  return s;
}

std::int64_t TensorSharding::shards(std::int64_t dim) const {
  const IndexList& axes = dims[std::size_t(dim)].axes;
  return axes.empty() ? 1 : ways_of(*mesh, axes);
}

Dims TensorSharding::shards() const {
  Dims out(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) out[i] = shards(std::int64_t(i));
  return out;
}

bool TensorSharding::splits_evenly(std::span<const std::int64_t> array_dims) const {
  if (kind != Kind::axes || !mesh) return true;
  if (dims.size() != array_dims.size()) return false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (array_dims[d] % shards(std::int64_t(d)) != 0) return false;
  }
  return true;
}

bool TensorSharding::is_replicated() const {
  if (kind != Kind::axes || !manual.empty()) return false;
  for (int a : unreduced) {
    if (mesh->axes[std::size_t(a)].size > 1) return false;
  }
  for (std::int64_t i = 0; i < rank(); ++i) {
    if (shards(i) > 1) return false;
  }
  return true;
}

bool TensorSharding::fully_open() const {
  if (kind != Kind::axes || !replicated.empty() || !unreduced.empty() || !manual.empty()) {
    return false;
  }
  return std::all_of(dims.begin(), dims.end(),
                     [](const DimSharding& d) { return d.open && d.axes.empty(); });
}

bool TensorSharding::uses_axis(int axis) const {
  for (const DimSharding& d : dims) {
    if (contains(d.axes, axis)) return true;
  }
  return false;
}

Dims TensorSharding::shard_dims(const Dims& global) const {
  TESSERA_CHECK(kind != Kind::axes || global.size() == dims.size(),
                "shape " + tessera::to_string(global) + " with " + to_string());
  Dims out = global;
  if (kind == Kind::axes) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = ceil_div(out[i], shards(std::int64_t(i)));
  }
  return out;
}

Dims TensorSharding::shard_coordinates(std::int64_t device_id) const {
  Dims out(dims.size(), 0);
  if (kind != Kind::axes || !mesh) return out;
  const std::int64_t position = mesh->position_of(device_id);
  const Dims strides = mesh->strides();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    for (int a : dims[i].axes) {
      const std::int64_t size = mesh->axes[std::size_t(a)].size;
      out[i] = out[i] * size + position / strides[std::size_t(a)] % size;
    }
  }
  return out;
}

TensorSharding TensorSharding::closed() const {
  TensorSharding s = *this;
  for (DimSharding& d : s.dims) {
    d.open = false;
    d.priority = 0;
  }
  return s;
}

bool TensorSharding::same_placement(const TensorSharding& other) const {
  if (kind != other.kind) return false;
  if (kind == Kind::maximal) return device == other.device;
  if (kind == Kind::unknown) return true;
  if (dims.size() != other.dims.size()) return false;
  if (is_replicated() && other.is_replicated()) return true;
  if (!mesh || !other.mesh || !same_mesh(mesh, other.mesh)) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (joined(*mesh, dims[i].axes) != joined(*other.mesh, other.dims[i].axes)) return false;
  }
  const std::vector<MeshAxis> parts = joined_set(*mesh, unreduced);
  return parts == joined_set(*other.mesh, other.unreduced) &&
         (parts.empty() || reduction == other.reduction) &&
         joined_set(*mesh, manual) == joined_set(*other.mesh, other.manual);
}

TensorSharding TensorSharding::on(const MeshRef& refined) const {
  TensorSharding s = *this;
  if (kind != Kind::axes || mesh == refined) return s;
  s.mesh = refined;
  if (!mesh) {
    TESSERA_CHECK(is_replicated(), "axes without a mesh");
    return s;
  }
  TESSERA_CHECK(same_mesh(mesh, refined), "a sharding was moved to another mesh");
  // The new axes of each old one. Both meshes list the pieces of a named axis from major to minor.
  std::vector<IndexList> pieces(mesh->axes.size());
  for (std::size_t i = 0; i < mesh->axes.size(); ++i) {
    const MeshAxis& a = mesh->axes[i];
    std::int64_t next = a.pre;
    for (std::size_t k = 0; k < refined->axes.size(); ++k) {
      const MeshAxis& b = refined->axes[k];
      if (b.name != a.name || b.pre < a.pre || b.pre >= a.pre * a.size) {
        if (!(a.size == 1 && b.name == a.name && b.pre == a.pre && b.size == 1)) continue;
      }
      TESSERA_CHECK(b.pre == next, "the mesh is no refinement of the sharding's");
      pieces[i].push_back(int(k));
      next = b.pre * b.size;
    }
    TESSERA_CHECK(next == a.pre * a.size && !pieces[i].empty(),
                  "axis " + a.to_string() + " is not made of axes of the refined mesh");
  }
  auto translate = [&](IndexList& axes) {
    IndexList out;
    for (int a : axes) {
      out.insert(out.end(), pieces[std::size_t(a)].begin(), pieces[std::size_t(a)].end());
    }
    axes = std::move(out);
  };
  for (DimSharding& d : s.dims) translate(d.axes);
  translate(s.replicated);
  translate(s.unreduced);
  translate(s.manual);
  return s;
}

std::string TensorSharding::to_string() const {
  if (kind == Kind::maximal) {
    return "#sdy.sharding<@maximal_mesh_" + std::to_string(device) + ", []>";
  }
  if (kind == Kind::unknown) return "#sdy.sharding<@unknown>";
  static const LogicalMesh none;
  const LogicalMesh& m = mesh ? *mesh : none;
  std::string out = "#sdy.sharding<@" + (mesh ? m.name : std::string("empty_mesh")) + ", [";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const DimSharding& d = dims[i];
    std::vector<std::string> parts = axis_texts(m, d.axes, true);
    if (d.open) parts.push_back("?");
    out += (i ? ", {" : "{") + comma(parts) + "}";
    if (d.priority != 0 && !parts.empty()) out += "p" + std::to_string(d.priority);
  }
  out += "]";
  auto list = [&](const char* what, IndexList axes) {
    if (axes.empty()) return;
    std::sort(axes.begin(), axes.end());
    out += std::string(", ") + what + "{" + comma(axis_texts(m, axes, true)) + "}";
  };
  const std::string kind = reduction == Reduction::sum ? "" : tessera::to_string(reduction);
  list("replicated=", replicated);
  list(("unreduced=" + kind).c_str(), unreduced);
  list("manual=", manual);
  return out + ">";
}

std::string TensorSharding::to_spec_string() const {
  if (kind == Kind::maximal) return "device " + std::to_string(device);
  if (kind == Kind::unknown) return "unknown";
  bool any_open = false;
  for (const DimSharding& d : dims) any_open = any_open || (d.open && d.axes.empty());
  if (is_replicated() && !any_open) return "replicated";
  static const LogicalMesh none;
  const LogicalMesh& m = mesh ? *mesh : none;
  auto quote = [](std::vector<std::string> names) {
    for (std::string& n : names) n = "\"" + n + "\"";
    return comma(names);
  };
  std::vector<std::string> parts;
  for (const DimSharding& d : dims) {
    const std::vector<std::string> names = axis_texts(m, d.axes, false);
    if (names.empty()) {
      parts.push_back(d.open ? "UNCONSTRAINED" : "None");
    } else {
      parts.push_back(names.size() == 1 ? quote(names) : "(" + quote(names) + ")");
    }
  }
  auto set = [&](const char* what, IndexList axes) {
    if (axes.empty()) return;
    std::sort(axes.begin(), axes.end());
    parts.push_back(std::string(what) + "={" + quote(axis_texts(m, axes, false)) + "}");
  };
  set("unreduced", unreduced);
  if (!unreduced.empty() && reduction != Reduction::sum) {
    parts.push_back(std::string("unreduced_kind=") + tessera::to_string(reduction));
  }
  set("manual", manual);
  return "P(" + comma(parts) + ")";
}

bool operator==(const TensorSharding& a, const TensorSharding& b) {
  const bool meshes = a.mesh == b.mesh || (a.mesh && b.mesh && *a.mesh == *b.mesh);
  return meshes && a.kind == b.kind && a.dims == b.dims && a.replicated == b.replicated &&
         a.unreduced == b.unreduced && (a.unreduced.empty() || a.reduction == b.reduction) &&
         a.manual == b.manual && a.device == b.device && a.shard_group == b.shard_group &&
         a.shard_like == b.shard_like;
}

}  // namespace tessera
