// SPDX-License-Identifier: Apache-2.0
// Records of communication, and how a collective keeps its own through all passes.
#include "src/spmd/communication_report.h"

#include <algorithm>

#include "src/ir/analysis/device_computations.h"
#include "src/ir/hlo/typed_calls.h"

namespace tessera::spmd {

std::int64_t record_id(const ir::Instruction& collective) {
  return collective.metadata->communication_record;
}

void set_record_id(ir::Instruction* collective, std::int64_t id) {
  collective->metadata.edit().communication_record = id;
}

void drop_record_ids(ir::Module* module) {
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (record_id(*i) >= 0) i->metadata.edit().communication_record = -1;
    }
  }
}

const CommunicationRecord* PartitionReport::record_of(const ir::Instruction& collective) const {
  const std::int64_t id = record_id(collective);
  const auto at = std::lower_bound(
      records.begin(), records.end(), id,
      [](const CommunicationRecord& r, std::int64_t value) { return r.id < value; });
  return at != records.end() && at->id == id ? &*at : nullptr;
}

std::string op_label(const ir::Instruction& source) {
  if (ir::is_manual_computation(source)) return "manual computation";
  std::string label(ir::text_name(source.opcode));
  const std::string target = ir::custom_call_target(source);
  return target.empty() ? label : label + " " + target;
}

}  // namespace tessera::spmd
