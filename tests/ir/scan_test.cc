// SPDX-License-Identifier: Apache-2.0
// scan: what HLO can express is printed as HLO's scan, everything else as a custom call; invalid
// scans.
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir {
namespace {

/// Steps over operands a f32[4,3], b f32[3], k s32[]; `scan` is the root.
std::string program(const std::string& scan) {
  return R"(HloModule m
summed { x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  d = f32[3] add(c, x)
  ROOT t = (f32[3], f32[3]) tuple(x, d) }
scaled { x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  k = s32[] parameter(2)
  ROOT t = (s32[], f32[3]) tuple(k, c) }
counted { k = s32[] parameter(0)
  ROOT t = (s32[]) tuple(k) }
repeated { k = s32[] parameter(0)
  ROOT t = (s32[], s32[]) tuple(k, k) }
lone { x = f32[3] parameter(0)
  ROOT r = f32[3] negate(x) }
changed { x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  k = s32[] constant(1)
  ROOT t = (f32[3], s32[]) tuple(x, k) }
ENTRY e { a = f32[4,3] parameter(0)
  b = f32[3] parameter(1)
  k = s32[] parameter(2)
  ROOT r = )" +
         scan + " }";
}

std::string custom(const std::string& operands, const std::string& step, const std::string& rest) {
  return "custom-call(" + operands + "), custom_call_target=\"tessera.Scan\", " + rest +
         ", called_computations={" + step + "}";
}

std::string printed_root(const std::string& scan) {
  const auto module = parse_hlo(program(scan));
  verify(*module);
  EXPECT_TRUE(module->entry()->root()->is(Opcode::scan));
  const std::string text = to_string(*module);
  EXPECT_EQ(to_string(*parse_hlo(text)), text);
  const std::string root = to_string(*module->entry()->root());
  return root.substr(root.find(" = ") + 3);
}

TEST(Scan, ScansThatHloCanExpressArePrintedAsScan) {
  EXPECT_EQ(printed_root("scan(a, b), dimensions={0}, num_carries=1, to_apply=summed"),
            "(f32[4,3]{1,0}, f32[3]{0}) scan(a, b), dimensions={0}, num_carries=1, "
            "is_reverse=false, to_apply=summed");
  EXPECT_EQ(printed_root("scan(a, b), dimensions={0}, num_carries=1, is_reverse=true, "
                         "is_associative=false, to_apply=summed"),
            "(f32[4,3]{1,0}, f32[3]{0}) scan(a, b), dimensions={0}, num_carries=1, "
            "is_reverse=true, is_associative=false, to_apply=summed");
  // A custom call that needn't be one.
  EXPECT_EQ(printed_root(custom("a, b", "summed",
                                "dimensions={0}, length=4, num_carries=1, num_constants=0")),
            "(f32[4,3]{1,0}, f32[3]{0}) scan(a, b), dimensions={0}, num_carries=1, "
            "is_reverse=false, to_apply=summed");
  // No inputs: the outputs tell how long it is.
  EXPECT_EQ(printed_root("(s32[5], s32[]) scan(k), dimensions={0}, num_carries=1, "
                         "to_apply=repeated"),
            "(s32[5]{0}, s32[]) scan(k), dimensions={0}, num_carries=1, is_reverse=false, "
            "to_apply=repeated");
}

TEST(Scan, ScansThatHloCantExpressAreCustomCalls) {
  const std::string constants =
      "dimensions={0}, length=4, num_carries=1, num_constants=1, "
      "is_reverse=true";
  EXPECT_EQ(printed_root(custom("a, b, k", "scaled", constants)),
            "(s32[4]{0}, f32[3]{0}) custom-call(a, b, k), custom_call_target=\"tessera.Scan\", " +
                constants + ", called_computations={scaled}");
  const std::string nothing =
      "dimensions={0}, length=7, num_carries=1, num_constants=0, "
      "is_reverse=false";
  EXPECT_EQ(printed_root(custom("k", "counted", nothing)),
            "(s32[]) custom-call(k), custom_call_target=\"tessera.Scan\", " + nothing +
                ", called_computations={counted}");
}

TEST(Scan, AnUnrolledOneIsACustomCall) {
  const std::string plain = "dimensions={0}, length=4, num_carries=1, num_constants=0, ";
  const std::string printed = printed_root(custom("a, b", "summed", plain + "unroll=3"));
  EXPECT_EQ(printed,
            "(f32[4,3]{1,0}, f32[3]{0}) custom-call(a, b), custom_call_target=\"tessera.Scan\", " +
                plain + "is_reverse=false, unroll=3, called_computations={summed}");
  // Without it, it is HLO's own.
  EXPECT_EQ(printed_root(custom("a, b", "summed", plain + "unroll=1")),
            "(f32[4,3]{1,0}, f32[3]{0}) scan(a, b), dimensions={0}, num_carries=1, "
            "is_reverse=false, to_apply=summed");
}

TEST(Scan, FaultsNameWhatIsWrong) {
  struct Case {
    std::string scan;
    std::vector<std::string> parts;
  };
  const auto scan = [](const std::string& operands, const std::string& step, int carries,
                       int constants, int length, int dim = 0) {
    return custom(operands, step,
                  "dimensions={" + std::to_string(dim) + "}, length=" + std::to_string(length) +
                      ", num_carries=" + std::to_string(carries) +
                      ", num_constants=" + std::to_string(constants));
  };
  for (const Case& c : std::vector<Case>{
           {scan("a, b", "summed", 1, 0, 5),
            {"equally long in dim 0", "operand 0 has 4 slices for length 5"}},
           {"custom-call(k), custom_call_target=\"tessera.Scan\", dimensions={0}, "
            "length=9223372036854775807, num_carries=1, called_computations={repeated}",
            {"output 0, s32[9223372036854775807]", "does not fit 64 bits"}},
           {scan("a, b", "summed", 1, 0, -1), {"length -1 is negative"}},
           {custom("a, b", "summed", "dimensions={0}, length=4, num_carries=1, unroll=0"),
            {"unroll 0; valid: 1 step a trip or more"}},
           {scan("a, b", "summed", 2, 1, 4), {"num_carries=2, num_constants=1 of 2 operands"}},
           {scan("a, b", "summed", -1, 1, 4), {"num_carries=-1"}},
           {scan("a, b", "summed", 1, 2147483647, 4), {"num_constants=2147483647 of 2 operands"}},
           {scan("a, b", "summed", 1, 0, 4, 2), {"dimension 2 is not in [0, 2)"}},
           {scan("b, b", "summed", 1, 0, 3), {"parameter 0 of step summed is f32[3]", "f32[]"}},
           {scan("a", "lone", 0, 0, 4), {"step lone must give a tuple, not f32[3]"}},
           {scan("a, b", "changed", 1, 0, 4), {"step changed gives carry s32[] for f32[3]"}},
           {"scan(a, b), dimensions={0,1}, num_carries=1, to_apply=summed",
            {"exactly one dimension"}},
           {"scan(k), dimensions={0}, num_carries=1, to_apply=counted",
            {"without inputs", "how long"}},
       }) {
    try {
      parse_hlo(program(c.scan));
      ADD_FAILURE() << "accepted: " << c.scan;
    } catch (const Error& e) {
      for (const std::string& part : c.parts) {
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << c.scan << "\n"
                                                                       << e.what();
      }
    }
  }
}

TEST(Scan, TheVerifierKnowsItsAttributes) {
  const auto module =
      parse_hlo(program("scan(a, b), dimensions={0}, num_carries=1, "
                        "to_apply=summed"));
  module->entry()->root()->edit<ScanAttrs>().length = 3;
  EXPECT_THROW(verify(*module), ShapeError);
  module->entry()->root()->attrs = WhileAttrs{};
  EXPECT_THROW(verify(*module), ValueError);
}

}  // namespace
}  // namespace tessera::ir
