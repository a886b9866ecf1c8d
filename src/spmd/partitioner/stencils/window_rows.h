// SPDX-License-Identifier: Apache-2.0
// The rows of a region's arrays on each device: forms in which arrays are had, rows of neighbours
// that are fetched, and windows of what others made.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/stencils/region.h"
#include "src/spmd/reshard/device_orders.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::stencils {

using ir::Instruction;
using ir::Opcode;

inline std::optional<TensorSharding> layout_of(const Instruction& x, const MeshRef& mesh) {
  if (!x.shape.is_array()) return std::nullopt;
  if (x.sharding.empty()) return TensorSharding::replicated_on(mesh, x.shape.rank());
  const TensorSharding& s = x.sharding.front();
  if (s.kind != TensorSharding::Kind::axes || s.is_manual()) return std::nullopt;
  if (!s.mesh) return TensorSharding::replicated_on(mesh, x.shape.rank());
  if (!representable_on(s, mesh)) return std::nullopt;
  return s.on(mesh);
}

inline Dims with_dim(Dims dims, std::int64_t d, std::int64_t size) {
  dims[std::size_t(d)] = size;
  return dims;
}

/// Arrays are had in two forms: with a dim of w r rows, or with dims [w, r].
class WindowRows {
 public:
  WindowRows(const Region& region, ir::Computation* computation, MeshRef mesh, Origins* origins,
             std::unordered_set<const Instruction*>* made)
      : region_(region),
        b_(computation),
        mesh_(std::move(mesh)),
        origins_(origins),
        made_(made),
        before_(std::int64_t(computation->instructions().size())) {}

  virtual ~WindowRows() = default;
  WindowRows(const WindowRows&) = delete;
  WindowRows& operator=(const WindowRows&) = delete;

  void emit() {
    std::vector<std::pair<Instruction*, Instruction*>> plain;
    for (const Node& n : region_.nodes()) {
      at(n);
      if (n.computed) {
        for (const Window& w : n.windows) blocks_[key(n, w)] = computed(n, w);
        if (n.wanted || n.cut) plain.emplace_back(n.x, plainly(n));
      }
    }
    for (const auto& [from, to] : plain) from->replace_all_uses_with(to);
  }

 protected:
  /// A window of what the region computes.
  virtual Instruction* computed(const Node& n, const Window& w) = 0;

  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>;
  static Key key(const Node& n, const Window& w) { return {n.x->index, w.lo, w.hi, w.cyclic}; }

  // ----- what is made is laid out as the region is

  void at(const Node& n) {
    now_ = &n;
    b_.metadata = n.x->metadata;
    layout_ = layout_of(*n.x, mesh_).value_or(TensorSharding::replicated_on(mesh_, 0));
    layout_.unreduced.clear();
    layout_.replicated.clear();
    layout_.dims.resize(std::size_t(n.x->shape.rank()));
    for (DimSharding& d : layout_.dims) {
      // A dim that has some of the region's axes is left unsplit.
      const bool has_some = std::any_of(d.axes.begin(), d.axes.end(),
                                        [&](int a) { return contains(region_.axes(), a); });
      if (has_some) d.axes = {};
      d.open = false;
    }
    layout_.dims[std::size_t(n.dim)].axes = region_.axes();
  }

  Instruction* laid_out(Instruction* x, const TensorSharding& s) {
    // What was there stays as it is.
    if (x->index < before_ || !made_->insert(x).second) return x;
    x->sharding = {s};
    (*origins_)[x] = origins_->at(now_->x);
    return x;
  }
  /// Of a form with the dims [w, r] at `dim` and of one with w r rows.
  Instruction* blocked(Instruction* x, std::int64_t dim, TensorSharding s) {
    s.dims.insert(s.dims.begin() + dim + 1, DimSharding{});
    return laid_out(x, s);
  }
  Instruction* flat(Instruction* x, const TensorSharding& s) { return laid_out(x, s); }

