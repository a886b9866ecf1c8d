// SPDX-License-Identifier: Apache-2.0
// Checks of what stages guarantee.
#include "src/compiler/guarantees.h"

#include <fmt/format.h>

#include <unordered_set>
#include <vector>

#include "src/ir/inlineable.h"

namespace tessera::compiler {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Which property forbids an opcode.
unsigned forbidden_by(Opcode op) {
  switch (op) {
    case Opcode::remat:
    case Opcode::custom_derivative:
      return kNoDerivativeOps;
    case Opcode::scan:
      return kNoScans;
    case Opcode::manual_computation:
    case Opcode::custom_partitioning:
    case Opcode::sharding_constraint:
    case Opcode::propagation_barrier:
    case Opcode::replica_id:
      return kPartitioned;
    case Opcode::call:
    case Opcode::fusion:
      return kNoCalls;
    case Opcode::all_gather_start:
    case Opcode::all_gather_done:
    case Opcode::all_reduce_start:
    case Opcode::all_reduce_done:
    case Opcode::collective_permute_start:
    case Opcode::collective_permute_done:
    case Opcode::async_start:
    case Opcode::async_update:
    case Opcode::async_done:
      return kNoAsync;
    default:
      return kNothing;
  }
}

/// Groups by axes of a mesh of all devices are complete as they are.
std::string fault_of_groups(const Instruction& i, std::int64_t devices) {
  if (i.is(Opcode::collective_broadcast)) return "";  // others get zeros
  const ir::DeviceGroups& groups = i.get<ir::CollectiveAttrs>().groups;
  if (groups.symbolic()) {
    const std::int64_t of_mesh = groups.mesh->num_devices();
    return of_mesh == devices ? "" : fmt::format("has groups of a mesh of {} devices", of_mesh);
  }
  if (groups.lists.empty()) return "";
  std::vector<bool> seen(static_cast<std::size_t>(devices), false);
  std::int64_t count = 0;
  for (const auto& list : groups.lists) {
    for (const std::int64_t d : list) {
      if (d < 0 || d >= devices || seen[std::size_t(d)]) {
        return fmt::format("names device {} of {} twice, or where there is none", d, devices);
      }
      seen[std::size_t(d)] = true;
      ++count;
    }
  }
  return count == devices ? "" : fmt::format("has {} of {} devices in its groups", count, devices);
}

/// What the entry runs: passes leave bodies behind that nothing calls any more.
std::vector<const ir::Computation*> reached(const ir::Module& module) {
  std::vector<const ir::Computation*> out{module.entry()};
  std::unordered_set<const ir::Computation*> seen{module.entry()};  // looked up only
  for (std::size_t k = 0; k < out.size(); ++k) {
    for (const auto& i : out[k]->instructions()) {
      for (const ir::Computation* callee : i->called()) {
        if (seen.insert(callee).second) out.push_back(callee);
      }
    }
  }
  return out;
}

}  // namespace

std::string broken_guarantee(const ir::Module& module, unsigned guarantees) {
  if ((guarantees & kPartitioned) != 0 && module.replica_count != 1) {
    return fmt::format("the module is for {} replicas", module.replica_count);
  }
  for (const ir::Computation* computation : reached(module)) {
    for (const auto& i : computation->instructions()) {
      if ((forbidden_by(i->opcode) & guarantees) != 0 && !ir::is_not_inlineable(*i)) {
        return fmt::format("{} may not be there any more", i->describe());
      }
      const bool groups = (guarantees & kGroupsOfAll) != 0 && ir::is_collective(i->opcode) &&
                          i->attrs.get_if<ir::CollectiveAttrs>() != nullptr;
      if (!groups) continue;
      const std::string fault = fault_of_groups(*i, module.num_partitions);
      if (!fault.empty()) return i->describe() + " " + fault;
    }
  }
  return "";
}

}  // namespace tessera::compiler
