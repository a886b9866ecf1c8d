// SPDX-License-Identifier: Apache-2.0
// What convolutions and windows share: strides, dilations and padding as the user gives them.
#pragma once

#include <string>
#include <vector>

#include <tessera/ops/window_padding.h>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// Size of a dim whose elements are spread out; 0 stays 0. ShapeError on overflow.
std::int64_t dilated_size(const std::string& op, std::int64_t size, std::int64_t dilation,
                          Location location);
/// The user's list of one number per spatial dim; ones for an empty list. `what` names it:
/// "strides". ValueError if there are not `count` of them or one is below 1.
Dims per_dim(const std::string& op, const char* what, const Dims& given, std::size_t count,
             Location location);
/// The pairs that a padding means for dims of these sizes and windows (dilated).
Padding::Pairs padding_pairs(const std::string& op, const Padding& padding, const Dims& sizes,
                             const Dims& windows, const Dims& strides, Location location);
/// The windows of an array or convolution. ShapeError if padding makes a size negative.
std::vector<ir::WindowDim> window_dims(const std::string& op, const Dims& sizes,
                                       const Dims& windows, const Dims& strides,
                                       const Padding::Pairs& padding, const Dims& lhs_dilation,
                                       const Dims& rhs_dilation, Location location);
/// The number of places that a window has in a dim of this size.
std::int64_t window_count(std::int64_t size, const ir::WindowDim& window);

}  // namespace tessera::frontend
