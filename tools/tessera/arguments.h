// SPDX-License-Identifier: Apache-2.0
// Arguments of programs whose text leaves sizes open (`tensor<?x4xf32>`).
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "src/text/read/open_types.h"

namespace tessera::tool {

/// --shapes: "8x16;;4", a shape for each argument.
void add_shapes_flag(CLI::App* command, std::string* value);
/// Where sizes come from.
struct GivenArguments {
  text::Arguments arguments;
  bool by_flag = false;  ///< which is wrong of a program that leaves none open
};
/// As that flag says; UsageError if it says nothing, too little or something wrong.
GivenArguments arguments_of_flag(const std::string& shapes);
/// As they are in the files arg0.npy, ... of a folder.
GivenArguments arguments_of_inputs(const std::string& folder);

}  // namespace tessera::tool
