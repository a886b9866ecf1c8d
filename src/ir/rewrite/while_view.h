// SPDX-License-Identifier: Apache-2.0
// WhileView: a while loop as the values that it carries.
#pragma once

#include <optional>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// How often a loop runs, by what it counts.
struct LoopCounter {
  std::size_t carry = 0;  ///< that is counted
  std::int64_t start = 0, step = 0, trips = 0;
};

/// Reads a `while` instruction. Carry k is element k of the tuple that goes round, or the one value
/// that does:
///
///     p = parameter(0)                      of condition and body
///     x = get-tuple-element(p), index=k     reads(k)
///     ROOT tuple(..., y, ...)               next(k) == y
///     while(tuple(..., a, ...))             init(k) == a
class WhileView {
 public:
  explicit WhileView(const Instruction& loop) : loop_(loop) {}

  const Instruction& loop() const { return loop_; }
  Computation& condition() const { return *loop_.called(0); }
  Computation& body() const { return *loop_.called(1); }
  std::size_t size() const { return loop_.shape.is_tuple ? loop_.shape.elements.size() : 1; }
  const Shape& shape(std::size_t k) const {
    return loop_.shape.is_tuple ? loop_.shape.elements[k] : loop_.shape;
  }

  /// Tuple instructions go in and come out of the body, so that init and next are known.
  bool has_tuples() const;
  /// And whoever uses the loop, or the parameter of its body or condition, asks for one element.
  bool has_separate_carries() const;
  /// What it is before the first trip; after a trip. Null: not known apart from the others.
  Instruction* init(std::size_t k) const;
  Instruction* next(std::size_t k) const;
  /// What reads it in the body (get-tuple-elements, in order).
  std::vector<Instruction*> reads(std::size_t k) const;

  /// The carry that an instruction of the body, or of the condition, reads; `through_copies`: or
  /// a copy of such.
  static std::optional<std::size_t> carry_of(const Instruction& i, bool through_copies = false);
  /// The body gives it back as it got it.
  bool is_invariant(std::size_t k, bool through_copies = false) const;

  /// Counts from a constant by a constant to a constant; empty if that isn't plain to see. The
  /// arithmetic is that of the counter's type: one that wraps around has no trip count.
  std::optional<LoopCounter> counter() const;
  /// The count that the instruction states, or that of counter().
  std::optional<std::int64_t> trips() const;

 private:
  std::optional<std::size_t> counted(const Instruction& i) const;
  std::optional<std::int64_t> limit_of(const Instruction& i) const;
  std::optional<std::int64_t> step_of(std::size_t k) const;

  const Instruction& loop_;
};

/// The integer that a scalar is known to be.
std::optional<std::int64_t> known_integer(const Instruction& i);

// Changes of a loop whose condition and body nothing else runs. The order of the computation that
// has the loop, and of the body, is restored by the caller (sort_topologically).

/// Other values before the first trip, one per carry; of the same shapes.
void set_inits(Instruction* loop, const std::vector<Instruction*>& inits);
/// Has it carry these as well (body with a root tuple). Returns what reads them in the body, and so
/// far gives them back as they are. Users of the whole result see the elements that they know.
std::vector<Instruction*> add_carries(Instruction* loop, const std::vector<Instruction*>& inits);
/// Drops the others; nothing may read those. Needs has_separate_carries().
void keep_carries(Instruction* loop, const std::vector<bool>& kept);

}  // namespace tessera::ir
