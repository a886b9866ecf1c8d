// SPDX-License-Identifier: Apache-2.0
// Operations of sdy that give their operand: in the plain text they are nothing.
#pragma once

#include <string>
#include <vector>

#include "tests/support/random_sdy_ops.h"

namespace tessera::testing::sdy_text {

class FormWriter : public OperationWriter {
 public:
  using OperationWriter::OperationWriter;

 protected:
  /// `sdy.reshard %0 <@mesh, [{}]> : t`, or `"sdy.reshard"(%0) <{sharding = ...}> : (t) -> t`.
  struct Form {
    std::string name, before, after;  ///< of the operand
    std::string properties;           ///< of the generic form; "-": there is none
  };

  Value passed(const Value& x, const Form& form, std::optional<SdySharding> said = std::nullopt) {
    Value v = x;
    v.annotated = fresh();
    v.said = std::move(said);
    const std::string type = type_of(x);
    if (form.properties != "-" && dice_.chance(0.15)) {
      text_[0] += v.annotated + " = \"" + form.name + "\"(" + x.annotated + ") " +
                  (form.properties.empty() ? "" : "<{" + form.properties + "}> ") + ": (" + type +
                  ") -> " + type + "\n";
    } else {
      text_[0] += v.annotated + " = " + form.name + " " + form.before + x.annotated + form.after +
                  " : " + type + "\n";
    }
    return v;
  }

  Value constrained(const Value& x, const char* name, SdySharding s) {
    s = fit(x, std::move(s));
    const std::string text = meshes_.text(s);
    if (dice_.chance(0.05)) {
      return passed(x, {name, "", " " + sharding_attribute(s), "-"}, s);
    }
    return passed(x, {name, "", " " + text, "sharding = #sdy.sharding" + text}, s);
  }
  Value constraint(const Value& x) {
    return constrained(x, "sdy.sharding_constraint", any(x.dims));
  }
  Value reshard(const Value& x, SdySharding to) {
    return constrained(x, "sdy.reshard", std::move(to));
  }

  /// An edge must be the only one to read its operand, which no operation of sdy may give.
  Value edge(const Value& x, bool of_function = false) {
    Form form{of_function ? "sdy.func_data_flow_edge" : "sdy.data_flow_edge", "", "", ""};
    std::optional<SdySharding> said = x.said;
    if (dice_.chance(0.5)) {
      said = fit(x, any(x.dims));
      const std::string text = meshes_.text(*said);
      form.after = " sharding=" + text;
      form.properties = "sharding = #sdy.sharding" + text;
    }
    return passed(x, form, said);
  }
  Value maybe_edge(const Value& x, bool of_function = false) {
    return dice_.chance(0.15) ? edge(x, of_function) : x;
  }
  Value own_copy(const Value& x) {
    Value v = x;
    v.annotated = fresh();
    v.said = std::nullopt;
    text_[0] += v.annotated + " = stablehlo.reshape " + x.annotated + " : (" + type_of(x) +
                ") -> " + type_of(x) + "\n";
    return v;
  }

  Value barrier(const Value& x) {
    static const char* const kDirections[] = {"NONE", "FORWARD", "BACKWARD"};
    const auto d = std::size_t(dice_.below(3));
    return passed(
        x, {"sdy.propagation_barrier", "", std::string(" allowed_direction=") + kDirections[d],
            "allowed_direction = " + std::to_string(d) + " : i32"});
  }

  /// Two or three values of one shape; often in a group that has others already.
  Value grouped(const Values& values) {
    const Value x = pick(values);
    Values members{x, alike(values, x)};
    if (dice_.chance(0.3)) members.push_back(alike(values, x));
    int id = next_group_;
    std::vector<int> known;
    for (const Group& g : groups_) {
      if (g.dims == x.dims && g.scope == scope_.number) known.push_back(g.id);
    }
    if (!known.empty() && dice_.chance(0.4)) {
      id = dice_.pick(known);
    } else {
      groups_.push_back({next_group_++, scope_.number, x.dims});
    }
    for (const Value& member : members) {
      text_[0] += "sdy.sharding_group " + member.annotated + " group_id=" + std::to_string(id) +
                  " : " + type_of(x) + "\n";
    }
    return elementwise(values);
  }

