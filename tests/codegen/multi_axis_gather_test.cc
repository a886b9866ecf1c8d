// SPDX-License-Identifier: Apache-2.0
// Gathers along several mesh axes, done as one exchange.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/codegen/run_module.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kDevices = 8;

/// A parameter gathered along `dims` one after the other, each time over one more axis.
struct Row {
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>("row");
  std::vector<ir::Instruction*> gathers;

  Row(const Dims& shape, const Dims& dims) {
    module->num_partitions = kDevices;
    module->mesh = make_logical_mesh({{"x", 2}, {"y", 2}, {"z", 2}});
    ir::Computation* entry = module->add_computation("main");
    module->set_entry(entry);
    ir::Builder b(entry);
    ir::Instruction* x = b.parameter(0, Shape(DType::f32, shape));
    for (std::size_t k = 0; k < dims.size(); ++k) {
      x = b.all_gather(x, dims[k], ir::DeviceGroups::over(module->mesh, {int(k)}));
      gathers.push_back(x);
    }
    entry->set_root(x);
  }

  std::vector<std::vector<Literal>> arguments() const {
    const Shape& shape = module->entry()->parameter(0)->shape;
    std::vector<std::vector<Literal>> out;
    for (std::int64_t d = 0; d < kDevices; ++d) {
      std::vector<float> values(std::size_t(shape.element_count()));
      std::iota(values.begin(), values.end(), float(1000 * d));
      out.push_back({Literal(shape, {reinterpret_cast<const std::byte*>(values.data()),
                                     values.size() * sizeof(float)})});
    }
    return out;
  }
};

TEST(MultiAxisGather, HoldsOnlyTheSourceAndTheFullResult) {
  std::mt19937_64 engine(7);
  for (int n = 0; n < 200; ++n) {
    const auto below = [&](std::uint64_t k) { return std::int64_t(engine() % k); };
    const std::int64_t rank = 1 + below(4);
    Dims shape, dims;
    for (std::int64_t d = 0; d < rank; ++d) shape.push_back(1 + below(4));
    for (std::int64_t k = 0; k < 2 + below(2); ++k) dims.push_back(below(std::uint64_t(rank)));
    const Row row(shape, dims);
    ir::verify(*row.module);
    const codegen::BuiltPlan built = plan_of(*row.module);
    ASSERT_EQ(built.plan.entry.steps.size(), 1u);
    const auto args = row.arguments();
    runtime::RunCounters counters;
    const auto got = run_plan(*row.module, built.plan, args, &counters);
    const auto want = evaluator::evaluate_spmd(*row.module, args);
    for (std::int64_t d = 0; d < kDevices; ++d) {
      ASSERT_TRUE(got[std::size_t(d)][0] == want[std::size_t(d)]) << n << " device " << d;
    }
    const std::int64_t source = row.module->entry()->parameter(0)->shape.byte_count();
    const std::int64_t whole = source << dims.size();
    EXPECT_EQ(codegen::estimate_memory(built.plan, {}).peak, source + whole);
    const auto kind = std::size_t(runtime::Exchange::Kind::all_gather);
    EXPECT_EQ(counters.count[kind], std::int64_t(dims.size()));
    EXPECT_EQ(counters.bytes[kind], whole - source);
  }
}

TEST(MultiAxisGather, KeepsIntermediateResultsThatOthersRead) {
  Row row({4, 4}, {0, 1});
  ir::Builder b(row.module->entry());
  row.module->entry()->set_root(b.tuple({row.gathers[1], row.gathers[0]}));
  const codegen::BuiltPlan built = plan_of(*row.module);
  EXPECT_EQ(built.plan.entry.steps.size(), 2u);
  const auto args = row.arguments();
  const auto got = run_plan(*row.module, built.plan, args);
  const auto want = evaluator::evaluate_spmd(*row.module, args);
  EXPECT_TRUE(got[3][0] == want[3].elements()[0]);
  EXPECT_TRUE(got[3][1] == want[3].elements()[1]);
}

}  // namespace
}  // namespace tessera::testing
