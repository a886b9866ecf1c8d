// SPDX-License-Identifier: Apache-2.0
// Tracing: while a trace is active on this thread, operations stage instructions into it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/type_key.h>
#include <tessera/mesh.h>

#include "src/frontend/explicit/sharding_type.h"
#include "src/frontend/trace/varying.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::frontend {

/// The abstract value of an array: shape, dtype, weak type, in per-device code the axes over which
/// its values may vary, and in explicit mode its sharding.
struct AbstractValue {
  Shape shape;
  bool weak = false;
  VaryingAxes varying = {};
  ShardingType sharding = {};
  MemoryKind memory = MemoryKind::device;
  /// The mesh of an array without a sharding in its type: it has no Explicit axes. Empty if it is
  /// on none, or not known.
  Mesh untyped_mesh = {};
  friend bool operator==(const AbstractValue& a, const AbstractValue& b) {
    return a.shape == b.shape && a.weak == b.weak && a.varying == b.varying &&
           a.sharding == b.sharding && a.memory == b.memory;
  }
};

/// Whether both are one array, or one traced value.
bool same_value(const Array& a, const Array& b);

/// One function being traced into a computation. Traces nest; all traces below one root share its
/// module. Arrays from outside that are used inside are captured: they become parameters after the
/// explicit ones.
class Trace {
 public:
  /// A root trace makes its own module; an inner one stages into the module of `parent`.
  Trace(std::string name, Trace* parent);
  /// A root trace into an existing module (per-device functions of the partitioner).
  Trace(std::string name, ir::Module* module);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The innermost active trace of this thread; null: eager.
  static Trace* current();

  ir::Module* module() const { return module_; }
  ir::Builder& builder() { return builder_; }
  Trace* parent() const { return parent_; }
  std::uint64_t id() const { return id_; }
  /// That of the outermost trace around.
  std::uint64_t root_id() const { return parent_ ? parent_->root_id() : id_; }
  /// An explicit parameter.
  Array add_parameter(const AbstractValue& value, const std::string& name = "");
  /// The instruction of an array in this trace; captures arrays from outside. TracerError if the
  /// array belongs to a trace that has ended or isn't an ancestor.
  ir::Instruction* lift(const Array& array, Location location);
  Array wrap(ir::Instruction* instruction, bool weak);
  /// The captured arrays: those of the parent (concrete ones, for a root), in the order of the
  /// extra parameters.
  const std::vector<Array>& captures() const { return captures_; }
  /// Closes the computation: root = tuple of the outputs. Call once.
  ir::Computation* finish(std::span<const Array> outputs, Location location);
  std::unique_ptr<ir::Module> take_module() { return std::move(owned_module_); }

