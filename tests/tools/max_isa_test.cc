// SPDX-License-Identifier: Apache-2.0
// TESSERA_MAX_ISA: kernels with less than the processor's vector instructions.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/with_variable.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(MaxIsa, LimitsTheKernelsThatAreChosen) {
  const std::string product =
      "HloModule m\n\nENTRY main {\n  a = f32[256,256] parameter(0)\n  e = f32[256,256] "
      "exponential(a)\n"
      "  ROOT d = f32[256,256] dot(e, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
  const WithVariable least("TESSERA_MAX_ISA", "baseline");
  const Ran ran = run_tool({"run", "-", "--profile", "--repeat", "2"}, product);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE((ran.out + ran.err).find("dot/blas"), std::string::npos) << ran.out << ran.err;
}

TEST(MaxIsa, IsOneOfThree) {
  const WithVariable wrong("TESSERA_MAX_ISA", "sse9");
  const Ran ran =
      run_tool({"run", "-"}, "HloModule m\n\nENTRY main {\n  ROOT a = f32[2] parameter(0)\n}\n");
  EXPECT_NE(ran.code, 0);
  EXPECT_NE(ran.err.find("'sse9'; valid: baseline, avx2, avx512"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace tessera::testing
