// SPDX-License-Identifier: Apache-2.0
// Products whose rows are the batch, and whose sums are features or taps. The other dims are looped
// over.
#include "src/codegen/kernels/convolutions/direct_convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/codegen/kernels/convolutions/tap_runs.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/batch_gemm.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// What a unit reads before others go on: the second cache holds it next to what they read besides.
constexpr std::int64_t kPartBytes = std::int64_t(512) << 10;

struct Attrs {
  ConvolutionProblem c;
  bool sums_are_taps = false;    ///< of the last dim, else features
  std::int64_t batch_block = 1;  ///< rows of a unit
  bool transposed = false;       ///< as BatchProducts has it
};

template <class T>
class DirectWork {
 public:
  DirectWork(const Attrs& a, const KernelCall& call)
      : a_(a),
        input_(reinterpret_cast<const T*>(call.inputs[0])),
        filter_(reinterpret_cast<const T*>(call.inputs[1])),
        out_(reinterpret_cast<T*>(call.outputs[0])) {}

  /// What a unit reads may not fit into the second cache. Neighbours read nearly the same: all
  /// units go through a part of their terms before they go on, each in the order of its own.
  void units(std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) unit(n);
    std::size_t parts = 1;
    for (const Product& p : products_) parts = std::max(parts, parts_of(p));
    for (std::size_t part = 0; part < parts; ++part) {
      for (Product& p : products_) {
        const std::size_t of_it = parts_of(p), all = p.terms.size();
        if (part >= of_it) continue;
        const std::size_t first = all * part / of_it;
        p.gemm.terms = p.terms.data() + first;
        p.gemm.count = std::int64_t(all * (part + 1) / of_it - first);
        p.gemm.accumulate = part > 0;
        batch_gemm(p.gemm);
        if (a_.transposed && part + 1 == of_it) turn_back(p);
      }
    }
  }

 private:
  using Terms = std::vector<typename BatchGemm<T>::Term>;
  struct Product {
    BatchGemm<T> gemm;
    Terms terms;
    T* to = nullptr;            ///< of what is transposed, where it belongs
    std::vector<T> transposed;  ///< gemm.c
  };

  static std::size_t parts_of(const Product& p) {
    std::int64_t depth = 0;
    for (const auto& term : p.terms) depth += term.k;
    const std::int64_t bytes = depth * (p.gemm.m + p.gemm.n) * std::int64_t(sizeof(T));
    return std::clamp<std::size_t>(std::size_t(bytes / kPartBytes), 1,
                                   std::max<std::size_t>(p.terms.size(), 1));
  }

  void unit(std::int64_t unit) {
    const ConvolutionProblem& c = a_.c;
    const std::int64_t blocks = (c.batch + a_.batch_block - 1) / a_.batch_block;
    const std::int64_t first = unit % blocks * a_.batch_block;
    unit /= blocks;
    const std::size_t outer = c.window.size();
    Dims position(outer);
    for (std::size_t d = outer; d-- > 0;) {
      position[d] = unit % c.out[d];
      unit /= c.out[d];
    }
    std::vector<TapRun> taps;
    T* to = out_ + first * c.result.batch;
    for (std::size_t d = 0; d < outer; ++d) {
      taps.push_back(taps_of(c.window[d], c.in[d], position[d]));
      to += position[d] * c.result.spatial[d];
    }
    for (std::int64_t g = 0; g < c.groups; ++g) {
      const T* from = input_ + first * c.input.batch + c.first_of_group(g);
      const T* filter = filter_ + g * c.columns;
      BatchGemm<T> gemm;
      gemm.n = c.columns;
      gemm.a_column = c.input.feature;
      gemm.b_row = c.filter.batch;
      gemm.m = std::min(a_.batch_block, c.batch - first);
      gemm.a_row = c.input.batch;
      gemm.c_row = c.result.batch;
      multiply(from, filter, taps, &gemm, to + g * c.columns);
    }
  }

  /// The products of all combinations of taps.
  void multiply(const T* from, const T* filter, const std::vector<TapRun>& taps, BatchGemm<T>* gemm,
                T* to) {
    terms_.clear();
    add(from, filter, taps, 0, gemm);
    if (!a_.transposed && !a_.sums_are_taps) {
      gemm->terms = terms_.data();
      gemm->count = std::int64_t(terms_.size());
      gemm->c = to;
      return batch_gemm(*gemm);
    }
    Product p{*gemm, terms_, to, {}};
    p.gemm.c = to;
    if (a_.transposed) turn(&p);
    p.gemm.terms = p.terms.data();
    p.gemm.count = std::int64_t(p.terms.size());
    if (a_.sums_are_taps) {
      products_.push_back(std::move(p));
      return;
    }
    batch_gemm(p.gemm);
    turn_back(p);
  }

  /// The transposed product, to memory of its own.
  void turn(Product* p) const {
    BatchGemm<T>& g = p->gemm;
    for (auto& term : p->terms) std::swap(term.a, term.b);
    g.b_column = a_.c.filter.feature;
    std::swap(g.m, g.n);
    std::swap(g.a_row, g.b_column);
    std::swap(g.a_column, g.b_row);
    p->transposed.resize(std::size_t(g.m * g.n));
    g.c = p->transposed.data();
    g.c_row = g.n;
  }
  void turn_back(const Product& p) const {
    const ConvolutionProblem& c = a_.c;
    for (std::int64_t n = 0; n < p.gemm.n; ++n) {
      for (std::int64_t m = 0; m < p.gemm.m; ++m) {
        p.to[n * c.result.batch + m * c.result.feature] =
            p.transposed[std::size_t(m * p.gemm.n + n)];
      }
    }
  }

  void add(const T* from, const T* filter, const std::vector<TapRun>& taps, std::size_t d,
           BatchGemm<T>* gemm) {
    const ConvolutionProblem& c = a_.c;
    if (d == taps.size()) {
      terms_.push_back({from, filter, c.per_group});
      return;
    }
    const TapRun& run = taps[d];
    if (run.count == 0) return;
    const std::int64_t first = c.window[d].reversal ? c.window[d].size - 1 - run.begin : run.begin;
    const std::int64_t step = (c.window[d].reversal ? -run.step : run.step) * c.filter.spatial[d];
    const std::int64_t advance = run.advance * c.input.spatial[d];
    from += run.at * c.input.spatial[d];
    filter += first * c.filter.spatial[d];
    if (a_.sums_are_taps && d + 1 == taps.size()) {
      gemm->a_column = advance;
      gemm->b_row = step;
      for (std::int64_t i = 0; i < c.per_group; ++i) {
        terms_.push_back({from + i * c.input.feature, filter + i * c.filter.batch, run.count});
      }
      return;
    }
    for (std::int64_t k = 0; k < run.count; ++k) {
      add(from + k * advance, filter + k * step, taps, d + 1, gemm);
    }
  }

  const Attrs& a_;
  const T* input_;
  const T* filter_;
  T* out_;
  Terms terms_;
  std::vector<Product> products_;  ///< of all units, if they are formed part by part
};

