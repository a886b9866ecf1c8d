// SPDX-License-Identifier: Apache-2.0
// What is saved by all processes together must be the same in each of them.
#pragma once

#include <string>
#include <vector>

#include <tessera/array.h>

#include "src/frontend/checkpoint/snapshot.h"

namespace tessera::frontend {

/// A line for each array, the same in all processes if they save the same.
std::string described(const std::vector<Array>& arrays, const std::vector<std::string>& paths,
                      Location location);
/// ValueError, with the first line that differs, if what process 0 says isn't what all say.
void check_same(const std::vector<std::string>& said, const std::string& who);

/// A line for each array, of those that are values of each process itself, of which process 0's
/// are written: their fingerprints. Empty lines for others.
std::string fingerprints(const std::vector<SavedArray>& arrays);
/// ValueError if these differ.
void check_values(const std::vector<std::string>& said, const std::vector<SavedArray>& arrays,
                  const std::vector<std::string>& paths, const std::string& who);

}  // namespace tessera::frontend
