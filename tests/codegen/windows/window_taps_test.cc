// SPDX-License-Identifier: Apache-2.0
// Places that windows see, combined for each instruction set, against the loops that take one
// result after the other.
#include "src/codegen/kernels/reductions/window_taps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/reductions/window_loops.h"

namespace tessera::codegen {
namespace {

template <class T>
class WindowTapsTest : public ::testing::Test {
 protected:
  ~WindowTapsTest() override { limit_instruction_set(InstructionSet::avx512); }
  std::size_t below(std::size_t n) { return std::size_t(random_() % n); }
  T number(bool special) {
    using Limits = std::numeric_limits<T>;
    constexpr T kSpecial[] = {T(0), -T(0), Limits::infinity(), -Limits::infinity(), T(1)};
    if (special && below(40) == 0) return Limits::quiet_NaN();
    if (special && below(2) == 0) return kSpecial[below(5)];
    return T(std::int64_t(below(2001)) - 1000) / T(64);
  }
  std::mt19937_64 random_{11};
};
using TapTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(WindowTapsTest, TapTypes);

template <class Held, class T, class F>
void combine_plainly(const std::vector<std::vector<T>>& taps, T init, F op, std::vector<T>* out) {
  for (std::size_t i = 0; i < out->size(); ++i) {
    auto held = Held(init);
    for (const std::vector<T>& tap : taps) held = op(held, Held(tap[i]));
    (*out)[i] = T(held);
  }
}

TYPED_TEST(WindowTapsTest, GiveTheBitsOfPlainLoops) {
  using T = TypeParam;
  for (int trial = 0; trial < 900; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(trial % 3));
    const ir::Opcode op = trial / 3 % 3 == 0   ? ir::Opcode::add
                          : trial / 3 % 3 == 1 ? ir::Opcode::maximum
                                               : ir::Opcode::minimum;
    const bool special = op != ir::Opcode::add;
    const std::size_t n = 1 + this->below(this->below(2) == 0 ? 20 : 200);
    std::vector<std::vector<T>> taps(this->below(10));
    std::vector<const std::byte*> pointers;
    for (std::vector<T>& tap : taps) {
      for (std::size_t i = 0; i < n; ++i) tap.push_back(this->number(special));
      pointers.push_back(reinterpret_cast<const std::byte*>(tap.data()));
    }
    const T init = this->number(false);
    std::vector<T> want(n), got(n + 1, T(77));
    if (op == ir::Opcode::add) {
      combine_plainly<double>(taps, init, window_loops::Sum(), &want);
    } else if (op == ir::Opcode::maximum) {
      combine_plainly<T>(taps, init, window_loops::Largest(), &want);
    } else {
      combine_plainly<T>(taps, init, window_loops::Smallest(), &want);
    }
    window_taps_of(op, sizeof(T) == 4 ? DType::f32 : DType::f64)(
        {pointers.data(), std::int64_t(pointers.size()), reinterpret_cast<const std::byte*>(&init),
         reinterpret_cast<std::byte*>(got.data()), std::int64_t(n)});
    ASSERT_EQ(std::memcmp(got.data(), want.data(), n * sizeof(T)), 0);
    ASSERT_EQ(got[n], T(77));
  }
}

TEST(WindowTaps, AreForFloatsAndSumsAndExtremaAlone) {
  EXPECT_EQ(window_taps_of(ir::Opcode::add, DType::s32), nullptr);
  EXPECT_EQ(window_taps_of(ir::Opcode::multiply, DType::f32), nullptr);
}

}  // namespace
}  // namespace tessera::codegen
