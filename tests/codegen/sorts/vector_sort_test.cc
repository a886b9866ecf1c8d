// SPDX-License-Identifier: Apache-2.0
// Sorts by vectors against std::sort, for each instruction set.
#include "src/codegen/kernels/sorts/vector_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "src/codegen/kernels/instruction_sets.h"

namespace tessera::codegen {
namespace {

template <class T>
class VectorSortTest : public ::testing::Test {
 protected:
  ~VectorSortTest() override { limit_instruction_set(InstructionSet::avx512); }

  /// Of one of the kinds: any numbers, few different ones, ordered either way, extremes, periods.
  std::vector<T> numbers(int kind, std::size_t n) {
    std::vector<T> out(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto any = random_();
      const T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
      out[i] = kind == 0   ? T(any)
               : kind == 1 ? T(any % 3)
               : kind == 2 ? T(i)
               : kind == 3 ? T(n - i)
               : kind == 4 ? (any % 2 == 0 ? least : most)
                           : T(i % 17);
    }
    return out;
  }
  std::mt19937_64 random_{1};
};
using SortedTypes = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(VectorSortTest, SortedTypes);

TYPED_TEST(VectorSortTest, SortsWhatIsReadOfNumbersOfAnyKind) {
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(trial % 3));
    const std::size_t n = this->random_() % (trial % 10 == 0 ? 5000 : 200);
    std::vector<TypeParam> got = this->numbers(trial / 3 % 6, n), want = got;
    std::sort(want.begin(), want.end());
    // All of it in every other trial; else one end, or what lies between.
    const bool whole = trial % 2 == 0;
    const std::size_t begin = whole || trial % 8 == 1 ? 0 : this->random_() % (n + 1);
    const std::size_t end = whole || trial % 8 == 3 ? n : begin + this->random_() % (n - begin + 1);
    vector_sort(got.data(), n, SortedPart{begin, end});
    for (std::size_t i = begin; i < end; ++i) ASSERT_EQ(got[i], want[i]) << i;
    std::sort(got.begin(), got.end());
    ASSERT_EQ(got, want);
  }
}

}  // namespace
}  // namespace tessera::codegen
