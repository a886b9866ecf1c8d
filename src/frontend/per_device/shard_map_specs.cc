// SPDX-License-Identifier: Apache-2.0
// Checks in_specs and out_specs of shard_map and converts shapes between global and per-device.
#include "src/frontend/per_device/shard_map_specs.h"

#include "src/base/contains.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/mesh_impl.h"

namespace tessera::frontend {

namespace {

std::int64_t ways(const SpecEntry& entry, const Mesh& mesh) {
  std::int64_t n = 1;
  for (const std::string& axis : entry.axes()) n *= mesh.axis_size(axis);
  return n;
}

/// `visit(leaf, path)` with paths like in_specs[0]['a'].
template <class F>
void for_leaves(const ShardingTree& specs, const std::string& path, const F& visit) {
  if (specs.is_leaf()) return visit(specs, path);
  for (std::size_t i = 0; i < specs.children().size(); ++i) {
    for_leaves(specs.children()[i],
               path + (specs.keys().empty() ? "[" + std::to_string(i) + "]"
                                            : "['" + specs.keys()[i] + "']"),
               visit);
  }
}

class Failures {
 public:
  void add(const std::string& text) { text_ += (text_.empty() ? "" : "; ") + text; }
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void check_ranks(const std::string& who, const std::string& what, const std::vector<SpecUse>& uses,
                 const std::string& for_scalars, Location location) {
  Failures failures;
  bool scalar = false;
  for (const SpecUse& use : uses) {
    const auto rank = use.shape.dims.size();
    if (use.spec.size() <= rank) continue;
    scalar |= rank == 0;
    failures.add(use.who + " is " + use.shape.to_string() + " of rank " + std::to_string(rank) +
                 ", and its spec " + use.spec.to_string() + " has " +
                 std::to_string(use.spec.size()) + (use.spec.size() == 1 ? " entry" : " entries"));
  }
  if (!failures.any()) return;
  throw ShardingError(who + ": " + what + " longer than the rank: " + failures.text() +
                          "; a spec has at most one entry per dim" + (scalar ? for_scalars : ""),
                      location);
}

}  // namespace

bool ManualMesh::partly() const {
  for (const auto& [axis, size] : mesh.shape()) {
    if (size > 1 && !contains(all, axis)) return true;
  }
  return false;
}

bool ManualMesh::is_fresh(const std::string& axis) const { return contains(fresh, axis); }

Mesh ManualMesh::marked() const {
  std::vector<AxisType> types = mesh.axis_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (contains(all, mesh.axis_names()[i])) types[i] = AxisType::Manual;
  }
  return internal::MeshAccess::with_types(mesh, std::move(types));
}

std::string quoted_axes(const std::vector<std::string>& axes) {
  std::string out;
  for (const std::string& a : axes) out += (out.empty() ? "'" : ", '") + a + "'";
  return out;
}

void check_spec_leaves(const ShardingTree& specs, const std::string& what, bool none_allowed,
                       Location location) {
  check_leaves(specs, "shard_map " + what, location);
  for_leaves(specs, what, [&](const ShardingTree& leaf, const std::string& path) {
    switch (leaf.kind()) {
      case ShardingTree::Kind::spec:
        if (!leaf.spec().unreduced().empty()) {
          throw NotImplementedError("shard_map " + path + " is " + leaf.spec().to_string() +
                                        ": unreduced values can't enter or leave per-device code; "
                                        "p" +
                                        to_string(*leaf.spec().unreduced_kind()) + " makes a " +
                                        to_string(*leaf.spec().unreduced_kind()) + " whole",
                                    location);
        }
        return;
      case ShardingTree::Kind::none:
        if (none_allowed) return;
        break;
      default:
        break;
    }
    const bool missing = leaf.is_unspecified();
    throw TypeError("shard_map " + path + (missing ? " must be given" : " is ") +
                        (missing ? "" : leaf.to_string()) + ": " + what +
                        " is a tree prefix whose leaves are PartitionSpecs, as P(\"x\")" +
                        (none_allowed ? ", or nullptr" : ", and P() where all devices agree"),
                    location);
  });
}

void check_spec_axes(const ShardingTree& specs, const std::string& what, const ManualMesh& manual,
                     Location location) {
  Failures failures;
  for_leaves(specs, what, [&](const ShardingTree& leaf, const std::string& path) {
    if (leaf.kind() != ShardingTree::Kind::spec) return;
    for (const std::string& axis : axes_of(leaf.spec())) {
      if (manual.is_fresh(axis)) continue;
      failures.add(path + ", " + leaf.spec().to_string() + ", refers to '" + axis + "', " +
                   (!manual.mesh.has_axis(axis)  ? "which the mesh lacks"
                    : contains(manual.all, axis) ? "which is manual around this shard_map already"
                                                 : "which is automatic"));
    }
  });
  if (!failures.any()) return;
  throw ShardingError("shard_map " + what + " must refer to axes that it makes manual, here " +
                          quoted_axes(manual.fresh) + " of " + manual.mesh.to_string() + ": " +
                          failures.text(),
                      location);
}

void check_arguments(const std::string& who, const std::vector<SpecUse>& uses,
                     const ManualMesh& manual, Location location) {
  check_ranks(who, "in_specs", uses, " (a scalar wants the empty spec, P())", location);
  Failures failures;
  for (const SpecUse& use : uses) {
    for (std::size_t d = 0; d < use.spec.size(); ++d) {
      const std::int64_t n = ways(use.spec[d], manual.mesh), size = use.shape.dims[d];
      if (size % n == 0) continue;
      const std::int64_t below = size / n * n;
      const bool one = use.spec[d].axes().size() == 1;
      failures.add(use.who + " is " + use.shape.to_string() + ", and its spec " +
                   use.spec.to_string() + " cuts dim " + std::to_string(d) + " of size " +
                   std::to_string(size) + " over " + (one ? "axis " : "axes ") +
                   quoted_axes(use.spec[d].axes()) + " of " + (one ? "" : "total ") + "size " +
                   std::to_string(n) + ", which doesn't divide it (" +
                   (below > 0 ? std::to_string(below) + " and " : "") + std::to_string(below + n) +
                   " would do)");
    }
  }
  if (!failures.any()) return;
  throw IndivisibleError(who + ": sizes must be multiples of the axes' that cut them, of " +
                             manual.mesh.to_string() + ": " + failures.text(),
                         location);
}

void check_results(const std::string& who, const std::vector<SpecUse>& uses,
                   const ManualMesh& manual, bool check_vma, Location location) {
  check_ranks(who, "out_specs", uses,
              " (a scalar wants the empty spec, P(); one that differs between devices needs a dim "
              "along which they are put together, as reshape(x, {1}) makes it)",
              location);
  if (!check_vma) return;
  Failures failures;
  for (const SpecUse& use : uses) {
    VaryingAxes fresh;
    for (const std::string& axis : use.varying) {
      if (manual.is_fresh(axis)) fresh.insert(axis);
    }
    const VaryingAxes promised = axes_of(use.spec), excess = without(fresh, promised);
    if (excess.empty()) continue;
    failures.add("the spec of " + use.who + " (" + use.shape.to_string() + " on each device), " +
                 use.spec.to_string() + ", says that it varies over " + axes_text(promised) +
                 " alone, and it was inferred to vary over " + axes_text(fresh) +
                 ", so that devices along " + axes_text(excess) + " may differ");
  }
  if (!failures.any()) return;
  throw ValueError(
      who + ": out_specs promise equality that can't be inferred: " + failures.text() +
          ". Name the axes in the spec, or take them away (psum, pmean, pmax, pmin, all_gather "
          "with to = \"invarying\"); if the devices are known to agree, check_vma = false "
          "turns this check off. The mesh is " +
          manual.mesh.to_string(),
      location);
}

VaryingAxes axes_of(const PartitionSpec& spec) {
  VaryingAxes out;
  for (const SpecEntry& entry : spec) out.insert(entry.axes().begin(), entry.axes().end());
  return out;
}

Dims cut_by(const PartitionSpec& spec, const Dims& whole, const Mesh& mesh) {
  Dims out = whole;
  for (std::size_t d = 0; d < spec.size(); ++d) out[d] /= ways(spec[d], mesh);
  return out;
}

Dims joined_by(const PartitionSpec& spec, const Dims& part, const Mesh& mesh) {
  Dims out = part;
  for (std::size_t d = 0; d < spec.size(); ++d) out[d] *= ways(spec[d], mesh);
  return out;
}

PartitionSpec spec_of_type(const ShardingType& type, const ManualMesh& manual) {
  std::vector<SpecEntry> entries;
  for (ShardingType::AxisList axes : type.dims) {
    std::erase_if(axes, [&](const std::string& a) { return !manual.is_fresh(a); });
    entries.emplace_back(std::move(axes));
  }
  return PartitionSpec::from_entries(std::move(entries));
}

void leave_to_devices(ShardingType* type, const PartitionSpec& spec, const ManualMesh& manual,
                      const SpecUse& use, Location location) {
  if (!*type) return;
  const PartitionSpec have = spec_of_type(*type, manual);
  if (type->is_extremum()) {
    const std::string op = to_string(type->kind);
    throw NotImplementedError("shard_map: " + use.who + " is " + type_text(use.shape, *type) +
                                  ": unreduced values can't enter per-device code; valid: "
                                  "reshard() of it before, to a spec without unreduced axes, or p" +
                                  op + "() within, of what the parts are made of",
                              location);
  }
  for (std::size_t d = 0; d < have.size(); ++d) {
    const SpecEntry given = d < spec.size() ? spec[d] : SpecEntry();
    if (given == have[d]) continue;
    throw ShardingTypeError("shard_map: in_specs say " + spec.to_string() + " of " + use.who +
                                ", and it is " + type_text(use.shape, *type) +
                                "; valid: reshard() of it to that spec before, or in_specs left "
                                "out, which takes those of the arguments' types",
                            location);
  }
  for (ShardingType::AxisList& axes : type->dims) {
    std::erase_if(axes, [&](const std::string& a) { return manual.is_fresh(a); });
  }
}

ShardingType joined_type(const ShardingType& part, const PartitionSpec& spec,
                         const ManualMesh& manual, const Shape& whole) {
  ShardingType out = ShardingType::of(manual.mesh, spec, whole.dims.size());
  if (!out) return out;
  for (std::size_t d = 0; d < part.dims.size(); ++d) {
    out.dims[d].insert(out.dims[d].end(), part.dims[d].begin(), part.dims[d].end());
  }
  return out;
}

TensorSharding boundary(const PartitionSpec& spec, const ManualMesh& manual, std::int64_t rank) {
  TensorSharding s = to_tensor_sharding(NamedSharding(manual.mesh, spec), rank);
  if (!s.mesh) s = TensorSharding::replicated_on(to_logical_mesh(manual.mesh), rank);
  for (DimSharding& d : s.dims) d.open = manual.partly();
  return s;
}

}  // namespace tessera::frontend
