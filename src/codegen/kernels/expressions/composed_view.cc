// SPDX-License-Identifier: Apache-2.0
// Composes views (slice, reverse, transpose, reshape, pad, concatenate) into boxes with strides.
#include "src/codegen/kernels/expressions/composed_view.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/base/contains.h"
#include "src/codegen/kernels/read_index.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/ir/analysis/element_source.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using Side = ComposedView::Side;
using Piece = ComposedView::Piece;

void shift(Side* s, std::int64_t by) {
  s->origin += by;
  if (s->has_window()) s->low += by, s->high += by;
}

/// What is outside [0, extent) of a dim is not to be seen when the array becomes a part of a
/// larger one.
bool clip(ComposedView* m, int dim, std::int64_t extent) {
  std::vector<Piece> kept;
  for (Piece& p : m->pieces) {
    Side& s = p.sides[std::size_t(dim)];
    if (p.moves(dim)) {
      for (const ComposedView::Start& start : p.starts) {
        if (start.dim == dim && start.window) return false;
      }
      const bool had = s.has_window();
      s.low = had ? std::max<std::int64_t>(s.low, 0) : 0;
      s.high = had ? std::min(s.high, extent) : extent;
      if (s.high <= s.low) continue;
    } else {
      std::int64_t low = std::max<std::int64_t>(s.origin, 0);
      std::int64_t high = std::min(s.origin + s.size, extent);
      if (s.has_window()) low = std::max(low, s.low), high = std::min(high, s.high);
      s.low = s.high = 0;
      if (high <= low) continue;
      p.base += (low - s.origin) * s.stride;
      s.origin = low;
      s.size = high - low;
    }
    kept.push_back(std::move(p));
  }
  m->pieces = std::move(kept);
  return true;
}

bool is_fixed(const ComposedView& m, int dim) {
  return std::all_of(m.pieces.begin(), m.pieces.end(), [&](const Piece& p) {
    return !p.moves(dim) && !p.sides[std::size_t(dim)].has_window();
  });
}

bool slice(const ir::SliceAttrs& a, const Dims& dims, ComposedView* m) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t step = a.strides.empty() ? 1 : a.strides[d];
    if (step != 1 && !is_fixed(*m, int(d))) return false;
    std::vector<Piece> kept;
    for (Piece& p : m->pieces) {
      Side& s = p.sides[d];
      shift(&s, -a.starts[d]);
      if (step != 1) {
        const std::int64_t first = std::max<std::int64_t>(0, ceil_div(s.origin, step));
        const std::int64_t skipped = first * step - s.origin;
        if (skipped >= s.size) continue;
        p.base += skipped * s.stride;
        s = {0, 0, first, (s.size - 1 - skipped) / step + 1, s.stride * step};
      }
      kept.push_back(std::move(p));
    }
    m->pieces = std::move(kept);
  }
  m->dims = dims;
  return true;
}

bool reverse(const Dims& which, ComposedView* m) {
  for (const std::int64_t d : which) {
    if (!is_fixed(*m, int(d))) return false;
    for (Piece& p : m->pieces) {
      Side& s = p.sides[std::size_t(d)];
      p.base += (s.size - 1) * s.stride;
      s.origin = m->dims[std::size_t(d)] - s.origin - s.size;
      s.stride = -s.stride;
    }
  }
  return true;
}

/// Dim d of the result is dim of[d]; -1: a new one along which all is the same.
bool rearrange(const Dims& dims, const std::vector<int>& of, ComposedView* m) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (of[d] < 0 || m->dims[std::size_t(of[d])] == dims[d]) continue;
    if (!is_fixed(*m, of[d])) return false;
    if (!clip(m, of[d], 1)) return false;
    for (Piece& p : m->pieces) p.sides[std::size_t(of[d])] = {0, 0, 0, dims[d], 0};
  }
  // A dim that goes away is one element long.
  for (std::size_t d = 0; d < m->dims.size(); ++d) {
    if (contains(of, int(d))) continue;
    if (m->dims[d] != 1 || !is_fixed(*m, int(d)) || !clip(m, int(d), 1)) return false;
  }
  for (Piece& p : m->pieces) {
    std::vector<Side> sides;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      sides.push_back(of[d] < 0 ? Side{0, 0, 0, dims[d], 0} : p.sides[std::size_t(of[d])]);
    }
    for (ComposedView::Start& s : p.starts) {
      const auto at = std::find(of.begin(), of.end(), s.dim);
      if (at == of.end()) return false;
      s.dim = int(at - of.begin());
    }
    p.sides = std::move(sides);
  }
  m->dims = dims;
  return true;
}

