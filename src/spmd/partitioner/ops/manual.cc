// SPDX-License-Identifier: Apache-2.0
// Manual computations: operands and results in the layouts that the call states, the body as it is.
// Along axes that stay automatic the body is partitioned like any computation; shardings in it name
// the manual axes as manual, so that nothing is moved or shared along them.
#include "src/ir/analysis/device_computations.h"

#include <algorithm>
#include <unordered_set>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/ir/process_groups.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/reshard/device_orders.h"

namespace tessera::spmd {

namespace {

using ir::Opcode;

/// Which devices a collective of the user's joins, as HLO says it. Groups name partitions if there
/// is a channel (for reductions and gathers: if they name global devices), else replicas, of which
/// there is one. Returns false if nobody is joined to anybody.
bool settle_groups(ir::Instruction* i, std::int64_t devices) {
  if (auto* permute = i->attrs.edit_if<ir::PermuteAttrs>()) {
    const DevicePairs& pairs = permute->source_target_pairs;
    const bool only_first = pairs.size() == 1 && pairs[0] == DevicePairs::Pair{0, 0};
    return permute->channel_id.has_value() || !only_first;
  }
  auto* attrs = i->attrs.edit_if<ir::CollectiveAttrs>();
  if (!attrs || attrs->groups.symbolic() || attrs->use_global_device_ids) return true;
  auto& lists = attrs->groups.lists;
  const bool one_replica = lists.empty() || (lists.size() == 1 && lists[0] == Dims{0});
  if (!one_replica || devices == 1) return true;
  if (!attrs->channel_id) return false;
  const bool by_replica = i->is(Opcode::all_reduce) || i->is(Opcode::all_gather) ||
                          i->is(Opcode::reduce_scatter) || i->is(Opcode::all_reduce_start) ||
                          i->is(Opcode::all_gather_start);
  if (by_replica) lists.clear();
  return true;
}

void set_channel(PartitionContext& p, ir::Instruction* i) {
  if (auto* c = i->attrs.edit_if<ir::CollectiveAttrs>()) {
    c->channel_id = ir::next_channel_id(p.module.target());
  } else if (auto* permute = i->attrs.edit_if<ir::PermuteAttrs>()) {
    permute->channel_id = ir::next_channel_id(p.module.target());
  }
}

/// Collectives of a body that was taken over: each gets a channel and stands in the report.
void settle_collectives(PartitionContext& p, ir::Computation* body,
                        std::unordered_set<ir::Computation*>* seen) {
  if (!seen->insert(body).second) return;
  for (const auto& i : body->instructions()) {
    if (ir::is_collective(i->opcode)) {
      if (ir::is_cross_replica(*i)) continue;
      if (!settle_groups(i.get(), p.module.devices()) && i->operands().size() == 1) {
        i->replace_all_uses_with(i->operand(0));
        continue;
      }
      set_channel(p, i.get());
      p.report.note(i.get(), "the body of a manual computation");
      continue;
    }
    for (ir::Computation* callee : i->called()) settle_collectives(p, callee, seen);
  }
}

/// An array as an operand of per-device code. If that is written for another order of the devices,
/// or if the array is an argument on another one, a reshard says in which order it is to be: the
/// device stage changes it.
ir::Instruction* in_stated_order(PartitionContext& p, Value* v, const ir::Instruction& stated) {
  const auto in_order = [&](const ir::Instruction& x) {
    return x.sharding.empty() || representable_on(x.sharding.front(), p.module.mesh());
  };
  if (stated.sharding.empty() || (in_order(stated) && in_order(*v->local))) return v->local;
  ir::ShardingConstraintAttrs attrs;
  attrs.kind = ir::ShardingConstraintAttrs::Kind::reshard;
  attrs.reason = "operand of manual computation";
  ir::Instruction* x =
      p.b().emit_shaped(Opcode::sharding_constraint, v->local->shape, {v->local}, std::move(attrs));
  x->sharding = {stated.sharding.front()};
  return x;
}

/// All axes are manual: the body is the device program.
void partition_whole(PartitionContext& p, const ir::Instruction& source) {
  std::vector<ir::Instruction*> arguments;
  for (std::size_t k = 0; k < source.operands().size(); ++k) {
    const ir::Instruction& o = *source.operand(k);
    Value* v = p.values.declared(o);
    ir::Instruction* x = v->local;
    if (!o.sharding.empty()) {
      x = p.reshards.reordered(x, v->sharding, o.sharding.front(), "operand of manual computation");
    }
    arguments.push_back(x);
  }
  ir::Computation* body = p.module.imported().of(*source.called()[0]);
  std::unordered_set<ir::Computation*> seen;
  settle_collectives(p, body, &seen);
  std::vector<ir::Instruction*> parts = p.emit.unpack(p.b().call(body, arguments));
  const std::vector<TensorSharding> layouts = p.module.shardings_of(source);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (k >= source.sharding.size()) continue;
    parts[k] = p.reshards.reordered(parts[k], source.sharding[k], layouts[k],
                                    "result of manual computation");
  }
  p.values.define(source, parts, layouts);
}

/// The layout of a global array whose local part, as the body sees it, has the layout `local`.
/// Along manual axes the body may see parts, but not along others: it would compute with these.
TensorSharding crossing(const TensorSharding& global, const TensorSharding& local,
                        const IndexList& inner) {
  TensorSharding s = global;
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    IndexList& axes = s.dims[d].axes;
    axes.erase(std::remove_if(axes.begin(), axes.end(), [&](int a) { return !contains(inner, a); }),
               axes.end());
    axes.insert(axes.end(), local.dims[d].axes.begin(), local.dims[d].axes.end());
  }
  erase_if(s.unreduced, [&](int a) { return !contains(inner, a); });
  return s;
}

