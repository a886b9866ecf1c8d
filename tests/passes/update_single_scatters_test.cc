// SPDX-License-Identifier: Apache-2.0
// Scatters of one small window become updates of slices.
#include "src/passes/indexed/update_single_scatters.h"

#include <gtest/gtest.h>

#include <random>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

/// Compares results bit by bit.
bool updates(const std::string& text, const std::vector<Literal>& arguments) {
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  const bool any = testing::keeps_results(module.get(), arguments, update_single_scatters) > 0;
  for (const auto& i : module->entry()->instructions()) {
    EXPECT_FALSE(any && i->is(ir::Opcode::scatter));
  }
  return any;
}

std::string scatter(const std::string& combine, const std::string& window,
                    const std::string& attributes, const std::string& index = "s32[2]") {
  return "HloModule m\nf { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] " +
         combine + " }\nENTRY e { x = f32[5,4] parameter(0)\n at = " + index +
         " parameter(1)\n y = " + window +
         " parameter(2)\n ROOT out = f32[5,4] scatter(x, at, y), to_apply=f, " + attributes + "\n}";
}

Literal numbers(const Dims& dims, double first) {
  Literal out(Shape(DType::f32, dims));
  for (float& v : out.mutable_data<float>()) v = float(first++);
  return out;
}
Literal index(std::vector<std::int32_t> at) {
  Literal out(Shape(DType::s32, {std::int64_t(at.size())}));
  std::copy(at.begin(), at.end(), out.mutable_data<std::int32_t>().begin());
  return out;
}

TEST(SingleScatters, AreUpdatesOfSlicesInsideAndOutside) {
  for (const char* combine : {"add(a, b)", "subtract(b, a)", "maximum(a, b)", "copy(b)"}) {
    for (std::int32_t i = -2; i <= 6; ++i) {
      for (std::int32_t k = -2; k <= 5; ++k) {
        EXPECT_TRUE(updates(scatter(combine, "f32[]",
                                    "update_window_dims={}, inserted_window_dims={0,1}, "
                                    "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0"),
                            {numbers({5, 4}, 1), index({i, k}), numbers({}, 50)}))
            << combine << " at " << i << ", " << k;
        // A window, and dims in another order.
        EXPECT_TRUE(updates(scatter(combine, "f32[2,3]",
                                    "update_window_dims={0,1}, inserted_window_dims={}, "
                                    "scatter_dims_to_operand_dims={1,0}, index_vector_dim=0"),
                            {numbers({5, 4}, 1), index({i, k}), numbers({2, 3}, 50)}))
            << combine << " at " << i << ", " << k;
      }
      EXPECT_TRUE(updates(scatter(combine, "f32[1,4]",
                                  "update_window_dims={1}, inserted_window_dims={0}, "
                                  "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
                                  "s32[1]"),
                          {numbers({5, 4}, 1), index({i}), numbers({1, 4}, 50)}))
          << combine << " at row " << i;
    }
  }
}

TEST(SingleScatters, SeveralWindowsStay) {
  EXPECT_FALSE(updates(scatter("add(a, b)", "f32[2,4]",
                               "update_window_dims={1}, inserted_window_dims={0}, "
                               "scatter_dims_to_operand_dims={0}, index_vector_dim=1",
                               "s32[2]"),
                       {numbers({5, 4}, 1), index({1, 1}), numbers({2, 4}, 50)}));
}

}  // namespace
}  // namespace tessera::passes
