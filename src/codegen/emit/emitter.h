// SPDX-License-Identifier: Apache-2.0
// What the emitters of op families use to add steps to a plan. Private to codegen.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/codegen/built_plan.h"
#include "src/codegen/fusion/fusion.h"
#include "src/codegen/kernel_table.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/passes/analysis/uniformity.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

using runtime::ClassesId;
using runtime::SlotId;

/// What one module's plan shares.
struct PlanState {
  const ir::Module* module = nullptr;
  const FusionPlan* fusions = nullptr;
  BuiltPlan* built = nullptr;
  KernelTable* kernels = nullptr;
  std::map<std::pair<ClassesId, std::string>, SlotId> constants;  ///< by bytes
  // Device lists of collectives met so far; looked up, never walked.
  std::map<std::pair<const LogicalMesh*, IndexList>, runtime::DeviceLists> groups;
  std::map<DevicePairs, runtime::DeviceLists> permutes;

  runtime::Plan& plan() { return built->plan; }
  SlotId add_slot(std::int64_t bytes, ClassesId classes);
  SlotId constant(ClassesId classes, const std::vector<Literal>& values);
  bool is_constant(SlotId slot) const;
};

/// Emits one computation, as run from one place, into a block.
class Emitter {
 public:
  Emitter(PlanState* state, const ir::Computation& computation,
          const passes::UniformityFacts& facts, runtime::Block* block);

  /// `parameters[i]`: slots of the leaves of parameter i. Returns those of the root.
  std::vector<SlotId> run(const std::vector<std::vector<SlotId>>& parameters);

  // -- For the families -------------------------------------------------------------------------
  const passes::LeafFacts& facts(const ir::Instruction& i, std::size_t leaf = 0) const;
  /// The element that all elements of a known value are, on all devices.
  std::optional<Literal> splat(const ir::Instruction& i, std::size_t leaf = 0) const;
  /// The slot that holds an operand's leaf.
  SlotId slot(const ir::Instruction& i, std::size_t leaf = 0);
  std::vector<SlotId> slots(const ir::Instruction& i);
  /// Those of all leaves of all operands.
  std::vector<SlotId> operand_slots(const ir::Instruction& i);
  std::vector<std::int64_t> byte_counts(const std::vector<SlotId>& slots) const;
  /// A slot for a leaf of the instruction's result, entered as such.
  SlotId result(const ir::Instruction& i, std::size_t leaf = 0);
  std::vector<SlotId> results(const ir::Instruction& i);
  void alias(const ir::Instruction& i, std::vector<SlotId> slots);
  SlotId temporary(std::int64_t bytes, ClassesId classes);
  /// Says for profiles what the last step does besides its own op: "exponential+divide".
  void name_step(const std::vector<ir::Opcode>& computed);
  void task(const ir::Instruction& i, KernelDescriptor kernel, std::vector<SlotId> inputs,
            std::vector<SlotId> outputs, std::vector<runtime::KernelTask::Reuse> reuse = {});
  void step(
      const ir::Instruction& i,
      std::variant<runtime::KernelTask, runtime::Exchange, runtime::While, runtime::Conditional>
          what);
  /// A task that writes its result to memory of that kind.
  void transfer(const ir::Instruction& i, KernelDescriptor kernel, std::vector<SlotId> inputs,
                MemoryKind to);
  /// A transposed copy of a leaf; the slot itself if `perm` is empty.
  SlotId transposed(const ir::Instruction& i, SlotId from, const Shape& shape, const Dims& perm);
  SlotId converted(const ir::Instruction& i, SlotId from, const Shape& shape, DType to);
  /// Whether it is a result of the program.
  bool is_result(const ir::Instruction& i) const;
  /// Computed in the loops of its users.
  bool inlined(const ir::Instruction& i) const { return fusion_.inlined[std::size_t(i.index)]; }
  /// Whether parts of a concatenation, or the indices of a gather, are computed in its loop.
  bool fuses_producers(const ir::Instruction& i) const {
    return fusion_.fuses_producers[std::size_t(i.index)];
  }
  /// The order in which an operand that is inlined is made.
  const Dims& operand_order(const ir::Instruction& user, std::size_t operand) const {
    return fusion_.operand_orders.at({user.index, operand});
  }
  const passes::UniformityFacts& called_facts(const ir::Instruction& i, std::size_t k) const {
    return facts_.called.at(i.index).at(k);
  }
  PlanState& state() { return *state_; }

 private:
  void emit(const ir::Instruction& i);
  /// Other names of values, and calls, whose steps stand in the same block; false if it is neither.
  bool emit_names(const ir::Instruction& i);
  /// An op that ends a loop.
  bool is_loop(const ir::Instruction& i) const;
  /// A custom call's, or that of an op that runs on the evaluator. Messages name its line.
  KernelDescriptor kernel_of_op(const ir::Instruction& i);
  SlotId filled(const ir::Instruction& i, const Shape& shape, const Literal& element,
                ClassesId classes);

  PlanState* state_;
  const ir::Computation& computation_;
  const passes::UniformityFacts& facts_;
  runtime::Block* block_;
  const Fusion& fusion_;
  std::vector<std::vector<SlotId>> slots_;
};

/// A loop that turns one type into another; null if there is none.
std::shared_ptr<const LoopExpr> conversion(DType from, DType to);
/// One step, from the operands to the results; false if there is no kernel.
bool emit_operands_to_results(Emitter& e, const ir::Instruction& i, KernelDescriptor kernel);
// Each emits the instruction, or returns false if it has no kernel for it.
void emit_loop(Emitter& e, const ir::Instruction& root);
/// A view some of whose operands are made on the fly.
void emit_view(Emitter& e, const ir::Instruction& i);
bool emit_broadcast(Emitter& e, const ir::Instruction& i);
bool emit_iota(Emitter& e, const ir::Instruction& i);
bool emit_movement(Emitter& e, const ir::Instruction& i);
bool emit_placement(Emitter& e, const ir::Instruction& i);
bool emit_dot(Emitter& e, const ir::Instruction& i);
bool emit_convolution(Emitter& e, const ir::Instruction& i);
bool emit_reduce(Emitter& e, const ir::Instruction& i);
bool emit_reduce_window(Emitter& e, const ir::Instruction& i);
bool emit_fft(Emitter& e, const ir::Instruction& i);
bool emit_scatter(Emitter& e, const ir::Instruction& i);
bool emit_collective(Emitter& e, const ir::Instruction& i);
bool emit_while(Emitter& e, const ir::Instruction& i);
bool emit_conditional(Emitter& e, const ir::Instruction& i);

using EmitOp = bool (*)(Emitter&, const ir::Instruction&);
/// That of an operation (op_emitters.cc); null if it has none.
EmitOp emitter_of(ir::Opcode opcode);

}  // namespace tessera::codegen
