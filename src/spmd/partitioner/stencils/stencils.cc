// SPDX-License-Identifier: Apache-2.0
// Puts the windows of regions into the program.
#include "src/spmd/partitioner/stencils/stencils.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/partitioner/stencils/loop_steps.h"
#include "src/spmd/partitioner/stencils/region.h"
#include "src/spmd/partitioner/stencils/window_rows.h"
#include "src/spmd/reshard/device_orders.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;
using ir::RowPart;
using ir::RowUse;
using stencils::layout_of;
using stencils::Node;
using stencils::Region;
using stencils::Stretch;
using stencils::Window;
using stencils::with_dim;

/// Puts windows of a region in the place of what they are of.
class Windows : public stencils::WindowRows {
 public:
  using WindowRows::WindowRows;

 private:
  // ----- arrays that are computed

  Instruction* computed(const Node& n, const Window& w) override {
    switch (n.use->kind) {
      case RowUse::Kind::alike:
        return as_blocks(alike(n, w), n.dim, layout_);
      case RowUse::Kind::moved:
      case RowUse::Kind::update:
        return moved(n, w);
      case RowUse::Kind::windows:
        return under_windows(n, w);
      case RowUse::Kind::grouped:
        return grouped(n, w);
    }
    TESSERA_CHECK(false, "a kind of use that isn't known");
  }

  Instruction* alike(const Node& n, const Window& w) {
    if (n.x->is(Opcode::iota) && n.x->get<ir::IotaAttrs>().dim == n.dim) return counted(n, w);
    if (n.x->is(Opcode::constant)) return constant(n, w);
    std::vector<Instruction*> operands = n.x->operands();
    for (const RowPart& p : n.use->parts) operands[p.operand] = flat_rows_of(p.array, w);
    return row_by_row(n, std::move(operands), w.rows() * region_.ways(), n.x->attrs);
  }

  /// The op on other rows of its operands.
  Instruction* row_by_row(const Node& n, std::vector<Instruction*> operands, std::int64_t rows,
                          ir::Attributes attrs) {
    if (auto* slice = attrs.edit_if<ir::SliceAttrs>()) {
      slice->starts[std::size_t(n.dim)] = 0;
      slice->limits[std::size_t(n.dim)] = rows;
      if (!slice->strides.empty()) slice->strides[std::size_t(n.dim)] = 1;
    }
    const Shape shape(n.x->shape.dtype, with_dim(n.x->shape.dims, n.dim, rows));
    Instruction* x =
        b_.emit_shaped(n.x->opcode, shape, std::move(operands), std::move(attrs), n.x->called());
    x->frontend_attributes = n.x->frontend_attributes;
    x->backend_config = n.x->backend_config;
    return flat(x, layout_);
  }

  TensorSharding line() const {
    TensorSharding s = TensorSharding::replicated_on(mesh_, 1);
    s.dims[0].axes = region_.axes();
    return s;
  }
  /// A number in the form [w, r].
  Instruction* everywhere(std::int64_t number, std::int64_t rows) {
    Instruction* scalar =
        laid_out(b_.scalar(DType::s32, double(number)), TensorSharding::replicated_on(mesh_, 0));
    return blocked(b_.splat(scalar, {region_.ways(), rows}), 0, line());
  }
  /// s32[w, r], the numbers of a window's rows.
  Instruction* row_numbers(std::int64_t lo, std::int64_t rows, std::int64_t block) {
    const Shape shape(DType::s32, {region_.ways(), rows});
    Instruction* x = blocked(
        b_.binary(Opcode::multiply, blocked(b_.iota(shape, 0), 0, line()), everywhere(block, rows)),
        0, line());
    x = blocked(b_.binary(Opcode::add, x, blocked(b_.iota(shape, 1), 0, line())), 0, line());
    if (lo == 0) return x;
    return blocked(b_.binary(Opcode::add, x, everywhere(lo, rows)), 0, line());
  }

