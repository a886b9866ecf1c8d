// SPDX-License-Identifier: Apache-2.0
// In which kind of memory a program's values are: a device's, or that of its host.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/arrays/memory_kind.h"
#include "src/ir/module.h"

namespace tessera::ir {

/// Of each leaf of a value. Nothing for what is made of nothing and can be made anywhere.
using MemoryLeaves = std::vector<std::optional<MemoryKind>>;

/// Of a program's parameter; text has it as the parameter's frontend attribute.
inline constexpr const char* kMemoryKindAttribute = "mhlo.memory_kind";
MemoryKind memory_of_parameter(const Instruction& parameter);
void set_memory_of_parameter(Instruction* parameter, MemoryKind kind);

/// Of an op's result: a device-placement says where; results of other ops are where their operands
/// are. Scalars go with any array.
MemoryLeaves memory_kinds(const Instruction& op, std::span<const MemoryLeaves* const> operands);
/// Of what a computation returns.
MemoryLeaves memory_of_root(const Computation& computation,
                            const std::vector<MemoryLeaves>& parameters);

/// The first two operands that are in different memories, where the op has to have all in one.
std::optional<std::pair<std::size_t, std::size_t>> in_two_memories(
    const Instruction& op, std::span<const MemoryLeaves* const> operands);

}  // namespace tessera::ir
