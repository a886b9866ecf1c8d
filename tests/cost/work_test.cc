// SPDX-License-Identifier: Apache-2.0
// Each op has the work that its row of the op table says.
#include "src/cost/work.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "src/cost/collectives.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera::testing {
namespace work_test {

using ir::Opcode;

TEST(Work, AgreesWithTheOpTable) {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/tests/ir/data/all_ops.hlo");
  std::stringstream text;
  text << in.rdbuf();
  const auto module = ir::parse_hlo(text.str(), "all_ops.hlo");
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      SCOPED_TRACE(i->describe());
      EXPECT_EQ(cost::flops(*i, 8) > 0, ir::info(i->opcode).work != ir::Work::none);
      EXPECT_EQ(cost::received_bytes(*i, 8) > 0, cost::communicates(*i));
      EXPECT_GE(cost::layout_work(*i), cost::flops(*i, 1));
    }
  }
}

TEST(Work, IsCountedByItsKind) {
  const auto module = ir::parse_hlo(R"(
HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[2,8,8] parameter(0)
  b = f32[2,8,3] parameter(1)
  z = f32[] parameter(2)
  dot = f32[2,8,3] dot(x, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  sum = f32[2,8] reduce(x, z), dimensions={2}, to_apply=add
  window = f32[2,8,6] reduce-window(x, z), window={size=1x1x3}, to_apply=add
  sorted = f32[2,8,8] sort(x), dimensions={2}, to_apply=less
  factors = f32[2,8,8] cholesky(x)
  solved = f32[2,8,3] triangular-solve(x, b), left_side=true
  waves = c64[2,8,5] fft(x), fft_type=RFFT, fft_length={8}
  turned = f32[8,2,8] transpose(x), dimensions={1,0,2}
  ROOT sine = f32[2,8,8] sine(x)
})",
                                    "flops.hlo");
  std::map<std::string, double> of;
  for (const auto& i : module->entry()->instructions()) of[i->name] = cost::flops(*i, 1);
  EXPECT_EQ(of["dot"], 2 * 2 * 8 * 3 * 8);
  EXPECT_EQ(of["sum"], 128);
  EXPECT_EQ(of["window"], 96 * 2);
  EXPECT_EQ(of["sorted"], 128 * 3);
  EXPECT_DOUBLE_EQ(of["factors"], 2 * 8 * 8 * 8 / 3.0);
  EXPECT_EQ(of["solved"], 2 * 8 * 8 * 3);
  EXPECT_EQ(of["waves"], 5 * 128 * 3);
  EXPECT_EQ(of["turned"], 0);
  EXPECT_EQ(of["sine"], 128);
}

TEST(Work, OuterProductsAreElementwise) {
  const auto module = ir::parse_hlo(R"(HloModule m
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[16] parameter(1)
  x = f32[8,16] dot(a, b), lhs_contracting_dims={}, rhs_contracting_dims={}
  ROOT r = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
})");
  const ir::Instruction* root = module->entry()->root();
  EXPECT_EQ(cost::dot_flops(*root), 2 * 8 * 8 * 16);
  EXPECT_EQ(cost::dot_flops(*root->operand(0)), 0);
  EXPECT_EQ(cost::contraction_flops(*root->operand(0)), 2 * 8 * 16);
}

}  // namespace work_test
}  // namespace tessera::testing
