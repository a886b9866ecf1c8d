// SPDX-License-Identifier: Apache-2.0
// Dot kernels: a dot becomes a product of matrices, which the table has a kernel for (dot_table.h).
#include "src/codegen/kernels/products/dot.h"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/subnormals.h"
#include "src/base/contains.h"
#include "src/base/threads/thread_scratch.h"
#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/dot_table.h"
#include "src/codegen/kernels/products/gemm.h"
#include "src/codegen/kernels/products/matrix_vector.h"
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"
#include "src/codegen/kernels/products/packed_gemm.h"
#include "src/codegen/kernels/products/row_sums.h"
#include "src/codegen/kernels/products/small_gemm.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/ir/analysis/shared_matrices.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// A block of the result: rows [m0, m0+m) and columns [n0, n0+n) of one batch, as sums over [k0,
/// k0+k).
struct Block {
  std::int64_t batch, m0, m, n0, n, k0, k;
};

struct DotAttrs {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool lhs_transposed = false, rhs_transposed = false;  ///< lhs [k,m]; rhs [k,n] if not, else [n,k]
  bool split_columns = false;  ///< units are columns of the result, else rows
  BatchMatrices lhs = {}, rhs = {};
  DotKernel kernel = DotKernel::matrices;  ///< by the table
  Gemm gemm = Gemm::blas;                  ///< of f32 and f64, and of halves that are widened

  bool interleaved() const { return lhs.inner > 1 || rhs.inner > 1; }
  /// One matrix for all of the batch.
  bool shares_lhs() const { return lhs.outer_stride == 0; }
  bool shares_rhs() const { return rhs.outer_stride == 0; }
  CBLAS_TRANSPOSE of_lhs() const { return transposed_if(lhs_transposed); }
  CBLAS_TRANSPOSE of_rhs() const { return transposed_if(rhs_transposed); }
  /// The element of the result at which a block begins.
  std::int64_t first(const Block& b) const { return (b.batch * m + b.m0) * n + b.n0; }
};

template <class F>
void for_each_block(const KernelCall& call, F&& f) {
  const auto& a = *static_cast<const DotAttrs*>(call.attributes);
  const std::int64_t per_batch = a.split_columns ? a.n : a.m;
  for (std::int64_t begin = call.begin; begin < call.end;) {
    const std::int64_t batch = begin / per_batch, first = begin % per_batch;
    const std::int64_t count = std::min(per_batch - first, call.end - begin);
    f(a, a.split_columns ? Block{batch, 0, a.m, first, count, 0, a.k}
                         : Block{batch, first, count, 0, a.n, 0, a.k});
    begin += count;
  }
}
/// A kernel by what multiplies a block.
template <auto multiply>
void run_blocks(const KernelCall& call) {
  for_each_block(call, [&](const DotAttrs& a, const Block& b) { multiply(a, b, call); });
}

template <class T>
void multiply_block(const DotAttrs& a, const Block& block, const KernelCall& call) {
  const T* lhs = reinterpret_cast<const T*>(call.inputs[0]) + a.lhs.first(block.batch);
  const T* rhs = reinterpret_cast<const T*>(call.inputs[1]) + a.rhs.first(block.batch);
  lhs += a.lhs_transposed ? block.m0 + block.k0 * a.lhs.line : block.m0 * a.lhs.line + block.k0;
  rhs += a.rhs_transposed ? block.n0 * a.rhs.line + block.k0 : block.n0 + block.k0 * a.rhs.line;
  gemm(a.gemm, a.of_lhs(), a.of_rhs(), int(block.m), int(block.n), int(block.k), lhs,
       int(a.lhs.line), rhs, int(a.rhs.line),
       reinterpret_cast<T*>(call.outputs[0]) + a.first(block), int(a.n));
}

