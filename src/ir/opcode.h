// SPDX-License-Identifier: Apache-2.0
// The op table: HLO's opcodes and what is known of each. A row of opcode_list.inc is the first
// thing that a new op touches.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::ir {

enum class Opcode : std::uint8_t {
#define OP(enumerator, ...) enumerator,
#include "src/ir/opcode_list.inc"
};

/// Element types that an elementwise op takes.
namespace types {
enum : unsigned {
  none = 0,
  pred = 1,
  signed_integer = 2,
  unsigned_integer = 4,
  floating = 8,
  complex = 16,
  integer = signed_integer | unsigned_integer,
  ordered = pred | integer | floating,
  number = integer | floating | complex,
  any = number | pred,
};
}  // namespace types

namespace traits {
enum : unsigned {
  none = 0,
  elementwise = 1,       ///< a function of the elements at one place of all operands
  commutative = 2,       ///< in its two operands
  associative = 4,       ///< up to rounding
  collective = 8,        ///< devices take part in it together
  side_effect = 16,      ///< it may not be dropped, doubled or moved past others
  pure = 32,             ///< a function of operands and attributes, as far as what it calls is
  alias = 64,            ///< another name for its operands' bytes, or for a part of them
  transcendental = 128,  ///< as XLA's cost analysis counts them
  exact = 256,           ///< of operands that a narrow float holds, so is the result: no rounding
  // Moves of data: each element of the result is an element of an operand.
  permutes = 512,    ///< each element of the operand once
  repeats = 1024,    ///< each at least once
  selects = 2048,    ///< some of them
  assembles = 4096,  ///< elements of several operands
  looks_up = 8192,   ///< those at places that another operand gives, one by one

  custom_call_text = 16384,  ///< HLO lacks it: in text it is a custom call (typed_calls.h)
};
}  // namespace traits

/// In which operands an op is linear, the others held fixed: f(a x + b y) = a f(x) + b f(y).
struct Linearity {
  enum class Kind : std::uint8_t {
    none,
    jointly,  ///< in all of `operands` at once: add
    each,     ///< in each of `operands`, the rest held fixed: multiply
    sums,     ///< jointly, if the called computation adds: reduce
  };
  Kind kind = Kind::none;
  std::uint32_t operands = 0;  ///< a bit for each

  bool in(std::size_t operand) const { return operand < 32 && (operands >> operand & 1u) != 0; }
  friend bool operator==(const Linearity&, const Linearity&) = default;
};

/// What flops and the time of kernels are counted by.
enum class Work : std::uint8_t {
  none,
  // Of an elementwise op, per element:
  simple,    ///< an instruction that vectorises
  moderate,  ///< a few
  division,  ///< a division, a root, a rounding
  function,  ///< a function of analysis
  // Of others:
  contraction,    ///< 2 flops for each term of each element of the result
  reduction,      ///< one per element of the operand
  window,         ///< one per element of each window
  all_reduction,  ///< one per element that comes from another device
  sort,           ///< comparisons, n log n
  transform,      ///< 5 n log n
  factorization,  ///< of the matrix that operand 0 holds; cubic
};

/// What becomes of the computations that an op calls.
enum class Calls : std::uint8_t {
  none,
  applied,  ///< to elements: a reducer, a comparator
  program,  ///< run on whole values, as a part of the program
};

/// The dialect of StableHLO text in which an op goes by its HLO name.
enum class Dialect : std::uint8_t {
  own,   ///< src/text has a conversion for it
  none,  ///< it can't be written as StableHLO
  stablehlo,
  chlo,
};

struct OpcodeInfo {
  std::string_view text;
  int operands;  ///< -1: any number
  unsigned types;
  unsigned traits;
  Linearity linear;
  Work work;
  Calls calls;
  Dialect dialect;
};
extern const OpcodeInfo kOpTable[];
inline const OpcodeInfo& info(Opcode op) { return kOpTable[int(op)]; }
inline std::string_view name(Opcode op) { return info(op).text; }
/// The opcode that stands for it in HLO text, and that instructions are named after.
std::string_view text_name(Opcode op);
std::optional<Opcode> opcode_from_name(std::string_view);
int opcode_count();

/// Any of them.
inline bool has_trait(Opcode op, unsigned traits) { return (info(op).traits & traits) != 0; }
inline bool is_elementwise(Opcode op) { return has_trait(op, traits::elementwise); }
inline bool is_commutative(Opcode op) { return has_trait(op, traits::commutative); }
inline bool is_collective(Opcode op) { return has_trait(op, traits::collective); }
inline bool has_side_effect(Opcode op) { return has_trait(op, traits::side_effect); }
/// Another name for bytes that are there.
inline bool is_alias(Opcode op) { return has_trait(op, traits::alias); }
/// A pure function of nothing but attributes and the device: constant, iota, partition-id.
inline bool is_generated(Opcode op) {
  return info(op).operands == 0 && has_trait(op, traits::pure);
}
/// No bytes of its own have to be kept: another name, or made anew wherever it is read.
inline bool needs_no_storage(Opcode op) {
  return has_trait(op, traits::alias | traits::repeats) || is_generated(op);
}
/// Printed as a custom call, whatever its attributes are.
inline bool is_printed_as_custom_call(Opcode op) { return has_trait(op, traits::custom_call_text); }
/// Runs other computations as a part of the program: while, call, ...
inline bool runs_program(Opcode op) { return info(op).calls == Calls::program; }

}  // namespace tessera::ir
