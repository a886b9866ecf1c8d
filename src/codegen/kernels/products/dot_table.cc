// SPDX-License-Identifier: Apache-2.0
// The kernels of dots, those for special cases first.
#include "src/codegen/kernels/products/dot_table.h"

#include "src/codegen/kernels/products/dot.h"
#include "src/codegen/kernels/products/gemm.h"
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"
#include "src/codegen/kernels/products/small_gemm.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using Line = KernelLine<DotOperation, DotKernel>;

bool has_wider_sums(const DotOperation& d) { return dot_takes_narrow(d.lhs, d.rhs, d.result); }

bool has_no_kernel(const DotOperation& d) {
  if (has_wider_sums(d)) return false;
  if (d.lhs != d.result || d.rhs != d.result) return true;
  return !is_one_of(kWholeBytes, d.result);
}

/// Of f32 and f64.
bool is_multiplied_by(Gemm gemm, const DotOperation& d) {
  if (d.result != DType::f32 && d.result != DType::f64) return false;
  return gemm_for(transposed_if(d.lhs_transposed), transposed_if(d.rhs_transposed), d.m, d.n,
                  d.k) == gemm;
}

bool is_of_floats(const DotOperation& d) {
  return (d.result == DType::f32 || d.result == DType::f64) && !d.interleaved;
}
bool are_short_lines(const DotOperation& d) {
  const auto bytes = std::int64_t(byte_size(d.result));
  const bool by_lines = (d.n == 1 && !d.lhs_transposed) || (d.m == 1 && d.rhs_transposed);
  return is_of_floats(d) && by_lines && small_lines_pay(d.k, bytes) &&
         small_gemm_pays(d.m, d.n, d.k, bytes);
}
bool are_small_matrices(const DotOperation& d) {
  // A column is a row that the other matrix is multiplied by.
  const bool column = d.n == 1 && d.lhs_transposed, row = d.m == 1 && d.rhs_transposed;
  // Larger ones in lines are better not put in another order for a few rows.
  constexpr std::int64_t kLargeLines = 4096;
  if (d.rhs_transposed && d.n * d.k >= kLargeLines && is_multiplied_by(Gemm::thin, d)) return false;
  return is_of_floats(d) && !row && (d.n > 1 || column) &&
         small_gemm_pays(column ? 1 : d.m, column ? d.m : d.n, d.k,
                         std::int64_t(byte_size(d.result)));
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
    {{"dot/thin",
      "2 to 16 vectors by a matrix that sums go along: read once in place, 0.1 to 0.9 of others"},
     [](const DotOperation& d) { return is_multiplied_by(Gemm::thin, d); },
     DotKernel::thin},
    {{"dot/vectors",
      "a few rows or columns: the other operand is read once, and is what takes the time"},
     [](const DotOperation& d) { return is_multiplied_by(Gemm::vectors, d); },
     DotKernel::vectors},
    {{"dot/packed", "large enough that packing both operands pays; with AVX2 or AVX-512"},
     [](const DotOperation& d) { return is_multiplied_by(Gemm::packed, d); },
     DotKernel::packed},
    {{"dot/unpacked",
      "too small or narrow to pack, where ours is faster than BLAS; with AVX2 or AVX-512"},
     [](const DotOperation& d) { return is_multiplied_by(Gemm::unpacked, d); },
     DotKernel::unpacked},
    {{"dot/blas", "no kernel of ours is faster for this type, size and processor"},
     always<DotOperation>,
     DotKernel::blas},
};

}  // namespace

const KernelLine<DotOperation, DotKernel>& choose_dot(const DotOperation& dot) {
  return choose(kDots, dot);
}

KernelFamily dot_family() { return family_of("dot", kDots); }

}  // namespace tessera::codegen
