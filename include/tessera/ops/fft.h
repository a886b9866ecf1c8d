// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms, as in numpy.fft. f64 and c128 stay double, all else works in single
// precision.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

namespace tessera {

/// Which way is scaled by 1/n: back, both by 1/sqrt(n), or forth.
enum class FftNorm : std::uint8_t { backward, ortho, forward };

struct FftOptions {
  /// Length along the axis: the array is cut or filled with zeros (of irfft: length of the result).
  std::optional<std::int64_t> n{};
  std::int64_t axis = -1;
  FftNorm norm = FftNorm::backward;
};
Array fft(Operand x, const FftOptions& options = {});
Array ifft(Operand x, const FftOptions& options = {});
/// Of real numbers: the n/2 + 1 frequencies that aren't negative.
Array rfft(Operand x, const FftOptions& options = {});
/// Back from n/2 + 1 frequencies to n (by default the even length) real numbers.
Array irfft(Operand x, const FftOptions& options = {});

struct FftnOptions {
  /// Lengths along the axes, as FftOptions::n.
  std::optional<std::vector<std::int64_t>> s{};
  /// All axes by default; the last ones, if s is given.
  Axes axes{};
  FftNorm norm = FftNorm::backward;
};
Array fftn(Operand x, const FftnOptions& options = {});
Array ifftn(Operand x, const FftnOptions& options = {});
/// The last axis real: see rfft.
Array rfftn(Operand x, const FftnOptions& options = {});
Array irfftn(Operand x, const FftnOptions& options = {});
/// Over the last two axes unless others are given.
Array fft2(Operand x, const FftnOptions& options = {});
Array ifft2(Operand x, const FftnOptions& options = {});
Array rfft2(Operand x, const FftnOptions& options = {});
Array irfft2(Operand x, const FftnOptions& options = {});

/// Frequencies of fft's / rfft's results for n samples at that distance (f32).
Array fftfreq(std::int64_t n, double distance = 1, Location location = Location::current());
Array rfftfreq(std::int64_t n, double distance = 1, Location location = Location::current());
/// Frequency 0 moved to the middle, and back.
Array fftshift(Operand x, Axes axes = {});
Array ifftshift(Operand x, Axes axes = {});

}  // namespace tessera