  /// Meshes named by constraints inside, for the choice of devices.
  struct MeshUse {
    Sharding sharding;
    Location location;
  };
  std::vector<MeshUse>& mesh_uses();
  /// The mesh in scope when the outermost trace began.
  const Mesh& context() const;
  /// The innermost per-device code that this trace is part of; null if none.
  const ManualScope* manual_scope() const;
  void bind_manual(ManualScope scope) { manual_ = std::move(scope); }
  /// The instruction of an array of this very trace; null for others.
  ir::Instruction* own(const Array& array) const;
  /// Says that one value of this trace is the gradient by another.
  void note_gradient(const ir::Instruction* gradient, const ir::Instruction* by);
  /// The number of the parameter by which this is the gradient, if it is one.
  std::optional<std::size_t> gradient_by_parameter(const Array& result) const;
  /// The axis of a batch that collectives may name here; null if none has that name, or if it is an
  /// axis of per-device code further inside.
  const ir::BatchAxis* batch_axis(const std::string& name) const;
  /// All that this trace is part of, from outside in.
  std::vector<ir::BatchAxis> batch_axes() const;
  /// 'i' of 4, 'j' of 2; empty if there are none. Part of the keys of traced functions.
  std::string batch_axes_text() const;
  void bind_batch_axis(ir::BatchAxis axis) { batch_axes_.push_back(std::move(axis)); }
  /// The axes over which a value of this trace may vary; none outside of per-device code. Unless
  /// set by set_varying these are the axes of its operands.
  const VaryingAxes& varying(const ir::Instruction* instruction);
  void set_varying(const ir::Instruction* instruction, VaryingAxes axes);
  /// The sharding in the type of a value of this trace; empty unless set.
  const ShardingType& sharding_type(const ir::Instruction* instruction) const;
  /// See AbstractValue.
  const Mesh& untyped_mesh(const ir::Instruction* instruction) const;
  void set_untyped_mesh(const ir::Instruction* instruction, const Mesh& mesh) {
    if (!mesh.empty()) untyped_meshes_[instruction->index] = mesh;
  }
  bool knows_untyped_meshes() const { return !untyped_meshes_.empty(); }
  void set_sharding_type(const ir::Instruction* instruction, ShardingType type);
  /// The value under a constraint to its type, for propagation to heed; it has that type, too.
  ir::Instruction* constrained_to(ir::Instruction* value, const ShardingType& type,
                                  Location location);
  /// The last call of the host whose order counts; null before the first.
  ir::Instruction* last_ordered_effect() const { return last_ordered_effect_; }
  void set_last_ordered_effect(ir::Instruction* call) { last_ordered_effect_ = call; }
  /// In which memory the leaves of a value of this trace are. Without values in host memory it is
  /// not looked at.
  const ir::MemoryLeaves& memory(const ir::Instruction* instruction);
  /// Whether a value of the program, in any of its traces, is in host memory.
  bool uses_host_memory() const;
  /// ValueError if a new instruction's operands are in two memories.
  void check_memory(const ir::Instruction& instruction, Location location);
  /// Forbids tracers and committed arrays from outside (TracerError; `where` names the function).
  /// Uncommitted arrays become constants. `for_now`: UnknownCapture instead.
  void forbid_captures(std::string where, bool for_now = false) {
    forbid_captures_ = std::move(where);
    for_now_ = for_now;
  }
  /// Forbids tracers from outside; arrays, committed ones too, become constants.
  void embed_captures(std::string where) {
    forbid_captures(std::move(where));
    embed_committed_ = true;
  }
  /// The instruction of this trace that an array from outside is.
  void bind_capture(const Array& array, ir::Instruction* instruction);
  const std::string& path() const { return path_; }
  /// Functions already traced into this module, by function, argument types and static values:
  /// another call calls the same computation.
  struct CachedCall {
    ir::Computation* computation = nullptr;
    std::vector<bool> weak;
    std::vector<VaryingAxes> varying;
    std::vector<ShardingType> shardings;
    internal::Prototype prototype;
    std::vector<Array> captures;  ///< concrete arrays only
    /// Of each result: the parameter by which it is the gradient.
    std::vector<std::optional<std::size_t>> gradients;
  };
  struct CallKey {
    std::string text;
    internal::TypeKey types;
    friend bool operator==(const CallKey&, const CallKey&) = default;
  };
  struct CallHash {
    std::size_t operator()(const CallKey& key) const {
      return std::hash<std::string>()(key.text) ^ key.types.hash();
    }
  };
  using Calls = std::unordered_map<CallKey, CachedCall, CallHash>;
  Calls& calls();
  /// For a single eager operation: plain scalars become parameters too, so that the program doesn't
  /// depend on their values.
  void set_eager() { eager_ = true; }

