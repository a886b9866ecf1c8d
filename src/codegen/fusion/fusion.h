// SPDX-License-Identifier: Apache-2.0
// Which values are made in the loops of the ops that use them, so that they never reach memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"
#include "src/passes/analysis/uniformity.h"

namespace tessera::codegen {

/// Ways in which values are made on the fly, which may be turned off; or which of them mattered.
struct FusionOptions {
  bool views = true;       ///< slices, concatenates and the like are read through, not made
  bool recompute = false;  ///< cheap values are recomputed in each loop that uses them
  bool recompute_expensive = false;  ///< less cheap ones too
  bool recompute_long = false;       ///< from longer chains
  bool recompute_widely = false;     ///< in more places, if cheap or read in parts there
  bool parts = true;  ///< of concatenations, and indices, are computed where they are used
  bool operand_transposes = true;  ///< what a kernel takes in another order is made in it

  static FusionOptions none() {
    return {.views = false, .parts = false, .operand_transposes = false};
  }
  bool any() const {
    return views || recompute || recompute_expensive || recompute_long || recompute_widely ||
           parts || operand_transposes;
  }
  void add(const FusionOptions& other) {
    views |= other.views;
    recompute |= other.recompute;
    recompute_expensive |= other.recompute_expensive;
    recompute_long |= other.recompute_long;
    recompute_widely |= other.recompute_widely;
    parts |= other.parts;
    operand_transposes |= other.operand_transposes;
  }
};

/// What is decided for one computation.
struct Fusion {
  /// By instruction index: every user makes it on the fly.
  std::vector<bool> inlined;
  /// Concatenations whose parts, and gathers whose indices, are computed in loops of their own,
  /// which stand in the loop that has them; by instruction index. Each has an operand that is
  /// inlined there.
  std::vector<bool> fuses_producers;
  /// The order in which a dot, convolution or reduction takes an operand that is inlined, by
  /// instruction index and operand. One is computed in that order into an array of its own.
  std::map<std::pair<std::int64_t, std::size_t>, Dims> operand_orders;

  /// Whether operand k of `user` is computed in a loop of its own inside the user's loop.
  bool is_part(const ir::Instruction& user, std::size_t k) const {
    return fuses_producers[std::size_t(user.index)] && !(user.is(ir::Opcode::gather) && k == 0);
  }
  friend bool operator==(const Fusion&, const Fusion&) = default;
};

/// What is decided for a program, before anything is made of it: groups of instructions, each of
/// which one loop computes.
struct FusionPlan {
  /// Each computation as it is run from one place: by its facts.
  std::map<const passes::UniformityFacts*, Fusion> runs;
  /// Which of the options made a difference.
  FusionOptions mattered = FusionOptions::none();
};

/// Calls f with each computation as it is run from one place, and its facts.
template <class F>
void for_each_run(const ir::Computation& c, const passes::UniformityFacts& facts, const F& f) {
  f(c, facts);
  for (const auto& [index, called] : facts.called) {
    const ir::Instruction& i = *c.instructions()[std::size_t(index)];
    for (std::size_t k = 0; k < called.size(); ++k) for_each_run(*i.called(k), called[k], f);
  }
}

/// Decides for one program with any options; what they have in common is found once.
class FusionPlanner {
 public:
  /// Both must outlive it, and stay as they are.
  FusionPlanner(const ir::Module& module, const passes::UniformityFacts& facts);
  ~FusionPlanner();
  FusionPlan plan(const FusionOptions& options);

  struct Survey;  ///< of one computation

 private:
  std::vector<std::unique_ptr<Survey>> surveys_;
};

/// Without side effects, and with results that are all known: materialised where first used.
bool is_compile_time_constant(const ir::Instruction& i,
                              const std::vector<passes::LeafFacts>& leaves);
/// The element that all elements of a known value are, on all devices.
std::optional<Literal> splat_element(const passes::LeafFacts& facts);

/// A broadcast that only adds dims of one.
bool keeps_count(const ir::Instruction& broadcast);

}  // namespace tessera::codegen
