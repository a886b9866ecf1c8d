// SPDX-License-Identifier: Apache-2.0
// Shardings in types: made from public shardings, printed, and put into the compiler's form.
#include "src/frontend/explicit/sharding_type.h"

#include <algorithm>
#include <utility>

#include "src/base/contains.h"
#include "src/sharding/api/lowering.h"

namespace tessera::frontend {

namespace {

/// Those of type Explicit.
ShardingType::AxisList explicit_only(const Mesh& mesh, const ShardingType::AxisList& axes) {
  const std::vector<std::string> known = mesh.explicit_axes();
  ShardingType::AxisList out;
  for (const std::string& a : axes) {
    if (contains(known, a)) out.push_back(a);
  }
  return out;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ",") + n;
  return names.size() == 1 ? out : "(" + out + ")";
}

}  // namespace

bool ShardingType::is_replicated() const {
  return unreduced.empty() &&
         std::all_of(dims.begin(), dims.end(), [](const AxisList& d) { return d.empty(); });
}

ShardingType ShardingType::whole() const {
  ShardingType out = *this;
  out.unreduced.clear();
  out.kind = UnreducedKind::sum;
  return out;
}

std::int64_t ShardingType::parts(std::size_t dim) const {
  std::int64_t out = 1;
  for (const std::string& a : dims[dim]) out *= mesh.axis_size(a);
  return out;
}

ShardingType ShardingType::replicated(const Mesh& mesh, std::size_t rank) {
  ShardingType out;
  out.mesh = mesh;
  out.dims.resize(rank);
  return out;
}

ShardingType ShardingType::of(const Sharding& sharding, std::size_t rank) {
  if (!NamedSharding::is(sharding)) return {};
  const NamedSharding named(sharding);
  return of(named.mesh(), named.spec(), rank);
}

ShardingType ShardingType::of(const Mesh& mesh, const PartitionSpec& spec, std::size_t rank) {
  if (mesh.empty() || mesh.explicit_axes().empty()) return {};
  ShardingType out = replicated(mesh, rank);
  for (std::size_t d = 0; d < std::min(rank, spec.size()); ++d) {
    // What follows an axis of another type can't be split off: the Explicit part ends there.
    AxisList lead;
    for (const std::string& a : spec[d].axes()) {
      if (explicit_only(mesh, {a}).empty()) break;
      lead.push_back(a);
    }
    out.dims[d] = std::move(lead);
  }
  out.unreduced = explicit_only(mesh, spec.unreduced());
  if (!out.unreduced.empty()) out.kind = *spec.unreduced_kind();
  out.reduced = explicit_only(mesh, spec.reduced());
  return out;
}

PartitionSpec ShardingType::spec() const {
  std::vector<SpecEntry> entries(dims.begin(), dims.end());
  PartitionSpec out = PartitionSpec::from_entries(std::move(entries)).with_reduced(reduced, {});
  return unreduced.empty() ? out : out.with_unreduced(unreduced, kind, Location{});
}

TensorSharding ShardingType::constraint() const {
  TensorSharding out =
      to_tensor_sharding(NamedSharding(mesh, spec(), Location{}), std::int64_t(dims.size()));
  if (!mesh.auto_axes().empty()) {
    for (DimSharding& d : out.dims) d.open = true;
  }
  return out;
}

ShardingType ShardingType::cotangent() const {
  ShardingType out = tangent();
  std::swap(out.unreduced, out.reduced);
  return out;
}

bool operator==(const ShardingType& a, const ShardingType& b) {
  return a.mesh == b.mesh && a.dims == b.dims && a.unreduced == b.unreduced &&
         a.reduced == b.reduced && (a.unreduced.empty() || a.kind == b.kind);
}

std::string partial_text(UnreducedKind kind) {
  return std::string("a partial ") + (kind == UnreducedKind::sum   ? "sum"
                                      : kind == UnreducedKind::max ? "maximum"
                                                                   : "minimum");
}

const char* joins_text(UnreducedKind kind) {
  return kind == UnreducedKind::sum ? "adds up" : "joins";
}

std::string ShardingType::key() const {
  if (mesh.empty()) return "";
  std::string out = spec().to_string() + "on" + mesh.to_string();
  if (!mesh.is_abstract()) out += tessera::to_string(mesh.device_ids());
  return out;
}

std::string type_text(const Shape& shape, const ShardingType& type,
                      const std::vector<std::string>& varying) {
  std::string out = std::string(name(shape.dtype)) + "[";
  for (std::size_t d = 0; d < shape.dims.size(); ++d) {
    out += (d ? "," : "") + std::to_string(shape.dims[d]);
    if (d < type.dims.size() && !type.dims[d].empty()) out += "@" + listed(type.dims[d]);
  }
  out += "]";
  std::string sets;
  const auto add = [&](const std::string& letter, const std::vector<std::string>& axes) {
    if (!axes.empty()) sets += (sets.empty() ? "" : ",") + letter + ":" + listed(axes);
  };
  add("V", varying);
  add(type.is_extremum() ? std::string("U_") + tessera::to_string(type.kind) : "U", type.unreduced);
  add("R", type.reduced);
  return sets.empty() ? out : out + "{" + sets + "}";
}

}  // namespace tessera::frontend
