// SPDX-License-Identifier: Apache-2.0
// Explicit mode: the shardings in the types of traced values.
#include "src/frontend/trace/explicit_values.h"

#include <algorithm>
#include <utility>

#include <tessera/sharding/abstract_mesh.h>

#include "src/base/contains.h"
#include "src/base/threads/thread_scratch.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/explicit/partial_sums.h"
#include "src/frontend/explicit/rules.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::frontend {

using internal::ArrayImpl;
using internal::impl_of;

namespace {
thread_local int all_axes_auto = 0;
/// The axes that are Auto in what this thread runs.
std::vector<std::string>& auto_axes() {
  struct Names {
    std::vector<std::string> axes;
  };
  return thread_scratch<Names>().axes;
}
thread_local OutShardingRequest* out_sharding_request = nullptr;
}  // namespace

AutoAxes::AutoAxes(const std::vector<std::string>& axes)
    : before_(auto_axes().size()), all_(axes.empty()) {
  if (all_) ++all_axes_auto;
  auto_axes().insert(auto_axes().end(), axes.begin(), axes.end());
}
AutoAxes::~AutoAxes() {
  if (all_) --all_axes_auto;
  auto_axes().resize(before_);
}
bool AutoAxes::active() { return all_axes_auto > 0; }
std::string AutoAxes::key() {
  if (active()) return ";auto";
  std::string out;
  for (const std::string& a : auto_axes()) out += ";auto " + a;
  return out;
}

namespace {

/// The mesh with these axes, too, of type Auto.
Mesh with_auto_axes(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::vector<AxisType> types = mesh.axis_types();
  for (std::size_t a = 0; a < types.size(); ++a) {
    if (contains(axes, mesh.axis_names()[a])) types[a] = AxisType::Auto;
  }
  if (types == mesh.axis_types()) return mesh;
  if (mesh.is_abstract()) return mesh.abstract_mesh().update({.axis_types = types}, Location{});
  return Mesh(mesh.devices(), mesh.axis_sizes(), mesh.axis_names(), types, Location{});
}

/// What is seen of a type here: not the axes that are Auto here, nor those that are manual in code
/// per device.
ShardingType visible(ShardingType type) {
  if (!type) return type;
  if (AutoAxes::active()) return {};
  const Trace* trace = Trace::current();
  const ManualScope* scope = trace ? trace->manual_scope() : nullptr;
  if (scope == nullptr && auto_axes().empty()) return type;
  const auto hidden = [&](const std::string& axis) {
    return contains(auto_axes(), axis) || (scope != nullptr && scope->binds(axis));
  };
  for (ShardingType::AxisList& d : type.dims) std::erase_if(d, hidden);
  std::erase_if(type.unreduced, hidden);
  if (type.unreduced.empty()) type.kind = UnreducedKind::sum;
  std::erase_if(type.reduced, hidden);
  type.mesh = with_auto_axes(type.mesh, auto_axes());
  if (type.mesh.explicit_axes().empty()) return {};
  return type;
}

}  // namespace

OutShardingRequest::OutShardingRequest() : outer_(out_sharding_request) {
  out_sharding_request = this;
}
OutShardingRequest::~OutShardingRequest() { out_sharding_request = outer_; }
OutShardingRequest* OutShardingRequest::active() { return out_sharding_request; }

namespace {

/// What joins the parts that devices have of the result, where the reduced dims are split.
std::optional<UnreducedKind> kind_of_reduction(const ir::Instruction& op) {
  if (op.is(ir::Opcode::dot)) return UnreducedKind::sum;
  if (!op.is(ir::Opcode::reduce) || op.operands().size() != 2) return std::nullopt;
  const std::optional<ir::Opcode> by = ir::as_binary_reducer(*op.called()[0]);
  if (by == ir::Opcode::add) return UnreducedKind::sum;
  if (by == ir::Opcode::maximum) return UnreducedKind::max;
  if (by == ir::Opcode::minimum) return UnreducedKind::min;
  return std::nullopt;
}

}  // namespace

