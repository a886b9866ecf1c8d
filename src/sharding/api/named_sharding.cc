// SPDX-License-Identifier: Apache-2.0
// NamedSharding: a mesh and a PartitionSpec.
#include "src/sharding/api/named_sharding.h"

#include <algorithm>
#include <set>

#include "src/base/at_location.h"
#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/sharding/api/lowering.h"

namespace tessera {
namespace internal {

Tiling NamedShardingImpl::tiling(std::int64_t ndim, Location location) const {
  if (std::int64_t(spec_.size()) > ndim) {
    std::string text = "sharding " + to_string() + " is only valid for values of rank at least " +
                       std::to_string(spec_.size()) + ", but was applied to a value of rank " +
                       std::to_string(ndim);
    if (ndim == 0) text += "; for a scalar the spec must be PartitionSpec()";
    throw ShardingError(text, location);
  }
  return at_location(location,
                     [&] { return to_tiling(spec_to_axes(spec_, to_logical_mesh(mesh_), ndim)); });
}

bool NamedShardingImpl::is_fully_replicated() const {
  if (mesh_.size() == 1) return true;
  if (!spec_.unreduced().empty()) return false;
  for (const SpecEntry& e : spec_) {
    for (const std::string& a : e.axes()) {
      if (mesh_.axis_size(a) != 1) return false;
    }
  }
  return true;
}

std::shared_ptr<const ShardingImpl> NamedShardingImpl::with_memory_kind(std::string kind) const {
  return std::make_shared<NamedShardingImpl>(mesh_, spec_, std::move(kind));
}

std::string NamedShardingImpl::to_string() const {
  return "NamedSharding(mesh=" + mesh_.to_string() + ", spec=" + spec_.to_string() +
         ", memory_kind=" + memory_kind_ + ")";
}

bool NamedShardingImpl::same(const ShardingImpl& other) const {
  const auto& o = static_cast<const NamedShardingImpl&>(other);
  return mesh_ == o.mesh_ && spec_ == o.spec_;
}

std::size_t NamedShardingImpl::hash() const {
  std::size_t h = mesh_.hash();
  hash_mix(h, spec_.hash());
  return h;
}

}  // namespace internal

namespace {

std::string names_of(const Mesh& mesh) {
  std::string out;
  for (const std::string& n : mesh.axis_names()) out += (out.empty() ? "'" : ", '") + n + "'";
  return out.empty() ? "no axis" : out;
}

void check_spec(const Mesh& mesh, const PartitionSpec& spec, Location location) {
  auto known = [&](const std::string& axis) {
    if (mesh.has_axis(axis)) return;
    throw ShardingError("NamedSharding: axis '" + axis + "' of " + spec.to_string() +
                            " is not in the mesh, which has " + names_of(mesh) +
                            (mesh.empty() ? " (the mesh is empty)" : ""),
                        location);
  };
  std::set<std::string> seen, twice;
  bool unconstrained = false;
  for (const SpecEntry& e : spec) {
    unconstrained |= e.is_unconstrained();
    for (const std::string& a : e.axes()) {
      known(a);
      if (!seen.insert(a).second) twice.insert(a);
    }
  }
  for (const std::string& a : spec.unreduced()) known(a);
  for (const std::string& a : spec.reduced()) known(a);
  if (!twice.empty()) {
    std::string list;
    for (const std::string& a : twice) list += (list.empty() ? "'" : ", '") + a + "'";
    throw DuplicateSpecError("NamedSharding: each mesh axis may split at most one dimension, but " +
                                 spec.to_string() + " names " + list + " more than once",
                             location);
  }
  if (unconstrained && mesh.auto_axes().empty()) {
    throw ShardingError(
        "NamedSharding: " + spec.to_string() +
            " has UNCONSTRAINED, which needs an Auto axis in the mesh; the mesh is " +
            mesh.to_string(),
        location);
  }
}

}  // namespace

NamedSharding::NamedSharding(const Mesh& mesh, const PartitionSpec& spec, Location location)
    : NamedSharding(mesh, spec, "device", location) {}

NamedSharding::NamedSharding(const Mesh& mesh, const PartitionSpec& spec,
                             const std::string& memory_kind, Location location) {
  check_spec(mesh, spec, location);
  internal::check_memory_kind(
      memory_kind, mesh.is_abstract() ? std::vector<Device>() : mesh.devices(), location);
  impl_ = std::make_shared<internal::NamedShardingImpl>(mesh, spec, memory_kind);
}

NamedSharding::NamedSharding(const Sharding& s, Location location) : Sharding(s) {
  internal::impl_as<internal::NamedShardingImpl>(s, "NamedSharding", location);
}

bool NamedSharding::is(const Sharding& s) {
  return s.valid() && s.impl().sharding_class() == internal::ShardingClass::named;
}

const Mesh& NamedSharding::mesh() const {
  return internal::impl_as<internal::NamedShardingImpl>(*this, "NamedSharding").mesh();
}

const PartitionSpec& NamedSharding::spec() const {
  return internal::impl_as<internal::NamedShardingImpl>(*this, "NamedSharding").spec();
}

std::vector<std::string> NamedSharding::replicated_axes() const {
  const PartitionSpec& of = spec();
  std::vector<std::string> out;
  for (const std::string& axis : mesh().axis_names()) {
    const bool splits = std::any_of(of.begin(), of.end(),
                                    [&](const SpecEntry& e) { return contains(e.axes(), axis); });
    if (!splits && !contains(of.unreduced(), axis) && !contains(of.reduced(), axis)) {
      out.push_back(axis);
    }
  }
  return out;
}

}  // namespace tessera
