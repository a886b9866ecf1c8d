// SPDX-License-Identifier: Apache-2.0
// Runs one pass on a device program, which must compute the same as before.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/cost/count.h"
#include "src/ir/module.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::testing {

struct CollectiveCase {
  std::unique_ptr<ir::Module> before, after;
  std::string text;  ///< afterwards
  cost::CommunicationCount was, is;
  std::size_t changed = 0;

  int count(ir::Opcode op) const;
  int collectives() const;
};

/// `text`: computations and an ENTRY of a program of 8 devices, without its first line; the
/// reducers add, max and addi (of s32) are there. Runs the pass, and both programs on small random
/// integers that differ from device to device; expects equal results (`tolerance` 0: equal bits).
CollectiveCase check_collectives(const std::string& text,
                                 const std::function<std::size_t(ir::Module*)>& pass,
                                 double tolerance = 0);
/// The same with all passes.
CollectiveCase check_optimized(const std::string& text, double tolerance = 0,
                               const spmd::CollectiveOptions& options = {});

}  // namespace tessera::testing
