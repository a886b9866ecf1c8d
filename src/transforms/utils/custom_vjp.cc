// SPDX-License-Identifier: Apache-2.0
// The types of what a custom_vjp gives, in code per device, as text.
#include "src/transforms/utils/custom_vjp.h"

namespace tessera::transforms {

std::string varies_text(const std::vector<ir::VaryingAxes>& leaves) {
  std::string out;
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    if (n > 0) out += ';';
    std::string axes;
    for (const std::string& axis : leaves[n]) axes += (axes.empty() ? "" : ",") + axis;
    out += axes;
  }
  return out;
}

std::vector<ir::VaryingAxes> varies_from_text(const std::string& text) {
  std::vector<ir::VaryingAxes> out(1);
  std::string axis;
  const auto take = [&] {
    if (!axis.empty()) out.back().insert(axis);
    axis.clear();
  };
  for (const char c : text) {
    if (c != ',' && c != ';') {
      axis += c;
      continue;
    }
    take();
    if (c == ';') out.emplace_back();
  }
  take();
  return out;
}

}  // namespace tessera::transforms
