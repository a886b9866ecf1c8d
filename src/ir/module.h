// SPDX-License-Identifier: Apache-2.0
// The one IR: a module of computations of instructions, with HLO's meaning.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/ir/attributes.h"
#include "src/ir/opcode.h"
#include "src/sharding/tensor_sharding.h"

namespace tessera::ir {

class Computation;
class Module;

/// Where an instruction comes from; printed as HLO `metadata`, never part of a program's identity.
struct Metadata {
  std::string op_type;
  std::string op_name;
  std::string source_file;
  std::int64_t source_line = 0;
  /// Other items of HLO's metadata, kept as text.
  std::vector<std::pair<std::string, std::string>> other;

  bool empty() const {
    return op_type.empty() && op_name.empty() && source_file.empty() && source_line == 0 &&
           other.empty();
  }
  Location location() const;
  friend bool operator==(const Metadata&, const Metadata&) = default;
};

struct Instruction {
  Opcode opcode = Opcode::parameter;
  Shape shape;
  std::string name;  ///< unique in its computation; no '%'
  std::vector<Instruction*> operands;
  /// to_apply, {condition, body}, branch computations, {select, scatter}, calls.
  std::vector<Computation*> called;
  Attributes attrs;
  /// One per leaf of the shape in pre-order; empty: no sharding given.
  std::vector<TensorSharding> sharding;
  Shared<Metadata> metadata;
  Shared<std::string> backend_config;  ///< text as it stood
  Shared<std::map<std::string, std::string>> frontend_attributes;
  std::vector<Instruction*> control_predecessors;
  Computation* parent = nullptr;
  /// Position in parent->instructions(): operands come first. Kept by Computation.
  std::int64_t index = 0;

  template <class A>
  const A& get() const {
    const A* a = attrs.get_if<A>();
    if (!a) lacks_attributes();
    return *a;
  }
  /// For writing.
  template <class A>
  A& edit() {
    A* a = attrs.edit_if<A>();
    if (!a) lacks_attributes();
    return *a;
  }
  Instruction* operand(std::size_t i) const { return operands[i]; }
  bool is(Opcode op) const { return opcode == op; }
  bool has_sharding() const { return !sharding.empty(); }
  /// For messages: `dot.3 (model.cc:12)`.
  std::string describe() const;
  Location location() const { return metadata->location(); }

 private:
  // Apart, since get and edit stand in every source.
  [[noreturn]] void lacks_attributes() const;
};

/// A function: instructions in an order where operands come first.
class Computation {
 public:
  Computation(Module* module, std::string name) : module_(module), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Module* module() const { return module_; }
  const std::vector<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }
  /// Appends; gives it a unique name from `instruction->name`, or from the opcode if that is empty.
  Instruction* add(std::unique_ptr<Instruction> instruction);
  const std::vector<Instruction*>& parameters() const { return parameters_; }
  Instruction* parameter(std::size_t i) const { return parameters_[i]; }
  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }

  /// Makes every user of `from` (and the root) use `to`. O(instructions).
  void replace_all_uses(Instruction* from, Instruction* to);
  /// Applies many replacements in one sweep, chains followed.
  void replace_all_uses(const std::unordered_map<Instruction*, Instruction*>& map);
  /// Removes instructions that nothing uses (parameters and side effects stay). Returns how many;
  /// appends where they were, if asked to.
  std::size_t remove_dead(std::vector<const Instruction*>* removed = nullptr);
  /// Restores the order after instructions were appended that earlier ones now use.
  void sort_topologically();

 private:
  Module* module_;
  std::string name_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::vector<Instruction*> parameters_;
  Instruction* root_ = nullptr;
  std::unordered_map<std::string, int> name_counts_;
};

/// Result `output` (index path into the root's tuple) may reuse parameter `parameter`'s memory.
struct Alias {
  Dims output;
  std::int64_t parameter = 0;
  Dims parameter_index;
  bool must = false;
  friend bool operator==(const Alias&, const Alias&) = default;
};

class Module {
 public:
  explicit Module(std::string name = "module") : name(std::move(name)) {}

  std::string name;
  std::int64_t num_partitions = 1;
  std::int64_t replica_count = 1;
  /// The mesh that the module's shardings are on, if they share one.
  MeshRef mesh;
  /// The greatest channel id in use. Kept by Computation::add and next_channel_id.
  std::int64_t last_channel_id = 0;
  std::vector<Alias> input_output_alias;
  /// (parameter number, index path) whose memory may be taken.
  std::vector<std::pair<std::int64_t, Dims>> buffer_donor;
  std::map<std::string, std::string> frontend_attributes;
  /// Other header attributes, kept as text.
  std::vector<std::pair<std::string, std::string>> other;

  /// Callees first, entry last.
  const std::vector<std::unique_ptr<Computation>>& computations() const { return computations_; }
  /// The name is made unique.
  Computation* add_computation(const std::string& name);
  Computation* entry() const { return entry_; }
  void set_entry(Computation* c) { entry_ = c; }
  /// Deep copy. Hooks (custom partitioners) are shared.
  std::unique_ptr<Module> clone() const;
  /// Copies a computation of another module (or of this one), callees included; returns the copy.
  Computation* import(const Computation& source);
  /// Drops computations that the entry does not reach and restores "callees first".
  void remove_dead_computations();
  std::size_t instruction_count() const;

 private:
  std::vector<std::unique_ptr<Computation>> computations_;
  Computation* entry_ = nullptr;
  std::map<std::string, int> name_counts_;
};

/// Users of each instruction of a computation by `index`, each user once, in order: as the
/// computation is when they are asked for.
class Users {
 public:
  Users() = default;
  explicit Users(const Computation&);
  /// Of how many instructions.
  std::size_t size() const { return first_.empty() ? 0 : first_.size() - 1; }
  std::span<Instruction* const> operator[](std::size_t index) const {
    return std::span(users_).subspan(first_[index], first_[index + 1] - first_[index]);
  }

 private:
  std::vector<std::size_t> first_;  ///< where in users_ an instruction's begin; and the end
  std::vector<Instruction*> users_;
};
Users users_of(const Computation&);

}  // namespace tessera::ir
