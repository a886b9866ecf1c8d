// SPDX-License-Identifier: Apache-2.0
// The one IR: a module of computations of instructions, with HLO's meaning.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/ir/instruction.h"
#include "src/ir/names.h"

namespace tessera::ir {

class Module;

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

  /// Instruction::replace_all_uses_with of each, chains followed.
  void replace_all_uses(const std::unordered_map<Instruction*, Instruction*>& map);
  /// Removes instructions that nothing uses (parameters and side effects stay). Returns how many;
  /// appends where they were, if asked to.
  std::size_t remove_dead(std::vector<const Instruction*>* removed = nullptr);
  /// Removes instructions that nothing else uses any more, in one sweep; neither parameters nor the
  /// root (InternalError).
  void erase(const std::vector<Instruction*>& instructions);
  /// Has each second one stand right before the first one of its pair, and restores the order.
  void move_before(const std::vector<std::pair<Instruction*, Instruction*>>& positions_and_moved);
  /// Restores the order after instructions were appended that earlier ones now use.
  void sort_topologically();
  /// Puts the instructions in that order, which has all of them, operands first (InternalError).
  void set_order(const std::vector<Instruction*>& order);

 private:
  bool note_number(std::string_view name);
  void enter_all_names();
  std::string unique_name(std::string requested);
  std::size_t keep(const std::vector<bool>& kept);
  void take_order(const std::vector<std::size_t>& order);

  Module* module_;
  std::string name_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::vector<Instruction*> parameters_;
  Instruction* root_ = nullptr;
  // Names `stem.7` that come in rising order, as texts have them, are new by their number alone and
  // are not entered one by one.
  NameCounts greatest_numbers_;  ///< of each stem
  NameCounts name_counts_;       ///< names that were entered, and stems
  /// How many instructions at the front have their names entered; unknown once the list changed.
  std::optional<std::size_t> entered_;
};

/// Result `output` (index path into the root's tuple) may reuse parameter `parameter`'s memory.
struct Alias {
  Dims output;
  std::int64_t parameter = 0;
  Dims parameter_index;
  bool must = false;
  friend bool operator==(const Alias&, const Alias&) = default;
};

/// Each replica runs the program on all partitions. Partition p of replica r is device
/// r * num_partitions + p.
struct ProcessGrid {
  std::int64_t num_partitions = 1, num_replicas = 1;
  std::int64_t devices() const { return num_partitions * num_replicas; }
};

class Module {
 public:
  explicit Module(std::string name = "module") : name(std::move(name)) {}

  std::string name;
  std::int64_t num_partitions = 1;
  std::int64_t replica_count = 1;
  ProcessGrid grid() const { return {num_partitions, replica_count}; }
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

}  // namespace tessera::ir