/// One box under other dims: runs of dims that are laid out as one are cut anew. False if the cuts
/// don't fit.
bool recut(const Dims& dims, ComposedView* m) {
  std::vector<std::size_t> old, made;
  for (std::size_t d = 0; d < m->dims.size(); ++d) {
    if (m->dims[d] != 1) old.push_back(d);
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1) made.push_back(d);
  }
  Piece& p = m->pieces[0];
  std::vector<Side> sides(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) sides[d].size = dims[d];
  std::size_t o = 0, n = 0;
  while (o < old.size() && n < made.size()) {
    std::size_t o_end = o + 1, n_end = n + 1;
    std::int64_t from = m->dims[old[o]], to = dims[made[n]];
    while (from != to) {
      if (to < from) {
        if (n_end == made.size()) return false;
        to *= dims[made[n_end++]];
      } else {
        if (o_end == old.size()) return false;
        from *= m->dims[old[o_end++]];
      }
    }
    for (std::size_t k = o; k + 1 < o_end; ++k) {
      const Side& inner = p.sides[old[k + 1]];
      if (p.sides[old[k]].stride != inner.stride * inner.size) return false;
    }
    std::int64_t stride = p.sides[old[o_end - 1]].stride;
    for (std::size_t k = n_end; k-- > n;) {
      sides[made[k]].stride = stride;
      stride *= dims[made[k]];
    }
    o = o_end;
    n = n_end;
  }
  if (o != old.size() || n != made.size()) return false;
  p.sides = std::move(sides);
  m->dims = dims;
  return true;
}

bool reshape(const Dims& dims, ComposedView* m) {
  if (m->dims == dims) return true;
  if (m->fill < 0 && m->is_one_box() && element_count(dims) > 0 && recut(dims, m)) return true;
  // Otherwise only dims of one may come and go.
  std::vector<int> of;
  std::size_t next = 0;
  const auto skip = [&] {
    while (next < m->dims.size() && m->dims[next] == 1) ++next;
  };
  for (const std::int64_t d : dims) {
    if (d == 1) {
      of.push_back(-1);
      continue;
    }
    skip();
    if (next == m->dims.size() || m->dims[next] != d) return false;
    of.push_back(int(next++));
  }
  skip();
  return next == m->dims.size() && rearrange(dims, of, m);
}

bool pad(const ir::Instruction& i, ViewScalars& scalars, ComposedView* m) {
  const auto& pads = i.get<ir::PadAttrs>().dims;
  bool fills = false;
  for (std::size_t d = 0; d < pads.size(); ++d) {
    if (pads[d].interior != 0) return false;
    if (pads[d].low > 0 || pads[d].high > 0) {
      fills = true;
      if (!clip(m, int(d), m->dims[d])) return false;
    }
    for (Piece& p : m->pieces) shift(&p.sides[d], pads[d].low);
  }
  if (fills) {
    const int fill = scalars.input(*i.operand(1));
    if (m->fill >= 0 && m->fill != fill) return false;
    m->fill = fill;
  }
  m->dims = i.shape.dims;
  return true;
}

bool concatenate(const ir::Instruction& i, std::size_t k, ComposedView* m) {
  if (m->fill >= 0) return false;
  const auto dim = std::size_t(i.get<ir::DimensionsAttrs>().dims.at(0));
  if (!clip(m, int(dim), m->dims[dim])) return false;
  std::int64_t at = 0;
  for (std::size_t n = 0; n < k; ++n) at += i.operand(n)->shape.dims[dim];
  for (Piece& p : m->pieces) shift(&p.sides[dim], at);
  m->dims = i.shape.dims;
  return true;
}

void add_starts(const ir::Instruction& i, std::size_t first, const Dims& array, const Dims& part,
                std::int64_t scale, ViewScalars& scalars, ComposedView* m) {
  for (std::size_t d = 0; d < array.size(); ++d) {
    if (array[d] == part[d]) continue;
    ComposedView::Start start;
    start.dim = int(d);
    start.input = scalars.input(*i.operand(first + d));
    start.dtype = i.operand(first + d)->shape.dtype;
    start.limit = array[d] - part[d];
    start.scale = scale;
    for (Piece& p : m->pieces) {
      start.window = p.sides[d].has_window();
      p.starts.push_back(start);
    }
  }
}

}  // namespace

