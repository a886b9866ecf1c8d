// SPDX-License-Identifier: Apache-2.0
// Gathers of any kind as reads at an index, alone and inside loops that make and use them; scatters
// with one index for each row.
#include "src/passes/indexed/flatten_gathers.h"

#include "src/base/contains.h"
#include "src/codegen/kernels/indexed/gather.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/indexed/flatten_scatters.h"
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

struct RandomGather {
  Dims array, indices;
  ir::GatherAttrs attrs;
};

/// Each dim of the array is one of a batch, collapsed, or the windows'; the result has its dims in
/// any places.
RandomGather random_gather(Random& r, const Dims& batch) {
  RandomGather out;
  ir::GatherAttrs& g = out.attrs;
  const std::int64_t rank = 1 + r.below(4);
  Dims mapped;
  std::vector<std::int64_t> free_batch(batch.size());
  std::iota(free_batch.begin(), free_batch.end(), 0);
  std::int64_t windows = 0;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t size = 1 + r.below(6);
    if (!free_batch.empty() && r.chance(0.2)) {
      const auto k = std::size_t(r.below(std::int64_t(free_batch.size())));
      out.array.push_back(batch[std::size_t(free_batch[k])]);
      g.operand_batching_dims.push_back(d);
      g.start_indices_batching_dims.push_back(free_batch[k]);
      free_batch.erase(free_batch.begin() + std::ptrdiff_t(k));
      g.slice_sizes.push_back(std::min<std::int64_t>(1, out.array.back()));
      continue;
    }
    out.array.push_back(size);
    if (r.chance(0.7)) mapped.push_back(d);
    if (r.chance(0.5)) {
      g.collapsed_slice_dims.push_back(d);
      g.slice_sizes.push_back(1);
    } else {
      g.slice_sizes.push_back(1 + r.below(size));
      ++windows;
    }
  }
  std::shuffle(mapped.begin(), mapped.end(), r.engine);
  g.start_index_map = mapped;
  // The windows' dims, anywhere among the batch's.
  Dims places(batch.size() + std::size_t(windows));
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), r.engine);
  g.offset_dims.assign(places.begin(), places.begin() + std::ptrdiff_t(windows));
  std::sort(g.offset_dims.begin(), g.offset_dims.end());
  // Index vectors stand in any dim, or are numbers.
  out.indices = batch;
  g.index_vector_dim = std::int64_t(batch.size());
  if (mapped.size() != 1 || r.chance(0.7)) {
    g.index_vector_dim = r.below(std::int64_t(batch.size()) + 1);
    out.indices.insert(out.indices.begin() + std::ptrdiff_t(g.index_vector_dim),
                       std::int64_t(mapped.size()));
    for (std::int64_t& d : g.start_indices_batching_dims) d += d >= g.index_vector_dim ? 1 : 0;
  }
  return out;
}

/// Windows of whole rows, or of single elements, that come last in the result.
void make_rows(Random& r, const Dims& batch, RandomGather* g) {
  for (std::size_t d = 0; d < g->array.size(); ++d) {
    g->attrs.slice_sizes[d] = std::min<std::int64_t>(1, g->array[d]);
  }
  for (auto d = std::int64_t(g->array.size()) - 1; d >= 0 && r.chance(0.6); --d) {
    if (contains(g->attrs.collapsed_slice_dims, d) || contains(g->attrs.start_index_map, d) ||
        contains(g->attrs.operand_batching_dims, d)) {
      break;
    }
    g->attrs.slice_sizes[std::size_t(d)] = g->array[std::size_t(d)];
  }
  if (r.chance(0.5)) {
    // Behind those of the batch.
    for (std::size_t k = 0; k < g->attrs.offset_dims.size(); ++k) {
      g->attrs.offset_dims[k] = std::int64_t(batch.size() + k);
    }
  }
}

Literal random_indices(Random& r, DType t, const Dims& dims) {
  Literal out(Shape(t, dims));
  dispatch_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      for (T& v : out.mutable_data<T>()) {
        v = r.chance(0.02) ? std::numeric_limits<T>::max() : T(r.below(9) - 2);
      }
    }
  });
  return out;
}

