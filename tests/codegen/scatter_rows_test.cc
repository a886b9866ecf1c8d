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

}  // namespace
}  // namespace tessera::testing
