// SPDX-License-Identifier: Apache-2.0
// FFT kernels: one for each dim of a transform.
#include "src/codegen/kernels/fft/fft.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/machine_memory.h"
#include "src/codegen/kernels/fft/fft_lines.h"
#include "src/codegen/kernels/fft/fft_plan.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// Longer columns are gathered into lines, whose transforms need less memory at a time.
constexpr std::int64_t kLongestColumn = 8192;
/// Lines or columns of a unit of work; at least those of a vector, and of a cache line.
constexpr std::int64_t kUnit = 16;
/// Where a unit's lines are held, they are so many elements.
constexpr std::int64_t kUnitElements = 1 << 15;

enum class Kind : std::uint8_t { lines, columns, from_real, to_real };

/// Of a transform of [outer, n, inner], along n.
struct StepShape {
  Kind kind = Kind::lines;
  std::int64_t outer = 1, n = 1, inner = 1;
  bool inverse = false;
  double scale = 1;

  /// Lines that one unit takes.
  std::int64_t per_unit() const { return std::clamp<std::int64_t>(kUnitElements / n, 1, kUnit); }
  std::int64_t units() const {
    const std::int64_t count = kind == Kind::columns ? inner : outer;
    const std::int64_t each = kind == Kind::columns ? kUnit : per_unit();
    return (kind == Kind::columns ? outer : 1) * ((count + each - 1) / each);
  }
  /// Real lines of even lengths are transformed as complex ones of half the length.
  bool halved() const { return n % 2 == 0; }
  std::int64_t line_length() const {
    return (kind == Kind::from_real || kind == Kind::to_real) && halved() ? n / 2 : n;
  }
};

enum class FftKernel : std::uint8_t { columns, lines };
constexpr KernelLine<StepShape, FftKernel> kFfts[] = {
    {{"fft/columns", "not along the last dim: vectors are of neighbouring transforms"},
     [](const StepShape& s) {
       return s.kind == Kind::columns && s.n <= kLongestColumn && has_small_factors(s.n);
     },
     FftKernel::columns},
    {{"fft/chirp", "the length has a large prime factor: as a convolution (Bluestein)"},
     [](const StepShape& s) { return !has_small_factors(s.line_length()); },
     FftKernel::lines},
    {{"fft/half-lines", "real numbers, of an even length: as complex ones of half of it"},
     [](const StepShape& s) { return s.line_length() != s.n; },
     FftKernel::lines},
    {{"fft/lines", "lines one by one; those of other dims than the last are copied to lines"},
     always<StepShape>,
     FftKernel::lines},
};

template <class T>
struct StepAttrs {
  StepShape shape;
  bool by_columns = false;  ///< the plan is `column`
  LinePlan<T> line;
  LanePlan<T> column;
  std::vector<T> mirror;  ///< of halved lines: RealJob's table
};

template <class T>
T* scratch(const ScratchMemory& memory) {
  return reinterpret_cast<T*>(memory.data());
}
template <class T>
std::size_t line_bytes(std::int64_t lines, std::int64_t elements) {
  return std::size_t(lines * elements * 2) * sizeof(T);
}

/// Calls f(first, count) for the lines of each unit.
template <class F>
void for_each_unit(const KernelCall& call, std::int64_t lines, std::int64_t each, const F& f) {
  for (std::int64_t u = call.begin; u < call.end; ++u) {
    f(u * each, std::min(each, lines - u * each));
  }
}

template <class T>
void run_lines(const KernelCall& call) {
  const auto& a = *static_cast<const StepAttrs<T>*>(call.attributes);
  const StepShape& s = a.shape;
  const auto transform = transform_lines<T>();
  LineJob<T> job{&a.line, nullptr, nullptr, 1, s.n, s.n, s.inverse, T(s.scale), true, true};
  for_each_unit(call, s.outer, s.per_unit(), [&](std::int64_t first, std::int64_t count) {
    job.in = reinterpret_cast<const T*>(call.inputs[0]) + 2 * first * s.n;
    job.out = reinterpret_cast<T*>(call.outputs[0]) + 2 * first * s.n;
    job.count = count;
    transform(job);
  });
}

