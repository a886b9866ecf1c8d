// SPDX-License-Identifier: Apache-2.0
// Products that are added to what is there, and the sums of their parts.
#include "src/codegen/kernels/products/row_sums.h"

#include <algorithm>
#include <type_traits>

#include "src/base/arrays/subnormals.h"
#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/gemm.h"
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// One side of some rows: an element for each of them and each of `width` columns.
struct Side {
  std::int64_t width = 1, rows = 1;
  bool by_rows = true;

  /// Of the first of these rows, which are of one batch.
  std::int64_t first(std::int64_t row) const {
    return by_rows ? row * width : row / rows * rows * width + row % rows;
  }
  std::int64_t row_stride() const { return by_rows ? width : 1; }
  std::int64_t column_stride() const { return by_rows ? 1 : rows; }
};
struct SumAttrs {
  Side a, b;
};

/// Columns of both sides that are multiplied.
struct Part {
  std::int64_t m0, m, n0, n;
};

/// c[m, n] += a[rows, m]^T b[rows, n], for these m and n.
template <class T>
void add_product(const Side& of_a, const Side& of_b, std::int64_t rows, const T* a, const T* b,
                 T* c, const Part& part) {
  const auto m = int(part.m), n = int(part.n), of_c = int(of_b.width);
  a += part.m0 * of_a.column_stride();
  b += part.n0 * of_b.column_stride();
  c += part.m0 * of_c + part.n0;
  const CBLAS_TRANSPOSE ta = transposed_if(of_a.by_rows), tb = transposed_if(!of_b.by_rows);
  if (batch_gemm_pays(!of_b.by_rows, m, n, rows)) {
    const MatrixProduct<T> product{.m = m,
                                   .n = n,
                                   .k = rows,
                                   .a = a,
                                   .a_row = of_a.column_stride(),
                                   .a_column = of_a.row_stride(),
                                   .b = b,
                                   .b_row = of_b.row_stride(),
                                   .b_column = of_b.column_stride(),
                                   .c = c,
                                   .c_row = of_c};
    return batch_gemm(product, /*accumulate=*/true);
  }
  blas_gemm(ta, tb, m, n, int(rows), a, int(of_a.by_rows ? of_a.width : of_a.rows), b,
            int(of_b.by_rows ? of_b.width : of_b.rows), c, of_c, /*accumulate=*/true);
}

template <class T>
void add_sums(const KernelCall& call, const Part& part) {
  const auto& s = *static_cast<const SumAttrs*>(call.attributes);
  add_product(s.a, s.b, call.end - call.begin,
              reinterpret_cast<const T*>(call.inputs[0]) + s.a.first(call.begin),
              reinterpret_cast<const T*>(call.inputs[1]) + s.b.first(call.begin),
              reinterpret_cast<T*>(call.outputs[0]), part);
}

/// 16-bit floats, by way of f32.
template <DType half>
void add_half_sums(const KernelCall& call, const Part& part) {
  const auto& s = *static_cast<const SumAttrs*>(call.attributes);
  const std::int64_t rows = call.end - call.begin;
  const ScratchMemory wide(std::size_t(4 * rows * (s.a.width + s.b.width)));
  const Side* from[] = {&s.a, &s.b};
  Side now[] = {s.a, s.b};
  std::byte* to[] = {wide.data(), wide.data() + 4 * rows * s.a.width};
  for (std::size_t k = 0; k < 2; ++k) {
    const Side& side = *from[k];
    now[k].rows = rows;
    // All of it, or a piece of each column.
    const std::int64_t pieces = side.by_rows ? 1 : side.width;
    const std::int64_t of_piece = side.by_rows ? rows * side.width : rows;
    for (std::int64_t p = 0; p < pieces; ++p) {
      lift_halves(half, call.inputs[k] + 2 * (side.first(call.begin) + p * side.column_stride()),
                  of_piece, reinterpret_cast<float*>(to[k] + 4 * p * of_piece));
    }
  }
  add_product(now[0], now[1], rows, reinterpret_cast<const float*>(to[0]),
              reinterpret_cast<const float*>(to[1]), reinterpret_cast<float*>(call.outputs[0]),
              part);
}

void add_bf16_sums(const KernelCall& call, const Part& part) {
  const auto& s = *static_cast<const SumAttrs*>(call.attributes);
  NarrowGemm job;
  job.a_type = job.b_type = DType::bf16;
  job.m = part.m;
  job.n = part.n;
  job.k = call.end - call.begin;
  job.a_row = s.a.column_stride();
  job.a_column = s.a.row_stride();
  job.b_row = s.b.row_stride();
  job.b_column = s.b.column_stride();
  job.a = call.inputs[0] + 2 * (s.a.first(call.begin) + part.m0 * s.a.column_stride());
  job.b = call.inputs[1] + 2 * (s.b.first(call.begin) + part.n0 * s.b.column_stride());
  job.c = call.outputs[0] + 4 * (part.m0 * s.b.width + part.n0);
  job.c_row = s.b.width;
  job.accumulate = true;
  narrow_gemm(job);
}