  /// A reshape, or what was reshaped to this.
  Instruction* seen_as(Instruction* x, const Dims& dims) {
    const bool back =
        made_->count(x) && x->is(Opcode::reshape) && x->operand(0)->shape.dims == dims;
    return back ? x->operands()[0] : b_.reshape(x, dims);
  }
  Instruction* as_blocks(Instruction* x, std::int64_t dim, const TensorSharding& s) {
    Dims dims = x->shape.dims;
    const std::int64_t rows = dims[std::size_t(dim)] / region_.ways();
    dims[std::size_t(dim)] = region_.ways();
    dims.insert(dims.begin() + dim + 1, rows);
    return blocked(seen_as(x, dims), dim, s);
  }
  Instruction* as_rows(Instruction* x, std::int64_t dim, const TensorSharding& s) {
    Dims dims = x->shape.dims;
    dims[std::size_t(dim)] *= dims[std::size_t(dim) + 1];
    dims.erase(dims.begin() + dim + 1);
    return flat(seen_as(x, dims), s);
  }
  Instruction* cut(Instruction* x, std::int64_t d, std::int64_t begin, std::int64_t end) {
    if (begin == 0 && end == x->shape.dim(d)) return x;
    Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
    starts[std::size_t(d)] = begin;
    limits[std::size_t(d)] = end;
    return b_.slice(x, starts, limits);
  }
  Instruction* joined(const std::vector<Instruction*>& parts, std::int64_t d) {
    return parts.size() == 1 ? parts.front() : b_.concatenate(parts, d);
  }
  Instruction* padded(Instruction* x, Instruction* fill, std::int64_t d, ir::PadDim by) {
    std::vector<ir::PadDim> dims(x->shape.dims.size());
    dims[std::size_t(d)] = by;
    return b_.pad(x, fill, dims);
  }
  Instruction* zero(DType dtype) {
    return laid_out(b_.zero(dtype), TensorSharding::replicated_on(mesh_, 0));
  }

  // ----- arrays that are there

  /// The blocks of an array as those of the devices before or behind, by `step`.
  Instruction* shifted(Instruction* x, std::int64_t dim, std::int64_t step, bool cyclic,
                       const TensorSharding& s) {
    const std::int64_t w = region_.ways();
    if (w == 1 && cyclic) return x;
    if (!cyclic) {
      return blocked(padded(x, zero(x->shape.dtype), dim, {step, -step, 0}), dim, s);
    }
    const std::int64_t at = step > 0 ? w - step : -step;
    Instruction* last = blocked(cut(x, dim, at, w), dim, s);
    Instruction* first = blocked(cut(x, dim, 0, at), dim, s);
    return blocked(b_.concatenate({last, first}, dim), dim, s);
  }

  /// The window of a plain array.
  Instruction* fetched(const Node& n, Instruction* x, const Window& w, const TensorSharding& s) {
    const std::int64_t block = n.block, size = block * region_.ways(), d = n.dim;
    if (x->shape.dim(d) < size) {
      x = flat(padded(x, zero(x->shape.dtype), d, {0, size - x->shape.dim(d), 0}), s);
    }
    x = as_blocks(x, d, s);
    std::vector<Instruction*> parts;
    for (std::int64_t hop = floor_div(w.lo, block); hop * block < w.hi; ++hop) {
      const std::int64_t begin = std::max<std::int64_t>(w.lo - hop * block, 0);
      const std::int64_t end = std::min(w.hi - hop * block, block);
      Instruction* rows = blocked(cut(x, d + 1, begin, end), d, s);
      parts.push_back(hop == 0 ? rows : shifted(rows, d, -hop, w.cyclic, s));
    }
    return blocked(joined(parts, d + 1), d, s);
  }

