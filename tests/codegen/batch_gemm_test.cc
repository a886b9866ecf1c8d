// SPDX-License-Identifier: Apache-2.0
// Sums of matrix products, and products of a few vectors by a matrix, for each instruction set,
// against the sums written out.
#include "src/codegen/kernels/products/batch_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <vector>

#include "src/codegen/kernels/products/dot_table.h"
#include "src/codegen/kernels/products/gemm.h"
#include "src/codegen/kernels/products/thin_gemm.h"
#include "tests/codegen/gemm_case.h"
#include "tests/codegen/random_case.h"

namespace tessera::codegen {
namespace {

TEST(BlasSetupTest, OpenBlasHasKernelsForThisMachine) {
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  if (instruction_set_of_machine() == InstructionSet::baseline) GTEST_SKIP() << "no AVX2";
  EXPECT_STRNE(openblas_get_corename(), "Prescott");
}

template <class T>
class BatchGemmTest : public GemmTest<T> {};
TYPED_TEST_SUITE(BatchGemmTest, GemmTypes);

TYPED_TEST(BatchGemmTest, SumsUpProductsOfAnyStrides) {
  using T = TypeParam;
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(this->below(3)));
    const bool large = this->below(8) == 0;
    const std::int64_t m = this->below(large ? 200 : 15), n = this->below(large ? 600 : 140);
    const std::int64_t count = this->below(4), most = large ? 400 : 40;
    const std::int64_t room = std::max({m, n, most}) + 3;
    const auto a = this->numbers(room * room * 3), b = this->numbers(room * room * 3);
    BatchGemm<T> job;
    const bool a_by_columns = this->below(2) == 0, b_by_columns = this->below(3) == 0;
    const std::int64_t sign = this->below(2) == 0 ? 1 : -1;
    (a_by_columns ? job.a_column : job.a_row) = sign * room;
    (a_by_columns ? job.a_row : job.a_column) = this->below(3);
    (b_by_columns ? job.b_column : job.b_row) = sign * room;
    (b_by_columns ? job.b_row : job.b_column) = 1;
    std::vector<typename BatchGemm<T>::Term> terms;
    std::int64_t sum = 0;
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t first = sign < 0 ? room * room : 0;
      terms.push_back({a.data() + first + this->below(room), b.data() + first + this->below(room),
                       this->below(most)});
      sum += terms.back().k;
    }
    job.terms = terms.data();
    job.count = count;
    job.m = m;
    job.n = n;
    job.c_row = n + this->below(3);
    job.accumulate = this->below(2) == 0;
    auto c = this->numbers(m * job.c_row + 8);
    const auto before = c;
    job.c = c.data();
    batch_gemm(job);
    for (std::int64_t i = 0; i < std::int64_t(c.size()); ++i) {
      const std::int64_t row = job.c_row == 0 ? m : i / job.c_row, column = i - row * job.c_row;
      const T old = before[std::size_t(i)];
      if (row >= m || column >= n) {
        ASSERT_EQ(c[std::size_t(i)], old) << row << ", " << column;
        continue;
      }
      double want = job.accumulate ? double(old) : 0;
      for (const auto& t : terms) {
        for (std::int64_t k = 0; k < t.k; ++k) {
          want += double(t.a[row * job.a_row + k * job.a_column]) *
                  double(t.b[k * job.b_row + column * job.b_column]);
        }
      }
      ASSERT_NEAR(double(c[std::size_t(i)]), want, this->tolerance(sum)) << row << ", " << column;
    }
  }
}

// Sizes for which it is chosen, in all transpositions.
TYPED_TEST(BatchGemmTest, MultipliesLargeMatrices) {
  using T = TypeParam;
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE(trial);
    const int m = int(1 + this->below(150)), n = int(1 + this->below(400)),
              k = int(std::min<std::int64_t>(1100000 / (m * n) + 20, 5000));
    const bool ta = trial % 2 == 1, tb = trial / 2 % 2 == 1;
    const auto a = this->numbers(std::int64_t(m) * k), b = this->numbers(std::int64_t(n) * k);
    std::vector<T> c(std::size_t(m) * std::size_t(n), T(-1));
    const CBLAS_TRANSPOSE of_b = tb ? CblasTrans : CblasNoTrans;
    gemm(choose_gemm({m, n, k, ta, tb}).how, ta ? CblasTrans : CblasNoTrans, of_b, m, n, k,
         a.data(), ta ? m : k, b.data(), tb ? k : n, c.data(), n);
    for (std::ptrdiff_t i = 0; i < m; ++i) {
      for (std::ptrdiff_t j = 0; j < n; ++j) {
        double want = 0;
        for (std::ptrdiff_t p = 0; p < k; ++p) {
          want += double(a[std::size_t(ta ? p * m + i : i * k + p)]) *
                  double(b[std::size_t(tb ? j * k + p : p * n + j)]);
        }
        ASSERT_NEAR(double(c[std::size_t(i * n + j)]), want, this->tolerance(k)) << i << ", " << j;
      }
    }
  }
}

