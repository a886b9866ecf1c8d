// SPDX-License-Identifier: Apache-2.0
// Linear code per device, with each change from equal to different values as an op of its own.
#include "src/transforms/transpose/varying_types.h"

#include <algorithm>

#include "src/ir/analysis/varying_axes.h"
#include "src/ir/channels.h"
#include "src/ir/cloner.h"
#include "src/ir/rewrite/builder.h"
#include "src/transforms/utils/custom_vjp.h"
#include "src/transforms/utils/forward_slice.h"
#include "src/transforms/utils/tangent.h"

namespace tessera::transforms {

using ir::Computation;
using ir::DeviceGroups;
using ir::Instruction;
using ir::Opcode;
using ir::VaryingAxes;

namespace {

using Leaves = std::vector<VaryingAxes>;

VaryingAxes without(const VaryingAxes& from, const VaryingAxes& what) {
  VaryingAxes out;
  std::set_difference(from.begin(), from.end(), what.begin(), what.end(),
                      std::inserter(out, out.end()));
  return out;
}

VaryingAxes joined(const Leaves& leaves) {
  VaryingAxes out;
  for (const VaryingAxes& axes : leaves) ir::add_axes(&out, axes);
  return out;
}

VaryingAxes axes_of(const TensorSharding& s, const VaryingAxes& among) {
  VaryingAxes out;
  for (const DimSharding& d : s.dims) {
    for (const int a : d.axes) {
      const std::string& name = s.mesh->axes[std::size_t(a)].name;
      if (among.count(name) > 0) out.insert(name);
    }
  }
  return out;
}

VaryingAxes own_axes(const ir::ManualComputationAttrs& attrs) {
  VaryingAxes out;
  for (const int a : attrs.manual_axes) out.insert(attrs.mesh->axes[std::size_t(a)].name);
  return out;
}

MeshRef mesh_of(const ir::ManualComputationAttrs& attrs) {
  return attrs.mesh ? attrs.mesh : make_logical_mesh({});
}

IndexList indices_of(const VaryingAxes& names, const LogicalMesh& mesh) {
  IndexList out;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if (names.count(mesh.axes[a].name) > 0) out.push_back(int(a));
  }
  return out;
}

/// A manual computation with this body and without axes of its own.
Instruction per_device(Computation* body, const MeshRef& mesh, std::size_t parameters,
                       std::size_t results) {
  ir::ManualComputationAttrs attrs;
  attrs.mesh = mesh;
  attrs.in_shardings.resize(parameters);
  attrs.out_shardings.resize(results);
  ir::InstructionData data;
  data.opcode = Opcode::manual_computation;
  data.attrs = std::move(attrs);
  Instruction out(std::move(data));
  out.set_called({body});
  return out;
}

/// A computation with types: the axes of each leaf of its root.
struct Typed {
  Computation* computation = nullptr;
  Leaves root;
};

class Typing {
 public:
  explicit Typing(const Instruction& call)
      : mesh_(mesh_of(call.get<ir::ManualComputationAttrs>())),
        manual_(own_axes(call.get<ir::ManualComputationAttrs>())),
        fixed_(call) {}
  /// Of code whose types are known, `call` being a manual computation with that body.
  Typing(const Instruction& call, const CodePerDevice& types)
      : mesh_(types.mesh),
        manual_(types.axes),
        sums_are_equal_(types.checked),
        fixed_(call, types.axes, types.parameters) {}

  /// The body of a manual computation; `around`: the types of its operands.
  Typed body(const Instruction& call, const std::vector<bool>& linear,
             const std::vector<VaryingAxes>& around);

 private:
  friend class TypedCopy;
  /// Of what is not linear.
  Leaves fixed(const Instruction* i) const { return of_here(fixed_[i]); }
  /// Less the axes of a shard_map around the one whose body this is, which has seen to them.
  Leaves of_here(Leaves leaves) const {
    for (VaryingAxes& axes : leaves) axes = without(axes, without(axes, manual_));
    return leaves;
  }

