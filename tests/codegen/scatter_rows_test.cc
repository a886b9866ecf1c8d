// SPDX-License-Identifier: Apache-2.0
// Scatters of rows at one index each: workers that have ranges of the result find their own rows
// among all indices, by the instructions of each set.
#include <cstring>
#include <limits>

#include "src/codegen/kernels/indexed/indices_in_range.h"
#include "src/codegen/kernels/indexed/scatter.h"
#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/reductions/segment_sums.h"
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

using codegen::InstructionSet;

class ScatterRows : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { codegen::limit_instruction_set(GetParam()); }
  void TearDown() override { codegen::limit_instruction_set(InstructionSet::avx512); }
};

/// Indices near the array's ends, and where what is reckoned with them overflows.
template <class Index>
Index random_index(Random& r, std::int64_t rows) {
  if (r.chance(0.02)) return std::numeric_limits<Index>::min();
  if (r.chance(0.02)) return std::numeric_limits<Index>::max();
  return Index(r.chance(0.3) ? r.below(3) : r.below(rows + 6) - 3);
}
template <class Index>
void fill(Random& r, std::int64_t rows, Literal* indices) {
  for (auto& v : indices->mutable_data<Index>()) v = random_index<Index>(r, rows);
}

TEST_P(ScatterRows, AreWhatTheEvaluatorGivesHoweverTheyAreSplit) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::s32,  DType::s64,
                                    DType::s8,  DType::c64, DType::bf16, DType::pred};
  const std::vector<Opcode> ops = {Opcode::add, Opcode::minimum, Opcode::maximum};
  for (std::uint64_t seed = 0; seed < 90; ++seed) {
    Random r(seed);
    const DType t = r.pick(types), index_type = r.chance(0.7) ? DType::s32 : DType::s64;
    const std::int64_t rows = 1 + r.below(r.chance(0.5) ? 12 : 300), count = 1 + r.below(3000);
    const std::int64_t length = r.pick(std::vector<std::int64_t>{1, 1, 1, 2, 3, 4, 8, 16, 40});
    Literal indices(Shape(index_type, {count, 1}));
    index_type == DType::s32 ? fill<std::int32_t>(r, rows, &indices)
                             : fill<std::int64_t>(r, rows, &indices);
    Program p;
    ir::ScatterAttrs s;
    s.index_vector_dim = 1;
    s.update_window_dims = {1};
    s.inserted_window_dims = {0};
    s.scatter_dims_to_operand_dims = {0};
    ir::Computation* c = nullptr;
    if (t == DType::pred || r.chance(0.3)) {
      c = p.module.add_computation("assign");
      ir::Builder cb(c);
      cb.parameter(0, Shape(t, {}));
      c->set_root(cb.parameter(1, Shape(t, {})));
    } else {
      c = ir::scalar_computation(&p.module, t == DType::c64 ? Opcode::add : r.pick(ops), t);
    }
    Literal array = r.literal(t, {rows, length}, true),
            updates = r.literal(t, {count, length}, true);
    Instruction* const scatter = p.b.emit(
        Opcode::scatter, {p.argument(array), p.argument(indices), p.argument(updates)}, s, {c});
    p.entry->set_root(scatter);
    const DescribeFailure what(
        [&] { return "seed " + std::to_string(seed) + "\n" + ir::to_string(p.module); });
    const Literal want = evaluator::evaluate(p.module, p.arguments);
    const codegen::KernelDescriptor descriptor = codegen::scatter_kernel(*scatter);
    ASSERT_TRUE(descriptor.make);
    const runtime::Kernel kernel = descriptor.make();
    const std::byte* const inputs[] = {array.bytes(), indices.bytes(), updates.bytes()};
    for (int times = 0; times < 3; ++times) {
      Literal got = array;
      std::byte* const outputs[] = {got.mutable_bytes()};
      for (std::int64_t begin = 0; begin < descriptor.units;) {
        const std::int64_t end =
            times == 0 ? descriptor.units : begin + 1 + r.below(descriptor.units - begin);
        kernel.function({kernel.attributes.get(), inputs, outputs, begin, end});
        begin = end;
      }
      EXPECT_EQ(difference(got, want, Program::tolerance(t, 1)), "");
    }
  }
}

