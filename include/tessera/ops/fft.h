// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Discrete Fourier transforms, as in numpy.fft.
///
/// f64 and c128 are transformed in double precision, all other dtypes in single precision: results
/// are c64 or c128, or f32 or f64 of the inverse real transforms. Transforms along unsplit
/// dimensions need no communication; a split dimension is transformed by all-to-alls.
///
/// @throws ValueError if an axis is out of range or a length less than 1.
/// @throws DTypeError if a real transform is given complex numbers.
///
/// All messages name the caller's line.

namespace tessera {

/// Normalisation of a transform of length n: the inverse is scaled by 1/n (`backward`), both
/// directions by 1/sqrt(n) (`ortho`), or the forward transform by 1/n (`forward`).
enum class FftNorm : std::uint8_t { backward, ortho, forward };

/// Options of one-dimensional transforms.
struct FftOptions {
  /// Length of the transform: the array is truncated or padded with zeros at the end. For `irfft`,
  /// the length of the result. By default the size of the axis.
  std::optional<std::int64_t> n{};
  /// The axis that is transformed.
  std::int64_t axis = -1;
  /// See FftNorm.
  FftNorm norm = FftNorm::backward;
};
/// Fourier transform along one axis: x [.., N, ..] -> complex [.., N, ..].
Array fft(Operand x, const FftOptions& options = {});
/// Inverse of `fft`.
Array ifft(Operand x, const FftOptions& options = {});
/// Fourier transform of real numbers: x [.., N, ..] -> complex [.., N/2 + 1, ..], the nonnegative
/// frequencies.
Array rfft(Operand x, const FftOptions& options = {});
/// Inverse of `rfft`: x [.., M, ..] -> real [.., n, ..], by default of the even length
/// n = 2 (M - 1).
Array irfft(Operand x, const FftOptions& options = {});

/// Fourier transform of numbers whose transform is real, of which x has the first half (numpy's
/// hfft): x [.., M, ..] -> real [.., n, ..], by default of the even length n = 2 (M - 1).
Array hfft(Operand x, const FftOptions& options = {});
/// Inverse of `hfft`: real [.., N, ..] -> complex [.., N/2 + 1, ..].
Array ihfft(Operand x, const FftOptions& options = {});

/// Options of multi-dimensional transforms.
struct FftnOptions {
  /// Lengths along the axes, as FftOptions::n.
  std::optional<std::vector<std::int64_t>> s{};
  /// Axes that are transformed. By default all, or the last ones if `s` is given; the last two for
  /// fft2 and its like.
  Axes axes{};
  /// See FftNorm.
  FftNorm norm = FftNorm::backward;
};
/// Fourier transform along several axes.
/// @throws ValueError if the numbers of lengths and axes differ, or there are no axes.
Array fftn(Operand x, const FftnOptions& options = {});
/// Inverse of `fftn`.
Array ifftn(Operand x, const FftnOptions& options = {});
/// Fourier transform of real numbers along several axes: `rfft` along the last one, then `fft`
/// along the others.
Array rfftn(Operand x, const FftnOptions& options = {});
/// Inverse of `rfftn`.
Array irfftn(Operand x, const FftnOptions& options = {});
/// `fftn` along the last two axes, unless others are given.
Array fft2(Operand x, const FftnOptions& options = {});
/// `ifftn` along the last two axes, unless others are given.
Array ifft2(Operand x, const FftnOptions& options = {});
/// `rfftn` along the last two axes, unless others are given.
Array rfft2(Operand x, const FftnOptions& options = {});
/// `irfftn` along the last two axes, unless others are given.
Array irfft2(Operand x, const FftnOptions& options = {});

/// Frequencies (f32, [n]) of the elements of fft's result for n samples at intervals of `distance`.
/// @throws ValueError if n is less than 1, or `distance` is 0 or not finite.
Array fftfreq(std::int64_t n, double distance = 1, Location location = Location::current());
/// Frequencies (f32, [n/2 + 1]) of the elements of rfft's result, as `fftfreq`.
Array rfftfreq(std::int64_t n, double distance = 1, Location location = Location::current());
/// Moves frequency 0 to the middle of the axes (all by default).
Array fftshift(Operand x, Axes axes = {});
/// Inverse of `fftshift`.
Array ifftshift(Operand x, Axes axes = {});

}  // namespace tessera
