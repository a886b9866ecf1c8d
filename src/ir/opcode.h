// SPDX-License-Identifier: Apache-2.0
// The opcode table: HLO's 133 opcodes. A row here is the first thing that a new op touches.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::ir {

inline constexpr unsigned kElementwise = 1, kCommutative = 2, kCollective = 4, kSideEffect = 8;

enum class Opcode : std::uint8_t {
#define X(enumerator, text, operands, flags) enumerator,
#include "src/ir/opcode_list.inc"
#undef X
};

struct OpcodeInfo {
  std::string_view text;
  int operands;  ///< -1: any number
  unsigned flags;
};
const OpcodeInfo& info(Opcode);
inline std::string_view name(Opcode op) { return info(op).text; }
std::optional<Opcode> opcode_from_name(std::string_view);
inline bool is_elementwise(Opcode op) { return (info(op).flags & kElementwise) != 0; }
inline bool is_commutative(Opcode op) { return (info(op).flags & kCommutative) != 0; }
inline bool is_collective(Opcode op) { return (info(op).flags & kCollective) != 0; }
inline bool has_side_effect(Opcode op) { return (info(op).flags & kSideEffect) != 0; }
int opcode_count();

}  // namespace tessera::ir
