// SPDX-License-Identifier: Apache-2.0
// Cloner: copies of instructions in another place, with operands that are copies, too.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

struct CloneOptions {
  /// What the copies call in place of what their originals call; null: the same computations.
  const std::unordered_map<const Computation*, Computation*>* callees = nullptr;
  /// A collective gets a channel of its own, as it must where its original stays.
  bool fresh_channels = false;
  /// Copies have control predecessors where their originals have.
  bool control_predecessors = true;
  /// For copies of instructions that have none.
  Cow<Metadata> default_metadata;
};

/// Copies instructions of `source` into `target`, which may be the same computation. What operands
/// become is known from copies made before, or given by map():
///
///     Cloner cloner(body, caller);
///     cloner.map_parameters(call.operands());
///     Instruction* result = cloner.clone_all();
class Cloner {
 public:
  Cloner(const Computation& source, Computation* target, CloneOptions options = {});

  /// Copies of users of `from` shall use `to`.
  void map(const Instruction* from, Instruction* to) { copies_[std::size_t(from->index)] = to; }
  /// The parameters of the source, by number. One that nothing uses may be null.
  void map_parameters(std::span<Instruction* const> arguments);
  bool has(const Instruction* from) const { return find(from) != nullptr; }
  /// What stands for it in the target (InternalError if nothing does).
  Instruction* operator[](const Instruction* from) const;

  /// Copies one; what it uses must be known.
  Instruction* clone(const Instruction& source);
  /// Copies one and what it needs that isn't known yet, in the order of the source.
  Instruction* clone_with_operands(const Instruction& source);
  /// Copies all that isn't known yet; returns what stands for the root (null if there is none).
  Instruction* clone_all();

 private:
  Instruction* find(const Instruction* from) const {
    return from->parent == &source_ && std::size_t(from->index) < copies_.size()
               ? copies_[std::size_t(from->index)]
               : nullptr;
  }

  const Computation& source_;
  Computation* target_;
  CloneOptions options_;
  std::vector<Instruction*> copies_;  ///< by index in the source
  bool parameters_given_ = false;
};

/// A second computation of the same module that calls what the first one calls. (Module::import
/// copies callees, too.)
Computation* clone_computation(const Computation& source);

/// Appends what a computation does with these arguments; returns its root.
Instruction* inline_computation(Computation* target, const Computation& source,
                                std::span<Instruction* const> arguments, CloneOptions options = {});

}  // namespace tessera::ir
