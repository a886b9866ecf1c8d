// SPDX-License-Identifier: Apache-2.0
// Products of integers and of bf16, for all instructions that this machine has, against the sums
// written out.
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/products/narrow/narrow_instructions.h"
#include "src/codegen/kernels/products/wrapping_gemm.h"

namespace tessera::codegen {
namespace {

class NarrowGemmTest : public ::testing::Test {
 protected:
  void TearDown() override {
    limit_instruction_set(InstructionSet::avx512);
    limit_narrow_instructions(NarrowInstructions::tiles);
  }
  std::int64_t below(std::int64_t n) { return std::int64_t(random_() % std::uint64_t(n)); }

  static float number(DType t, const std::byte* at) {
    if (t == DType::s8) return float(std::to_integer<std::int8_t>(*at));
    if (t == DType::u8) return float(std::to_integer<std::uint8_t>(*at));
    std::uint16_t high = 0;
    std::memcpy(&high, at, sizeof high);
    const std::uint32_t bits = std::uint32_t(high) << 16;
    float out = 0;
    std::memcpy(&out, &bits, sizeof out);
    return out;
  }
  std::vector<std::byte> numbers(DType t, std::int64_t n) {
    std::vector<std::byte> out(std::size_t(n) * byte_size(t));
    for (std::byte& x : out) x = std::byte(random_());
    if (t != DType::bf16) return out;
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = float(below(2001) - 1000) / 1000;
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, sizeof bits);
      const auto high = std::uint16_t(bits >> 16);
      std::memcpy(&out[std::size_t(2 * i)], &high, sizeof high);
    }
    return out;
  }

  std::mt19937_64 random_{5};
};

TEST_F(NarrowGemmTest, SumsUpProductsOfAllTypes) {
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(below(4) == 0 ? InstructionSet(below(3)) : InstructionSet::avx512);
    limit_narrow_instructions(NarrowInstructions(below(3)));
    NarrowGemm job;
    const bool floats = below(3) == 0 && has_bf16_gemm();
    job.a_type = floats ? DType::bf16 : below(2) == 0 ? DType::s8 : DType::u8;
    job.b_type = floats ? DType::bf16 : below(2) == 0 ? DType::s8 : DType::u8;
    const std::int64_t large = below(12);  // one dim of several blocks
    job.m = 1 + below(large == 0 ? 600 : 40);
    job.n = 1 + below(large == 1 ? 2200 : 70);
    job.k = 1 + below(large == 2 ? 2500 : 150);
    const std::int64_t pad = below(3);
    const bool a_by_columns = below(2) == 0, b_by_columns = below(2) == 0;
    (a_by_columns ? job.a_column : job.a_row) = (a_by_columns ? job.m : job.k) + pad;
    (a_by_columns ? job.a_row : job.a_column) = 1;
    (b_by_columns ? job.b_column : job.b_row) = (b_by_columns ? job.k : job.n) + pad;
    (b_by_columns ? job.b_row : job.b_column) = 1;
    const auto a = numbers(job.a_type, job.m * job.a_row + job.k * job.a_column);
    const auto b = numbers(job.b_type, job.k * job.b_row + job.n * job.b_column);
    job.a = a.data();
    job.b = b.data();
    job.c_row = job.n + below(3);
    const std::vector<std::uint32_t> before(std::size_t(job.m * job.c_row), 0xdeadbeef);
    auto c = before;
    job.c = reinterpret_cast<std::byte*>(c.data());
    narrow_gemm(job);
    const auto bytes = std::int64_t(byte_size(job.a_type));
    for (std::int64_t i = 0; i < job.m; ++i) {
      for (std::int64_t j = 0; j < job.c_row; ++j) {
        const std::uint32_t got = c[std::size_t(i * job.c_row + j)];
        if (j >= job.n) {
          ASSERT_EQ(got, 0xdeadbeef) << i << ", " << j;
          continue;
        }
        double sum = 0;
        for (std::int64_t k = 0; k < job.k; ++k) {
          sum += double(number(job.a_type, job.a + bytes * (i * job.a_row + k * job.a_column))) *
                 double(number(job.b_type, job.b + bytes * (k * job.b_row + j * job.b_column)));
        }
        if (!floats) {
          ASSERT_EQ(std::int32_t(got), std::int32_t(sum)) << i << ", " << j;
          continue;
        }
        float value = 0;
        std::memcpy(&value, &got, sizeof value);
        ASSERT_NEAR(value, sum, 1e-6 * double(job.k + 4)) << i << ", " << j;
      }
    }
  }
}

