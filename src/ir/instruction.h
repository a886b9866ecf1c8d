// SPDX-License-Identifier: Apache-2.0
// Instruction: one operation of the IR, and who uses its result.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/small_vector.h"
#include "src/ir/attributes.h"
#include "src/ir/opcode.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::ir {

class Computation;
class Instruction;

/// Where an instruction comes from; printed as HLO `metadata`, never part of a program's identity.
struct Metadata {
  std::string op_type;
  std::string op_name;
  std::string source_file;
  std::int64_t source_line = 0;
  /// Other items of HLO's metadata, kept as text.
  std::vector<std::pair<std::string, std::string>> other;
  /// The number of the record that tells why this collective is there; negative: there is none. Not
  /// printed. Passes keep it with what takes the collective's place.
  std::int64_t communication_record = -1;

  bool empty() const { return names_nothing() && other.empty() && communication_record < 0; }
  /// No operation and no place in a source.
  bool names_nothing() const {
    return op_type.empty() && op_name.empty() && source_file.empty() && source_line == 0;
  }
  Location location() const;
  friend bool operator==(const Metadata&, const Metadata&) = default;
};

/// What an instruction says of itself, apart from the instructions and computations that it names.
struct InstructionData {
  Opcode opcode = Opcode::parameter;
  Shape shape;
  std::string name;  ///< unique in its computation; no '%'
  Attributes attrs;
  /// One per leaf of the shape in pre-order; empty: no sharding given.
  std::vector<TensorSharding> sharding;
  Cow<Metadata> metadata;
  Cow<std::string> backend_config;  ///< text as it stood
  Cow<std::map<std::string, std::string>> frontend_attributes;
};

/// Operand `operand_number` of `user`.
struct Use {
  Instruction* user = nullptr;
  int operand_number = 0;
};

using UserList = SmallVector<Instruction*, 4>;

/// An operation. Once a computation owns it (Computation::add) each operand knows it as a user:
/// operands, control predecessors and called computations are changed through functions only. A
/// copy has the same operands, but is nobody's user until a computation owns it, too.
class Instruction : public InstructionData {
 public:
  Instruction() = default;
  explicit Instruction(InstructionData data) : InstructionData(std::move(data)) {}
  Instruction(const Instruction& other)
      : InstructionData(other), operands_(other.operands_), called_(other.called_) {
    if (other.control_) control().predecessors = other.control_->predecessors;
  }
  Instruction& operator=(const Instruction&) = delete;

  Computation* parent = nullptr;
  /// Position in parent->instructions(): operands come first. Kept by Computation.
  std::int64_t index = 0;

  const std::vector<Instruction*>& operands() const { return operands_; }
  Instruction* operand(std::size_t i) const { return operands_[i]; }
  void set_operands(std::vector<Instruction*> operands);
  void set_operand(std::size_t i, Instruction* operand);
  void add_operand(Instruction* operand);

  /// to_apply, {condition, body}, branch computations, {select, scatter}, calls.
  const std::vector<Computation*>& called() const { return called_; }
  Computation* called(std::size_t i) const { return called_[i]; }
  void set_called(std::vector<Computation*> called) { called_ = std::move(called); }
  void set_called(std::size_t i, Computation* computation) { called_[i] = computation; }
  void add_called(Computation* computation) { called_.push_back(computation); }

  /// Run before this one, whatever the operands are.
  const std::vector<Instruction*>& control_predecessors() const {
    return control_ ? control_->predecessors : kNoInstructions;
  }
  const std::vector<Instruction*>& control_successors() const {
    return control_ ? control_->successors : kNoInstructions;
  }
  void set_control_predecessors(std::vector<Instruction*> predecessors);
  void add_control_predecessor(Instruction* predecessor);

  /// Instructions of the computation that have this one as an operand, each once, in the order of
  /// the computation. A copy: the operands may be changed meanwhile.
  UserList users() const;
  /// Places in operand lists at which this one stands.
  std::size_t use_count() const { return uses_.size() - std::size_t(vacant_uses_); }
  /// All such places, in the order in which they came; those without a user are vacant.
  const SmallVector<Use, 2>& uses() const { return uses_; }
  /// The only place at which this one is an operand; empty if there is none or another.
  std::optional<Use> only_use() const;
  /// Makes every user, every control successor and the root use `to`. O(uses).
  void replace_all_uses_with(Instruction* to);

  template <class A>
  const A& get() const {
    const A* a = attrs.get_if<A>();
    if (a == nullptr) lacks_attributes();
    return *a;
  }
  /// For writing.
  template <class A>
  A& edit() {
    A* a = attrs.edit_if<A>();
    if (a == nullptr) lacks_attributes();
    return *a;
  }
  bool is(Opcode op) const { return opcode == op; }
  bool has_sharding() const { return !sharding.empty(); }
  /// Itself, not what it calls.
  bool has_side_effect() const;
  /// Of what is printed as a custom call: nobody needs it any more.
  void drop_side_effect();
  /// For messages: `dot.3 (model.cc:12)`.
  std::string describe() const;
  Location location() const { return metadata->location(); }

 private:
  friend class Computation;

  [[noreturn]] void lacks_attributes() const;
  /// Enters into, or removes from, the use lists of what this instruction names.
  void link();
  void unlink();
  void link_operand(std::size_t i);
  void unlink_operand(std::size_t i);
  void link_control_predecessors();
  void unlink_control_predecessors();
  void compact_uses();

  /// Few instructions have any: the others spend a pointer on them.
  struct ControlEdges {
    std::vector<Instruction*> predecessors, successors;
  };
  static const std::vector<Instruction*> kNoInstructions;
  ControlEdges& control() {
    if (!control_) control_ = std::make_unique<ControlEdges>();
    return *control_;
  }

  std::vector<Instruction*> operands_;
  std::vector<Computation*> called_;
  std::unique_ptr<ControlEdges> control_;
  /// Of each operand: where in its uses_ this use stands. Empty: no computation owns this one.
  IndexList use_positions_;
  /// A place whose user is null is vacant.
  SmallVector<Use, 2> uses_;
  std::uint32_t vacant_uses_ = 0;
};

}  // namespace tessera::ir
