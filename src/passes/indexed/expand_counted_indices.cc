// SPDX-License-Identifier: Apache-2.0
// Each number of an index vector is a sum of multiples of coordinates in the batch. Of two of them,
// the one along which there are fewer counts the places of a window, the other one the windows.
#include "src/passes/indexed/expand_counted_indices.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/base/contains.h"
#include "src/ir/analysis/affine_numbers.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of places that a vector counts: loops read each by itself.
constexpr std::int64_t kMostRuns = 3;
/// Of a window along one dim: each is an op.
constexpr std::int64_t kMostPlaces = 16;
/// Elements from one window to the next: for each there is an array, and they are put together.
constexpr std::int64_t kMostApart = 8;
/// Scatters of fewer elements take no time.
constexpr std::int64_t kFewestElements = 512;
/// A scattered element takes as much time as so many that are read or written in order.
constexpr double kScattered = 6;

/// With dims in that order, those that aren't in it being of one element.
Instruction* put_in_order(ir::Builder& b, Instruction* x, Dims order, const Dims& dims) {
  for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
    if (!contains(order, d)) order.push_back(d);
  }
  if (!std::is_sorted(order.begin(), order.end())) x = b.transpose(x, std::move(order));
  return x->shape.dims == dims ? x : b.reshape(x, dims);
}

Instruction* slice_of(const Instruction& gather, ir::Builder& b) {
  const ir::IndexedDims dims = ir::indexed_dims(gather);
  const Shape &array = gather.operand(0)->shape, &result = gather.shape;
  if (!gather.control_predecessors().empty() || !dims.batching.empty() ||
      result.element_count() == 0) {
    return nullptr;
  }
  Dims starts(array.dims.size(), 0), limits = dims.sizes, strides(array.dims.size(), 1);
  Dims source(result.dims.size(), -1);  // the array's dim, for each of the result
  for (std::size_t k = 0; k < dims.window.size(); ++k) {
    source[std::size_t(dims.window_of_other[k])] = dims.window[k];
  }
  for (std::size_t k = 0; k < dims.mapped.size(); ++k) {
    const auto d = std::size_t(dims.mapped[k]);
    const auto n = ir::affine_component(*gather.operand(1), dims.vector_dim, std::int64_t(k));
    if (!n || n->least < 0 || n->greatest > array.dims[d] - dims.sizes[d]) return nullptr;
    starts[d] = n->base;
    limits[d] = n->base + dims.sizes[d];
    bool counts = false;
    for (std::size_t p = 0; p < dims.batch.size(); ++p) {
      if (n->strides[p] == 0) continue;
      const auto r = std::size_t(dims.batch[p]);
      if (counts || n->strides[p] < 0 || dims.sizes[d] != 1 || source[r] >= 0) return nullptr;
      counts = true;
      std::replace(source.begin(), source.end(), std::int64_t(d), std::int64_t(-1));
      source[r] = std::int64_t(d);
      strides[d] = n->strides[p];
      limits[d] = n->greatest + 1;
    }
  }
  Dims order, places, sizes;
  for (std::size_t r = 0; r < source.size(); ++r) {
    if (source[r] < 0) continue;
    order.push_back(source[r]);
    places.push_back(std::int64_t(r));
    sizes.push_back(result.dims[r]);
  }
  Instruction* out =
      put_in_order(b, b.slice(gather.operand(0), starts, limits, strides), order, sizes);
  return sizes == result.dims ? out : b.broadcast(out, result.dims, places);
}

/// Numbers one after the other, each so much more than the one before.
struct CountedRun {
  std::int64_t first, step, count;
  std::int64_t last() const { return first + (count - 1) * step; }
};

/// Of a vector of constants, all in [0, size); none if there are many runs.
std::vector<CountedRun> counted_runs(const Instruction& numbers, std::int64_t size) {
  const Instruction* x = &numbers;
  while (x->is(Opcode::reshape) || x->is(Opcode::copy)) x = x->operand(0);
  if (!x->is(Opcode::constant) || x->get<ir::ConstantAttrs>().elided ||
      !is_integer(x->shape.dtype) || byte_size(x->shape.dtype) == 0) {
    return {};
  }
  std::vector<CountedRun> out;
  for (const std::int64_t n : to_vector<std::int64_t>(x->get<ir::ConstantAttrs>().value)) {
    if (n < 0 || n >= size) return {};
    CountedRun* const run = out.empty() ? nullptr : &out.back();
    if (run != nullptr && run->count == 1 && n != run->first) run->step = n - run->first;
    if (run != nullptr && run->step != 0 && n == run->last() + run->step) {
      ++run->count;
      continue;
    }
    if (std::int64_t(out.size()) == kMostRuns) return {};
    out.push_back({n, 0, 1});
  }
  return out;
}

