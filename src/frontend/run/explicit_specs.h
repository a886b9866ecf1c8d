// SPDX-License-Identifier: Apache-2.0
// Checks of specs that users give for Explicit axes.
#pragma once

#include <string>

#include "src/frontend/trace/explicit_values.h"

namespace tessera::frontend {

/// ShardingTypeError if a spec names an axis of the mesh that isn't Explicit.
void check_explicit(const Mesh& mesh, const PartitionSpec& spec, const std::string& who,
                    Location location);
/// The type of a value of this shape; all errors begin with `who`.
ShardingType checked_type(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape,
                          const std::string& who, Location location);

}  // namespace tessera::frontend
