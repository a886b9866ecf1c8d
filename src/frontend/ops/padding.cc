// SPDX-License-Identifier: Apache-2.0
// Margins of arrays.
#include <algorithm>

#include <tessera/ops/creation.h>
#include <tessera/ops/grids.h>
#include <tessera/ops/mapped.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/statistics.h>

#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using internal::impl_of;

namespace {

const char* mode_name(PadMode mode) {
  switch (mode) {
    case PadMode::constant:
      return "constant";
    case PadMode::edge:
      return "edge";
    case PadMode::reflect:
      return "reflect";
    case PadMode::symmetric:
      return "symmetric";
    case PadMode::wrap:
      return "wrap";
    case PadMode::linear_ramp:
      return "linear_ramp";
    case PadMode::maximum:
      return "maximum";
    case PadMode::mean:
      return "mean";
    case PadMode::median:
      return "median";
    case PadMode::minimum:
      return "minimum";
    case PadMode::empty:
      return "empty";
  }
  return "";
}

std::int64_t modulo(std::int64_t a, std::int64_t n) { return ((a % n) + n) % n; }

/// The index of the element that padding puts at position i, which may be outside of the dim of
/// size `size`.
std::int64_t source_position(PadMode mode, std::int64_t i, std::int64_t size) {
  switch (mode) {
    case PadMode::reflect: {
      if (size == 1) return 0;
      const std::int64_t at = modulo(i, 2 * (size - 1));
      return at < size ? at : 2 * (size - 1) - at;
    }
    case PadMode::symmetric: {
      const std::int64_t at = modulo(i, 2 * size);
      return at < size ? at : 2 * size - 1 - at;
    }
    case PadMode::wrap:
      return modulo(i, size);
    default:
      break;  // edge
  }
  return std::clamp(i, std::int64_t(0), size - 1);
}

using Widths = std::vector<std::pair<std::int64_t, std::int64_t>>;

bool is_statistic(PadMode mode) {
  return mode == PadMode::maximum || mode == PadMode::mean || mode == PadMode::median ||
         mode == PadMode::minimum;
}

/// One pair per dim, from one per dim or one for all.
template <class Pair>
std::vector<Pair> pairs_for(const Shape& shape, std::vector<Pair> pairs, const char* what,
                            Location l) {
  if (pairs.size() == 1) pairs.assign(std::size_t(shape.rank()), pairs[0]);
  if (std::int64_t(pairs.size()) != shape.rank()) {
    throw ValueError("pad of " + shape.to_string() + ": " + std::to_string(pairs.size()) +
                         " pairs of " + what + "; give " + std::to_string(shape.rank()) +
                         ", one per dim, or one for all",
                     l);
  }
  return pairs;
}

Widths checked_widths(const Shape& shape, Widths widths, PadMode mode, Location l) {
  widths = pairs_for(shape, std::move(widths), "widths", l);
  for (std::size_t d = 0; d < widths.size(); ++d) {
    const auto [low, high] = widths[d];
    if (low < 0 || high < 0) {
      throw ValueError("pad: widths (" + std::to_string(low) + ", " + std::to_string(high) +
                           ") of dim " + std::to_string(d) + " must be 0 or more",
                       l);
    }
    std::int64_t padded = 0;
    if (__builtin_add_overflow(low, high, &padded) ||
        __builtin_add_overflow(padded, shape.dims[d], &padded)) {
      throw ShapeError("pad of " + shape.to_string() + " by (" + std::to_string(low) + ", " +
                           std::to_string(high) + ") in dim " + std::to_string(d) +
                           ": the size is more than a 64-bit number holds",
                       l);
    }
    const bool repeats = mode != PadMode::constant && mode != PadMode::empty;
    if (repeats && shape.dims[d] == 0 && padded > 0) {
      throw ShapeError("pad of " + shape.to_string() + " in mode " + mode_name(mode) + ": dim " +
                           std::to_string(d) + " has no elements to repeat",
                       l);
    }
  }
  return widths;
}

void check_options(const Shape& shape, const PadOptions& options, Location l) {
  const auto goes_with = [&](bool given, const char* what, const char* modes, bool fits) {
    if (!given || fits) return;
    throw ValueError(
        std::string("pad: ") + what + " with mode " + modes + ", not " + mode_name(options.mode),
        l);
  };
  const PadMode mode = options.mode;
  goes_with(options.value.has_value(), "a value goes", "constant", mode == PadMode::constant);
  goes_with(!options.values.empty(), "values go", "constant and linear_ramp",
            mode == PadMode::constant || mode == PadMode::linear_ramp);
  goes_with(!options.stat_length.empty(), "stat_length goes", "maximum, mean, median and minimum",
            is_statistic(mode));
  goes_with(options.odd, "odd goes", "reflect and symmetric",
            mode == PadMode::reflect || mode == PadMode::symmetric);
  if (options.value && !options.values.empty()) {
    throw ValueError("pad: give either `value` or `values`", l);
  }
  std::vector<Array> scalars;
  if (options.value) scalars.push_back(*options.value);
  for (const auto& [low, high] : options.values) {
    scalars.push_back(low);
    scalars.push_back(high);
  }
  for (const Array& v : scalars) {
    if (impl_of(v, l).shape.rank() == 0) continue;
    throw ShapeError("pad: the value must be a scalar, got " + v.type_string(), l);
  }
  for (const auto& [low, high] : options.stat_length) {
    if (low >= 1 && high >= 1) continue;
    throw ValueError("pad: stat_length (" + std::to_string(low) + ", " + std::to_string(high) +
                         ") of " + shape.to_string() + "; give 1 or more elements",
                     l);
  }
}

/// x with margins of slices, which have any size along the dim, before and after it.
Array between(const Array& before, const Array& x, const Array& after, std::int64_t dim,
              Location l) {
  return frontend::concatenated({before, x, after}, dim, l, "pad");
}

Array repeated(const Array& slice, std::int64_t count, std::int64_t dim, Location l) {
  Dims dims = slice.shape();
  dims[std::size_t(dim)] = count;
  return frontend::broadcasted(slice, dims, l);
}

Array statistic(const Array& x, PadMode mode, std::int64_t dim, Location l) {
  const Operand v{x, l};
  Array out = mode == PadMode::maximum   ? max(v, dim, true)
              : mode == PadMode::minimum ? min(v, dim, true)
              : mode == PadMode::median  ? median(v, dim, true)
                                         : mean(v, dim, {.keepdims = true});
  if (is_integer(x.dtype()) && !is_integer(out.dtype())) out = round({out, l});
  return frontend::converted(out, x.dtype(), l);
}

/// Mirrored at the end and turned upside down there, as often as it takes.
Array mirrored_odd(Array x, const Widths::value_type& width, std::int64_t dim, PadMode mode,
                   Location l) {
  const std::int64_t size = x.shape()[std::size_t(dim)];
  const std::int64_t offset = mode == PadMode::reflect && size > 1 ? 1 : 0;
  for (const bool front : {true, false}) {
    const auto part = [&](const Array& from, std::int64_t start, std::int64_t limit) {
      return Located{frontend::sliced_dim(from, dim, start, limit, l, "pad"), l};
    };
    const auto end_of = [&](const Array& from) {
      const std::int64_t n = from.shape()[std::size_t(dim)];
      return front ? part(from, 0, 1) : part(from, n - 1, n);
    };
    Located edge = end_of(x);
    for (std::int64_t left = front ? width.first : width.second; left > 0;) {
      const std::int64_t now = std::min(left, size - offset), n = x.shape()[std::size_t(dim)];
      left -= now;
      const Located kept =
          front ? part(x, offset, offset + now) : part(x, n - offset - now, n - offset);
      const Located turned =
          edge * 2.0 - kept.with(frontend::reversed(kept.array, {dim}, l, "pad"));
      if (size > 1) edge = end_of(turned.array);
      x = frontend::concatenated(
          front ? std::vector<Array>{turned.array, x} : std::vector<Array>{x, turned.array}, dim, l,
          "pad");
    }
  }
  return x;
}

/// One dim padded by any mode but those of constants.
Array padded_dim(const Array& x, const PadOptions& options, const Widths::value_type& width,
                 std::int64_t dim, Location l) {
  const std::int64_t size = x.shape()[std::size_t(dim)];
  const auto [low, high] = width;
  if (low == 0 && high == 0) return x;
  if (is_statistic(options.mode)) {
    std::int64_t first = size, last = size;
    if (!options.stat_length.empty()) {
      const auto& length =
          options.stat_length[options.stat_length.size() == 1 ? 0 : std::size_t(dim)];
      first = std::min(first, length.first);
      last = std::min(last, length.second);
    }
    const Array before =
        statistic(frontend::sliced_dim(x, dim, 0, first, l, "pad"), options.mode, dim, l);
    const Array after = first == size && last == size
                            ? before
                            : statistic(frontend::sliced_dim(x, dim, size - last, size, l, "pad"),
                                        options.mode, dim, l);
    return between(repeated(before, low, dim, l), x, repeated(after, high, dim, l), dim, l);
  }
  if (options.mode == PadMode::linear_ramp) {
    const auto ends = options.values.empty()
                          ? std::pair<Array, Array>(0, 0)
                          : options.values[options.values.size() == 1 ? 0 : std::size_t(dim)];
    const auto ramp = [&](const Array& end, std::int64_t at, std::int64_t count) {
      const Array edge = squeeze({frontend::sliced_dim(x, dim, at, at + 1, l, "pad"), l}, dim);
      return linspace({end, l}, {edge, l}, count,
                      {.endpoint = false, .dtype = x.dtype(), .axis = dim});
    };
    const Array after = ramp(ends.second, size - 1, high);
    return between(ramp(ends.first, 0, low), x, frontend::reversed(after, {dim}, l, "pad"), dim, l);
  }
  if (options.odd) return mirrored_odd(x, width, dim, options.mode, l);
  Dims positions;
  for (std::int64_t i = -low; i < size + high; ++i) {
    positions.push_back(source_position(options.mode, i, size));
  }
  return frontend::gather_static(x, dim, positions, l, "pad");
}

}  // namespace

