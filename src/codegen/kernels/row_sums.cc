// SPDX-License-Identifier: Apache-2.0
// Products that are added to what is there, and the sums of their parts.
#include "src/codegen/kernels/row_sums.h"

#include <cblas.h>

#include <algorithm>
#include <type_traits>

#include "src/codegen/kernels/block_ops.h"
#include "src/codegen/kernels/fused_loop.h"
#include "src/codegen/kernels/gemm.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/narrow_gemm.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct SumAttrs {
  std::int64_t m = 1, n = 1;
};

/// c[m, n] += a[rows, m]^T b[rows, n].
template <class T>
void add_product(std::int64_t m, std::int64_t n, std::int64_t rows, const T* a, const T* b, T* c) {
  if (batch_gemm_pays(CblasNoTrans, int(m), int(n), int(rows))) {
    const typename BatchGemm<T>::Term term{a, b, rows};
    BatchGemm<T> job;
    job.terms = &term;
    job.count = 1;
    job.m = m;
    job.n = n;
    job.a_row = 1;
    job.a_column = m;
    job.b_row = n;
    job.c = c;
    job.c_row = n;
    job.accumulate = true;
    return batch_gemm(job);
  }
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, int(m), int(n), int(rows), 1, a, int(m), b,
                int(n), 1, c, int(n));
  } else {
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, int(m), int(n), int(rows), 1, a, int(m), b,
                int(n), 1, c, int(n));
  }
}

template <class T>
void run_sums(const KernelCall& call) {
  const auto& s = *static_cast<const SumAttrs*>(call.attributes);
  add_product(s.m, s.n, call.end - call.begin,
              reinterpret_cast<const T*>(call.inputs[0]) + call.begin * s.m,
              reinterpret_cast<const T*>(call.inputs[1]) + call.begin * s.n,
              reinterpret_cast<T*>(call.outputs[0]));
}

/// 16-bit floats, by way of f32.
template <DType half>
void run_half_sums(const KernelCall& call) {
  const auto& s = *static_cast<const SumAttrs*>(call.attributes);
  const std::int64_t rows = call.end - call.begin;
  const ScratchMemory wide(std::size_t(4 * rows * (s.m + s.n)));
  std::byte* const sides[] = {wide.data(), wide.data() + 4 * rows * s.m};
  const std::int64_t widths[] = {s.m, s.n};
  for (int k = 0; k < 2; ++k) {
    const std::byte* in[] = {call.inputs[k] + 2 * call.begin * widths[k]};
    lift_block(half)({nullptr, sides[k], in, 0, rows * widths[k]});
  }
  add_product(s.m, s.n, rows, reinterpret_cast<const float*>(sides[0]),
              reinterpret_cast<const float*>(sides[1]), reinterpret_cast<float*>(call.outputs[0]));
}

void run_bf16_sums(const KernelCall& call) {
  const auto& s = *static_cast<const SumAttrs*>(call.attributes);
  NarrowGemm job;
  job.a_type = job.b_type = DType::bf16;
  job.m = s.m;
  job.n = s.n;
  job.k = call.end - call.begin;
  job.a_row = 1;
  job.a_column = s.m;
  job.b_row = s.n;
  job.a = call.inputs[0] + 2 * call.begin * s.m;
  job.b = call.inputs[1] + 2 * call.begin * s.n;
  job.c = call.outputs[0];
  job.c_row = s.n;
  job.accumulate = true;
  narrow_gemm(job);
}

runtime::KernelFunction sums_function(DType t) {
  switch (t) {
    case DType::f32:
      return run_sums<float>;
    case DType::f64:
      return run_sums<double>;
    case DType::f16:
      return run_half_sums<DType::f16>;
    case DType::bf16:
      return has_bf16_gemm() ? run_bf16_sums : run_half_sums<DType::bf16>;
    default:
      return nullptr;
  }
}

struct PartAttrs {
  std::int64_t parts = 1, elements = 1;
  DType result = DType::f32, held = DType::f32;
};

/// Units are elements of the results.
template <class T>
void run_parts(const KernelCall& call) {
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

std::shared_ptr<const RowSums> row_sums(DType lhs, DType rhs, DType result, std::int64_t batch,
                                        std::int64_t rows, std::int64_t m, std::int64_t n) {
  const bool wider = lhs == DType::bf16 && result == DType::f32 && has_bf16_gemm();
  if (lhs != rhs || (lhs != result && !wider)) return nullptr;
  const runtime::KernelFunction function = sums_function(lhs);
  if (function == nullptr) return nullptr;
  auto out = std::make_shared<RowSums>();
  out->batch = batch;
  out->rows = rows;
  out->elements = m * n;
  out->result = result;
  out->held = lhs == DType::f64 ? DType::f64 : DType::f32;
  out->key = kernel_key("row-sums", lhs, m, n);
  out->make = kernel_maker(function, SumAttrs{m, n});
  return out;
}

KernelDescriptor sum_of_parts(const RowSums& sums, std::int64_t parts) {
  constexpr double kElement = 0.1;  ///< nanoseconds to read and add one
  KernelDescriptor kernel;
  kernel.units = sums.batch * sums.elements;
  kernel.nanoseconds = 100 + kElement * double(kernel.units) * double(parts + 1);
  kernel.shares_outputs = true;
  kernel.shares_inputs = {parts == 1};
  kernel.batch = sums.batch;
  kernel.key = kernel_key("sum-of-parts", parts, sums.batch, sums.elements, sums.result, sums.held);
  kernel.make = kernel_maker(sums.held == DType::f64 ? run_parts<double> : run_parts<float>,
                             PartAttrs{parts, sums.elements, sums.result, sums.held});
  return kernel;
}

}  // namespace tessera::codegen