void OutShardingRequest::note(const ir::Instruction& op,
                              const std::vector<ShardingType>& operands) {
  for (const ShardingType& t : operands) {
    if (t && mesh_.empty()) mesh_ = t.mesh;
  }
  kept_.reset();
  if (op.is(ir::Opcode::reshape) && operands[0]) {
    kept_ = operands[0].unreduced;
    kept_kind_ = operands[0].kind;
  }
  const std::optional<UnreducedKind> kind = kind_of_reduction(op);
  std::vector<std::string> axes;
  if (op.is(ir::Opcode::dot)) {
    const auto& attrs = op.get<ir::DotAttrs>();
    for (std::size_t n = 0; operands[0] && operands[1] && n < attrs.lhs_contracting.size(); ++n) {
      const auto& left = operands[0].dims[std::size_t(attrs.lhs_contracting[n])];
      if (left != operands[1].dims[std::size_t(attrs.rhs_contracting[n])]) continue;
      axes.insert(axes.end(), left.begin(), left.end());
    }
  } else if (kind && operands[0]) {
    for (const std::int64_t d : op.get<ir::DimensionsAttrs>().dims) {
      const auto& of_dim = operands[0].dims[std::size_t(d)];
      axes.insert(axes.end(), of_dim.begin(), of_dim.end());
    }
    axes.insert(axes.end(), operands[0].unreduced.begin(), operands[0].unreduced.end());
  } else {
    return;
  }
  std::sort(axes.begin(), axes.end());
  summed_ = std::move(axes);
  summed_kind_ = *kind;
  summed_by_dot_ = op.is(ir::Opcode::dot);
}

ShardingType sharding_type_of(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  ShardingType out;
  if (impl.kind == ArrayImpl::Kind::tracer) {
    for (const Trace* t = Trace::current(); t; t = t->parent()) {
      if (t->id() == impl.trace_id) {
        out = t->sharding_type(impl.instruction);
        break;
      }
    }
  } else if ((impl.kind == ArrayImpl::Kind::device && impl.committed) ||
             (impl.kind == ArrayImpl::Kind::abstract && impl.sharding.valid())) {
    out = ShardingType::of(impl.sharding, impl.shape.dims.size());
  }
  return visible(std::move(out));
}

Mesh untyped_mesh_of(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  if (impl.kind == ArrayImpl::Kind::tracer) {
    for (const Trace* t = Trace::current(); t; t = t->parent()) {
      if (t->id() == impl.trace_id) return t->untyped_mesh(impl.instruction);
    }
    return {};
  }
  if (impl.kind != ArrayImpl::Kind::device || !impl.committed) return {};
  if (!NamedSharding::is(impl.sharding)) return {};
  const Mesh mesh = NamedSharding(impl.sharding).mesh();
  return mesh.explicit_axes().empty() ? mesh : Mesh();
}

std::optional<Sharding> stated_sharding(const ShardingType& type) {
  if (!type || !type.mesh.auto_axes().empty()) return std::nullopt;
  return NamedSharding(type.mesh, type.spec(), Location{});
}

std::optional<Sharding> stated_sharding(const Array& array) {
  std::optional<Sharding> out = stated_sharding(sharding_type_of(array));
  const MemoryKind memory = memory_of(array);
  if (out && is_host(memory)) out = out->with_memory_kind(std::string(name(memory)), Location{});
  return out;
}

Array with_sharding_type(const Array& array, const ShardingType& type, Location location) {
  if (!type) return array;
  Trace* trace = Trace::current();
  ir::Instruction* value = trace->lift(array, location);
  ir::Instruction* typed = trace->constrained_to(value, type, location);
  if (typed == value) return array;
  const Array out = trace->wrap(typed, array.weak_type());
  set_varying(out, varying_of(array));
  return out;
}

ShardingType joined_sharding_type(const std::string& name, const std::vector<Array>& operands,
                                  Location location) {
  ShardingType out;
  for (const Array& x : operands) {
    const ShardingType type = sharding_type_of(x);
    if (!type) continue;
    if (!out) out = ShardingType::replicated(type.mesh, type.dims.size());
    for (std::size_t d = 0; d < type.dims.size(); ++d) {
      if (type.dims[d].empty() || type.dims[d] == out.dims[d]) continue;
      if (out.dims[d].empty()) {
        out.dims[d] = type.dims[d];
        continue;
      }
      throw ShardingTypeError(name + ": dim " + std::to_string(d) +
                                  " is split differently in its operands, " +
                                  out.spec().to_string() + " and " + type.spec().to_string() +
                                  "; valid: reshard() of one to the other's spec",
                              location);
    }
    if (!type.unreduced.empty()) {
      throw ShardingTypeError(name + " of " + type_text(impl_of(x).shape, type) + ", " +
                                  partial_text(type.kind) +
                                  "; valid: reshard() of it to a spec without unreduced axes, "
                                  "which " +
                                  joins_text(type.kind) + " the parts",
                              location);
    }
  }
  return out;
}

