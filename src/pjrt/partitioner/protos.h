// SPDX-License-Identifier: Apache-2.0
// XLA's messages about shapes and shardings, as bytes: ShapeProto and OpSharding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/shape.h"
#include "src/sharding/axes/tiling.h"

namespace tessera::pjrt {

/// `element_type`: XLA's number.
std::string shape_proto(const Shape& shape, std::uint32_t (*element_type)(DType));

std::string op_sharding(const Tiling& tiling);
/// Of the parts of a tuple.
std::string op_sharding(const std::vector<Tiling>& parts);
/// One sharding, or those of a tuple. ValueError if the bytes are no such message.
std::vector<Tiling> read_op_shardings(std::string_view bytes);

}  // namespace tessera::pjrt
