// SPDX-License-Identifier: Apache-2.0
// From the shardings that stand in a text to axes on one mesh.
#include <algorithm>
#include <map>

#include "src/ir/hlo/hlo_parser.h"
#include "src/sharding/axes/tiling.h"

namespace tessera::ir {
namespace {

constexpr std::int64_t kMaxPartitions = 1 << 24;

// `{mesh = #sdy.mesh<["x"=2]>, other = ...}`
MeshTable read_meshes(HloLexer& in, std::string_view text, std::string_view at,
                      const ReadMesh& read_mesh) {
  MeshTable table;
  HloLexer inner(text, "xla.sdy.meshes");
  try {
    inner.expect('{', "before the meshes");
    if (!inner.accept('}')) {
      do {
        std::string name(inner.word("the name of a mesh"));
        inner.expect('=', "after the name of a mesh");
        inner.skip();
        const char* start = inner.position();
        // `#sdy.mesh<[...]>` or `"#sdy.mesh<[...]>"` up to the bracket that closes it.
        std::string value;
        if (inner.peek() == '"') {
          value = inner.quoted("a mesh");
        } else {
          std::string_view rest(start, std::size_t(inner.end() - start));
          std::size_t close = rest.find('>');
          if (close == std::string_view::npos) inner.fail("expected #sdy.mesh<...>");
          value = std::string(rest.substr(0, close + 1));
          inner.seek(start + close + 1);
        }
        if (!table.emplace(name, read_mesh(value, name)).second) {
          inner.fail_at(start, "mesh '" + name + "' stands twice");
        }
      } while (inner.accept(','));
      inner.expect('}', "after the meshes");
    }
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    in.fail_at(at.data(), std::string("in xla.sdy.meshes: ") + e.message());
  }
  return table;
}

struct Resolver {
  HloLexer& in;
  Module* module;
  MeshTable table;
  // Results on sdy meshes and from tilings, in the order of `pending`.
  std::map<std::string_view, std::pair<std::vector<Tiling>, bool>> parsed;

  const std::pair<std::vector<Tiling>, bool>& tilings_of(std::string_view text) {
    auto it = parsed.find(text);
    if (it != parsed.end()) return it->second;
    std::pair<std::vector<Tiling>, bool> entry{{}, false};
    try {
      entry.first = parse_tilings(text, &entry.second);
      for (const Tiling& t : entry.first) {
        if (t.kind == Tiling::Kind::tiled && t.num_devices() > kMaxPartitions) {
          throw ParseError("more than " + std::to_string(kMaxPartitions) + " devices");
        }
      }
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      in.fail_at(text.data(), e.message());
    }
    return parsed.emplace(text, std::move(entry)).first->second;
  }

  std::vector<TensorSharding> read_sdy(const PendingSharding& p, std::size_t leaves) {
    std::vector<TensorSharding> out;
    try {
      if (p.sdy.find("sharding_per_value") != std::string::npos) {
        out = parse_sdy_sharding_per_value(p.sdy, table);
      } else {
        out.push_back(parse_sdy_sharding(p.sdy, table));
      }
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      in.fail_at(p.sdy_at.data(), std::string("in xla.sdy.sharding: ") + e.message());
    }
    if (out.size() == 1 && leaves > 1) out.assign(leaves, out[0]);
    // Exporters copy the list of a call to the elements that are taken from its results.
    const Instruction& i = *p.instruction;
    if (i.is(Opcode::get_tuple_element) && leaves == 1 && out.size() > 1 &&
        flatten(i.operand(0)->shape).size() == out.size() &&
        i.operand(0)->shape.elements.size() == out.size()) {
      const auto at = std::size_t(i.get<GetTupleElementAttrs>().index);
      if (at < out.size()) out = {out[at]};
    }
    if (out.size() != leaves) {
      in.fail_at(p.sdy_at.data(), "xla.sdy.sharding has " + std::to_string(out.size()) +
                                      " shardings and " + p.instruction->name + " has " +
                                      std::to_string(leaves) + " values");
    }
    return out;
  }