template <class T>
void run_direct(const KernelCall& call) {
  DirectWork<T> work(*static_cast<const Attrs*>(call.attributes), call);
  work.units(call.begin, call.end);
}

}  // namespace

std::optional<BatchProducts> batch_products(const ConvolutionProblem& c, DType type) {
  if ((type != DType::f32 && type != DType::f64) || c.window.empty()) return std::nullopt;
  const std::int64_t lanes =
      type == DType::f32 ? batch_gemm_lanes<float>() : batch_gemm_lanes<double>();
  BatchProducts out;
  // Fewer columns leave most of a vector empty; patches may do better.
  out.transposed = 2 * c.columns < lanes && 2 * c.batch >= lanes;
  if (2 * c.columns < lanes && !out.transposed) return std::nullopt;
  const auto rows = double(out.transposed ? c.columns : c.batch);
  out.by_features = batch_gemm_use(rows, double(c.per_group));
  out.by_taps = batch_gemm_use(rows, double(std::min(c.window.back().size, c.in.back())));
  return out;
}

KernelDescriptor direct_convolution_kernel(ConvolutionProblem c, DType type) {
  const BatchProducts how = batch_products(c, type).value();
  const std::int64_t lanes =
      type == DType::f32 ? batch_gemm_lanes<float>() : batch_gemm_lanes<double>();
  Attrs a;
  a.sums_are_taps = how.by_features < how.by_taps;
  a.transposed = how.transposed;
  KernelDescriptor kernel;
  a.batch_block = how.transposed ? 8 * lanes : 6 * kBatchGemmRows;
  kernel.units = c.positions() * equal_blocks(c.batch, &a.batch_block);
  kernel.nanoseconds = prices::call::kConvolution +
                       (type == DType::f32 ? prices::product::kF32 : prices::product::kF64) *
                           c.products() / how.use();
  kernel.key = kernel_key("direct-convolution", type, c, a.sums_are_taps, a.transposed);
  a.c = std::move(c);
  kernel.make =
      kernel_maker(type == DType::f32 ? run_direct<float> : run_direct<double>, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