  /// An iota along the rows.
  Instruction* counted(const Node& n, const Window& w) {
    const std::int64_t size = n.x->shape.dim(n.dim);
    Instruction* x = row_numbers(w.cyclic ? w.lo + size : w.lo, w.rows(), n.block);
    if (w.cyclic) {
      x = blocked(b_.binary(Opcode::remainder, x, everywhere(size, w.rows())), 0, line());
    }
    x = laid_out(b_.convert(as_rows(x, 0, line()), n.x->shape.dtype), line());
    const Dims all = with_dim(n.x->shape.dims, n.dim, w.rows() * region_.ways());
    return flat(b_.broadcast(x, all, {n.dim}), layout_);
  }

  Instruction* constant(const Node& n, const Window& w) {
    const Literal& from = n.x->get<ir::ConstantAttrs>().value;
    const Dims& dims = n.x->shape.dims;
    Literal to(Shape(from.dtype(), with_dim(dims, n.dim, w.rows() * region_.ways())));
    std::int64_t outer = 1, size = dims[std::size_t(n.dim)];
    for (std::int64_t d = 0; d < n.dim; ++d) outer *= dims[std::size_t(d)];
    const std::size_t row_bytes = from.byte_count() / std::size_t(outer * size);
    std::byte* out = to.mutable_bytes();
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < w.rows() * region_.ways(); ++i, out += row_bytes) {
        std::int64_t row = i / w.rows() * n.block + w.lo + i % w.rows();
        row = ((row % size) + size) % size;
        std::copy_n(from.bytes() + std::size_t(o * size + row) * row_bytes, row_bytes, out);
      }
    }
    return flat(b_.constant(std::move(to)), layout_);
  }

  /// Which devices have rows of a piece, as an array of that form.
  Instruction* mask(const std::vector<char>& mine, std::int64_t dim, const Dims& dims) {
    const std::int64_t w = region_.ways();
    std::int64_t first = 0, end = w;
    while (first < w && !mine[std::size_t(first)]) ++first;
    while (end > first && !mine[std::size_t(end) - 1]) --end;
    Instruction* is = nullptr;
    if (std::count(mine.begin(), mine.end(), 1) == end - first) {
      Instruction* c = laid_out(b_.iota(Shape(DType::s32, {w}), 0), line());
      auto test = [&](ir::Direction direction, std::int64_t bound) {
        Instruction* scalar =
            laid_out(b_.scalar(DType::s32, double(bound)), TensorSharding::replicated_on(mesh_, 0));
        Instruction* to = laid_out(b_.splat(scalar, {w}), line());
        Instruction* one = laid_out(b_.compare(direction, c, to), line());
        is = is ? laid_out(b_.binary(Opcode::and_, is, one), line()) : one;
      };
      if (first > 0) test(ir::Direction::ge, first);
      if (end < w) test(ir::Direction::lt, end);
    } else {
      Literal values(Shape(DType::pred, {w}));
      std::byte* data = values.mutable_bytes();
      for (std::int64_t c = 0; c < w; ++c) data[c] = std::byte(mine[std::size_t(c)]);
      is = laid_out(b_.constant(std::move(values)), line());
    }
    return blocked(b_.broadcast(is, dims, {dim}), dim, layout_);
  }

  /// Rows of a part, with what the op does along other dims.
  Instruction* piece(const Node& n, const stencils::Piece& from, const Stretch& s) {
    const RowPart& part = n.use->parts[from.part];
    const Window w = region_.taken_by(from, part, s);
    if (!part.is_shift()) return spread_or_picked(n, part, w, from.lo + s.begin, s.end - s.begin);
    const std::int64_t rows = w.rows() * region_.ways();
    if (n.x->is(Opcode::slice) && others_change(n, part)) {
      return as_blocks(row_by_row(n, {flat_rows_of(part.array, w)}, rows, n.x->attrs), n.dim,
                       layout_);
    }
    if (n.x->is(Opcode::pad) && others_change(n, part)) {
      ir::PadAttrs by = n.x->get<ir::PadAttrs>();
      by.dims[std::size_t(n.dim)] = {};
      return as_blocks(row_by_row(n, {flat_rows_of(part.array, w), n.x->operands()[1]}, rows, by),
                       n.dim, layout_);
    }
    if (n.use->kind == RowUse::Kind::update && from.part == 1 && others_change(n, part)) {
      std::vector<Instruction*> operands = n.x->operands();
      operands[0] =
          flat_rows_of(n.use->parts[0].array, {updated_.lo + s.begin, updated_.lo + s.end, false});
      operands[1] = flat_rows_of(part.array, w);
      operands[2 + std::size_t(n.dim)] =
          laid_out(b_.zero(operands[2 + std::size_t(n.dim)]->shape.dtype),
                   TensorSharding::replicated_on(mesh_, 0));
      return as_blocks(row_by_row(n, std::move(operands), rows, n.x->attrs), n.dim, layout_);
    }
    Instruction* x = rows_of(part.array, w);
    // Of another dim, where rows are repeated.
    if (part.dim == n.dim && x->shape.rank() == n.x->shape.rank() + 1) return x;
    return as_blocks(
        flat(b_.reshape(flat_rows_of(part.array, w), with_dim(n.x->shape.dims, n.dim, rows)),
             layout_),
        n.dim, layout_);
  }
  /// Every so many rows of a window of the part, or these with padding in between: rows
  /// [begin, begin + count) of the result.
  Instruction* spread_or_picked(const Node& n, const RowPart& part, const Window& w,
                                std::int64_t begin, std::int64_t count) {
    if (w.lo >= w.hi) return padding(n, count);
    Instruction* x = rows_of(part.array, w);
    if (part.spread > 1) {
      std::vector<ir::PadDim> by(x->shape.dims.size());
      const std::int64_t low = w.lo * part.spread - part.offset - begin;
      const std::int64_t high = count - low - ((w.rows() - 1) * part.spread + 1);
      by[std::size_t(part.dim) + 1] = {low, high, part.spread - 1};
      x = b_.pad(x, n.x->operands()[1], by);
    } else {
      Dims starts(x->shape.dims.size(), 0), strides(x->shape.dims.size(), 1);
      strides[std::size_t(part.dim) + 1] = part.stride;
      x = b_.slice(x, starts, x->shape.dims, strides);
    }
    TensorSharding s = layout_;
    x = blocked(x, n.dim, s);
    if (!others_change(n, part)) return x;
    ir::Attributes attrs = n.x->attrs;
    std::vector<Instruction*> operands = n.x->operands();
    operands[0] = as_rows(x, n.dim, s);
    if (auto* by = attrs.edit_if<ir::PadAttrs>()) by->dims[std::size_t(n.dim)] = {};
    return as_blocks(row_by_row(n, std::move(operands), count * region_.ways(), std::move(attrs)),
                     n.dim, layout_);
  }

  /// The op does something along other dims, too.
  static bool others_change(const Node& n, const RowPart& part) {
    if (const auto* pad = n.x->attrs.get_if<ir::PadAttrs>()) {
      // Even where as many rows are cut as are put in.
      for (std::size_t d = 0; d < pad->dims.size(); ++d) {
        if (std::int64_t(d) != n.dim && !(pad->dims[d] == ir::PadDim{})) return true;
      }
    }
    if (const auto* slice = n.x->attrs.get_if<ir::SliceAttrs>()) {
      for (std::size_t d = 0; d < slice->strides.size(); ++d) {
        if (std::int64_t(d) != n.dim && slice->strides[d] != 1) return true;
      }
    }
    const Dims& from = part.array->shape.dims;
    return with_dim(from, part.dim, 1) != with_dim(n.x->shape.dims, n.dim, 1);
  }

  Instruction* padding(const Node& n, std::int64_t rows) {
    Dims dims = with_dim(n.x->shape.dims, n.dim, region_.ways());
    dims.insert(dims.begin() + n.dim + 1, rows);
    Instruction* fill = n.x->is(Opcode::pad) ? n.x->operands()[1] : zero(n.x->shape.dtype);
    return blocked(b_.splat(fill, dims), n.dim, layout_);
  }

  /// What an op puts into padding, or into another array: a choice between rows of both.
  Instruction* put_into(const Node& n, const Window& w, const stencils::Composition& c) {
    const std::size_t top = c.pieces.size() - 1;
    const Stretch all{0, w.rows(), {}};
    const RowPart& part = n.use->parts[top];
    if (top == 1) updated_ = {c.pieces[0].lo, 0, false};
    Instruction* on = piece(n, c.pieces[top], all);
    Instruction* off = top == 1 ? piece(n, c.pieces[0], all) : padding(n, w.rows());
    Instruction* row = row_numbers(w.lo, w.rows(), n.block);
    Instruction* is = nullptr;
    auto test = [&](ir::Direction direction, std::int64_t bound) {
      Instruction* one =
          blocked(b_.compare(direction, row, everywhere(bound, w.rows())), 0, line());
      is = is ? blocked(b_.binary(Opcode::and_, is, one), 0, line()) : one;
    };
    if (part.begin > 0) test(ir::Direction::ge, part.begin);
    if (part.end < n.x->shape.dim(n.dim)) test(ir::Direction::lt, part.end);
    is = blocked(b_.broadcast(is, on->shape.dims, {n.dim, n.dim + 1}), n.dim, layout_);
    return blocked(b_.select(is, on, off), n.dim, layout_);
  }

  Instruction* moved(const Node& n, const Window& w) {
    const stencils::Composition c = region_.composition(n, w);
    if (c.whole) return put_into(n, w, c);
    return put_together(
        c, n.dim,
        [&](int choice, const Stretch& s) {
          const stencils::Piece& from = c.pieces[std::size_t(choice)];
          if (n.use->kind == RowUse::Kind::update && from.part == 1) {
            updated_ = {c.pieces[std::size_t(choice) - 1].lo, 0, false};
          }
          return piece(n, from, s);
        },
        [&](std::int64_t rows) { return padding(n, rows); });
  }

  /// Rows of a window, and those before them, as one slice.
  void join_slices(std::vector<Instruction*>* parts, std::int64_t dim) {
    if (parts->size() < 2) return;
    Instruction *a = (*parts)[parts->size() - 2], *b = parts->back();
    if (!a->is(Opcode::slice) || !b->is(Opcode::slice) || a->operand(0) != b->operand(0)) return;
    const auto &x = a->get<ir::SliceAttrs>(), &y = b->get<ir::SliceAttrs>();
    const auto d = std::size_t(dim) + 1;
    if (x.limits[d] != y.starts[d]) return;
    for (std::size_t k = 0; k < x.starts.size(); ++k) {
      const bool strided =
          (!x.strides.empty() && x.strides[k] != 1) || (!y.strides.empty() && y.strides[k] != 1);
      if (strided) return;
      if (k != d && (x.starts[k] != y.starts[k] || x.limits[k] != y.limits[k])) return;
    }
    parts->pop_back();
    parts->back() = blocked(cut(a->operands()[0], dim + 1, x.starts[d], y.limits[d]), dim, layout_);
  }

  template <class Piece, class Padding>
  Instruction* put_together(const stencils::Composition& c, std::int64_t dim, Piece&& piece_of,
                            Padding&& padding_of) {
    std::vector<Instruction*> stretches;
    for (const Stretch& s : c.stretches) {
      Instruction* x = nullptr;
      Instruction* same = nullptr;
      std::set<int> choices;
      for_equal<1>({&s.choice},
                   [&](std::int64_t, std::int64_t, const auto& v) { choices.insert(int(v[0])); });
      for (const int choice : choices) {
        if (choice == Stretch::kAny) continue;
        Instruction* rows =
            choice == Stretch::kPadding ? padding_of(s.end - s.begin) : piece_of(choice, s);
        if (!x) {
          x = same = rows;
          continue;
        }
        if (rows == same) continue;
        std::vector<char> mine;
        for_equal<1>({&s.choice}, [&](std::int64_t, std::int64_t count, const auto& v) {
          mine.insert(mine.end(), std::size_t(count), v[0] == choice ? 1 : 0);
        });
        x = blocked(b_.select(mask(mine, dim, x->shape.dims), rows, x), dim, layout_);
        same = nullptr;
      }
      stretches.push_back(x ? x : padding_of(s.end - s.begin));
      join_slices(&stretches, dim);
    }
    return blocked(joined(stretches, dim + 1), dim, layout_);
  }

  // ----- windows, and rows that are put together or taken apart

  /// A reshape of other rows.
  Instruction* grouped(const Node& n, const Window& w) {
    const RowPart& part = n.use->parts.front();
    const Window from{part.first_of(w.lo), part.end_of(w.hi), w.cyclic};
    const std::int64_t rows = from.rows() * part.spread / part.stride;
    const std::int64_t begin = from.lo * part.spread / part.stride;
    Instruction* x = flat_rows_of(part.array, from);
    x = flat(b_.reshape(x, with_dim(n.x->shape.dims, n.dim, rows * region_.ways())), layout_);
    return blocked(cut(as_blocks(x, n.dim, layout_), n.dim + 1, w.lo - begin, w.hi - begin), n.dim,
                   layout_);
  }

  /// What windows see, with what stands for rows that the array doesn't have, as [w, r].
  Instruction* seen_by_windows(const Node& n, const Window& from, Instruction* fill) {
    const RowPart& part = n.use->parts.front();
    const Node& of = *region_.find(part.array);
    Instruction* all = rows_of(part.array, from);
    if (region_.has_padding(n)) return all;
    const stencils::Composition c = region_.padded(n, from);
    const TensorSharding layout = layout_;
    at(of);
    b_.metadata = n.x->metadata;
    Instruction* x = put_together(
        c, of.dim,
        [&](int, const Stretch& s) {
          return blocked(cut(all, of.dim + 1, s.begin, s.end), of.dim, layout_);
        },
        [&](std::int64_t rows) {
          Dims dims = with_dim(of.x->shape.dims, of.dim, region_.ways());
          dims.insert(dims.begin() + of.dim + 1, rows);
          return blocked(b_.splat(fill, dims), of.dim, layout_);
        });
    now_ = &n;
    layout_ = layout;
    return x;
  }

  /// The window along the rows of [w, r].
  static ir::WindowDim along_rows(const ir::WindowDim& w, const RowPart& part, const Window& to,
                                  const Window& from) {
    ir::WindowDim out = w;
    const std::int64_t first = to.lo * part.stride + part.offset;
    const std::int64_t needed = (to.rows() - 1) * part.stride + part.extent;
    out.pad_low = from.lo * part.spread - first;
    out.pad_high = needed - out.pad_low - ((from.rows() - 1) * part.spread + 1);
    return out;
  }

  Instruction* under_windows(const Node& n, const Window& w) {
    const RowPart& part = n.use->parts.front();
    const Window from{part.first_of(w.lo), part.end_of(w.hi), false};
    if (n.x->is(Opcode::reduce_window)) {
      Instruction* x = seen_by_windows(n, from, n.x->operands()[1]);
      ir::WindowAttrs attrs = n.x->get<ir::WindowAttrs>();
      ir::WindowDim& rows = attrs.dims[std::size_t(n.dim)];
      rows = along_rows(rows, part, w, from);
      attrs.dims.insert(attrs.dims.begin() + n.dim, ir::WindowDim{});
      return blocked(b_.emit(Opcode::reduce_window, {x, n.x->operands()[1]}, attrs, n.x->called()),
                     n.dim, layout_);
    }
    Instruction* x = seen_by_windows(n, from, zero(n.x->operand(0)->shape.dtype));
    // Which device it is, is one more dim along which the kernel has one element.
    ir::ConvolutionAttrs attrs = n.x->get<ir::ConvolutionAttrs>();
    for (std::size_t s = 0; s < attrs.window.size(); ++s) {
      if (attrs.output_spatial[s] != n.dim) continue;
      attrs.window[s] = along_rows(attrs.window[s], part, w, from);
    }
    const auto behind = [](std::int64_t* d, std::int64_t dim) { *d += *d >= dim ? 1 : 0; };
    for (std::int64_t* d : {&attrs.input_batch, &attrs.input_feature}) behind(d, part.dim);
    for (std::int64_t* d : {&attrs.output_batch, &attrs.output_feature}) behind(d, n.dim);
    for (std::int64_t& d : attrs.input_spatial) behind(&d, part.dim);
    for (std::int64_t& d : attrs.output_spatial) behind(&d, n.dim);
    attrs.input_spatial.push_back(part.dim);
    attrs.output_spatial.push_back(n.dim);
    Instruction* kernel = n.x->operands()[1];
    attrs.kernel_spatial.push_back(kernel->shape.rank());
    attrs.window.emplace_back();
    Dims dims = kernel->shape.dims;
    dims.push_back(1);
    TensorSharding of_kernel =
        layout_of(*kernel, mesh_)
            .value_or(TensorSharding::replicated_on(mesh_, kernel->shape.rank()));
    of_kernel.dims.emplace_back();
    kernel = laid_out(b_.reshape(kernel, dims), of_kernel);
    const Shape shape(n.x->shape.dtype, [&] {
      Dims out = with_dim(n.x->shape.dims, n.dim, w.rows());
      out.insert(out.begin() + n.dim, region_.ways());
      return out;
    }());
    Instruction* made = b_.emit_shaped(Opcode::convolution, shape, {x, kernel}, attrs);
    made->frontend_attributes = n.x->frontend_attributes;
    made->backend_config = n.x->backend_config;
    return blocked(made, n.dim, layout_);
  }

  Window updated_;  ///< of what an update changes: where its rows begin
};