bool ComposedView::Piece::moves(int dim) const {
  return std::any_of(starts.begin(), starts.end(), [&](const Start& s) { return s.dim == dim; });
}

ComposedView ComposedView::identity(int input, const Dims& dims) {
  return strided(input, dims, 0, row_major_strides(dims));
}

ComposedView ComposedView::strided(int input, const Dims& dims, std::int64_t base,
                                   const Dims& strides) {
  ComposedView m;
  m.dims = dims;
  Piece p;
  p.input = input;
  p.base = base;
  for (std::size_t d = 0; d < dims.size(); ++d) p.sides.push_back({0, 0, 0, dims[d], strides[d]});
  m.pieces.push_back(std::move(p));
  return m;
}

ComposedView ComposedView::numbers(const Dims& dims, std::int64_t dim) {
  ComposedView m = identity(0, dims);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    m.pieces[0].sides[d].stride = std::int64_t(d) == dim ? 1 : 0;
  }
  return m;
}

bool ComposedView::is_one_box() const {
  if (pieces.size() != 1 || !pieces[0].starts.empty()) return false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const Side& s = pieces[0].sides[d];
    if (s.has_window() || s.origin != 0 || s.size != dims[d]) return false;
  }
  return true;
}

bool ComposedView::is_moved_box() const {
  if (pieces.size() != 1) return false;
  const Piece& p = pieces[0];
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const Side& side = p.sides[d];
    if (side.has_window()) return false;
    std::int64_t lowest = side.origin, highest = side.origin;
    for (const Start& s : p.starts) {
      if (s.window) return false;
      if (s.dim != int(d)) continue;
      lowest += std::min<std::int64_t>(0, s.limit * s.scale);
      highest += std::max<std::int64_t>(0, s.limit * s.scale);
    }
    if (highest > 0 || lowest + side.size < dims[d]) return false;
  }
  return true;
}

int ComposedView::part_of_dim() const {
  if (pieces.size() != 1 || !pieces[0].starts.empty() || fill >= 0) return -1;
  int out = -1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const Side& s = pieces[0].sides[d];
    if (s.has_window()) return -1;
    if (s.origin == 0 && s.size == dims[d]) continue;
    if (out >= 0 || s.origin < 0 || s.origin + s.size > dims[d]) return -1;
    out = int(d);
  }
  return out;
}

void ComposedView::simplify() {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (is_fixed(*this, int(d))) clip(this, int(d), dims[d]);
  }
  const auto drop = [&](std::size_t d) {
    dims.erase(dims.begin() + std::int64_t(d));
    for (Piece& p : pieces) {
      p.sides.erase(p.sides.begin() + std::int64_t(d));
      for (Start& s : p.starts) s.dim -= s.dim > int(d);
    }
  };
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1 && is_fixed(*this, int(d))) drop(d);
  }
  for (std::size_t d = dims.size(); d-- > 1;) {
    const std::int64_t inner = dims[d];
    const bool joins = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& p) {
      const Side &outer = p.sides[d - 1], &s = p.sides[d];
      return !p.moves(int(d)) && !s.has_window() && s.origin == 0 && s.size == inner &&
             outer.stride == s.stride * inner;
    });
    if (!joins) continue;
    dims[d - 1] *= inner;
    for (Piece& p : pieces) {
      Side& s = p.sides[d - 1];
      s = {s.low * inner, s.high * inner, s.origin * inner, s.size * inner, p.sides[d].stride};
      for (Start& start : p.starts) start.scale *= start.dim == int(d) - 1 ? inner : 1;
    }
    drop(d);
  }
}

bool is_view(const ir::Instruction& i) {
  const ir::ElementSource source = ir::element_source(i.opcode);
  return (source == ir::ElementSource::moved || source == ir::ElementSource::repeated) &&
         i.shape.is_array() && !i.operands().empty();
}

bool is_data_operand(const ir::Instruction& view, std::size_t k) {
  return k == 0 || view.is(Opcode::concatenate) ||
         (k == 1 && view.is(Opcode::dynamic_update_slice));
}

bool commutes(const ir::Instruction& view) {
  return view.is(Opcode::slice) || view.is(Opcode::transpose) || view.is(Opcode::reverse) ||
         view.is(Opcode::dynamic_slice) || view.is(Opcode::reshape);
}

