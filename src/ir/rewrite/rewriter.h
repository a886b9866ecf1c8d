// SPDX-License-Identifier: Apache-2.0
// Rewriter: one round of replacements in a computation.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::ir {

/// Makes instructions and has them take others' places. Nothing that was there changes before
/// finish(), so that a pass may walk the computation, its indices and its use lists meanwhile.
///
///     Rewriter r(computation);
///     for (std::size_t n = 0; n < r.size(); ++n) {
///       Instruction* i = r.at(n);
///       if (is_double_negation(*i)) r.replace(i, i->operand(0)->operand(0));
///     }
///     r.finish();
///
/// A rewrite that looks at more than one instruction asks first whether they are untouched: what
/// one rewrite of the round has used is left alone by the next ones until the following round.
class Rewriter {
 public:
  explicit Rewriter(Computation* computation);

  Computation* computation() const { return builder_.computation(); }
  /// Instructions at the start; new ones come behind.
  std::size_t size() const { return size_; }
  Instruction* at(std::size_t n) const { return computation()->instructions()[n].get(); }

  /// Users that were there at the start.
  UserList users(const Instruction* i) const;
  /// Untouched, at the start an operand in one place only, not returned and ordered by its operands
  /// alone.
  bool has_one_use(const Instruction* i) const;
  /// Not touched in this round, and not made in it.
  bool untouched(const Instruction* i) const;
  void touch(const Instruction* i) { touched_.insert(i); }

  /// Appends instructions that carry the metadata of `of`. They end up in front of their first
  /// user.
  Builder& builder(const Instruction* of);
  /// The same operation on other operands, with the shape that it has on them: attributes,
  /// metadata, called computations and configs are those of `of`, a channel is its own.
  Instruction* clone_with_operands(const Instruction& of, std::vector<Instruction*> operands);
  /// The same, of a shape that can't be inferred.
  Instruction* clone_with_operands(const Instruction& of, std::vector<Instruction*> operands,
                                   const Shape& shape);

  /// Users of `from` shall use `to`. A root keeps its sharding. Touches both.
  void replace(Instruction* from, Instruction* to);
  /// Takes out what nothing will use, side effects or not. Touches it.
  void erase(Instruction* i);
  /// Carries everything out, restores the order and removes what is dead. Returns how many
  /// instructions were replaced or erased.
  std::size_t finish();

 private:
  Builder builder_;
  std::size_t size_;
  std::unordered_set<const Instruction*> touched_;
  std::unordered_map<Instruction*, Instruction*> replaced_;
  std::vector<Instruction*> erased_;
};

}  // namespace tessera::ir
