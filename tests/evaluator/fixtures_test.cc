// SPDX-License-Identifier: Apache-2.0
// Every fixture of tests/fixtures/ops, run by the evaluator.
#include "tests/support/fixtures.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera {
namespace {

std::vector<std::string> fixture_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TESSERA_SOURCE_DIR) +
                                                               "/tests/fixtures/ops")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().stem().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class OpFixtures : public ::testing::TestWithParam<std::string> {};

TEST_P(OpFixtures, AllCasesAgree) {
  const auto cases = testing::read_fixtures("ops/" + GetParam() + ".txt");
  ASSERT_GT(cases.size(), 0u);
  for (const testing::FixtureCase& c : cases) {
    SCOPED_TRACE(c.name);
    try {
      const auto module = ir::parse_hlo(c.hlo, c.file);
      const std::vector<Literal> leaves = c.arrays();
      std::vector<Literal> arguments;
      std::size_t next = 0;
      for (const ir::Instruction* p : module->entry()->parameters()) {
        arguments.push_back(testing::assemble(p->shape, leaves, next));
      }
      ASSERT_EQ(next, leaves.size());
      EXPECT_EQ(testing::difference(evaluator::evaluate(*module, arguments), c), "");
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpFixtures, ::testing::ValuesIn(fixture_files()),
                         [](const auto& info) { return info.param; });

TEST(FixtureComparison, SeesDifferences) {
  using testing::Tolerance;
  Literal one(Shape(f32, {2})), other(Shape(f32, {2}));
  one.mutable_data<float>()[0] = 1.0f;
  other.mutable_data<float>()[0] = std::nextafter(1.0f, 2.0f);
  const Tolerance exact, two_steps{Tolerance::Kind::ulp, 2, 0, 0},
      no_step{Tolerance::Kind::ulp, 0, 0, 0};
  EXPECT_EQ(testing::difference(one, one, exact), "");
  EXPECT_NE(testing::difference(one, other, exact), "");
  EXPECT_EQ(testing::difference(one, other, two_steps), "");
  EXPECT_NE(testing::difference(one, other, no_step), "");
  EXPECT_NE(testing::difference(one, other, {Tolerance::Kind::close, 0, 1e-8, 0}), "");
  EXPECT_EQ(testing::difference(one, other, {Tolerance::Kind::close, 0, 1e-6, 0}), "");
  other = one;
  other.mutable_data<float>()[1] = -0.0f;
  EXPECT_NE(testing::difference(one, other, exact), "");
  EXPECT_EQ(testing::difference(one, other, no_step), "");
  EXPECT_NE(testing::difference(one, Literal(Shape(f32, {1})), exact), "");
  EXPECT_NE(testing::difference(one, Literal(Shape(f64, {2})), exact), "");
}

}  // namespace
}  // namespace tessera