TEST_P(ScatterRows, PlacesInRangeAreAllThatThereAre) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random r(seed);
    const auto count = std::uint32_t(r.below(130));
    const std::int64_t step = r.chance(0.7) ? 1 : 1 + r.below(3);
    // Arrays may have more rows than an index can name.
    const std::int64_t rows = r.chance(0.2) ? std::int64_t(5) << 30 : 1 + r.below(50);
    const std::int64_t first = r.below(rows), last = first + 1 + r.below(rows - first);
    std::vector<std::int32_t> at(std::size_t(count * step) + 1);
    for (auto& v : at) v = random_index<std::int32_t>(r, std::min<std::int64_t>(rows, 1 << 30));
    std::vector<std::uint32_t> want, got(count + codegen::kPlacesBeyond);
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::int64_t v = at[std::size_t(k * step)];
      if (v >= first && v < last) want.push_back(k);
    }
    got.resize(codegen::indices_in_range<std::int32_t>(step)(at.data(), step, count, first, last,
                                                             got.data()));
    EXPECT_EQ(got, want) << first << " " << last;
    const std::vector<std::int64_t> wide(at.begin(), at.end());
    got.resize(count + codegen::kPlacesBeyond);
    got.resize(codegen::indices_in_range<std::int64_t>(step)(wide.data(), step, count, first, last,
                                                             got.data()));
    EXPECT_EQ(got, want) << first << " " << last;
  }
}

TEST(SegmentSums, AreWhatTheEvaluatorGivesInAnyNumberOfDims) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random r(seed);
    const auto some = [&](std::int64_t most) {
      Dims out;
      for (std::int64_t n = 1 + r.below(most); n > 0; --n) out.push_back(1 + r.below(5));
      return out;
    };
    const std::int64_t entries = 1 + r.below(9);
    Dims table = some(3), updates = table, batch = some(2);
    batch.push_back(1 + r.below(20));
    ir::ScatterAttrs s;
    s.index_vector_dim = std::int64_t(batch.size());
    for (std::size_t d = 0; d < table.size(); ++d) s.update_window_dims.push_back(std::int64_t(d));
    s.inserted_window_dims = s.scatter_dims_to_operand_dims = {std::int64_t(table.size())};
    updates.insert(updates.end(), batch.begin(), batch.end());
    table.push_back(entries);
    Literal indices(Shape(DType::s32, batch)), added = r.literal(DType::f32, updates, true);
    fill<std::int32_t>(r, entries, &indices);
    Program p;
    Instruction* const scatter =
        p.b.emit(Opcode::scatter,
                 {p.b.splat(p.b.zero(DType::f32), table), p.argument(indices), p.argument(added)},
                 s, {ir::scalar_computation(&p.module, Opcode::add, DType::f32)});
    p.entry->set_root(scatter);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ir::to_string(p.module));
    const codegen::KernelDescriptor descriptor = codegen::segment_sums_kernel(*scatter);
    ASSERT_TRUE(descriptor.make);
    const runtime::Kernel kernel = descriptor.make();
    const std::byte* const inputs[] = {added.bytes(), indices.bytes()};
    Literal got(scatter->shape);
    std::byte* const outputs[] = {got.mutable_bytes()};
    const std::int64_t half = descriptor.units / 2;
    kernel.function({kernel.attributes.get(), inputs, outputs, half, descriptor.units});
    kernel.function({kernel.attributes.get(), inputs, outputs, 0, half});
    EXPECT_EQ(difference(got, evaluator::evaluate(p.module, p.arguments),
                         Program::tolerance(DType::f32, 1)),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, ScatterRows,
                         ::testing::Values(InstructionSet::baseline, InstructionSet::avx2,
                                           InstructionSet::avx512));

/// rows of `array` at `indices` are changed by rows that a loop makes of rows of a table.
struct UpdatedRows {
  Program p;
  Instruction *array = nullptr, *updates = nullptr, *scatter = nullptr;
  bool adds_zeros = false;

