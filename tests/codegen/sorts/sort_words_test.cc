// SPDX-License-Identifier: Apache-2.0
// Words of keys have their order, and give them back, with each instruction set.
#include "src/codegen/kernels/sorts/sort_words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/instruction_sets.h"

namespace tessera::codegen {
namespace {

class SortWordsTest : public ::testing::Test {
 protected:
  ~SortWordsTest() override { limit_instruction_set(InstructionSet::avx512); }

  /// Words of keys that are given in order, none equal; more than a vector of them.
  template <class Word, class T>
  void expect_order(SortKey key, std::vector<T> keys) {
    key.type = dtype_of<T>();
    for (const InstructionSet set :
         {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
      limit_instruction_set(set);
      SCOPED_TRACE(int(set));
      std::vector<Word> words(keys.size());
      const WordsMade made = make_words(key, reinterpret_cast<const std::byte*>(keys.data()),
                                        keys.size(), words.data());
      ASSERT_TRUE(made.ordered && made.unchanged);
      for (std::size_t i = 1; i < words.size(); ++i) {
        EXPECT_EQ(words[i - 1] < words[i], !key.descending) << i;
        EXPECT_NE(words[i - 1], words[i]) << i;
      }
      if (!words_are_whole(key)) continue;
      unmake_words(key, words.size(), words.data());
      EXPECT_EQ(std::memcmp(words.data(), keys.data(), keys.size() * sizeof(T)), 0);
    }
  }
  template <class Word, class T>
  void expect_order_of_integers() {
    std::vector<T> keys = {std::numeric_limits<T>::min()};
    for (int i = 1; i < 40; ++i) keys.push_back(T(keys.back() + 1));
    for (int i = 40; i > 0; --i) keys.push_back(T(std::numeric_limits<T>::max() - (i - 1)));
    for (const bool descending : {false, true}) {
      SortKey key;
      key.descending = descending;
      expect_order<Word>(key, keys);
    }
  }
  template <class Word, class T>
  void expect_order_of_floats() {
    using Limits = std::numeric_limits<T>;
    std::vector<T> finite = {-Limits::infinity(), Limits::lowest(), T(-3), T(-2)};
    for (int i = 30; i > 0; --i) finite.push_back(T(-i) / 32);
    for (const T x : {-Limits::min(), -Limits::denorm_min()}) finite.push_back(x);
    const std::size_t negative = finite.size();
    finite.push_back(0);
    for (std::size_t i = negative; i-- > 0;) finite.push_back(-finite[i]);
    std::vector<T> all = finite;
    all.insert(all.begin(), -Limits::quiet_NaN());
    all.insert(all.begin() + std::ptrdiff_t(negative) + 1, T(-0.0));
    all.push_back(Limits::quiet_NaN());
    for (const bool descending : {false, true}) {
      SortKey key;
      key.descending = descending;
      expect_order<Word>(key, finite);
      key.total_order = true;
      expect_order<Word>(key, all);
    }
  }
};

TEST_F(SortWordsTest, KeepTheOrderOfIntegers) {
  expect_order_of_integers<std::int32_t, std::int8_t>();
  expect_order_of_integers<std::int32_t, std::uint8_t>();
  expect_order_of_integers<std::int32_t, std::uint16_t>();
  expect_order_of_integers<std::int32_t, std::int32_t>();
  expect_order_of_integers<std::int32_t, std::uint32_t>();
  expect_order_of_integers<std::int64_t, std::int64_t>();
  expect_order_of_integers<std::int64_t, std::uint64_t>();
}

TEST_F(SortWordsTest, KeepTheOrderOfFloats) {
  expect_order_of_floats<std::int32_t, float>();
  expect_order_of_floats<std::int64_t, double>();
}

TEST_F(SortWordsTest, ZerosAreEqualAndNansUnorderedUnlessTheOrderIsTotal) {
  const std::vector<float> zeros = {0.0f, -0.0f};
  const auto bytes = [](const std::vector<float>& x) {
    return reinterpret_cast<const std::byte*>(x.data());
  };
  for (const InstructionSet set :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    limit_instruction_set(set);
    SortKey key;
    key.type = DType::f32;
    std::vector<std::int32_t> words(40);
    EXPECT_TRUE(make_words(key, bytes(zeros), 2, words.data()).ordered);
    EXPECT_EQ(words[0], words[1]);
    for (std::size_t at = 0; at < 40; ++at) {
      std::vector<float> keys(40, 1);
      keys[at] = at % 2 == 0 ? std::nanf("") : -std::nanf("");
      key.total_order = false;
      EXPECT_FALSE(make_words(key, bytes(keys), 40, words.data()).ordered) << at;
      key.total_order = true;
      EXPECT_TRUE(make_words(key, bytes(keys), 40, words.data()).ordered) << at;
      // One NaN for all, above all numbers.
      key.canonical = true;
      keys[39] = std::numeric_limits<float>::infinity();
      keys[at] = at % 2 == 0 ? std::nanf("") : -std::nanf("");
      const WordsMade made = make_words(key, bytes(keys), 40, words.data());
      EXPECT_TRUE(made.ordered);
      EXPECT_EQ(made.unchanged, at % 2 == 0) << at;
      const float nan = std::nanf("");
      std::int32_t of_nan = 0;
      std::memcpy(&of_nan, &nan, sizeof nan);
      EXPECT_EQ(words[at], of_nan) << at;
      if (at != 39) {
        EXPECT_LT(words[39], of_nan);
      }
      key.canonical = false;
    }
  }
}

}  // namespace
}  // namespace tessera::codegen
