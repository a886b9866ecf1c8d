// SPDX-License-Identifier: Apache-2.0
// A scatter of one window to a place that the program's text names, as `a.at[1:-1, 1:-1].add(b)`
// is, or to every so many elements, as `a.at[::2, 1::2].set(b)`, is an elementwise op with the
// padded window: computed where the array is, from halos.
#include "src/passes/indexed/expand_window_scatters.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "src/base/contains.h"
#include "src/ir/analysis/affine_numbers.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of the array, what the window covers at least: each element is written, not the window alone.
constexpr std::int64_t kLeastShare = 8;

/// What is computed at places outside of the window, too, to save a pass: the window covers so
/// much.
constexpr double kMostlyCovered = 0.8;
constexpr int kDeepest = 64;

/// Where the updates are: every so many elements, and around them, to the array's edges.
struct Grid {
  Dims order;  ///< by dim of the array: which one of the updates; -1: they lack it
  Dims sizes;  ///< with the dims that the updates lack
  std::vector<ir::PadDim> around;

  bool is_window() const {
    return std::all_of(around.begin(), around.end(),
                       [](const ir::PadDim& p) { return p.interior == 0; });
  }
};

std::optional<Grid> grid_of(const Instruction& scatter) {
  if (scatter.operands().size() != 3) return std::nullopt;
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  if (!dims.batching.empty()) return std::nullopt;
  const Dims &array = scatter.operand(0)->shape.dims, &update = scatter.operand(2)->shape.dims;
  const Instruction& indices = *scatter.operand(1);
  Grid g{Dims(), dims.sizes, std::vector<ir::PadDim>(array.size())};
  std::vector<bool> used(update.size(), false);
  bool partial = false;
  for (std::size_t d = 0; d < array.size(); ++d) {
    const auto dim = std::int64_t(d);
    g.order.push_back(dims.in_other(dim));
    const bool inserted = g.order[d] < 0;
    const Dims& named = dims.mapped;
    const auto at = std::find(named.begin(), named.end(), dim);
    std::int64_t low = 0, interior = 0;
    if (at != named.end()) {
      const auto n = ir::affine_component(indices, dims.vector_dim, at - named.begin());
      if (!n) return std::nullopt;
      low = n->base;
      for (std::size_t p = 0; p < dims.batch.size(); ++p) {
        if (n->strides[p] == 0) continue;
        if (!inserted || n->strides[p] < 0 || interior != 0 || g.order[d] >= 0) return std::nullopt;
        g.order[d] = dims.batch[p];
        g.sizes[d] = update[std::size_t(g.order[d])];
        interior = n->strides[p] - 1;
      }
    }
    if (g.order[d] >= 0) {
      if (used[std::size_t(g.order[d])]) return std::nullopt;
      used[std::size_t(g.order[d])] = true;
    }
    if (g.sizes[d] == 0) return std::nullopt;
    const std::int64_t covered = (g.sizes[d] - 1) * (interior + 1) + 1;
    // One that leaves the array is dropped whole: left to who knows that.
    if (low < 0 || low > array[d] - covered) return std::nullopt;
    // Updates of full rows are sharded as the array.
    partial = partial || interior > 0 || (!inserted && g.sizes[d] < array[d]);
    g.around[d] = {low, array[d] - covered - low, interior};
  }
  // Index vectors along a dim that none of them counts are all the same place.
  for (std::size_t d = 0; d < update.size(); ++d) {
    if (!used[d] && update[d] != 1) return std::nullopt;
  }
  const std::int64_t covered = scatter.operand(2)->shape.element_count();
  if (!partial || covered * kLeastShare < scatter.operand(0)->shape.element_count()) {
    return std::nullopt;
  }
  return g;
}

/// The updates with the array's dims, in its order.
Instruction* in_order(ir::Builder& b, const Instruction& scatter, const Grid& g) {
  Dims perm;
  for (const std::int64_t d : g.order) {
    if (d >= 0) perm.push_back(d);
  }
  Instruction* updates = scatter.operands()[2];
  for (std::int64_t d = 0; d < updates->shape.rank(); ++d) {
    if (!contains(perm, d)) perm.push_back(d);  // of one element
  }
  if (!std::is_sorted(perm.begin(), perm.end())) updates = b.transpose(updates, perm);
  return updates->shape.dims == g.sizes ? updates : b.reshape(updates, g.sizes);
}

