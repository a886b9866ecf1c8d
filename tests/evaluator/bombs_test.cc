// SPDX-License-Identifier: Apache-2.0
// Modules that can be parsed but could never run cause an Error, not std::bad_alloc.
#include <gtest/gtest.h>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera {
namespace {

void refused(const std::string& text, const std::string& word) {
  const auto module = ir::parse_hlo(text);
  try {
    evaluator::evaluate(*module, {});
    ADD_FAILURE() << "evaluated";
  } catch (const InternalError& e) {
    ADD_FAILURE() << e.what();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
  }
}

TEST(EvaluatorBombs, ArraysLargerThanTheMemory) {
  const std::string one = "ENTRY e {\n c = f32[] constant(1)\n ";
  refused(one + "ROOT i = s64[1000000000000000] iota(), iota_dimension=0\n}", "memory");
  refused(one + "ROOT i = f32[100000000,1000000] iota(), iota_dimension=1\n}", "memory");
  refused(one + "ROOT b = f32[100000000,1000000] broadcast(c), dimensions={}\n}", "memory");
  refused(one +
              "v = f32[1] reshape(c)\n ROOT b = f32[1000000000000001] pad(v, c), "
              "padding=1000000000000000_0\n}",
          "memory");
  refused(
      "ENTRY e {\n s = u64[2] constant({1, 2})\n ROOT r = (u64[2], u32[10000000,10000000]) "
      "rng-bit-generator(s), algorithm=rng_philox\n}",
      "memory");
}

TEST(EvaluatorBombs, ConstantsLeftOut) {
  refused("ENTRY e {\n ROOT c = f32[1000000,1000000] constant({...})\n}", "left out");
}

}  // namespace
}  // namespace tessera
