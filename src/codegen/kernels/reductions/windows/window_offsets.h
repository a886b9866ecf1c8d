// SPDX-License-Identifier: Apache-2.0
// What the windows of reduce-window see of an array, dim by dim.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/ir/module.h"

namespace tessera::codegen {

/// Position in the array of an output's window element along one dim; -1: padding, or between
/// dilated elements.
inline std::int64_t window_source(const ir::WindowDim& w, std::int64_t dim, std::int64_t out,
                                  std::int64_t offset) {
  const std::int64_t p = out * w.stride + offset * w.rhs_dilation - w.pad_low;
  // Divisions would take longer than a short row.
  if (w.lhs_dilation == 1) return p >= 0 && p < dim ? p : -1;
  if (p < 0 || p % w.lhs_dilation != 0 || p / w.lhs_dilation >= dim) return -1;
  return p / w.lhs_dilation;
}

/// Offsets in the window that meet the array for some output from `first` to `last`; the others, of
/// which a window may have any number, are in the padding.
inline std::pair<std::int64_t, std::int64_t> window_offsets(const ir::WindowDim& w,
                                                            std::int64_t dim, std::int64_t first,
                                                            std::int64_t last) {
  if (dim == 0) return {0, 0};
  const std::int64_t low = w.pad_low - last * w.stride;
  const std::int64_t high = (dim - 1) * w.lhs_dilation + w.pad_low - first * w.stride;
  if (high < 0) return {0, 0};
  if (w.rhs_dilation == 1) {
    return {std::max<std::int64_t>(low, 0), std::min(w.size, high + 1)};
  }
  return {low > 0 ? (low - 1) / w.rhs_dilation + 1 : 0,
          std::min(w.size, high / w.rhs_dilation + 1)};
}

/// The next index of a box, the last dim's fastest; false behind the last one.
inline bool advance(Dims* index, const Dims& begin, const Dims& end) {
  for (std::size_t d = index->size(); d-- > 0;) {
    if (++(*index)[d] < end[d]) return true;
    (*index)[d] = begin[d];
  }
  return false;
}

/// An array with windows, and what they make of it. Dims without windows that come last may be done
/// as one.
struct WindowedArray {
  WindowedArray(const Dims& array, const Dims& result, const std::vector<ir::WindowDim>& windows,
                std::size_t rank)
      : dims(array.begin(), array.begin() + std::ptrdiff_t(rank)),
        out_dims(result.begin(), result.begin() + std::ptrdiff_t(rank)),
        strides(row_major_strides(array)),
        window(windows.begin(), windows.begin() + std::ptrdiff_t(rank)),
        inner(element_count(std::span(array).subspan(rank))) {
    strides.resize(rank);
  }

  Dims dims, out_dims, strides;
  std::vector<ir::WindowDim> window;
  std::int64_t inner = 1;  ///< elements of each position: of dims without windows behind these
};

/// What for_each_row_seen counts by, kept from row to row.
struct RowPlaces {
  std::int64_t row = -1;  ///< that `position` is of
  Dims position, begins, ends, offset;
};

/// Calls f with the first element of each row of the array that row `row` of the result sees, in
/// their order; rows go along the last dim.
template <class F>
void for_each_row_seen(const WindowedArray& w, std::int64_t row, RowPlaces* places, F&& f) {
  const std::size_t last = w.dims.size() - 1;
  auto& [before, position, begins, ends, offset] = *places;
  for (Dims* d : {&position, &begins, &ends}) d->resize(last);
  const bool is_next = before >= 0 && row == before + 1;
  before = row;
  for (std::size_t d = last; d-- > 0;) {
    if (!is_next) {
      position[d] = row % w.out_dims[d];
      row /= w.out_dims[d];
    } else if (++position[d] < w.out_dims[d]) {
      break;
    } else {
      position[d] = 0;
    }
  }
  for (std::size_t d = last; d-- > 0;) {
    std::tie(begins[d], ends[d]) = window_offsets(w.window[d], w.dims[d], position[d], position[d]);
    if (begins[d] >= ends[d]) return;
  }
  offset = begins;
  for (bool more = true; more; more = advance(&offset, begins, ends)) {
    std::int64_t base = 0;
    bool inside = true;
    for (std::size_t d = 0; d < last && inside; ++d) {
      const std::int64_t at = window_source(w.window[d], w.dims[d], position[d], offset[d]);
      inside = at >= 0;
      base += at * w.strides[d];
    }
    if (inside) f(base);
  }
}

/// Positions of a row that see it through one offset of the window: `count` results from `to` on,
/// `step` apart, see what stands from `from` on, `advance` apart.
struct PositionsSeen {
  std::int64_t to = 0, step = 1, from = 0, advance = 1, count = 0;
};
/// Calls f with those of each offset, in their order.
template <class F>
void for_each_offset(const ir::WindowDim& w, std::int64_t dim, std::int64_t positions, F&& f) {
  const auto [begin, end] = window_offsets(w, dim, 0, positions - 1);
  for (std::int64_t offset = begin; offset < end; ++offset) {
    PositionsSeen s;
    s.step = w.lhs_dilation / std::gcd(w.lhs_dilation, w.stride);
    s.advance = s.step * w.stride / w.lhs_dilation;
    while (s.to < positions && window_source(w, dim, s.to, offset) < 0) ++s.to;
    if (s.to == positions) continue;
    s.from = window_source(w, dim, s.to, offset);
    s.count = std::min((positions - 1 - s.to) / s.step, (dim - 1 - s.from) / s.advance) + 1;
    f(s);
  }
}

struct RunningDim {
  std::int64_t dim = -1;
  bool backward = false;
};
/// The dim along which windows take in all that comes before (or after) each place, and only that
/// dim; -1: it isn't so.
inline RunningDim running_dim(const Shape& array, const Dims& result,
                              const std::vector<ir::WindowDim>& window) {
  RunningDim out;
  if (array.dims != result) return out;
  for (std::int64_t d = 0; d < array.rank(); ++d) {
    if (window[std::size_t(d)] == ir::WindowDim{}) continue;
    if (out.dim >= 0) return {};
    out.dim = d;
  }
  if (out.dim < 0) return out;
  ir::WindowDim forward, backward;
  forward.size = backward.size = array.dim(out.dim);
  forward.pad_low = backward.pad_high = forward.size - 1;
  const ir::WindowDim& w = window[std::size_t(out.dim)];
  if (!(w == forward) && !(w == backward)) return {};
  out.backward = !(w == forward);
  return out;
}

/// An array as [a, n, b], gone through along n.
struct RunningArray {
  RunningArray(const Dims& dims, const RunningDim& along)
      : a(element_count(std::span(dims).first(std::size_t(along.dim)))),
        n(dims[std::size_t(along.dim)]),
        b(element_count(std::span(dims).subspan(std::size_t(along.dim) + 1))),
        backward(along.backward) {}

  std::int64_t a, n, b;
  bool backward;
};

}  // namespace tessera::codegen
