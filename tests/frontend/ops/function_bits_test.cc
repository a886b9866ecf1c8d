// SPDX-License-Identifier: Apache-2.0
// Elementary functions of a part of an array have the bits of those of the whole.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

TEST(FunctionBits, AreThoseOfTheWholeArray) {
  constexpr std::int64_t kMany = 1 << 16, kFew = 5;
  using Function = Array (*)(const Array&);
  const std::vector<Function> functions = {
      [](const Array& x) { return exp(x); },   [](const Array& x) { return tanh(x); },
      [](const Array& x) { return log(x); },   [](const Array& x) { return log1p(x); },
      [](const Array& x) { return sin(x); },   [](const Array& x) { return power(x, x); },
      [](const Array& x) { return gelu(x); },  [](const Array& x) { return sigmoid(x); },
      [](const Array& x) { return expm1(x); }, [](const Array& x) { return cbrt(x); }};
  for (const DType t : {DType::f32, DType::f64, DType::bf16}) {
    const Array all = astype(counting({kMany}, 1e-3f) + 0.25f, t);
    for (std::size_t n = 0; n < functions.size(); ++n) {
      SCOPED_TRACE(std::string(name(t)) + ", function " + std::to_string(n));
      const auto f = jit(functions[n]);
      const auto whole = astype(f(all), DType::f64).to_vector<double>();
      for (const std::int64_t first : {std::int64_t(0), std::int64_t(777), kMany - kFew}) {
        const auto part =
            astype(f(slice(all, {first}, {first + kFew})), DType::f64).to_vector<double>();
        for (std::int64_t k = 0; k < kFew; ++k) {
          EXPECT_EQ(part[std::size_t(k)], whole[std::size_t(first + k)]) << first + k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing
