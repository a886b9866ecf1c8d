// SPDX-License-Identifier: Apache-2.0
// Shardings as clients have them: xla.OpSharding.
#pragma once

#include <string>
#include <string_view>

#include "src/sharding/axes/tensor_sharding.h"
#include "src/sharding/axes/tiling.h"

namespace tessera::pjrt {

std::string write_op_sharding(const Tiling& tiling);
/// A Failure for what isn't such a message.
Tiling read_op_sharding(std::string_view bytes);

}  // namespace tessera::pjrt
