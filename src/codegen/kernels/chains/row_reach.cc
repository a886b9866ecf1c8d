// SPDX-License-Identifier: Apache-2.0
// How far around its own row a row of a loop's result reads its inputs.
#include "src/codegen/kernels/chains/row_reach.h"

#include <algorithm>
#include <numeric>

namespace tessera::codegen {
namespace {

using ReadKind = LoopExpr::Kind;

/// A window on all elements in a row.
bool is_flat(const LoopExpr::Register& r) {
  return r.window && r.dims.size() == 1 && r.strides[0] == 1;
}

/// Of one read of the input.
std::optional<LoopRows> rows_of_read(const LoopExpr::Register& r, std::int64_t elements,
                                     std::int64_t width, std::int64_t own) {
  if (!r.starts.empty()) return std::nullopt;
  if (r.kind == ReadKind::contiguous) {
    if (r.offset % width != 0 || elements % width != 0) return std::nullopt;
    return LoopRows{width, {r.offset / width, r.offset / width}};
  }
  if (r.kind != ReadKind::broadcast || r.dims.empty()) return std::nullopt;
  if (is_flat(r)) {
    if (own != 0 && own != width) return std::nullopt;
    const LoopExpr::Window& w = r.window;
    for (const std::int64_t n : {r.offset, w.low, w.high, elements}) {
      if (n % width != 0) return std::nullopt;
    }
    const std::int64_t row = r.offset / width;
    return LoopRows{width, {row - (w.low + elements - w.high) / width, row}};
  }
  // The dims that count rows, and those of a row.
  std::size_t rows = 1;
  std::int64_t of_row = elements / r.dims[0];
  if (own != 0) {
    while (rows < r.dims.size() && of_row > own) of_row /= r.dims[rows++];
    if (of_row != own) return std::nullopt;
  }
  if (of_row * r.dims[0] > elements || elements % of_row != 0) return std::nullopt;
  std::int64_t step = width;
  for (std::size_t d = rows; d-- > 0;) {
    if (r.dims[d] != 1 && r.strides[d] != step) return std::nullopt;
    step *= r.dims[d];
  }
  std::int64_t first = 0, last = 0;  // of what a row reads, from the first element on
  for (std::size_t d = rows; d < r.dims.size(); ++d) {
    const bool cut = r.window.dim == int(d);
    const std::int64_t most = (cut ? r.window.high - r.window.low : r.dims[d]) - 1;
    (r.strides[d] < 0 ? first : last) += most * r.strides[d];
  }
  const std::int64_t row = floor_div(r.offset + first, width);
  if (floor_div(r.offset + last, width) != row) return std::nullopt;
  LoopRows out{of_row, {row, row}};
  if (r.window && std::size_t(r.window.dim) < rows) {
    if (rows != 1) return std::nullopt;
    // Rows outside of the window read the nearest in it.
    out.reach.lo = row - r.window.low - (r.dims[0] - r.window.high);
  }
  return out;
}

}  // namespace

std::int64_t longest_row(const LoopExpr& program, std::int64_t elements, int input) {
  std::int64_t row = 0;
  for (const LoopExpr::Register& r : program.registers) {
    if (r.index != input || !r.starts.empty()) continue;
    if (r.kind == ReadKind::contiguous) row = std::gcd(row, r.offset);
    if (r.kind != ReadKind::broadcast || !is_flat(r)) continue;
    for (const std::int64_t n : {r.offset, r.window.low, elements - r.window.high}) {
      row = std::gcd(row, n);
    }
  }
  return row == 0 ? 0 : std::gcd(row, elements);
}

std::optional<LoopRows> rows_of_input(const LoopExpr& program, std::int64_t elements, int input,
                                      std::int64_t width, std::int64_t own) {
  if (!program.sources.empty() || width <= 0) return std::nullopt;
  LoopRows out{0, {0, 0}};
  for (const LoopExpr::Register& r : program.registers) {
    for (const LoopExpr::Start& s : r.starts) {
      if (s.input == input) return std::nullopt;
    }
    if (r.kind == ReadKind::array && r.index == input) return std::nullopt;
    if (r.kind == ReadKind::composed) {
      const ComposedView& view = program.views[std::size_t(r.index)];
      if (view.fill == input) return std::nullopt;
      for (const ComposedView::Piece& p : view.pieces) {
        if (p.input == input) return std::nullopt;
        for (const ComposedView::Start& s : p.starts) {
          if (s.input == input) return std::nullopt;
        }
      }
      continue;
    }
    const bool reads = r.kind == ReadKind::contiguous || r.kind == ReadKind::scalar ||
                       r.kind == ReadKind::broadcast;
    if (!reads || r.index != input) continue;
    const auto rows = rows_of_read(r, elements, width, own);
    if (!rows || (out.width != 0 && rows->width != out.width)) return std::nullopt;
    if (out.width == 0) {
      out = *rows;
    } else {
      out.reach.lo = std::min(out.reach.lo, rows->reach.lo);
      out.reach.hi = std::max(out.reach.hi, rows->reach.hi);
    }
  }
  return out;
}

}  // namespace tessera::codegen