bool may_move_rows(const Instruction& x) {
  return x.is(Opcode::slice) || x.is(Opcode::pad) || x.is(Opcode::concatenate) ||
         x.is(Opcode::dynamic_update_slice) || x.is(Opcode::reduce_window) ||
         x.is(Opcode::convolution);
}

}  // namespace

namespace {

bool is_split(const Instruction& x, std::int64_t dim) {
  if (!x.has_sharding() || x.sharding.front().kind != TensorSharding::Kind::axes) return false;
  const TensorSharding& s = x.sharding.front();
  return dim < s.rank() && s.shards(dim) > 1;
}

/// Along a dim that is split, before or after.
bool moves_split_rows(const Instruction& x) {
  const Instruction& from = *x.operand(0);
  const auto split = [&](std::int64_t in, std::int64_t out) {
    return is_split(from, in) || is_split(x, out);
  };
  if (const auto* c = x.attrs.get_if<ir::ConvolutionAttrs>()) {
    for (std::size_t s = 0; s < c->window.size(); ++s) {
      if (split(c->input_spatial[s], c->output_spatial[s])) return true;
    }
    return false;
  }
  for (std::int64_t d = 0; x.shape.is_array() && d < x.shape.rank(); ++d) {
    const auto k = std::size_t(d);
    bool moves = from.shape.dims[k] != x.shape.dims[k];
    if (const auto* p = x.attrs.get_if<ir::PadAttrs>()) moves = !(p->dims[k] == ir::PadDim{});
    if (const auto* w = x.attrs.get_if<ir::WindowAttrs>()) {
      moves = !(w->dims[k] == ir::WindowDim{});
    }
    if (x.is(Opcode::dynamic_update_slice)) moves = x.operand(1)->shape.dims[k] != x.shape.dims[k];
    if (moves && split(d, d)) return true;
  }
  return false;
}

}  // namespace

