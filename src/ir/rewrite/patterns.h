// SPDX-License-Identifier: Apache-2.0
// Patterns: local rewrites by opcode, and the drivers that apply them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::ir {

/// How a pattern changes the computation. What it does is done at once: the next pattern sees new
/// operands in place of old ones. Only the order of the instructions and what is dead are seen to
/// at the end, so that pointers stay valid; until then what was replaced counts as a user still.
class PatternRewriter {
 public:
  Computation* computation() const { return builder_.computation(); }
  /// Appends instructions that carry the metadata of the one that is rewritten.
  Builder& builder() { return builder_; }
  /// The same, with the metadata of `of`.
  Builder& builder(const Instruction* of) {
    builder_.metadata = of->metadata;
    return builder_;
  }

  /// Users of `from` now use `to`, which has the same type, and `from` goes. `to` takes over its
  /// sharding if it has none.
  void replace(Instruction* from, Instruction* to);
  /// Takes out what nothing uses any more once the driver is done, side effects or not.
  void erase(Instruction* i);
  /// Says that a pattern changed an instruction where it stands.
  void modified(Instruction* i);

 private:
  friend class PatternDriver;
  PatternRewriter(Computation* c, class PatternDriver* driver) : builder_(c), driver_(driver) {}

  Builder builder_;
  class PatternDriver* driver_;
};

/// Patterns by the opcode of the instruction that they are tried on: those of greater benefit
/// first, of equal ones the one that was added first. The first that rewrites ends the visit.
///
/// A pattern is a function of one of two kinds:
///
///     // What takes the instruction's place; null, or the instruction itself, where it stays.
///     Instruction* negation_of_negation(const Instruction& i, Builder& b);
///     // Whether it changed anything, by way of the rewriter.
///     bool swap_reads(Instruction& i, PatternRewriter& r);
class PatternSet {
 public:
  using Rewrite = std::function<bool(Instruction&, PatternRewriter&)>;

  /// `name`: for messages, that of the pass.
  explicit PatternSet(std::string name);

  template <class F>
  PatternSet& add(Opcode opcode, F pattern, int benefit = 1) {
    return add({opcode}, std::move(pattern), benefit);
  }
  template <class F>
  PatternSet& add(std::initializer_list<Opcode> opcodes, F pattern, int benefit = 1) {
    const std::size_t number = keep(std::move(pattern), benefit);
    for (const Opcode opcode : opcodes) enter(opcode, number);
    return *this;
  }
  /// For all opcodes that are so.
  template <class F>
  PatternSet& add_if(bool (*is)(Opcode), F pattern, int benefit = 1) {
    const std::size_t number = keep(std::move(pattern), benefit);
    for (int n = 0; n < opcode_count(); ++n) {
      if (is(Opcode(n))) enter(Opcode(n), number);
    }
    return *this;
  }

  const std::string& name() const { return name_; }
  /// Numbers of the patterns to try, in order.
  std::span<const std::uint16_t> of(Opcode opcode) const { return by_opcode_[std::size_t(opcode)]; }
  const Rewrite& rewrite(std::size_t number) const { return patterns_[number].rewrite; }

 private:
  struct Pattern {
    Rewrite rewrite;
    int benefit = 1;
  };

  template <class F>
  std::size_t keep(F pattern, int benefit) {
    if constexpr (std::is_invocable_r_v<Instruction*, F&, Instruction&, Builder&>) {
      patterns_.push_back({[p = std::move(pattern)](Instruction& i, PatternRewriter& r) {
                             Instruction* to = p(i, r.builder());
                             if (to == nullptr || to == &i) return false;
                             r.replace(&i, to);
                             return true;
                           },
                           benefit});
    } else {
      patterns_.push_back({std::move(pattern), benefit});
    }
    return patterns_.size() - 1;
  }
  void enter(Opcode opcode, std::size_t number);

  std::string name_;
  std::vector<Pattern> patterns_;
  std::vector<std::vector<std::uint16_t>> by_opcode_;
};

/// A set for good, for static variables of passes: programs may still be compiled while the static
/// objects of a process are destroyed.
inline const PatternSet& keep(PatternSet set) { return *new PatternSet(std::move(set)); }

/// Where what a pattern made stands.
enum class InsertionPoint : std::uint8_t {
  before_users,  ///< in front of its first user
  in_place,      ///< all of it where the instruction stood that was rewritten
};

struct GreedyRewriteConfig {
  /// More rewrites than these in a computation are an InternalError: the patterns have no fixed
  /// point. 0: 32 for each of its instructions, and 1024.
  std::size_t max_rewrites = 0;
};

/// Which of these to use:
///
/// - apply_patterns_greedily: patterns each of which leaves less to do. It walks the instructions
/// in
///   order, then visits what patterns made, and what reads or was read by what they changed, in the
///   order in which that happened, until nothing matches.
/// - walk_and_apply_patterns: one visit of each instruction that was there, in order. For patterns
///   that would match what they made, and for passes that a pipeline repeats between others.
/// - Rewriter (rewriter.h): rewrites of several instructions at once that must see the computation
///   as it was at the start.
/// - Cloner (cloner.h): copies of whole computations, or of parts of them, elsewhere.
/// - A walk of its own: what isn't local. It moves code between computations, numbers values
///   (eliminate_common), or rebuilds a computation. Replacements that take effect at once are
///   Instruction::replace_all_uses_with.
///
/// All return how often patterns rewrote, and leave nothing behind that is dead. The forms for
/// modules visit the computations that were there at the start, callees first.
std::size_t walk_and_apply_patterns(Computation* computation, const PatternSet& patterns,
                                    InsertionPoint insertion = InsertionPoint::before_users);
std::size_t walk_and_apply_patterns(Module* module, const PatternSet& patterns);
std::size_t apply_patterns_greedily(Computation* computation, const PatternSet& patterns,
                                    const GreedyRewriteConfig& config = {});
std::size_t apply_patterns_greedily(Module* module, const PatternSet& patterns,
                                    const GreedyRewriteConfig& config = {});

}  // namespace tessera::ir
