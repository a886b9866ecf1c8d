// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: fft, rfft, their inverses and n-dimensional forms.
#include <tessera/ops/fft.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <tessera/ops/elementwise.h>
#include <tessera/ops/shape_ops.h>

#include "src/base/arrays/literal_util.h"
#include "src/base/contains.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

namespace {

using Kind = ir::FftType;

/// x truncated or padded with zeros at the end of a dim.
Array with_length(const Array& x, std::int64_t dim, std::int64_t length, Location location,
                  const std::string& name) {
  const std::int64_t have = x.shape()[std::size_t(dim)];
  if (have == length) return x;
  if (have > length) return frontend::sliced_dim(x, dim, 0, length, location, name);
  std::vector<ir::PadDim> margins(x.shape().size());
  margins[std::size_t(dim)].high = length - have;
  return frontend::padded(x, frontend::program_constant(x.dtype(), 0), margins, location, name);
}

/// The transform over the given dims in order; the last one is the real one of rfft and irfft.
/// `lengths` are those of the real array.
Array transformed(const std::string& name, const Operand& x, Kind kind, const Dims& axes,
                  const Dims& lengths, FftNorm norm) {
  const Shape& shape = shape_of(x);
  const Location location = x.location;
  if (kind == Kind::rfft && is_complex(shape.dtype)) {
    throw DTypeError(name + " takes real numbers, got " + shape.to_string(), location);
  }
  const bool wide = real_type(shape.dtype) == f64;
  const DType real = wide ? f64 : f32, complex = wide ? c128 : c64;
  return composed(name, location, [&] {
    Array y = frontend::converted(x.array, kind == Kind::rfft ? real : complex, location);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool halved = kind == Kind::irfft && i + 1 == axes.size();
      y = with_length(y, axes[i], halved ? lengths[i] / 2 + 1 : lengths[i], location, name);
    }
    // HLO transforms the last dims: the axes are moved there and back.
    Dims perm;
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      if (!contains(axes, d)) perm.push_back(d);
    }
    perm.insert(perm.end(), axes.begin(), axes.end());
    Dims back(perm.size());
    for (std::size_t i = 0; i < perm.size(); ++i) back[std::size_t(perm[i])] = std::int64_t(i);
    y = frontend::transposed(y, perm, location, name);
    const std::vector<Array> operands{y};
    y = frontend::apply(ir::Opcode::fft, operands, ir::FftAttrs{kind, lengths}, location, name);
    y = frontend::transposed(y, back, location, name);
    double count = 1;
    for (std::int64_t n : lengths) count *= double(n);
    double scale = 1;
    if (norm == FftNorm::ortho)
      scale = ir::is_inverse(kind) ? std::sqrt(count) : 1 / std::sqrt(count);
    if (norm == FftNorm::forward) scale = ir::is_inverse(kind) ? count : 1 / count;
    if (scale == 1) return y;
    return multiply({y, location}, {frontend::program_constant(y.dtype(), scale), location});
  });
}

/// The default length of irfft's result for this number of frequencies.
std::int64_t default_length(Kind kind, std::int64_t have, bool last) {
  return kind == Kind::irfft && last ? 2 * (have - 1) : have;
}

void need_length(const std::string& name, std::int64_t n, Location location) {
  if (n < 1) {
    throw ValueError(name + ": length " + std::to_string(n) + " of a transform; give 1 or more",
                     location);
  }
}

Array along_one(const std::string& name, const Operand& x, Kind kind, const FftOptions& options) {
  const Shape& shape = shape_of(x);
  const std::int64_t axis = frontend::normalize_axis(name, options.axis, shape.rank(), x.location);
  const std::int64_t n = options.n.value_or(default_length(kind, shape.dim(axis), true));
  need_length(name, n, x.location);
  return transformed(name, x, kind, {axis}, {n}, options.norm);
}

Array along_many(const std::string& name, const Operand& x, Kind kind, const FftnOptions& options,
                 std::optional<Axes> default_axes = {}) {
  const Shape& shape = shape_of(x);
  Dims axes;
  if (!options.axes.all() || default_axes) {
    const Axes& given = options.axes.all() ? *default_axes : options.axes;
    (void)frontend::normalize_axes(name, given, shape.rank(), x.location);
    for (std::int64_t a : given.list()) axes.push_back(a < 0 ? a + shape.rank() : a);
  } else {
    const std::int64_t count = options.s ? std::int64_t(options.s->size()) : shape.rank();
    if (count > shape.rank()) {
      throw ValueError(name + " of " + shape.to_string() + ": " + std::to_string(count) +
                           " lengths for " + std::to_string(shape.rank()) + " dims",
                       x.location);
    }
    axes.resize(std::size_t(count));
    std::iota(axes.begin(), axes.end(), shape.rank() - count);
  }
  if (options.s && options.s->size() != axes.size()) {
    throw ValueError(name + ": " + std::to_string(options.s->size()) + " lengths for " +
                         std::to_string(axes.size()) + " axes; they must pair up",
                     x.location);
  }
  if (axes.empty()) {
    throw ValueError(name + " of " + shape.to_string() + " over no axes; give one or more",
                     x.location);
  }
  Dims lengths;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    lengths.push_back(options.s ? (*options.s)[i]
                                : default_length(kind, shape.dim(axes[i]), i + 1 == axes.size()));
    need_length(name, lengths.back(), x.location);
  }
  return composed(name, x.location, [&] {
    // HLO transforms at most three dims at once. The order of complex transforms doesn't matter; a
    // real transform comes first among forward and last among inverse ones.
    Array y = x.array;
    std::vector<std::pair<std::size_t, std::size_t>> groups;  // [begin, end) of axes
    for (std::size_t end = axes.size(); end > 0;) {
      const std::size_t begin = end > 3 ? end - 3 : 0;
      groups.emplace_back(begin, end);
      end = begin;
    }
    if (kind == Kind::irfft) std::reverse(groups.begin(), groups.end());
    for (const auto& [begin, end] : groups) {
      const bool has_last = end == axes.size();
      Kind part = kind;
      if (!has_last && kind == Kind::rfft) part = Kind::fft;
      if (!has_last && kind == Kind::irfft) part = Kind::ifft;
      const auto b = std::ptrdiff_t(begin), e = std::ptrdiff_t(end);
      y = transformed(name, {y, x.location}, part, Dims(axes.begin() + b, axes.begin() + e),
                      Dims(lengths.begin() + b, lengths.begin() + e), options.norm);
    }
    return y;
  });
}

