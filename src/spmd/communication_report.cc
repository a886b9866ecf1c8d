// SPDX-License-Identifier: Apache-2.0
// Records of communication, and how a collective keeps its own through all passes.
#include "src/spmd/communication_report.h"

#include <algorithm>
#include <cstdlib>

#include "src/ir/analysis/device_computations.h"
#include "src/ir/hlo/typed_calls.h"

namespace tessera::spmd {
namespace {

/// An item of metadata, which is not printed: passes keep it with what takes a collective's place.
constexpr const char* kRecordId = "tessera_record";

}  // namespace

std::int64_t record_id(const ir::Instruction& collective) {
  for (const auto& [key, text] : collective.metadata->other) {
    if (key == kRecordId) return std::strtoll(text.c_str(), nullptr, 10);
  }
  return -1;
}

void set_record_id(ir::Instruction* collective, std::int64_t id) {
  collective->metadata.edit().other.emplace_back(kRecordId, std::to_string(id));
}

void drop_record_ids(ir::Module* module) {
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (record_id(*i) < 0) continue;
      std::erase_if(i->metadata.edit().other,
                    [](const auto& item) { return item.first == kRecordId; });
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