/// Vectors by the lines of small matrices, all of a batch in one go.
template <class T>
void run_short_lines(const KernelCall& call) {
  const auto& a = *static_cast<const DotAttrs*>(call.attributes);
  const T* lhs = reinterpret_cast<const T*>(call.inputs[0]);
  const T* rhs = reinterpret_cast<const T*>(call.inputs[1]);
  const T *lhs_end = lhs + a.batch * a.m * a.k, *rhs_end = rhs + a.batch * a.n * a.k;
  SmallLines<T> job;
  job.k = a.k;
  job.y = reinterpret_cast<T*>(call.outputs[0]);
  const bool column = a.n == 1 && !a.lhs_transposed;
  job.of_each = column ? a.m : a.n;
  job.lines = column ? lhs : rhs;
  job.lines_end = column ? lhs_end : rhs_end;
  job.x = column ? rhs : lhs;
  job.x_end = column ? rhs_end : lhs_end;
  const std::int64_t of_unit = column || a.split_columns ? 1 : a.n;
  job.begin = call.begin * of_unit;
  job.end = call.end * of_unit;
  small_lines(job);
}

/// How many elements an operand has.
std::int64_t elements_of(const BatchMatrices& m, std::int64_t batch) {
  return (batch / m.inner - 1) * m.outer_stride + m.lines * m.line;
}

/// The same block of so many matrices, one after the other.
template <class T>
void multiply_small(const DotAttrs& a, const Block& b, std::int64_t count, const KernelCall& call) {
  const T* const lhs = reinterpret_cast<const T*>(call.inputs[0]);
  const T* const rhs = reinterpret_cast<const T*>(call.inputs[1]);
  SmallGemm<T> job;
  job.count = count;
  job.k = a.k;
  job.c = reinterpret_cast<T*>(call.outputs[0]) + a.first(b);
  job.c_matrix = a.m * a.n;
  if (a.n == 1 && a.lhs_transposed) {  // a row by the other matrix
    job.m = 1;
    job.n = job.c_row = b.m;
    job.a = rhs + a.rhs.first(b.batch);
    job.a_matrix = a.rhs.outer_stride;
    job.b = lhs + a.lhs.first(b.batch) + b.m0;
    job.b_matrix = a.lhs.outer_stride;
    job.b_row = a.m;
    job.b_end = lhs + elements_of(a.lhs, a.batch);
    return small_gemm(job);
  }
  if (a.m == 1 && a.rhs_transposed) {  // the other matrix by a column
    job.m = b.n;
    job.n = job.c_row = 1;
    job.a = rhs + a.rhs.first(b.batch) + b.n0 * a.k;
    job.a_matrix = a.rhs.outer_stride;
    job.a_row = a.k;
    job.b = lhs + a.lhs.first(b.batch);
    job.b_matrix = a.lhs.outer_stride;
    job.b_row = 1;
    job.b_end = lhs + elements_of(a.lhs, a.batch);
    return small_gemm(job);
  }
  job.m = b.m;
  job.n = b.n;
  job.c_row = a.n;
  job.a_matrix = a.lhs.outer_stride;
  (a.lhs_transposed ? job.a_column : job.a_row) = a.lhs.line;
  (a.lhs_transposed ? job.a_row : job.a_column) = 1;
  job.a = lhs + a.lhs.first(b.batch) + b.m0 * job.a_row;
  job.b_matrix = a.rhs.outer_stride;
  (a.rhs_transposed ? job.b_column : job.b_row) = a.rhs.line;
  (a.rhs_transposed ? job.b_row : job.b_column) = 1;
  job.b = rhs + a.rhs.first(b.batch) + b.n0 * job.b_column;
  job.b_end = rhs + elements_of(a.rhs, a.batch);
  small_gemm(job);
}
template <class T>
void run_small(const KernelCall& call) {
  const auto& a = *static_cast<const DotAttrs*>(call.attributes);
  const std::int64_t per_batch = a.split_columns ? a.n : a.m;
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    KernelCall blocks = call;
    blocks.begin = begin;
    blocks.end = end;
    for_each_block(
        blocks, [&](const DotAttrs& dot, const Block& b) { multiply_small<T>(dot, b, 1, call); });
  };
  // Whole matrices, and what there is of others in front of them and behind.
  const std::int64_t first = (call.begin + per_batch - 1) / per_batch, last = call.end / per_batch;
  if (first >= last) return part(call.begin, call.end);
  part(call.begin, first * per_batch);
  multiply_small<T>(a, Block{first, 0, a.m, 0, a.n, 0, a.k}, last - first, call);
  part(last * per_batch, call.end);
}

