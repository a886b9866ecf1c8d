// SPDX-License-Identifier: Apache-2.0
// y[r, c] = x[i[r], j[c]] is (x[:, j])[i, :], and what is computed of the columns of several such
// for the same rows can be computed before rows are taken: once for each row that there is.
#include "src/passes/indexed/separate_gathers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/analysis/splat_constants.h"
#include "src/ir/rewrite/patterns.h"
#include "src/passes/indexed/drop_invariant_dims.h"
#include "src/passes/indexed/index_components.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Sums of more terms along one dim are left to products of matrices.
constexpr std::int64_t kMostTermsOfLine = 8;
/// Gathers of fewer elements take no time.
constexpr std::int64_t kFewestElements = 512;
constexpr std::size_t kMostLines = 4;

/// What is taken along one dim of the array.
struct Line {
  std::int64_t dim = 0;            ///< of the array
  std::int64_t batch = 0;          ///< which dim of the gather's result counts what is taken
  std::int64_t size = 1;           ///< of the window
  Instruction* starts = nullptr;   ///< s32[n], inside
  Instruction* weights = nullptr;  ///< [n] or [n, size]; null: 1

  std::int64_t count() const { return starts->shape.dim(0); }
};

/// What it takes to go along the lines one after the other, in copied elements.
double cost_of(const std::vector<Line>& lines, const Shape& array) {
  // Those that lie side by side are found one by one.
  constexpr double kFoundAlone = 3;
  double cost = 0, count = double(array.element_count());
  for (const Line& l : lines) {
    count *= double(l.count()) / double(array.dim(l.dim));
    cost += count * double(l.size) * (l.dim + 1 == array.rank() ? kFoundAlone : 1);
  }
  return cost;
}

/// In the order that takes least, of equal ones with the last dim first.
void sort_lines(std::vector<Line>* lines, const Shape& array) {
  const auto later = [](const Line& a, const Line& b) { return a.dim > b.dim; };
  std::sort(lines->begin(), lines->end(), later);
  std::vector<Line> best = *lines;
  while (std::next_permutation(lines->begin(), lines->end(), later)) {
    if (cost_of(*lines, array) < cost_of(best, array)) best = *lines;
  }
  *lines = std::move(best);
}

/// The array as it stands in memory, and which of its dims each dim of x is.
Instruction* untransposed(Instruction* x, Dims* place) {
  place->resize(x->shape.dims.size());
  std::iota(place->begin(), place->end(), 0);
  while (x->is(Opcode::transpose)) {
    const Dims& perm = x->get<ir::DimensionsAttrs>().dims;
    for (std::int64_t& d : *place) d = perm[std::size_t(d)];
    x = x->operand(0);
  }
  return x;
}

bool is_zero_splat(const Instruction& x) {
  const Instruction& c = x.is(Opcode::broadcast) ? *x.operand(0) : x;
  if (!c.is(Opcode::constant) || c.shape.rank() != 0) return false;
  const Literal& v = c.get<ir::ConstantAttrs>().value;
  return std::all_of(v.bytes(), v.bytes() + v.byte_count(),
                     [](std::byte at) { return at == std::byte(0); });
}

class Separator {
 public:
  /// The gather by lines; null: it stays.
  Instruction* gathered(const Instruction& gather, ir::Builder& b) {
    for (const Instruction* user : gather.users()) {
      // That is for sum().
      if (user->is(Opcode::dot)) return nullptr;
    }
    std::vector<Line> lines = lines_of(gather, b);
    if (lines.empty()) return nullptr;
    for (const Line& l : lines) {
      if (l.size != 1) return nullptr;
    }
    const ir::IndexedDims dims = ir::indexed_dims(gather);
    Dims place;
    Instruction* x = untransposed(gather.operand(0), &place);
    Dims order;
    for (std::int64_t d = 0; d < gather.shape.rank(); ++d) {
      const std::int64_t own = array_dim_of(dims, lines, d);
      // A window's dim of one element is not what its line is about.
      if (contains(dims.batch, d) || !contains(dims.mapped, own)) {
        order.push_back(place[std::size_t(own)]);
      }
    }
    for (Line& l : lines) l.dim = place[std::size_t(l.dim)];
    sort_lines(&lines, x->shape);
    // Otherwise most of what the first ones make is dropped by the last.
    if (lines.back().count() < x->shape.dim(lines.back().dim)) return nullptr;
    for (const Line& l : lines) x = taken(b, x, l.dim, l.starts);
    return arranged(b, x, order, gather.shape.dims);
  }

