// SPDX-License-Identifier: Apache-2.0
// Shapes and shardings as clients have them: xla.ShapeProto and xla.OpSharding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/sharding/axes/tiling.h"

namespace tessera::pjrt {

/// Row-major.
std::string write_shape(const Shape& shape);

std::string write_op_sharding(const Tiling& tiling);
/// Of the parts of a tuple.
std::string write_op_sharding(const std::vector<Tiling>& parts);
/// One sharding, or those of a tuple's parts. A Failure for what isn't such a message.
std::vector<Tiling> read_op_sharding(std::string_view bytes);

}  // namespace tessera::pjrt