// Sides of few rows or columns, which matrix_vector.h and thin_gemm.h multiply.
TYPED_TEST(BatchGemmTest, MultipliesThinMatrices) {
  using T = TypeParam;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(this->below(3)));
    const bool tall = this->below(2) == 0;
    const int thin = int(1 + this->below(5)),
              wide = int(1 + this->below(this->below(10) == 0 ? 9000 : 90));
    const int m = tall ? wide : thin, n = tall ? thin : wide, k = int(1 + this->below(70));
    const bool ta = this->below(2) == 1, tb = this->below(2) == 1;
    const int pad = int(this->below(3));
    const int lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
    const auto a = this->numbers(std::int64_t(lda) * (ta ? k : m)),
               b = this->numbers(std::int64_t(ldb) * (tb ? n : k));
    std::vector<T> c(std::size_t(m) * std::size_t(ldc), T(-5));
    const CBLAS_TRANSPOSE of_b = tb ? CblasTrans : CblasNoTrans;
    gemm(choose_gemm({m, n, k, ta, tb}).how, ta ? CblasTrans : CblasNoTrans, of_b, m, n, k,
         a.data(), lda, b.data(), ldb, c.data(), ldc);
    for (std::ptrdiff_t i = 0; i < m; ++i) {
      for (std::ptrdiff_t j = 0; j < ldc; ++j) {
        double want = j < n ? 0 : -5;
        for (std::ptrdiff_t p = 0; p < k && j < n; ++p) {
          want += double(a[std::size_t(ta ? p * lda + i : i * lda + p)]) *
                  double(b[std::size_t(tb ? j * ldb + p : p * ldb + j)]);
        }
        ASSERT_NEAR(double(c[std::size_t(i * ldc + j)]), want, this->tolerance(k))
            << i << ", " << j;
      }
    }
  }
}

// Tiles go across lots of a few rows, and those with fewer terms don't read the others, whatever is
// packed and asked for ahead.
TYPED_TEST(BatchGemmTest, LotsHaveTermsOfTheirOwn) {
  using T = TypeParam;
  using Lot = typename BatchGemm<T>::Lot;
  for (int trial = 0; trial < 120; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(this->below(3)));
    // Some lots of more rows than a block.
    const std::int64_t m = 1 + this->below(trial % 10 == 0 ? 600 : 20), lots = 1 + this->below(9);
    const std::int64_t n = 1 + this->below(300);
    const std::int64_t count = 1 + this->below(5), k = 1 + this->below(m > 20 ? 30 : 300),
                       gap = this->below(3);
    const std::int64_t c_lot = (m + gap) * n, a_lot = (m + gap) * k;
    const auto a = this->numbers(lots * a_lot + count), b = this->numbers(count * k * n);
    std::vector<typename BatchGemm<T>::Term> terms;
    for (std::int64_t t = 0; t < count; ++t)
      terms.push_back({a.data() + t, b.data() + t * k * n, k});
    std::vector<Lot> places;
    std::deque<std::vector<char>> flags;
    for (std::int64_t l = 0; l < lots; ++l) {
      // In any order in memory.
      const std::int64_t at = (l * 7 + 3) % lots == l ? l : lots - 1 - l;
      places.push_back({at * a_lot, l * c_lot});
      if (this->below(3) == 0) {
        std::vector<char>& terms_of = flags.emplace_back(std::size_t(count));
        for (char& flag : terms_of) flag = char(this->below(2));
        places.back().terms = terms_of.data();
      }
      if (this->below(3) == 0) places.back().m = 1 + this->below(m);
      if (this->below(3) == 0) {
        places.back().first = this->below(k + 1);
        places.back().last = places.back().first + this->below(k + 2);
      }
    }
    std::vector<T> c(std::size_t(lots * c_lot), T(-7));
    BatchGemm<T> job;
    job.terms = terms.data();
    job.count = count;
    job.m = m;
    job.n = n;
    job.a_row = k;
    job.b_row = n;
    job.c = c.data();
    job.c_row = n;
    job.lots = places.data();
    job.lot_count = lots;
    batch_gemm(job);
    for (std::int64_t i = 0; i < lots * c_lot; ++i) {
      const Lot& lot = places[std::size_t(i / c_lot)];
      const std::int64_t row = i % c_lot / n, column = i % n;
      const std::int64_t rows = lot.m == 0 ? m : lot.m;
      double want = row < rows ? 0 : -7;
      for (std::int64_t t = 0; t < count && row < rows; ++t) {
        if (lot.terms != nullptr && lot.terms[t] == 0) continue;
        for (std::int64_t p = lot.first; p < std::min(lot.last, k); ++p) {
          want += double(terms[std::size_t(t)].a[lot.a + row * k + p]) *
                  double(b[std::size_t((t * k + p) * n + column)]);
        }
      }
      ASSERT_NEAR(double(c[std::size_t(i)]), want, this->tolerance(count * k)) << i;
    }
  }
}