bool may_have_stencils(const ir::Module& module) {
  for (const ir::Computation* c : ir::device_computations(module)) {
    for (const auto& i : c->instructions()) {
      if (may_move_rows(*i) && moves_split_rows(*i)) return true;
    }
  }
  return false;
}

namespace {

/// Along a dim of what is in a computation. `steps`: of a loop; `whole`: where it isn't split.
std::size_t expand_along(ir::Computation* c, std::int64_t dim, bool whole,
                         const stencils::Steps* steps, const MeshRef& mesh,
                         const cost::Machine& machine, Origins* origins) {
  std::unordered_set<const Instruction*> made, tried;
  std::size_t count = 0;
  for (std::size_t i = 0; i < c->instructions().size(); ++i) {
    Instruction* seed = c->instructions()[i].get();
    if (!may_move_rows(*seed) || dim >= seed->shape.rank() || made.count(seed) ||
        tried.count(seed) || (whole && seed->shape.byte_count() < steps->large_bytes)) {
      continue;
    }
    const auto use = ir::row_use(*seed, dim);
    if (!use || !use->moves_rows()) continue;
    Region region(seed, dim, mesh, machine, layout_of, whole);
    for (const Node& n : region.nodes()) tried.insert(n.x);
    if (!region.pays(steps != nullptr)) continue;
    Windows(region, c, mesh, origins, &made).emit();
    c->sort_topologically();
    c->remove_dead();
    ++count;
    i = std::size_t(-1);  // the list is another one
    std::unordered_set<const Instruction*> left;
    for (const auto& x : c->instructions()) left.insert(x.get());
    for (auto* set : {&made, &tried}) {
      std::erase_if(*set, [&](const Instruction* x) { return left.count(x) == 0; });
    }
  }
  return count;
}

/// More dims than these are looked at by nobody.
constexpr std::int64_t kMostDims = 8;

}  // namespace