// Blocks of a whole product, in any order, of ranges of its columns and of its terms.
TEST_F(NarrowGemmTest, HoldsASideForManyBlocks) {
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    limit_narrow_instructions(NarrowInstructions(1 + below(2)));
    if (!has_bf16_gemm()) continue;
    const std::int64_t m = 1 + below(70), n = 1 + below(90), k = 1 + below(200);
    const bool by_columns = below(2) == 0, rounds = below(2) == 0;
    NarrowGemm whole;
    whole.a_type = whole.b_type = DType::bf16;
    whole.a_row = k;
    (by_columns ? whole.b_column : whole.b_row) = by_columns ? k : n;
    (by_columns ? whole.b_row : whole.b_column) = 1;
    const auto a = numbers(DType::bf16, m * k), b = numbers(DType::bf16, k * n);
    PackedSide held;
    for (int block = 0; block < 6; ++block) {
      NarrowGemm job = whole;
      const std::int64_t n0 = below(int((n + 15) / 16)) * 16, k0 = below(int((k + 31) / 32)) * 32;
      job.n = 1 + below(int(n - n0));
      // Whole tiles, or all there is.
      job.k = std::min(k - k0, 32 * (1 + below(7)));
      const std::int64_t m0 = below(int(m));
      job.m = 1 + below(int(m - m0));
      job.a = a.data() + 2 * (m0 * k + k0);
      job.b = b.data() + 2 * (n0 * job.b_column + k0 * job.b_row);
      job.whole = {b.data(), n, k, n0, k0};
      job.c_row = job.n + below(3);
      job.c_is_bf16 = rounds;
      std::vector<std::byte> c(std::size_t(job.m * job.c_row * 4), std::byte{0x5a});
      job.c = c.data();
      job.held = below(4) == 0 ? nullptr : &held;
      narrow_gemm(job);
      for (std::int64_t i = 0; i < job.m; ++i) {
        for (std::int64_t j = 0; j < job.c_row; ++j) {
          const std::byte* at = c.data() + (i * job.c_row + j) * (rounds ? 2 : 4);
          if (j >= job.n) {
            ASSERT_EQ(*at, std::byte{0x5a}) << i << ", " << j;
            continue;
          }
          double sum = 0;
          for (std::int64_t p = 0; p < job.k; ++p) {
            sum += double(number(DType::bf16, job.a + 2 * (i * k + p))) *
                   double(number(DType::bf16, job.b + 2 * (p * job.b_row + j * job.b_column)));
          }
          float value = 0;
          if (rounds) {
            value = number(DType::bf16, at);
          } else {
            std::memcpy(&value, at, sizeof value);
          }
          const double rounding = rounds ? std::fabs(sum) / 256 : 0;
          ASSERT_NEAR(value, sum, rounding + 1e-6 * double(k + 4)) << i << ", " << j;
        }
      }
    }
  }
}

TEST_F(NarrowGemmTest, KeepsInfinitiesAndNaN) {
  for (const auto most : {NarrowInstructions::vectors, NarrowInstructions::tiles}) {
    limit_narrow_instructions(most);
    if (!has_bf16_gemm()) continue;
    // 1, infinity and NaN, each times 1; and infinity times zero.
    const std::vector<std::uint16_t> a{0x3f80, 0x7f80, 0x7fc0, 0x7f80}, b{0x3f80, 0x0000};
    std::vector<float> c(8);
    NarrowGemm job;
    job.a_type = job.b_type = DType::bf16;
    job.a = reinterpret_cast<const std::byte*>(a.data());
    job.b = reinterpret_cast<const std::byte*>(b.data());
    job.c = reinterpret_cast<std::byte*>(c.data());
    job.m = 4;
    job.n = 2;
    job.k = job.a_row = 1;
    job.b_row = job.c_row = 2;
    narrow_gemm(job);
    EXPECT_EQ(c[0], 1);
    EXPECT_EQ(c[1], 0);
    EXPECT_EQ(c[2], std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(c[3]));
    EXPECT_TRUE(std::isnan(c[4]));
    EXPECT_TRUE(std::isnan(c[5]));
    EXPECT_EQ(c[6], std::numeric_limits<float>::infinity());
  }
}

/// Products of integers with sums of their own type, in all versions.
template <class T>
class WrappingGemmTest : public ::testing::Test {
 protected:
  void TearDown() override { limit_instruction_set(InstructionSet::avx512); }
  std::int64_t below(std::int64_t n) { return std::int64_t(random_() % std::uint64_t(n)); }
  std::vector<T> numbers(std::int64_t n) {
    std::vector<T> out(static_cast<std::size_t>(n));
    for (T& x : out) x = T(random_());
    return out;
  }

  std::mt19937_64 random_{7};
};

using Types = ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(WrappingGemmTest, Types);

TYPED_TEST(WrappingGemmTest, SumsUpProducts) {
  using T = TypeParam;
  for (int trial = 0; trial < 150; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(trial % 3));
    MatrixProduct<T> job;
    const std::int64_t large = this->below(12);  // one dim of several blocks
    job.m = 1 + this->below(large == 0 ? 300 : 30);
    job.n = 1 + this->below(large == 1 ? 1200 : 70);
    job.k = 1 + this->below(large == 2 ? 700 : 100);
    const bool a_by_columns = this->below(2) == 0, b_by_columns = this->below(2) == 0;
    (a_by_columns ? job.a_column : job.a_row) = (a_by_columns ? job.m : job.k) + this->below(3);
    (b_by_columns ? job.b_column : job.b_row) = (b_by_columns ? job.k : job.n) + this->below(3);
    const std::vector<T> a = this->numbers(job.m * job.a_row + job.k * job.a_column);
    const std::vector<T> b = this->numbers(job.k * job.b_row + job.n * job.b_column);
    job.a = a.data();
    job.b = b.data();
    job.c_row = job.n + this->below(3);
    const std::vector<T> before(std::size_t(job.m * job.c_row), T(0xdeadbeef));
    std::vector<T> c = before;
    job.c = c.data();
    wrapping_gemm(job);
    for (std::int64_t m = 0; m < job.m; ++m) {
      for (std::int64_t n = 0; n < job.c_row; ++n) {
        const auto at = std::size_t(m * job.c_row + n);
        std::uint64_t sum = 0;
        for (std::int64_t k = 0; k < job.k && n < job.n; ++k) {
          sum += std::uint64_t(a[std::size_t(m * job.a_row + k * job.a_column)]) *
                 std::uint64_t(b[std::size_t(k * job.b_row + n * job.b_column)]);
        }
        ASSERT_EQ(c[at], n < job.n ? T(sum) : before[at]) << m << ", " << n;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::codegen
