// SPDX-License-Identifier: Apache-2.0
// What convolutions and windows share: strides, dilations and padding as the user gives them.
#include "src/frontend/ops/nn/windows.h"

#include <algorithm>
#include <cctype>

namespace tessera::frontend {

std::int64_t dilated_size(const std::string& op, std::int64_t size, std::int64_t dilation,
                          Location location) {
  return size == 0 ? 0 : multiply_sizes(op, size - 1, dilation, location) + 1;
}

Dims per_dim(const std::string& op, const char* what, const Dims& given, std::size_t count,
             Location location) {
  if (given.empty()) return Dims(count, 1);
  if (given.size() != count) {
    throw ValueError(op + ": " + what + " " + to_string(given) + " for " + std::to_string(count) +
                         " dimensions; give one number for each",
                     location);
  }
  if (*std::min_element(given.begin(), given.end()) < 1) {
    throw ValueError(op + ": " + what + " " + to_string(given) + "; they must be 1 or more",
                     location);
  }
  return given;
}

Padding::Pairs padding_pairs(const std::string& op, const Padding& padding, const Dims& sizes,
                             const Dims& windows, const Dims& strides, Location location) {
  if (!padding.is_text()) {
    if (padding.pairs().size() != sizes.size()) {
      throw ValueError(op + ": padding of " + std::to_string(padding.pairs().size()) +
                           " dimensions, and there are " + std::to_string(sizes.size()) +
                           "; give a pair for each",
                       location);
    }
    return padding.pairs();
  }
  std::string text = padding.text();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return char(std::toupper(c)); });
  Padding::Pairs out(sizes.size(), {0, 0});
  if (text == "VALID") return out;
  if (text != "SAME" && text != "SAME_LOWER") {
    throw ValueError(op + ": padding \"" + padding.text() +
                         "\"; valid are \"SAME\", \"SAME_LOWER\", \"VALID\" and a pair (before, "
                         "after) per dimension",
                     location);
  }
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t places = sizes[d] == 0 ? 0 : (sizes[d] - 1) / strides[d] + 1;
    const std::int64_t covered = (places - 1) * strides[d] + windows[d];
    const std::int64_t missing = std::max<std::int64_t>(covered - sizes[d], 0);
    const std::int64_t smaller = missing / 2;
    out[d] = text == "SAME" ? std::pair(smaller, missing - smaller)
                            : std::pair(missing - smaller, smaller);
  }
  return out;
}

std::vector<ir::WindowDim> window_dims(const std::string& op, const Dims& sizes,
                                       const Dims& windows, const Dims& strides,
                                       const Padding::Pairs& padding, const Dims& lhs_dilation,
                                       const Dims& rhs_dilation, Location location) {
  std::vector<ir::WindowDim> out;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto [low, high] = padding[d];
    const std::int64_t spread = dilated_size(op, sizes[d], lhs_dilation[d], location);
    (void)dilated_size(op, windows[d], rhs_dilation[d], location);
    std::int64_t padded = 0;
    if (__builtin_add_overflow(spread, low, &padded) ||
        __builtin_add_overflow(padded, high, &padded) || padded < 0) {
      throw ShapeError(op + ": padding (" + std::to_string(low) + ", " + std::to_string(high) +
                           ") of dimension " + std::to_string(d) + " of size " +
                           std::to_string(spread) + " gives no valid size",
                       location);
    }
    out.push_back({windows[d], strides[d], low, high, lhs_dilation[d], rhs_dilation[d], false});
  }
  return out;
}

std::int64_t window_count(std::int64_t size, const ir::WindowDim& w) {
  const std::int64_t spread = size == 0 ? 0 : (size - 1) * w.lhs_dilation + 1;
  const std::int64_t padded = spread + w.pad_low + w.pad_high;
  const std::int64_t reach = (w.size - 1) * w.rhs_dilation + 1;
  return w.size == 0 || padded < reach ? 0 : (padded - reach) / w.stride + 1;
}

}  // namespace tessera::frontend
