// SPDX-License-Identifier: Apache-2.0
// What the passes over collectives share: one round of replacements in a computation.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/ir/builder.h"

namespace tessera::spmd {

/// Users are those at the start of the round; what a rewrite has touched is left alone by the next
/// one until the following round.
class Rewrite {
 public:
  explicit Rewrite(ir::Computation* computation);

  ir::Computation* computation() const { return computation_; }
  /// Instructions at the start; new ones come behind.
  std::size_t size() const { return users_.size(); }
  ir::Instruction* at(std::size_t n) const { return computation_->instructions()[n].get(); }
  std::span<ir::Instruction* const> users(const ir::Instruction* i) const;
  /// Untouched, used at one place of one instruction and not returned.
  bool has_one_use(const ir::Instruction* i) const;
  /// Not touched in this round, and not made in it.
  bool untouched(const ir::Instruction* i) const;
  void touch(const ir::Instruction* i) { touched_.insert(i); }
  /// For instructions that take the place of `of`: they carry its metadata.
  ir::Builder& builder(const ir::Instruction* of);
  /// Touches both.
  void replace(ir::Instruction* from, ir::Instruction* to);
  /// Carries the replacements out. Returns how many.
  std::size_t finish();

 private:
  ir::Computation* computation_;
  ir::Builder builder_;
  ir::Users users_;
  std::unordered_set<const ir::Instruction*> touched_;
  std::unordered_map<ir::Instruction*, ir::Instruction*> replaced_;
};

/// A collective of one array that nothing else orders, of the kinds that the passes know.
bool is_plain_collective(const ir::Instruction& i);
/// The same collective of other operands, with a channel of its own. `shape`: of the result.
ir::Instruction* same_collective(ir::Builder& b, const ir::Instruction& like,
                                 std::vector<ir::Instruction*> operands, const Shape& shape);
/// A gather of arrays of one dim, otherwise the same.
ir::Instruction* flat_gather(ir::Builder& b, const ir::Instruction& like,
                             std::vector<ir::Instruction*> operands, const Shape& shape);
/// The same with other groups; the shape is inferred.
ir::Instruction* regrouped(ir::Builder& b, const ir::Instruction& like, ir::Instruction* operand,
                           ir::DeviceGroups groups);
/// reshape, transpose, copy: the same elements, each once.
bool only_moves(const ir::Instruction& i);
/// Gives the same wherever it stands, in a loop or before it, if its operands do.
bool may_stand_outside(const ir::Instruction& i);
/// Puts the instructions in that order, which has all of them, operands first.
void set_order(ir::Computation* computation, const std::vector<ir::Instruction*>& order);

}  // namespace tessera::spmd
