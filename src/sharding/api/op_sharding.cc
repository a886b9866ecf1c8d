// SPDX-License-Identifier: Apache-2.0
// OpSharding: shardings as programs state them, to and from partition specs.
#include <tessera/sharding/op_sharding.h>

#include "src/base/arrays/shape.h"
#include "src/base/at_location.h"
#include "src/base/check.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/sharding_impl.h"
#include "src/sharding/axes/tiling.h"

namespace tessera {
namespace {

OpSharding::Subgroup to_public(Tiling::Subgroup s) {
  switch (s) {
    case Tiling::Subgroup::manual:
      return OpSharding::Subgroup::manual;
    case Tiling::Subgroup::unreduced:
      return OpSharding::Subgroup::unreduced;
    case Tiling::Subgroup::replicated:
      break;
  }
  return OpSharding::Subgroup::replicated;
}

Tiling::Subgroup to_internal(OpSharding::Subgroup s) {
  switch (s) {
    case OpSharding::Subgroup::manual:
      return Tiling::Subgroup::manual;
    case OpSharding::Subgroup::unreduced:
      return Tiling::Subgroup::unreduced;
    case OpSharding::Subgroup::replicated:
      break;
  }
  return Tiling::Subgroup::replicated;
}

OpSharding op_sharding_of(const Tiling& t) {
  OpSharding out;
  switch (t.kind) {
    case Tiling::Kind::replicated:
      break;
    case Tiling::Kind::maximal:
      out.type = OpSharding::Type::maximal;
      out.maximal_device = t.device;
      break;
    case Tiling::Kind::manual:
      out.type = OpSharding::Type::manual;
      break;
    case Tiling::Kind::unreduced:
      out.type = OpSharding::Type::unreduced;
      break;
    case Tiling::Kind::unknown:
      out.type = OpSharding::Type::unknown;
      break;
    case Tiling::Kind::tiled:
      out.type = OpSharding::Type::other;
      out.tile_assignment_dimensions = t.tile;
      out.tile_assignment_devices = t.device_list();
      for (const Tiling::Subgroup s : t.subgroups) out.last_tile_dims.push_back(to_public(s));
      break;
  }
  return out;
}

/// The tiling of a sharding that isn't a tuple. ShardingError if tiles and devices don't fit.
Tiling tiling_of(const OpSharding& s) {
  Tiling t;
  switch (s.type) {
    case OpSharding::Type::replicated:
      break;
    case OpSharding::Type::maximal:
      t.kind = Tiling::Kind::maximal;
      t.device = s.maximal_device;
      break;
    case OpSharding::Type::manual:
      t.kind = Tiling::Kind::manual;
      break;
    case OpSharding::Type::unreduced:
      t.kind = Tiling::Kind::unreduced;
      break;
    case OpSharding::Type::unknown:
      t.kind = Tiling::Kind::unknown;
      break;
    case OpSharding::Type::tuple:
      throw InternalError("tiling_of a tuple");
    case OpSharding::Type::other: {
      const Dims& tile = s.tile_assignment_dimensions;
      const std::int64_t n = std::int64_t(s.tile_assignment_devices.size());
      std::int64_t tiles = 1;
      bool valid = s.last_tile_dims.size() <= tile.size();
      for (const std::int64_t d : tile) {
        valid = valid && d >= 1 && !__builtin_mul_overflow(tiles, d, &tiles);
      }
      if (!valid || tiles != n) {
        throw ShardingError("an OpSharding has tiles " + to_string(tile) + ", of which " +
                            std::to_string(s.last_tile_dims.size()) +
                            " dims are subgroups, and lists " + std::to_string(n) +
                            " devices: there must be one device per tile, and no more subgroups "
                            "than dims");
      }
      t.kind = Tiling::Kind::tiled;
      t.tile = tile;
      t.devices = s.tile_assignment_devices;
      for (const OpSharding::Subgroup g : s.last_tile_dims) t.subgroups.push_back(to_internal(g));
      check_tiling(t, n);
      break;
    }
  }
  return t;
}

void append_texts(const OpSharding& s, std::string* out) {
  if (s.type != OpSharding::Type::tuple) {
    *out += (out->empty() ? "" : ", ") + tiling_of(s).to_string();
    return;
  }
  for (const OpSharding& element : s.tuple_shardings) append_texts(element, out);
}

/// A sharding by axes as a spec; `t` is what it was made of.
ParsedPartitionSpec spec_of(const Tiling& t, const Mesh& mesh, Location location) {
  const std::string text = "the sharding " + t.to_string();
  if (t.kind == Tiling::Kind::maximal || t.kind == Tiling::Kind::unknown) {
    throw NotImplementedError(
        text + " is no PartitionSpec: " +
            (t.kind == Tiling::Kind::maximal ? "it keeps the entire value on one device"
                                             : "it doesn't state how the value is split"),
        location);
  }
  const MeshRef logical = to_logical_mesh(mesh);
  const std::int64_t ranks[] = {t.kind == Tiling::Kind::tiled ? t.rank() : 0};
  TensorSharding axes = from_tilings(std::span(&t, 1), ranks, mesh.size(), logical)[0];
  if (axes.mesh && !same_mesh(axes.mesh, logical)) {
    throw NotImplementedError(text + " can't be converted to a PartitionSpec over " +
                                  mesh.to_string() +
                                  ": no order of the mesh's axes gives its devices",
                              location);
  }
  // The manual axes as a dim behind the others.
  const std::size_t rank = axes.dims.size();
  axes.dims.push_back(DimSharding{axes.manual});
  axes.manual.clear();
  const auto spec = to_partition_spec(axes);
  if (!spec) {
    throw NotImplementedError(text + " can't be converted to a PartitionSpec over " +
                                  mesh.to_string() + ": it splits by a part of an axis",
                              location);
  }
  std::vector<SpecEntry> entries = spec->entries();
  std::vector<std::string> manual;
  if (entries.size() > rank) {
    manual = entries.back().axes();
    entries.pop_back();
    while (!entries.empty() && entries.back().is_none()) entries.pop_back();
  }
  const PartitionSpec plain =
      PartitionSpec::from_entries(entries).with_unreduced(spec->unreduced(), location);
  return ParsedPartitionSpec(plain, entries).with_manual_axes(std::move(manual), location);
}

}  // namespace

OpSharding OpSharding::from_text(const std::string& text, Location location) {
  bool is_tuple = false;
  const std::vector<Tiling> tilings =
      at_location(location, [&] { return parse_tilings(text, &is_tuple); });
  if (!is_tuple) return op_sharding_of(tilings[0]);
  OpSharding out;
  out.type = Type::tuple;
  for (const Tiling& t : tilings) out.tuple_shardings.push_back(op_sharding_of(t));
  return out;
}

std::string OpSharding::to_string(Location location) const {
  std::string out;
  at_location(location, [&] { append_texts(*this, &out); });
  return type == Type::tuple ? "{" + out + "}" : out;
}

OpSharding get_aval_sharding_proto(const PartitionSpec& spec, const Mesh& mesh, std::int64_t ndim,
                                   Location location) {
  const NamedSharding sharding(mesh, spec, location);
  if (spec.unreduced_kind().value_or(UnreducedKind::sum) != UnreducedKind::sum) {
    throw NotImplementedError("get_aval_sharding_proto of " + spec.to_string() +
                                  ": an OpSharding says which devices hold parts, and not that "
                                  "they are joined by a " +
                                  tessera::to_string(*spec.unreduced_kind()) +
                                  "; valid: UnreducedKind::sum, of which its parts are",
                              location);
  }
  return op_sharding_of(sharding.impl().tiling(ndim, location));
}

std::vector<ParsedPartitionSpec> parse_flatten_op_sharding(const OpSharding& sharding,
                                                           const Mesh& mesh, Location location) {
  if (mesh.empty()) {
    throw ShardingError("parse_flatten_op_sharding needs a mesh with axes, got " + mesh.to_string(),
                        location);
  }
  std::vector<ParsedPartitionSpec> out;
  if (sharding.type == OpSharding::Type::tuple) {
    for (const OpSharding& element : sharding.tuple_shardings) {
      for (ParsedPartitionSpec& spec : parse_flatten_op_sharding(element, mesh, location)) {
        out.push_back(std::move(spec));
      }
    }
    return out;
  }
  at_location(location, [&] { out.push_back(spec_of(tiling_of(sharding), mesh, location)); });
  return out;
}

}  // namespace tessera
