// SPDX-License-Identifier: Apache-2.0
// Parses Shardy's text form of meshes and shardings.
#include "src/sharding/axes/sdy_text.h"

#include <algorithm>

#include "src/sharding/axes/axis_refs.h"
#include "src/sharding/axes/text_cursor.h"

namespace tessera {
namespace {

class SdyParser {
 public:
  SdyParser(std::string_view text, const char* what, const MeshTable* meshes, MeshRef only)
      : in_(text, what), meshes_(meshes), only_(std::move(only)) {}

  /// From `<` or `mesh<` on.
  MeshRef mesh(const std::string& name) {
    in_.accept("#sdy.mesh") || in_.accept("mesh");
    in_.expect("<");
    std::vector<std::pair<std::string, std::int64_t>> axes;
    in_.expect("[");
    if (!in_.accept("]")) {
      do {
        std::string axis = in_.quoted('"');
        in_.expect("=");
        axes.emplace_back(std::move(axis), in_.integer());
      } while (in_.accept(","));
      in_.expect("]");
    }
    std::vector<std::int64_t> ids;
    if (in_.accept(",")) {
      in_.expect("device_ids");
      in_.expect("=");
      in_.expect("[");
      if (!in_.accept("]")) {
        do {
          ids.push_back(in_.integer());
        } while (in_.accept(","));
        in_.expect("]");
      }
    }
    in_.expect(">");
    try {
      if (axes.empty() && ids.size() == 1) {
        auto single = std::make_shared<LogicalMesh>();
        single->name = name;
        single->device_ids = ids;  // kept even for device 0: it marks the mesh as a single device
        return single;
      }
      MeshRef made = make_logical_mesh(std::move(axes), ids, name);
      refuse_twice(std::move(ids));
      return made;
    } catch (const ShardingError& e) {
      in_.fail(e.message());
    }
  }

  TensorSharding sharding() {
    in_.accept("#sdy.sharding");
    in_.expect("<");
    MeshRef m;
    std::string name;
    if (in_.accept("@")) {
      name = in_.peek() == '"' ? in_.quoted('"') : in_.word();
      m = find(name);
    } else {
      m = mesh("mesh");
    }
    TensorSharding special;
    if (name == "unknown" && in_.accept(">")) {
      special.kind = TensorSharding::Kind::unknown;
      return special;
    }
    in_.expect(",");
    NamedAxesSharding s;
    in_.expect("[");
    if (!in_.accept("]")) {
      do {
        NamedAxesSharding::Dim d;
        d.axes = axis_list(&d.open);
        if (in_.peek() == 'p') {
          const std::string word = in_.word();
          if (word.size() < 2 || word.size() > 6 ||
              word.find_first_not_of("0123456789", 1) != std::string::npos ||
              (word.size() > 2 && word[1] == '0')) {
            in_.fail("expected a priority such as p1, without leading zeros");
          }
          if (d.axes.empty() && !d.open) in_.fail("a closed dim without axes has no priority");
          d.priority = std::stoi(word.substr(1));
        }
        s.dims.push_back(std::move(d));
      } while (in_.accept(","));
      in_.expect("]");
    }
    bool unreduced = false;
    while (in_.accept(",")) {
      if (s.replicated.empty() && in_.accept("replicated")) {
        in_.expect("=");
        s.replicated = axis_list(nullptr);
      } else if (!unreduced && in_.accept("unreduced")) {
        unreduced = true;
        in_.expect("=");
        if (in_.accept("max")) {
          s.reduction = Reduction::max;
        } else if (in_.accept("min")) {
          s.reduction = Reduction::min;
        } else if (in_.peek() != '{' && !in_.accept("sum")) {
          in_.fail("expected sum, max or min, or the axes as in unreduced={\"x\"}");
        }
        s.unreduced = axis_list(nullptr);
      } else if (in_.accept("manual")) {
        in_.expect("=");
        s.manual = axis_list(nullptr);
      } else {
        in_.fail("expected replicated= or unreduced=");
      }
    }
    in_.expect(">");
    if (m->axes.empty() && m->device_ids.size() == 1) {
      if (!s.dims.empty() || !s.replicated.empty() || !s.unreduced.empty()) {
        in_.fail("its mesh is device " + std::to_string(m->device_ids[0]) +
                 " alone, which has no axes; valid: [] and nothing behind it");
      }
      return TensorSharding::maximal_on(m->device_ids[0]);
    }
    try {
      check_axis_forms(s, *m);
      TensorSharding out = resolve_axes(s, m);
      // What is said without axes in place is said of any mesh.
      if (name == "empty_mesh" || (name.empty() && m->axes.empty())) out.mesh = nullptr;
      return out;
    } catch (const ShardingError& e) {
      in_.fail(e.message());
    }
  }