std::size_t expand_stencils(ir::Module* module, const PartitionOptions& options, Origins* origins) {
  if (!module->mesh) return 0;
  const MeshRef mesh = refine_to_primes(module->mesh);
  const std::vector<stencils::Steps> loops = stencils::unroll_loops(module, options, origins);
  std::size_t count = 0;
  for (ir::Computation* c : ir::device_computations(*module)) {
    const auto steps = std::find_if(loops.begin(), loops.end(),
                                    [c](const stencils::Steps& l) { return l.body == c; });
    const stencils::Steps* of_loop = steps == loops.end() ? nullptr : &*steps;
    for (std::int64_t dim = 0; dim < kMostDims; ++dim) {
      count += expand_along(c, dim, false, of_loop, mesh, options.machine, origins);
    }
  }
  for (const stencils::Steps& l : loops) {
    count += expand_along(l.body, 0, true, &l, mesh, options.machine, origins);
  }
  return count;
}

std::size_t tile_stencil_loops(ir::Module* module, const PartitionOptions& options) {
  const std::vector<stencils::Steps> loops = stencils::unroll_loops(module, options, nullptr);
  if (loops.empty()) return 0;
  const MeshRef mesh = make_logical_mesh({{"device", 1}});
  Origins origins;
  for (const stencils::Steps& l : loops) {
    for (const auto& i : l.body->instructions()) origins[i.get()] = i.get();
    expand_along(l.body, 0, true, &l, mesh, options.machine, &origins);
    for (const auto& i : l.body->instructions()) i->sharding.clear();
  }
  return loops.size();
}

}  // namespace tessera::spmd