Array pad(Operand x, std::vector<std::pair<std::int64_t, std::int64_t>> widths,
          const PadOptions& options) {
  const Shape& shape = shape_of(x);
  const Location l = x.location;
  widths = checked_widths(shape, std::move(widths), options.mode, l);
  check_options(shape, options, l);
  if (!options.values.empty()) (void)pairs_for(shape, options.values, "values", l);
  if (!options.stat_length.empty()) (void)pairs_for(shape, options.stat_length, "stat_length", l);
  return composed("pad", l, [&] {
    const bool each = options.mode == PadMode::constant && !options.values.empty();
    if ((options.mode == PadMode::constant || options.mode == PadMode::empty) && !each) {
      std::vector<ir::PadDim> dims;
      for (const auto& [low, high] : widths) dims.push_back({low, high, 0});
      const Array value = frontend::converted(
          options.value.value_or(frontend::program_constant(shape.dtype, 0)), shape.dtype, l);
      return frontend::padded(x.array, value, dims, l);
    }
    Array y = x.array;
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      const auto& width = widths[std::size_t(d)];
      if (!each) {
        y = padded_dim(y, options, width, d, l);
        continue;
      }
      const auto& [low, high] = options.values[options.values.size() == 1 ? 0 : std::size_t(d)];
      std::vector<ir::PadDim> before(std::size_t(shape.rank())), after = before;
      before[std::size_t(d)].low = width.first;
      after[std::size_t(d)].high = width.second;
      y = frontend::padded(y, frontend::converted(low, shape.dtype, l), before, l);
      y = frontend::padded(y, frontend::converted(high, shape.dtype, l), after, l);
    }
    return y;
  });
}

Array pad_with(Operand x, std::vector<std::pair<std::int64_t, std::int64_t>> widths,
               const PadFunction& f) {
  const Shape& shape = shape_of(x);
  const Location l = x.location;
  widths = checked_widths(shape, std::move(widths), PadMode::constant, l);
  return composed("pad", l, [&] {
    Array y = pad(x, widths);
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      const auto& width = widths[std::size_t(d)];
      y = apply_along_axis([&](Array row) { return f(row, width, d); }, d, {y, l});
    }
    return y;
  });
}

}  // namespace tessera
