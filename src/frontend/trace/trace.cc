// SPDX-License-Identifier: Apache-2.0
// Traces: parameters, captured arrays, mesh uses, and the stack of active traces.
#include "src/frontend/trace/trace.h"

#include <atomic>
#include <unordered_map>

#include "src/base/at_location.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/rule_captures.h"

namespace tessera::frontend {

using internal::ArrayImpl;
using internal::impl_of;

namespace {

thread_local Trace* current_trace = nullptr;
thread_local int seeking_captures = 0;

std::uint64_t next_trace_id() {
  static std::atomic<std::uint64_t> counter{1};
  return counter.fetch_add(1);
}

/// The name of each operation contains the path. For deep nests its middle is left out, so that the
/// names don't take memory quadratic in the depth.
constexpr std::size_t kMaxPath = 240;

std::string child_path(const Trace* parent, const std::string& name) {
  if (!parent || parent->path().empty()) return name;
  const std::string& path = parent->path();
  if (path.size() + 1 + name.size() <= kMaxPath) return path + "/" + name;
  std::size_t head = path.find("/.../");
  if (head == std::string::npos) head = path.rfind('/', kMaxPath / 2);
  if (head == std::string::npos) head = kMaxPath / 2;
  return path.substr(0, head) + "/.../" + name;
}

std::string described(const ArrayImpl& impl) {
  std::string text = "traced array " + impl.shape.to_string();
  if (impl.created.known()) text += " made at " + impl.created.to_string();
  return text;
}

}  // namespace

SeekCaptures::SeekCaptures() { ++seeking_captures; }
SeekCaptures::~SeekCaptures() { --seeking_captures; }
bool SeekCaptures::active() { return seeking_captures > 0; }

Trace::Trace(std::string name, Trace* parent)
    : owned_module_(parent ? nullptr : std::make_unique<ir::Module>(name)),
      module_(parent ? parent->module() : owned_module_.get()),
      parent_(parent),
      path_(child_path(parent, name)),
      computation_(module_->add_computation(parent ? name : "main")),
      builder_(computation_),
      id_(next_trace_id()) {
  if (!parent) {
    module_->set_entry(computation_);
    context_ = current_mesh();
  }
}

Trace::Trace(std::string name, ir::Module* module)
    : module_(module),
      path_(name),
      computation_(module->add_computation(name)),
      builder_(computation_),
      id_(next_trace_id()) {}

Trace::~Trace() = default;

Trace* Trace::current() { return current_trace; }

namespace {
Trace* root_of(Trace* trace) {
  while (trace->parent()) trace = trace->parent();
  return trace;
}
}  // namespace

Array Trace::wrap(ir::Instruction* instruction, bool weak) {
  auto impl = std::make_shared<ArrayImpl>();
  impl->kind = ArrayImpl::Kind::tracer;
  impl->shape = instruction->shape;
  impl->weak = weak;
  impl->trace_id = id_;
  impl->instruction = instruction;
  impl->created = instruction->location();
  return Array(std::move(impl));
}

Array Trace::add_parameter(const AbstractValue& value, const std::string& name) {
  TESSERA_CHECK(captures_.empty(), "explicit parameters come before captures");
  const auto number = std::int64_t(computation_->parameters().size());
  ir::Instruction* parameter = builder_.parameter(number, value.shape, name);
  if (!value.varying.empty()) set_varying(parameter, value.varying);
  if (value.sharding) set_sharding_type(parameter, value.sharding);
  set_untyped_mesh(parameter, value.untyped_mesh);
  place_parameter(parameter, value.memory);
  return wrap(parameter, value.weak);
}

Trace::CaptureKey Trace::key_of(const ArrayImpl& impl) {
  if (impl.kind == ArrayImpl::Kind::tracer) {
    return {impl.trace_id, reinterpret_cast<std::uintptr_t>(impl.instruction)};
  }
  return {0, impl.value_id};
}

ir::Instruction* Trace::lift(const Array& array, Location location) {
  ArrayImpl& impl = impl_of(array, location);
  if (impl.kind == ArrayImpl::Kind::abstract) {
    throw TypeError("a shape_dtype_struct (" + impl.shape.to_string() +
                        ") has no value and can't be used in a computation; pass it to lower()",
                    location);
  }
  if (impl.kind == ArrayImpl::Kind::host_scalar && !eager_) {
    return builder_.constant(*impl.literal);
  }
  if (impl.kind == ArrayImpl::Kind::tracer && impl.trace_id == id_) return impl.instruction;
  if (impl.kind == ArrayImpl::Kind::device) internal::check_alive(impl, location);
  if (auto found = captured_.find(key_of(impl)); found != captured_.end()) return found->second;

  if (impl.kind == ArrayImpl::Kind::tracer) {
    bool from_outside = false;
    for (const Trace* t = parent_; t && !from_outside; t = t->parent_) {
      from_outside = t->id_ == impl.trace_id || t->captured_.count(key_of(impl)) != 0;
    }
    if (!from_outside && forbid_captures_.empty()) {
      refuse_capture("a " + described(impl) + " was used in " +
                         (path_.empty() ? std::string("another trace") : "'" + path_ + "'") +
                         " after or outside of the function whose trace made it: arrays must "
                         "leave a traced function through its results",
                     location);
    }
  }
  if (!forbid_captures_.empty()) {
    const bool tracer = impl.kind == ArrayImpl::Kind::tracer;
    if (!tracer && (!impl.committed || embed_committed_)) {
      values_.push_back(array);
      ir::Instruction* value = builder_.constant(to_literal(array, location));
      captured_.emplace(key_of(impl), value);
      return value;
    }
    refuse_capture((tracer ? "a " + described(impl) : "the array " + impl.shape.to_string()) +
                       " from outside was used in " + forbid_captures_,
                   location);
  }
  const auto number = std::int64_t(computation_->parameters().size());
  ir::Instruction* parameter = builder_.parameter(number, impl.shape);
  if (VaryingAxes axes = varying_of(array); !axes.empty()) set_varying(parameter, std::move(axes));
  if (ShardingType type = sharding_type_of(array)) set_sharding_type(parameter, std::move(type));
  set_untyped_mesh(parameter, untyped_mesh_of(array));
  place_parameter(parameter, memory_of(array));
  captures_.push_back(array);
  captured_.emplace(key_of(impl), parameter);
  return parameter;
}

void Trace::refuse_capture(const std::string& message, Location location) const {
  for (const Trace* t = this; t; t = t->parent_) {
    if (t->for_now_) throw UnknownCapture(message, location);
  }
  throw TracerError(message, location);
}

void Trace::bind_capture(const Array& array, ir::Instruction* instruction) {
  captured_.emplace(key_of(impl_of(array)), instruction);
}

ir::Computation* Trace::finish(std::span<const Array> outputs, Location location) {
  TESSERA_CHECK(!finished_, "a trace is finished once");
  std::vector<ir::Instruction*> roots;
  for (const Array& output : outputs) roots.push_back(lift(output, location));
  computation_->set_root(builder_.tuple(std::move(roots)));
  finished_ = true;
  return computation_;
}

const Mesh& Trace::context() const {
  const Trace* t = this;
  while (t->parent_) t = t->parent_;
  return t->context_;
}
std::vector<Trace::MeshUse>& Trace::mesh_uses() { return root_of(this)->mesh_uses_; }
bool Trace::uses_host_memory() const {
  const Trace* t = this;
  while (t->parent_) t = t->parent_;
  return t->uses_host_memory_;
}
Trace::Calls& Trace::calls() { return root_of(this)->calls_; }

const ManualScope* Trace::manual_scope() const {
  for (const Trace* t = this; t; t = t->parent_) {
    if (t->manual_) return &*t->manual_;
  }
  return nullptr;
}

ir::Instruction* Trace::own(const Array& array) const {
  const ArrayImpl& impl = impl_of(array);
  return impl.kind == ArrayImpl::Kind::tracer && impl.trace_id == id_ ? impl.instruction : nullptr;
}

void Trace::note_gradient(const ir::Instruction* gradient, const ir::Instruction* by) {
  const auto* parameter = by->attrs.get_if<ir::ParameterAttrs>();
  if (parameter == nullptr || gradient->parent != computation_ || by->parent != computation_)
    return;
  gradients_[gradient->index] = std::size_t(parameter->number);
}

std::optional<std::size_t> Trace::gradient_by_parameter(const Array& result) const {
  const ir::Instruction* i = own(result);
  if (i == nullptr) return std::nullopt;
  const auto found = gradients_.find(i->index);
  if (found == gradients_.end()) return std::nullopt;
  return found->second;
}

const ir::BatchAxis* Trace::batch_axis(const std::string& name) const {
  for (const Trace* t = this; t; t = t->parent_) {
    for (auto axis = t->batch_axes_.rbegin(); axis != t->batch_axes_.rend(); ++axis) {
      if (axis->name == name) return &*axis;
    }
    if (t->manual_ && t->manual_->binds(name)) return nullptr;
  }
  return nullptr;
}

std::vector<ir::BatchAxis> Trace::batch_axes() const {
  std::vector<ir::BatchAxis> out;
  if (parent_) out = parent_->batch_axes();
  out.insert(out.end(), batch_axes_.begin(), batch_axes_.end());
  return out;
}

std::string Trace::batch_axes_text() const {
  std::string out;
  for (const ir::BatchAxis& axis : batch_axes()) {
    out += (out.empty() ? "'" : ", '") + axis.name + "' of " + std::to_string(axis.size);
  }
  return out;
}

const VaryingAxes& Trace::varying(const ir::Instruction* instruction) {
  static const VaryingAxes none;
  const ManualScope* scope = manual_scope();
  if (!scope) return none;
  const auto& all = computation_->instructions();
  for (auto i = varying_.size(); i <= std::size_t(instruction->index); ++i) {
    VaryingAxes axes;
    if (auto set = preset_varying_.find(std::int64_t(i)); set != preset_varying_.end()) {
      axes = std::move(set->second);
      preset_varying_.erase(set);
    } else {
      std::vector<const VaryingAxes*> operands;
      for (const ir::Instruction* o : all[i]->operands()) {
        operands.push_back(&varying_[std::size_t(o->index)]);
      }
      const VaryingAxes manual(scope->axes.begin(), scope->axes.end());
      axes = ir::varying_axes(*all[i], operands, *scope->mesh, manual);
    }
    varying_.push_back(std::move(axes));
  }
  return varying_[std::size_t(instruction->index)];
}

void Trace::set_varying(const ir::Instruction* instruction, VaryingAxes axes) {
  const auto at = std::size_t(instruction->index);
  if (at < varying_.size()) {
    varying_[at] = std::move(axes);
  } else {
    preset_varying_[std::int64_t(at)] = std::move(axes);
  }
}

const ShardingType& Trace::sharding_type(const ir::Instruction* instruction) const {
  static const ShardingType none;
  const auto found = sharding_types_.find(instruction->index);
  return found == sharding_types_.end() ? none : found->second;
}

const Mesh& Trace::untyped_mesh(const ir::Instruction* instruction) const {
  static const Mesh none;
  if (untyped_meshes_.empty()) return none;
  const auto found = untyped_meshes_.find(instruction->index);
  if (found != untyped_meshes_.end()) return found->second;
  // Results of programs within this one, and what is constrained, are where the operands are.
  const bool passes_on =
      ir::runs_program(instruction->opcode) || instruction->is(ir::Opcode::get_tuple_element) ||
      instruction->is(ir::Opcode::tuple) || instruction->is(ir::Opcode::sharding_constraint);
  Mesh mesh;
  if (passes_on && !sharding_type(instruction)) {
    for (const ir::Instruction* o : instruction->operands()) {
      // With an operand that has a type, the types of results say where they are.
      if (sharding_type(o)) return untyped_meshes_[instruction->index] = Mesh();
      if (mesh.empty()) mesh = untyped_mesh(o);
    }
  }
  return untyped_meshes_[instruction->index] = mesh;
}

void Trace::set_sharding_type(const ir::Instruction* instruction, ShardingType type) {
  sharding_types_[instruction->index] = std::move(type);
}

ir::Instruction* Trace::constrained_to(ir::Instruction* value, const ShardingType& type,
                                       Location location) {
  if (!type) return value;
  // Nothing can be said of a scalar but that it isn't a partial sum.
  if (!value->shape.dims.empty() || !type.unreduced.empty()) {
    value = builder_.emit_shaped(ir::Opcode::sharding_constraint, value->shape, {value},
                                 ir::ShardingConstraintAttrs{});
    value->sharding = {type.constraint()};
    // Where the mesh in scope has other axis types, results are on that one all the same.
    const Mesh& around = context();
    const Mesh& mesh = around.shape() == type.mesh.shape() ? around : type.mesh;
    mesh_uses().push_back({NamedSharding(mesh, type.spec(), location), location});
  }
  set_sharding_type(value, type);
  return value;
}

void Trace::place_parameter(const ir::Instruction* parameter, MemoryKind memory) {
  parameters_[parameter->index] = memory;
  if (is_host(memory)) root_of(this)->uses_host_memory_ = true;
}

const ir::MemoryLeaves& Trace::memory(const ir::Instruction* instruction) {
  const auto& all = computation_->instructions();
  for (auto n = memory_.size(); n <= std::size_t(instruction->index); ++n) {
    const ir::Instruction& i = *all[n];
    if (i.is(ir::Opcode::parameter)) {
      const auto found = parameters_.find(std::int64_t(n));
      memory_.push_back({found == parameters_.end() ? MemoryKind::device : found->second});
      continue;
    }
    std::vector<const ir::MemoryLeaves*> operands;
    for (const ir::Instruction* o : i.operands()) {
      operands.push_back(&memory_[std::size_t(o->index)]);
    }
    memory_.push_back(ir::memory_kinds(i, operands));
  }
  return memory_[std::size_t(instruction->index)];
}

void Trace::check_memory(const ir::Instruction& i, Location location) {
  const auto* placement = i.attrs.get_if<ir::DevicePlacementAttrs>();
  if (placement != nullptr && is_host(placement->memory)) root_of(this)->uses_host_memory_ = true;
  if (i.operands().size() < 2 || !uses_host_memory()) return;
  (void)memory(&i);
  std::vector<const ir::MemoryLeaves*> operands;
  for (const ir::Instruction* o : i.operands()) operands.push_back(&memory(o));
  const auto two = ir::in_two_memories(i, operands);
  if (!two) return;
  const auto text = [&](std::size_t k) {
    return i.operand(k)->shape.to_string() + " in " + name(*(*operands[k])[0]);
  };
  throw ValueError(std::string(ir::name(i.opcode)) + " of arrays in two memories: operand " +
                       std::to_string(two->first) + " is " + text(two->first) + ", operand " +
                       std::to_string(two->second) + " is " + text(two->second) +
                       "; device_put one of them to where the other is, for example "
                       "device_put(x, TransferToMemoryKind{\"device\"})",
                   location);
}

ActiveTrace::ActiveTrace(Trace* trace) : previous_(current_trace) { current_trace = trace; }
ActiveTrace::~ActiveTrace() { current_trace = previous_; }

bool same_value(const Array& a, const Array& b) {
  return Trace::key_of(impl_of(a)) == Trace::key_of(impl_of(b));
}

AbstractValue abstract_value(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  return AbstractValue{impl.shape,        impl.weak,
                       varying_of(array), sharding_type_of(array),
                       memory_of(array),  untyped_mesh_of(array)};
}

MemoryKind memory_of(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  if (impl.kind != ArrayImpl::Kind::tracer) return internal::memory_of(impl);
  for (Trace* t = Trace::current(); t; t = t->parent()) {
    if (t->id() != impl.trace_id) continue;
    if (!t->uses_host_memory()) break;
    return t->memory(impl.instruction)[0].value_or(MemoryKind::device);
  }
  return MemoryKind::device;
}

std::string placed_text(const AbstractValue& value) {
  return value.shape.to_string() + " in " + name(value.memory);
}

VaryingAxes varying_of(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  if (impl.kind != ArrayImpl::Kind::tracer) return {};
  for (Trace* t = Trace::current(); t; t = t->parent()) {
    if (t->id() == impl.trace_id) return t->varying(impl.instruction);
  }
  return {};
}

void set_varying(const Array& array, VaryingAxes axes) {
  Trace* trace = Trace::current();
  if (!trace || !trace->manual_scope()) return;
  const ArrayImpl& impl = impl_of(array);
  TESSERA_CHECK(impl.kind == ArrayImpl::Kind::tracer && impl.trace_id == trace->id(),
                "the axes of a value are set by a trace other than its own");
  trace->set_varying(impl.instruction, std::move(axes));
}

const Literal* constant_value(const Array& array) {
  const ArrayImpl& impl = impl_of(array);
  return impl.kind == ArrayImpl::Kind::host_scalar ? &*impl.literal : nullptr;
}

MetadataScope::MetadataScope(Trace& trace, Location location, const std::string& op_name)
    : builder_(trace.builder()), saved_(builder_.metadata) {
  builder_.metadata = {};
  builder_.metadata.edit().op_name = trace.path().empty() ? op_name : trace.path() + "/" + op_name;
  if (location.known()) {
    builder_.metadata.edit().source_file = location.file;
    builder_.metadata.edit().source_line = location.line;
  }
}
MetadataScope::~MetadataScope() { builder_.metadata = std::move(saved_); }

namespace {

/// Where values that vary over some axes meet others, those are marked as varying over the same.
/// Numbers are the same on all devices, and nothing flows back to them.
void meet(Trace& trace, ir::Opcode op, std::vector<ir::Instruction*>* operands) {
  const ManualScope* scope = trace.manual_scope();
  if (!scope || !scope->check_vma || operands->size() < 2 || ir::runs_program(op)) return;
  VaryingAxes all;
  for (const ir::Instruction* o : *operands) {
    const VaryingAxes& axes = trace.varying(o);
    all.insert(axes.begin(), axes.end());
  }
  for (ir::Instruction*& o : *operands) {
    if (o->is(ir::Opcode::constant)) continue;
    const VaryingAxes lacks = without(all, trace.varying(o));
    if (lacks.empty()) continue;
    ir::PvaryAttrs attrs;
    attrs.axes.assign(lacks.begin(), lacks.end());
    o = trace.builder().emit(ir::Opcode::pvary, {o}, std::move(attrs));
  }
}

ir::Instruction* stage(Trace& trace, ir::Opcode op, std::span<const Array> operands,
                       ir::Attributes attrs, Location location, const std::string& op_name,
                       const Shape* shape, const Callees& callees) {
  std::vector<ir::Instruction*> lifted;
  lifted.reserve(operands.size());
  for (const Array& operand : operands) lifted.push_back(trace.lift(operand, location));
  std::vector<ir::Computation*> called;
  if (callees) called = callees(trace.module());
  const MetadataScope scope(trace, location, op_name.empty() ? std::string(ir::name(op)) : op_name);
  ir::Builder& builder = trace.builder();
  meet(trace, op, &lifted);
  ir::Instruction* staged =
      shape
          ? builder.emit_shaped(op, *shape, std::move(lifted), std::move(attrs), std::move(called))
          : builder.emit(op, std::move(lifted), std::move(attrs), std::move(called));
  trace.check_memory(*staged, location);
  return staged;
}

}  // namespace

Array apply(ir::Opcode op, std::span<const Array> operands, ir::Attributes attrs, Location location,
            const std::string& op_name, const Shape* shape, const Callees& callees, bool weak) {
  if (Trace* trace = Trace::current()) {
    ir::Instruction* result =
        stage(*trace, op, operands, std::move(attrs), location, op_name, shape, callees);
    TESSERA_CHECK(!result->shape.is_tuple, "apply of an op with several results");
    return typed_results(*trace, result, weak, op_name, location)[0];
  }
  return as_one_program(op_name.empty() ? std::string(ir::name(op)) : op_name, location, [&] {
    return std::vector<Array>{
        apply(op, operands, std::move(attrs), location, op_name, shape, callees, weak)};
  })[0];
}

std::vector<Array> apply_many(ir::Opcode op, std::span<const Array> operands, ir::Attributes attrs,
                              Location location, const std::string& op_name, const Shape* shape,
                              const Callees& callees) {
  if (Trace* trace = Trace::current()) {
    ir::Instruction* result =
        stage(*trace, op, operands, std::move(attrs), location, op_name, shape, callees);
    return typed_results(*trace, result, false, op_name, location);
  }
  return as_one_program(op_name.empty() ? std::string(ir::name(op)) : op_name, location, [&] {
    return apply_many(op, operands, std::move(attrs), location, op_name, shape, callees);
  });
}

}  // namespace tessera::frontend
