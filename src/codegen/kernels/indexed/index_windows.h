// SPDX-License-Identifier: Apache-2.0
// The windows of gathers and scatters: where each index vector's window begins in the indexed array
// and in the other one (the gather's result, the scatter's updates).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/base/small_vector.h"
#include "src/ir/instruction.h"

namespace tessera::codegen {

struct IndexWindows {
  DType index_type = DType::s32;
  Dims batch_dims;     ///< of the index vectors
  Dims index_strides;  ///< of those dims in the indices, in elements
  Dims batch_strides;  ///< of those dims in the other array, in bytes
  std::int64_t vector_step = 0;
  Dims mapped;                                                 ///< component → dim of the array
  std::vector<std::pair<std::int64_t, std::size_t>> batching;  ///< dim of the array, batch dim
  Dims dims, sizes;                                            ///< of the array, of a window
  Dims strides;                                                ///< of the array, in bytes
  Dims part_strides;  ///< of a window in the other array, in bytes
  std::size_t element = 4;

  std::string key() const;
  /// Whether the index vectors, in their order, are equally far apart.
  bool indices_in_a_row() const;
  /// Elements from one index vector to the next, if so.
  std::int64_t index_step() const { return index_strides.empty() ? 0 : index_strides.back(); }
};

/// Of a gather, or of a scatter to one array.
IndexWindows index_windows(const ir::Instruction& i);

/// Walks the index vectors in their order.
class WindowCursor {
 public:
  /// Stands at vector `n`, which need not exist.
  WindowCursor(const IndexWindows& windows, const std::byte* indices, std::int64_t n);

  void next();
  /// Where the window begins in each dim of the array; it may lie outside.
  const std::int64_t* start();
  /// Where it begins in the other array, in bytes.
  std::int64_t part() const { return part_; }

 private:
  const IndexWindows& w_;
  const std::byte* indices_;
  SmallVector<std::int64_t, 8> batch_, start_;
  std::int64_t at_ = 0, part_ = 0;
};

}  // namespace tessera::codegen
