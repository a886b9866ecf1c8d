// SPDX-License-Identifier: Apache-2.0
// Which names mesh axes may have.
#pragma once

#include <string>

#include <tessera/error.h>

namespace tessera {

/// ShardingError for names of mesh axes that the text forms of programs can't carry.
void check_axis_name(const std::string& name, Location location = {});

}  // namespace tessera