void check_even(const ir::Instruction& source, const TensorSharding& s, const Shape& local) {
  if (s.splits_evenly(local.dims)) return;
  throw NotImplementedError("the body of a manual computation has " + local.to_string() +
                                " in uneven parts, " + s.to_spec_string() + ", at its boundary",
                            source.location());
}

/// The layouts in which arrays go into a body with automatic axes, and come out of it.
struct Crossings {
  std::vector<TensorSharding> operands, results;
};

Crossings crossings_of(PartitionContext& p, const ir::Instruction& source) {
  const ir::Computation& body = *source.called()[0];
  const IndexList& inner = p.module.manual_axes(body);
  Crossings out;
  for (std::size_t k = 0; k < source.operands().size(); ++k) {
    const ir::Instruction& parameter = *body.parameter(k);
    const TensorSharding local = p.module.shardings_of(parameter).front();
    check_even(source, local, parameter.shape);
    out.operands.push_back(crossing(p.source.sharding(*source.operand(k)), local, inner));
  }
  const std::vector<TensorSharding> locals = p.module.shardings_of(*body.root());
  const std::vector<Shape> shapes = flatten(body.root()->shape);
  // Its own, not what is requested of what it gives.
  out.results = p.module.shardings_of(source);
  for (std::size_t k = 0; k < out.results.size(); ++k) {
    check_even(source, locals[k], shapes[k]);
    out.results[k] = crossing(out.results[k], locals[k], inner);
  }
  return out;
}

void partition_partly(PartitionContext& p, const ir::Instruction& source) {
  const Crossings c = crossings_of(p, source);
  std::vector<ir::Instruction*> arguments;
  for (const ir::Instruction* o : source.operands()) {
    arguments.push_back(p.values.declared(*o)->local);
  }
  ir::Computation* target = p.module.partitioned(*source.called()[0]);
  p.values.define(source, p.b().call(target, arguments), c.results);
}

void place_whole(PartitionContext& p, const ir::Instruction& source) {
  std::vector<ir::Instruction*> operands;
  for (const ir::Instruction* o : source.operands()) {
    operands.push_back(in_stated_order(p, p.values.declared(*o), *o));
  }
  ir::Instruction* x = p.emit.local_op(source, operands, source.shape);
  x->sharding = source.sharding;
  p.values.define(source, p.emit.unpack(x), p.module.shardings_of(source));
}