/// What is there already isn't cleared once more.
void grow(std::vector<float>* memory, std::int64_t numbers) {
  if (std::int64_t(memory->size()) < numbers) memory->resize(std::size_t(numbers));
}

/// Rows or columns of a matrix.
struct Range {
  std::int64_t first, count;
};
/// Some columns of some rows of a matrix of 16-bit floats, `line` apart, in f32.
void widen(DType half, const std::byte* matrix, std::int64_t line, const Range& rows,
           const Range& columns, std::vector<float>* out) {
  grow(out, rows.count * columns.count);
  const auto convert = [&](std::int64_t from, std::int64_t n, float* to) {
    lift_halves(half, matrix + 2 * from, n, to);
  };
  if (columns.count == line) return convert(rows.first * line, rows.count * line, out->data());
  for (std::int64_t r = 0; r < rows.count; ++r) {
    convert((rows.first + r) * line + columns.first, columns.count,
            out->data() + r * columns.count);
  }
}

/// Memory is kept, so that the next run needs no new pages; but not what is large: the pages are
/// then the least of it.
void give_back(std::vector<float>* memory) {
  constexpr std::size_t kMostKept = 4 << 20;
  if (memory->size() > kMostKept) std::vector<float>().swap(*memory);
}

/// f16 and bf16: products and sums in f32, rounded once.
template <DType half>
void multiply_halves(const DotAttrs& a, const Block& b, const KernelCall& call) {
  struct Widened {
    std::vector<float> l, r, o;
  };
  auto& [l, r, o] = thread_scratch<Widened>();
  const std::byte* lhs = call.inputs[0] + 2 * a.lhs.first(b.batch);
  const std::byte* rhs = call.inputs[1] + 2 * a.rhs.first(b.batch);
  const Range m{b.m0, b.m}, n{b.n0, b.n}, k{b.k0, b.k};
  const Range &lhs_columns = a.lhs_transposed ? m : k, &rhs_columns = a.rhs_transposed ? k : n;
  widen(half, lhs, a.lhs.line, a.lhs_transposed ? k : m, lhs_columns, &l);
  widen(half, rhs, a.rhs.line, a.rhs_transposed ? n : k, rhs_columns, &r);
  grow(&o, b.m * b.n);
  gemm(a.gemm, a.of_lhs(), a.of_rhs(), int(b.m), int(b.n), int(b.k), l.data(),
       int(lhs_columns.count), r.data(), int(rhs_columns.count), o.data(), int(b.n));
  for (std::int64_t i = 0; i < b.m; ++i) {
    round_to_halves(half, o.data() + i * b.n, b.n, call.outputs[0] + 2 * (a.first(b) + i * a.n));
  }
  for (std::vector<float>* v : {&l, &r, &o}) give_back(v);
}

/// A block of the result, in 4-byte sums, with rows so far apart.
NarrowGemm narrow_block(const DotAttrs& a, const Block& block, DType lhs, DType rhs,
                        const KernelCall& call, std::byte* c, std::int64_t c_row) {
  NarrowGemm job;
  job.a_type = lhs;
  job.b_type = rhs;
  job.m = block.m;
  job.n = block.n;
  job.k = block.k;
  (a.lhs_transposed ? job.a_column : job.a_row) = a.lhs.line;
  (a.lhs_transposed ? job.a_row : job.a_column) = 1;
  (a.rhs_transposed ? job.b_column : job.b_row) = a.rhs.line;
  (a.rhs_transposed ? job.b_row : job.b_column) = 1;
  const auto bytes = std::int64_t(byte_size(lhs));
  job.a = call.inputs[0] +
          bytes * (a.lhs.first(block.batch) + block.m0 * job.a_row + block.k0 * job.a_column);
  job.b = call.inputs[1] +
          bytes * (a.rhs.first(block.batch) + block.n0 * job.b_column + block.k0 * job.b_row);
  if (lhs == DType::bf16) {
    job.whole = {call.inputs[1] + bytes * a.rhs.first(block.batch), a.n, a.k, block.n0, block.k0};
    job.held = static_cast<PackedSide*>(call.kept);
  }
  job.c = c;
  job.c_row = c_row;
  return job;
}

