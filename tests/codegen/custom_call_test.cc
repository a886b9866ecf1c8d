// SPDX-License-Identifier: Apache-2.0
// Custom calls that JAX emits for linear algebra: its own programs and results, through the
// evaluator and through plans; forms of the older interface; what doesn't fit.
#include <numeric>

#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/passes/control/inline_calls.h"
#include "tests/codegen/random_case.h"
#include "tests/codegen/run_module.h"
#include "tests/support/fixtures.h"

namespace tessera::testing {
namespace {

class LinalgFixtures : public ::testing::TestWithParam<const char*> {};

TEST_P(LinalgFixtures, GiveWhatJaxGives) {
  codegen::register_builtin_custom_calls();
  const std::vector<FixtureCase> cases = read_fixtures(GetParam());
  ASSERT_GT(cases.size(), 3u);
  for (const FixtureCase& c : cases) {
    SCOPED_TRACE(c.name + " at " + c.file + ":" + std::to_string(c.line));
    try {
      const auto module = ir::parse_hlo(c.hlo, c.name);
      const std::vector<Literal> arguments = c.arrays();
      EXPECT_EQ(difference(evaluator::evaluate(*module, arguments), c), "") << "evaluated";
      ir::expand_custom_calls(module.get(), false);
      ir::expand_custom_calls(module.get(), true);
      passes::inline_calls(module.get());
      const codegen::BuiltPlan built = plan_of(*module);
      const std::vector<Literal> results = run_plan(*module, built.plan, {arguments})[0];
      EXPECT_EQ(difference(Literal::tuple(results), c), "") << "compiled";
      for (const std::string& op : built.evaluator_ops) {
        EXPECT_EQ(op.find("custom-call"), std::string::npos) << op;
        EXPECT_EQ(op.find("top_k"), std::string::npos) << op;
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LinalgFixtures,
                         ::testing::Values("linalg/linalg.txt", "linalg/linalg_older.txt"));

std::string sparse_product(const std::string& type, const std::string& index,
                           const std::string& dense) {
  return "HloModule m\nENTRY e {\n  d = " + type + "[4] parameter(0)\n  s = " + index +
         "[4] parameter(1)\n  c = " + index + "[4] parameter(2)\n  x = " + type + dense +
         " parameter(3)\n  ROOT r = " + type + dense +
         " custom-call(d, s, c, x), custom_call_target=\"cpu_csr_sparse_dense_ffi\", "
         "api_version=API_VERSION_TYPED_FFI\n}\n";
}

Literal product_of(const std::string& text, const std::vector<Literal>& arguments) {
  codegen::register_builtin_custom_calls();
  const auto module = ir::parse_hlo(text, "m");
  const Literal expected = evaluator::evaluate(*module, arguments);
  const codegen::BuiltPlan built = plan_of(*module);
  const Literal made = run_plan(*module, built.plan, {arguments})[0].at(0);
  EXPECT_EQ(made, expected);
  return made;
}

TEST(SparseProducts, RowsAreMultipliedOneByOne) {
  // [[5, 0, 0], [0, 0, 0], [2, 3, 4]]
  const auto f32 = [](const Dims& dims, std::vector<float> v) {
    return make_literal(DType::f32, dims, std::move(v));
  };
  const auto s32 = [](const Dims& dims, std::vector<std::int32_t> v) {
    return make_literal(DType::s32, dims, std::move(v));
  };
  const auto s64 = [](const Dims& dims, std::vector<std::int64_t> v) {
    return make_literal(DType::s64, dims, std::move(v));
  };
  const Literal data = f32({4}, {5, 2, 3, 4}), dense = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Literal starts = s32({4}, {0, 1, 1, 4}), columns = s32({4}, {0, 0, 1, 2});
  const std::string text = sparse_product("f32", "s32", "[3,2]");
  EXPECT_EQ(product_of(text, {data, starts, columns, dense}), f32({3, 2}, {5, 10, 0, 0, 31, 40}));
  EXPECT_EQ(product_of(sparse_product("s64", "s64", "[3]"),
                       {s64({4}, {5, 2, 3, 4}), s64({4}, {0, 1, 1, 4}), s64({4}, {0, 0, 1, 2}),
                        s64({3}, {1, -2, 3})}),
            s64({3}, {5, 0, 8}));
  for (const auto& [s, c] :
       {std::pair(starts, s32({4}, {0, 0, 3, 2})), std::pair(s32({4}, {0, 1, 1, 5}), columns),
        std::pair(s32({4}, {0, 2, 1, 4}), columns)}) {
    EXPECT_THROW(product_of(text, {data, s, c, dense}), ValueError);
  }
  // An error of the run: a call may stand where nothing runs it.
  const auto run = [](DType type, DType index, const Dims& rows) {
    const std::string text = sparse_product(std::string(name(type)), std::string(name(index)),
                                            rows[0] == 3 ? "[3,2]" : "[4,2]");
    const auto module = ir::parse_hlo(text, "m");
    const codegen::BuiltPlan built = plan_of(*module);
    const Literal indices(Shape(index, {4}));
    run_plan(*module, built.plan,
             {{Literal(Shape(type, {4})), indices, indices, Literal(Shape(type, rows))}});
  };
  EXPECT_THROW(run(DType::f16, DType::s32, {3, 2}), ShapeError);
  EXPECT_THROW(run(DType::f32, DType::u32, {3, 2}), ShapeError);
  EXPECT_THROW(run(DType::f32, DType::s32, {4, 2}), ShapeError);
}

/// A running sum of each row, by a kernel that says what its rows are, or doesn't.
class RunningSums : public ir::CustomCallTarget, public codegen::CallKernel {
 public:
  explicit RunningSums(bool says) : says_(says) {}
  codegen::PreparedCall prepare(const ir::Instruction& call) const override {
    codegen::PreparedCall out;
    out.units = call.shape.dims[0];
    out.nanoseconds = double(call.shape.element_count());
    out.may_throw = false;
    if (says_) out.access = codegen::Accesses::by_units({true});
    out.run = [width = call.shape.dims[1]](std::span<const BufferView> in,
                                           std::span<const MutableBufferView> result,
                                           std::int64_t begin, std::int64_t end) {
      const auto* x = static_cast<const float*>(in[0].bytes());
      auto* y = static_cast<float*>(result[0].bytes());
      for (std::int64_t r = begin; r < end; ++r) {
        std::partial_sum(x + r * width, x + (r + 1) * width, y + r * width);
      }
    };
    return out;
  }

 private:
  bool says_;
};

TEST(CustomCalls, ThatSayWhatTheirRowsAreBecomePartsOfChains) {
  for (const bool says : {true, false}) {
    const std::string name = says ? "test.running_sums" : "test.running_sums_of_all";
    const auto target = std::make_shared<RunningSums>(says);
    codegen::register_custom_call(name, target, target);
    const auto module = ir::parse_hlo(
        "HloModule m\n\nmax {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT m = "
        "f32[] "
        "maximum(a, b)\n}\n\nENTRY e {\n  x = f32[2048,512] parameter(0)\n  y = f32[2048,512] "
        "floor(x)\n  s = f32[2048,512] custom-call(y), custom_call_target=\"" +
            name +
            "\", api_version=API_VERSION_TYPED_FFI\n  l = f32[] constant(-inf)\n  "
            "ROOT r = f32[2048] reduce(s, l), dimensions={1}, to_apply=max\n}\n",
        "m");
    const codegen::BuiltPlan built = plan_of(*module);
    EXPECT_EQ(built.plan.entry.steps.size(), says ? 1u : 3u);
    Random r(7);
    const std::vector<Literal> arguments = {r.literal(DType::f32, {2048, 512})};
    EXPECT_EQ(run_plan(*module, built.plan, {arguments})[0].at(0),
              evaluator::evaluate(*module, arguments));
  }
}

}  // namespace
}  // namespace tessera::testing
