// SPDX-License-Identifier: Apache-2.0
// What analysis of masks knows of a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/codegen/kernels/chains/masked_columns.h"
#include "src/codegen/kernels/elementwise/block_ops.h"

namespace tessera::codegen {

/// What is known of a value in hidden columns.
struct MaskedValue {
  bool varies = false;             ///< from column to column
  std::set<std::size_t> not_made;  ///< products that it depends on, which aren't computed there
  std::set<MaskedColumns::Array> zero_if;  ///< it is zero if one of these is
  std::set<std::pair<std::size_t, MaskedColumns::Array>>
      unless;                    ///< products on which it depends if these aren't zero
  std::set<std::size_t> relies;  ///< links that make it the same in all hidden columns of a row
  std::optional<bool> known;     ///< of a predicate
  std::optional<double> scale;   ///< a product times this; rounded, at most
  /// What a mask that is added makes of it: far below what else is in its row; the same less the
  /// row's largest, of which the exponential function makes zero.
  enum class Far : std::uint8_t { no, row, less_largest } far = Far::no;
  bool largest = false;  ///< of a row some of which is far below: that, or more
  std::string text;      ///< what it is, if it is made of inputs of the chain alone

  bool uniform() const { return !varies && not_made.empty(); }
  /// Then it isn't the number that it stands for.
  bool stands_in() const { return far != Far::no; }
};

/// What holds of anything that depends on a value, holds of `into`.
void join(MaskedValue* into, const MaskedValue& v);
/// Of an operation on two values, where `out` is joined from both.
void of_binary(const BlockOp& op, const MaskedValue& a, const MaskedValue& b, MaskedValue* out);

}  // namespace tessera::codegen
