// SPDX-License-Identifier: Apache-2.0
// Recognises HLO that was partitioned before.
#include "src/spmd/partitioned_program.h"

#include "src/ir/analysis/device_computations.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"

namespace tessera::spmd {
namespace {

/// A collective among partitions.
bool among_partitions(const ir::Instruction& i) {
  if (i.is(ir::Opcode::partition_id)) return true;
  if (!ir::is_collective(i.opcode)) return false;
  if (const auto* c = i.attrs.get_if<ir::CollectiveAttrs>()) {
    return c->channel_id.has_value() || c->use_global_device_ids || c->groups.symbolic();
  }
  if (const auto* p = i.attrs.get_if<ir::PermuteAttrs>()) return p->channel_id.has_value();
  return false;
}

/// A marker of code that is not per device.
bool is_global_marker(const ir::Instruction& i) {
  if (ir::is_printed_as_custom_call(i.opcode)) return true;
  const std::string target = ir::custom_call_target(i);
  return target.rfind("xla.sdy.", 0) == 0 || target.rfind("SPMD", 0) == 0 ||
         target == ir::kManualComputationTarget;
}

}  // namespace

bool is_partitioned_program(const ir::Module& module) {
  if (module.replica_count > 1) {
    throw NotImplementedError("module " + module.name + " runs on " +
                              std::to_string(module.replica_count) +
                              " replicas; replica_count above 1 is not supported in this version, "
                              "partitions are (num_partitions)");
  }
  if (!module.entry()) return false;
  bool found = false;
  for (const ir::Computation* c : ir::device_computations(module)) {
    for (const auto& i : c->instructions()) {
      if (is_global_marker(*i)) return false;
      found |= among_partitions(*i);
      const bool boundary =
          c == module.entry() && (i->is(ir::Opcode::parameter) || i.get() == c->root());
      if (i->has_sharding() && !boundary) return false;
    }
  }
  return found;
}

}  // namespace tessera::spmd