template <class T>
void run_columns(const KernelCall& call) {
  const auto& a = *static_cast<const StepAttrs<T>*>(call.attributes);
  const StepShape& s = a.shape;
  const std::int64_t blocks = (s.inner + kUnit - 1) / kUnit;
  const bool direct = a.by_columns;
  const ScratchMemory memory(direct ? 0 : line_bytes<T>(kUnit, s.n));
  T* lines = scratch<T>(memory);
  for (std::int64_t u = call.begin; u < call.end; ++u) {
    const std::int64_t first = u % blocks * kUnit, count = std::min(kUnit, s.inner - first);
    const std::int64_t at = 2 * (u / blocks * s.n * s.inner + first);
    const T* in = reinterpret_cast<const T*>(call.inputs[0]) + at;
    T* out = reinterpret_cast<T*>(call.outputs[0]) + at;
    if (direct) {
      transform_columns<T>()({&a.column, in, out, count, s.inner, s.inverse, T(s.scale), true});
      continue;
    }
    for (std::int64_t i = 0; i < s.n; ++i) {
      for (std::int64_t l = 0; l < count; ++l) {
        std::memcpy(lines + 2 * (l * s.n + i), in + 2 * (i * s.inner + l), 2 * sizeof(T));
      }
    }
    transform_lines<T>()({&a.line, lines, lines, count, s.n, s.n, s.inverse, T(s.scale)});
    for (std::int64_t i = 0; i < s.n; ++i) {
      for (std::int64_t l = 0; l < count; ++l) {
        std::memcpy(out + 2 * (i * s.inner + l), lines + 2 * (l * s.n + i), 2 * sizeof(T));
      }
    }
  }
}

template <class T>
void run_from_real(const KernelCall& call) {
  const auto& a = *static_cast<const StepAttrs<T>*>(call.attributes);
  const StepShape& s = a.shape;
  const std::int64_t length = s.line_length(), results = s.n / 2 + 1;
  const ScratchMemory memory(line_bytes<T>(s.per_unit(), length));
  T* lines = scratch<T>(memory);
  for_each_unit(call, s.outer, s.per_unit(), [&](std::int64_t first, std::int64_t count) {
    const T* in = reinterpret_cast<const T*>(call.inputs[0]) + first * s.n;
    T* out = reinterpret_cast<T*>(call.outputs[0]) + 2 * first * results;
    if (s.halved()) {
      transform_lines<T>()(
          {&a.line, in, lines, count, length, length, false, T(s.scale), true, false});
      for (std::int64_t l = 0; l < count; ++l) {
        separate_real<T>()(
            {lines + 2 * l * length, out + 2 * l * results, length, a.mirror.data(), false});
      }
      return;
    }
    for (std::int64_t i = 0; i < count * s.n; ++i) {
      lines[2 * i] = in[i];
      lines[2 * i + 1] = 0;
    }
    transform_lines<T>()({&a.line, lines, lines, count, s.n, s.n, false, T(s.scale)});
    for (std::int64_t l = 0; l < count; ++l) {
      std::copy_n(lines + 2 * l * s.n, 2 * results, out + 2 * l * results);
    }
  });
}

template <class T>
void run_to_real(const KernelCall& call) {
  const auto& a = *static_cast<const StepAttrs<T>*>(call.attributes);
  const StepShape& s = a.shape;
  const std::int64_t length = s.line_length(), given = s.n / 2 + 1;
  const ScratchMemory memory(line_bytes<T>(s.per_unit(), length));
  T* lines = scratch<T>(memory);
  for_each_unit(call, s.outer, s.per_unit(), [&](std::int64_t first, std::int64_t count) {
    const T* in = reinterpret_cast<const T*>(call.inputs[0]) + 2 * first * given;
    T* out = reinterpret_cast<T*>(call.outputs[0]) + first * s.n;
    if (s.halved()) {
      for (std::int64_t l = 0; l < count; ++l) {
        separate_real<T>()(
            {in + 2 * l * given, lines + 2 * l * length, length, a.mirror.data(), true});
      }
      transform_lines<T>()(
          {&a.line, lines, out, count, length, length, true, T(s.scale), false, true});
      return;
    }
    for (std::int64_t l = 0; l < count; ++l) {
      const T* from = in + 2 * l * given;
      T* to = lines + 2 * l * s.n;
      // The other half is given by symmetry; what is its own mirror image is real.
      to[0] = from[0];
      to[1] = 0;
      for (std::int64_t k = 1; k < given; ++k) {
        to[2 * k] = to[2 * (s.n - k)] = from[2 * k];
        to[2 * k + 1] = from[2 * k + 1];
        to[2 * (s.n - k) + 1] = -from[2 * k + 1];
      }
    }
    transform_lines<T>()({&a.line, lines, lines, count, s.n, s.n, true, T(s.scale)});
    for (std::int64_t i = 0; i < count * s.n; ++i) out[i] = lines[2 * i];
  });
}

