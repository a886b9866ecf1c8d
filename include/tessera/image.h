// SPDX-License-Identifier: Apache-2.0
// Images in other sizes.
#pragma once

#include <cstdint>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/products.h>

/// @file
/// Resampling, as in jax.image. Any dimensions of an array can be resized: dimensions of a batch or
/// of channels keep their sizes. Elements have their centres at 0.5, 1.5, ...
///
/// Except with ResizeMethod::nearest integers become f32.
///
/// @throws ShapeError if a shape has another rank than the array or negative sizes.
/// @throws DTypeError for complex numbers.
///
/// All messages name the caller's line.

namespace tessera::image {

/// How elements between those of the image are computed.
enum class ResizeMethod : std::uint8_t {
  nearest,        ///< the element whose centre is nearest
  linear,         ///< linear interpolation; downwards a triangle filter
  cubic,          ///< Keys' cubic kernel, a = -0.5
  cubic_pytorch,  ///< without antialiasing a = -0.75 and repeated edges; with it as cubic
  lanczos3,       ///< Lanczos kernel of radius 3
  lanczos5,       ///< Lanczos kernel of radius 5
  area,           ///< the mean over the area that an element covers
};

/// Resizes an image (jax.image.resize): x [D..] -> [shape..].
/// @code
/// // [8, 32, 32, 3] -> [8, 64, 48, 3]
/// image::resize(x, {8, 64, 48, 3}, image::ResizeMethod::linear);
/// @endcode
/// @param x  The image.
/// @param shape  The new shape; dimensions that keep their size are left alone.
/// @param method  See ResizeMethod.
/// @param antialias  Widen the kernel where an image becomes smaller, so that all of its elements
///   count. Nearest and area take no notice.
/// @param precision  Of the products with the kernel's weights.
/// @throws ShapeError if a dimension of size 0 is to have elements.
Array resize(Operand x, std::vector<std::int64_t> shape, ResizeMethod method, bool antialias = true,
             Precision precision = Precision::highest);

/// Scales and moves an image (jax.image.scale_and_translate): the element of x at p stands at
/// p * scale + translation. Where the result shows what is outside of x it is 0.
/// @param x  The image.
/// @param shape  The shape of the result.
/// @param spatial_dims  The K dimensions that change.
/// @param scale  [K]: one scale for each of them. There are derivatives by it.
/// @param translation  [K].
/// @param method  Any but ResizeMethod::nearest.
/// @param antialias  As for `resize`.
/// @param precision  As for `resize`.
/// @throws ValueError for ResizeMethod::nearest.
/// @throws ShapeError if `scale` or `translation` don't have shape [K], or another dimension
///   changes its size.
Array scale_and_translate(Operand x, std::vector<std::int64_t> shape,
                          std::vector<std::int64_t> spatial_dims, Operand scale,
                          Operand translation, ResizeMethod method, bool antialias = true,
                          Precision precision = Precision::highest);

}  // namespace tessera::image