  MeshRef mesh_;
  VaryingAxes manual_;  ///< of the one that is differentiated, and of those around the op
  bool sums_are_equal_ = true;
  ir::VaryingAnalysis fixed_;
};

/// One computation.
class TypedCopy {
 public:
  TypedCopy(Typing& typing, const Computation& source, const std::vector<bool>& linear)
      : typing_(typing),
        source_(source),
        reached_(forward_slice(source, linear)),
        target_(source.module()->add_computation(source.name() + ".typed")),
        b_(target_),
        cloner_(source, target_, own_channels()),
        types_(source.instructions().size()) {}

  Typed run(const std::vector<Leaves>& arguments) {
    for (const auto& i : source_.instructions()) {
      b_.metadata = i->metadata;
      if (i->is(Opcode::parameter)) {
        cloner_.clone(*i);
        types(*i) = arguments.at(std::size_t(i->get<ir::ParameterAttrs>().number));
      } else if (!is_linear(i.get())) {
        cloner_.clone(*i);
        types(*i) = typing_.fixed(i.get());
      } else {
        visit(*i);
      }
    }
    target_->set_root(cloner_[source_.root()]);
    return {target_, types(*source_.root())};
  }

  /// What is of type `have`, as type `want`.
  static Instruction* raised(ir::Builder& b, Instruction* value, std::span<const VaryingAxes> have,
                             std::span<const VaryingAxes> want, const MeshRef& mesh) {
    if (!value->shape.is_tuple) {
      const VaryingAxes lacks = without(want[0], have[0]);
      if (lacks.empty() || !has_tangent(value->shape) || is_zero(*value)) return value;
      ir::PvaryAttrs attrs;
      attrs.axes.assign(lacks.begin(), lacks.end());
      attrs.mesh = mesh;
      return b.emit(Opcode::pvary, {value}, std::move(attrs));
    }
    std::vector<Instruction*> elements = elements_of(b, value);
    bool same = true;
    std::size_t first = 0;
    for (Instruction*& e : elements) {
      const std::size_t count = flatten(e->shape).size();
      Instruction* r = raised(b, e, have.subspan(first, count), want.subspan(first, count), mesh);
      same = same && r == e;
      e = r;
      first += count;
    }
    return same ? value : b.tuple(std::move(elements));
  }

 private:
  static ir::CloneOptions own_channels() {
    ir::CloneOptions options;
    options.fresh_channels = true;
    return options;
  }

  bool is_linear(const Instruction* i) const { return reached_[std::size_t(i->index)]; }
  Leaves& types(const Instruction& i) { return types_[std::size_t(i.index)]; }
  std::vector<bool> linear_operands(const Instruction& i) const {
    std::vector<bool> out;
    for (const Instruction* x : i.operands()) out.push_back(is_linear(x));
    return out;
  }
  std::vector<Leaves> operand_types(const Instruction& i) {
    std::vector<Leaves> out;
    for (const Instruction* x : i.operands()) out.push_back(types(*x));
    return out;
  }
  VaryingAxes joined_operands(const Instruction& i) {
    VaryingAxes out;
    for (const Instruction* x : i.operands()) ir::add_axes(&out, joined(types(*x)));
    return out;
  }

  /// The copy of operand k, as that type if it is linear.
  Instruction* operand(const Instruction& i, std::size_t k, const Leaves& want) {
    const Instruction* x = i.operand(k);
    if (!is_linear(x)) return cloner_[x];
    return raised(b_, cloner_[x], types(*x), want, typing_.mesh_);
  }
  Instruction* operand(const Instruction& i, std::size_t k, const VaryingAxes& want) {
    return operand(i, k, Leaves(types(*i.operand(k)).size(), want));
  }

