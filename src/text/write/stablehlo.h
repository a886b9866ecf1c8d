// SPDX-License-Identifier: Apache-2.0
// Options of the writer of StableHLO. src/text/read/stablehlo.h has the plain form.
#pragma once

#include <string>

#include "src/ir/module.h"

namespace tessera::text {

class Sink;

struct WriteOptions {
  /// Ends each op with `loc("op_name"("file":line:0))`.
  bool locations = false;
};

/// Tuples become lists of values: parameters, results, loops and branches are flat. What StableHLO
/// lacks is written in chlo or as several ops (a stochastic-convert and a rng-get-and-update-state
/// in mhlo, which JAX knows); NotImplementedError, with the instruction's name and location, where
/// there is no such way. ValueError if a constant's value was elided.
std::string to_stablehlo(const ir::Module& module, const WriteOptions& options);

/// The same into a sink; what it finishes with.
std::string write_module(const ir::Module& module, Sink& sink);

}  // namespace tessera::text
