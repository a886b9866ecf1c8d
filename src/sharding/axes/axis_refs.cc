// SPDX-License-Identifier: Apache-2.0
// Resolves axes and sub-axes named in text to axes of a refined mesh.
#include "src/sharding/axes/axis_refs.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera {
namespace {

std::string text_of(const AxisRef& a) {
  if (a.size == 0) return "'" + a.name + "'";
  return "'" + a.name + "':(" + std::to_string(a.pre) + ")" + std::to_string(a.size);
}

std::string names_of(const LogicalMesh& mesh) {
  std::string out;
  for (const MeshAxis& a : mesh.axes) {
    if (a.pre == 1) out += (out.empty() ? "'" : ", '") + a.name + "'";
  }
  return out.empty() ? "no axis" : out;
}

}  // namespace

std::vector<AxisRef> parse_axis_list(TextCursor& in, bool* open, bool single_quotes) {
  std::vector<AxisRef> out;
  in.expect("{");
  if (in.accept("}")) return out;
  do {
    if (open != nullptr && in.accept("?")) {
      *open = true;
      break;
    }
    AxisRef a;
    a.name = in.quoted(single_quotes && in.peek() != '"' ? '\'' : '"');
    if (in.accept(":")) {
      in.expect("(");
      a.pre = in.integer();
      in.expect(")");
      a.size = in.integer();
      if (a.pre < 1 || a.size < 1) in.fail("sizes of sub-axes are at least 1");
    }
    out.push_back(std::move(a));
  } while (in.accept(","));
  in.expect("}");
  return out;
}

void check_axis_forms(const NamedAxesSharding& s, const LogicalMesh& mesh) {
  // Where each axis stands in the mesh, and its size.
  std::map<std::string, std::pair<std::size_t, std::int64_t>> known;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    known.try_emplace(mesh.axes[i].name, i, mesh.axes[i].full);
  }
  auto check = [&](const std::vector<AxisRef>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const AxisRef& a = list[i];
      const auto it = known.find(a.name);
      if (a.size == 0 || it == known.end()) continue;
      if (a.size == 1 || a.size == it->second.second) {
        throw ShardingError("sub-axis " + text_of(a) + " has size " + std::to_string(a.size) +
                            " of " + std::to_string(it->second.second) +
                            "; valid are sizes above 1 and below that of the axis");
      }
      const bool follows = i > 0 && list[i - 1].name == a.name && list[i - 1].size != 0 &&
                           list[i - 1].pre * list[i - 1].size == a.pre;
      if (follows) {
        throw ShardingError("sub-axes " + text_of(list[i - 1]) + " and " + text_of(a) +
                            " stand side by side and are one; write them as that");
      }
    }
  };
  for (const auto& d : s.dims) check(d.axes);
  for (const auto* list : {&s.replicated, &s.unreduced}) {
    check(*list);
    for (std::size_t i = 1; i < list->size(); ++i) {
      const AxisRef &a = (*list)[i - 1], &b = (*list)[i];
      if (known.count(a.name) == 0 || known.count(b.name) == 0) continue;
      if (std::pair(known[a.name].first, a.pre) <= std::pair(known[b.name].first, b.pre)) continue;
      throw ShardingError(std::string(list == &s.replicated ? "replicated" : "unreduced") +
                          " axes stand in the order of the mesh; " + text_of(b) + " comes before " +
                          text_of(a));
    }
  }
}

TensorSharding resolve_axes(const NamedAxesSharding& s, const MeshRef& mesh) {
  std::map<std::string, std::int64_t> full;
  std::map<std::string, std::set<std::int64_t>> cuts;
  for (const MeshAxis& a : mesh->axes) {
    full[a.name] = a.full;
    cuts[a.name].insert(a.pre);
  }
  auto need = [&](const AxisRef& a) {
    const auto it = full.find(a.name);
    if (it == full.end()) {
      throw ShardingError("axis '" + a.name + "' is not in mesh @" + mesh->name + ", which has " +
                          names_of(*mesh));
    }
    if (a.size == 0) return;
    if (a.pre < 1 || it->second % a.pre != 0 || (it->second / a.pre) % a.size != 0) {
      throw ShardingError("sub-axis " + text_of(a) + " doesn't divide the axis, whose size is " +
                          std::to_string(it->second));
    }
    cuts[a.name].insert(a.pre);
    if (a.pre * a.size != it->second) cuts[a.name].insert(a.pre * a.size);
  };
  auto each = [&](auto&& f) {
    for (const auto& d : s.dims) {
      for (const AxisRef& a : d.axes) f(a);
    }
    for (const auto* list : {&s.replicated, &s.unreduced, &s.manual}) {
      for (const AxisRef& a : *list) f(a);
    }
  };
  each(need);

  std::vector<Dims> pieces;
  for (const MeshAxis& a : mesh->axes) {
    Dims inside;
    for (std::int64_t c : cuts[a.name]) {
      if (c >= a.pre && c < a.pre * a.size) inside.push_back(c);
    }
    inside.push_back(a.pre * a.size);
    Dims sizes;
    for (std::size_t i = 0; a.size > 1 && i + 1 < inside.size(); ++i) {
      if (inside[i + 1] % inside[i] != 0) {
        throw ShardingError("sub-axes of axis '" + a.name + "' of size " + std::to_string(a.full) +
                            " don't nest: one ends at " + std::to_string(inside[i]) +
                            ", another at " + std::to_string(inside[i + 1]));
      }
      sizes.push_back(inside[i + 1] / inside[i]);
    }
    if (sizes.size() == 1) sizes.clear();
    pieces.push_back(std::move(sizes));
  }
  const bool refined =
      std::any_of(pieces.begin(), pieces.end(), [](const Dims& sizes) { return !sizes.empty(); });
  TensorSharding out = TensorSharding::replicated_on(refined ? refine(mesh, pieces) : mesh,
                                                     std::int64_t(s.dims.size()));
  std::set<int> used;
  auto add = [&](const std::vector<AxisRef>& refs, IndexList* axes) {
    for (const AxisRef& r : refs) {
      const std::int64_t end = r.pre * (r.size ? r.size : full[r.name]);
      for (std::size_t k = 0; k < out.mesh->axes.size(); ++k) {
        const MeshAxis& a = out.mesh->axes[k];
        if (a.name != r.name || a.pre < r.pre || a.pre * a.size > end) continue;
        if (!used.insert(int(k)).second) {
          throw ShardingError("axis " + text_of(r) + " stands twice in one sharding");
        }
        axes->push_back(int(k));
      }
    }
  };
  for (std::size_t i = 0; i < s.dims.size(); ++i) {
    out.dims[i].open = s.dims[i].open;
    out.dims[i].priority = s.dims[i].priority;
    add(s.dims[i].axes, &out.dims[i].axes);
  }
  add(s.replicated, &out.replicated);
  add(s.unreduced, &out.unreduced);
  add(s.manual, &out.manual);
  out.reduction = s.reduction;
  return out;
}

}  // namespace tessera
