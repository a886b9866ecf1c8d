// SPDX-License-Identifier: Apache-2.0
// Validity of mesh axis names.
#pragma once

#include <string>

#include <tessera/error.h>

namespace tessera {

/// ShardingError for names that the text forms of programs can't represent.
void check_axis_name(const std::string& name, Location location = {});

}  // namespace tessera
