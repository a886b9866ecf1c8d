// SPDX-License-Identifier: Apache-2.0
// Functions that are traced into a computation of their own, for an op or a transformation.
#include "src/frontend/trace/traced_function.h"

#include "src/frontend/trace/nesting.h"

namespace tessera::frontend {

TracedFunction trace_function(Trace& outer, const std::string& name,
                              const std::vector<AbstractValue>& parameters,
                              const std::function<std::vector<Array>(const std::vector<Array>&)>& f,
                              Location location, const ir::BatchAxis& axis) {
  const Nested nested(name, location);
  Trace inner(name, &outer);
  if (axis) inner.bind_batch_axis(axis);
  std::vector<Array> arrays;
  for (const auto& p : parameters) arrays.push_back(inner.add_parameter(p));
  TracedFunction out;
  const ActiveTrace active(&inner);
  const std::vector<Array> results = f(arrays);
  for (const Array& r : results) out.results.push_back(abstract_value(r));
  out.computation = inner.finish(results, location);
  out.captures = inner.captures();
  return out;
}

std::vector<AbstractValue> abstract_values(const std::vector<Array>& arrays) {
  std::vector<AbstractValue> out;
  for (const Array& a : arrays) out.push_back(abstract_value(a));
  return out;
}

std::vector<ir::Instruction*> lift_all(Trace& trace, const std::vector<Array>& arrays,
                                       Location location) {
  std::vector<ir::Instruction*> out;
  for (const Array& a : arrays) out.push_back(trace.lift(a, location));
  return out;
}

}  // namespace tessera::frontend
