// SPDX-License-Identifier: Apache-2.0
// Maps from mesh axes to dims, and shapes of the parts of processes.
#include <algorithm>
#include <set>

#include <tessera/sharding/parsed_spec.h>

#include "src/base/arrays/shape.h"

namespace tessera {
namespace {

/// No array has more dims.
constexpr std::int64_t kMaxDim = 65535;

std::string mapping_text(const ArrayMapping& mapping) {
  std::string out = "{";
  for (const auto& [axis, dim] : mapping) {
    out += (out.size() > 1 ? ", '" : "'") + axis + "': " + std::to_string(dim);
  }
  return out + "}";
}

ArrayMapping mapping_of(const std::vector<SpecEntry>& entries) {
  ArrayMapping out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (const std::string& axis : entries[i].axes()) out.emplace_back(axis, std::int64_t(i));
  }
  return out;
}

/// DuplicateSpecError if an axis stands twice in the map. `what` begins the message.
void check_once(const ArrayMapping& mapping, const std::string& what, Location location) {
  std::set<std::string> seen;
  for (const auto& [axis, dim] : mapping) {
    if (seen.insert(axis).second) continue;
    throw DuplicateSpecError(what + " uses an axis more than once: '" + axis + "'", location);
  }
}

/// The number of processes that an axis spans.
std::int64_t processes_along(const Mesh& mesh, const Mesh& local, const std::string& axis,
                             std::int64_t dim, const std::vector<std::int64_t>& shape,
                             Location location) {
  if (dim < 0 || dim >= std::int64_t(shape.size())) {
    throw ValueError("axis '" + axis + "' is mapped to dimension " + std::to_string(dim) +
                         ", which an array of shape " + to_string(shape) + " lacks",
                     location);
  }
  const std::int64_t size = mesh.axis_size(axis, location);  // the mesh that errors name
  return size / local.axis_size(axis, location);
}

}  // namespace

ArrayMapping get_array_mapping(const PartitionSpec& spec, Location location) {
  ArrayMapping out = mapping_of(spec.entries());
  check_once(out, spec.to_string(), location);
  return out;
}

ArrayMapping get_array_mapping(const ParsedPartitionSpec& spec) {
  return mapping_of(spec.partitions());
}

PartitionSpec array_mapping_to_axis_resources(const ArrayMapping& mapping, Location location) {
  check_once(mapping, "the map " + mapping_text(mapping), location);
  std::vector<std::vector<std::string>> dims;
  for (const auto& [axis, dim] : mapping) {
    if (dim < 0 || dim > kMaxDim) {
      throw ValueError("the map " + mapping_text(mapping) + " has axis '" + axis +
                           "' on dimension " + std::to_string(dim) + "; dims are 0 to " +
                           std::to_string(kMaxDim),
                       location);
    }
    if (dims.size() <= std::size_t(dim)) dims.resize(std::size_t(dim) + 1);
    dims[std::size_t(dim)].push_back(axis);
  }
  return PartitionSpec::from_entries({dims.begin(), dims.end()});
}

PartitionSpec get_single_pspec(const ParsedPartitionSpec& spec) {
  return array_mapping_to_axis_resources(get_array_mapping(spec));
}

std::vector<std::int64_t> local_to_global(PositionalSemantics semantics, const Mesh& mesh,
                                          const ArrayMapping& mapping,
                                          const std::vector<std::int64_t>& shape,
                                          Location location) {
  std::vector<std::int64_t> out = shape;
  if (semantics == PositionalSemantics::global) return out;
  const Mesh local = mesh.local_mesh(location);
  for (const auto& [axis, dim] : mapping) {
    out[std::size_t(dim)] *= processes_along(mesh, local, axis, dim, shape, location);
  }
  return out;
}

std::vector<std::int64_t> global_to_local(PositionalSemantics semantics, const Mesh& mesh,
                                          const ArrayMapping& mapping,
                                          const std::vector<std::int64_t>& shape,
                                          Location location) {
  std::vector<std::int64_t> out = shape;
  if (semantics == PositionalSemantics::global) return out;
  const Mesh local = mesh.local_mesh(location);
  for (const auto& [axis, dim] : mapping) {
    const std::int64_t n = processes_along(mesh, local, axis, dim, shape, location);
    std::int64_t& size = out[std::size_t(dim)];
    if (size % n != 0) {
      throw IndivisibleError(
          "dimension " + std::to_string(dim) + " of shape " + to_string(shape) +
              " isn't a multiple of the processes along its axes: " + std::to_string(size) +
              " is left for the " + std::to_string(n) + " along axis '" + axis + "'",
          location);
    }
    size /= n;
  }
  return out;
}

}  // namespace tessera