  /// -x, by a call with a rule.
  Value custom_call(const Value& x) {
    if (x.dims.empty() || x.element != "f32") return elementwise({x});
    std::string factors, sizes;
    std::string lists[3];  // each factor in one of two lists or none, and maybe in the third
    for (std::size_t d = 0; d < x.dims.size(); ++d) {
      const std::string f(1, char('i' + int(d)));
      factors += (d > 0 ? ", " : "") + f;
      sizes += (d > 0 ? ", " : "") + f + "=" + std::to_string(x.dims[d]);
      const std::int64_t kind = dice_.below(4);
      if (kind < 2) lists[kind] += (lists[kind].empty() ? "" : ", ") + f;
      if (dice_.chance(0.3)) lists[2] += (lists[2].empty() ? "" : ", ") + f;
    }
    std::string rule =
        "#sdy.op_sharding_rule<([" + factors + "])->([" + factors + "]) {" + sizes + "}";
    static const char* const kLists[] = {"need_replication", "permutation", "blocked_propagation"};
    for (std::size_t k = 0; k < 3; ++k) {
      if (!lists[k].empty()) rule += std::string(" ") + kLists[k] + "={" + lists[k] + "}";
    }
    std::vector<SdySharding> said;
    const std::string sharding = attribute({x.dims}, 0.3, &said);
    Value v = x;
    v.annotated = v.plain = fresh();
    v.said = said.empty() ? std::nullopt : std::optional(said[0]);
    line(v.annotated + " = stablehlo.custom_call @sdy_random.negate(" + x.annotated + ") {" +
             sharding + (sharding.empty() ? "" : ", ") + "sdy.sharding_rule = " + rule +
             ", custom>} : (" + tensor(x.dims) + ") -> " + tensor(x.dims),
         v.plain + " = stablehlo.negate " + x.plain + " : " + tensor(x.dims));
    return v;
  }

  Value annotated_pred(const Value& x) override {
    switch (dice_.below(5)) {
      case 0:
        return constraint(x);
      case 1:
        return reshard(x, any(x.dims));
      case 2:
        return barrier(x);
      case 3:
        return edge(own_copy(x));
      default:
        return collective(x);
    }
  }

  Value annotated(const Values& values) {
    const Value x = pick(values);
    if (!scope_.alike.empty() && dice_.chance(0.3)) return all_reduced(x);
    switch (dice_.below(10)) {
      case 0:
      case 1:
        return constraint(x);
      case 2:
        return reshard(x, any(x.dims));
      case 3:
        return barrier(x);
      case 4:
        return edge(own_copy(x));
      case 5:
        return grouped(values);
      case 6:
        return custom_call(x);
      default:
        return collective(x);
    }
  }

