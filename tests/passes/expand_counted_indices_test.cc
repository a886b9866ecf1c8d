// SPDX-License-Identifier: Apache-2.0
// Windows that are folded and unfolded by indices that the program counts.
#include "src/passes/indexed/expand_counted_indices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

struct Random {
  std::mt19937_64 engine;
  std::int64_t below(std::int64_t n) { return std::int64_t(engine() % std::uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
};

/// A random program, and what becomes of it.
struct CountedCase {
  Random r;
  testing::Dice dice;
  ir::Module m{"m"};
  ir::Builder b{m.add_computation("e")};

  explicit CountedCase(std::uint64_t seed) : r{std::mt19937_64(seed)}, dice(seed) {
    m.set_entry(m.computations()[0].get());
  }
  /// Whether something is expanded; none of these is left then, and results are the same.
  bool expands(Instruction* root, Opcode gone) {
    ir::Computation* entry = m.entry();
    entry->set_root(root);
    const std::vector<Literal> arguments = testing::random_arguments(m, dice);
    if (testing::keeps_results(&m, arguments, expand_counted_indices) == 0) return false;
    entry->remove_dead();
    const auto& all = entry->instructions();
    EXPECT_TRUE(std::none_of(all.begin(), all.end(), [&](const auto& i) { return i->is(gone); }))
        << ir::to_string(m);
    return true;
  }
};

/// Where windows are along one dim: base + apart * window + steps * place.
struct Line {
  std::int64_t windows, places, apart, steps, base, size;
};

Line random_line(Random& r) {
  Line l = {1 + r.below(9), 1 + r.below(5), 1 + r.below(4), 1 + r.below(3), r.below(4), 0};
  l.size = l.base + (l.windows - 1) * l.apart + (l.places - 1) * l.steps + 1 + r.below(4);
  return l;
}

/// Of a batch of [places, windows] by line, the numbers about one of them: s64[batch].
Instruction* numbers(ir::Builder& b, const Line& l, const Dims& batch, std::int64_t first) {
  const auto part = [&](std::int64_t dim, std::int64_t by) {
    Instruction* i = b.iota(Shape(DType::s64, {batch[std::size_t(dim)]}), 0);
    i = b.binary(Opcode::multiply, i, b.splat(b.scalar(DType::s64, double(by)), i->shape.dims));
    return b.broadcast(i, batch, {dim});
  };
  Instruction* sum = b.binary(Opcode::add, part(first, l.steps), part(first + 1, l.apart));
  return b.binary(Opcode::add, sum, b.splat(b.scalar(DType::s64, double(l.base)), batch));
}

Instruction* vectors(ir::Builder& b, const std::vector<Line>& lines, const Dims& batch) {
  Dims with = batch;
  with.push_back(1);
  std::vector<Instruction*> parts;
  for (std::size_t k = 0; k < lines.size(); ++k) {
    parts.push_back(b.reshape(numbers(b, lines[k], batch, std::int64_t(2 * k)), with));
  }
  return parts.size() == 1 ? parts[0] : b.concatenate(parts, std::int64_t(batch.size()));
}

/// Features come first or last; the part that is wanted is all, a slice, or less padding.
TEST(CountedIndices, FoldWindowsAsScattersDo) {
  int expanded = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CountedCase c(seed);
    Random& r = c.r;
    ir::Builder& b = c.b;
    const std::size_t rank = 1 + std::size_t(r.below(2));
    const std::int64_t features = 30 + r.below(50);
    const bool first = r.chance(50);
    const DType t = r.chance(80) ? DType::f32 : DType::s32;
    std::vector<Line> lines;
    Dims array, batch;
    for (std::size_t k = 0; k < rank; ++k) {
      lines.push_back(random_line(r));
      array.push_back(lines[k].size);
      batch.push_back(lines[k].places);
      batch.push_back(lines[k].windows);
    }
    Dims updates = batch;
    updates.insert(first ? updates.begin() : updates.end(), features);
    array.insert(first ? array.begin() : array.end(), features);
    ir::ScatterAttrs s;
    for (std::size_t k = 0; k < rank; ++k)
      s.inserted_window_dims.push_back(std::int64_t(k + first));
    s.scatter_dims_to_operand_dims = s.inserted_window_dims;
    s.update_window_dims = {first ? 0 : std::int64_t(batch.size())};
    s.index_vector_dim = std::int64_t(batch.size());
    const Opcode op = r.chance(70) ? Opcode::add : Opcode::maximum;
    Instruction* out = b.emit(Opcode::scatter,
                              {b.parameter(0, Shape(t, array)), vectors(b, lines, batch),
                               b.parameter(1, Shape(t, updates))},
                              s, {ir::scalar_computation(&c.m, op, t)});
    const std::int64_t part = r.below(3);
    if (part == 1) {
      Dims starts(array.size(), 0), limits = array;
      for (std::size_t k = 0; k < rank; ++k) {
        starts[k + first] = r.below(lines[k].size);
        limits[k + first] = starts[k + first] + 1 + r.below(lines[k].size - starts[k + first]);
      }
      out = b.slice(out, starts, limits);
    } else if (part == 2) {
      std::vector<ir::PadDim> less(array.size());
      for (std::size_t k = 0; k < rank; ++k) {
        less[k + first].low = -r.below(std::min<std::int64_t>(2, lines[k].size));
      }
      out = b.pad(out, b.zero(t), less);
    }
    expanded += c.expands(out, Opcode::scatter) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(expanded, 200);
}

/// Every so many rows and columns are a slice, whatever else the windows have.
TEST(CountedIndices, SliceAsGathersDo) {
  int expanded = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CountedCase c(seed);
    Random& r = c.r;
    ir::Builder& b = c.b;
    Line row = random_line(r), column = random_line(r);
    row.places = column.places = 1;
    const Dims array = {row.size, 3, column.size};
    const bool turned = r.chance(40), repeats = r.chance(30);
    // Batch dims: rows, columns, and perhaps one that no number depends on.
    Dims batch = {row.windows, column.windows};
    if (turned) std::swap(batch[0], batch[1]);
    if (repeats) batch.push_back(2);
    const auto along = [&](const Line& l, std::int64_t dim) {
      Instruction* i = b.iota(Shape(DType::s32, batch), dim);
      i = b.binary(Opcode::multiply, i, b.splat(b.scalar(DType::s32, double(l.apart)), batch));
      i = b.binary(Opcode::add, i, b.splat(b.scalar(DType::s32, double(l.base)), batch));
      Dims with = batch;
      with.push_back(1);
      return b.reshape(i, with);
    };
    const auto rank = std::int64_t(batch.size());
    ir::GatherAttrs g;
    g.start_index_map = {0, 2};
    g.slice_sizes = {1, 3, 1};
    const bool collapses = r.chance(60);
    g.collapsed_slice_dims = collapses ? Dims{0, 2} : Dims{};
    g.offset_dims = collapses ? Dims{r.below(rank + 1)} : Dims{0, 1, rank + 2};
    g.index_vector_dim = rank;
    Instruction* at =
        b.concatenate({along(row, turned ? 1 : 0), along(column, turned ? 0 : 1)}, rank);
    Instruction* out = b.emit(Opcode::gather, {b.parameter(0, Shape(DType::f32, array)), at}, g);
    expanded += c.expands(out, Opcode::gather) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_EQ(expanded, 200);
}

}  // namespace
}  // namespace tessera::passes
