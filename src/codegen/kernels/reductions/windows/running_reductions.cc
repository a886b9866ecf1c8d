// SPDX-License-Identifier: Apache-2.0
// Running (prefix) reductions, along rows or across them.
#include "src/codegen/kernels/reductions/windows/running_reductions.h"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/reductions/windows/held_op.h"
#include "src/codegen/kernels/reductions/windows/window_offsets.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using runtime::KernelCall;

struct ScanAttrs : RunningArray {
  HeldOp op;
};
/// Columns of a unit.
constexpr std::int64_t kScanLanes = 512;

/// Several rows at once, none of which waits for what the others add; `row`: elements from one to
/// the next.
template <int rows, bool multiplies, class T, class Held>
void running(const T* in, T* out, std::int64_t n, std::int64_t step, std::int64_t row, Held* held) {
  for (std::int64_t i = 0; i < n; ++i, in += step, out += step) {
    for (int r = 0; r < rows; ++r) {
      const auto next = convert_element<Held>(in[r * row]);
      held[r] = multiplies ? Held(held[r] * next) : Held(held[r] + next);
      out[r * row] = convert_element<T>(held[r]);
    }
  }
}

/// Rows of f16 or bf16, by stretches that are converted before and after.
template <int rows, bool multiplies>
void running_halves(const ScanAttrs& s, const std::byte* in, std::byte* out, double init) {
  constexpr std::int64_t kStretch = 256;
  float values[rows * kStretch];
  double held[rows];
  std::fill_n(held, rows, init);
  for (std::int64_t done = 0; done < s.n; done += kStretch) {
    const std::int64_t n = std::min(kStretch, s.n - done);
    const std::int64_t at = s.backward ? s.n - done - n : done;
    for (int r = 0; r < rows; ++r) {
      lift_halves(s.op.element, in + (r * s.n + at) * 2, n, values + r * kStretch);
    }
    float* first = values + (s.backward ? n - 1 : 0);
    running<rows, multiplies>(first, first, n, s.backward ? -1 : 1, kStretch, held);
    for (int r = 0; r < rows; ++r) {
      round_to_halves(s.op.element, values + r * kStretch, n, out + (r * s.n + at) * 2);
    }
  }
}
template <bool multiplies>
bool run_half_rows(const ScanAttrs& s, const std::byte* in, const std::byte* init, std::byte* out,
                   std::int64_t rows) {
  float first = 0;
  lift_halves(s.op.element, init, 1, &first);
  constexpr int kAtOnce = 4;
  std::int64_t r = 0;
  const std::int64_t bytes = s.n * 2;
  for (; r + kAtOnce <= rows; r += kAtOnce) {
    running_halves<kAtOnce, multiplies>(s, in + r * bytes, out + r * bytes, double(first));
  }
  for (; r < rows; ++r) {
    running_halves<1, multiplies>(s, in + r * bytes, out + r * bytes, double(first));
  }
  return true;
}

template <bool multiplies, class T>
bool run_plain_rows(const ScanAttrs& s, const std::byte* in, const std::byte* init, std::byte* out,
                    std::int64_t rows) {
  using Held = std::conditional_t<std::is_same_v<T, float>, double, T>;
  constexpr int kAtOnce = 4;
  const Held first = convert_element<Held>(*reinterpret_cast<const T*>(init));
  const std::int64_t step = s.backward ? -1 : 1, start = s.backward ? s.n - 1 : 0;
  const T* from = reinterpret_cast<const T*>(in) + start;
  T* to = reinterpret_cast<T*>(out) + start;
  std::int64_t r = 0;
  for (; r + kAtOnce <= rows; r += kAtOnce) {
    Held held[kAtOnce] = {first, first, first, first};
    running<kAtOnce, multiplies>(from + r * s.n, to + r * s.n, s.n, step, s.n, held);
  }
  for (; r < rows; ++r) {
    Held held = first;
    running<1, multiplies>(from + r * s.n, to + r * s.n, s.n, step, s.n, &held);
  }
  return true;
}

/// Contiguous rows of sums or products: a plain loop, as the step from element to element is what
/// it costs. False for types that it isn't for.
bool run_rows(const ScanAttrs& s, const std::byte* in, const std::byte* init, std::byte* out,
              std::int64_t rows) {
  const bool multiplies = s.op.op == Opcode::multiply;
  if (s.op.element == DType::f16 || s.op.element == DType::bf16) {
    return multiplies ? run_half_rows<true>(s, in, init, out, rows)
                      : run_half_rows<false>(s, in, init, out, rows);
  }
  return for_type(kFloats + kUnsigned + kComplex, wrapping_type(s.op.element), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T> && !std::is_floating_point_v<T>) {
      return !multiplies && run_plain_rows<false, T>(s, in, init, out, rows);
    } else {
      return multiplies ? run_plain_rows<true, T>(s, in, init, out, rows)
                        : run_plain_rows<false, T>(s, in, init, out, rows);
    }
  });
}

void run_scan(const KernelCall& call) {
  const auto& s = *static_cast<const ScanAttrs*>(call.attributes);
  const auto size = std::int64_t(s.op.element_bytes());
  std::vector<std::byte> acc(std::size_t(kScanLanes) * s.op.held_bytes()), value(acc.size());
  if (rounds(s.op.op) && s.b == 1) {
    const std::int64_t base = call.begin * s.n * size;
    if (run_rows(s, call.inputs[0] + base, call.inputs[1], call.outputs[0] + base,
                 call.end - call.begin)) {
      return;
    }
  }
  // Units: stretches of up to kScanLanes of b, row of a by row.
  const std::int64_t chunks = ceil_div(s.b, kScanLanes);
  for (std::int64_t unit = call.begin; unit < call.end; ++unit) {
    const std::int64_t a = unit / chunks, column = unit % chunks * kScanLanes;
    const std::int64_t lanes = std::min(kScanLanes, s.b - column);
    const std::int64_t base = (a * s.n * s.b + column) * size;
    s.op.fill(call.inputs[1], value.data(), acc.data(), lanes);
    for (std::int64_t k = 0; k < s.n; ++k) {
      const std::int64_t at = base + (s.backward ? s.n - 1 - k : k) * s.b * size;
      s.op.load(call.inputs[0] + at, value.data(), lanes);
      s.op.combine(acc.data(), value.data(), lanes);
      s.op.store(acc.data(), call.outputs[0] + at, lanes);
    }
  }
}

}  // namespace

std::optional<KernelDescriptor> running_reduction(const ir::Instruction& in, Opcode op) {
  const Shape& shape = in.operand(0)->shape;
  const RunningDim along = running_dim(shape, in.shape.dims, in.get<ir::WindowAttrs>().dims);
  if (along.dim < 0 || !(shape == in.shape)) return std::nullopt;
  ScanAttrs s{RunningArray(shape.dims, along), HeldOp(op, shape.dtype)};
  KernelDescriptor kernel;
  kernel.units = shape.element_count() == 0 ? 0 : s.a * ceil_div(s.b, kScanLanes);
  kernel.nanoseconds =
      prices::call::kWindows + prices::other::kScanned * double(shape.element_count());
  kernel.key = kernel_key("scan", shape.dtype, op, s.backward, s.a, s.n, s.b);
  kernel.make = kernel_maker(run_scan, std::move(s));
  return kernel;
}

}  // namespace tessera::codegen
