// SPDX-License-Identifier: Apache-2.0
// Finds the first difference of two programs.
#pragma once

#include <string>

#include "src/ir/module.h"

namespace tessera::ir {

/// The first place where two programs differ, names and metadata aside; empty if they are equal.
/// `axes`: shardings must be the same axes of the same meshes, open flags and priorities too; else
/// the same tilings, which is what text without axis names keeps.
std::string first_difference(const Module& a, const Module& b, bool axes = true);

}  // namespace tessera::ir
