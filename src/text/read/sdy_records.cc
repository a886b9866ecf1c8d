// SPDX-License-Identifier: Apache-2.0
// Values and groups of what is kept of sdy's operations.
#include "src/text/read/sdy_records.h"

#include <algorithm>
#include <map>

namespace tessera::text {

void SdyRecords::replace(const std::unordered_map<const ir::Instruction*, ir::Instruction*>& by) {
  if (by.empty()) return;
  const auto settle = [&](ir::Instruction** value) {
    if (const auto it = by.find(*value); it != by.end()) *value = it->second;
  };
  for (GroupMember& m : groups) settle(&m.value);
  for (Collective& c : collectives) settle(&c.operand);
  for (Resharded& r : resharded) settle(&r.operand);
  for (PropagationEdges& e : propagation_edges) {
    for (ir::Instruction*& value : e.values) settle(&value);
  }
}

void SdyRecords::join_groups() {
  std::map<int, int> joined;  // to one of a smaller number
  const auto find = [&](int group) {
    for (auto it = joined.find(group); it != joined.end(); it = joined.find(group)) {
      group = it->second;
    }
    return group;
  };
  std::unordered_map<const ir::Instruction*, int> group_of;
  for (const GroupMember& m : groups) {
    const int a = find(group_of.try_emplace(m.value, m.group).first->second), b = find(m.group);
    if (a != b) joined[std::max(a, b)] = std::min(a, b);
  }
  for (GroupMember& m : groups) m.group = find(m.group);
}

}  // namespace tessera::text