  /// Rows of an array on each device, as [w, r].
  Instruction* rows_of(const Instruction* x, Window w) {
    const Node& n = *region_.find(x);
    Instruction*& out = rows_[key(n, w)];
    if (out) return out;
    const auto clipped = region_.valid(n, w);
    // Rows of this part that nobody has aren't looked at.
    const Window has = clipped.value_or(Window{w.lo, w.lo, false});
    Instruction* all = nullptr;
    std::int64_t begin = 0;
    const Node* before = now_;
    const TensorSharding layout = layout_;
    at(n);
    if (!clipped) {
      Dims dims = with_dim(n.x->shape.dims, n.dim, region_.ways());
      dims.insert(dims.begin() + n.dim + 1, w.rows());
      Instruction* nothing = blocked(b_.splat(zero(n.x->shape.dtype), dims), n.dim, layout_);
      now_ = before;
      layout_ = layout;
      b_.metadata = now_->x->metadata;
      return rows_[key(n, w)] = nothing;
    }
    if (n.plain && n.taken && (!n.computed || n.cut)) {
      auto& taken = taken_[n.x->index];
      Instruction* source = n.cut ? plainly(n) : n.x;
      if (!taken) taken = fetched(n, source, *n.taken, layout_);
      all = taken;
      begin = n.taken->lo;
    } else {
      for (const Window& window : n.windows) {
        if (!window.has(has) || (!n.plain && window.cyclic != has.cyclic)) continue;
        all = blocks_.at(key(n, window));
        begin = window.lo;
        break;
      }
    }
    TESSERA_CHECK(all, "rows [" + std::to_string(w.lo) + ", " + std::to_string(w.hi) + ") of " +
                           n.x->describe() + " for " + before->x->name + ", that no window has");
    // The same rows may have been asked for as those of the other end.
    Instruction*& same = cuts_[{all, has.lo - begin, has.hi - begin}];
    if (!same) {
      same = blocked(cut(all, n.dim + 1, has.lo - begin, has.hi - begin), n.dim, layout_);
    }
    Instruction* taken = same;
    const std::int64_t moved = n.plain ? 0 : has.lo - w.lo;
    if (has.rows() < w.rows()) {
      taken = blocked(padded(taken, zero(taken->shape.dtype), n.dim + 1,
                             {moved, w.rows() - has.rows() - moved, 0}),
                      n.dim, layout_);
    }
    now_ = before;
    layout_ = layout;
    b_.metadata = now_->x->metadata;
    return rows_[key(n, w)] = taken;
  }
  Instruction* flat_rows_of(const Instruction* x, const Window& w) {
    const Node& n = *region_.find(x);
    Instruction*& out = flat_[key(n, w)];
    if (out) return out;
    Instruction* blocks = rows_of(x, w);
    TensorSharding s = blocks->sharding.front();
    s.dims.erase(s.dims.begin() + n.dim + 1);
    return flat_[key(n, w)] = as_rows(blocks, n.dim, s);
  }

  /// An array as the rest of the program has it.
  Instruction* plainly(const Node& n) {
    Instruction*& out = plain_[n.x->index];
    if (out) return out;
    // Of a few rows no device has a block.
    const Window own = region_.valid(n, {0, n.block, false}).value_or(Window{});
    Instruction* x = nullptr;
    for (const Window& w : n.windows) {
      if (w.has(own)) {
        x = blocked(cut(blocks_.at(key(n, w)), n.dim + 1, -w.lo, own.hi - w.lo), n.dim, layout_);
      }
    }
    TESSERA_CHECK(x, "no window of " + n.x->describe() + " has its own rows");
    x = as_rows(x, n.dim, layout_);
    x = flat(cut(x, n.dim, 0, n.x->shape.dim(n.dim)), layout_);
    // A result of the program is where it is said to be.
    if (n.x->parent->root() == n.x) {
      if (x->index < before_) x = flat(b_.unary(Opcode::copy, x), layout_);
      x->sharding = n.x->sharding;
    }
    return out = x;
  }

  const Region& region_;
  ir::Builder b_;
  MeshRef mesh_;
  Origins* origins_;
  std::unordered_set<const Instruction*>* made_;
  std::int64_t before_;        ///< instructions that were there
  const Node* now_ = nullptr;  ///< what is being made
  TensorSharding layout_;      ///< of it, with w r rows
  std::map<Key, Instruction*> blocks_, rows_, flat_;
  /// Looked up, never walked.
  std::map<std::tuple<const Instruction*, std::int64_t, std::int64_t>, Instruction*> cuts_;
  std::map<std::int64_t, Instruction*> taken_, plain_;
};

}  // namespace tessera::spmd::stencils
