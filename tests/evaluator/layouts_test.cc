// SPDX-License-Identifier: Apache-2.0
// Layouts: bitcasts depend on them, other ops don't.
#include "src/ir/analysis/layouts.h"

#include <gtest/gtest.h>

#include <numeric>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera {
namespace {

Literal counted(Dims dims) {
  std::vector<float> values(std::size_t(element_count(dims)));
  std::iota(values.begin(), values.end(), 0.0f);
  return make_literal(DType::f32, std::move(dims), values);
}

std::vector<float> run(const std::string& text, const Literal& x, bool normalized) {
  auto module = ir::parse_hlo(text);
  if (normalized) {
    ir::normalize_layouts(module.get());
    for (const auto& i : module->entry()->instructions()) {
      EXPECT_FALSE(ir::depends_on_layout(*i)) << ir::to_string(*module);
    }
  }
  return to_vector<float>(evaluator::evaluate(*module, std::vector<Literal>{x}));
}

void expect(const std::string& text, const Literal& x, const std::vector<float>& want) {
  EXPECT_EQ(run(text, x, false), want);
  EXPECT_EQ(run(text, x, true), want);
  const std::string printed = ir::to_string(*ir::parse_hlo(text));
  EXPECT_EQ(ir::to_string(*ir::parse_hlo(printed)), printed);
}

TEST(Layouts, ABitcastBetweenLayoutsIsATranspose) {
  // Bytes of p, row-major, are the columns of a column-major [3,2].
  expect(R"(HloModule m
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  ROOT b = f32[3,2]{0,1} bitcast(p)
})",
         counted({2, 3}), {0, 3, 1, 4, 2, 5});
}

TEST(Layouts, AColumnMajorOperandIsReadInMemoryOrder) {
  // The copy changes the memory only, the bitcast then reads it: the transpose.
  expect(R"(HloModule m
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  c = f32[2,3]{0,1} copy(p)
  ROOT b = f32[3,2]{1,0} bitcast(c)
})",
         counted({2, 3}), {0, 3, 1, 4, 2, 5});
}

TEST(Layouts, DimsOfThreeAreTakenInMemoryOrder) {
  expect(R"(HloModule m
ENTRY e {
  p = f32[2,3,2]{1,2,0} parameter(0)
  ROOT b = f32[2,6]{1,0} bitcast(p)
})",
         counted({2, 3, 2}), {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11});
}

TEST(Layouts, AParameterOfAnyLayoutTakesRowMajorData) {
  expect(R"(HloModule m, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}
ENTRY e {
  p = f32[2,3]{0,1} parameter(0)
  ROOT n = f32[2,3]{0,1} negate(p)
})",
         counted({2, 3}), {0, -1, -2, -3, -4, -5});
}

TEST(Layouts, ReshapesAndConstantsDoNotDependOnThem) {
  expect(R"(HloModule m
ENTRY e {
  p = f32[2,3]{0,1} parameter(0)
  c = f32[3,2]{0,1} constant({{1, 2}, {3, 4}, {5, 6}})
  r = f32[3,2]{0,1} reshape(p)
  ROOT s = f32[3,2]{1,0} add(r, c)
})",
         counted({2, 3}), {1, 3, 5, 7, 9, 11});
}

TEST(Layouts, InsideAFusionTheyCountToo) {
  expect(R"(HloModule m
fused {
  q = f32[2,3]{0,1} parameter(0)
  ROOT b = f32[6]{0} bitcast(q)
}
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  c = f32[2,3]{0,1} copy(p)
  ROOT f = f32[6]{0} fusion(c), kind=kLoop, calls=fused
})",
         counted({2, 3}), {0, 3, 1, 4, 2, 5});
}

TEST(Layouts, OrdersAndTheirInverses) {
  Shape s(DType::f32, {4, 5, 6});
  EXPECT_EQ(ir::memory_order(s), (Dims{0, 1, 2}));
  s.layout = {1, 2, 0};
  EXPECT_EQ(ir::memory_order(s), (Dims{0, 2, 1}));
  EXPECT_EQ(ir::permute_dims(s.dims, {2, 0, 1}), (Dims{6, 4, 5}));
  EXPECT_EQ(ir::inverse_order({2, 0, 1}), (Dims{1, 2, 0}));
}

}  // namespace
}  // namespace tessera
