// SPDX-License-Identifier: Apache-2.0
// From what propagation recorded to chains of rules in the user's terms.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <tessera/explain.h>

#include "src/spmd/propagation/provenance.h"

namespace tessera::compiler::explain {

/// How the program's arguments and results are called in messages.
struct Names {
  std::vector<std::string> parameters;  ///< "argument 0.w1"; missing ones are numbered
  std::vector<std::string> results;     ///< by leaf
};

/// A statement of the program that a chain ends at.
struct Annotation {
  const ir::Instruction* by = nullptr;  ///< parameter, root or constraint
  std::size_t leaf = 0;
  friend bool operator==(const Annotation&, const Annotation&) = default;
};

/// An array of the propagated program.
struct Tensor {
  const ir::Instruction* instruction = nullptr;
  std::size_t leaf = 0;
};

/// Empty if it isn't known.
inline std::string location_text(const Location& l) { return l.known() ? l.to_string() : ""; }

class CauseChains {
 public:
  /// `final_of`: where the specs in force stand, for instructions that have others here.
  CauseChains(const spmd::propagation::Provenance& provenance, const ir::Module& module,
              Names names,
              const std::unordered_map<const ir::Instruction*, const ir::Instruction*>& final_of);

  const spmd::propagation::Provenance& provenance() const { return provenance_; }
  const ir::Module& module() const { return module_; }
  /// The value of a tensor; -1 if propagation didn't meet it.
  int value_of(const Tensor& tensor) const;
  /// The entry's instruction that stands for a value, or another one that does.
  Tensor tensor_of(int value) const { return tensors_[std::size_t(value)]; }

  /// "argument 2 (w)", "result 0", "with_sharding_constraint", or the opcode.
  std::string label(const ir::Instruction& instruction, std::size_t leaf = 0) const;
  /// Of a statement: results may be stated on what the root's tuple is made of.
  std::string label(const Annotation& annotation) const;
  /// The statement is about an argument or a result of the program.
  bool at_boundary(const Annotation& annotation) const;
  /// A name to know an array by: that of an argument, else the instruction's.
  std::string name(const Tensor& tensor) const;
  std::string spec(const Tensor& tensor) const;

  /// Why an axis (of the provenance's mesh) stands on a dim of a value. `end`: what the chain ends
  /// at, if the program states it.
  std::vector<ExplainStep> steps(int value, int dim, int axis, Annotation* end) const;
  /// One step of it.
  ExplainStep step(int value, const spmd::propagation::Cause* cause) const;
  /// What the program says of a value, whether or not it names axes.
  std::optional<Annotation> statement(int value) const;
  ExplainStep stated(int value) const;
  /// "dim 0 of operand 1", "dim 1 of the result": a value in an op.
  std::string place(const spmd::propagation::Op& op, int value, int dim) const;

  /// The op of an instruction that has a rule; null: none has.
  const spmd::propagation::Op* op_of(const ir::Instruction* instruction) const;

  /// In the user's names; of any mesh.
  static std::string axis_names(const LogicalMesh& mesh, IndexList axes);

 private:
  const spmd::propagation::Provenance& provenance_;
  const ir::Module& module_;
  Names names_;
  const std::unordered_map<const ir::Instruction*, const ir::Instruction*>& final_of_;
  std::vector<Tensor> tensors_;  ///< by value
  /// What makes results: which one, or which is the first.
  std::unordered_map<const ir::Instruction*, std::size_t> results_;
  std::unordered_map<const ir::Instruction*, int> ops_;
};

/// Joins chains of neighbouring axes that are the same.
void append_chain(std::vector<ExplainChain>* chains, ExplainChain chain, const LogicalMesh& mesh,
                  IndexList axes, std::vector<IndexList>* axes_of_chains);

}  // namespace tessera::compiler::explain