  /// A product with the windows of a gather.
  Instruction* sum(const Instruction& dot, ir::Builder& b) {
    if (!dot.control_predecessors().empty() || !is_floating(dot.shape.dtype)) return nullptr;
    for (const std::size_t side : {1, 0}) {
      if (!dot.operand(side)->is(Opcode::gather)) continue;
      if (Instruction* out = summed(dot, side, b)) return out;
    }
    return nullptr;
  }

  /// An elementwise op of what was taken along a line: the op, then the line.
  Instruction* sunk(const Instruction& op, ir::Builder& b) {
    if (op.shape.is_tuple || !op.control_predecessors().empty()) return nullptr;
    const Instruction* first = nullptr;
    for (const Instruction* o : op.operands()) {
      if (first == nullptr && takes_.count(o) > 0) first = o;
    }
    if (first == nullptr || first->shape.dims != op.shape.dims) return nullptr;
    const auto [dim, starts] = takes_.at(first);
    const Dims& dims = first->operand(0)->shape.dims;
    if (element_count(dims) > op.shape.element_count()) return nullptr;
    Dims others;
    for (std::int64_t d = 0; d < op.shape.rank(); ++d) {
      if (d != dim) others.push_back(d);
    }
    std::vector<Instruction*> operands;
    for (Instruction* o : op.operands()) {
      const auto take = takes_.find(o);
      if (take != takes_.end() && take->second == std::pair(dim, starts) &&
          o->operand(0)->shape.dims == dims) {
        operands.push_back(o->operand(0));
      } else if (o->shape.rank() == 0) {
        operands.push_back(o);
      } else {
        Instruction* same = invariant_dims_.dropped(b, o, others);
        if (same == nullptr) return nullptr;
        operands.push_back(b.broadcast(same, dims, others));
      }
    }
    const Shape shape(op.shape.dtype, dims);
    return taken(b, ir::emit_like(b, op, std::move(operands), &shape), dim, starts);
  }

  /// Drops pointers to what a driver of patterns has removed.
  void forget_removed(const ir::Computation& c) {
    invariant_dims_ = {};
    inside_.clear();
    std::set<const Instruction*> there;
    for (const auto& i : c.instructions()) there.insert(i.get());
    std::erase_if(takes_, [&](const auto& t) { return there.count(t.first) == 0; });
  }

 private:
  /// Of a gather whose windows take in all of the dims that no number is about; empty: it is none
  /// that can be taken by lines.
  std::vector<Line> lines_of(const Instruction& gather, ir::Builder& b) {
    const ir::IndexedDims dims = ir::indexed_dims(gather);
    const Shape& array = gather.operand(0)->shape;
    Instruction* indices = gather.operand(1);
    const std::size_t count = dims.mapped.size();
    if (count < 2 || count > kMostLines || dims.batch.size() != count ||
        !dims.array_batching.empty() || gather.shape.element_count() < kFewestElements ||
        !gather.control_predecessors().empty()) {
      return {};
    }
    for (std::int64_t d = 0; d < array.rank(); ++d) {
      if (!contains(dims.mapped, d) && dims.sizes[std::size_t(d)] != array.dim(d)) return {};
    }
    std::vector<Line> lines(count);
    Dims used;
    for (std::size_t k = 0; k < count; ++k) {
      Dims fixed(indices->shape.dims.size(), -1);
      fixed[std::size_t(dims.vector_dim)] = std::int64_t(k);
      Line& line = lines[k];
      line.dim = dims.mapped[k];
      line.size = dims.sizes[std::size_t(line.dim)];
      Instruction* numbers = nullptr;
      for (std::int64_t p = 0; p < std::int64_t(count) && numbers == nullptr; ++p) {
        if (contains(used, p)) continue;
        const std::int64_t in_indices = p < dims.vector_dim ? p : p + 1;
        numbers = invariant_dims_.dropped(b, indices, {in_indices}, fixed);
        if (numbers != nullptr) used.push_back(p);
      }
      if (numbers == nullptr) return {};
      line.batch = dims.batch[std::size_t(used.back())];
      const std::int64_t last = array.dim(line.dim) - line.size;
      auto& inside = inside_[{numbers, last}];
      if (inside == nullptr) inside = inside_start(b, numbers, last);
      line.starts = inside;
    }
    return lines;
  }

  static std::int64_t array_dim_of(const ir::IndexedDims& dims, const std::vector<Line>& lines,
                                   std::int64_t in_result) {
    for (const Line& l : lines) {
      if (l.batch == in_result) return l.dim;
    }
    const auto at = std::find(dims.window_of_other.begin(), dims.window_of_other.end(), in_result);
    return dims.window[std::size_t(at - dims.window_of_other.begin())];
  }

