// SPDX-License-Identifier: Apache-2.0
// Which rows of its operands each row of an op's result is made of, along one dim.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// Row i of the result, begin <= i < end, is made of rows i * stride + offset and the next ones,
/// `extent` in all, of `array` with its rows spread: row j is row j * spread, and nothing is
/// between.
///
///   shift, cut or padded       offset alone
///   every second row           stride 2
///   a row of padding between   spread 2
///   windows of 3               extent 3
///   each row twice             spread 2, extent 2, offset -1: one of these two is a row
struct RowPart {
  Instruction* array = nullptr;
  std::size_t operand = 0;  ///< which operand it is, or comes through
  std::int64_t dim = 0;     ///< of the array
  std::int64_t offset = 0, begin = 0, end = 0;
  std::int64_t stride = 1, spread = 1, extent = 1;

  bool is_shift() const { return stride == 1 && spread == 1 && extent == 1; }
  /// The first row, and the one behind the last, that rows [lo, hi) of the result are made of.
  std::int64_t first_of(std::int64_t lo) const { return ceil_div(lo * stride + offset, spread); }
  std::int64_t end_of(std::int64_t hi) const {
    return floor_div((hi - 1) * stride + offset + extent - 1, spread) + 1;
  }
};

struct RowUse {
  enum class Kind : std::uint8_t {
    alike,    ///< the same rows of all parts; other operands are taken whole
    moved,    ///< each row is one of one part, or the padding
    update,   ///< dynamic-update-slice: the first part has all rows, the second changes some
    windows,  ///< of neighbouring rows of the part, or of padding where there are none
    grouped,  ///< a reshape: rows of the part are put together, or taken apart
  };
  Kind kind = Kind::alike;
  std::vector<RowPart> parts;

  bool moves_rows() const { return kind != Kind::alike && kind != Kind::grouped; }
  /// Each row is one that is there already.
  bool only_moves() const { return kind == Kind::moved || kind == Kind::update; }
};

/// None if rows of the result need more than that, or it isn't known. Of `dim` of an array.
std::optional<RowUse> row_use(const Instruction& x, std::int64_t dim);
/// The users of an array, those in place of broadcasts that only they use to repeat its row along
/// the dim.
std::vector<Instruction*> row_users(const Instruction& x, std::int64_t dim);

}  // namespace tessera::ir
