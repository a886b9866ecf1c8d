// SPDX-License-Identifier: Apache-2.0
// The computations that fusions call: what one loop computes, and its parts. Private to codegen.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/codegen/fusion/fusion.h"
#include "src/ir/module.h"
#include "src/passes/analysis/uniformity.h"

namespace tessera::codegen {

/// What all computations of one fused module share.
struct FusedProgram {
  ir::Module* module;
  const FusionPlan& plan;
  /// Copies of reducers, comparators and the like; looked up, never walked.
  std::unordered_map<const ir::Computation*, ir::Computation*> functions = {};

  ir::Computation* function(const ir::Computation& of);
};

/// A computation of the program, as it is run from one place, and what is decided for it.
struct FusionSource {
  const ir::Computation& computation;
  const passes::UniformityFacts& facts;
  const Fusion& fusion;

  const std::vector<passes::LeafFacts>& leaves(const ir::Instruction& i) const {
    return facts.leaves[std::size_t(i.index)];
  }
  bool inlined(const ir::Instruction& i) const { return fusion.inlined[std::size_t(i.index)]; }
};

/// Without operands and callees.
std::unique_ptr<ir::Instruction> bare_copy(const ir::Instruction& i);
/// For a user that takes it in that order.
ir::Instruction* add_transpose(ir::Instruction* of, const Dims& order, const ir::Instruction& user);

class FusionBody {
 public:
  FusionBody(FusedProgram* program, const FusionSource& source, ir::Opcode root);

  /// With all that is made for it on the fly.
  ir::Instruction* add(const ir::Instruction& root);
  /// Ends in what was added last.
  void transpose(const Dims& order, const ir::Instruction& user);
  /// What the fusion's operands are copies of, by parameter.
  const std::vector<const ir::Instruction*>& parameters() const { return parameters_; }
  /// The fusion, with these operands.
  ir::Instruction* call(ir::Computation* caller, std::vector<ir::Instruction*> operands,
                        const Cow<ir::Metadata>& metadata) const;

 private:
  using Copies = std::unordered_map<const ir::Instruction*, ir::Instruction*>;

  void add_copy(const ir::Instruction& i);
  ir::Instruction* operand(const ir::Instruction& user, std::size_t k);
  /// A known array that is one element throughout.
  ir::Instruction* splat(const ir::Instruction& of, const Literal& element);
  /// A parameter, or a scalar that is known.
  ir::Instruction* in_memory(const ir::Instruction& o);
  ir::Instruction* part(const ir::Instruction& o);
  /// What is made on the fly for `user`, but for its parts.
  void collect(const ir::Instruction& user, std::set<std::int64_t>* members) const;

  FusedProgram& program_;
  const FusionSource& source_;
  ir::Computation* target_;
  Copies copies_, read_, splats_, parts_;  // looked up, never walked
  std::vector<const ir::Instruction*> parameters_;
};

}  // namespace tessera::codegen
