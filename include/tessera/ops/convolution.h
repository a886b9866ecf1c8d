// SPDX-License-Identifier: Apache-2.0
// Convolutions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/products.h>
#include <tessera/ops/window_padding.h>

/// @file
/// Convolutions, as in jax.lax: an input slides under a kernel, and each place gives the sum of the
/// products over the kernel's positions and input features. The kernel isn't reversed.
///
/// Operands are promoted as in elementwise operations, and the result has the promoted dtype unless
/// a wider one is requested. Convolutions of f16 and bf16 accumulate in f32 and are rounded once.
/// There are derivatives in both modes by both operands, and for batches.
///
/// @throws ShapeError if shapes don't fit each other or the options.
/// @throws ValueError for options that mean nothing: strides below 1, unknown letters, ...
/// @throws DTypeError for pred.
///
/// All messages name the caller's line.

namespace tessera {

/// Which dimension is which, as three texts of one letter per dimension: of the input and the
/// result "N" is the batch and "C" the features; of the kernel "I" are the input features and "O"
/// those of the result. All other letters are spatial dimensions, the same ones in all three texts.
/// Options by dimension, such as strides, are in the order of the kernel's spatial letters.
/// @code
/// ConvLayout{"NHWC", "HWIO", "NHWC"}
/// @endcode
struct ConvLayout {
  /// The input, the kernel and the result; all empty: "NCHW", "OIHW", "NCHW" for two spatial
  /// dimensions, and so on.
  std::string input{}, kernel{}, result{};
};

/// Options of `conv_general_dilated` and `conv_transpose`. Lists have an entry per spatial
/// dimension; empty ones stand for ones.
struct ConvOptions {
  /// Distances between the input's elements, zeros between them (not for `conv_transpose`).
  std::vector<std::int64_t> lhs_dilation{};
  /// Distances between the kernel's elements (atrous convolution).
  std::vector<std::int64_t> rhs_dilation{};
  /// Which dimension is which.
  ConvLayout layout{};
  /// Input and result features are in so many groups, and each group of results sees one of inputs:
  /// a kernel has 1/groups of the input features. As many groups as features: depthwise.
  std::int64_t feature_group_count = 1;
  /// The batch is in so many groups, as are the result's features; the groups are convolved apart.
  std::int64_t batch_group_count = 1;
  /// Dtype of the result and of the accumulation; see DotDims::preferred.
  std::optional<DType> preferred{};
  /// See Precision.
  Precision precision = Precision::standard;
};

/// General convolution (HLO `convolution`, jax.lax.conv_general_dilated).
///
/// lhs [N, C, D..], rhs [O, C / feature_group_count, K..] -> [N / batch_group_count, O, E..], in
/// the order of dimensions that the layout says; any number of spatial dimensions.
/// @code
/// // [8, 32, 32, 3] and [3, 3, 3, 16] -> [8, 16, 16, 16]
/// conv_general_dilated(x, w, {2, 2}, "SAME", {.layout = {"NHWC", "HWIO", "NHWC"}});
/// @endcode
/// @param lhs  The input.
/// @param rhs  The kernel.
/// @param window_strides  Distances between the kernel's places, one per spatial dimension.
/// @param padding  Zeros around the input; texts refer to it without lhs_dilation, and are a
///   ValueError with one.
/// @param options  See ConvOptions.
Array conv_general_dilated(Operand lhs, Operand rhs, std::vector<std::int64_t> window_strides,
                           const Padding& padding, const ConvOptions& options = {});
/// Convolution of [N, C, D..] and [O, C, K..] (jax.lax.conv).
Array conv(Operand lhs, Operand rhs, std::vector<std::int64_t> window_strides,
           const Padding& padding, std::optional<DType> preferred = {});
/// The same with dilations (jax.lax.conv_with_general_padding).
Array conv_with_general_padding(Operand lhs, Operand rhs, std::vector<std::int64_t> window_strides,
                                const Padding& padding, std::vector<std::int64_t> lhs_dilation = {},
                                std::vector<std::int64_t> rhs_dilation = {},
                                std::optional<DType> preferred = {});

/// Options of `conv_transpose` besides ConvOptions.
struct ConvTransposeOptions {
  /// Distances between the kernel's elements; empty: ones.
  std::vector<std::int64_t> rhs_dilation{};
  /// Which dimension is which; by default channels come last: "NHWC", "HWIO", "NHWC" for two
  /// spatial dimensions, for three "NHWDC", "HWDIO", "NHWDC".
  ConvLayout layout{};
  /// Reverse the kernel's spatial dimensions and exchange its features "I" and "O", so that the
  /// result is the derivative of a convolution with that kernel by its input.
  bool transpose_kernel = false;
  /// Dtype of the result; see DotDims::preferred.
  std::optional<DType> preferred{};
  /// See Precision.
  Precision precision = Precision::standard;
  /// Pairs are the padding of the convolution that this one is the transpose of, as texts always
  /// are. If false they are that of the input after it was spread out.
  bool use_consistent_padding = false;
};
/// Convolution with fractional strides, often called transposed convolution or deconvolution
/// (jax.lax.conv_transpose): the input's elements are spread out, `strides` apart.
/// @param lhs  The input, by default [N, D.., C].
/// @param rhs  The kernel, by default [K.., C, O].
/// @param strides  One per spatial dimension.
/// @param padding  "SAME" or "VALID": that of the convolution that this one is the transpose of,
///   so that sizes become size * stride, or size * stride + max(K - stride, 0). Or pairs; see
///   ConvTransposeOptions::use_consistent_padding.
/// @param options  See ConvTransposeOptions.
Array conv_transpose(Operand lhs, Operand rhs, std::vector<std::int64_t> strides,
                     const Padding& padding, const ConvTransposeOptions& options = {});

/// Options of `conv1d`, `conv2d` and `conv3d`. Lists have an entry per spatial dimension; empty
/// ones stand for ones.
struct ConvNdOptions {
  /// Distances between the kernel's places.
  std::vector<std::int64_t> strides{};
  /// Zeros around the input.
  Padding padding = "SAME";
  /// Distances between the input's elements.
  std::vector<std::int64_t> input_dilation{};
  /// Distances between the kernel's elements.
  std::vector<std::int64_t> kernel_dilation{};
  /// Groups of features; see ConvOptions::feature_group_count.
  std::int64_t groups = 1;
  /// Dtype of the result; see DotDims::preferred.
  std::optional<DType> preferred{};
  /// See Precision.
  Precision precision = Precision::standard;
};
/// Convolution along one dimension, channels last (flax.linen.Conv without a bias):
/// x [B.., W, C], kernel [K, C / groups, O] -> [B.., W', O], with any number of batch dimensions.
Array conv1d(Operand x, Operand kernel, const ConvNdOptions& options = {});
/// The same along two dimensions: x [B.., H, W, C], kernel [K, L, C / groups, O] -> [B.., H', W',
/// O].
/// @code
/// Array y = conv2d(images, weights, {.strides = {2, 2}});   // [8, 32, 32, 3] -> [8, 16, 16, 64]
/// @endcode
Array conv2d(Operand x, Operand kernel, const ConvNdOptions& options = {});
/// The same along three dimensions: x [B.., D, H, W, C], kernel [K, L, M, C / groups, O].
Array conv3d(Operand x, Operand kernel, const ConvNdOptions& options = {});

}  // namespace tessera