TEST(ElementGathers, AreTheGathersTheyWere) {
  const std::vector<DType> index_types = {DType::s32, DType::s32, DType::u32, DType::s64,
                                          DType::s8,  DType::u8,  DType::u64};
  std::size_t flattened = 0;
  for (std::uint64_t seed = 0; seed < 2 * kPrograms; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(kTypes), index_type = r.pick(index_types);
    const Dims batch = r.chance(0.1) ? Dims{2500} : r.dims(r.below(3), 9);
    RandomGather g = random_gather(r, batch);
    if (r.chance(0.3)) make_rows(r, batch, &g);
    Instruction* array = p.argument(r.literal(t, g.array));
    Instruction* at = p.argument(random_indices(r, index_type, g.indices));
    if (r.chance(0.5))
      at = p.b.binary(Opcode::minimum, at, p.b.splat(p.b.scalar(index_type, 3), g.indices));
    Instruction* out = p.b.emit(Opcode::gather, {array, at}, g.attrs);
    std::vector<Instruction*> results;
    if (r.chance(0.3)) results.push_back(out);
    if (t == DType::f32 && r.chance(0.6)) out = p.b.unary(Opcode::negate, out);
    if (t == DType::f32 && r.chance(0.4) && out->shape.rank() > 0) {
      const Dims reduced = {r.below(out->shape.rank())};
      out = p.b.reduce(out, p.b.scalar(t, 0), reduced,
                       ir::scalar_computation(&p.module, Opcode::add, t));
    }
    results.push_back(out);
    Instruction* root = p.b.tuple(results);
    p.entry->set_root(root);
    const Literal want = evaluator::evaluate(p.module, p.arguments);
    const DescribeFailure what(
        [&] { return "seed " + std::to_string(seed) + "\n" + ir::to_string(p.module); });
    flattened += passes::flatten_gathers(&p.module);
    ir::verify(p.module);
    expect_results(p.module, p.arguments, want, 10);
  }
  EXPECT_GT(flattened, kPrograms / 2);
}

/// Along a dim in the middle, by indices of any number of dims.
TEST(LayerGathers, AreWhatTheEvaluatorGivesHoweverTheyAreSplit) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(kTypes), index_type = r.pick(std::vector{DType::s32, DType::s64});
    const Dims layers = r.dims(1 + r.below(2), 4), rest = r.dims(r.below(3), 7);
    const Dims batch = r.dims(1 + r.below(2), 9);
    Dims array = layers;
    ir::GatherAttrs g;
    g.start_index_map = {std::int64_t(layers.size())};
    if (r.chance(0.5)) g.collapsed_slice_dims = g.start_index_map;
    array.push_back(1 + r.below(6));
    array.insert(array.end(), rest.begin(), rest.end());
    g.slice_sizes = array;
    g.slice_sizes[layers.size()] = 1;
    g.index_vector_dim = std::int64_t(batch.size());
    for (std::size_t d = 0; d < layers.size(); ++d) g.offset_dims.push_back(std::int64_t(d));
    // A window's own dim of one is anywhere behind the layers.
    const std::size_t behind = rest.size() + (g.collapsed_slice_dims.empty() ? 1 : 0);
    for (std::size_t d = 0; d < behind; ++d) {
      g.offset_dims.push_back(std::int64_t(layers.size() + batch.size() + d));
    }
    Literal x = r.literal(t, array), at = random_indices(r, index_type, batch);
    Instruction* const gather = p.b.emit(Opcode::gather, {p.argument(x), p.argument(at)}, g);
    p.entry->set_root(gather);
    const Literal want = evaluator::evaluate(p.module, p.arguments);
    const DescribeFailure what(
        [&] { return "seed " + std::to_string(seed) + "\n" + ir::to_string(p.module); });
    const codegen::KernelDescriptor descriptor = codegen::gather_kernel(*gather);
    if (gather->shape.element_count() == 0) continue;
    if (element_count(layers) > 1) {
      EXPECT_EQ(std::string(descriptor.label->name), "gather/layers");
    }
    const runtime::Kernel kernel = descriptor.make();
    const std::byte* const inputs[] = {x.bytes(), at.bytes()};
    Literal got(gather->shape);
    std::byte* const outputs[] = {got.mutable_bytes()};
    for (std::int64_t begin = 0; begin < descriptor.units;) {
      const std::int64_t end = begin + 1 + r.below(descriptor.units - begin);
      kernel.function({kernel.attributes.get(), inputs, outputs, begin, end});
      begin = end;
    }
    EXPECT_EQ(difference(got, want, Tolerance{}), "");
  }
}

