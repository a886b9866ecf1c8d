// SPDX-License-Identifier: Apache-2.0
// Attributes by which a program states the layouts of its arguments and results to what runs it.
// The values of arrays don't depend on them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace tessera::text {

/// Of an argument or a result of a function: "default", "auto", or the order of the dims in memory,
/// "{0,1}". A parameter has it as its frontend attribute, unless it is the default.
inline constexpr const char* kLayoutMode = "mhlo.layout_mode";
/// The same of all results, as a frontend attribute of the module: "default;{0,1}". It isn't there
/// if all are the default.
inline constexpr const char* kResultLayoutModes = "tessera.result_layout_modes";

/// By result.
inline std::vector<std::string> result_layout_modes(const std::string& all) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find(';', begin), all.size());
    out.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace tessera::text
