// SPDX-License-Identifier: Apache-2.0
// Rewrites that show how ops that move elements belong together, before shardings flow: a shift
// written as pad and slice, or as slice and pad, becomes one pad; a pad goes into the window that
// would pad alike; an index that only counts along a batch dim makes that dim a batch dim.
#include <algorithm>
#include <optional>

#include "src/base/contains.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/rewrite/rewriter.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr int kDeepest = 16;
/// Slices of one pad that become pads of their own.
constexpr std::ptrdiff_t kMostCuts = 32;

/// The constant that a scalar is, through ops that don't change it.
const Literal* constant_of(const Instruction* x) {
  while (x->is(Opcode::copy) || x->is(Opcode::reshape) || x->is(Opcode::broadcast)) {
    x = x->operand(0);
  }
  if (!x->is(Opcode::constant) || !x->shape.is_scalar() || x->get<ir::ConstantAttrs>().elided) {
    return nullptr;
  }
  return &x->get<ir::ConstantAttrs>().value;
}

/// An integer that all elements are.
std::optional<std::int64_t> integer_of(const Instruction* x) {
  const Literal* l = constant_of(x);
  if (!l) return std::nullopt;
  if (l->dtype() == DType::s32) return l->data<std::int32_t>()[0];
  if (l->dtype() == DType::s64) return l->data<std::int64_t>()[0];
  return std::nullopt;
}

template <class T>
std::optional<std::int64_t> counting_dim(const Literal& l) {
  const Dims& dims = l.dims();
  const auto data = l.data<T>();
  std::int64_t inner = l.element_count();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    inner /= dims[d];
    if (dims[d] == 1) continue;
    bool counts = true;
    for (std::size_t i = 0; i < data.size() && counts; ++i) {
      counts = std::int64_t(data[i]) == std::int64_t(i) / inner % dims[d];
    }
    if (counts) return std::int64_t(d);
  }
  return std::nullopt;
}

/// The dim along which each element is its own coordinate.
std::optional<std::int64_t> coordinate_dim(const Instruction* x, int depth = 0) {
  if (depth > kDeepest || !x->shape.is_array() || !is_integer(x->shape.dtype)) return std::nullopt;
  auto below = [&](std::size_t i) { return coordinate_dim(x->operand(i), depth + 1); };
  // Smaller types might wrap.
  if (byte_size(x->shape.dtype) < 4) return std::nullopt;
  switch (x->opcode) {
    case Opcode::iota:
      return x->get<ir::IotaAttrs>().dim;
    case Opcode::constant: {
      const auto& attrs = x->get<ir::ConstantAttrs>();
      if (attrs.elided || x->shape.element_count() < 2) return std::nullopt;
      if (attrs.value.dtype() == DType::s32) return counting_dim<std::int32_t>(attrs.value);
      if (attrs.value.dtype() == DType::s64) return counting_dim<std::int64_t>(attrs.value);
      return std::nullopt;
    }
    case Opcode::copy:
    case Opcode::convert:
      return below(0);
    case Opcode::broadcast: {
      const auto d = below(0);
      if (!d) return std::nullopt;
      return x->get<ir::DimensionsAttrs>().dims[std::size_t(*d)];
    }
    case Opcode::transpose: {
      const auto d = below(0);
      if (!d) return std::nullopt;
      const Dims& perm = x->get<ir::DimensionsAttrs>().dims;
      return std::find(perm.begin(), perm.end(), *d) - perm.begin();
    }
    case Opcode::reshape: {
      // Only dims of size 1 come and go.
      const auto d = below(0);
      if (!d) return std::nullopt;
      const Dims &from = x->operand(0)->shape.dims, &to = x->shape.dims;
      std::size_t i = 0, o = 0;
      std::optional<std::int64_t> found;
      while (true) {
        while (i < from.size() && from[i] == 1) ++i;
        while (o < to.size() && to[o] == 1) ++o;
        if (i == from.size() || o == to.size()) break;
        if (from[i] != to[o]) return std::nullopt;
        if (std::int64_t(i) == *d) found = std::int64_t(o);
        ++i;
        ++o;
      }
      return i == from.size() && o == to.size() ? found : std::nullopt;
    }
    case Opcode::slice: {
      const auto d = below(0);
      const auto& attrs = x->get<ir::SliceAttrs>();
      if (!d || x->shape.dim(*d) != x->operand(0)->shape.dim(*d)) return std::nullopt;
      return attrs.starts[std::size_t(*d)] == 0 ? d : std::nullopt;
    }
    case Opcode::select: {
      // Negative indices count from the end: coordinates aren't negative.
      const Instruction& test = *x->operand(0);
      if (!test.is(Opcode::compare) ||
          test.get<ir::CompareAttrs>().direction != ir::Direction::lt) {
        return std::nullopt;
      }
      const auto bound = integer_of(test.operand(1));
      if (!bound || *bound > 0 || !coordinate_dim(test.operand(0), depth + 1)) return std::nullopt;
      return below(2);
    }
    default:
      return std::nullopt;
  }
}