  /// The op on these operands, calling these; its result has these types.
  Instruction* put(const Instruction& i, std::vector<Instruction*> operands, Leaves leaves,
                   std::vector<Computation*> called) {
    ir::InstructionData data = i;
    if (ir::is_collective(i.opcode)) ir::give_fresh_channel(&data.attrs, b_.module());
    auto copy = std::make_unique<Instruction>(std::move(data));
    copy->set_operands(std::move(operands));
    copy->set_called(std::move(called));
    Instruction* added = target_->add(std::move(copy));
    known(i, added, std::move(leaves));
    return added;
  }
  void known(const Instruction& i, Instruction* copy, Leaves leaves) {
    cloner_.map(&i, copy);
    types(i) = std::move(leaves);
  }
  std::vector<Instruction*> copies(const Instruction& i) const {
    std::vector<Instruction*> out;
    for (const Instruction* x : i.operands()) out.push_back(cloner_[x]);
    return out;
  }

  void visit(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::tuple:
      case Opcode::opt_barrier: {
        Leaves leaves;
        for (const Instruction* x : i.operands()) {
          leaves.insert(leaves.end(), types(*x).begin(), types(*x).end());
        }
        put(i, copies(i), std::move(leaves), {});
        return;
      }
      case Opcode::get_tuple_element: {
        const Leaves& all = types(*i.operand(0));
        std::size_t first = 0;
        const auto index = std::size_t(i.get<ir::GetTupleElementAttrs>().index);
        for (std::size_t e = 0; e < index; ++e) {
          first += flatten(i.operand(0)->shape.elements[e]).size();
        }
        const auto begin = all.begin() + std::ptrdiff_t(first);
        put(i, copies(i), Leaves(begin, begin + std::ptrdiff_t(flatten(i.shape).size())), {});
        return;
      }
      case Opcode::pvary:
        return pvary(i);
      case Opcode::all_reduce:
        return between_entries(i) ? other(i, {}) : all_reduce(i);
      case Opcode::collective_broadcast:
        return broadcast_from_one(i);
      case Opcode::all_gather:
        // Equal on all devices, and held by each as its own.
        return other(i, between_entries(i) ? VaryingAxes() : group_axes(i));
      case Opcode::scan:
        return scan(i);
      case Opcode::conditional:
        return conditional(i);
      case Opcode::call:
      case Opcode::remat: {
        const Typed t = TypedCopy(typing_, *i.called(0), linear_operands(i)).run(operand_types(i));
        put(i, copies(i), t.root, {t.computation});
        return;
      }
      case Opcode::custom_call:
        if (i.get<ir::CustomCallAttrs>().target == kCustomVjpTangent) return custom_vjp(i);
        return other(i, {});
      case Opcode::manual_computation:
        return nested(i);
      default:
        return other(i, {});
    }
  }

  /// The result varies as all operands together, and these.
  void other(const Instruction& i, const VaryingAxes& more) {
    VaryingAxes all = joined_operands(i);
    ir::add_axes(&all, more);
    // Positions of devices in what it calls, and what collectives move.
    ir::add_axes(&all, joined(typing_.fixed(&i)));
    std::vector<Instruction*> operands;
    for (std::size_t k = 0; k < i.operands().size(); ++k) operands.push_back(operand(i, k, all));
    put(i, std::move(operands), Leaves(flatten(i.shape).size(), all), i.called());
  }

  void pvary(const Instruction& i) {
    const VaryingAxes before = joined_operands(i);
    const auto& named = i.get<ir::PvaryAttrs>().axes;
    const VaryingAxes more = without({named.begin(), named.end()}, before);
    if (more.empty()) {
      known(i, cloner_[i.operand(0)], {before});
      return;
    }
    Leaves all{before};
    ir::add_axes(&all[0], more);
    Instruction* p = put(i, copies(i), typing_.of_here(std::move(all)), {});
    auto& attrs = p->edit<ir::PvaryAttrs>();
    attrs.axes.assign(more.begin(), more.end());
    attrs.mesh = typing_.mesh_;
  }

  /// Whether a collective is between entries of a batch, so that devices matter nothing to it.
  static bool between_entries(const Instruction& i) {
    return bool(i.get<ir::CollectiveAttrs>().groups.batch);
  }