// What isn't finite stays where it belongs, also beside columns that fill no vector.
TYPED_TEST(BatchGemmTest, DoesNotMixColumns) {
  using T = TypeParam;
  for (const int n : {1, 3, 17, 50}) {
    std::vector<T> a(9, T(1)), b(static_cast<std::size_t>(3 * n), T(2)),
        c(static_cast<std::size_t>(3 * n));
    b[std::size_t(n - 1)] = T(NAN);
    const typename BatchGemm<T>::Term term{a.data(), b.data(), 3};
    BatchGemm<T> job;
    job.terms = &term;
    job.count = 1;
    job.m = 3;
    job.n = n;
    job.a_row = 3;
    job.b_row = n;
    job.c = c.data();
    job.c_row = n;
    batch_gemm(job);
    for (int i = 0; i < 3 * n; ++i) {
      if (i % n == n - 1) {
        EXPECT_TRUE(std::isnan(c[std::size_t(i)]));
      } else {
        EXPECT_EQ(c[std::size_t(i)], T(6));
      }
    }
  }
}

// Of a few vectors by a matrix that is gone through by lines.
template <class T>
class ThinGemmTest : public GemmTest<T> {};
TYPED_TEST_SUITE(ThinGemmTest, GemmTypes);

TYPED_TEST(ThinGemmTest, SumsUpProductsOfAnyStrides) {
  using T = TypeParam;
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(this->below(3)));
    MatrixProduct<T> job;
    job.m = this->below(20);
    job.n = this->below(40);
    job.k = this->below(this->below(4) == 0 ? 300 : 40);
    const std::int64_t room = std::max({job.m, job.n, job.k}) + 3;
    const bool a_by_columns = this->below(2) == 0, c_by_columns = this->below(2) == 0;
    // As large as they have to be, so that a sanitizer sees what is read beyond them.
    const std::int64_t a_lines = a_by_columns ? job.k : job.m,
                       a_line = a_by_columns ? job.m : job.k;
    const auto a = this->numbers(a_lines == 0 ? 0 : (a_lines - 1) * room + a_line);
    const auto b = this->numbers(job.n == 0 ? 0 : (job.n - 1) * room + job.k);
    std::vector<T> c(std::size_t(room * room), T(-5));
    job.a = a.data();
    (a_by_columns ? job.a_column : job.a_row) = room;
    (a_by_columns ? job.a_row : job.a_column) = 1;
    job.b = b.data();
    job.b_column = room;
    job.c = c.data();
    (c_by_columns ? job.c_column : job.c_row) = room;
    (c_by_columns ? job.c_row : job.c_column) = 1;
    thin_gemm(job);
    for (std::int64_t at = 0; at < room * room; ++at) {
      const std::int64_t i = c_by_columns ? at % room : at / room,
                         j = c_by_columns ? at / room : at % room;
      double want = i < job.m && j < job.n ? 0 : -5;
      for (std::int64_t k = 0; k < job.k && i < job.m && j < job.n; ++k) {
        want += double(a[std::size_t(i * job.a_row + k * job.a_column)]) *
                double(b[std::size_t(j * room + k)]);
      }
      ASSERT_NEAR(double(c[std::size_t(at)]), want, this->tolerance(job.k)) << i << ", " << j;
    }
  }
}

