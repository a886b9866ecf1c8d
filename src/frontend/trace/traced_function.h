// SPDX-License-Identifier: Apache-2.0
// Functions that are traced into a computation of their own, for an op or a transformation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/frontend/trace/trace.h"

namespace tessera::frontend {

/// A function traced on a list of parameters; captures follow the explicit ones. `axis`: of the
/// batch for which a vmap traces it, if it has a name.
struct TracedFunction {
  ir::Computation* computation = nullptr;
  std::vector<Array> captures;
  std::vector<AbstractValue> results;
};
TracedFunction trace_function(Trace& outer, const std::string& name,
                              const std::vector<AbstractValue>& parameters,
                              const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                              Location location, const ir::BatchAxis& axis = {});

std::vector<AbstractValue> abstract_values(const std::vector<Array>& arrays);
/// The instructions of arrays in a trace.
std::vector<ir::Instruction*> lift_all(Trace& trace, const std::vector<Array>& arrays,
                                       Location location);

}  // namespace tessera::frontend
