// SPDX-License-Identifier: Apache-2.0
// Sizes for programs whose types leave them open.
#pragma once

#include <utility>
#include <vector>

#include "src/text/read/open_types.h"

namespace tessera::fuzz {

/// Two of each.
inline const text::Arguments some_arguments = [](const text::Signature& program) {
  std::vector<text::GivenArgument> out;
  for (const text::DeclaredValue& p : program.parameters) {
    Dims sizes = p.type.dims;
    for (std::int64_t& size : sizes) {
      if (size == text::kOpenSize) size = 2;
    }
    out.push_back({std::move(sizes)});
  }
  return std::optional(std::move(out));
};

}  // namespace tessera::fuzz