bool divides_integers(const Instruction& x) {
  return (x.is(Opcode::divide) || x.is(Opcode::remainder)) && !is_floating(x.shape.dtype);
}

/// An array that has at the places of the grid what `x` has, and anything elsewhere. Elementwise
/// ops on slices become such ops on whole arrays, moved.
Instruction* spread(ir::Builder& b, Instruction* x, const Grid& g, const Dims& dims, int depth,
                    std::unordered_map<Instruction*, Instruction*>* known) {
  Instruction*& out = (*known)[x];
  if (out) return out;
  Instruction* made = nullptr;
  if (x->is(Opcode::slice)) {
    const auto& attrs = x->get<ir::SliceAttrs>();
    Instruction* from = x->operands()[0];
    std::vector<ir::PadDim> by(dims.size());
    bool moves = false, fits = true;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const std::int64_t stride = attrs.strides.empty() ? 1 : attrs.strides[d];
      fits = fits && (stride == g.around[d].interior + 1 || g.sizes[d] == 1);
      by[d].low = g.around[d].low - attrs.starts[d];
      by[d].high = dims[d] - from->shape.dims[d] - by[d].low;
      moves = moves || by[d].low != 0 || by[d].high != 0;
    }
    if (fits) made = moves ? b.pad(from, b.zero(x->shape.dtype), by) : from;
  } else if (x->is(Opcode::broadcast) && x->operand(0)->shape.rank() == 0) {
    made = b.splat(x->operands()[0], dims);
  } else if (depth < kDeepest && g.is_window() && ir::is_elementwise(x->opcode) &&
             !x->is(Opcode::bitcast_convert) && !divides_integers(*x) && !x->has_side_effect() &&
             !x->operands().empty() && x->control_predecessors().empty()) {
    std::vector<Instruction*> operands;
    for (Instruction* o : std::vector<Instruction*>(x->operands())) {
      const bool scalar = o->shape.rank() == 0 && x->shape.rank() > 0;
      operands.push_back(scalar ? o : spread(b, o, g, dims, depth + 1, known));
    }
    made = b.emit_shaped(x->opcode, Shape(x->shape.dtype, dims), operands, x->attrs, x->called());
  }
  if (!made) made = b.pad(x, b.zero(x->shape.dtype), g.around);
  return (*known)[x] = made;
}

/// Whether an element is at a place of the grid.
Instruction* are_in_array(ir::Builder& b, const Grid& g, const Dims& dims) {
  Instruction* inside = nullptr;
  const auto also = [&](Instruction* here) {
    inside = inside ? b.binary(Opcode::and_, inside, here) : here;
  };
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const ir::PadDim& around = g.around[d];
    if (g.sizes[d] == dims[d]) continue;
    Instruction* place = b.iota(Shape(DType::s32, dims), std::int64_t(d));
    const auto number = [&](std::int64_t n) {
      return b.splat(b.scalar(DType::s32, double(n)), dims);
    };
    const std::int64_t step = g.sizes[d] > 1 ? around.interior + 1 : 1;
    if (step > 1) {
      const bool power = (step & (step - 1)) == 0;
      Instruction* rest = power ? b.binary(Opcode::and_, place, number(step - 1))
                                : b.binary(Opcode::remainder, place, number(step));
      also(b.compare(ir::Direction::eq, rest, number(around.low % step)));
    }
    if (around.low >= step) also(b.compare(ir::Direction::ge, place, number(around.low)));
    if (around.high >= step) {
      also(b.compare(ir::Direction::lt, place, number(dims[d] - around.high)));
    }
  }
  return inside;
}

bool overwrites(const ir::Computation& c) { return c.root() == c.parameter(1); }

/// What leaves every element as it is, bit by bit. Null: there is no such number.
Instruction* nothing(ir::Builder& b, Opcode op, DType dtype) {
  if (is_complex(dtype)) return nullptr;
  if (op == Opcode::add && is_floating(dtype)) return b.scalar(dtype, -0.0);
  const std::optional<Literal> identity = ir::identity_of(op, dtype);
  return identity ? b.constant(*identity) : nullptr;
}