  /// In per-device code, over axes along which all devices have the same.
  Value all_reduced(const Value& x) {
    std::vector<int> axes;
    for (const int a : scope_.alike) {
      if (dice_.chance(0.7)) axes.push_back(a);
    }
    const std::vector<std::vector<std::int64_t>> groups = meshes_.groups(scope_.mesh, axes);
    const auto size = std::int64_t(groups[0].size());
    const bool sum = x.bound * double(size) <= kExact && dice_.chance(0.7);
    std::string lists;
    for (const auto& group : groups) lists += (lists.empty() ? "[" : ", [") + listed(group) + "]";
    const std::string scalar = tensor({}, x.element), a = fresh(), b = fresh(), c = fresh();
    Value v = x;
    v.annotated = fresh();
    v.said = std::nullopt;
    text_[0] += v.annotated + " = \"stablehlo.all_reduce\"(" + x.annotated +
                ") <{replica_groups = dense<[" + lists + "]> : tensor<" +
                std::to_string(groups.size()) + "x" + std::to_string(size) +
                "xi64>, use_global_device_ids, channel_handle = "
                "#stablehlo.channel_handle<handle = " +
                std::to_string(++channels_) + ", type = 0>}> ({\n^bb0(" + a + ": " + scalar + ", " +
                b + ": " + scalar + "):\n" + c + " = stablehlo." + (sum ? "add " : "maximum ") + a +
                ", " + b + " : " + scalar + "\nstablehlo.return " + c + " : " + scalar +
                "\n}) : (" + type_of(x) + ") -> " + type_of(x) + "\n";
    if (!sum || size == 1) return v;
    v.plain = fresh();
    text_[1] += v.plain + "c = stablehlo.constant " + filled(size, x) + "\n" + v.plain +
                " = stablehlo.multiply " + x.plain + ", " + v.plain + "c : " + type_of(x) + "\n";
    v.bound *= double(size);
    return v;
  }

  // ----- from one sharding to another by the operation that leads there

  std::string per_dim(int mesh, const std::vector<SdyAxes>& lists) const {
    std::string out = "[";
    for (std::size_t d = 0; d < lists.size(); ++d) {
      out += (d > 0 ? ", {" : "{") + meshes_.axes(mesh, lists[d]) + "}";
    }
    return out + "]";
  }

  /// A value with that sharding, which may be what an operation gives.
  Value held(const Value& x, const SdySharding& s) {
    if (dice_.chance(0.7)) return reshard(x, s);
    Value v = x;
    v.annotated = v.plain = fresh();
    v.said = s;
    const std::string op = x.element == "i1" ? " = stablehlo.not " : " = stablehlo.negate ";
    line(v.annotated + op + x.annotated + " {sdy.sharding = #sdy.sharding_per_value<[" +
             meshes_.text(s) + "]>} : " + type_of(x),
         v.plain + op + x.plain + " : " + type_of(x));
    return v;
  }

  Value lead(const Value& x, SdySharding from, SdySharding to, const std::string& name,
             const std::string& axes, const std::string& properties) {
    const Value y = held(x, from);
    from.kind = y.said->kind;
    if (!from.unreduced.empty() && !to.unreduced.empty()) to.kind = from.kind;
    std::string before = axes.empty() ? "" : axes + " ";
    std::string more = properties;
    const bool reduces = name == "sdy.all_reduce" || name == "sdy.reduce_scatter";
    if (reduces && from.kind > 0) {
      before = (from.kind == 1 ? "max " : "min ") + before;
      more += "reduction_op = " + std::to_string(from.kind) + " : i32, ";
    }
    const std::string text = meshes_.text(to);
    return passed(y,
                  {name, before, " out_sharding=" + text,
                   more == "-" ? more : more + "out_sharding = #sdy.sharding" + text},
                  to);
  }

  Value collective(const Value& x) {
    SdySharding from = fit(x, meshes_.on_axes(x.dims, scope_));
    from.close();
    switch (x.dims.empty() ? dice_.between(5, 6) : dice_.below(8)) {
      case 0:
        return gathered(x, from, true);
      case 1:
        return gathered(x, from, false);
      case 2:
        return exchanged(x, from);
      case 3:
        return permuted(x, from);
      case 4:
        return scattered(x, from);
      case 5:
        return reduced_over(x, from);
      case 6:
        return made_unreduced(x, from);
      default:
        return sharded_to_unreduced(x, from);
    }
  }

  /// The last ones of each dim, maybe none.
  std::vector<SdyAxes> take_ends(SdySharding* s) {
    std::vector<SdyAxes> out(s->dims.size());
    for (std::size_t d = 0; d < out.size(); ++d) {
      const auto n = dice_.below(std::int64_t(s->dims[d].size()) + 1);
      out[d].assign(s->dims[d].end() - n, s->dims[d].end());
      s->dims[d].resize(s->dims[d].size() - std::size_t(n));
    }
    return out;
  }

