// SPDX-License-Identifier: Apache-2.0
// What a stage of the compiler guarantees to all that follow it, beyond a well-formed module.
#pragma once

#include <string>

#include "src/ir/module.h"

namespace tessera::compiler {

/// Properties of a module, as bits. A stage sets some, and they hold from then on: what comes later
/// may rely on them, and must keep them.
enum Guarantee : unsigned {
  kNothing = 0,
  kNoDerivativeOps = 1U << 0,  ///< no remats and custom derivatives
  kNoScans = 1U << 1,
  /// One replica's program for one device: without manual computations, custom partitionings,
  /// constraints and reshards.
  kPartitioned = 1U << 2,
  kNoCalls = 1U << 3,  ///< no calls and fusions, but for calls that are marked to stay
  kNoAsync = 1U << 4,  ///< no starts and dones of collectives
  /// Each device is in a group of each collective, and in one only.
  kGroupsOfAll = 1U << 5,
};

/// The first instruction that breaks one of these, and how; empty: they hold.
std::string broken_guarantee(const ir::Module& module, unsigned guarantees);

}  // namespace tessera::compiler