template <class T>
runtime::Kernel make_step(const StepShape& shape, FftKernel kernel) {
  auto a = std::make_shared<StepAttrs<T>>();
  a->shape = shape;
  const std::int64_t n = shape.line_length();
  a->by_columns = kernel == FftKernel::columns;
  if (a->by_columns) {
    a->column = lane_plan<T>(n);
  } else {
    a->line = line_plan<T>(n);
  }
  const bool real = shape.kind == Kind::from_real || shape.kind == Kind::to_real;
  if (real && shape.halved()) {
    for (std::int64_t k = 0; k <= n / 2; ++k) {
      double re, im;
      root_of_one(k, shape.n, &re, &im);
      a->mirror.push_back(T(im));
      a->mirror.push_back(T(-re));
    }
  }
  constexpr runtime::KernelFunction kFunctions[] = {run_lines<T>, run_columns<T>, run_from_real<T>,
                                                    run_to_real<T>};
  return {kFunctions[std::size_t(shape.kind)], std::move(a)};
}

template <class T>
FftStep step(const StepShape& shape) {
  FftStep out;
  const double elements = double(shape.outer) * double(shape.n) * double(shape.inner);
  const double passes = std::log2(double(std::max<std::int64_t>(2, shape.n)));
  using namespace prices::other;
  const double each = has_small_factors(shape.line_length()) ? kFft + kFftLevel * passes
                                                             : kLongFft + kLongFftLevel * passes;
  KernelDescriptor& kernel = out.kernel;
  kernel.units = elements == 0 ? 0 : shape.units();
  kernel.nanoseconds = prices::call::kFft + each * elements * double(sizeof(T)) / 4;
  kernel.key = kernel_key("fft", sizeof(T), shape.kind, shape.outer, shape.n, shape.inner,
                          shape.inverse, shape.scale);
  const auto& line_of_table = choose(kFfts, shape);
  kernel.label = &line_of_table.label;
  kernel.make = [shape, how = line_of_table.how] { return make_step<T>(shape, how); };
  const std::int64_t line = shape.kind == Kind::from_real ? 2 * (shape.n / 2 + 1)
                            : shape.kind == Kind::to_real ? shape.n
                                                          : 2 * shape.n;
  out.bytes = shape.outer * line * shape.inner * std::int64_t(sizeof(T));
  out.in_place = shape.kind == Kind::lines || shape.kind == Kind::columns;
  return out;
}

template <class T>
std::vector<FftStep> steps(const ir::Instruction& fft) {
  const auto& attrs = fft.get<ir::FftAttrs>();
  const Dims& lengths = attrs.lengths;
  const bool from_real = attrs.type == ir::FftType::rfft,
             to_real = attrs.type == ir::FftType::irfft;
  const bool inverse = to_real || attrs.type == ir::FftType::ifft;
  const Dims& dims = fft.operand(0)->shape.dims;
  const std::size_t batches = dims.size() - lengths.size();
  std::vector<StepShape> shapes;
  StepShape last;
  last.kind = from_real ? Kind::from_real : to_real ? Kind::to_real : Kind::lines;
  last.outer = element_count(Dims(dims.begin(), dims.end() - 1));
  last.n = lengths.back();
  last.inverse = inverse;
  if (!to_real) shapes.push_back(last);
  for (std::size_t d = 0; d + 1 < lengths.size(); ++d) {
    if (lengths[d] == 1) continue;
    StepShape s;
    s.kind = Kind::columns;
    s.outer = element_count(Dims(dims.begin(), dims.begin() + std::ptrdiff_t(batches + d)));
    s.n = lengths[d];
    s.inner = to_real ? dims.back() : fft.shape.dims.back();
    for (std::size_t k = d + 1; k + 1 < lengths.size(); ++k) s.inner *= lengths[k];
    s.inverse = inverse;
    shapes.push_back(s);
  }
  if (to_real) shapes.push_back(last);
  if (inverse) shapes.back().scale = 1.0 / double(element_count(lengths));
  std::vector<FftStep> out;
  for (const StepShape& s : shapes) out.push_back(step<T>(s));
  return out;
}

}  // namespace

KernelFamily fft_family() { return family_of("fft", kFfts); }

std::vector<FftStep> fft_steps(const ir::Instruction& fft) {
  const DType t = real_type(fft.operand(0)->shape.dtype);
  const Dims& lengths = fft.get<ir::FftAttrs>().lengths;
  if (lengths.empty()) return {};
  for (const std::int64_t n : lengths) {
    // Neither its array nor its table of angles fits: whoever runs it says so.
    if (n <= 0 || std::uint64_t(n) > machine_memory() / (2 * byte_size(t))) return {};
  }
  return t == DType::f32   ? steps<float>(fft)
         : t == DType::f64 ? steps<double>(fft)
                           : std::vector<FftStep>();
}

}  // namespace tessera::codegen