Dims identity_order(std::int64_t rank) {
  Dims order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Dims reordered(const Dims& order, const Dims& by) {
  Dims out;
  for (const std::int64_t d : by) out.push_back(order[std::size_t(d)]);
  return out;
}

Shape transposed(const Shape& shape, const Dims& order) {
  return Shape(shape.dtype, reordered(shape.dims, order));
}

bool apply_transpose(const Dims& order, ComposedView* m) {
  return rearrange(reordered(m->dims, order), std::vector<int>(order.begin(), order.end()), m);
}

void apply_part(std::size_t dim, std::int64_t begin, std::int64_t size, ComposedView* m) {
  for (Piece& p : m->pieces) shift(&p.sides[dim], -begin);
  m->dims[dim] = size;
}

bool apply_view(const ir::Instruction& view, std::size_t k, ViewScalars& scalars, ComposedView* m) {
  const Dims& dims = view.shape.dims;
  switch (view.opcode) {
    case Opcode::slice:
      return slice(view.get<ir::SliceAttrs>(), dims, m);
    case Opcode::reverse:
      return reverse(view.get<ir::DimensionsAttrs>().dims, m);
    case Opcode::transpose:
      return apply_transpose(view.get<ir::DimensionsAttrs>().dims, m);
    case Opcode::broadcast: {
      std::vector<int> of(dims.size(), -1);
      const Dims& at = view.get<ir::DimensionsAttrs>().dims;
      for (std::size_t d = 0; d < at.size(); ++d) of[std::size_t(at[d])] = int(d);
      return rearrange(dims, of, m);
    }
    case Opcode::reshape:
      return reshape(dims, m);
    case Opcode::pad:
      return pad(view, scalars, m);
    case Opcode::concatenate:
      return concatenate(view, k, m);
    case Opcode::dynamic_slice:
      if (view.operands().size() != 1 + dims.size()) return false;
      add_starts(view, 1, m->dims, dims, -1, scalars, m);
      m->dims = dims;
      return true;
    case Opcode::dynamic_update_slice: {
      if (view.operands().size() != 2 + dims.size()) return false;
      if (k == 0) return true;
      if (m->fill >= 0) return false;
      const Dims part = m->dims;
      for (std::size_t d = 0; d < part.size(); ++d) {
        if (!clip(m, int(d), part[d])) return false;
      }
      for (Piece& p : m->pieces) {
        if (!p.starts.empty()) return false;
      }
      add_starts(view, 2, dims, part, 1, scalars, m);
      m->dims = dims;
      return true;
    }
    default:
      return false;
  }
}

ResolvedView::ResolvedView(const ComposedView& composed, const std::byte* const* inputs,
                           int element_bytes)
    : view_(composed), bytes_(element_bytes) {
  if (composed.fill >= 0) fill_ = inputs[composed.fill];
  for (const ComposedView::Piece& p : composed.pieces) {
    std::int64_t base = p.base;
    pieces_.push_back({nullptr, sides_.size()});
    for (std::size_t d = 0; d < p.sides.size(); ++d) {
      Side s = {p.sides[d].low, p.sides[d].high, p.sides[d].stride};
      std::int64_t origin = p.sides[d].origin, moved = 0;
      for (const ComposedView::Start& start : p.starts) {
        if (start.dim != int(d)) continue;
        const std::int64_t at =
            std::clamp<std::int64_t>(read_index(inputs[start.input], start.dtype), 0, start.limit);
        origin += at * start.scale;
        if (start.window) moved += at * start.scale;
      }
      const std::int64_t end = origin + p.sides[d].size;
      if (p.sides[d].has_window()) {
        s.low = std::max(s.low + moved, origin);
        s.high = std::min(s.high + moved, end);
      } else {
        s.low = origin;
        s.high = end;
      }
      base -= origin * s.stride;
      s.stride *= bytes_;
      sides_.push_back(s);
    }
    pieces_.back().base = inputs[p.input] + base * bytes_;
  }
}

/// Rows of fewer elements are made several at a time.
constexpr std::int64_t kShortViewRow = 16;

void ResolvedView::generate(std::int64_t begin, std::int64_t n, std::byte* out) const {
  const Dims& dims = view_.dims;
  const std::size_t rank = dims.size();
  const std::int64_t inner = rank == 0 ? 1 : dims[rank - 1];
  constexpr std::size_t kFew = 8;
  std::int64_t few[kFew];
  Dims many;
  if (rank > kFew) many.resize(rank);
  std::int64_t* at = rank > kFew ? many.data() : few;
  std::int64_t rest = begin;
  for (std::size_t d = rank; d-- > 0;) {
    at[d] = rest % dims[d];
    rest /= dims[d];
  }
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t first = rank == 0 ? 0 : at[rank - 1];
    if (rank >= 2 && inner <= kShortViewRow && first == 0) {
      const std::int64_t rows = std::min(dims[rank - 2] - at[rank - 2], (n - i) / inner);
      if (rows > 1) {
        short_rows(at, rows, out);
        i += rows * inner;
        out += rows * inner * bytes_;
        at[rank - 2] += rows - 1;
        advance(at);
        continue;
      }
    }
    const std::int64_t run = std::min(inner - first, n - i);
    if (fill_ != nullptr) copy_strided(fill_, 0, run, bytes_, out);
    for (const Piece& p : pieces_) {
      const Side* s = sides_.data() + p.sides;
      const std::byte* from = p.base;
      bool inside = true;
      for (std::size_t d = 0; d + 1 < rank; ++d) {
        inside = inside && at[d] >= s[d].low && at[d] < s[d].high;
        from += at[d] * s[d].stride;
      }
      if (!inside) continue;
      std::int64_t low = first, high = first + run, stride = 0;
      if (rank > 0) {
        low = std::max(low, s[rank - 1].low);
        high = std::min(high, s[rank - 1].high);
        stride = s[rank - 1].stride;
      }
      if (low >= high) continue;
      copy_strided(from + low * stride, stride / bytes_, high - low, bytes_,
                   out + (low - first) * bytes_);
    }
    i += run;
    out += run * bytes_;
    if (rank == 0) return;
    advance(at);
  }
}

