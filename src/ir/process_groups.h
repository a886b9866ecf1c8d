// SPDX-License-Identifier: Apache-2.0
// Which devices a collective joins in a program of several replicas and partitions.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// What the numbers in a collective's groups mean, as the specification of StableHLO has it. Where
/// there is one replica they name partitions, whatever the collective says.
enum class GroupMode : std::uint8_t {
  cross_replica,                ///< replicas; for each partition on its own
  cross_partition,              ///< partitions; for each replica on its own
  cross_replica_and_partition,  ///< replicas; all of their partitions take part
  flattened_ids,                ///< devices: replica * num_partitions + partition
};
GroupMode group_mode(Opcode op, const Attributes& attrs, const ProcessGrid& grid);

/// Whether it joins replicas, each partition for itself: the partitions then have no part in it.
bool is_cross_replica(const Instruction& collective);

/// How many devices a group of that many numbers has.
std::int64_t devices_of_group(GroupMode mode, std::int64_t numbers, const ProcessGrid& grid);
/// How many numbers a group of all has.
std::int64_t numbers_of_all(GroupMode mode, const ProcessGrid& grid);
/// Groups as lists of devices, replica * num_partitions + partition.
std::vector<std::vector<std::int64_t>> process_groups(const DeviceGroups& groups, GroupMode mode,
                                                      const ProcessGrid& grid);
/// Pairs of a permute, likewise.
std::vector<std::pair<std::int64_t, std::int64_t>> process_pairs(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs, GroupMode mode,
    const ProcessGrid& grid);

}  // namespace tessera::ir
