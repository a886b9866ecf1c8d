// SPDX-License-Identifier: Apache-2.0
// Custom calls: sharding constraints, custom_partitioning's callbacks, and calls known by a rule.
#include <cmath>
#include <numeric>

#include "src/base/check.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/cloner.h"
#include "src/ir/constraint.h"
#include "src/ir/custom_call_targets.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/partitioner/families.h"
#include "src/spmd/propagation/meshes.h"

namespace tessera::spmd {

namespace {

/// Copies a computation of the device program into the one being built.
ir::Instruction* inlined(PartitionContext& p, const ir::Computation& body,
                         const std::vector<ir::Instruction*>& arguments,
                         const std::string& reason) {
  ir::CloneOptions options;
  options.fresh_channels = true;
  options.default_metadata = p.b().metadata;
  ir::Cloner cloner(body, p.b().computation(), options);
  cloner.map_parameters(arguments);
  for (const auto& i : body.instructions()) {
    if (i->is(ir::Opcode::parameter)) continue;
    ir::Instruction* copy = cloner.clone(*i);
    copy->sharding.clear();
    if (ir::is_collective(i->opcode)) p.report.note(copy, reason);
  }
  return cloner[body.root()];
}

void check_tile(const ir::Instruction& source, const std::string& name, const std::string& what,
                const Shape& met, const Shape& global, const TensorSharding& s,
                const Shape& expected) {
  if (met == expected) return;
  throw ShapeError("custom_partitioning of " + name + ": the per-shard function " + what + " " +
                       met.to_string() + ", and the tile of " + global.to_string() + " by " +
                       s.to_spec_string() + " is " + expected.to_string(),
                   source.location());
}

TensorSharding hooks_sharding(PartitionContext& p, const ir::Instruction& source,
                              const std::string& name, const std::string& what,
                              const TensorSharding& s, const Shape& shape) {
  if (s.kind == TensorSharding::Kind::axes && s.rank() != shape.rank()) {
    throw ShardingError("custom_partitioning of " + name + ": the sharding " + s.to_spec_string() +
                            " that partition returned for " + what + " has " +
                            std::to_string(s.rank()) + " dims, and the array is " +
                            shape.to_string(),
                        source.location());
  }
  TensorSharding normal = p.module.on_module_mesh(s, shape.rank());
  normal.manual = p.source.manual_axes();
  return normal;
}

/// A number as a scalar; infinities are the lowest and highest values of integers.
ir::Instruction* padding_value(PartitionContext& p, DType dtype, double value) {
  if (!std::isinf(value) || is_floating(dtype) || is_complex(dtype)) {
    return p.b().scalar(dtype, value);
  }
  const ir::Opcode op = value < 0 ? ir::Opcode::maximum : ir::Opcode::minimum;
  return p.b().constant(*ir::identity_of(op, dtype));
}

/// A call that is given what a device has of each array, and gives at most tokens.
bool takes_parts(const ir::Instruction& source) {
  const auto* attrs = source.attrs.get_if<ir::CustomCallAttrs>();
  const ir::CustomCallTarget* target = attrs ? ir::find_custom_call(attrs->target) : nullptr;
  if (target == nullptr || !target->takes_parts()) return false;
  for (const Shape& s : flatten(source.shape)) {
    if (s.is_array()) return false;
  }
  return std::none_of(source.operands().begin(), source.operands().end(),
                      [](const ir::Instruction* o) { return o->shape.is_tuple; });
}

}  // namespace

OpPlan plan_custom_call(PartitionContext& p, const ir::Instruction& source) {
  if (!takes_parts(source)) return plan_by_rule(p, source);
  OpPlan plan = plan_replicated(p, source);
  for (std::size_t i = 0; i < plan.operands.size(); ++i) {
    const Shape& shape = source.operand(i)->shape;
    TensorSharding& s = plan.operands[i];
    if (!shape.is_array()) continue;
    s = reduced(s);
    // Nobody is to see padding.
    if (!s.splits_evenly(shape.dims)) s = p.source.replicated(shape.rank());
  }
  return plan;
}

void partition_custom_partitioning(PartitionContext& p, const ir::Instruction& source) {
  const auto& partitioner = source.get<ir::CustomPartitioningAttrs>().partitioner;
  if (!partitioner) return partition_by_rule(p, source);
  ir::CustomPartitioner& hook = *partitioner;
  const std::vector<Shape> results = flatten(source.shape);
  if (p.module.devices() == 1) {
    TESSERA_CHECK(!source.called().empty(), source.describe() + " has no plain body");
    std::vector<ir::Instruction*> arguments;
    for (const ir::Instruction* o : source.operands())
      arguments.push_back(p.values.declared(*o)->local);
    ir::Computation* body = p.module.partitioned(*source.called().front());
    std::vector<TensorSharding> layouts;
    for (const Shape& s : results) layouts.push_back(p.source.replicated(s.rank()));
    return p.values.define(source, inlined(p, *body, arguments, ""), layouts);
  }
  std::vector<ir::ShapeWithSharding> args, outs;
  // The callback knows the axes by their own names, whole where the program has them whole.
  const MeshRef& program_mesh = p.module.source().mesh;
  const MeshRef mesh = program_mesh ? program_mesh : p.module.mesh();
  for (const ir::Instruction* o : source.operands()) {
    args.push_back({o->shape, propagation::coarsened(p.source.sharding(*o), mesh)});
  }
  const std::vector<TensorSharding> requested = reduced(p.source.shardings(source));
  for (std::size_t i = 0; i < results.size(); ++i) {
    outs.push_back({results[i], propagation::coarsened(requested[i], mesh)});
  }
  ir::CustomPartitioner::Partition chosen = hook.partition(p.module.target(), mesh, args, outs);
  const std::string name = hook.name();
  if (chosen.args.size() != args.size() || chosen.results.size() != outs.size() || !chosen.body) {
    throw ValueError("custom_partitioning of " + name + ": partition returned " +
                         std::to_string(chosen.args.size()) + " argument and " +
                         std::to_string(chosen.results.size()) + " result shardings for " +
                         std::to_string(args.size()) + " arguments and " +
                         std::to_string(outs.size()) + " results",
                     source.location());
  }
  std::vector<ir::Instruction*> arguments;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string what = "argument " + std::to_string(i);
    TensorSharding s = hooks_sharding(p, source, name, what, chosen.args[i], args[i].shape);
    Value* v = p.values.reshard(p.values.declared(*source.operand(i)), s, what + " of " + name);
    check_tile(source, name, "takes as " + what, chosen.body->parameter(i)->shape, args[i].shape, s,
               v->local->shape);
    ir::Instruction* local = v->local;
    if (i < chosen.arg_padding.size() && chosen.arg_padding[i]) {
      Dims all(args[i].shape.dims.size());
      std::iota(all.begin(), all.end(), 0);
      local = p.values.masked(v, all, padding_value(p, v->shape.dtype, *chosen.arg_padding[i]));
    }
    arguments.push_back(p.reshards.reordered(local, s, chosen.args[i], what + " of " + name));
  }
  ir::Instruction* root = inlined(p, *chosen.body, arguments, "the per-shard function of " + name);
  std::vector<ir::Instruction*> parts = p.emit.unpack(root);
  if (parts.size() != results.size()) {
    throw TypeError("custom_partitioning of " + name + ": the per-shard function returns " +
                        std::to_string(parts.size()) + " arrays, the function " +
                        std::to_string(results.size()),
                    source.location());
  }
  std::vector<TensorSharding> layouts;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string what = "result " + std::to_string(i);
    TensorSharding s = hooks_sharding(p, source, name, what, chosen.results[i], results[i]);
    check_tile(source, name, "returns as " + what, parts[i]->shape, results[i], s,
               local_shape(results[i], s));
    parts[i] = p.reshards.reordered(parts[i], chosen.results[i], s, what + " of " + name);
    layouts.push_back(s);
  }
  p.values.define(source, parts, layouts);
}

void partition_custom_call(PartitionContext& p, const ir::Instruction& source) {
  const auto& attrs = source.get<ir::CustomCallAttrs>();
  for (const char* manual : {ir::kFullToShardShapeTarget, ir::kShardToFullShapeTarget,
                             ir::kGlobalToLocalShapeTarget, ir::kLocalToGlobalShapeTarget}) {
    if (attrs.target == manual) {
      throw NotImplementedError("per-device code around " + source.name +
                                    " is in no form that can be partitioned in this version (" +
                                    attrs.target + ")",
                                source.location());
    }
  }
  if (!takes_parts(source)) return partition_by_rule(p, source);
  const OpPlan plan = plan_custom_call(p, source);
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    const ir::Instruction& o = *source.operand(i);
    operands.push_back(o.shape.is_array() ? p.values.operand_in(source, i, plan.operands[i])->local
                                          : p.values.pack(o.shape, p.values.declared_leaves(o)));
  }
  p.values.define(source, p.emit.local_op(source, operands, source.shape), plan.results);
}

}  // namespace tessera::spmd
