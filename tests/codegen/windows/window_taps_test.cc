// SPDX-License-Identifier: Apache-2.0
// Places and rows that windows see, combined for each instruction set, against loops that take one
// result after the other.
#include "src/codegen/kernels/reductions/windows/window_taps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/reductions/windows/window_loops.h"

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

/// What windows do to two elements, one by one.
template <class T>
T combined(ir::Opcode op, T a, T b) {
  if (op == ir::Opcode::add) return a + b;
  const bool largest = op == ir::Opcode::maximum;
  if (a == b) return std::signbit(a) == largest ? b : a;
  return (largest ? a > b : a < b) || a != a ? a : b;
}
ir::Opcode op_of(int trial) {
  return trial % 3 == 0   ? ir::Opcode::add
         : trial % 3 == 1 ? ir::Opcode::maximum
                          : ir::Opcode::minimum;
}
template <class T>
std::byte* bytes_of(std::vector<T>& v) {
  return reinterpret_cast<std::byte*>(v.data());
}
template <class T>
constexpr DType kType = sizeof(T) == 4 ? DType::f32 : DType::f64;

template <class Held, class T>
void combine_plainly(ir::Opcode op, const std::vector<std::vector<T>>& taps, T init,
                     std::size_t advance, std::vector<T>* out) {
  for (std::size_t i = 0; i < out->size(); ++i) {
    auto held = Held(init);
    for (const std::vector<T>& tap : taps) held = combined(op, held, Held(tap[i * advance]));
    (*out)[i] = T(held);
  }
}

TYPED_TEST(WindowTapsTest, GiveTheBitsOfPlainLoops) {
  using T = TypeParam;
  for (int trial = 0; trial < 1800; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(trial % 3));
    const ir::Opcode op = op_of(trial / 3);
    const bool special = op != ir::Opcode::add;
    const std::size_t n = 1 + this->below(this->below(2) == 0 ? 20 : 200);
    const std::size_t advance = 1 + this->below(kMaxTapAdvance);
    std::vector<std::vector<T>> taps(this->below(10));
    std::vector<const std::byte*> pointers;
    for (std::vector<T>& tap : taps) {
      for (std::size_t i = 0; i <= (n - 1) * advance; ++i) tap.push_back(this->number(special));
      pointers.push_back(bytes_of(tap));
    }
    const T init = this->number(false);
    std::vector<T> want(n), got(n + 1, T(77));
    if (special) {
      combine_plainly<T>(op, taps, init, advance, &want);
    } else {
      combine_plainly<double>(op, taps, init, advance, &want);
    }
    window_taps_of(op, kType<T>)({pointers.data(), std::int64_t(pointers.size()),
                                  reinterpret_cast<const std::byte*>(&init), bytes_of(got),
                                  std::int64_t(n), std::int64_t(advance)});
    ASSERT_EQ(std::memcmp(got.data(), want.data(), n * sizeof(T)), 0);
    ASSERT_EQ(got[n], T(77));
  }
}

/// One trial of all loops: a row is loaded, combined with another one, tapped and stored.
template <class T, class Held, class Number>
void run_loops(ir::Opcode op, std::size_t n, std::size_t advance, std::size_t step,
               const Number& number) {
  const auto loops = window_loops_of(op, kType<T>, kType<Held>);
  ASSERT_TRUE(loops);
  const std::size_t length = (n - 1) * std::max(advance, step) + 1;
  std::vector<T> first(length), second(length), stored(length + 1, T(77));
  for (std::size_t i = 0; i < length; ++i) first[i] = number(), second[i] = number();
  std::vector<Held> held(length + 1, Held(77)), from(length), want(length);
  for (std::size_t i = 0; i < length; ++i) {
    from[i] = Held(number());
    want[i] = combined(op, Held(first[i]), Held(second[i]));
  }
  for (std::size_t i = 0; i < n; ++i) {
    want[i * step] = combined(op, want[i * step], from[i * advance]);
  }
  loops->load({bytes_of(first), bytes_of(held), std::int64_t(length)});
  loops->combine({bytes_of(second), bytes_of(held), std::int64_t(length)});
  loops->tap(
      {bytes_of(from), bytes_of(held), std::int64_t(n), std::int64_t(advance), std::int64_t(step)});
  ASSERT_EQ(std::memcmp(held.data(), want.data(), length * sizeof(Held)), 0);
  loops->store({bytes_of(held), bytes_of(stored), std::int64_t(length)});
  for (std::size_t i = 0; i < length; ++i) {
    const T plain = T(want[i]);
    ASSERT_EQ(std::memcmp(&stored[i], &plain, sizeof(T)), 0);
  }
  // What is neutral changes nothing.
  std::vector<Held> neutral(length + 1, Held(77));
  loops->clear({nullptr, bytes_of(neutral), std::int64_t(length)});
  loops->tap({bytes_of(neutral), bytes_of(held), std::int64_t(length)});
  ASSERT_EQ(std::memcmp(held.data(), want.data(), length * sizeof(Held)), 0);
  // In place, as runs of places are made of shorter ones.
  for (std::size_t i = 0; i + 1 < length; ++i) want[i] = combined(op, want[i], want[i + 1]);
  loops->tap({bytes_of(held) + sizeof(Held), bytes_of(held), std::int64_t(length) - 1});
  ASSERT_EQ(std::memcmp(held.data(), want.data(), length * sizeof(Held)), 0);
  for (const Held end : {held[length], neutral[length], Held(stored[length])}) {
    ASSERT_EQ(end, Held(77));
  }
}

TYPED_TEST(WindowTapsTest, LoopsGiveTheBitsOfPlainLoops) {
  using T = TypeParam;
  for (int trial = 0; trial < 900; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(trial % 3));
    const ir::Opcode op = op_of(trial / 3);
    const std::size_t n = 1 + this->below(this->below(2) == 0 ? 20 : 200);
    const std::size_t advance = 1 + this->below(5);
    const std::size_t step = this->below(3) == 0 ? 1 + this->below(3) : 1;
    const bool special = op != ir::Opcode::add;
    const auto number = [&] { return this->number(special); };
    if (special) {
      run_loops<T, T>(op, n, advance, step, number);
    } else {
      run_loops<T, double>(op, n, advance, step, number);
    }
    if (this->HasFatalFailure()) return;
  }
}

TEST(WindowTaps, AreForFloatsAndSumsAndExtremaAlone) {
  EXPECT_EQ(window_taps_of(ir::Opcode::add, DType::s32), nullptr);
  EXPECT_EQ(window_taps_of(ir::Opcode::multiply, DType::f32), nullptr);
  EXPECT_FALSE(window_loops_of(ir::Opcode::add, DType::s32, DType::s32));
  EXPECT_FALSE(window_loops_of(ir::Opcode::multiply, DType::f32, DType::f64));
}

}  // namespace
}  // namespace tessera::codegen
