// SPDX-License-Identifier: Apache-2.0
// Which dimensions an operation works along.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace tessera {

/// Dimensions that an operation works along: one, several, or all (the default). Negative
/// dimensions count from the end.
class Axes {
 public:
  /// All dimensions.
  Axes() = default;
  /// One dimension.
  Axes(std::int64_t axis) : given_(true), axes_{axis} {}
  /// One dimension.
  Axes(int axis) : given_(true), axes_{axis} {}
  /// Several dimensions.
  Axes(std::initializer_list<std::int64_t> axes) : given_(true), axes_(axes) {}
  /// Several dimensions.
  Axes(std::vector<std::int64_t> axes) : given_(true), axes_(std::move(axes)) {}
  /// True if none were given, which means all dimensions.
  bool all() const { return !given_; }
  /// The dimensions as given; empty if `all()`.
  const std::vector<std::int64_t>& list() const { return axes_; }

 private:
  bool given_ = false;
  std::vector<std::int64_t> axes_;
};

}  // namespace tessera