  std::vector<TensorSharding> per_value() {
    const bool framed = in_.accept("#sdy.sharding_per_value") || in_.peek() == '<';
    if (framed) in_.expect("<");
    std::vector<TensorSharding> out;
    in_.expect("[");
    if (!in_.accept("]")) {
      do {
        out.push_back(sharding());
      } while (in_.accept(","));
      in_.expect("]");
    }
    if (framed) in_.expect(">");
    return out;
  }

  void end() {
    if (!in_.at_end()) in_.fail("nothing may follow");
  }

 private:
  void refuse_twice(std::vector<std::int64_t> ids) {
    // A list of all devices, as nearly all are, need not be sorted to see it.
    std::vector<char> met(ids.size(), 0);
    if (std::all_of(ids.begin(), ids.end(), [&](std::int64_t id) {
          return id >= 0 && id < std::int64_t(met.size()) && !met[std::size_t(id)]++;
        })) {
      return;
    }
    std::sort(ids.begin(), ids.end());
    if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end()) {
      in_.fail("device " + std::to_string(*twice) + " stands twice in device_ids");
    }
  }

  MeshRef find(const std::string& name) {
    constexpr std::string_view maximal = "maximal_mesh_";
    if (only_) return only_;
    if (meshes_ != nullptr) {
      if (const auto it = meshes_->find(name); it != meshes_->end()) return it->second;
    }
    if (name == "empty_mesh" || name == "unknown") return make_logical_mesh({}, {}, name);
    if (name.compare(0, maximal.size(), maximal) == 0 && name.size() > maximal.size() &&
        name.size() < maximal.size() + 10 &&
        name.find_first_not_of("0123456789", maximal.size()) == std::string::npos) {
      auto single = std::make_shared<LogicalMesh>();
      single->name = name;
      single->device_ids = {std::stoll(name.substr(maximal.size()))};
      return single;
    }
    std::string known;
    if (meshes_ != nullptr) {
      for (const auto& [n, m] : *meshes_) known += (known.empty() ? "@" : ", @") + n;
    }
    in_.fail("there is no mesh @" + name + "; there " +
             (known.empty() ? std::string("are none") : "are " + known));
  }

  std::vector<AxisRef> axis_list(bool* open) { return parse_axis_list(in_, open, false); }

  TextCursor in_;
  const MeshTable* meshes_;
  MeshRef only_;
};

}  // namespace

MeshRef parse_sdy_mesh(std::string_view text, const std::string& name) {
  SdyParser p(text, "mesh", nullptr, nullptr);
  MeshRef m = p.mesh(name);
  p.end();
  return m;
}

TensorSharding parse_sdy_sharding(std::string_view text, const MeshTable& meshes) {
  SdyParser p(text, "sharding", &meshes, nullptr);
  TensorSharding s = p.sharding();
  p.end();
  return s;
}

TensorSharding parse_sdy_sharding(std::string_view text, const MeshRef& mesh) {
  SdyParser p(text, "sharding", nullptr, mesh);
  TensorSharding s = p.sharding();
  p.end();
  return s;
}

std::vector<TensorSharding> parse_sdy_sharding_per_value(std::string_view text,
                                                         const MeshTable& meshes) {
  SdyParser p(text, "list of shardings", &meshes, nullptr);
  std::vector<TensorSharding> out = p.per_value();
  p.end();
  return out;
}

}  // namespace tessera
