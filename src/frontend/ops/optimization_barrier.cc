// SPDX-License-Identifier: Apache-2.0
// optimization_barrier: one op for all arrays of a tree.
#include <tessera/functions/optimization_barrier.h>

#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/trace.h"

namespace tessera::internal {

std::vector<Array> optimization_barrier_leaves(const std::vector<Array>& leaves,
                                               Location location) {
  if (leaves.empty()) return {};
  return frontend::as_one_program("optimization_barrier", location, [&] {
    frontend::Trace& trace = *frontend::Trace::current();
    const frontend::MetadataScope metadata(trace, location, "optimization_barrier");
    ir::Builder& b = trace.builder();
    std::vector<ir::Instruction*> operands;
    for (const Array& leaf : leaves) operands.push_back(trace.lift(leaf, location));
    ir::Instruction* barrier = b.emit(ir::Opcode::opt_barrier, {b.tuple(operands)}, {});
    std::vector<Array> out;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      out.push_back(
          trace.wrap(b.get_tuple_element(barrier, std::int64_t(k)), leaves[k].weak_type()));
      frontend::set_varying(out.back(), frontend::varying_of(leaves[k]));
      out.back() =
          frontend::with_sharding_type(out.back(), frontend::sharding_type_of(leaves[k]), location);
    }
    return out;
  });
}

}  // namespace tessera::internal