/// All of them, or those of some columns of one side.
struct SumFunctions {
  runtime::KernelFunction all = nullptr;
  ColumnsFunction of_columns[2] = {};
};
template <auto add>
SumFunctions functions_by() {
  return {[](const KernelCall& call) {
            const auto& s = *static_cast<const SumAttrs*>(call.attributes);
            add(call, {0, s.a.width, 0, s.b.width});
          },
          {[](const KernelCall& call, std::int64_t first, std::int64_t last) {
             const auto& s = *static_cast<const SumAttrs*>(call.attributes);
             add(call, {first, last - first, 0, s.b.width});
           },
           [](const KernelCall& call, std::int64_t first, std::int64_t last) {
             const auto& s = *static_cast<const SumAttrs*>(call.attributes);
             add(call, {0, s.a.width, first, last - first});
           }}};
}
SumFunctions sum_functions(DType t) {
  switch (t) {
    case DType::f32:
      return functions_by<add_sums<float>>();
    case DType::f64:
      return functions_by<add_sums<double>>();
    case DType::f16:
      return functions_by<add_half_sums<DType::f16>>();
    case DType::bf16:
      return has_bf16_gemm() ? functions_by<add_bf16_sums>()
                             : functions_by<add_half_sums<DType::bf16>>();
    default:
      return {};
  }
}

struct PartAttrs {
  std::int64_t parts = 1, elements = 1;
  DType result = DType::f32, held = DType::f32;
};

/// Units are elements of the results.
template <class T>
void run_parts(const KernelCall& call) {
  const ScopedSubnormals flush(std::is_same_v<T, float> || flushes_subnormals());
  constexpr std::int64_t kTogether = 1024;
  const auto& p = *static_cast<const PartAttrs*>(call.attributes);
  const T* parts = reinterpret_cast<const T*>(call.inputs[0]);
  const BlockFunction store =
      p.result == p.held ? copy_block(sizeof(T)) : convert_block(p.held, p.result);
  alignas(64) T sums[kTogether];
  for (std::int64_t begin = call.begin; begin < call.end;) {
    const std::int64_t batch = begin / p.elements, first = begin % p.elements;
    const std::int64_t count = std::min({kTogether, call.end - begin, p.elements - first});
    const T* from = parts + batch * p.parts * p.elements + first;
    std::copy_n(from, count, sums);
    for (std::int64_t k = 1; k < p.parts; ++k) {
      from += p.elements;
      for (std::int64_t i = 0; i < count; ++i) sums[i] += from[i];
    }
    const std::byte* in[] = {reinterpret_cast<const std::byte*>(sums)};
    store({nullptr, call.outputs[0] + begin * std::int64_t(byte_size(p.result)), in, 0, count});
    begin += count;
  }
}

}  // namespace

std::shared_ptr<const RowSums> row_sums(DType lhs, DType rhs, DType result, const DotSizes& sizes) {
  const bool wider = lhs == DType::bf16 && result == DType::f32 && has_bf16_gemm();
  if (lhs != rhs || (lhs != result && !wider)) return nullptr;
  if (!sizes.by_rows[0] && !sizes.by_rows[1]) return nullptr;
  const SumFunctions functions = sum_functions(lhs);
  if (functions.all == nullptr) return nullptr;
  auto out = std::make_shared<RowSums>();
  out->sizes = sizes;
  out->result = result;
  out->held = lhs == DType::f64 ? DType::f64 : DType::f32;
  out->key =
      kernel_key("row-sums", lhs, sizes.rows, sizes.m, sizes.n, sizes.by_rows[0], sizes.by_rows[1]);
  std::copy_n(functions.of_columns, 2, out->of_columns);
  out->operands = lhs;
  out->make = kernel_maker(functions.all, SumAttrs{{sizes.m, sizes.rows, sizes.by_rows[0]},
                                                   {sizes.n, sizes.rows, sizes.by_rows[1]}});
  return out;
}

KernelDescriptor sum_of_parts(const RowSums& sums, std::int64_t parts) {
  KernelDescriptor kernel;
  kernel.units = sums.sizes.batch * sums.elements();
  kernel.nanoseconds =
      prices::call::kSums + prices::other::kPartAdded * double(kernel.units) * double(parts + 1);
  kernel.access = {Share::own, {{parts == 1 ? Share::own : Share::group}}, sums.sizes.batch};
  kernel.key =
      kernel_key("sum-of-parts", parts, sums.sizes.batch, sums.elements(), sums.result, sums.held);
  kernel.make = kernel_maker(sums.held == DType::f64 ? run_parts<double> : run_parts<float>,
                             PartAttrs{parts, sums.elements(), sums.result, sums.held});
  return kernel;
}

}  // namespace tessera::codegen