  Value gathered(const Value& x, SdySharding from, bool gather) {
    SdySharding to = from;
    const std::string lists = per_dim(from.mesh, take_ends(&to));
    if (!gather) std::swap(from, to);
    const std::string key = gather ? "gathering_axes" : "slicing_axes";
    return lead(x, from, to, gather ? "sdy.all_gather" : "sdy.all_slice", lists,
                key + " = #sdy.list_of_axis_ref_lists<" + lists + ">, ");
  }

  Value exchanged(const Value& x, const SdySharding& from) {
    SdySharding to = from;
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < x.dims.size(); ++d) order.push_back(d);
    meshes_.shuffle(order);
    // The first half gives axes to the second, in ascending order of what gives.
    std::vector<std::pair<std::size_t, std::size_t>> moves;
    for (std::size_t k = 0; k + 1 < order.size(); k += 2) {
      if (!from.dims[order[k]].empty()) moves.emplace_back(order[k], order[k + 1]);
    }
    if (moves.empty()) return constraint(x);
    std::sort(moves.begin(), moves.end());
    std::string text = "[";
    for (const auto& [source, target] : moves) {
      SdyAxes& axes = to.dims[source];
      const auto n = dice_.between(1, std::int64_t(axes.size()));
      const SdyAxes moved(axes.end() - n, axes.end());
      axes.resize(axes.size() - std::size_t(n));
      to.dims[target].insert(to.dims[target].end(), moved.begin(), moved.end());
      text += (text.size() > 1 ? ", {" : "{") + meshes_.axes(from.mesh, moved) +
              "}: " + std::to_string(source) + "->" + std::to_string(target);
    }
    return lead(x, from, to, "sdy.all_to_all", text + "]", "-");
  }

  /// Axes of one size take each other's places, and devices, if there is another order of them.
  Value permuted(const Value& x, const SdySharding& from) {
    SdySharding to = from;
    std::vector<SdyAxis*> places;
    for (SdyAxes& list : to.dims) {
      for (SdyAxis& a : list) places.push_back(&a);
    }
    SdyAxes others = nowhere(from);
    for (SdyAxis& a : others) places.push_back(&a);
    for (std::size_t k = places.size(); k > 1; --k) {
      SdyAxis& other = *places[std::size_t(dice_.below(std::int64_t(k)))];
      if (other.size == places[k - 1]->size) std::swap(other, *places[k - 1]);
    }
    if (scope_.mesh < 0 && dice_.chance(0.5)) to.mesh = meshes_.with_other_order(from.mesh);
    return lead(x, from, to, "sdy.collective_permute", "", "");
  }

  /// Atoms that a sharding says nothing of.
  SdyAxes nowhere(const SdySharding& s) {
    SdyAxes used = s.replicated;
    used.insert(used.end(), s.unreduced.begin(), s.unreduced.end());
    for (const SdyAxes& list : s.dims) used.insert(used.end(), list.begin(), list.end());
    SdyAxes out;
    const std::vector<std::int64_t>& sizes = meshes_.sizes(s.mesh);
    for (int axis = 0; axis < int(sizes.size()); ++axis) {
      if (!scope_.is_free(axis)) continue;
      SdyAxes parts;
      for (const SdyAxis& a : used) {
        if (a.axis == axis) parts.push_back(a);
      }
      // What is between the parts that are used.
      std::int64_t pre = 1;
      for (const SdyAxis& a : SdyMeshes::ordered(parts)) {
        if (a.pre > pre) out.push_back({axis, pre, a.pre / pre});
        pre = a.pre * a.size;
      }
      if (pre < sizes[std::size_t(axis)]) {
        out.push_back({axis, pre, sizes[std::size_t(axis)] / pre});
      }
    }
    return out;
  }

