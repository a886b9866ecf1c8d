// SPDX-License-Identifier: Apache-2.0
// The process grid of StableHLO: groups of replicas, of partitions and of devices.
#include "src/ir/process_groups.h"

namespace tessera::ir {
namespace {

/// Reductions and gathers: their groups name replicas, unless they name devices.
bool groups_name_replicas(Opcode op) {
  switch (op) {
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::reduce_scatter:
      return true;
    default:
      return false;
  }
}

}  // namespace

GroupMode group_mode(Opcode op, const Attributes& attrs, const ProcessGrid& grid) {
  if (grid.num_replicas <= 1) return GroupMode::cross_partition;
  if (const auto* permute = attrs.get_if<PermuteAttrs>()) {
    return permute->channel_id ? GroupMode::cross_partition : GroupMode::cross_replica;
  }
  const auto* a = attrs.get_if<CollectiveAttrs>();
  TESSERA_CHECK(a != nullptr, "groups of " + std::string(name(op)));
  // Groups by axes of a mesh are those of partitions.
  if (a->groups.symbolic()) return GroupMode::cross_partition;
  if (!a->channel_id) return GroupMode::cross_replica;
  if (!groups_name_replicas(op)) return GroupMode::cross_partition;
  return a->use_global_device_ids ? GroupMode::flattened_ids
                                  : GroupMode::cross_replica_and_partition;
}

bool is_cross_replica(const Instruction& collective) {
  const ProcessGrid grid = collective.parent->module()->grid();
  if (grid.num_replicas <= 1 || !is_collective(collective.opcode)) return false;
  if (!collective.attrs.get_if<CollectiveAttrs>() && !collective.attrs.get_if<PermuteAttrs>()) {
    return false;  // the end of one that was started elsewhere
  }
  return group_mode(collective.opcode, collective.attrs, grid) == GroupMode::cross_replica;
}

std::int64_t devices_of_group(GroupMode mode, std::int64_t numbers, const ProcessGrid& grid) {
  return mode == GroupMode::cross_replica_and_partition ? numbers * grid.num_partitions : numbers;
}

std::int64_t numbers_of_all(GroupMode mode, const ProcessGrid& grid) {
  switch (mode) {
    case GroupMode::cross_partition:
      return grid.num_partitions;
    case GroupMode::flattened_ids:
      return grid.devices();
    default:
      return grid.num_replicas;
  }
}

std::vector<std::vector<std::int64_t>> process_groups(const DeviceGroups& groups, GroupMode mode,
                                                      const ProcessGrid& grid) {
  const std::vector<std::vector<std::int64_t>> lists = groups.expand(numbers_of_all(mode, grid));
  const std::int64_t partitions = grid.num_partitions;
  std::vector<std::vector<std::int64_t>> out;
  const auto add = [&](const std::vector<std::int64_t>& numbers, auto device_of) {
    std::vector<std::int64_t>& group = out.emplace_back();
    group.reserve(numbers.size());
    for (const std::int64_t n : numbers) group.push_back(device_of(n));
  };
  switch (mode) {
    case GroupMode::flattened_ids:
      return lists;
    case GroupMode::cross_partition:
      for (std::int64_t r = 0; r < grid.num_replicas; ++r) {
        for (const auto& list : lists) {
          add(list, [&](std::int64_t p) { return r * partitions + p; });
        }
      }
      return out;
    case GroupMode::cross_replica:
      for (const auto& list : lists) {
        for (std::int64_t p = 0; p < partitions; ++p) {
          add(list, [&](std::int64_t r) { return r * partitions + p; });
        }
      }
      return out;
    case GroupMode::cross_replica_and_partition:
      for (const auto& list : lists) {
        std::vector<std::int64_t>& group = out.emplace_back();
        for (std::int64_t p = 0; p < partitions; ++p) {
          for (const std::int64_t r : list) group.push_back(r * partitions + p);
        }
      }
      return out;
  }
  return out;
}

std::vector<std::pair<std::int64_t, std::int64_t>> process_pairs(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs, GroupMode mode,
    const ProcessGrid& grid) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  const std::int64_t partitions = grid.num_partitions;
  if (mode == GroupMode::cross_partition) {
    for (std::int64_t r = 0; r < grid.num_replicas; ++r) {
      for (const auto& [s, t] : pairs) out.emplace_back(r * partitions + s, r * partitions + t);
    }
    return out;
  }
  for (const auto& [s, t] : pairs) {
    for (std::int64_t p = 0; p < partitions; ++p) {
      out.emplace_back(s * partitions + p, t * partitions + p);
    }
  }
  return out;
}

}  // namespace tessera::ir