/// What a gather with these attributes gives has the updates' dims.
TEST(ElementScatters, AreTheScattersTheyWere) {
  std::size_t flattened = 0;
  for (std::uint64_t seed = 0; seed < 2 * kPrograms; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(std::vector<DType>{DType::s32, DType::u8, DType::f32, DType::c64});
    const DType index_type = r.pick(
        std::vector<DType>{DType::s32, DType::u32, DType::s64, DType::s8, DType::u8, DType::u64});
    const Dims batch = r.chance(0.1) ? Dims{2500} : r.dims(r.below(3), 9);
    RandomGather g = random_gather(r, batch);
    const bool rows = r.chance(0.7);
    if (rows) make_rows(r, batch, &g);
    Instruction* array = p.argument(r.literal(t, g.array));
    Instruction* at = p.argument(random_indices(r, index_type, g.indices));
    const Shape updates = p.b.emit(Opcode::gather, {array, at}, g.attrs)->shape;
    ir::ScatterAttrs s;
    s.update_window_dims = g.attrs.offset_dims;
    s.inserted_window_dims = g.attrs.collapsed_slice_dims;
    s.scatter_dims_to_operand_dims = g.attrs.start_index_map;
    s.input_batching_dims = g.attrs.operand_batching_dims;
    s.scatter_indices_batching_dims = g.attrs.start_indices_batching_dims;
    s.index_vector_dim = g.attrs.index_vector_dim;
    ir::Computation* combiner = ir::scalar_computation(&p.module, Opcode::add, t);
    if (r.chance(0.4)) {
      combiner = p.module.add_computation("last");
      ir::Builder b(combiner);
      b.parameter(0, Shape(t, {}));
      combiner->set_root(b.parameter(1, Shape(t, {})));
    }
    p.entry->set_root(p.b.emit(Opcode::scatter, {array, at, p.argument(r.literal(t, updates.dims))},
                               s, {combiner}));
    p.entry->remove_dead();
    const Literal want = evaluator::evaluate(p.module, p.arguments);
    const DescribeFailure what(
        [&] { return "seed " + std::to_string(seed) + "\n" + ir::to_string(p.module); });
    flattened += passes::flatten_scatters(&p.module);
    ir::verify(p.module);
    expect_results(p.module, p.arguments, want, 1000);
  }
  EXPECT_GT(flattened, kPrograms / 4);
}

/// One loop makes the indices, takes the elements and uses them: nothing else is held.
TEST(ElementGathers, AreFusedWithWhatMakesAndUsesThem) {
  Program p;
  Random r(1);
  const std::int64_t n = 5000;
  Instruction* array = p.argument(r.literal(DType::f32, {40, 30}));
  Instruction* x = p.argument(random_indices(r, DType::s32, {n}));
  Instruction* y = p.argument(random_indices(r, DType::s32, {n}));
  const auto column = [&](Instruction* i) {
    return p.b.reshape(p.b.binary(Opcode::multiply, i, i), {n, 1});
  };
  ir::GatherAttrs g;
  g.collapsed_slice_dims = g.start_index_map = {0, 1};
  g.slice_sizes = {1, 1};
  g.index_vector_dim = 1;
  Instruction* taken =
      p.b.emit(Opcode::gather, {array, p.b.concatenate({column(x), column(y)}, 1)}, g);
  p.entry->set_root(p.b.binary(Opcode::add, taken, p.b.unary(Opcode::negate, taken)));
  EXPECT_EQ(passes::flatten_gathers(&p.module), 1U);
  codegen::BuiltPlan built = codegen::plan_program(p.module).built;
  EXPECT_EQ(built.plan.entry.steps.size(), 1U);
}

