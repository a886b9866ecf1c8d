// SPDX-License-Identifier: Apache-2.0
// What Shardy's verifier refuses: collectives that don't lead from one sharding to the other, axes
// that a manual computation has bound, sharding rules that don't fit.
#include <algorithm>
#include <map>

#include "src/ir/custom_calls/custom_call.h"
#include "src/sharding/axes/axis_refs.h"
#include "src/text/read/reader.h"

namespace tessera::text {
namespace {

/// The names in double quotes, without those of a mesh that is written in place.
std::vector<std::string> quoted_names(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 5) == "mesh<") {
      at = std::min(text.find('>', at), text.size());
    } else if (text[at] == '"') {
      const std::size_t end = text.find('"', at + 1);
      if (end == std::string_view::npos) break;
      out.emplace_back(text.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return out;
}

/// The axes that a collective names: for each dim or, in one list, for all; of an all-to-all also
/// from which dim to which they move.
struct CollectiveAxes {
  struct Move {
    std::int64_t from, to;
  };
  NamedAxesSharding lists;
  std::vector<Move> moves;
};

CollectiveAxes parse_axes(std::string_view text) {
  // Behind `#sdy.list_of_axis_ref_lists<` in the generic form.
  const std::size_t open = text.find_first_of("[{");
  CollectiveAxes out;
  if (open == std::string_view::npos) return out;
  text = text.substr(open, text.find_last_of("]}") + 1 - open);
  TextCursor in(text, "axes");
  const auto list = [&] {
    out.lists.dims.emplace_back().axes = parse_axis_list(in, nullptr, false);
    if (!in.accept(":")) return;
    const std::int64_t from = in.integer();
    in.expect("->");
    out.moves.push_back({from, in.integer()});
  };
  if (in.accept("[")) {
    if (!in.accept("]")) {
      do {
        list();
      } while (in.accept(","));
      in.expect("]");
    }
  } else {
    list();
  }
  if (!in.at_end()) in.fail("nothing may follow");
  return out;
}

bool overlap(const IndexList& a, const IndexList& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

IndexList joined(IndexList a, const IndexList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

IndexList sorted(IndexList a) {
  std::sort(a.begin(), a.end());
  return a;
}

/// Both sides of a collective and its axes, on one mesh.
struct Sides {
  TensorSharding from, to, axes;
  std::vector<CollectiveAxes::Move> moves;

  std::string name_of(const IndexList& list) const {
    TensorSharding s = TensorSharding::replicated_on(from.mesh, 1);
    s.dims[0].axes = list;
    return s.to_spec_string();
  }
  std::string mismatch(std::int64_t dim, const IndexList& expected) const {
    return "gives dim " + std::to_string(dim) + " as " + name_of(expected) +
           ", and its out_sharding has " + name_of(to.dims[std::size_t(dim)].axes);
  }
};

// Each of these gives what is wrong, or nothing.

/// The axes leave the end of each dim.
std::string check_gather(const Sides& s) {
  for (std::size_t d = 0; d < s.to.dims.size(); ++d) {
    const IndexList &before = s.from.dims[d].axes, &gathered = s.axes.dims[d].axes;
    const std::size_t kept = before.size() - std::min(before.size(), gathered.size());
    if (gathered.size() > before.size() ||
        !std::equal(gathered.begin(), gathered.end(), before.begin() + std::ptrdiff_t(kept))) {
      return "gathers dim " + std::to_string(d) + " over " + s.name_of(gathered) +
             ", which its operand's " + s.name_of(before) + " doesn't end with";
    }
    const IndexList rest(before.begin(), before.begin() + std::ptrdiff_t(kept));
    if (rest != s.to.dims[d].axes) return s.mismatch(std::int64_t(d), rest);
  }
  return {};
}

/// The axes come behind those of each dim.
std::string check_slice(const Sides& s) {
  for (std::size_t d = 0; d < s.to.dims.size(); ++d) {
    const IndexList expected = joined(s.from.dims[d].axes, s.axes.dims[d].axes);
    if (expected != s.to.dims[d].axes) return s.mismatch(std::int64_t(d), expected);
  }
  return {};
}

std::string check_all_to_all(const Sides& s) {
  if (s.moves.empty()) return "moves no axes";
  const auto rank = std::int64_t(s.to.dims.size());
  std::vector<bool> seen(std::size_t(rank), false);
  Sides after = s;
  std::int64_t last = -1;
  for (std::size_t n = 0; n < s.moves.size(); ++n) {
    for (const std::int64_t dim : {s.moves[n].from, s.moves[n].to}) {
      if (dim >= rank) {
        return "moves axes of dim " + std::to_string(dim) + " of an array of rank " +
               std::to_string(rank);
      }
      if (seen[std::size_t(dim)]) return "names dim " + std::to_string(dim) + " twice";
      seen[std::size_t(dim)] = true;
    }
    if (s.moves[n].from <= last) return "must name the dims that axes leave in ascending order";
    last = s.moves[n].from;
    const IndexList& moved = s.axes.dims[n].axes;
    IndexList& source = after.from.dims[std::size_t(s.moves[n].from)].axes;
    if (moved.size() > source.size() ||
        !std::equal(moved.rbegin(), moved.rend(), source.rbegin())) {
      return "moves " + s.name_of(moved) + " from dim " + std::to_string(s.moves[n].from) +
             ", whose " + s.name_of(source) + " doesn't end with them";
    }
    source.resize(source.size() - moved.size());
    IndexList& target = after.from.dims[std::size_t(s.moves[n].to)].axes;
    target = joined(target, moved);
  }
  for (std::int64_t d = 0; d < rank; ++d) {
    const IndexList& expected = after.from.dims[std::size_t(d)].axes;
    if (expected != s.to.dims[std::size_t(d)].axes) return s.mismatch(d, expected);
  }
  return {};
}

std::string check_permute(const TensorSharding& from, const TensorSharding& to) {
  for (std::int64_t d = 0; d < to.rank(); ++d) {
    if (from.shards(d) == to.shards(d)) continue;
    return "takes dim " + std::to_string(d) + " from " + std::to_string(from.shards(d)) +
           " shards to " + std::to_string(to.shards(d)) + "; it must keep their number";
  }
  return {};
}

std::string same_dims(const Sides& s) {
  for (std::size_t d = 0; d < s.to.dims.size(); ++d) {
    if (s.from.dims[d].axes != s.to.dims[d].axes) {
      return s.mismatch(std::int64_t(d), s.from.dims[d].axes);
    }
  }
  return {};
}

std::string check_all_reduce(const Sides& s) {
  const IndexList& axes = s.axes.dims[0].axes;
  if (std::string wrong = same_dims(s); !wrong.empty()) return wrong;
  for (const DimSharding& d : s.from.dims) {
    if (overlap(axes, d.axes)) return "reduces over axes that split its operand";
  }
  if (overlap(axes, s.from.replicated)) return "reduces over axes that its operand has replicated";
  if (overlap(axes, s.to.unreduced)) return "has axes that it reduces over as unreduced ones";
  for (const int a : s.to.unreduced) {
    if (!overlap({a}, s.from.unreduced)) {
      return "has the unreduced axis " + s.name_of({a}) + ", and its operand hasn't";
    }
  }
  return {};
}

std::string check_unreduced_sum(const Sides& s) {
  IndexList expected = s.from.unreduced;
  for (const DimSharding& d : s.axes.dims) expected = joined(expected, d.axes);
  if (sorted(expected) == sorted(s.to.unreduced)) return {};
  return "makes " + s.name_of(sorted(expected)) + " unreduced, and its out_sharding has " +
         s.name_of(sorted(s.to.unreduced));
}

std::string check_replicated_to_unreduced(const Sides& s) {
  const IndexList& axes = s.axes.dims[0].axes;
  if (axes.empty()) return "names no axes";
  if (std::string wrong = same_dims(s); !wrong.empty()) return wrong;
  for (const DimSharding& d : s.from.dims) {
    if (overlap(axes, d.axes)) return "names axes that split its operand";
  }
  if (overlap(axes, s.from.unreduced)) return "names axes over which its operand is unreduced";
  return check_unreduced_sum(s);
}

/// Its axes aren't of single dims.
bool is_one_list(std::string_view name) {
  return name == "sdy.all_reduce" || name == "sdy.replicated_to_unreduced";
}

std::string check_sides(std::string_view name, const Sides& s) {
  const std::size_t lists = s.axes.dims.size();
  if (name == "sdy.all_to_all") return check_all_to_all(s);
  if (is_one_list(name) ? lists != 1 : lists != s.to.dims.size()) {
    return "names axes of " + std::to_string(lists) + " dims; the array has " +
           std::to_string(s.to.dims.size());
  }
  if (name == "sdy.all_reduce") return check_all_reduce(s);
  if (name == "sdy.replicated_to_unreduced") return check_replicated_to_unreduced(s);
  if (name == "sdy.all_slice" || name == "sdy.reduce_scatter") return check_slice(s);
  std::string wrong = check_gather(s);
  if (wrong.empty() && name == "sdy.sharded_to_unreduced") wrong = check_unreduced_sum(s);
  return wrong;
}

void add_leaves(const Shape& shape, std::vector<Shape>* out) {
  for (Shape& leaf : flatten(shape)) out->push_back(std::move(leaf));
}

/// Shardy's number of a factor: of i to z, and of z_1, z_2 and so on; -1 if it is none.
std::int64_t factor_number(std::string_view symbol) {
  constexpr std::int64_t kLetters = 'z' - 'i' + 1;
  if (symbol.size() == 1 && symbol[0] >= 'i' && symbol[0] <= 'z') return symbol[0] - 'i';
  if (!symbol.starts_with("z_") || symbol.size() < 3 || symbol.size() > 8 || symbol[2] == '0') {
    return -1;
  }
  std::int64_t n = 0;
  for (const char c : symbol.substr(2)) {
    if (!is_decimal(c)) return -1;
    n = n * 10 + (c - '0');
  }
  return kLetters - 1 + n;
}

/// Each function gives what is wrong, or nothing.
struct RuleCheck {
  const ir::FactorRuleSpec& spec;
  std::string_view text;

  /// The sizes stand in the order of the symbols, which start at i.
  std::string symbols() const {
    for (const std::string& name : spec.factor_names) {
      if (factor_number(name) >= 0) continue;
      return "has the factor '" + name + "'; valid: i to z, then z_1, z_2 and so on";
    }
    std::size_t at = text.find('{');
    const std::size_t end = std::min(text.find('}'), text.size());
    for (std::int64_t n = 0; at < end; ++n) {
      std::size_t first = at + 1;
      while (first < end && text[first] == ' ') ++first;
      std::size_t last = first;
      while (last < end && is_id_char(text[last])) ++last;
      if (last > first && factor_number(text.substr(first, last - first)) != n) {
        return "has the size of '" + std::string(text.substr(first, last - first)) +
               "' as number " + std::to_string(n + 1) +
               "; the sizes stand in the order i, j, k and so on, without gaps";
      }
      at = std::min(text.find(',', last), end);
    }
    return {};
  }

  std::string tensors(const std::vector<std::vector<IndexList>>& sides,
                      const std::vector<Shape>& shapes, const char* what) const {
    if (sides.size() != shapes.size()) {
      return "is for " + std::to_string(sides.size()) + " " + what + "s; there are " +
             std::to_string(shapes.size());
    }
    if (sides.empty()) return std::string("has no ") + what + "s; it needs at least one";
    for (std::size_t t = 0; t < sides.size(); ++t) {
      const std::string name = std::string(what) + " " + std::to_string(t);
      if (shapes[t].is_array() && std::int64_t(sides[t].size()) != shapes[t].rank()) {
        return "has " + std::to_string(sides[t].size()) + " dims for " + name + ", which is " +
               mlir_type(shapes[t]);
      }
      IndexList seen;
      for (const IndexList& dim : sides[t]) {
        if (dim.empty()) return "has a dim of " + name + " without a factor";
        for (const int f : dim) {
          const std::string& symbol = spec.factor_names[std::size_t(f)];
          if (overlap({f}, seen)) return "names the factor " + symbol + " twice for " + name;
          seen.push_back(f);
          if (dim.size() > 1 && spec.factor_sizes[std::size_t(f)] == 1) {
            return "has the factor " + symbol + " of size 1 beside others in a dim of " + name;
          }
        }
      }
    }
    return {};
  }

  bool has(const std::vector<std::vector<IndexList>>& sides, int factor) const {
    for (const auto& tensor : sides) {
      for (const IndexList& dim : tensor) {
        if (overlap({factor}, dim)) return true;
      }
    }
    return false;
  }

  std::string lists() const {
    std::vector<int> listed(spec.factor_names.size(), 0);
    for (const IndexList* list :
         {&spec.reduction, &spec.need_replication, &spec.permutation, &spec.blocked}) {
      std::int64_t last = -1;
      // A factor of any kind may be blocked.
      if (list == &spec.blocked) std::fill(listed.begin(), listed.end(), 0);
      for (const int f : *list) {
        const std::string& symbol = spec.factor_names[std::size_t(f)];
        if (listed[std::size_t(f)]++ > 0) return "lists the factor " + symbol + " twice";
        if (factor_number(symbol) < last) return "lists factors out of order";
        last = factor_number(symbol);
      }
    }
    for (std::size_t f = 0; f < spec.factor_names.size(); ++f) {
      const bool in = has(spec.operands, int(f)), out = has(spec.results, int(f));
      if (!in && !out) return "has a factor " + spec.factor_names[f] + " that no dim has";
      if (out && overlap({int(f)}, spec.reduction)) {
        return "reduces over " + spec.factor_names[f] + ", which a result has";
      }
    }
    return {};
  }
};

/// Of an array; null if none is known. Those of a tuple's elements stand at what gives the tuple.
const TensorSharding* sharding_of(const ir::Instruction& i) {
  if (i.sharding.size() == 1 && i.shape.is_array()) return &i.sharding[0];
  if (!i.is(ir::Opcode::get_tuple_element) || !i.sharding.empty()) return nullptr;
  const auto n = std::size_t(i.get<ir::GetTupleElementAttrs>().index);
  const ir::Instruction& tuple = *i.operand(0);
  const bool of_each = tuple.sharding.size() == tuple.shape.elements.size();
  return of_each && i.shape.is_array() ? &tuple.sharding[n] : nullptr;
}

bool same_axes(const MeshRef& a, const MeshRef& b) {
  auto plain = std::make_shared<LogicalMesh>(*a);
  plain->device_ids = b->device_ids;
  return same_mesh(plain, b);
}

}  // namespace

Reader::BoundAxes::BoundAxes(Reader& reader, const Operation& op)
    : reader_(reader), before_(reader.bound_axes_.size()), outer_(reader.manual_scope_) {
  if (op.name != "sdy.manual_computation") return;
  reader.manual_scope_ = ++reader.manual_scopes_;
  const Attribute* axes = op.find("manual_axes");
  if (axes == nullptr) return;
  for (std::string& name : quoted_names(reader.expanded(axes->value))) {
    auto& bound = reader.bound_axes_;
    if (std::find(bound.begin(), bound.end(), name) != bound.end()) {
      reader.in_.fail_at(axes->value.data(), "axis \"" + name +
                                                 "\" is manual already in a manual computation "
                                                 "around this one");
    }
    bound.push_back(std::move(name));
  }
}

void Reader::check_bound_axes(std::string_view sharding, const char* at) {
  if (bound_axes_.empty()) return;
  for (const std::string& name : quoted_names(sharding)) {
    if (std::find(bound_axes_.begin(), bound_axes_.end(), name) == bound_axes_.end()) continue;
    in_.fail_at(at, "axis \"" + name +
                        "\" is manual in a manual computation around this sharding, which can't "
                        "split over it; valid: axes that aren't manual");
  }
}

void Reader::check_sharding_groups() {
  std::map<int, const SdyRecords::GroupMember*> first;
  for (const SdyRecords::GroupMember& m : sdy_.groups) {
    const SdyRecords::GroupMember& f = *first.try_emplace(m.group, &m).first->second;
    const std::string what = "sharding group " + std::to_string(m.group);
    if (f.value->shape.dims != m.value->shape.dims) {
      in_.fail_at(m.at, what + " has " + mlir_type(f.value->shape) + " and " +
                            mlir_type(m.value->shape) + "; values of a group have one shape");
    }
    if (f.scope != m.scope) {
      in_.fail_at(m.at, what +
                            " has values inside and outside of a manual computation, which can't "
                            "be sharded alike");
    }
  }
}

std::string Reader::named_mesh(const ir::Instruction* i) const {
  for (const ir::PendingSharding& p : pending_) {
    if (p.instruction != i) continue;
    const std::size_t at = p.sdy.find('@');
    if (at == std::string::npos) return {};
    return p.sdy.substr(at + 1, p.sdy.find_first_of(",> ", at) - at - 1);
  }
  return {};
}

void Reader::check_sdy_collectives() {
  for (const SdyRecords::Collective& c : sdy_.collectives) check_sdy_collective(c);
}

void Reader::check_sdy_collective(const SdyRecords::Collective& c) {
  const auto fail = [&](const std::string& what) {
    in_.fail_at(c.at, std::string(c.name) + " " + what);
  };
  const TensorSharding& to = c.result->sharding.at(0);
  if (to.kind != TensorSharding::Kind::axes || !to.mesh) return;
  TensorSharding from = TensorSharding::replicated_on(to.mesh, to.rank());
  const bool permutes = c.name == "sdy.collective_permute";
  if (c.operand->sharding.size() == 1) {
    from = c.operand->sharding[0];
    if (from.kind != TensorSharding::Kind::axes || !from.mesh) return;
  } else if (c.of_argument) {
    return;
  } else if (c.name != "sdy.all_slice" && c.name != "sdy.all_reduce" &&
             c.name != "sdy.reduce_scatter") {
    fail("needs an operand with a sharding");
  }
  if (permutes) {
    if (!same_axes(from.mesh, to.mesh)) {
      fail("goes from mesh @" + from.mesh->name + " to mesh @" + to.mesh->name +
           ", which has other axes");
    }
    const std::string before = named_mesh(c.operand), after = named_mesh(c.result);
    if (before != after && from.mesh->device_ids == to.mesh->device_ids) {
      fail("goes from mesh @" + before + " to mesh @" + after +
           ", which has the same devices in the same order");
    }
    if (const std::string wrong = check_permute(from, to); !wrong.empty()) fail(wrong);
    return;
  }
  if (!same_mesh(from.mesh, to.mesh)) {
    fail("goes from mesh @" + from.mesh->name + " to mesh @" + to.mesh->name +
         "; both must be the same");
  }
  const MeshRef both = common_refinement(from.mesh, to.mesh);
  if (!both) return;
  Sides s;
  try {
    CollectiveAxes named = parse_axes(c.axes);
    check_axis_forms(named.lists, *both);
    if (is_one_list(c.name) && named.lists.dims.size() == 1) {
      // As of replicated axes: in the order of the mesh.
      NamedAxesSharding ordered;
      ordered.replicated = named.lists.dims[0].axes;
      check_axis_forms(ordered, *both);
    }
    s.axes = resolve_axes(named.lists, both);
    s.moves = std::move(named.moves);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    fail("has axes that are not valid: " + e.message());
  }
  s.from = from.on(s.axes.mesh);
  s.to = to.on(s.axes.mesh);
  if (const std::string wrong = check_sides(c.name, s); !wrong.empty()) fail(wrong);
  if (c.name.ends_with("_to_unreduced") && to.reduction != Reduction::sum) {
    fail(std::string("gives partial sums, and its out_sharding has unreduced=") +
         to_string(to.reduction));
  }
  if (c.name != "sdy.all_reduce" && c.name != "sdy.reduce_scatter") return;
  for (const int a : s.from.unreduced) {
    if (overlap({a}, s.to.unreduced) || from.reduction == c.reduction) continue;
    fail(std::string("joins parts by ") + to_string(c.reduction) +
         ", and its operand has unreduced=" + to_string(from.reduction) + " over " +
         s.name_of({a}));
  }
}

void Reader::check_kinds_kept() {
  for (const SdyRecords::Resharded& r : sdy_.resharded) {
    const TensorSharding *before = sharding_of(*r.operand), *after = sharding_of(*r.result);
    if (before == nullptr || after == nullptr) continue;
    const TensorSharding &from = *before, &to = *after;
    if (from.unreduced.empty() || to.unreduced.empty() || from.reduction == to.reduction) continue;
    if (!same_mesh(from.mesh, to.mesh)) continue;
    const MeshRef both = common_refinement(from.mesh, to.mesh);
    if (!both || !overlap(from.on(both).unreduced, to.on(both).unreduced)) continue;
    const std::string kind = to_string(from.reduction);
    in_.fail_at(r.at, std::string(r.name) + " goes from unreduced=" + kind +
                          " to unreduced=" + to_string(to.reduction) +
                          " along an axis that stays unreduced; the kind must stay, too. Valid: "
                          "unreduced=" +
                          kind + ", or a reshard in between that leaves that axis reduced");
  }
}

void Reader::check_sharding_rule(const Operation& op) {
  const Attribute* rule = op.find("sdy.sharding_rule");
  if (rule == nullptr) return;
  std::vector<Shape> operands, results;
  for (const Shape* s : op.operand_types) add_leaves(*s, &operands);
  for (const Shape* s : op.results) add_leaves(*s, &results);
  const std::string_view text = expanded(rule->value);
  std::string wrong;
  try {
    const ir::FactorRuleSpec spec = ir::parse_sharding_rule(text);
    const RuleCheck check{spec, text};
    for (const std::string& found :
         {check.symbols(), check.tensors(spec.operands, operands, "operand"),
          check.tensors(spec.results, results, "result"), check.lists()}) {
      if (wrong.empty()) wrong = found;
    }
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    in_.fail_at(text.data(), e.message());
  }
  if (!wrong.empty()) in_.fail_at(text.data(), "the sharding rule " + wrong);
}

}  // namespace tessera::text
