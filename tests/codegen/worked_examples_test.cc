// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of views and liveness are true.
#include <gtest/gtest.h>

#include <vector>

#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/plan/liveness.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera::codegen {
namespace {

/// Gives the padding's scalar the number 1; the array is input 0.
class OneScalar : public ViewScalars {
 public:
  int input(const ir::Instruction&) override { return 1; }
};

const ir::Instruction& named(const ir::Module& module, const std::string& name) {
  for (const auto& i : module.entry()->instructions()) {
    if (i->name == name) return *i;
  }
  throw ValueError("no instruction " + name);
}

TEST(WorkedExamples, ViewsComposed) {
  const auto module = ir::parse_hlo(R"(HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  zero = f32[] constant(0)
  row = f32[1,3] slice(x), slice={[1:2], [0:3]}
  column = f32[3,1] transpose(row), dimensions={1,0}
  ROOT padded = f32[4,1] pad(column, zero), padding=1_0x0_0
})");
  OneScalar scalars;
  ComposedView m = ComposedView::identity(0, {2, 3});
  ASSERT_EQ(m.pieces.size(), 1u);
  const auto expect = [&](std::int64_t base, const Dims& origins, const Dims& sizes,
                          const Dims& strides) {
    const ComposedView::Piece& p = m.pieces.at(0);
    EXPECT_EQ(p.base, base);
    ASSERT_EQ(p.sides.size(), origins.size());
    for (std::size_t d = 0; d < origins.size(); ++d) {
      EXPECT_EQ(p.sides[d].origin, origins[d]) << d;
      EXPECT_EQ(p.sides[d].size, sizes[d]) << d;
      EXPECT_EQ(p.sides[d].stride, strides[d]) << d;
    }
  };
  expect(0, {0, 0}, {2, 3}, {3, 1});
  ASSERT_TRUE(apply_view(named(*module, "row"), 0, scalars, &m));
  const float x[] = {0, 1, 2, 10, 11, 12}, zero = 7;
  const std::byte* const inputs[] = {reinterpret_cast<const std::byte*>(x),
                                     reinterpret_cast<const std::byte*>(&zero)};
  std::vector<float> out(3);
  ResolvedView(m, inputs, 4).generate(0, 3, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out, (std::vector<float>{10, 11, 12}));
  ASSERT_TRUE(apply_view(named(*module, "column"), 0, scalars, &m));
  ASSERT_TRUE(apply_view(named(*module, "padded"), 0, scalars, &m));
  EXPECT_EQ(m.dims, (Dims{4, 1}));
  EXPECT_EQ(m.fill, 1);
  out.resize(4);
  ResolvedView(m, inputs, 4).generate(0, 4, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out, (std::vector<float>{7, 10, 11, 12}));
  m.simplify();
  EXPECT_EQ(m.dims, (Dims{4}));
  expect(3, {1}, {3}, {1});
}

runtime::Step task(std::vector<runtime::SlotId> inputs, runtime::SlotId output) {
  runtime::KernelTask task;
  for (int k = 0; k < int(inputs.size()); ++k) {
    runtime::KernelTask::Reuse reuse;
    reuse.input = k;
    task.reuse.push_back(reuse);
  }
  task.inputs = std::move(inputs);
  task.outputs = {output};
  runtime::Step step;
  step.what = std::move(task);
  return step;
}

TEST(WorkedExamples, LivenessOfAChain) {
  // Slots a, b, c, d of one size.
  runtime::Plan plan;
  plan.classes = {DeviceClasses::uniform(1)};
  plan.slots.assign(4, runtime::Slot{64, 0, 0});
  plan.parameters = {0};
  plan.results = {3};
  plan.entry.steps.push_back(task({0}, 1));
  plan.entry.steps.push_back(task({0, 1}, 2));
  plan.entry.steps.push_back(task({2}, 3));
  plan_memory(&plan);
  const auto reused = [&](std::size_t step) {
    std::vector<int> inputs;
    for (const auto& r : std::get<runtime::KernelTask>(plan.entry.steps[step].what).reuse) {
      EXPECT_TRUE(r.dies);
      inputs.push_back(r.input);
    }
    return inputs;
  };
  using Slots = std::vector<runtime::SlotId>;
  EXPECT_EQ(plan.entry.steps[0].release, Slots());
  EXPECT_EQ(reused(0), std::vector<int>());
  EXPECT_EQ(plan.entry.steps[1].release, (Slots{0, 1}));
  EXPECT_EQ(reused(1), (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.entry.steps[2].release, Slots{2});
  EXPECT_EQ(reused(2), std::vector<int>{0});
  // The argument is the caller's, unless it is donated.
  runtime::finalize(&plan);
  const MemoryEstimate kept = estimate_memory(plan, {}), donated = estimate_memory(plan, {0});
  EXPECT_EQ(kept.peak, 2 * 64);
  EXPECT_EQ(kept.reused, 0);
  EXPECT_EQ(donated.peak, 2 * 64);
  EXPECT_EQ(donated.reused, 64);
}

}  // namespace
}  // namespace tessera::codegen
