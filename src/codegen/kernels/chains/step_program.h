// SPDX-License-Identifier: Apache-2.0
// Short steps with the loops that they stand in, as one kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "src/codegen/kernels/chains/links.h"

namespace tessera::codegen {

struct StepLink : Link {
  std::int64_t first_byte = 0;  ///< of the outputs' memory, where it writes them
};

/// Kernels that run one after the other, each whole, on memory that doesn't move meanwhile.
///
/// Example, `while (i < n) { x = f(x, a[i]); i = i + 1; }`:
///   inputs      i0, n, x0, a
///   outputs     x, which holds x0 when the kernel starts
///   scratch     i, less, y
///   copy        i0 -> i
///   loop        condition: less = compare(i, n); predicate: less
///               body: y = f(x, a, i); i = add(i); copy y -> x
struct StepProgram {
  using Link = StepLink;
  struct Copy {
    Place from, to;
    std::int64_t bytes = 0;
  };
  struct Step;
  using Block = std::vector<Step>;
  struct Loop {
    Block condition;
    Place predicate;
    Block body;
  };
  struct Branches {
    Place selector;
    bool boolean = true;  ///< pred: true is branch 0; else an s32 index, the last if there is none
    std::vector<Block> blocks;
  };
  struct Step {
    std::variant<Link, Copy, Loop, Branches> what;
  };

  Block steps;
  std::vector<std::int64_t> inputs, outputs, scratch;  ///< bytes
};

/// The same steps, with what they read and write elsewhere.
StepProgram::Block with_places(const StepProgram::Block& steps,
                               const std::function<Place(const Place&)>& moved);

/// Of one unit, which takes so long.
KernelDescriptor step_program_kernel(StepProgram program, double nanoseconds);

/// Calls f with each link, in the order in which they stand.
template <class Steps, class F>
void for_each_link(Steps& steps, F&& f) {
  for (auto& step : steps) {
    if (auto* link = std::get_if<StepProgram::Link>(&step.what)) {
      f(*link);
    } else if (auto* loop = std::get_if<StepProgram::Loop>(&step.what)) {
      for_each_link(loop->condition, f);
      for_each_link(loop->body, f);
    } else if (auto* branches = std::get_if<StepProgram::Branches>(&step.what)) {
      for (auto& block : branches->blocks) for_each_link(block, f);
    }
  }
}

}  // namespace tessera::codegen