// Threads share a product as they like, and either side may be the one that is gone through.
TYPED_TEST(ThinGemmTest, HasTheSameBitsInParts) {
  using T = TypeParam;
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    limit_instruction_set(InstructionSet(this->below(3)));
    const int m = int(1 + this->below(17)), n = int(1 + this->below(60)),
              k = int(1 + this->below(150));
    const auto a = this->numbers(std::int64_t(m) * k), b = this->numbers(std::int64_t(n) * k);
    std::vector<T> whole(std::size_t(m * n)), parts(whole.size(), T(-5));
    const auto multiply = [&](int i, int rows, int j, int columns, std::vector<T>* c) {
      gemm(Gemm::thin, CblasNoTrans, CblasTrans, rows, columns, k, a.data() + i * k, k,
           b.data() + j * k, k, c->data() + i * n + j, n);
    };
    multiply(0, m, 0, n, &whole);
    for (int i = 0, rows = 0; i < m; i += rows) {
      rows = std::min(m - i, int(1 + this->below(m)));
      for (int j = 0, columns = 0; j < n; j += columns) {
        columns = std::min(n - j, int(1 + this->below(n)));
        multiply(i, rows, j, columns, &parts);
      }
    }
    ASSERT_EQ(whole, parts);
  }
}

// The last vector of a line has elements that are in the one before, too.
TYPED_TEST(ThinGemmTest, KeepsInfinitiesWhereTheyAre) {
  using T = TypeParam;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  for (const InstructionSet set :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    limit_instruction_set(set);
    for (const int k : {17, 30, 33, 47}) {
      for (int at = 0; at < k; ++at) {
        constexpr int kRows = 5, kLines = 6;
        std::vector<T> a(std::size_t(kRows * k), T(1)), b(std::size_t(kLines * k), T(1)),
            c(std::size_t(kRows * kLines));
        a[std::size_t(2 * k + at)] = b[std::size_t(3 * k + at)] = kInfinity;
        gemm(Gemm::thin, CblasNoTrans, CblasTrans, kRows, kLines, k, a.data(), k, b.data(), k,
             c.data(), kLines);
        for (int i = 0; i < kRows; ++i) {
          for (int j = 0; j < kLines; ++j) {
            ASSERT_EQ(c[std::size_t(i * kLines + j)], i == 2 || j == 3 ? kInfinity : T(k));
          }
        }
      }
    }
  }
}

/// Rows, columns, the length of sums; whether the right side has its columns in lines of memory.
struct FewRows {
  std::int64_t m, n, k;
  bool lines;
  bool thin;  ///< with AVX2 and AVX-512
};

TEST(ThinGemmChoice, IsForFewVectorsByMatricesInLines) {
  for (const FewRows& c : {FewRows{2, 128, 32, true, true}, FewRows{8, 512, 256, true, true},
                           FewRows{8, 512, 256, false, false}, FewRows{512, 8, 256, false, true},
                           FewRows{16, 2048, 512, true, true}, FewRows{17, 2048, 512, true, false},
                           FewRows{1, 512, 256, true, false}, FewRows{4, 512, 8, true, false}}) {
    DotOperation d;
    d.m = c.m;
    d.n = c.n;
    d.k = c.k;
    d.rhs_transposed = c.lines;
    for (const InstructionSet set :
         {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
      limit_instruction_set(set);
      const DotChoice choice = choose_dot(d);
      const bool taken = choice.kernel == DotKernel::matrices && choice.gemm == Gemm::thin;
      EXPECT_EQ(taken, c.thin && instruction_set() != InstructionSet::baseline)
          << c.m << "x" << c.n << "x" << c.k << ", set " << int(set);
    }
  }
  limit_instruction_set(InstructionSet::avx512);
}

}  // namespace
}  // namespace tessera::codegen

namespace tessera::testing {
namespace {

TEST(ThinGemm, IsWhatTheEvaluatorGives) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random r(seed);
    const std::int64_t few = 2 + r.below(15), many = 40 + r.below(200), k = 16 + r.below(150);
    const bool tall = seed % 3 == 0;
    Program p;
    const DType type = seed % 4 == 1 ? DType::f64 : DType::f32;
    Instruction* a = p.argument(r.literal(type, {tall ? many : few, k}));
    Instruction* b = p.argument(r.literal(type, {tall ? few : many, k}));
    ir::DotAttrs attrs;
    attrs.lhs_contracting = {1};
    attrs.rhs_contracting = {1};
    p.check(p.b.dot(a, b, attrs), seed, double(k));
  }
}

}  // namespace
}  // namespace tessera::testing