const Axes kLastTwo{-2, -1};

}  // namespace

Array fft(Operand x, const FftOptions& options) { return along_one("fft", x, Kind::fft, options); }
Array ifft(Operand x, const FftOptions& options) {
  return along_one("ifft", x, Kind::ifft, options);
}
Array rfft(Operand x, const FftOptions& options) {
  return along_one("rfft", x, Kind::rfft, options);
}
Array irfft(Operand x, const FftOptions& options) {
  return along_one("irfft", x, Kind::irfft, options);
}

namespace {

/// Options of the opposite direction: what one divides by, the other doesn't.
FftOptions turned(FftOptions options) {
  if (options.norm == FftNorm::backward) {
    options.norm = FftNorm::forward;
  } else if (options.norm == FftNorm::forward) {
    options.norm = FftNorm::backward;
  }
  return options;
}

}  // namespace

Array hfft(Operand x, const FftOptions& options) {
  return frontend::composed("hfft", x.location, [&] {
    return irfft({conj(x), x.location}, turned(options));
  });
}
Array ihfft(Operand x, const FftOptions& options) {
  return frontend::composed("ihfft", x.location, [&] {
    return conj({rfft(x, turned(options)), x.location});
  });
}
Array fftn(Operand x, const FftnOptions& options) {
  return along_many("fftn", x, Kind::fft, options);
}
Array ifftn(Operand x, const FftnOptions& options) {
  return along_many("ifftn", x, Kind::ifft, options);
}
Array rfftn(Operand x, const FftnOptions& options) {
  return along_many("rfftn", x, Kind::rfft, options);
}
Array irfftn(Operand x, const FftnOptions& options) {
  return along_many("irfftn", x, Kind::irfft, options);
}
Array fft2(Operand x, const FftnOptions& options) {
  return along_many("fft2", x, Kind::fft, options, kLastTwo);
}
Array ifft2(Operand x, const FftnOptions& options) {
  return along_many("ifft2", x, Kind::ifft, options, kLastTwo);
}
Array rfft2(Operand x, const FftnOptions& options) {
  return along_many("rfft2", x, Kind::rfft, options, kLastTwo);
}
Array irfft2(Operand x, const FftnOptions& options) {
  return along_many("irfft2", x, Kind::irfft, options, kLastTwo);
}

namespace {

Array frequencies(const std::string& name, std::int64_t n, double distance, bool half,
                  Location location) {
  need_length(name, n, location);
  if (distance == 0 || !std::isfinite(distance)) {
    throw ValueError(name + ": the distance of samples is " + std::to_string(distance) +
                         "; it must be finite and not 0",
                     location);
  }
  std::vector<double> values;
  for (std::int64_t i = 0; i < (half ? n / 2 + 1 : n); ++i) {
    const std::int64_t k = half || i < (n + 1) / 2 ? i : i - n;
    values.push_back(double(k) / (double(n) * distance));
  }
  return frontend::from_literal(make_literal(f32, {std::int64_t(values.size())}, values));
}

Array shifted(const std::string& name, const Operand& x, const Axes& axes, bool back) {
  const Shape& shape = shape_of(x);
  const Dims dims = frontend::normalize_axes(name, axes, shape.rank(), x.location);
  std::vector<std::int64_t> shifts;
  for (std::int64_t d : dims) {
    const std::int64_t half = shape.dim(d) / 2;
    shifts.push_back(back ? -half : half);
  }
  if (dims.empty()) return x.array;
  return composed(name, x.location, [&] { return roll(x, shifts, Axes(dims)); });
}

}  // namespace

Array fftfreq(std::int64_t n, double distance, Location location) {
  return frequencies("fftfreq", n, distance, false, location);
}
Array rfftfreq(std::int64_t n, double distance, Location location) {
  return frequencies("rfftfreq", n, distance, true, location);
}
Array fftshift(Operand x, Axes axes) { return shifted("fftshift", x, axes, false); }
Array ifftshift(Operand x, Axes axes) { return shifted("ifftshift", x, axes, true); }

}  // namespace tessera