  /// With its dims in that order; those that aren't in it are of one element.
  static Instruction* arranged(ir::Builder& b, Instruction* x, const Dims& order,
                               const Dims& dims) {
    Dims perm = order;
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
      if (!contains(perm, d)) perm.push_back(d);
    }
    if (!std::is_sorted(perm.begin(), perm.end())) x = b.transpose(x, perm);
    return x->shape.dims == dims ? x : b.reshape(x, dims);
  }

  /// x along `dim` at each of the places.
  Instruction* taken(ir::Builder& b, Instruction* x, std::int64_t dim, Instruction* places) {
    ir::GatherAttrs a;
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
      if (d != dim) a.offset_dims.push_back(d);
    }
    a.collapsed_slice_dims = a.start_index_map = {dim};
    a.slice_sizes = x->shape.dims;
    a.slice_sizes[std::size_t(dim)] = 1;
    a.index_vector_dim = 1;
    Instruction* out = b.emit(Opcode::gather, {x, places}, a);
    takes_.emplace(out, std::pair(dim, places));
    return out;
  }

  Instruction* summed(const Instruction& dot, std::size_t side, ir::Builder& b);
  bool weigh(Instruction* weights, const std::vector<Dims>& kept, std::vector<Line>* lines,
             ir::Builder& b);
  bool weigh_product(const Instruction& dot, const std::vector<Dims>& kept,
                     std::vector<Line>* lines, ir::Builder& b);
  Instruction* weighted_sum(Instruction* x, const Line& line, ir::Builder& b);

  InvariantDims invariant_dims_;
  std::map<std::pair<Instruction*, std::int64_t>, Instruction*> inside_;
  std::map<const Instruction*, std::pair<std::int64_t, Instruction*>> takes_;
};

/// Finds each line's weights, of which all are the product. `kept`: the dims that each line has
/// there, of what it counts and of its window; none where a factor isn't about it.
bool Separator::weigh(Instruction* weights, const std::vector<Dims>& kept, std::vector<Line>* lines,
                      ir::Builder& b) {
  if (ir::is_splat_of(*weights, 1)) return true;
  if (weights->is(Opcode::add)) {
    for (const std::size_t k : {0, 1}) {
      if (is_zero_splat(*weights->operand(k))) {
        return weigh(weights->operand(1 - k), kept, lines, b);
      }
    }
  }
  if (weights->is(Opcode::multiply)) {
    return weigh(weights->operand(0), kept, lines, b) && weigh(weights->operand(1), kept, lines, b);
  }
  if (weights->is(Opcode::dot)) return weigh_product(*weights, kept, lines, b);
  for (std::size_t k = 0; k < lines->size(); ++k) {
    if (kept[k].empty()) continue;
    Instruction* own = invariant_dims_.dropped(b, weights, kept[k]);
    if (own == nullptr) continue;
    Instruction*& all = (*lines)[k].weights;
    all = all == nullptr ? own : b.binary(Opcode::multiply, all, own);
    return true;
  }
  return false;
}

/// Of an outer product, which has the dims of both of its operands.
bool Separator::weigh_product(const Instruction& dot, const std::vector<Dims>& kept,
                              std::vector<Line>* lines, ir::Builder& b) {
  const auto& a = dot.get<ir::DotAttrs>();
  if (!a.lhs_batch.empty() || !a.lhs_contracting.empty()) return false;
  const std::int64_t of_first = dot.operand(0)->shape.rank();
  for (const std::size_t side : {0, 1}) {
    std::vector<Dims> own(kept.size());
    for (std::size_t k = 0; k < kept.size(); ++k) {
      const bool first = !kept[k].empty() && kept[k][0] < of_first;
      for (const std::int64_t d : kept[k]) {
        if ((d < of_first) != first) return false;
        if (first == (side == 0)) own[k].push_back(first ? d : d - of_first);
      }
    }
    if (!weigh(dot.operand(side), own, lines, b)) return false;
  }
  return true;
}

Instruction* Separator::weighted_sum(Instruction* x, const Line& line, ir::Builder& b) {
  Instruction* sum = nullptr;
  const std::int64_t n = line.count();
  for (std::int64_t k = 0; k < line.size; ++k) {
    Instruction* at = line.starts;
    if (k > 0) {
      at = b.binary(Opcode::add, at, b.splat(b.scalar(DType::s32, double(k)), at->shape.dims));
    }
    Instruction* term = taken(b, x, line.dim, at);
    if (line.weights != nullptr) {
      Instruction* w = line.weights;
      if (w->shape.rank() == 2) w = b.reshape(b.slice(w, {0, k}, {n, k + 1}), {n});
      w = b.convert(w, x->shape.dtype);
      term = b.binary(Opcode::multiply, term, b.broadcast(w, term->shape.dims, {line.dim}));
    }
    add_to(b, &sum, term);
  }
  return sum;
}

