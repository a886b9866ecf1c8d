// SPDX-License-Identifier: Apache-2.0
// Products of small matrices, for each instruction set, against the sums written out.
#include "src/codegen/kernels/products/small_gemm.h"

#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "tests/codegen/gemm_case.h"

namespace tessera::codegen {
namespace {

template <class T>
using RealOf = decltype(std::abs(T()));

template <class T>
class SmallGemmTest : public GemmTest<RealOf<T>> {
 protected:
  std::int64_t size() { return 1 + this->below(this->below(3) == 0 ? 70 : 20); }
  std::vector<T> elements(std::int64_t n) {
    if constexpr (std::is_same_v<T, RealOf<T>>) {
      return this->numbers(n);
    } else {
      const auto parts = this->numbers(2 * n);
      std::vector<T> out;
      for (std::size_t i = 0; i < parts.size(); i += 2) out.emplace_back(parts[i], parts[i + 1]);
      return out;
    }
  }
};
using SmallGemmTypes = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(SmallGemmTest, SmallGemmTypes);

TYPED_TEST(SmallGemmTest, MultipliesAllMatricesAndWritesNothingElse) {
  using T = TypeParam;
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(trial % 3));
    const std::int64_t count = 1 + this->below(4), k = this->size();
    const std::int64_t m = this->size(), n = this->size();
    const bool a_turned = this->below(2) == 1, b_turned = this->below(2) == 1;
    const std::int64_t gap = this->below(3) == 0 ? 1 + this->below(20) : 0;
    const std::int64_t behind = 40;  // more than a vector
    const auto a = this->elements(count * m * k), b = this->elements(count * k * n);
    const auto before = this->elements(count * m * (n + gap) + behind);
    std::vector<T> c = before;
    SmallGemm<T> job;
    job.count = count;
    job.m = m;
    job.n = n;
    job.k = k;
    job.a = a.data();
    job.a_matrix = m * k;
    job.a_row = a_turned ? 1 : k;
    job.a_column = a_turned ? m : 1;
    job.b = b.data();
    job.b_matrix = k * n;
    job.b_row = b_turned ? 1 : n;
    job.b_column = b_turned ? k : 1;
    job.b_end = b.data() + b.size();
    job.c = c.data();
    job.c_row = n + gap;
    job.c_matrix = m * job.c_row;
    small_gemm(job);
    for (std::int64_t at = 0; at < std::int64_t(c.size()); ++at) {
      const std::int64_t column = at % job.c_row, row = at / job.c_row, i = row / m;
      if (column >= n || i >= count) {
        ASSERT_EQ(c[std::size_t(at)], before[std::size_t(at)]) << at;
        continue;
      }
      T want = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        want += a[std::size_t(i * m * k + row % m * job.a_row + p * job.a_column)] *
                b[std::size_t(i * k * n + p * job.b_row + column * job.b_column)];
      }
      ASSERT_LE(std::abs(c[std::size_t(at)] - want), 2 * this->tolerance(k)) << at;
    }
    // The last row alone has the same bits.
    std::vector<T> row(static_cast<std::size_t>(n));
    SmallGemm<T> part = job;
    part.count = part.m = 1;
    part.a += (count - 1) * job.a_matrix + (m - 1) * job.a_row;
    part.b += (count - 1) * job.b_matrix;
    part.c = row.data();
    part.c_row = n;
    small_gemm(part);
    const T* last = c.data() + (count - 1) * job.c_matrix + (m - 1) * job.c_row;
    for (std::int64_t j = 0; j < n; ++j) ASSERT_EQ(row[std::size_t(j)], last[j]) << j;
  }
}

template <class T>
class SmallLinesTest : public SmallGemmTest<T> {};
TYPED_TEST_SUITE(SmallLinesTest, GemmTypes);

TYPED_TEST(SmallLinesTest, MultipliesLinesByTheirVectors) {
  using T = TypeParam;
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(trial % 3));
    const std::int64_t count = 1 + this->below(4), k = this->size(), m = this->size();
    if (!small_lines_pay(k, sizeof(T))) continue;
    auto lines = this->numbers(count * m * k), x = this->numbers(count * k);
    // What isn't a number stays within its line.
    const std::int64_t bad = this->below(count * m);
    lines[std::size_t(bad * k)] = std::numeric_limits<T>::quiet_NaN();
    const auto before = this->numbers(count * m);
    std::vector<T> y = before;
    SmallLines<T> job;
    job.begin = this->below(count * m);
    job.end = job.begin + 1 + this->below(count * m - job.begin);
    job.of_each = m;
    job.k = k;
    job.lines = lines.data();
    job.lines_end = lines.data() + lines.size();
    job.x = x.data();
    job.x_end = x.data() + x.size();
    job.y = y.data();
    small_lines(job);
    for (std::int64_t r = 0; r < count * m; ++r) {
      const T got = y[std::size_t(r)];
      if (r < job.begin || r >= job.end) {
        ASSERT_EQ(got, before[std::size_t(r)]) << r;
      } else if (r == bad) {
        ASSERT_TRUE(std::isnan(got)) << r;
      } else {
        T want = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          want += lines[std::size_t(r * k + p)] * x[std::size_t(r / m * k + p)];
        }
        ASSERT_NEAR(got, want, this->tolerance(k)) << r;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::codegen