/// Sums of 4 bytes, of products of narrow types.
template <DType lhs, DType rhs>
void multiply_narrow(const DotAttrs& a, const Block& b, const KernelCall& call) {
  narrow_gemm(narrow_block(a, b, lhs, rhs, call, call.outputs[0] + 4 * a.first(b), a.n));
}

/// The same for bf16, rounded.
void multiply_bf16(const DotAttrs& a, const Block& all, const KernelCall& call) {
  constexpr std::int64_t kBlockRows = 256;
  if (all.k <= kMostRounded) {
    NarrowGemm job = narrow_block(a, all, DType::bf16, DType::bf16, call,
                                  call.outputs[0] + 2 * a.first(all), a.n);
    job.c_is_bf16 = true;
    return narrow_gemm(job);
  }
  const ScratchMemory sums(std::size_t(4 * std::min(kBlockRows, all.m) * all.n));
  for (std::int64_t m = 0; m < all.m; m += kBlockRows) {
    Block b = all;
    b.m0 = all.m0 + m;
    b.m = std::min(kBlockRows, all.m - m);
    narrow_gemm(narrow_block(a, b, DType::bf16, DType::bf16, call, sums.data(), b.n));
    for (std::int64_t i = 0; i < b.m; ++i) {
      round_to_halves(DType::bf16, reinterpret_cast<const float*>(sums.data()) + i * b.n, b.n,
                      call.outputs[0] + 2 * (a.first(b) + i * a.n));
    }
  }
}

/// Some columns of the result, or sums of some products alone. `multiply`: of a block.
template <auto multiply>
void run_columns(const KernelCall& call, std::int64_t first, std::int64_t last) {
  for_each_block(call, [&](const DotAttrs& a, Block b) {
    b.n0 = first;
    b.n = last - first;
    multiply(a, b, call);
  });
}
constexpr std::int64_t kTermsTogether = 32;
template <auto multiply>
void run_terms(const KernelCall& call, std::int64_t first, std::int64_t last) {
  for_each_block(call, [&](const DotAttrs& a, Block b) {
    // Whole tiles of narrow types: what is left out is zero.
    b.k0 = first / kTermsTogether * kTermsTogether;
    b.k = std::min(a.k, (last + kTermsTogether - 1) / kTermsTogether * kTermsTogether) - b.k0;
    multiply(a, b, call);
  });
}
template <class T>
void multiply_floats(const DotAttrs& a, const Block& block, const KernelCall& call) {
  const ScopedSubnormals flush(std::is_same_v<T, float> || flushes_subnormals());
  multiply_block<T>(a, block, call);
}

template <auto multiply>
KernelBody::Product body_by(const DotAttrs& a, DType operands, int result_bytes) {
  return {run_columns<multiply>, run_terms<multiply>, operands, a.n, a.k, a.m, result_bytes, a.rhs,
          !a.rhs_transposed};
}
/// Of products whose operands have that type.
KernelBody body_of(const DotAttrs& a, DType operands, DType result) {
  if (a.lhs_transposed || a.split_columns || a.shares_lhs() || a.shares_rhs()) return {};
  if (operands == DType::f32) return body_by<multiply_floats<float>>(a, operands, 4);
  if (operands == DType::f64) return body_by<multiply_floats<double>>(a, operands, 8);
  if (operands == DType::f16) return body_by<multiply_halves<DType::f16>>(a, operands, 2);
  if (operands != DType::bf16 || !has_bf16_gemm()) return {};
  if (result == DType::bf16) return body_by<multiply_bf16>(a, operands, 2);
  return body_by<multiply_narrow<DType::bf16, DType::bf16>>(a, operands, 4);
}

