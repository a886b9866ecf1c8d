// SPDX-License-Identifier: Apache-2.0
// Parses HLO's sharding={...} text.
#include <algorithm>

#include "src/sharding/axes/axis_refs.h"
#include "src/sharding/axes/limits.h"
#include "src/sharding/axes/text_cursor.h"
#include "src/sharding/axes/tiling.h"

namespace tessera {
namespace {

class TilingParser {
 public:
  explicit TilingParser(std::string_view text) : in_(text, "sharding") {}

  std::vector<Tiling> run(bool* is_tuple) {
    std::vector<Tiling> out;
    in_.expect("{");
    const bool tuple = in_.peek() == '{' || in_.peek() == '}';
    if (is_tuple != nullptr) *is_tuple = tuple;
    if (!tuple) {
      out.push_back(body());
    } else if (!in_.accept("}")) {
      do {
        // Long tuples have comments such as /*index=5*/ between their elements.
        if (in_.accept("/*")) {
          while (!in_.accept("*/")) in_.skip_one();
        }
        in_.expect("{");
        out.push_back(body());
      } while (in_.accept(","));
      in_.expect("}");
    }
    if (!in_.at_end()) in_.fail("nothing may follow the sharding");
    return out;
  }

 private:
  /// The rest of a sharding after "{", up to and including "}".
  Tiling body() {
    Tiling t;
    bool has_kind = false;
    bool has_device = false;
    auto set_kind = [&](Tiling::Kind k) {
      if (has_kind) in_.fail("a second kind of sharding");
      has_kind = true;
      t.kind = k;
    };
    while (!in_.accept("}")) {
      if (in_.at_end()) in_.fail("expected '}'");
      if (in_.accept(",")) continue;
      if (in_.accept("replicated")) {
        set_kind(Tiling::Kind::replicated);
      } else if (in_.accept("maximal_mesh")) {
        set_kind(Tiling::Kind::maximal);
        in_.expect("[");
        in_.expect("device_id");
        in_.expect("=");
        t.device = in_.integer();
        in_.expect("]");
        has_device = true;
      } else if (in_.accept("maximal")) {
        set_kind(Tiling::Kind::maximal);
      } else if (in_.accept("device")) {
        in_.expect("=");
        t.device = in_.integer();
        has_device = true;
      } else if (in_.accept("manual")) {
        set_kind(Tiling::Kind::manual);
      } else if (in_.accept("unknown")) {
        set_kind(Tiling::Kind::unknown);
      } else if (in_.accept("unreduced")) {
        set_kind(Tiling::Kind::unreduced);
      } else if (in_.accept("devices")) {
        set_kind(Tiling::Kind::tiled);
        devices(t);
      } else if (in_.accept("mesh")) {
        if (has_kind) in_.fail("a second kind of sharding");
        has_kind = true;
        t = named();
      } else if (in_.accept("last_tile_dim_replicate")) {
        t.subgroups = {Tiling::Subgroup::replicated};
      } else if (in_.accept("last_tile_dims")) {
        in_.expect("=");
        subgroup_kinds(t);
      } else if (in_.accept("metadata")) {
        in_.expect("=");
        in_.skip_braces();
      } else if (in_.accept("shard_as")) {
        t.shard_group = group();
        t.shard_like = false;
      } else if (in_.accept("shard_like")) {
        t.shard_group = group();
        t.shard_like = true;
      } else {
        in_.fail(
            "expected replicated, maximal, manual, unknown, unreduced, devices=[...] or mesh[...]");
      }
    }
    if (!has_kind) in_.fail("no kind of sharding given");
    if ((t.kind == Tiling::Kind::maximal) != has_device) {
      in_.fail(has_device ? "'device' needs 'maximal'" : "'maximal' needs 'device=N'");
    }
    if (!t.subgroups.empty()) {
      if (t.kind != Tiling::Kind::tiled) in_.fail("last tile dims need 'devices=[...]'");
      if (t.subgroups.size() > t.tile.size()) {
        in_.fail(std::to_string(t.subgroups.size()) + " kinds of last tile dims for " +
                 std::to_string(t.tile.size()) + " tile dims");
      }
    }
    return t;
  }

  int group() {
    const std::int64_t g = in_.integer();
    if (g > (std::int64_t(1) << 30)) in_.fail("number of the group too large");
    return int(g);
  }

  Dims list(const char* open, const char* close) {
    Dims out;
    in_.expect(open);
    if (in_.accept(close)) return out;
    do {
      out.push_back(in_.integer());
    } while (in_.accept(","));
    in_.expect(close);
    return out;
  }

  std::int64_t product(const Dims& dims) {
    std::int64_t n = 1;
    for (std::int64_t d : dims) {
      if (d < 1) in_.fail("a dim of size " + std::to_string(d) + " in " + to_string(dims));
      if (__builtin_mul_overflow(n, d, &n) || n > kMaxMeshDevices) {
        in_.fail("too many devices: " + to_string(dims));
      }
    }
    return n;
  }

