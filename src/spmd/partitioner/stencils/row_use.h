// SPDX-License-Identifier: Apache-2.0
// Which rows of its operands each row of an op's result is made of, along one dim.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd::stencils {

/// Row i of the result, begin <= i < end, is made of row i + offset of `array`.
struct RowPart {
  ir::Instruction* array = nullptr;
  std::size_t operand = 0;  ///< which operand it is, or comes through
  std::int64_t dim = 0;     ///< of the array
  std::int64_t offset = 0, begin = 0, end = 0;
};

struct RowUse {
  enum class Kind : std::uint8_t {
    alike,   ///< the same rows of all parts; other operands are taken whole
    moved,   ///< each row is one of one part, or the padding
    update,  ///< dynamic-update-slice: the first part has all rows, the second changes some
  };
  Kind kind = Kind::alike;
  std::vector<RowPart> parts;

  bool moves_rows() const { return kind != Kind::alike; }
};

/// None if rows of the result need more than that, or it isn't known. Of `dim` of an array.
std::optional<RowUse> row_use(const ir::Instruction& x, std::int64_t dim);
/// The users of an array, those in place of broadcasts that only they use to repeat its row.
std::vector<ir::Instruction*> row_users(const ir::Instruction& x);

}  // namespace tessera::spmd::stencils