void place_partly(PartitionContext& p, const ir::Instruction& source) {
  const ir::Computation& body = *source.called()[0];
  const Crossings c = crossings_of(p, source);
  std::vector<ir::Instruction*> operands;
  for (std::size_t k = 0; k < source.operands().size(); ++k) {
    Value* v = p.values.declared(*source.operand(k));
    operands.push_back(p.values.reshard(v, c.operands[k], operand_reason(source, k))->local);
  }
  ir::Instruction* x = p.b().emit_shaped(Opcode::manual_computation, source.shape, operands,
                                         source.attrs, {p.module.partitioned(body)});
  x->backend_config = source.backend_config;
  x->frontend_attributes = source.frontend_attributes;
  p.values.define(source, x, c.results);
}

/// Groups must be along the manual axes: what is automatic has no device numbers.
void check_groups(PartitionContext& p, const ir::Instruction& source) {
  std::vector<std::vector<std::int64_t>> groups;
  if (const auto* permute = source.attrs.get_if<ir::PermuteAttrs>()) {
    for (const auto& [from, to] : permute->source_target_pairs) groups.push_back({from, to});
  } else if (const auto* attrs = source.attrs.get_if<ir::CollectiveAttrs>()) {
    groups = attrs->groups.expand(p.module.devices());
  }
  const LogicalMesh& mesh = *p.module.mesh();
  for (const auto& group : groups) {
    for (std::int64_t device : group) {
      if (device < 0 || device >= p.module.devices()) {
        throw ValueError(op_label(source) + " names device " + std::to_string(device) + " of " +
                             std::to_string(p.module.devices()),
                         source.location());
      }
      for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
        if (contains(p.source.manual_axes(), int(a)) ||
            mesh.coordinate(device, int(a)) == mesh.coordinate(group[0], int(a))) {
          continue;
        }
        throw ShardingError(op_label(source) + " within a manual computation joins devices " +
                                std::to_string(group[0]) + " and " + std::to_string(device) +
                                ", which differ along \"" + mesh.axes[a].name +
                                "\", an axis that is not manual",
                            source.location());
      }
    }
  }
}

void check_body(const ir::Instruction& source) {
  if (source.called().size() != 1 ||
      source.operands().size() != source.called()[0]->parameters().size()) {
    throw ValueError("the manual computation " + source.name + " has no body for its operands",
                     source.location());
  }
}

}  // namespace

void place_manual(PartitionContext& p, const ir::Instruction& source) {
  check_body(source);
  ir::is_partly_manual(source) ? place_partly(p, source) : place_whole(p, source);
}

void partition_manual(PartitionContext& p, const ir::Instruction& source) {
  check_body(source);
  ir::is_partly_manual(source) ? partition_partly(p, source) : partition_whole(p, source);
}

void place_collective(PartitionContext& p, const ir::Instruction& source) {
  ir::Instruction settled = source;
  if (!ir::is_cross_replica(source) && !settle_groups(&settled, p.module.devices())) {
    std::vector<Value*> same;
    for (const ir::Instruction* o : source.operands()) same.push_back(p.values.declared(*o));
    return p.values.define(source, same);
  }
  const std::optional<FactorRule> rule = rule_for(source);
  place(p, source, rule ? planned(p.layouts.choose(source, *rule)) : plan_at_boundary(p, source));
}

void partition_collective(PartitionContext& p, const ir::Instruction& source) {
  switch (source.opcode) {
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_permute:
    case Opcode::collective_broadcast:
      break;
    default:
      throw NotImplementedError(op_label(source) +
                                    " can't stand in a manual computation that leaves axes "
                                    "automatic",
                                source.location());
  }
  ir::Instruction settled = source;
  const bool cross_replica = ir::is_cross_replica(source);
  if (!cross_replica) {
    settle_groups(&settled, p.module.devices());
    check_groups(p, settled);
  }
  if (!rule_for(source)) return replicate(p, source, "its operands don't fit its results");
  const ComputeLayout layout = p.layouts.choose(source, *rule_for(source));
  std::vector<ir::Instruction*> operands;
  for (Value* v : p.values.operands_in(source, layout.operands)) operands.push_back(v->local);
  ir::Instruction* x = p.emit.local_op(source, operands, local_tuple(source.shape, layout.results),
                                       std::move(settled.attrs));
  if (!cross_replica) {
    set_channel(p, x);
    p.report.note(x, "the body of a manual computation");
  }
  p.values.define(source, x, layout.results);
}

}  // namespace tessera::spmd