namespace {

/// Types say nothing of arrays on a mesh without Explicit axes, which may not meet those that are
/// on one with.
void refuse_untyped_meshes(const Trace& trace, const TypedOp& op) {
  for (const ir::Instruction* o : op.op.operands()) {
    const Mesh& mesh = trace.untyped_mesh(o);
    if (mesh.empty() || trace.sharding_type(o)) continue;
    op.refuse("one is on " + mesh.to_string() + ", and the others on " + op.mesh().to_string(),
              "operands on one mesh, for example after device_put");
  }
}

/// The mesh of the results of an op whose operands have no shardings in their types.
Mesh untyped_mesh_of_results(const Trace& trace, const ir::Instruction& op) {
  if (!trace.knows_untyped_meshes() || ir::runs_program(op.opcode) ||
      op.is(ir::Opcode::sharding_constraint)) {
    return {};
  }
  for (const ir::Instruction* o : op.operands()) {
    if (const Mesh& mesh = trace.untyped_mesh(o); !mesh.empty()) return mesh;
  }
  return {};
}

/// One per leaf; empty if no operand has a sharding in its type.
std::vector<ShardingType> inferred_types(const Trace& trace, const ir::Instruction& op,
                                         const std::string& op_name, Location location) {
  if (AutoAxes::active() || ir::runs_program(op.opcode) || op.is(ir::Opcode::sharding_constraint)) {
    return {};
  }
  TypedOp typed{op, {}, op_name.empty() ? std::string(ir::name(op.opcode)) : op_name, location};
  bool any = false;
  for (const ir::Instruction* o : op.operands()) {
    typed.operands.push_back(visible(trace.sharding_type(o)));
    any = any || typed.operands.back();
  }
  if (!any) return {};
  if (trace.manual_scope() == nullptr) refuse_untyped_meshes(trace, typed);
  if (const Mesh scope = current_mesh();
      trace.manual_scope() == nullptr && !scope.empty() && scope.shape() != typed.mesh().shape()) {
    typed.refuse("the operands are on " + typed.mesh().to_string() + ", and " + scope.to_string() +
                     " is in scope",
                 "operands on the mesh in scope, for example after device_put");
  }
  OutShardingRequest* request = OutShardingRequest::active();
  if (request == nullptr) return result_types(typed);
  request->note(op, typed.operands);
  try {
    return result_types(typed);
  } catch (const ShardingTypeError&) {
    // What is requested settles it, but for parts that the op can't take.
    check_extrema(typed);
    return {};
  }
}

}  // namespace

std::vector<Array> typed_results(Trace& trace, ir::Instruction* result, bool weak,
                                 const std::string& op_name, Location location) {
  std::vector<ShardingType> types = inferred_types(trace, *result, op_name, location);
  const bool constrain = !types.empty() && OutShardingRequest::active() == nullptr;
  const Mesh untyped = types.empty() ? untyped_mesh_of_results(trace, *result) : Mesh();
  types.resize(leaf_count(result->shape));
  std::optional<MetadataScope> scope;
  if (constrain) scope.emplace(trace, location, op_name);
  std::vector<Array> out;
  const auto add = [&](ir::Instruction* value, const ShardingType& type) {
    if (constrain) {
      value = trace.constrained_to(value, type, location);
    } else if (type) {
      trace.set_sharding_type(value, type);
    } else {
      trace.set_untyped_mesh(value, untyped);
    }
    out.push_back(trace.wrap(value, weak));
  };
  if (!result->shape.is_tuple) {
    add(result, types[0]);
    return out;
  }
  for (std::size_t i = 0; i < result->shape.elements.size(); ++i) {
    add(trace.builder().get_tuple_element(result, std::int64_t(i)), types.at(i));
  }
  return out;
}

}  // namespace tessera::frontend
