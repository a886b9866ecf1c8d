// SPDX-License-Identifier: Apache-2.0
// ShardingSpec: the spec of a PmapSharding.
#include <tessera/sharding/sharding_spec.h>

#include "src/base/arrays/shape.h"
#include "src/sharding/api/hash_mix.h"

namespace tessera {
namespace {

/// "(a, b)", "(a,)"
template <class List, class Print>
std::string tuple_text(const List& list, Print print) {
  std::string out = "(";
  for (std::size_t i = 0; i < list.size(); ++i) out += (i ? ", " : "") + print(list[i]);
  return out + (list.size() == 1 ? ",)" : ")");
}

std::string dim_text(const AvalDimSharding& dim) {
  if (const auto* unstacked = std::get_if<Unstacked>(&dim)) {
    return "Unstacked(" + std::to_string(unstacked->size) + ")";
  }
  const auto* chunked = std::get_if<Chunked>(&dim);
  if (chunked == nullptr) return "NoSharding()";
  std::string list;
  for (const std::int64_t c : chunked->chunks) {
    list += (list.empty() ? "" : ", ") + std::to_string(c);
  }
  return "Chunked(" + list + ")";
}

std::string assignment_text(const MeshDimAssignment& dim) {
  if (const auto* axis = std::get_if<ShardedAxis>(&dim)) {
    return "ShardedAxis(" + std::to_string(axis->axis) + ")";
  }
  return "Replicated(" + std::to_string(std::get<Replicated>(dim).replicas) + ")";
}

/// The sizes of the divisions, in order.
Dims division_sizes(const ShardingSpec& spec) {
  Dims out;
  for (const AvalDimSharding& dim : spec.sharding) {
    if (const auto* chunked = std::get_if<Chunked>(&dim)) {
      out.insert(out.end(), chunked->chunks.begin(), chunked->chunks.end());
    } else if (const auto* unstacked = std::get_if<Unstacked>(&dim)) {
      out.push_back(unstacked->size);
    }
  }
  return out;
}

}  // namespace

void ShardingSpec::check(Location location) const {
  const Dims divisions = division_sizes(*this);
  std::int64_t places = 1;
  const auto take = [&](std::int64_t size) {
    if (size < 1 || __builtin_mul_overflow(places, size, &places)) {
      throw ValueError(to_string() + ": " + std::to_string(size) +
                           " isn't a number of parts or copies; they must be at least 1 and their "
                           "product a number of devices",
                       location);
    }
  };
  for (const std::int64_t size : divisions) take(size);
  std::vector<int> used(divisions.size(), 0);
  for (const MeshDimAssignment& dim : mesh_mapping) {
    if (const auto* copies = std::get_if<Replicated>(&dim)) {
      take(copies->replicas);
      continue;
    }
    const std::int64_t axis = std::get<ShardedAxis>(dim).axis;
    if (axis < 0 || axis >= std::int64_t(divisions.size())) {
      throw ValueError(to_string() + ": there is no division " + std::to_string(axis) +
                           "; the dims of the array have " + std::to_string(divisions.size()),
                       location);
    }
    ++used[std::size_t(axis)];
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i] == 1) continue;
    throw ValueError(to_string() + ": mesh_mapping names division " + std::to_string(i) + " " +
                         (used[i] == 0 ? "nowhere" : std::to_string(used[i]) + " times") +
                         "; each must stand there once",
                     location);
  }
}

std::vector<std::int64_t> ShardingSpec::devices_shape(Location location) const {
  check(location);
  const Dims divisions = division_sizes(*this);
  Dims shape;
  for (const MeshDimAssignment& dim : mesh_mapping) {
    const auto* axis = std::get_if<ShardedAxis>(&dim);
    shape.push_back(axis ? divisions[std::size_t(axis->axis)] : std::get<Replicated>(dim).replicas);
  }
  return shape;
}

std::string ShardingSpec::to_string() const {
  return "ShardingSpec(" + tuple_text(sharding, dim_text) + ", " +
         tuple_text(mesh_mapping, assignment_text) + ")";
}

std::size_t ShardingSpec::hash() const { return std::hash<std::string>()(to_string()); }

}  // namespace tessera