/// What a row of the result, or a column where these are the units, is made of.
Accesses accesses_of(const DotAttrs& a) {
  using Preparation = Access::Preparation;
  const bool own_rows = !a.lhs_transposed && a.lhs.inner == 1;
  Accesses out;
  out.results = a.split_columns ? Share::whole : Share::own;
  out.operands = {
      {a.shares_lhs() ? Share::whole
       : own_rows     ? Share::own
                      : Share::group},
      {a.shares_rhs() ? Share::whole : Share::group,
       a.kernel == DotKernel::matrices && a.gemm == Gemm::packed ? Preparation::overlapped
                                                                 : Preparation::each_call}};
  // Those that are interleaved aren't a share.
  out.groups = a.batch / std::max(a.lhs.inner, a.rhs.inner);
  return out;
}

template <DType lhs>
runtime::KernelFunction narrow_function(DType rhs) {
  return rhs == DType::s8 ? run_blocks<multiply_narrow<lhs, DType::s8>>
                          : run_blocks<multiply_narrow<lhs, DType::u8>>;
}

/// pred: "and" of pairs, "or" of those.
void multiply_predicates(const DotAttrs& a, const Block& block, const KernelCall& call) {
  const auto* lhs = reinterpret_cast<const std::uint8_t*>(call.inputs[0]) + block.batch * a.m * a.k;
  const auto* rhs = reinterpret_cast<const std::uint8_t*>(call.inputs[1]) + block.batch * a.k * a.n;
  auto* out = reinterpret_cast<std::uint8_t*>(call.outputs[0]) + block.batch * a.m * a.n;
  for (std::int64_t i = block.m0; i < block.m0 + block.m; ++i) {
    for (std::int64_t j = block.n0; j < block.n0 + block.n; ++j) {
      std::uint8_t any = 0;
      for (std::int64_t p = 0; p < a.k; ++p) {
        any |= (a.lhs_transposed ? lhs[p * a.m + i] : lhs[i * a.k + p]) &
               (a.rhs_transposed ? rhs[j * a.k + p] : rhs[p * a.n + j]);
      }
      out[i * a.n + j] = any;
    }
  }
}

void run_zero(const KernelCall&) {}

/// K of 0: every sum is empty.
template <int bytes>
void run_empty(const KernelCall& call) {
  const auto& a = *static_cast<const DotAttrs*>(call.attributes);
  std::fill_n(call.outputs[0], a.batch * a.m * a.n * bytes, std::byte{0});
}

/// A side that is so large isn't put in another order for products with few rows: it would be read
/// and written for that more often than by them.
constexpr std::int64_t kLargeSide = 1 << 14, kFewRows = 16, kShortestLine = 16;

std::int64_t product(const Dims& dims, const Dims& which) {
  std::int64_t out = 1;
  for (const std::int64_t d : which) out *= dims[std::size_t(d)];
  return out;
}

Dims free_dims(const Dims& dims, const Dims& batch, const Dims& contracting) {
  Dims out;
  for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) out.push_back(d);
  }
  return out;
}

/// Batch dims first, then the free ones and the contracted ones, in either order: all contiguous
/// groups, so that BLAS's flags do the rest. Or, `interleaved`, with one of the latter two in front
/// of some batch dims.
DotSide side(const Dims& dims, const Dims& batch, const Dims& contracting, bool contracted_first,
             bool either, bool interleaved) {
  const Dims free = free_dims(dims, batch, contracting);
  const auto order = [&](bool contracted) {
    Dims out = batch;
    const Dims& a = contracted ? contracting : free;
    const Dims& b = contracted ? free : contracting;
    out.insert(out.end(), a.begin(), a.end());
    out.insert(out.end(), b.begin(), b.end());
    return out;
  };
  for (const bool contracted : {contracted_first, !contracted_first}) {
    Dims perm = order(contracted);
    // Dims of one are anywhere.
    std::erase_if(perm, [&](std::int64_t d) { return dims[std::size_t(d)] == 1; });
    if (std::is_sorted(perm.begin(), perm.end()) && (either || contracted == contracted_first)) {
      return {{}, contracted};
    }
  }
  for (const bool contracted : {contracted_first, !contracted_first}) {
    if (!interleaved || (!either && contracted != contracted_first)) continue;
    const Dims& lines = contracted ? contracting : free;
    const Dims& line = contracted ? free : contracting;
    if (product(dims, line) < kShortestLine) continue;
    for (std::size_t outer = 0; outer < batch.size(); ++outer) {
      Dims perm = batch;
      perm.insert(perm.begin() + std::ptrdiff_t(outer), lines.begin(), lines.end());
      perm.insert(perm.end(), line.begin(), line.end());
      std::erase_if(perm, [&](std::int64_t d) { return dims[std::size_t(d)] == 1; });
      if (!std::is_sorted(perm.begin(), perm.end())) continue;
      const Dims inner(batch.begin() + std::ptrdiff_t(outer), batch.end());
      return {{}, contracted, product(dims, inner)};
    }
  }
  return {order(contracted_first), contracted_first};
}