/// The updates are elements of an array at just these places.
bool is_taken_alike(const Instruction& scatter, const Grid& g) {
  const Instruction& x = *scatter.operand(2);
  if (!x.is(Opcode::slice) || x.operand(0)->shape.dims != scatter.operand(0)->shape.dims)
    return false;
  const auto& attrs = x.get<ir::SliceAttrs>();
  for (std::size_t d = 0; d < g.around.size(); ++d) {
    const std::int64_t stride = attrs.strides.empty() ? 1 : attrs.strides[d];
    if (g.order[d] != std::int64_t(d) || attrs.starts[d] != g.around[d].low ||
        (stride != g.around[d].interior + 1 && g.sizes[d] > 1)) {
      return false;
    }
  }
  return true;
}

/// All that updates are computed of are arrays at their places, or moved along one dim: loops read
/// those as they are.
bool is_stencil(const Instruction& x, const Grid& g, const Dims& dims, int depth) {
  if (x.is(Opcode::broadcast) && x.operand(0)->shape.rank() == 0) return true;
  if (x.is(Opcode::slice)) {
    const auto& attrs = x.get<ir::SliceAttrs>();
    int moves = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (!attrs.strides.empty() && attrs.strides[d] != 1) return false;
      moves += attrs.starts[d] != g.around[d].low ? 1 : 0;
    }
    return moves <= 1 && x.operand(0)->shape.dims == dims;
  }
  return depth < kDeepest && ir::is_elementwise(x.opcode) && !x.is(Opcode::bitcast_convert) &&
         !divides_integers(x) && !x.operands().empty() &&
         std::all_of(x.operands().begin(), x.operands().end(), [&](const Instruction* o) {
           return o->shape.rank() == 0 || is_stencil(*o, g, dims, depth + 1);
         });
}

/// `always`: also where a scatter would write less.
Instruction* elementwise(const Instruction& scatter, ir::Builder& b, bool always) {
  if (!scatter.control_predecessors().empty()) return nullptr;
  const std::optional<Grid> g = grid_of(scatter);
  if (!g) return nullptr;
  Instruction* array = scatter.operands()[0];
  const Dims& dims = array->shape.dims;
  const DType dtype = array->shape.dtype;
  const double covered = double(element_count(g->sizes)) / double(array->shape.element_count());
  const bool mostly = g->is_window() && covered >= kMostlyCovered;
  const bool is_alike = is_taken_alike(scatter, *g);
  const bool is_moved = mostly && overwrites(*scatter.called().front()) &&
                        std::is_sorted(g->order.begin(), g->order.end()) &&
                        element_count(g->sizes) == scatter.operand(2)->shape.element_count() &&
                        scatter.operand(2)->shape.rank() == array->shape.rank() &&
                        is_stencil(*scatter.operand(2), *g, dims, 0);
  if (!always && !is_alike && !is_moved) return nullptr;
  if (!ir::identity_of(Opcode::add, dtype)) return nullptr;  // a type without numbers of its own
  const ir::Computation& combiner = *scatter.called().front();
  const auto op = ir::as_binary_reducer(combiner);
  if (!op && !overwrites(combiner)) return nullptr;
  Instruction* fill = op ? nothing(b, *op, dtype) : b.zero(dtype);
  if (fill == nullptr) return nullptr;
  Instruction* updates = in_order(b, scatter, *g);
  Instruction* moved = nullptr;
  if (mostly || is_alike) {
    std::unordered_map<Instruction*, Instruction*> known;  // looked up, never walked
    moved = spread(b, updates, *g, dims, 0, &known);
    if (op) moved = b.select(are_in_array(b, *g, dims), moved, b.splat(fill, dims));
  } else {
    moved = b.pad(updates, fill, g->around);
  }
  if (op) return b.binary(*op, array, moved);
  return b.select(are_in_array(b, *g, dims), moved, array);
}

}  // namespace

std::size_t expand_window_scatters(ir::Module* module, bool always) {
  ir::PatternSet patterns("expand-window-scatters");
  patterns.add(Opcode::scatter, [always](const Instruction& scatter, ir::Builder& b) {
    return elementwise(scatter, b, always);
  });
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