  /// Tilings of fewer devices than there are have meshes of those alone.
  std::vector<TensorSharding> axes_of(const std::vector<Tiling>& tilings,
                                      const std::vector<std::int64_t>& ranks, std::int64_t devices,
                                      const MeshRef& common) {
    std::map<std::int64_t, std::vector<std::size_t>> by_count;
    for (std::size_t n = 0; n < tilings.size(); ++n) {
      const bool tiled = tilings[n].kind == Tiling::Kind::tiled;
      by_count[tiled ? tilings[n].num_devices() : devices].push_back(n);
    }
    std::vector<TensorSharding> out(tilings.size());
    for (const auto& [count, list] : by_count) {
      MeshRef preferred = common;
      for (const auto& [name, mesh] : table) {
        if (count < devices && mesh->num_devices() == count) preferred = mesh;
      }
      std::vector<Tiling> some;
      std::vector<std::int64_t> some_ranks;
      for (const std::size_t n : list) {
        some.push_back(tilings[n]);
        some_ranks.push_back(ranks[n]);
      }
      const auto axes = from_tilings(some, some_ranks, count, preferred);
      for (std::size_t k = 0; k < list.size(); ++k) out[list[k]] = axes[k];
    }
    return out;
  }

  void check_ranks(const PendingSharding& p, const std::vector<Shape>& leaves) {
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      const TensorSharding& s = p.instruction->sharding[n];
      if (s.kind != TensorSharding::Kind::axes) continue;
      std::string_view at = p.tiling.empty() ? p.sdy_at : p.tiling;
      if (!leaves[n].is_array() && !(s.replicated.empty() && s.unreduced.empty())) {
        in.fail_at(at.data(), "a sharding with replicated or unreduced axes on " +
                                  p.instruction->name + ", which is " + leaves[n].to_string());
      }
      if (s.rank() == leaves[n].rank()) continue;
      in.fail_at(at.data(), "a sharding of rank " + std::to_string(s.rank()) + " on " +
                                p.instruction->name + ", which is " + leaves[n].to_string());
    }
  }
};

void raise(std::int64_t* count, std::int64_t to) { *count = std::max(*count, to); }

/// The header's number, else the greatest that a sharding needs. The module's own number stays as
/// the header has it: texts of programs that aren't partitioned don't have one.
std::int64_t count_devices(Resolver& r, const std::vector<PendingSharding>& pending) {
  const std::int64_t partitions = r.module->num_partitions;
  std::int64_t devices = partitions;
  for (const auto& [name, mesh] : r.table) raise(&devices, mesh->num_devices());
  for (const PendingSharding& p : pending) {
    if (p.tiling.empty()) continue;
    for (const Tiling& t : r.tilings_of(p.tiling).first) {
      std::int64_t n = t.kind == Tiling::Kind::tiled     ? t.num_devices()
                       : t.kind == Tiling::Kind::maximal ? t.device + 1
                                                         : 1;
      if (n > partitions && partitions > 1) {
        r.in.fail_at(p.tiling.data(), "a sharding over " + std::to_string(n) +
                                          " devices in a module of " + std::to_string(partitions) +
                                          " partitions");
      }
      raise(&devices, std::min(n, kMaxPartitions));
    }
  }
  return partitions > 1 ? std::min(devices, partitions) : devices;
}

/// The mesh that shardings have in common, refined for all of them.
struct CommonMesh {
  MeshRef mesh;
  bool is_one = true;  ///< false: the shardings are on meshes that differ

  void join(const MeshRef& other) {
    if (other == nullptr) return;
    if (mesh == nullptr) {
      mesh = other;
      return;
    }
    const MeshRef both = same_mesh(mesh, other) ? common_refinement(mesh, other) : nullptr;
    if (both == nullptr) {
      is_one = false;
    } else {
      mesh = both;
    }
  }
};

}  // namespace