/// A component of start indices: the part of a concatenation that it is alone, or all of them.
const Instruction* component(const Instruction& indices, std::int64_t k, std::int64_t vector_dim) {
  if (vector_dim == indices.shape.rank() || indices.shape.dim(vector_dim) == 1) return &indices;
  if (!indices.is(Opcode::concatenate) ||
      indices.get<ir::DimensionsAttrs>().dims.front() != vector_dim) {
    return nullptr;
  }
  for (const Instruction* part : indices.operands()) {
    const std::int64_t n = part->shape.dim(vector_dim);
    if (k < n) return n == 1 ? part : nullptr;
    k -= n;
  }
  return nullptr;
}

class Folder {
 public:
  explicit Folder(ir::Computation* computation) : rewriter_(computation), b_(computation) {}

  void run() {
    ir::Computation* c = b_.computation();
    std::vector<Instruction*> moves;
    for (const auto& i : c->instructions()) {
      if (may_fold(i->opcode)) moves.push_back(i.get());
    }
    if (moves.empty()) return;
    before_ = std::int64_t(c->instructions().size());
    for (Instruction* x : moves) {
      b_.metadata = x->metadata;
      Instruction* y = nullptr;
      if (x->is(Opcode::slice)) y = fold_slice(*x);
      if (x->is(Opcode::pad)) y = fold_pad(*x);
      if (x->is(Opcode::reduce_window)) y = fold_window(*x);
      if (x->is(Opcode::gather)) y = fold_gather(*x);
      if (x->is(Opcode::scatter)) y = fold_scatter(*x);
      if (x->is(Opcode::concatenate)) y = fold_concatenate(*x);
      if (!y) continue;
      y->sharding = x->sharding;
      y->frontend_attributes = x->frontend_attributes;
      y->backend_config = x->backend_config;
      rewriter_.replace(x, y);
    }
    rewriter_.finish();
  }

 private:
  static bool may_fold(Opcode op) {
    return op == Opcode::slice || op == Opcode::pad || op == Opcode::reduce_window ||
           op == Opcode::gather || op == Opcode::scatter || op == Opcode::concatenate;
  }

  /// Only this use, apart from those by what was made here, and no layout of its own.
  bool is_private(const Instruction& x) const {
    const ir::UserList users = x.users();
    const auto made = [&](const Instruction* user) { return user->index >= before_; };
    return x.index < before_ &&
           std::ptrdiff_t(users.size()) - std::count_if(users.begin(), users.end(), made) == 1 &&
           b_.computation()->root() != &x && !x.has_sharding();
  }

