// SPDX-License-Identifier: Apache-2.0
// What tests of matrix products share: random matrices, and how far sums may be off.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "src/codegen/kernels/instruction_sets.h"

namespace tessera::codegen {

/// A test may limit the instruction set: others have all.
template <class T>
class GemmTest : public ::testing::Test {
 protected:
  void TearDown() override { limit_instruction_set(InstructionSet::avx512); }

  std::int64_t below(std::int64_t n) { return std::int64_t(random_() % std::uint64_t(n)); }
  std::vector<T> numbers(std::int64_t n) {
    std::vector<T> out(static_cast<std::size_t>(n));
    for (T& x : out) x = T(below(2001) - 1000) / T(1000);
    return out;
  }
  static T tolerance(std::int64_t sum) {
    return (std::is_same_v<T, float> ? T(1e-6) : T(1e-15)) * T(4 + sum);
  }

 private:
  std::mt19937_64 random_{7};
};
using GemmTypes = ::testing::Types<float, double>;

}  // namespace tessera::codegen
