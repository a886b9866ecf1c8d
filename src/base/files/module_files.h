// SPDX-License-Identifier: Apache-2.0
// Modules: libraries of this project's own that are loaded when they are needed.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Where the module `name` may be, the likeliest first: beside the library or program that has this
/// code, in a folder `tessera` there, as it is installed, or where it was to be installed.
std::vector<std::string> module_files(const char* name, const char* installed);

/// The library or program that has this code; empty if the loader doesn't say.
std::string own_file();

}  // namespace tessera