void ResolvedView::advance(std::int64_t* at) const {
  at[view_.dims.size() - 1] = 0;
  for (std::size_t d = view_.dims.size() - 1; d-- > 0;) {
    if (++at[d] < view_.dims[d]) break;
    at[d] = 0;
  }
}

namespace {

/// out[i * to] = source[i * from], in elements.
template <class T>
void copy_column(const std::byte* source, std::int64_t from, std::int64_t n, std::int64_t to,
                 std::byte* out) {
  const T* s = reinterpret_cast<const T*>(source);
  T* o = reinterpret_cast<T*>(out);
  for (std::int64_t i = 0; i < n; ++i) o[i * to] = s[i * from];
}

}  // namespace

/// Whole rows, column by column.
void ResolvedView::short_rows(const std::int64_t* at, std::int64_t rows, std::byte* out) const {
  const std::size_t rank = view_.dims.size();
  const std::int64_t inner = view_.dims[rank - 1], first = at[rank - 2];
  if (fill_ != nullptr) copy_strided(fill_, 0, rows * inner, bytes_, out);
  for (const Piece& p : pieces_) {
    const Side* s = sides_.data() + p.sides;
    const std::byte* from = p.base;
    bool inside = true;
    for (std::size_t d = 0; d + 2 < rank; ++d) {
      inside = inside && at[d] >= s[d].low && at[d] < s[d].high;
      from += at[d] * s[d].stride;
    }
    const Side &row = s[rank - 2], &column = s[rank - 1];
    const std::int64_t low = std::max(first, row.low), high = std::min(first + rows, row.high);
    if (!inside || low >= high) continue;
    from += low * row.stride;
    std::byte* const to = out + (low - first) * inner * bytes_;
    for (std::int64_t c = std::max<std::int64_t>(column.low, 0); c < std::min(column.high, inner);
         ++c) {
      const auto copy = for_size(kOfEachSize, std::size_t(bytes_), [](auto tag) {
        return &copy_column<typename decltype(tag)::type>;
      });
      copy(from + c * column.stride, row.stride / bytes_, high - low, inner, to + c * bytes_);
    }
  }
}

namespace {

template <class T>
void strided(const std::byte* source, std::int64_t stride, std::int64_t n, std::byte* out) {
  const T* s = reinterpret_cast<const T*>(source);
  T* o = reinterpret_cast<T*>(out);
  if (stride == 0) {
    const T v = *s;
    for (std::int64_t i = 0; i < n; ++i) o[i] = v;
  } else {
    for (std::int64_t i = 0; i < n; ++i) o[i] = s[i * stride];
  }
}

}  // namespace

void copy_strided(const std::byte* source, std::int64_t stride, std::int64_t n, int bytes,
                  std::byte* out) {
  if (stride == 1) {
    std::memcpy(out, source, std::size_t(n * bytes));
    return;
  }
  for_size(kOfEachSize, std::size_t(bytes), [&](auto tag) {
    strided<typename decltype(tag)::type>(source, stride, n, out);
    return true;
  });
}

}  // namespace tessera::codegen
