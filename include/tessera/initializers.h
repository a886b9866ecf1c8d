// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <tessera/array.h>

/// @file
/// Initial values of parameters, as in jax.nn.initializers: equal keys give the numbers that JAX
/// gives, on any number of devices; see <tessera/random.h>.
///
/// An initializer is a function of a key, a shape and a dtype:
/// @code
/// const auto init = initializers::he_normal();
/// Array w = init(key, {784, 512});
/// Array b = initializers::zeros(key, {512});
/// @endcode
/// @throws ShapeError for negative sizes or a key that isn't u32[2].
/// @throws DTypeError if a distribution doesn't have the dtype: f16, bf16, f32 and f64 are
/// supported,
///   and c64 and c128 where it says so.
///
/// All messages name the line of the initializer's call.

namespace tessera::initializers {

/// A shape.
using Shape = std::vector<std::int64_t>;

/// A function of a key, a shape and a dtype. Any such function converts to one.
class Initializer {
 public:
  /// What a function must look like.
  using Function = std::function<Array(const Operand& key, const Shape& shape, DType dtype)>;

  /// A function that makes arrays.
  template <class F>
  requires(std::invocable<F&, const Operand&, const Shape&, DType> &&
           !std::same_as<std::remove_cvref_t<F>, Initializer>)
      Initializer(F f)  // NOLINT: implicit by design
      : function_(std::move(f)) {}

  /// Makes an array.
  Array operator()(Operand key, Shape shape, DType dtype = DType::f32) const {
    return function_(key, shape, dtype);
  }

 private:
  Function function_;
};

/// Zeros; the key isn't used.
Array zeros(Operand key, Shape shape, DType dtype = DType::f32);
/// Ones; the key isn't used.
Array ones(Operand key, Shape shape, DType dtype = DType::f32);
/// All elements equal to a number; the key isn't used.
Initializer constant(double value);
/// Uniformly distributed in [0, scale).
Initializer uniform(double scale = 1e-2);
/// Normally distributed with mean 0; complex dtypes are supported, too.
Initializer normal(double stddev = 1e-2);
/// A normal distribution truncated to (lower, upper), then times `stddev`.
Initializer truncated_normal(double stddev = 1e-2, double lower = -2.0, double upper = 2.0);

/// Which axes of a shape are what to `variance_scaling`. All others are the positions of a
/// convolution's kernel.
struct FanAxes {
  /// Axes of inputs and of outputs.
  std::vector<std::int64_t> in{-2}, out{-1};
  /// Axes that count different parameters, such as those of several layers.
  std::vector<std::int64_t> batch{};
};
/// The n of `variance_scaling`.
enum class FanMode : std::uint8_t {
  fan_in,       ///< inputs of each output: input features times positions of the kernel
  fan_out,      ///< outputs of each input
  fan_avg,      ///< their mean
  fan_geo_avg,  ///< their geometric mean
};
/// The distribution of `variance_scaling`.
enum class Distribution : std::uint8_t {
  truncated_normal,  ///< normal, truncated at two standard deviations
  normal,            ///< normal
  uniform,           ///< uniform in an interval around 0; for complex dtypes in a disk
};
/// Random numbers of mean 0 and variance scale / n. Complex dtypes are supported, too.
/// @throws ValueError if an axis is out of range; with the default axes for shapes of fewer than
///   two dimensions.
Initializer variance_scaling(double scale, FanMode mode, Distribution distribution,
                             FanAxes axes = {});
/// variance_scaling(1, fan_avg, uniform): Glorot and Bengio, 2010.
Initializer glorot_uniform(FanAxes axes = {});
/// variance_scaling(1, fan_avg, truncated_normal).
Initializer glorot_normal(FanAxes axes = {});
/// The same as `glorot_uniform`.
Initializer xavier_uniform(FanAxes axes = {});
/// The same as `glorot_normal`.
Initializer xavier_normal(FanAxes axes = {});
/// variance_scaling(1, fan_in, uniform): LeCun et al., 1998.
Initializer lecun_uniform(FanAxes axes = {});
/// variance_scaling(1, fan_in, truncated_normal).
Initializer lecun_normal(FanAxes axes = {});
/// variance_scaling(2, fan_in, uniform): He et al., 2015.
Initializer he_uniform(FanAxes axes = {});
/// variance_scaling(2, fan_in, truncated_normal).
Initializer he_normal(FanAxes axes = {});
/// The same as `he_uniform`.
Initializer kaiming_uniform(FanAxes axes = {});
/// The same as `he_normal`.
Initializer kaiming_normal(FanAxes axes = {});
/// Uniformly distributed matrices with orthonormal columns, or rows if there are fewer rows, times
/// `scale` (Saxe et al., 2014). All axes but `column_axis` together are the rows. Complex dtypes
/// are supported, too (unitary matrices); f16 and bf16 aren't.
/// @throws ValueError for shapes of fewer than two dimensions, or if the axis is out of range.
Initializer orthogonal(double scale = 1.0, std::int64_t column_axis = -1);

}  // namespace tessera::initializers
