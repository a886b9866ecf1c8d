// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include <tessera/array.h>

namespace tessera {

/// Dimensions to work along: one, several, or all (the default). Negative ones count from the end.
class Axes {
 public:
  Axes() = default;
  Axes(std::int64_t axis) : given_(true), axes_{axis} {}
  Axes(int axis) : given_(true), axes_{axis} {}
  Axes(std::initializer_list<std::int64_t> axes) : given_(true), axes_(axes) {}
  Axes(std::vector<std::int64_t> axes) : given_(true), axes_(std::move(axes)) {}
  bool all() const { return !given_; }
  const std::vector<std::int64_t>& list() const { return axes_; }

 private:
  bool given_ = false;
  std::vector<std::int64_t> axes_;
};

struct ReduceOptions {
  /// Reduced dims stay, with size 1.
  bool keepdims = false;
  /// Of the result and of the sums; default: the array's own (s32 or u32 for pred and integers of
  /// fewer bits).
  std::optional<DType> dtype{};
};

/// sum(x), sum(x, -1), sum(x, {0, 1}), sum(x, 1, {.keepdims = true})
Array sum(Operand x, Axes axes = {}, const ReduceOptions& options = {});
Array prod(Operand x, Axes axes = {}, const ReduceOptions& options = {});
/// Integers become f32.
Array mean(Operand x, Axes axes = {}, const ReduceOptions& options = {});
struct VarOptions {
  bool keepdims = false;
  /// Divide by n - ddof.
  double ddof = 0;
};
Array var(Operand x, Axes axes = {}, const VarOptions& options = {});
/// Standard deviation: the root of var.
Array stddev(Operand x, Axes axes = {}, const VarOptions& options = {});
/// As stddev, under numpy's name. After `using namespace tessera;` a plain `std(x)` is ambiguous
/// with namespace std: write stddev(x), or tessera::std(x).
Array std(Operand x, Axes axes = {}, const VarOptions& options = {});
/// NaN if one is among the elements. ValueError for an empty range.
Array max(Operand x, Axes axes = {}, bool keepdims = false);
Array min(Operand x, Axes axes = {}, bool keepdims = false);
/// Are any / all elements true (not zero)?
Array any(Operand x, Axes axes = {}, bool keepdims = false);
Array all(Operand x, Axes axes = {}, bool keepdims = false);
/// Position (s32) of the first largest element; over the flattened array without axis.
Array argmax(Operand x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
Array argmin(Operand x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
/// log(sum(exp(x))), without overflow.
Array logsumexp(Operand x, Axes axes = {}, bool keepdims = false);
Array count_nonzero(Operand x, Axes axes = {}, bool keepdims = false);
/// Running sum / product along an axis (over the flattened array without one).
Array cumsum(Operand x, std::optional<std::int64_t> axis = {});
Array cumprod(Operand x, std::optional<std::int64_t> axis = {});
/// Are all elements close, |a - b| <= atol + rtol |b|? A scalar pred.
Array allclose(Operand a, Operand b, double rtol = 1e-5, double atol = 1e-8);

}  // namespace tessera
