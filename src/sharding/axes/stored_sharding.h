// SPDX-License-Identifier: Apache-2.0
// Shapes and shardings in stored programs.
#pragma once

#include "src/base/arrays/shape.h"
#include "src/base/files/byte_stream.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera {

/// Of an array.
void write_shape(ByteWriter* out, const Shape& shape);
Shape read_shape(ByteReader* in);
/// All of it, its mesh included.
void write_sharding(ByteWriter* out, const TensorSharding& sharding);
/// Axes are those of the mesh, and none occurs twice.
TensorSharding read_sharding(ByteReader* in);

}  // namespace tessera
