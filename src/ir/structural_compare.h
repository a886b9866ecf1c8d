// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/ir/module.h"

namespace tessera::ir {

/// The first place where two programs differ, names and metadata aside; empty if they are equal.
std::string first_difference(const Module& a, const Module& b);

}  // namespace tessera::ir