  /// What an op that makes values equal along its groups gives of operands that vary over these.
  VaryingAxes given(const Instruction& i, const VaryingAxes& of) {
    const std::vector<const VaryingAxes*> operands(i.operands().size(), &of);
    return ir::varying_axes(i, operands, *typing_.mesh_, typing_.manual_);
  }
  VaryingAxes group_axes(const Instruction& i) {
    const VaryingAxes whole = without(typing_.manual_, given(i, typing_.manual_));
    return whole.empty() ? given(i, {}) : whole;
  }

  void all_reduce(const Instruction& i) {
    const VaryingAxes over = group_axes(i);
    const bool equal = typing_.sums_are_equal_ && given(i, over).empty();
    VaryingAxes all = joined_operands(i);
    ir::add_axes(&all, over);
    std::vector<Instruction*> operands;
    for (std::size_t k = 0; k < i.operands().size(); ++k) operands.push_back(operand(i, k, all));
    Instruction* sum =
        put(i, std::move(operands),
            Leaves(flatten(i.shape).size(), equal ? without(all, over) : all), i.called());
    mark(sum, equal, over);
  }

  void mark(Instruction* sum, bool equal, const VaryingAxes& over) const {
    // In a nested shard_map the one around it has marked it, for all axes.
    const auto& told = *sum->frontend_attributes;
    if (told.find(kSumIs) != told.end()) return;
    sum->frontend_attributes.edit()[kSumIs] = equal ? "equal" : "different";
    if (!equal) return;
    // By names, which is what its transpose is told.
    sum->edit<ir::CollectiveAttrs>().groups =
        DeviceGroups::over(typing_.mesh_, indices_of(over, *typing_.mesh_));
  }

  /// A sum to which one device of each group, the first one, adds what it has, and others nothing.
  void broadcast_from_one(const Instruction& i) {
    const VaryingAxes over = group_axes(i);
    VaryingAxes all = joined_operands(i);
    ir::add_axes(&all, over);
    const auto& groups = i.get<ir::CollectiveAttrs>().groups;
    const std::int64_t n = typing_.mesh_->num_devices();
    Literal table(Shape(DType::s32, {n}));
    for (const std::vector<std::int64_t>& group : groups.expand(n)) {
      table.mutable_data<std::int32_t>()[std::size_t(group.front())] = 1;
    }
    Instruction* id = b_.convert(b_.partition_id(), DType::s32);
    Instruction* sends = b_.reshape(b_.dynamic_slice(b_.constant(table), {id}, {1}), {});
    Instruction* mask = b_.compare(ir::Direction::ne, sends, b_.scalar(DType::s32, 0));
    Instruction* x = operand(i, 0, all);
    Instruction* part = b_.select(b_.splat(mask, x->shape.dims), x, zeros(b_, x->shape));
    Computation* adder = ir::scalar_computation(b_.module(), Opcode::add, x->shape.dtype);
    Instruction* sum = b_.all_reduce(part, adder, groups);
    const bool equal = typing_.sums_are_equal_ && given(i, over).empty();
    mark(sum, equal, over);
    known(i, sum, {equal ? without(all, over) : all});
  }

