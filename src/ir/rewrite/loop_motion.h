// SPDX-License-Identifier: Apache-2.0
// Taking out of a loop what it computes anew in each trip though it stays the same.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "src/ir/cloner.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::ir {

/// Computes values of a loop's body in front of it, and has it carry them:
///
///     motion.find_invariants(...);    what is the same in all trips
///     motion.move(i);                 for what shall be computed before the loop
///     motion.add_carries();           reads of these become reads of carries
///     motion.tidy();
///
/// The condition and the body are run by nothing else, and have a tuple as their parameter.
class LoopMotion {
 public:
  explicit LoopMotion(Instruction* loop, CloneOptions options = {});

  /// Arrays that the loop passes on unchanged, and what is computed from invariants alone by
  /// instructions that `may` leave it.
  void find_invariants(const std::function<bool(const Instruction&)>& may);
  bool has_invariants() const { return !invariant_.empty(); }
  bool is_invariant(const Instruction* i) const { return invariant_.count(i) > 0; }
  /// Whether anything reads it that isn't.
  bool is_read_in_trips(const Instruction* i) const;

  /// An invariant, with what it is computed from.
  void move(Instruction* i);
  std::size_t moved() const { return moved_.size(); }
  void add_carries();
  /// Restores the order of body and surroundings, and drops what nothing reads any more.
  void tidy();

 private:
  WhileView view_;
  Instruction* loop_;
  Cloner outside_;
  std::unordered_set<const Instruction*> invariant_;  // looked up, never walked
  std::vector<Instruction*> moved_, values_;          ///< in the body, and before the loop
};

}  // namespace tessera::ir