  UpdatedRows(Random& r, DType t, std::int64_t count, bool reads_array) {
    const std::int64_t rows = 1 + r.below(500), width = 128 + r.below(100);
    ir::Builder& b = p.b;
    Literal at(Shape(DType::s32, {count, 1}));
    // Neighbours, some that repeat, and some that are outside.
    for (auto& v : at.mutable_data<std::int32_t>()) {
      v = std::int32_t(r.chance(0.2) ? r.below(3) : r.below(rows + 4) - 2);
    }
    Instruction* const indices = p.argument(std::move(at));
    adds_zeros = r.chance(0.5) && !reads_array;
    array = adds_zeros ? b.splat(b.zero(t), {rows, width})
                       : p.argument(r.literal(t, {rows, width}, true));
    Instruction* const table = reads_array ? array : p.argument(r.literal(t, {rows, width}, true));
    ir::GatherAttrs g;
    g.index_vector_dim = 1;
    g.offset_dims = {1};
    g.collapsed_slice_dims = g.start_index_map = {0};
    g.slice_sizes = {1, width};
    Instruction* const read = b.emit(Opcode::gather, {table, indices}, g);
    updates = b.binary(Opcode::multiply, read, b.binary(Opcode::add, read, read));
    ir::ScatterAttrs s;
    s.index_vector_dim = 1;
    s.update_window_dims = {1};
    s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
    const std::vector<Opcode> ops = {Opcode::add, Opcode::maximum, Opcode::multiply};
    const Opcode op = r.pick(ops);
    ir::Computation* const c =
        ir::scalar_computation(&p.module, is_complex(t) ? Opcode::add : op, t);
    scatter = b.emit(Opcode::scatter, {array, indices, updates}, s, {c});
  }
  std::size_t steps() const { return plan_of(p.module).plan.entry.steps.size(); }
};

TEST(MadeUpdates, AreThoseThatStoodInMemory) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::s32};
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random r(seed), again(seed);
    const DType t = types[seed % types.size()];
    const std::int64_t count = 2100 + std::int64_t(seed) * 37;
    UpdatedRows a(r, t, count, false);
    a.p.check(a.scatter, seed);
    EXPECT_EQ(a.steps(), a.adds_zeros ? 2 : 1) << ir::to_string(a.p.module);
    // Bits don't depend on it: where something else reads the updates, they are held.
    UpdatedRows held(again, t, count, false);
    held.p.entry->set_root(held.p.b.tuple({held.scatter, held.updates}));
    EXPECT_EQ(held.steps(), held.adds_zeros ? 3 : 2) << ir::to_string(held.p.module);
    const Literal made = run_module(a.p.module, a.p.arguments)[0],
                  stood = run_module(held.p.module, held.p.arguments)[0];
    ASSERT_EQ(made.byte_count(), stood.byte_count());
    EXPECT_EQ(std::memcmp(made.bytes(), stood.bytes(), made.byte_count()), 0) << "seed " << seed;
  }
}

TEST(MadeUpdates, OfWhatIsChangedStandInMemory) {
  Random r(7);
  UpdatedRows a(r, DType::f32, 3000, true);
  a.p.check(a.scatter, 7);
  EXPECT_EQ(a.steps(), 2) << ir::to_string(a.p.module);
}

TEST(MadeUpdates, OfComplexNumbersStandInMemory) {
  Random r(3);
  UpdatedRows a(r, DType::c64, 2500, false);
  a.p.entry->set_root(a.scatter);
  EXPECT_EQ(a.steps(), a.adds_zeros ? 3 : 2) << ir::to_string(a.p.module);
}

TEST(MadeUpdates, OfFewBytesStandInMemory) {
  Random r(1);
  UpdatedRows a(r, DType::f32, 500, false);
  a.p.check(a.scatter, 1);
  EXPECT_EQ(a.steps(), a.adds_zeros ? 3 : 2) << ir::to_string(a.p.module);
}

}  // namespace
}  // namespace tessera::testing