  void scan(const Instruction& i) {
    const auto& attrs = i.get<ir::ScanAttrs>();
    const auto carries = std::size_t(attrs.carries);
    const std::size_t inputs = i.operands().size() - carries - std::size_t(attrs.constants);
    std::vector<bool> linear = linear_operands(i);
    for (std::size_t k = inputs; k < inputs + carries; ++k) {
      // A tangent that starts as zero.
      linear[k] = linear[k] || is_zero(*i.operand(k));
    }
    std::vector<Leaves> arguments = operand_types(i);
    Typed step;
    for (;;) {
      step = TypedCopy(typing_, *i.called(0), linear).run(arguments);
      bool same = true;
      for (std::size_t k = 0; k < carries; ++k) {
        VaryingAxes& carry = arguments[inputs + k][0];
        const VaryingAxes before = carry;
        ir::add_axes(&carry, step.root[step.root.size() - carries + k]);
        same = same && before == carry;
      }
      if (same) break;
    }
    Leaves results = step.root;
    for (std::size_t k = 0; k < carries; ++k) {
      results[results.size() - carries + k] = arguments[inputs + k][0];
    }
    raise_root(step, results);
    std::vector<Instruction*> operands;
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      operands.push_back(operand(i, k, arguments[k]));
    }
    put(i, std::move(operands), std::move(results), {step.computation});
  }

  void raise_root(const Typed& t, const Leaves& want) const {
    ir::Builder in(t.computation);
    in.metadata = t.computation->root()->metadata;
    t.computation->set_root(raised(in, t.computation->root(), t.root, want, typing_.mesh_));
  }

  void conditional(const Instruction& i) {
    const VaryingAxes by = joined(types(*i.operand(0)));
    std::vector<Instruction*> operands{cloner_[i.operand(0)]};
    std::vector<Typed> branches;
    std::vector<Computation*> called;
    Leaves results(flatten(i.shape).size(), by);
    for (std::size_t k = 1; k < i.operands().size(); ++k) {
      // Cotangents come from the branch that a device takes.
      Leaves given = types(*i.operand(k));
      for (VaryingAxes& axes : given) ir::add_axes(&axes, by);
      operands.push_back(operand(i, k, given));
      const bool linear = is_linear(i.operand(k));
      branches.push_back(TypedCopy(typing_, *i.called(k - 1), {linear}).run({given}));
      for (std::size_t n = 0; n < results.size(); ++n) {
        ir::add_axes(&results[n], branches.back().root[n]);
      }
    }
    for (const Typed& t : branches) {
      raise_root(t, results);
      called.push_back(t.computation);
    }
    put(i, std::move(operands), std::move(results), std::move(called));
  }

  void nested(const Instruction& i) {
    std::vector<VaryingAxes> around;
    for (const Instruction* x : i.operands()) around.push_back(joined(types(*x)));
    const Typed t = typing_.body(i, linear_operands(i), around);
    put(i, copies(i), t.root, {t.computation});
  }

  void custom_vjp(const Instruction& i);

  Typing& typing_;
  const Computation& source_;
  std::vector<bool> reached_;
  Computation* target_;
  ir::Builder b_;
  ir::Cloner cloner_;
  std::vector<Leaves> types_;  ///< by index in the source
};

/// The user's rule is written for a cotangent that varies as the result does, and gives those of
/// the operands.
void TypedCopy::custom_vjp(const Instruction& i) {
  const auto told = i.frontend_attributes->find(kVaries);
  if (told == i.frontend_attributes->end()) return other(i, {});
  const Leaves results = typing_.of_here(varies_from_text(told->second));
  const Computation& backward = *i.called(0);
  const std::size_t tangents = backward.root()->shape.elements.size();
  const std::size_t first = i.operands().size() - tangents;
  std::vector<VaryingAxes> arguments;
  for (std::size_t k = 0; k < first; ++k) arguments.push_back(joined(types(*i.operand(k))));
  arguments.insert(arguments.end(), results.begin(), results.end());
  const Instruction around = per_device(i.called(0), typing_.mesh_, arguments.size(), 0);
  const Leaves given =
      typing_.of_here(ir::VaryingAnalysis(around, typing_.manual_, arguments).results());
  for (std::size_t k = 0; k < tangents; ++k) {
    const Instruction* x = i.operand(first + k);
    if (!is_linear(x)) continue;
    const VaryingAxes extra = without(given[k], joined(types(*x)));
    if (extra.empty()) continue;
    std::string names;
    for (const std::string& axis : extra) names += (names.empty() ? "'" : ", '") + axis + "'";
    throw TypeError("cotangent " + std::to_string(k) +
                        " that the backward rule of custom_vjp gives varies over " + names +
                        ", and what it belongs to does not: the devices' parts of it are to be "
                        "added up; psum it over " +
                        names + " in the rule, or pvary the argument before the call",
                    i.location());
  }
  put(i, copies(i), results, i.called());
}

