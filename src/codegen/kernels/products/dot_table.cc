// SPDX-License-Identifier: Apache-2.0
// The kernels of dots, those for special cases first.
#include "src/codegen/kernels/products/dot_table.h"

#include <algorithm>

#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/products/dot.h"
#include "src/codegen/kernels/products/matrix_vector.h"
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"
#include "src/codegen/kernels/products/packed_gemm.h"
#include "src/codegen/kernels/products/small_gemm.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

// Thresholds were measured in turn with what would be taken else, on the machines that are named.

/// For m vectors by a matrix of n lines, which others would have to put in another order if it is
/// `transposed` for them. On Zen 4, with vectors of 64 bytes and of 32, for 2 to 24 vectors, 16 to
/// 4096 lines and sums of 16 to 4096: it takes 0.12 to 0.9 of the time where it is chosen, and 1.2
/// at most. Of short sums, adding up lanes takes too long; small products, which BLAS has kernels
/// for, take as long there; beyond the caches memory is the bound.
bool thin_gemm_pays(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed) {
  constexpr std::int64_t kMostRows = 16, kHighest = 8, kLanes = 16;
  const InstructionSet set = instruction_set();
  if (set == InstructionSet::baseline || m < 2 || m > kMostRows || k < kLanes) return false;
  if (m <= 4) return m == 4 || k < 1024;
  const double products = double(m) * double(n) * double(k);
  if (set == InstructionSet::avx512) {
    if (m > kHighest) return transposed && k >= 128 && products > 2e5;
    return transposed ? k >= 32 && products > (n > 128 ? 1e5 : 2e5) : k >= 64 && products > 2e5;
  }
  if (m > kHighest) return transposed && double(n) * double(k) >= (k >= 512 ? 1e5 : 3e5);
  return transposed ? k >= 64 && products > 3e4 : k >= 128 && products > 6e4;
}

bool are_thin(const MatrixSizes& s) {
  if (s.b_by_lines()) return thin_gemm_pays(s.m, s.n, s.k, true);
  return !s.a_transposed && thin_gemm_pays(s.n, s.m, s.k, false);
}

/// A side of few rows or columns is read with the other one, once.
bool are_vectors(const MatrixSizes& s) {
  return std::min(s.m, s.n) <= kMostVectors && s.m != 0 && s.n != 0 && s.k != 0;
}

/// Few rows by a matrix whose lines are columns, far apart: both ways of ours read it slowly.
bool reads_far_apart(const MatrixSizes& s) {
  return instruction_set() == InstructionSet::avx2 && s.b_transposed && s.m < 64 && s.k >= 512;
}
bool are_packed(const MatrixSizes& s) {
  return packed_gemm_pays(s.m, s.n, s.k) && !reads_far_apart(s);
}
bool are_not_packed(const MatrixSizes& s) { return batch_gemm_pays(s.b_transposed, s.m, s.n, s.k); }

constexpr KernelLine<MatrixSizes, Gemm> kGemms[] = {
    {{"dot/thin",
      "2 to 16 vectors by a matrix that sums go along: read once in place, 0.1 to 0.9 of others"},
     are_thin,
     Gemm::thin},
    {{"dot/vectors",
      "a few rows or columns: the other operand is read once, and is what takes the time"},
     are_vectors,
     Gemm::vectors},
    {{"dot/packed", "large enough that packing both operands pays; with AVX2 or AVX-512"},
     are_packed,
     Gemm::packed},
    {{"dot/unpacked",
      "too small or narrow to pack, where ours is faster than BLAS; with AVX2 or AVX-512"},
     are_not_packed,
     Gemm::unpacked},
    {{"dot/blas", "no kernel of ours is faster for this type, size and processor"},
     always<MatrixSizes>,
     Gemm::blas},
};

using Line = KernelLine<DotOperation, DotKernel>;

MatrixSizes sizes_of(const DotOperation& d) {
  return {d.m, d.n, d.k, d.lhs_transposed, d.rhs_transposed};
}

bool has_wider_sums(const DotOperation& d) { return dot_takes_narrow(d.lhs, d.rhs, d.result); }

bool has_no_kernel(const DotOperation& d) {
  if (has_wider_sums(d)) return false;
  if (d.lhs != d.result || d.rhs != d.result) return true;
  return !is_one_of(kWholeBytes, d.result);
}

