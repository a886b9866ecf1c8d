// SPDX-License-Identifier: Apache-2.0
// eval_shape: traces a function for the types of its result.
#include <tessera/functions/eval_shape.h>

#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/trace/traced_function.h"

namespace tessera::internal {

std::vector<Array> traced_shapes(const CallInfo& info, Prototype* prototype, Location location) {
  for (const Array& leaf : info.leaves) (void)impl_of(leaf, location);
  const auto trace_in = [&](frontend::Trace& around) {
    return frontend::trace_function(
        around, "eval_shape", frontend::abstract_values(info.leaves),
        [&](const std::vector<Array>& parameters) { return info.trace(parameters, prototype); },
        location);
  };
  frontend::TracedFunction traced;
  if (frontend::Trace* outer = frontend::Trace::current()) {
    traced = trace_in(*outer);
  } else {
    frontend::Trace root("eval_shape", static_cast<frontend::Trace*>(nullptr));
    traced = trace_in(root);
  }
  std::vector<Array> out;
  for (const frontend::AbstractValue& value : traced.results) {
    out.push_back(shape_dtype_struct(value.shape.dims, value.shape.dtype));
    impl_of(out.back()).weak = value.weak;
  }
  return out;
}

}  // namespace tessera::internal