/// Along one dim, at a few runs of places, as in arrays that are rolled or mirrored at their ends.
Instruction* in_runs(const Instruction& gather, ir::Builder& b) {
  const ir::IndexedDims dims = ir::indexed_dims(gather);
  const Shape& array = gather.operand(0)->shape;
  if (!gather.control_predecessors().empty() || !dims.batching.empty() || dims.mapped.size() != 1 ||
      dims.batch.size() != 1 || gather.shape.element_count() == 0) {
    return nullptr;
  }
  const std::int64_t d = dims.mapped[0];
  for (std::int64_t n = 0; n < array.rank(); ++n) {
    if (dims.sizes[std::size_t(n)] != (n == d ? 1 : array.dim(n))) return nullptr;
  }
  const std::vector<CountedRun> runs = counted_runs(*gather.operand(1), array.dim(d));
  if (runs.size() < 2) return nullptr;
  std::vector<Instruction*> parts;
  for (const CountedRun& run : runs) {
    Dims starts(array.dims.size(), 0), limits = array.dims, strides(array.dims.size(), 1);
    starts[std::size_t(d)] = std::min(run.first, run.last());
    limits[std::size_t(d)] = std::max(run.first, run.last()) + 1;
    strides[std::size_t(d)] = std::max<std::int64_t>(1, std::abs(run.step));
    parts.push_back(b.slice(gather.operand(0), starts, limits, strides));
    if (run.step < 0 && run.count > 1) parts.back() = b.reverse(parts.back(), {d});
  }
  Dims order;
  for (std::int64_t r = 0, next = 0; r < gather.shape.rank(); ++r) {
    if (r == dims.batch[0]) {
      order.push_back(d);
    } else {
      // A window's dim of one element is not what is counted.
      const std::int64_t own = dims.window[std::size_t(next++)];
      if (own != d) order.push_back(own);
    }
  }
  return put_in_order(b, b.concatenate(std::move(parts), d), order, gather.shape.dims);
}

/// Where a scatter's windows are along one dim of the array.
struct WindowLine {
  std::int64_t dim = 0;  ///< of the array
  std::int64_t base = 0;
  std::int64_t along = -1, apart = 1;   ///< which dim of the updates counts windows
  std::int64_t inside = -1, steps = 1;  ///< and which one places in a window, if there is one
};

/// The part of the scatter's result that is wanted.
struct WantedPart {
  Dims starts, sizes;
};

std::optional<WantedPart> wanted_part(const Instruction& i) {
  WantedPart out{{}, i.shape.dims};
  if (i.is(Opcode::slice)) {
    const auto& a = i.get<ir::SliceAttrs>();
    out.starts = a.starts;
    if (std::any_of(a.strides.begin(), a.strides.end(), [](auto s) { return s != 1; })) return {};
    return out;
  }
  if (!i.is(Opcode::pad)) return {};
  for (const ir::PadDim& p : i.get<ir::PadAttrs>().dims) {
    if (p.interior != 0 || p.low > 0 || p.high > 0) return {};
    out.starts.push_back(-p.low);
  }
  return out;
}

/// None if they aren't windows that overlap in some dim, with all else as in the array.
std::vector<WindowLine> window_lines(const Instruction& scatter, const ir::IndexedDims& dims) {
  const Shape &array = scatter.operand(0)->shape, &updates = scatter.operand(2)->shape;
  std::vector<WindowLine> lines;
  bool overlap = false;
  std::vector<bool> used(dims.batch.size(), false);
  for (std::int64_t d = 0; d < array.rank(); ++d) {
    const auto at = std::find(dims.mapped.begin(), dims.mapped.end(), d);
    if (at == dims.mapped.end()) {
      if (dims.sizes[std::size_t(d)] != array.dim(d)) return {};
      continue;
    }
    if (dims.sizes[std::size_t(d)] != 1) return {};
    const auto n =
        ir::affine_component(*scatter.operand(1), dims.vector_dim, at - dims.mapped.begin());
    // What is outside is dropped.
    if (!n || n->least < 0 || n->greatest >= array.dim(d)) return {};
    WindowLine line;
    line.dim = d;
    line.base = n->base;
    for (std::size_t p = 0; p < dims.batch.size(); ++p) {
      const std::int64_t stride = n->strides[p], other = dims.batch[p];
      if (stride == 0) continue;
      if (stride < 0 || used[p] || line.inside >= 0) return {};
      used[p] = true;
      if (line.along < 0) {
        line.along = other;
        line.apart = stride;
        continue;
      }
      line.inside = other;
      line.steps = stride;
      if (updates.dim(line.along) < updates.dim(line.inside)) {
        std::swap(line.along, line.inside);
        std::swap(line.apart, line.steps);
      }
      overlap = true;
    }
    if (line.along < 0 || line.apart > kMostApart ||
        (line.inside >= 0 && updates.dim(line.inside) > kMostPlaces)) {
      return {};
    }
    lines.push_back(line);
  }
  for (std::size_t p = 0; p < used.size(); ++p) {
    if (!used[p] && dims.batch_sizes[p] != 1) return {};
  }
  return overlap ? lines : std::vector<WindowLine>();
}

