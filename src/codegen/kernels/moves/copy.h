// SPDX-License-Identifier: Apache-2.0
// Moving elements: transpose, slice, pad, concatenate, reverse, broadcast, and the dynamic ones.
#pragma once

#include <vector>

#include "src/base/arrays/shape.h"
#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/ir/attributes.h"

namespace tessera::codegen {

/// Copies a box of elements between two arrays. Strides are in bytes and may be 0 or negative.
struct Box {
  int input = 0;
  std::int64_t from = 0, to = 0;  ///< byte offsets of the box's first element
  Dims dims, from_strides, to_strides;
};

/// out.box = in.box for each box; the boxes of the output don't overlap.
KernelDescriptor copy_kernel(std::vector<Box> boxes, std::size_t element_bytes);
/// Rows of all inputs side by side, of so many bytes each.
KernelDescriptor parts_kernel(std::int64_t rows, std::vector<std::int64_t> bytes);
/// Inputs: array, padding value.
KernelDescriptor pad_kernel(const Dims& dims, const std::vector<ir::PadDim>& pad,
                            std::size_t element_bytes);

/// Where a dynamic slice begins: inputs[first + d] is an integer scalar for dim d, clamped so that
/// the slice is inside.
struct DynamicStarts {
  int first = 1;
  DType dtype = DType::s32;
  Dims dims, sizes;
};
/// Inputs: array, starts...
KernelDescriptor dynamic_slice_kernel(const DynamicStarts& starts, std::size_t element_bytes);
/// Inputs: array (its bytes are in the output already), update, starts...
KernelDescriptor dynamic_update_slice_kernel(const DynamicStarts& starts,
                                             std::size_t element_bytes);

/// The table.
KernelFamily move_family();

/// Copies one box, merging dims into long runs and blocking transposes.
void copy_box(std::byte* to, const std::byte* from, const Dims& dims, const Dims& to_strides,
              const Dims& from_strides, std::size_t element_bytes);

}  // namespace tessera::codegen