MeshTable resolve_shardings(HloLexer& in, Module* module,
                            const std::vector<PendingSharding>& pending,
                            std::string_view sdy_meshes, std::string_view meshes_at,
                            const ReadMesh& read_mesh) {
  Resolver r{in, module, {}, {}};
  if (!sdy_meshes.empty()) r.table = read_meshes(in, sdy_meshes, meshes_at, read_mesh);

  const std::int64_t devices = count_devices(r, pending);

  // Axes by name first: what they say wins, and their mesh is the one that tilings should use.
  CommonMesh common;
  std::vector<Tiling> tilings;
  std::vector<std::int64_t> ranks;
  // Position of a tiling for a rank; texts repeat often.
  std::map<std::pair<std::string_view, std::int64_t>, std::size_t> seen;
  std::vector<std::pair<const PendingSharding*, std::vector<std::size_t>>> tiled;
  for (const PendingSharding& p : pending) {
    std::vector<Shape> leaves = flatten(p.instruction->shape);
    if (!p.sdy.empty()) {
      p.instruction->sharding = r.read_sdy(p, leaves.size());
      for (const TensorSharding& s : p.instruction->sharding) common.join(s.mesh);
      r.check_ranks(p, leaves);
      continue;
    }
    const auto& [parsed, is_tuple] = r.tilings_of(p.tiling);
    // An empty tuple has no values, and its text one sharding.
    if (leaves.empty()) continue;
    bool single = parsed.size() == 1 && (!is_tuple || leaves.size() == 1);
    if (!single && parsed.size() != leaves.size()) {
      in.fail_at(p.tiling.data(), std::to_string(parsed.size()) + " shardings for the " +
                                      std::to_string(leaves.size()) + " values of " +
                                      p.instruction->name);
    }
    auto& slots = tiled.emplace_back(&p, std::vector<std::size_t>{}).second;
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      const Tiling& t = parsed[single ? 0 : n];
      if (t.kind == Tiling::Kind::tiled && t.rank() != leaves[n].rank()) {
        in.fail_at(p.tiling.data(), "sharding " + t.to_string() + " has rank " +
                                        std::to_string(t.rank()) + " and " + p.instruction->name +
                                        " is " + leaves[n].to_string());
      }
      // Several leaves of one text differ, so that only single ones share a slot.
      auto key = std::pair(p.tiling, leaves[n].rank());
      auto it = single ? seen.find(key) : seen.end();
      if (it != seen.end()) {
        slots.push_back(it->second);
        continue;
      }
      if (single) seen.emplace(key, tilings.size());
      slots.push_back(tilings.size());
      tilings.push_back(t);
      ranks.push_back(leaves[n].rank());
    }
  }
  if (common.mesh == nullptr && r.table.size() == 1) common.mesh = r.table.begin()->second;
  if (!tilings.empty()) {
    std::vector<TensorSharding> axes;
    try {
      axes = r.axes_of(tilings, ranks, devices, common.is_one ? common.mesh : nullptr);
    } catch (const ParseError&) {
      throw;
    } catch (const ShardingError& e) {
      in.fail_at(tiled.front().first->tiling.data(), e.message());
    }
    for (const auto& [p, slots] : tiled) {
      for (std::size_t slot : slots) {
        p->instruction->sharding.push_back(axes[slot]);
        common.join(axes[slot].mesh);
      }
    }
  }
  if (common.is_one && common.mesh != nullptr) {
    for (const PendingSharding& p : pending) {
      for (TensorSharding& s : p.instruction->sharding) {
        if (s.kind == TensorSharding::Kind::axes) s = s.on(common.mesh);
      }
    }
    module->mesh = common.mesh;
  }
  return std::move(r.table);
}

}  // namespace tessera::ir