 private:
  friend class ActiveTrace;
  friend bool same_value(const Array& a, const Array& b);
  std::unique_ptr<ir::Module> owned_module_;
  ir::Module* module_;
  Trace* parent_ = nullptr;
  std::string path_;
  ir::Computation* computation_;
  ir::Builder builder_;
  std::uint64_t id_;
  std::vector<Array> captures_;
  std::vector<Array> values_;  ///< arrays that became constants: kept alive for captured_
  /// By trace and instruction of a tracer, of which there may be several handles; by value, else.
  using CaptureKey = std::pair<std::uint64_t, std::uint64_t>;
  static CaptureKey key_of(const internal::ArrayImpl& impl);
  std::map<CaptureKey, ir::Instruction*> captured_;
  std::vector<MeshUse> mesh_uses_;
  Mesh context_;
  Calls calls_;
  std::optional<ManualScope> manual_;
  std::vector<ir::BatchAxis> batch_axes_;
  std::vector<VaryingAxes> varying_;  ///< by position in the computation, computed as needed
  std::map<std::int64_t, VaryingAxes> preset_varying_;   ///< set for later positions
  std::map<std::int64_t, std::size_t> gradients_;        ///< by position: the parameter's number
  std::map<std::int64_t, ShardingType> sharding_types_;  ///< by position
  /// By position; what is found out of operands is kept.
  mutable std::map<std::int64_t, Mesh> untyped_meshes_;
  ir::Instruction* last_ordered_effect_ = nullptr;
  std::vector<ir::MemoryLeaves> memory_;           ///< as varying_
  std::map<std::int64_t, MemoryKind> parameters_;  ///< by position
  bool uses_host_memory_ = false;                  ///< of a root
  void place_parameter(const ir::Instruction* parameter, MemoryKind memory);
  [[noreturn]] void refuse_capture(const std::string& message, Location location) const;

  std::string forbid_captures_;
  bool embed_committed_ = false;
  bool for_now_ = false;
  bool finished_ = false;
  bool eager_ = false;
};

/// Makes a trace the current one while in scope.
class ActiveTrace {
 public:
  explicit ActiveTrace(Trace* trace);
  ~ActiveTrace();
  ActiveTrace(const ActiveTrace&) = delete;
  ActiveTrace& operator=(const ActiveTrace&) = delete;

 private:
  Trace* previous_;
};

/// While in scope, new instructions of the trace have this location and operation in their
/// metadata.
class MetadataScope {
 public:
  MetadataScope(Trace& trace, Location location, const std::string& op_name);
  ~MetadataScope();
  MetadataScope(const MetadataScope&) = delete;
  MetadataScope& operator=(const MetadataScope&) = delete;

 private:
  ir::Builder& builder_;
  Cow<ir::Metadata> saved_;
};

AbstractValue abstract_value(const Array& array);
/// The axes over which an array may vary, in per-device code.
VaryingAxes varying_of(const Array& array);
/// Where an array is, a traced one included.
MemoryKind memory_of(const Array& array);
/// "f32[8] in pinned_host"
std::string placed_text(const AbstractValue& value);
/// Sets the axes over which a new value of the current trace varies.
void set_varying(const Array& array, VaryingAxes axes);
/// Makes callees (reducers, comparators) in the module that an instruction is staged into.
using Callees = std::function<std::vector<ir::Computation*>(ir::Module*)>;

/// Entry point of all operations: stages op(operands) into the current trace or, if there is none,
/// compiles and runs it on the operands' devices (cached by op, attributes, types and placements).
/// `op_name` is for metadata and messages ("tessera.sum"). `shape`: for opcodes whose shape isn't
/// inferred. Operations with tuple results (sort, variadic reduce, ...) use apply_many.
Array apply(ir::Opcode op, std::span<const Array> operands, ir::Attributes attrs, Location location,
            const std::string& op_name = "", const Shape* shape = nullptr,
            const Callees& callees = nullptr, bool weak = false);
std::vector<Array> apply_many(ir::Opcode op, std::span<const Array> operands, ir::Attributes attrs,
                              Location location, const std::string& op_name = "",
                              const Shape* shape = nullptr, const Callees& callees = nullptr);

/// Traces `body` and, if no trace is active, compiles it as one program and runs it, so that
/// composite operations cost one dispatch. Arrays that `body` uses are captured.
std::vector<Array> as_one_program(const std::string& name, Location location,
                                  const std::function<std::vector<Array>()>& body);

/// A concrete array on the default device; `weak` scalars stay on the host until used.
Array from_literal(const Literal& literal, bool weak = false, bool committed = false);
/// Gathers all shards, adding up partial sums. TracerError and RuntimeError as Array::to_vector.
Literal to_literal(const Array& array, Location location);
/// The same; nothing if the array was deleted or donated.
std::optional<Literal> literal_if_alive(const Array& array, Location location);
/// The host value of a weak or plain scalar known while tracing; null if there is none.
const Literal* constant_value(const Array& array);

}  // namespace tessera::frontend