  /// What a slice of a pad pads the pad's operand with, if that is one pad, too.
  static std::optional<std::vector<ir::PadDim>> padding_of_slice(const Instruction& x) {
    const Instruction* pad = x.operand(0);
    const auto& cut = x.get<ir::SliceAttrs>();
    std::vector<ir::PadDim> dims = pad->get<ir::PadAttrs>().dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const std::int64_t n = pad->operand(0)->shape.dims[d], size = pad->shape.dims[d];
      const std::int64_t start = cut.starts[d], out = x.shape.dims[d];
      if (start == 0 && out == size) continue;
      if (dims[d].interior != 0 || (!cut.strides.empty() && cut.strides[d] != 1)) {
        return std::nullopt;
      }
      dims[d].low -= start;
      dims[d].high = out - n - dims[d].low;
      if (dims[d].low <= -n || dims[d].high <= -n) return std::nullopt;
    }
    return dims;
  }

  /// A pad of which only slices are read that could be pads, as of the neighbours in a stencil.
  bool only_cut(const Instruction& pad) const {
    if (pad.index >= before_ || b_.computation()->root() == &pad || pad.has_sharding()) {
      return false;
    }
    const ir::UserList users = pad.users();
    if (std::ptrdiff_t(users.size()) > 2 * kMostCuts) return false;
    std::ptrdiff_t cuts = 0;
    return std::all_of(users.begin(), users.end(), [&](const Instruction* user) {
      if (user->index >= before_) return true;
      return ++cuts <= kMostCuts && user->is(Opcode::slice) && padding_of_slice(*user).has_value();
    });
  }

  /// Rows that were padded only to be cut again; a shift.
  Instruction* fold_slice(const Instruction& x) {
    Instruction* pad = x.operands()[0];
    if (!pad->is(Opcode::pad) || !only_cut(*pad)) return nullptr;
    return b_.pad(pad->operands()[0], pad->operands()[1], *padding_of_slice(x));
  }

  /// Rows that are cut off where nothing is padded; a shift as well.
  Instruction* fold_pad(const Instruction& x) {
    Instruction* slice = x.operands()[0];
    if (!slice->is(Opcode::slice) || !is_private(*slice)) return nullptr;
    const auto& cut = slice->get<ir::SliceAttrs>();
    std::vector<ir::PadDim> dims = x.get<ir::PadAttrs>().dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const std::int64_t n = slice->operand(0)->shape.dims[d], out = slice->shape.dims[d];
      if (out == n) continue;
      if (dims[d].interior != 0 || (!cut.strides.empty() && cut.strides[d] != 1)) return nullptr;
      const std::int64_t before = cut.starts[d], behind = n - before - out;
      if ((before > 0 && dims[d].low > 0) || (behind > 0 && dims[d].high > 0)) return nullptr;
      dims[d].low -= before;
      dims[d].high -= behind;
      if (dims[d].low <= -n || dims[d].high <= -n) return nullptr;
    }
    return b_.pad(slice->operands()[0], x.operands()[1], dims);
  }

  /// Padding with what the window pads with.
  Instruction* fold_window(const Instruction& x) {
    if (x.operands().size() != 2) return nullptr;
    Instruction* pad = x.operands()[0];
    if (!pad->is(Opcode::pad) || !is_private(*pad)) return nullptr;
    const Literal *padding = constant_of(pad->operand(1)), *init = constant_of(x.operand(1));
    if (!padding || !init || !(*padding == *init)) return nullptr;
    ir::WindowAttrs attrs = x.get<ir::WindowAttrs>();
    for (std::size_t d = 0; d < attrs.dims.size(); ++d) {
      const ir::PadDim& p = pad->get<ir::PadAttrs>().dims[d];
      if (p == ir::PadDim{}) continue;
      ir::WindowDim& w = attrs.dims[d];
      if (p.low < 0 || p.high < 0 || w.pad_low < 0 || w.pad_high < 0 || w.lhs_dilation != 1) {
        return nullptr;
      }
      w.pad_low += p.low;
      w.pad_high += p.high;
      w.lhs_dilation = p.interior + 1;
    }
    return b_.emit_shaped(Opcode::reduce_window, x.shape, {pad->operands()[0], x.operands()[1]},
                          attrs, x.called());
  }

  /// Components of the indices that count along a dim of theirs, as pairs (component, that dim).
  /// `fits`: whether the operand dim that a component points into may become a batch dim.
  template <class Fits>
  std::vector<std::pair<std::int64_t, std::int64_t>> counters(const Instruction& indices,
                                                              const Dims& map,
                                                              std::int64_t vector_dim,
                                                              const Dims& taken, Fits fits) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    Dims used = taken;
    for (std::size_t k = 0; k < map.size(); ++k) {
      const Instruction* part = component(indices, std::int64_t(k), vector_dim);
      const auto d = part ? coordinate_dim(part) : std::nullopt;
      if (!d || *d == vector_dim || contains(used, *d)) continue;
      if (!fits(map[k], indices.shape.dim(*d))) continue;
      used.push_back(*d);
      found.emplace_back(std::int64_t(k), *d);
    }
    // Something has to be left to point with.
    if (found.size() == map.size() && !found.empty()) found.pop_back();
    return found;
  }

  /// The indices without these components.
  Instruction* remaining(const Instruction& indices, std::int64_t vector_dim,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& without) {
    std::vector<Instruction*> parts;
    std::int64_t k = 0;
    for (Instruction* part : indices.operands()) {
      const bool gone =
          std::any_of(without.begin(), without.end(), [&](const auto& c) { return c.first == k; });
      if (!gone) parts.push_back(part);
      k += part->shape.dim(vector_dim);
    }
    return parts.size() == 1 ? parts.front() : b_.concatenate(parts, vector_dim);
  }

  /// Takes operand dims out of the map and the dims that one row is taken of, into batch dims.
  static void make_batch(const std::vector<std::pair<std::int64_t, std::int64_t>>& found, Dims* map,
                         Dims* single, Dims* operand_batch, Dims* index_batch) {
    std::vector<std::pair<std::int64_t, std::int64_t>> batch;
    for (std::size_t i = 0; i < operand_batch->size(); ++i) {
      batch.emplace_back((*operand_batch)[i], (*index_batch)[i]);
    }
    Dims rest;
    for (std::size_t k = 0; k < map->size(); ++k) {
      auto it = std::find_if(found.begin(), found.end(),
                             [&](const auto& c) { return c.first == std::int64_t(k); });
      if (it == found.end()) {
        rest.push_back((*map)[k]);
        continue;
      }
      batch.emplace_back((*map)[k], it->second);
      single->erase(std::find(single->begin(), single->end(), (*map)[k]));
    }
    std::sort(batch.begin(), batch.end());
    *map = rest;
    operand_batch->clear();
    index_batch->clear();
    for (const auto& [operand, index] : batch) {
      operand_batch->push_back(operand);
      index_batch->push_back(index);
    }
  }

  /// Without the parts that have no rows, as of a roll by nothing.
  Instruction* fold_concatenate(const Instruction& x) {
    const std::int64_t dim = x.get<ir::DimensionsAttrs>().dims.front();
    std::vector<Instruction*> parts = x.operands();
    std::erase_if(parts, [dim](const Instruction* o) { return o->shape.dim(dim) == 0; });
    if (parts.empty() || parts.size() == x.operands().size()) return nullptr;
    return parts.size() == 1 ? b_.unary(Opcode::copy, parts.front()) : b_.concatenate(parts, dim);
  }

  Instruction* fold_gather(const Instruction& x) {
    ir::GatherAttrs a = x.get<ir::GatherAttrs>();
    const Instruction& indices = *x.operand(1);
    const auto found = counters(indices, a.start_index_map, a.index_vector_dim,
                                a.start_indices_batching_dims, [&](std::int64_t d, std::int64_t n) {
                                  return x.operand(0)->shape.dim(d) == n &&
                                         std::count(a.collapsed_slice_dims.begin(),
                                                    a.collapsed_slice_dims.end(), d);
                                });
    if (found.empty()) return nullptr;
    make_batch(found, &a.start_index_map, &a.collapsed_slice_dims, &a.operand_batching_dims,
               &a.start_indices_batching_dims);
    a.indices_are_sorted = false;
    Instruction* rest = remaining(indices, a.index_vector_dim, found);
    return b_.emit_shaped(Opcode::gather, x.shape, {x.operands()[0], rest}, a);
  }

  Instruction* fold_scatter(const Instruction& x) {
    ir::ScatterAttrs a = x.get<ir::ScatterAttrs>();
    const std::size_t inputs = (x.operands().size() - 1) / 2;
    const Instruction& indices = *x.operand(inputs);
    const auto found = counters(
        indices, a.scatter_dims_to_operand_dims, a.index_vector_dim,
        a.scatter_indices_batching_dims, [&](std::int64_t d, std::int64_t n) {
          return x.operand(0)->shape.dim(d) == n &&
                 std::count(a.inserted_window_dims.begin(), a.inserted_window_dims.end(), d);
        });
    if (found.empty()) return nullptr;
    make_batch(found, &a.scatter_dims_to_operand_dims, &a.inserted_window_dims,
               &a.input_batching_dims, &a.scatter_indices_batching_dims);
    a.indices_are_sorted = false;
    std::vector<Instruction*> operands = x.operands();
    operands[inputs] = remaining(indices, a.index_vector_dim, found);
    return b_.emit_shaped(Opcode::scatter, x.shape, operands, a, x.called());
  }

  ir::Rewriter rewriter_;
  ir::Builder b_;
  std::int64_t before_ = 0;  ///< instructions that were there before
};

}  // namespace

void fold_moves(ir::Module* module) {
  for (ir::Computation* c : ir::device_computations(*module)) Folder(c).run();
}

}  // namespace tessera::spmd::propagation