  SdyAxes some(const SdyAxes& of, double likely) {
    SdyAxes out;
    for (const SdyAxis& a : of) {
      if (dice_.chance(likely)) out.push_back(a);
    }
    return out;
  }
  static SdyAxes without(const SdyAxes& all, const SdyAxes& taken) {
    SdyAxes out;
    for (const SdyAxis& a : all) {
      if (std::count(taken.begin(), taken.end(), a) == 0) out.push_back(a);
    }
    return out;
  }

  /// Over unreduced axes, and such as nothing is said of.
  SdyAxes reducible(SdySharding* from) {
    SdyAxes free = nowhere(*from);
    if (from->unreduced.empty()) {
      from->unreduced = some(free, 0.6);
      free = without(free, from->unreduced);
    }
    SdyAxes out = some(from->unreduced, 0.7), more = some(free, 0.2);
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  Value reduced_over(const Value& x, SdySharding from) {
    from = fit(x, from);
    const SdyAxes axes = SdyMeshes::ordered(reducible(&from));
    SdySharding to = from;
    to.unreduced = without(from.unreduced, axes);
    const std::string text = "{" + meshes_.axes(from.mesh, axes) + "}";
    return lead(x, from, to, "sdy.all_reduce", text,
                "reduction_axes = #sdy.axis_ref_list<" + text + ">, ");
  }

  Value scattered(const Value& x, SdySharding from) {
    from = fit(x, from);
    SdyAxes axes = reducible(&from);
    SdySharding to = from;
    to.unreduced = without(from.unreduced, axes);
    std::vector<SdyAxes> lists(x.dims.size());
    meshes_.shuffle(axes);
    for (const SdyAxis& a : axes) {
      const auto d = std::size_t(dice_.below(std::int64_t(lists.size())));
      lists[d].push_back(a);
      to.dims[d].push_back(a);
    }
    const std::string text = per_dim(from.mesh, lists);
    return lead(x, from, to, "sdy.reduce_scatter", text,
                "reduce_scatter_axes = #sdy.list_of_axis_ref_lists<" + text + ">, ");
  }

  /// What gives partial sums can't have its operand as other parts.
  bool may_give_sums(const Value& x, SdySharding* from) {
    if (from->unreduced.empty() || (x.said && !x.said->unreduced.empty()))
      return fit(x, *from).kind == 0;
    from->kind = 0;
    return true;
  }

  Value made_unreduced(const Value& x, SdySharding from) {
    const SdyAxes free = nowhere(from);
    SdyAxes axes = some(free, 0.5);
    if (axes.empty() && !free.empty()) axes.push_back(free[0]);
    if (axes.empty() || !may_give_sums(x, &from)) return constraint(x);
    if (dice_.chance(0.3)) from.replicated.insert(from.replicated.end(), axes.begin(), axes.end());
    SdySharding to = from;
    to.kind = 0;
    to.replicated = without(to.replicated, axes);
    to.unreduced.insert(to.unreduced.end(), axes.begin(), axes.end());
    const std::string text = "{" + meshes_.axes(from.mesh, SdyMeshes::ordered(axes)) + "}";
    return lead(x, from, to, "sdy.replicated_to_unreduced", text,
                "axes = #sdy.axis_ref_list<" + text + ">, ");
  }

  Value sharded_to_unreduced(const Value& x, SdySharding from) {
    SdySharding to = from;
    const std::vector<SdyAxes> lists = take_ends(&to);
    if (!may_give_sums(x, &from)) return constraint(x);
    to.kind = 0;
    for (const SdyAxes& list : lists) {
      to.unreduced.insert(to.unreduced.end(), list.begin(), list.end());
    }
    const std::string text = per_dim(from.mesh, lists);
    return lead(x, from, to, "sdy.sharded_to_unreduced", text,
                "axes = #sdy.list_of_axis_ref_lists<" + text + ">, ");
  }

  struct Group {
    int id, scope;
    Dims dims;
  };
  std::vector<Group> groups_;
  int next_group_ = 0, channels_ = 0;
};

}  // namespace tessera::testing::sdy_text