  /// `[2,4]T(1,0)`
  void iota(std::int64_t count, Dims* reshape, IndexList* perm) {
    *reshape = list("[", "]");
    if (reshape->empty()) in_.fail("'<=' needs dims");
    if (product(*reshape) != count) {
      in_.fail("<=" + to_string(*reshape) + " has " + std::to_string(product(*reshape)) +
               " devices and the tiles " + std::to_string(count));
    }
    if (!in_.accept("T")) return;
    const Dims order = list("(", ")");
    if (order.size() != reshape->size()) {
      in_.fail("T(" + join(order) + ") has " + std::to_string(order.size()) + " entries for the " +
               std::to_string(reshape->size()) + " dims of " + to_string(*reshape));
    }
    Dims sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != std::int64_t(i)) in_.fail("T(" + join(order) + ") is no permutation");
    }
    perm->assign(order.begin(), order.end());
    if (std::is_sorted(perm->begin(), perm->end())) perm->clear();
  }

  void devices(Tiling& t) {
    in_.expect("=");
    t.tile = list("[", "]");
    if (t.tile.empty()) in_.fail("'devices' needs tile dims");
    const std::int64_t count = product(t.tile);
    if (in_.accept("<=")) {
      iota(count, &t.reshape, &t.perm);
      return;
    }
    do {
      t.devices.push_back(in_.integer());
    } while (in_.accept(","));
    if (std::int64_t(t.devices.size()) != count) {
      in_.fail("tiles " + to_string(t.tile) + " need " + std::to_string(count) + " devices and " +
               std::to_string(t.devices.size()) + " are listed");
    }
    Dims sorted = t.devices;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) in_.fail("device " + std::to_string(*twice) + " is listed twice");
  }

  void subgroup_kinds(Tiling& t) {
    in_.expect("{");
    t.subgroups.clear();
    if (in_.accept("}")) return;
    do {
      if (in_.accept("replicated")) {
        t.subgroups.push_back(Tiling::Subgroup::replicated);
      } else if (in_.accept("manual")) {
        t.subgroups.push_back(Tiling::Subgroup::manual);
      } else if (in_.accept("unreduced")) {
        t.subgroups.push_back(Tiling::Subgroup::unreduced);
      } else {
        in_.fail("a last tile dim is replicated, manual or unreduced");
      }
    } while (in_.accept(","));
    in_.expect("}");
  }

  std::vector<AxisRef> axis_list(bool* open) { return parse_axis_list(in_, open, true); }

  /// The form with named axes, after the word "mesh".
  Tiling named() {
    std::vector<std::pair<std::string, std::int64_t>> axes;
    std::int64_t count = 1;
    in_.expect("[");
    if (!in_.accept("]")) {
      do {
        std::string name = in_.quoted(in_.peek() == '"' ? '"' : '\'');
        in_.expect("=");
        axes.emplace_back(std::move(name), in_.integer());
      } while (in_.accept(","));
      in_.expect("]");
    }
    Dims sizes;
    for (const auto& [name, size] : axes) sizes.push_back(size);
    count = product(sizes);
    in_.expect(",");
    std::vector<std::int64_t> ids;
    if (in_.accept("device_ids")) {
      in_.expect("=");
      in_.expect("(");
      if (in_.peek() == '[') {
        Tiling order;
        order.kind = Tiling::Kind::tiled;
        iota(count, &order.reshape, &order.perm);
        ids = order.device_list();
      } else {
        do {
          ids.push_back(in_.integer());
        } while (in_.accept(","));
      }
      in_.expect(")");
      in_.expect(",");
    }
    Tiling simple;
    if (in_.accept("replicated")) return simple;
    if (in_.accept("manual")) {
      simple.kind = Tiling::Kind::manual;
      return simple;
    }
    if (in_.accept("unreduced")) {
      simple.kind = Tiling::Kind::unreduced;
      return simple;
    }
    NamedAxesSharding s;
    in_.expect("[");
    if (!in_.accept("]")) {
      do {
        NamedAxesSharding::Dim d;
        d.axes = axis_list(&d.open);
        s.dims.push_back(std::move(d));
      } while (in_.accept(","));
      in_.expect("]");
    }
    while (in_.accept(",")) {
      if (in_.accept("replicated")) {
        in_.expect("=");
        s.replicated = axis_list(nullptr);
      } else if (in_.accept("unreduced")) {
        in_.expect("=");
        s.unreduced = axis_list(nullptr);
      } else if (in_.accept("manual")) {
        in_.expect("=");
        s.manual = axis_list(nullptr);
      } else if (in_.accept("metadata")) {
        in_.expect("=");
        in_.skip_braces();
      } else {
        in_.fail("expected replicated=, unreduced= or manual=");
      }
    }
    try {
      return to_tiling(resolve_axes(s, make_logical_mesh(std::move(axes), std::move(ids))));
    } catch (const ShardingError& e) {
      in_.fail(e.message());
    }
  }

  TextCursor in_;
};

}  // namespace

std::vector<Tiling> parse_tilings(std::string_view text, bool* is_tuple) {
  return TilingParser(text).run(is_tuple);
}

}  // namespace tessera