bool are_short_lines(const DotOperation& d) {
  const auto bytes = std::int64_t(byte_size(d.result));
  const bool by_lines = (d.n == 1 && !d.lhs_transposed) || (d.m == 1 && d.rhs_transposed);
  return !is_complex(d.result) && !d.interleaved && !d.shares && by_lines &&
         small_lines_pay(d.k, bytes) && small_gemm_pays(d.m, d.n, d.k, bytes);
}
bool are_small_matrices(const DotOperation& d) {
  // A column is a row that the other matrix is multiplied by, and the other way round.
  const bool column = d.n == 1 && d.lhs_transposed, row = d.m == 1 && d.rhs_transposed;
  if (!is_complex(d.result)) {
    if (row || (d.n == 1 && !column)) return false;
    // Larger ones in lines are better not put in another order for a few rows.
    constexpr std::int64_t kLargeLines = 4096;
    if (d.rhs_transposed && d.n * d.k >= kLargeLines && are_thin(sizes_of(d))) return false;
  }
  const std::int64_t m = column ? 1 : row ? d.n : d.m, n = column ? d.m : row ? 1 : d.n;
  return !d.interleaved && small_gemm_pays(m, n, d.k, std::int64_t(byte_size(d.result)));
}

constexpr Line kDots[] = {
    {kOnEvaluator, has_no_kernel, DotKernel::none},
    {{"dot/nothing", "the result has no elements"},
     [](const DotOperation& d) { return d.batch * d.m * d.n == 0; },
     DotKernel::nothing},
    {{"dot/zeros", "nothing is contracted: all sums are empty"},
     [](const DotOperation& d) { return d.k == 0; },
     DotKernel::zeros},
    {{"dot/narrow",
      "sums are wider than factors, as instructions for 8-bit integers and bf16 make them"},
     has_wider_sums,
     DotKernel::narrow},
    {{"dot/bf16", "the processor has instructions for products of bf16; sums are rounded once"},
     [](const DotOperation& d) { return d.result == DType::bf16 && has_bf16_gemm(); },
     DotKernel::bf16},
    {{"dot/halves",
      "16-bit floats without instructions of their own: multiplied as f32, rounded once"},
     [](const DotOperation& d) { return d.result == DType::f16 || d.result == DType::bf16; },
     DotKernel::halves},
    {{"dot/predicates", "truth values: any of the pairs is true"},
     [](const DotOperation& d) { return d.result == DType::pred; },
     DotKernel::predicates},
    {{"dot/integers",
      "integers with sums of their own type: tiles of our own, as no library has them"},
     [](const DotOperation& d) { return !is_floating(d.result) && !is_complex(d.result); },
     DotKernel::integers},
    {{"dot/lines", "a vector by a small matrix that sums go along: no lanes are left empty"},
     are_short_lines,
     DotKernel::lines},
    {{"dot/small", "small matrices: to pack one, or a call for each, would take as long"},
     are_small_matrices,
     DotKernel::small},
    {{"dot/complex", "larger matrices of complex numbers: by BLAS, as no kernel of ours has them"},
     [](const DotOperation& d) { return is_complex(d.result); },
     DotKernel::complex},
    {{"dot/matrices", "matrices of f32 and f64: the next table says by what"},
     always<DotOperation>,
     DotKernel::matrices},
};

}  // namespace

const KernelLine<MatrixSizes, Gemm>& choose_gemm(const MatrixSizes& sizes) {
  return choose(kGemms, sizes);
}

DotChoice choose_dot(const DotOperation& dot) {
  const Line& line = choose(kDots, dot);
  const KernelLine<MatrixSizes, Gemm>& gemm = choose_gemm(sizes_of(dot));
  return {line.how == DotKernel::matrices ? &gemm.label : &line.label, line.how, gemm.how};
}

KernelFamily dot_family() {
  KernelFamily out = family_of("dot", kDots);
  out.kernels.pop_back();  // the line that leads to the other table
  const KernelFamily gemms = family_of("dot", kGemms);
  out.kernels.insert(out.kernels.end(), gemms.kernels.begin(), gemms.kernels.end());
  return out;
}

bool batch_gemm_pays(bool b_transposed, std::int64_t m, std::int64_t n, std::int64_t k) {
  const double products = double(m) * double(n) * double(k);
  switch (instruction_set()) {
    // By 5 to 200 % on Sapphire Rapids, whose OpenBLAS has kernels of its own for small matrices,
    // and better ones for large ones (by up to 20 %; not so on AMD's Zen 4).
    case InstructionSet::avx512:
      return products > 2e5 && (products < 4e8 || !is_intel()) && (!b_transposed || m >= 8);
    // By 5 to 150 % on Zen 3, but for a few rows by a matrix beyond the caches: its lines are then
    // best read as OpenBLAS does, in blocks.
    case InstructionSet::avx2:
      return n < 160 || double(n) * double(k) < (b_transposed && k >= 512 ? 1e5 : 3e5);
    default:
      return false;
  }
}

}  // namespace tessera::codegen
