// SPDX-License-Identifier: Apache-2.0
// Products with truth values that become choices.
#include "src/passes/products/select_by_predicates.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::passes {
namespace {

/// The product of `x` and what `lines` make.
std::string product_in(const std::string& type, const std::string& lines) {
  const auto m =
      ir::parse_hlo("HloModule m\nENTRY e {\n  x = " + type +
                    "[3] parameter(0)\n  p = " + "pred[3] parameter(1)\n" + lines + "}\n");
  select_by_predicates(m.get());
  ir::verify(*m);
  return ir::to_string(*m);
}

TEST(SelectByPredicates, ProductsWithTruthValues) {
  const auto has = [](const std::string& text, const char* op) {
    return text.find(op) != std::string::npos;
  };
  for (const std::string type : {"f32", "bf16", "c64"}) {
    const std::string factor = "  t = " + type + "[3] convert(p)\n  ROOT r = " + type + "[3] ";
    EXPECT_TRUE(has(product_in(type, factor + "multiply(x, t)\n"), "select(p, x,"));
    EXPECT_TRUE(has(product_in(type, factor + "multiply(t, x)\n"), "select(p, x,"));
    EXPECT_FALSE(has(product_in(type, factor + "add(x, t)\n"), "select("));
  }
  // A number that a truth value was made to before is any number.
  EXPECT_FALSE(has(product_in("f32",
                              "  n = s32[3] convert(p)\n  t = f32[3] convert(n)\n"
                              "  ROOT r = f32[3] multiply(x, t)\n"),
                   "select("));
}

}  // namespace
}  // namespace tessera::passes
