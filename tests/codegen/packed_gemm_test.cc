// SPDX-License-Identifier: Apache-2.0
// Packed products, for each instruction set, against the sums written out.
#include "src/codegen/kernels/products/packed_gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/codegen/gemm_case.h"

namespace tessera::codegen {
namespace {

template <class T>
class PackedGemmTest : public GemmTest<T> {
 protected:
  /// Of matrices that have at least so many elements each.
  static MatrixProduct<T> job(std::int64_t m, std::int64_t n, std::int64_t k, bool a_turned,
                              bool b_turned, const std::vector<T>& a, const std::vector<T>& b) {
    MatrixProduct<T> out;
    out.m = m;
    out.n = n;
    out.k = k;
    out.a = a.data();
    out.a_row = a_turned ? 1 : k;
    out.a_column = a_turned ? m : 1;
    out.b = b.data();
    out.b_row = b_turned ? 1 : n;
    out.b_column = b_turned ? k : 1;
    out.c_row = n;
    return out;
  }
};
TYPED_TEST_SUITE(PackedGemmTest, GemmTypes);

TYPED_TEST(PackedGemmTest, MultipliesMatricesOfAnySize) {
  using T = TypeParam;
  for (int trial = 0; trial < 240; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(this->below(3)));
    const bool large = this->below(8) == 0;
    const std::int64_t m = 1 + this->below(large ? 300 : 40),
                       n = 1 + this->below(large ? 300 : 120),
                       k = 1 + this->below(large ? 600 : 300);
    const std::int64_t gap = this->below(3);
    const auto a = this->numbers(m * k), b = this->numbers(k * n);
    MatrixProduct<T> job = this->job(m, n, k, trial % 2 == 1, trial / 2 % 2 == 1, a, b);
    job.c_row = n + gap;
    const std::vector<T> before = this->numbers(m * job.c_row);
    std::vector<T> c = before;
    job.c = c.data();
    packed_gemm(job);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < job.c_row; ++j) {
        const T got = c[std::size_t(i * job.c_row + j)];
        if (j >= n) {
          ASSERT_EQ(got, before[std::size_t(i * job.c_row + j)]) << i << ", " << j;
          continue;
        }
        double want = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          want += double(job.a[i * job.a_row + p * job.a_column]) *
                  double(job.b[p * job.b_row + j * job.b_column]);
        }
        ASSERT_NEAR(double(got), want, this->tolerance(k)) << i << ", " << j;
      }
    }
  }
}

// More rows than are packed at once.
TYPED_TEST(PackedGemmTest, GoesThroughManyRows) {
  using T = TypeParam;
  const std::int64_t m = 2100, n = 50, k = 140;
  const auto a = this->numbers(m * k), b = this->numbers(k * n);
  MatrixProduct<T> job = this->job(m, n, k, false, false, a, b);
  std::vector<T> c(std::size_t(m * n));
  job.c = c.data();
  packed_gemm(job);
  for (std::int64_t i = 0; i < m; i += 7) {
    for (std::int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        want += double(a[std::size_t(i * k + p)]) * double(b[std::size_t(p * n + j)]);
      }
      ASSERT_NEAR(double(c[std::size_t(i * n + j)]), want, this->tolerance(k)) << i << ", " << j;
    }
  }
}

// Workers each multiply some rows or columns: however they are divided, the bits are the same.
TYPED_TEST(PackedGemmTest, SumsUpInAnOrderThatDependsOnTheDepthAlone) {
  using T = TypeParam;
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    const std::int64_t m = 2 + this->below(100), n = 2 + this->below(200), k = 1 + this->below(500);
    const auto a = this->numbers(m * k), b = this->numbers(k * n);
    MatrixProduct<T> all = this->job(m, n, k, trial % 2 == 1, trial / 2 % 2 == 1, a, b);
    std::vector<T> c(std::size_t(m * n)), parts(std::size_t(m * n));
    all.c = c.data();
    packed_gemm(all);
    const std::int64_t row = 1 + this->below(m - 1), column = 1 + this->below(n - 1);
    for (const auto& [r0, r1] : {std::pair(std::int64_t(0), row), std::pair(row, m)}) {
      for (const auto& [c0, c1] : {std::pair(std::int64_t(0), column), std::pair(column, n)}) {
        MatrixProduct<T> part = all;
        part.m = r1 - r0;
        part.n = c1 - c0;
        part.a += r0 * all.a_row;
        part.b += c0 * all.b_column;
        part.c = parts.data() + r0 * n + c0;
        packed_gemm(part);
      }
    }
    ASSERT_EQ(c, parts);
  }
}

// The zeros that fill up tiles meet no numbers of the operands.
TYPED_TEST(PackedGemmTest, KeepsInfinitiesWhereTheyAre) {
  using T = TypeParam;
  const std::int64_t m = 13, n = 50, k = 21;
  auto a = this->numbers(m * k);
  const auto b = std::vector<T>(std::size_t(k * n), T(1));
  a[std::size_t(12 * k + 20)] = std::numeric_limits<T>::infinity();
  MatrixProduct<T> job = this->job(m, n, k, false, false, a, b);
  std::vector<T> c(std::size_t(m * n));
  job.c = c.data();
  packed_gemm(job);
  for (std::int64_t i = 0; i < m * n; ++i) {
    ASSERT_EQ(std::isfinite(c[std::size_t(i)]), i < 12 * n) << i;
    ASSERT_FALSE(std::isnan(c[std::size_t(i)])) << i;
  }
}

}  // namespace
}  // namespace tessera::codegen