Instruction* Separator::summed(const Instruction& dot, std::size_t side, ir::Builder& b) {
  const auto& a = dot.get<ir::DotAttrs>();
  const Instruction& gather = *dot.operand(side);
  Instruction* weights = dot.operand(1 - side);
  const Dims& batch = side == 0 ? a.lhs_batch : a.rhs_batch;
  const Dims& contracting = side == 0 ? a.lhs_contracting : a.rhs_contracting;
  const Dims& weights_batch = side == 0 ? a.rhs_batch : a.lhs_batch;
  const Dims& weights_contracting = side == 0 ? a.rhs_contracting : a.lhs_contracting;
  if (std::int64_t(weights_batch.size() + weights_contracting.size()) != weights->shape.rank()) {
    return nullptr;
  }
  std::vector<Line> lines = lines_of(gather, b);
  if (lines.empty() || batch.size() != lines.size()) return nullptr;
  const ir::IndexedDims dims = ir::indexed_dims(gather);
  std::vector<Dims> kept(lines.size());
  double terms = 1;
  std::size_t summed_dims = 0;
  for (std::size_t k = 0; k < lines.size(); ++k) {
    const Line& l = lines[k];
    const auto counted = std::find(batch.begin(), batch.end(), l.batch);
    if (counted == batch.end() || l.size > kMostTermsOfLine) return nullptr;
    kept[k] = {weights_batch[std::size_t(counted - batch.begin())]};
    terms *= double(l.size);
    const auto window = std::find(contracting.begin(), contracting.end(), dims.in_other(l.dim));
    if (window == contracting.end()) {
      if (l.size != 1) return nullptr;
      continue;
    }
    ++summed_dims;
    kept[k].push_back(weights_contracting[std::size_t(window - contracting.begin())]);
  }
  if (summed_dims != contracting.size() || !weigh(weights, kept, &lines, b)) return nullptr;
  Dims place;
  Instruction* x = untransposed(gather.operand(0), &place);
  Dims order;
  for (const std::int64_t d : batch) {
    order.push_back(place[std::size_t(array_dim_of(dims, lines, d))]);
  }
  for (std::int64_t d = 0; d < gather.shape.rank(); ++d) {
    if (contains(batch, d) || contains(contracting, d)) continue;
    const std::int64_t own = array_dim_of(dims, lines, d);
    if (!contains(dims.mapped, own)) order.push_back(place[std::size_t(own)]);
  }
  for (Line& l : lines) l.dim = place[std::size_t(l.dim)];
  sort_lines(&lines, x->shape);
  // Not where rows are dropped that all columns were computed for.
  if (cost_of(lines, x->shape) > 3 * terms * double(dot.shape.element_count())) return nullptr;
  const DType t = dot.shape.dtype == DType::f64 ? DType::f64 : DType::f32;
  x = b.convert(x, t);
  for (const Line& l : lines) x = weighted_sum(x, l, b);
  // A sum starts at zero: it is never -0.
  x = b.binary(Opcode::add, x, b.splat(b.zero(t), x->shape.dims));
  return arranged(b, b.convert(x, dot.shape.dtype), order, dot.shape.dims);
}

bool may_separate(const Instruction& i) {
  return i.is(Opcode::gather) && i.get<ir::GatherAttrs>().start_index_map.size() > 1;
}

}  // namespace

std::size_t separate_gathers(ir::Module* module) {
  std::size_t count = 0;
  for (const auto& computation : module->computations()) {
    const auto& all = computation->instructions();
    if (std::none_of(all.begin(), all.end(), [](const auto& i) { return may_separate(*i); })) {
      continue;
    }
    Separator separator;
    const auto by = [&separator](auto method) {
      return [&separator, method](const Instruction& i, ir::Builder& b) {
        return (separator.*method)(i, b);
      };
    };
    ir::PatternSet lines("separate-gathers");
    lines.add(Opcode::dot, by(&Separator::sum)).add(Opcode::gather, by(&Separator::gathered));
    const std::size_t found = ir::walk_and_apply_patterns(computation.get(), lines);
    separator.forget_removed(*computation);
    if (found > 0) {
      ir::PatternSet ops("separate-gathers");
      ops.add_if(ir::is_elementwise, by(&Separator::sunk));
      count += found + ir::walk_and_apply_patterns(computation.get(), ops);
    }
  }
  return count;
}

}  // namespace tessera::passes