/// Sums along one line after the other.
class Folder {
 public:
  Folder(ir::Builder& b, Opcode op, Instruction* fill, Instruction* updates)
      : b_(b), op_(op), fill_(fill), x_(updates), dims_(updates->shape.dims.size()) {
    std::iota(dims_.begin(), dims_.end(), 0);
  }

  /// Places [first, first + size) of the array's dim take the place of the windows. `before`: what
  /// they are combined with, if that is one number; else null.
  void fold(const WindowLine& line, std::int64_t first, std::int64_t size, Instruction* before) {
    const std::int64_t each = (size + line.apart - 1) / line.apart;
    std::vector<Instruction*> parts(std::size_t(line.apart), nullptr);
    Instruction* const all = x_;
    const std::int64_t inside = line.inside < 0 ? -1 : place(line.inside);
    const std::int64_t count = inside < 0 ? 1 : all->shape.dim(inside);
    if (inside >= 0) dims_.erase(dims_.begin() + inside);
    const std::int64_t along = place(line.along);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t at = line.base + k * line.steps - first;
      const std::int64_t part = ((at % line.apart) + line.apart) % line.apart;
      Instruction* moved =
          shifted(inside < 0 ? all : layer(all, inside, k), along, (at - part) / line.apart, each);
      Instruction*& sum = parts[std::size_t(part)];
      sum = sum == nullptr ? moved : b_.binary(op_, sum, moved);
    }
    Dims dims = all->shape.dims;
    dims[std::size_t(inside < 0 || along < inside ? along : along + 1)] = each;
    if (inside >= 0) dims.erase(dims.begin() + inside);
    for (Instruction*& p : parts) {
      if (before != nullptr) {
        Instruction* one = b_.splat(before, dims);
        p = p == nullptr ? one : b_.binary(op_, one, p);
      }
      if (p == nullptr) p = b_.splat(fill_, dims);
    }
    x_ = interleaved(parts, along, each);
    if (x_->shape.dim(along) == size) return;
    Dims limits = x_->shape.dims;
    limits[std::size_t(along)] = size;
    x_ = b_.slice(x_, Dims(limits.size(), 0), limits);
  }

  /// Where a dim of the updates is now.
  std::int64_t place(std::int64_t dim) const {
    return std::find(dims_.begin(), dims_.end(), dim) - dims_.begin();
  }
  Instruction* result() const { return x_; }

 private:
  Instruction* layer(Instruction* x, std::int64_t dim, std::int64_t k) {
    Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims, rest = limits;
    starts[std::size_t(dim)] = k;
    limits[std::size_t(dim)] = k + 1;
    rest.erase(rest.begin() + dim);
    return b_.reshape(b_.slice(x, starts, limits), rest);
  }

  /// Element n at place n + by, of so many.
  Instruction* shifted(Instruction* x, std::int64_t dim, std::int64_t by, std::int64_t size) {
    const std::int64_t count = x->shape.dim(dim), behind = size - count - by;
    if (by == 0 && behind == 0) return x;
    if (by + count <= 0 || by >= size) {
      Dims dims = x->shape.dims;
      dims[std::size_t(dim)] = size;
      return b_.splat(fill_, dims);
    }
    std::vector<ir::PadDim> around(x->shape.dims.size());
    around[std::size_t(dim)].low = by;
    around[std::size_t(dim)].high = behind;
    return b_.pad(x, fill_, std::move(around));
  }

  /// Element n of part k at n * parts + k.
  Instruction* interleaved(std::vector<Instruction*> parts, std::int64_t dim, std::int64_t size) {
    if (parts.size() == 1) return parts[0];
    Dims dims = parts[0]->shape.dims;
    for (Instruction*& p : parts) {
      Dims apart = dims;
      apart.insert(apart.begin() + dim + 1, 1);
      p = b_.reshape(p, apart);
    }
    dims[std::size_t(dim)] = size * std::int64_t(parts.size());
    return b_.reshape(b_.concatenate(std::move(parts), dim + 1), dims);
  }

  ir::Builder& b_;
  const Opcode op_;
  Instruction* const fill_;
  Instruction* x_;
  Dims dims_;  ///< of the updates, as they stand now
};