/// Where matrices of `lines` lines each stand.
BatchMatrices matrices_of(const DotSide& side, std::int64_t lines, std::int64_t width) {
  BatchMatrices out;
  out.inner = side.inner;
  out.line = side.inner * width;
  out.outer_stride = side.shared ? 0 : lines * out.line;
  out.inner_stride = width;
  out.lines = lines;
  out.width = width;
  return out;
}

/// Of floats, complex numbers and integers.
runtime::KernelFunction gemm_function(DType t) {
  return for_type(kFloats + kComplex + kUnsigned, wrapping_type(t),
                  [](auto tag) -> runtime::KernelFunction {
                    return run_blocks<multiply_block<typename decltype(tag)::type>>;
                  });
}

runtime::KernelFunction zeros_function(std::size_t bytes) {
  return for_constant<1, 2, 4, 8, 16>(
      bytes, [](auto size) -> runtime::KernelFunction { return run_empty<size()>; });
}

/// Of a line of the table.
runtime::KernelFunction function_of(DotKernel kernel, const DotOperation& d) {
  const bool single = d.result == DType::f32;
  switch (kernel) {
    case DotKernel::none:
      return nullptr;
    case DotKernel::nothing:
      return run_zero;
    case DotKernel::zeros:
      return zeros_function(byte_size(d.result));
    case DotKernel::narrow:
      return d.lhs == DType::s8   ? narrow_function<DType::s8>(d.rhs)
             : d.lhs == DType::u8 ? narrow_function<DType::u8>(d.rhs)
                                  : run_blocks<multiply_narrow<DType::bf16, DType::bf16>>;
    case DotKernel::bf16:
      return run_blocks<multiply_bf16>;
    case DotKernel::halves:
      return d.result == DType::f16 ? run_blocks<multiply_halves<DType::f16>>
                                    : run_blocks<multiply_halves<DType::bf16>>;
    case DotKernel::predicates:
      return run_blocks<multiply_predicates>;
    case DotKernel::lines:
      return single ? run_short_lines<float> : run_short_lines<double>;
    case DotKernel::small:
      return for_type(kFloats + kComplex, d.result, [](auto tag) -> runtime::KernelFunction {
        return run_small<typename decltype(tag)::type>;
      });
    default:
      return gemm_function(d.result);
  }
}

/// Of a product of two elements.
double price_of(DotKernel kernel, const DotOperation& d) {
  using namespace prices::product;
  switch (kernel) {
    case DotKernel::narrow:
      return d.lhs == DType::bf16 ? kBf16 : kF32;
    case DotKernel::bf16:
      return kBf16;
    case DotKernel::halves:
      return d.result == DType::f16 && lifts_halves_fast() ? kF16 : kBlas;
    case DotKernel::predicates:
    case DotKernel::integers:
      return kLoop;
    default:
      return d.result == DType::f32 ? kF32 : d.result == DType::f64 ? kF64 : kBlas;
  }
}

}  // namespace

bool dot_takes_narrow(DType lhs, DType rhs, DType result) {
  const auto is_byte = [](DType t) { return t == DType::s8 || t == DType::u8; };
  if (result == DType::s32) return is_byte(lhs) && is_byte(rhs);
  return result == DType::f32 && lhs == DType::bf16 && rhs == DType::bf16 && has_bf16_gemm();
}

