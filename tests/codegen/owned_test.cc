// SPDX-License-Identifier: Apache-2.0
// Plans own what they read: modules may be changed or destroyed once their plan is made.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "tests/codegen/run_module.h"

namespace tessera {
namespace {

using namespace tessera::testing;

/// The plan's results once its module was spoilt and dropped.
std::vector<std::vector<Literal>> run_without_module(
    const std::string& text, const std::vector<std::vector<Literal>>& args,
    const std::function<void(ir::Module&)>& spoil) {
  auto module = ir::parse_hlo(text);
  const codegen::BuiltPlan built = plan_of(*module);
  EXPECT_FALSE(built.evaluator_ops.empty());
  spoil(*module);
  module.reset();
  return run_plan(*ir::parse_hlo(text), built.plan, args);
}

TEST(Owned, KernelsOnTheEvaluatorKeepTheirInstruction) {
  constexpr const char* kText = R"(
ENTRY main {
  s = f16[3,3] parameter(0)
  ROOT c = f16[3,3] cholesky(s), lower=true
}
)";
  const Literal s = make_literal<float>(DType::f16, {3, 3}, {4, 2, 2, 2, 5, 3, 2, 3, 6});
  const auto want = evaluator::evaluate(*ir::parse_hlo(kText), std::vector<Literal>{s});
  const auto have = run_without_module(kText, {{s}}, [](ir::Module& m) {
    ir::Instruction* c = m.entry()->root();
    c->edit<ir::CholeskyAttrs>().lower = false;
    c->shape = Shape(DType::f64, {1});
  });
  EXPECT_EQ(have[0][0], want);
}

TEST(Owned, ReducersOfCollectivesAreKept) {
  constexpr const char* kText = R"(
HloModule m, num_partitions=2
combine {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] dot(a, b), lhs_contracting_dims={}, rhs_contracting_dims={}
}
ENTRY main {
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true, to_apply=combine
}
)";
  const auto at = [](float a, float b) { return make_literal<float>(DType::f32, {2}, {a, b}); };
  const auto have = run_without_module(kText, {{at(2, 3)}, {at(5, 7)}}, [](ir::Module& m) {
    for (const auto& c : m.computations()) {
      if (c.get() == m.entry()) continue;
      c->root()->attrs = {};
      c->root()->opcode = ir::Opcode::add;
    }
  });
  EXPECT_EQ(have[0][0], at(10, 21));
  EXPECT_EQ(have[1][0], at(10, 21));
}

}  // namespace
}  // namespace tessera