Instruction* folded(const Instruction& scatter, const WantedPart& part, ir::Builder& b) {
  if (scatter.operands().size() != 3 || !scatter.control_predecessors().empty()) return nullptr;
  const Shape &array = scatter.operand(0)->shape, &updates = scatter.operand(2)->shape;
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  const auto op = ir::as_binary_reducer(*scatter.called().front());
  if (!op || !dims.batching.empty() || updates.dtype != array.dtype ||
      updates.element_count() < kFewestElements || element_count(part.sizes) == 0) {
    return nullptr;
  }
  const std::vector<WindowLine> lines = window_lines(scatter, dims);
  if (lines.empty()) return nullptr;
  double moved = 0, now = double(updates.element_count());
  for (const WindowLine& line : lines) {
    moved += now;
    now *= double(part.sizes[std::size_t(line.dim)]) / double(updates.dim(line.along));
    if (line.inside >= 0) now /= double(updates.dim(line.inside));
    moved += now;
  }
  if (moved > kScattered * double(updates.element_count())) return nullptr;
  // Small floats have no kernels for this.
  if (!ir::identity_of(*op, array.dtype) || byte_size(array.dtype) == 0 ||
      (is_floating(array.dtype) && byte_size(array.dtype) == 1)) {
    return nullptr;
  }
  Instruction* fill = b.constant(ir::neutral_of(*op, array.dtype));
  Folder folder(b, *op, fill, scatter.operand(2));
  Dims order, limits = part.starts;
  for (std::int64_t d = 0; d < array.rank(); ++d) {
    const auto n = std::size_t(d);
    limits[n] += part.sizes[n];
    if (!contains(dims.mapped, d) && part.sizes[n] != array.dim(d)) return nullptr;
  }
  Instruction* before = scatter.operand(0);
  Instruction* const number = before->is(Opcode::broadcast) && before->operand(0)->shape.is_scalar()
                                  ? before->operand(0)
                                  : nullptr;
  for (const WindowLine& line : lines) {
    const auto n = std::size_t(line.dim);
    folder.fold(line, part.starts[n], part.sizes[n], &line == &lines.back() ? number : nullptr);
  }
  for (std::int64_t d = 0, k = 0; d < array.rank(); ++d) {
    const bool counted = k < std::int64_t(lines.size()) && lines[std::size_t(k)].dim == d;
    const std::int64_t other = counted ? lines[std::size_t(k++)].along : dims.in_other(d);
    if (other >= 0) order.push_back(folder.place(other));
  }
  Instruction* sum = put_in_order(b, folder.result(), order, part.sizes);
  if (number != nullptr) return sum;
  if (part.sizes != array.dims) before = b.slice(before, part.starts, limits);
  return b.binary(*op, before, sum);
}

Instruction* folded_whole(const Instruction& scatter, ir::Builder& b) {
  const auto& users = scatter.users();
  // The user is looked at next.
  if (users.size() == 1 && wanted_part(*users.front())) return nullptr;
  const Dims& dims = scatter.shape.dims;
  return scatter.shape.is_tuple ? nullptr : folded(scatter, {Dims(dims.size(), 0), dims}, b);
}

Instruction* folded_part(const Instruction& part, ir::Builder& b) {
  const Instruction& scatter = *part.operand(0);
  if (!scatter.is(Opcode::scatter) || scatter.users().size() != 1 ||
      !part.control_predecessors().empty()) {
    return nullptr;
  }
  const std::optional<WantedPart> wanted = wanted_part(part);
  return wanted ? folded(scatter, *wanted, b) : nullptr;
}

}  // namespace

std::size_t expand_counted_indices(ir::Module* module) {
  static const auto& patterns = ir::keep(ir::PatternSet("expand-counted-indices")
                                             .add(Opcode::gather, slice_of, 2)
                                             .add(Opcode::gather, in_runs)
                                             .add(Opcode::scatter, folded_whole)
                                             .add(Opcode::slice, folded_part)
                                             .add(Opcode::pad, folded_part));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