DotPlan dot_kernel(const ir::Instruction& dot, DType lhs, DType rhs) {
  const auto& attrs = dot.get<ir::DotAttrs>();
  const Shape l(lhs, dot.operand(0)->shape.dims), r(rhs, dot.operand(1)->shape.dims);
  const DType t = dot.shape.dtype;
  DotPlan plan;
  // Loops run along rows of the right side; BLAS, and what packs its operands, take either.
  const bool either = is_floating(t) || is_complex(t) || dot_takes_narrow(l.dtype, r.dtype, t);
  DotAttrs a;
  a.batch = product(l.dims, attrs.lhs_batch);
  a.k = product(l.dims, attrs.lhs_contracting);
  a.m = product(l.dims, free_dims(l.dims, attrs.lhs_batch, attrs.lhs_contracting));
  a.n = product(r.dims, free_dims(r.dims, attrs.rhs_batch, attrs.rhs_contracting));
  const auto interleaved = [&](const Shape& shape, std::int64_t others) {
    return t != DType::pred && others <= kFewRows && shape.element_count() >= kLargeSide;
  };
  plan.lhs = side(l.dims, attrs.lhs_batch, attrs.lhs_contracting, false, true, interleaved(l, a.n));
  plan.rhs =
      side(r.dims, attrs.rhs_batch, attrs.rhs_contracting, true, either, interleaved(r, a.m));
  a.lhs_transposed = plan.lhs.transposed;
  a.rhs_transposed = !plan.rhs.transposed;
  plan.lhs.shared = ir::is_shared_matrix(dot, 0);
  plan.rhs.shared = ir::is_shared_matrix(dot, 1);
  a.lhs = a.lhs_transposed ? matrices_of(plan.lhs, a.k, a.m) : matrices_of(plan.lhs, a.m, a.k);
  a.rhs = a.rhs_transposed ? matrices_of(plan.rhs, a.n, a.k) : matrices_of(plan.rhs, a.k, a.n);
  a.split_columns = a.m < 64 && a.n > a.m && a.batch == 1;
  const DotOperation operation{l.dtype,
                               r.dtype,
                               t,
                               a.batch,
                               a.m,
                               a.n,
                               a.k,
                               a.lhs_transposed,
                               a.rhs_transposed,
                               a.interleaved(),
                               plan.lhs.shared || plan.rhs.shared};
  const DotChoice choice = choose_dot(operation);
  a.kernel = choice.kernel;
  a.gemm = choice.gemm;
  if (a.kernel == DotKernel::none) return plan;
  keep_blas_to_one_thread();
  KernelDescriptor& kernel = plan.kernel;
  kernel.label = choice.label;
  if (a.kernel != DotKernel::nothing && a.kernel != DotKernel::zeros) {
    const std::int64_t limit = std::int64_t(1) << 31;
    if (std::max({a.m, a.n, a.k}) >= limit) {
      throw CompileError("dot " + dot.describe() + " has a dim of 2^31 or more, which BLAS lacks",
                         dot.location());
    }
    kernel.units = a.split_columns ? a.batch * a.n : a.batch * a.m;
    kernel.access = accesses_of(a);
    kernel.body = body_of(a, l.dtype, t);
    if (!a.interleaved() && !operation.shares) {
      kernel.row_sums = row_sums(l.dtype, r.dtype, t,
                                 {a.batch, a.k, a.m, a.n, {a.lhs_transposed, !a.rhs_transposed}});
    }
    // A few rows or columns are read as fast as memory gives them.
    const auto read = double(byte_size(l.dtype)) * double(a.k) * double(a.m + a.n);
    kernel.nanoseconds =
        prices::call::kDot + double(a.batch) * std::max(price_of(a.kernel, operation) *
                                                            double(a.m) * double(a.n) * double(a.k),
                                                        prices::byte::kMultiplied * read);
  }
  kernel.key = kernel_key("dot", t, l.dtype, r.dtype, a.batch, a.m, a.n, a.k, a.lhs_transposed,
                          a.rhs_transposed, a.split_columns, a.lhs.inner, a.rhs.inner,
                          plan.lhs.shared, plan.rhs.shared);
  kernel.make = kernel_maker(function_of(a.kernel, operation), a);
  return plan;
}

}  // namespace tessera::codegen