/// Windows that overlap, found by indices that are counted: read in loops and reductions, through
/// what moves their elements.
TEST(ElementGathers, AtCountedPlacesAreReads) {
  std::size_t flattened = 0;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.chance(0.6) ? DType::f32 : r.pick(kTypes);
    // Features, then by dim: places in a window and windows.
    const std::int64_t features = 1 + r.below(4), dims = 1 + r.below(2);
    Dims array = {features}, batch;
    ir::GatherAttrs g;
    for (std::int64_t d = 0; d < dims; ++d) {
      batch.push_back(1 + r.below(4));
      batch.push_back(r.chance(0.5) ? 1 + r.below(8) : 14 + r.below(30));
      g.collapsed_slice_dims.push_back(d + 1);
    }
    g.start_index_map = g.collapsed_slice_dims;
    g.slice_sizes = Dims(std::size_t(dims) + 1, 1);
    g.slice_sizes[0] = features;
    g.offset_dims = {r.chance(0.7) ? 0 : std::int64_t(batch.size())};
    g.index_vector_dim = std::int64_t(batch.size());
    std::vector<Instruction*> parts;
    for (std::int64_t d = 0; d < dims; ++d) {
      const std::int64_t apart = 1 + r.below(3), steps = 1 + r.below(2), base = r.below(3);
      const auto part = [&](std::int64_t dim, std::int64_t by) {
        Instruction* i = p.b.iota(Shape(DType::s64, batch), dim);
        return p.b.binary(Opcode::multiply, i,
                          p.b.splat(p.b.scalar(DType::s64, double(by)), batch));
      };
      Instruction* at = p.b.binary(Opcode::add, part(2 * d, steps), part(2 * d + 1, apart));
      at = p.b.binary(Opcode::add, at, p.b.splat(p.b.scalar(DType::s64, double(base)), batch));
      Dims one = batch;
      one.push_back(1);
      parts.push_back(p.b.reshape(at, one));
      array.push_back(base + (batch[std::size_t(2 * d)] - 1) * steps +
                      (batch[std::size_t(2 * d + 1)] - 1) * apart + 1 + r.below(3));
    }
    Instruction* at = parts.size() == 1 ? parts[0] : p.b.concatenate(parts, g.index_vector_dim);
    Instruction* out = p.b.emit(Opcode::gather, {p.argument(r.literal(t, array)), at}, g);
    std::vector<Instruction*> results;
    if (r.chance(0.3)) results.push_back(out);
    if (r.chance(0.4)) out = p.b.transpose(out, r.permutation(out->shape.rank()));
    if (r.chance(0.3)) {
      Dims starts(out->shape.dims.size(), 0), limits = out->shape.dims;
      const auto d = std::size_t(r.below(out->shape.rank()));
      starts[d] = r.below(limits[d]);
      out = p.b.slice(out, starts, limits);
    }
    if (r.chance(0.3)) out = p.b.reshape(out, {out->shape.element_count()});
    if (t == DType::f32 && r.chance(0.5)) out = p.b.unary(Opcode::exponential, out);
    if (t == DType::f32 && r.chance(0.6)) {
      out = p.b.reduce(out, p.b.scalar(t, 0), {r.below(out->shape.rank())},
                       ir::scalar_computation(&p.module, Opcode::add, t));
    }
    results.push_back(out);
    p.entry->set_root(p.b.tuple(results));
    flattened += passes::flatten_gathers(&p.module);
    ir::verify(p.module);
    p.check(p.entry->root(), seed, 100);
    if (HasFailure()) return;
  }
  EXPECT_GT(flattened, kPrograms / 2);
}

/// Nothing but the array is read, and nothing else is held.
TEST(ElementGathers, AtCountedPlacesNeedNoIndices) {
  Program p;
  Random r(1);
  const std::int64_t n = 4000, places = 5;
  const Dims all = {places, n};
  Instruction* array = p.argument(r.literal(DType::f32, {n + places}));
  Instruction* at = p.b.binary(Opcode::add, p.b.iota(Shape(DType::s32, all), 0),
                               p.b.iota(Shape(DType::s32, all), 1));
  ir::GatherAttrs g;
  g.collapsed_slice_dims = g.start_index_map = {0};
  g.slice_sizes = {1};
  g.index_vector_dim = 2;
  Instruction* taken = p.b.emit(Opcode::gather, {array, at}, g);
  p.entry->set_root(p.b.reduce(p.b.unary(Opcode::exponential, taken), p.b.scalar(DType::f32, 0),
                               {0}, ir::scalar_computation(&p.module, Opcode::add, DType::f32)));
  const codegen::BuiltPlan built = codegen::plan_program(p.module).built;
  ASSERT_EQ(built.plan.entry.steps.size(), 1U);
  EXPECT_EQ(built.plan.slots.size(), 3U);  // with the number that sums begin at
}

}  // namespace
}  // namespace tessera::testing