/// A result as its sharding says: equal along an axis that the sharding lacks.
Instruction* as_result(ir::Builder& b, Instruction* value, VaryingAxes have,
                       const VaryingAxes& want, const VaryingAxes& own, const MeshRef& mesh) {
  const VaryingAxes lacks = without(want, have);
  VaryingAxes target = have;
  ir::add_axes(&target, want);
  value = TypedCopy::raised(b, value, {&have, 1}, {&target, 1}, mesh);
  VaryingAxes extra;
  for (const std::string& axis : have) {
    if (own.count(axis) > 0 && want.count(axis) == 0) extra.insert(axis);
  }
  if (extra.empty() || is_zero(*value) || !has_tangent(value->shape)) return value;
  const IndexList axes = indices_of(extra, *mesh);
  double n = 1;
  for (const int a : axes) n *= double(mesh->axes[std::size_t(a)].size);
  Computation* adder = ir::scalar_computation(b.module(), Opcode::add, value->shape.dtype);
  value = b.binary(Opcode::divide, value, full(b, value->shape, n));
  value = b.all_reduce(value, adder, DeviceGroups::over(mesh, axes));
  value->frontend_attributes.edit()[kSumIs] = "equal";
  return value;
}

Typed Typing::body(const Instruction& call, const std::vector<bool>& linear,
                   const std::vector<VaryingAxes>& around) {
  const auto& attrs = call.get<ir::ManualComputationAttrs>();
  const VaryingAxes own = own_axes(attrs), outside = manual_;
  const MeshRef outer_mesh = mesh_;
  ir::add_axes(&manual_, own);
  mesh_ = mesh_of(attrs);
  std::vector<Leaves> arguments;
  for (std::size_t k = 0; k < linear.size(); ++k) {
    VaryingAxes axes = around[k];
    ir::add_axes(&axes, axes_of(attrs.in_shardings.at(k), own));
    arguments.push_back({axes});
  }
  Typed t = TypedCopy(*this, *call.called(0), linear).run(arguments);
  ir::Builder b(t.computation);
  b.metadata = call.metadata;
  std::vector<Instruction*> results = elements_of(b, t.computation->root());
  for (std::size_t k = 0; k < results.size(); ++k) {
    const VaryingAxes want = axes_of(attrs.out_shardings.at(k), own);
    results[k] = as_result(b, results[k], t.root[k], want, own, mesh_);
    t.root[k] = without(t.root[k], own);
  }
  t.computation->set_root(b.tuple(results));
  manual_ = outside;
  mesh_ = outer_mesh;
  return t;
}

}  // namespace

Computation* with_explicit_pvary(const Instruction& call, const std::vector<bool>& linear) {
  Typing typing(call);
  return typing.body(call, linear, std::vector<VaryingAxes>(linear.size())).computation;
}

Computation* with_explicit_pvary(Computation* code, const std::vector<bool>& linear,
                                 CodePerDevice types) {
  if (!types.checked) types.parameters.assign(types.parameters.size(), types.axes);
  const Instruction call =
      per_device(code, types.mesh, types.parameters.size(), types.results.size());
  Typing typing(call, types);
  const Typed t = typing.body(call, linear, types.parameters);
  if (!types.checked) return t.computation;
  // A cotangent varies as the result does, even if its tangent doesn't.
  ir::Builder b(t.computation);
  std::vector<Instruction*> results = elements_of(b, t.computation->root());
  for (std::size_t k = 0; k < results.size(); ++k) {
    results[k] = as_result(b, results[k], t.root[k], types.results.at(k), types.axes, types.mesh);
  }
  t.computation->set_root(b.tuple(results));
  return t.computation;
}

ir::VaryingAnalysis varying_in(Computation* code, const CodePerDevice& types) {
  const Instruction call = per_device(code, types.mesh, types.parameters.size(), 0);
  return ir::VaryingAnalysis(call, types.axes, types.parameters);
}

}  // namespace tessera::transforms
