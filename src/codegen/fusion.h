// SPDX-License-Identifier: Apache-2.0
// Which values are made in the loops of the ops that use them, so that they never reach memory.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/ir/module.h"
#include "src/passes/analysis/uniformity.h"

namespace tessera::codegen {

/// Ways in which values are made on the fly, which may be turned off; or which of them mattered.
struct FusionOptions {
  bool views = true;       ///< slices, concatenates and the like are read through, not made
  bool recompute = false;  ///< cheap values are made again in each loop that uses them
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

struct Fusion {
  /// By instruction index: every user makes it on the fly.
  std::vector<bool> inlined;
  /// Elementwise ops that end a loop.
  std::vector<bool> loops;
  /// Concatenations whose parts, and gathers whose indices, are computed in the loop that has them;
  /// by instruction index.
  std::vector<bool> fuses_producers;
  /// Whether these options made a difference.
  FusionOptions mattered = FusionOptions::none();
  /// Transposes that dots, convolutions and reductions need of their operands first, by
  /// instruction index and operand.
  std::map<std::pair<std::int64_t, std::size_t>, std::unique_ptr<ir::Instruction>>
      operand_transposes;
};

Fusion fuse(const ir::Computation& computation, const passes::UniformityFacts& facts,
            const FusionOptions& options);

/// A broadcast that only adds dims of one.
bool keeps_count(const ir::Instruction& broadcast);

}  // namespace tessera::codegen
