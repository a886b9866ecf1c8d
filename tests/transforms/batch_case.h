// SPDX-License-Identifier: Apache-2.0
// A program on a batch, compared with a loop over the batch's entries.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/transforms/batching/batch.h"
#include "src/transforms/vmap.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"

namespace tessera::testing {

/// Computations that programs of tests call.
inline const std::string kBatchCallees = R"(
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
mix { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, b)
  ROOT r = f32[] subtract(c, b) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
lt { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
lt2 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
argmax { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  v = f32[] select(gt, a, b)
  k = s32[] select(gt, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k) }
)";

inline std::string batch_program(const std::string& entry, const std::string& callees = "",
                                 const std::string& header = "") {
  return "HloModule m" + header + "\n" + kBatchCallees + callees + "\nENTRY e {\n" + entry +
         "\n}\n";
}

inline Literal entry_of(const Literal& whole, std::int64_t axis, std::int64_t entry) {
  Dims dims = whole.dims();
  const std::int64_t size = dims[std::size_t(axis)];
  std::int64_t outer = 1;
  for (std::int64_t d = 0; d < axis; ++d) outer *= dims[std::size_t(d)];
  dims.erase(dims.begin() + std::ptrdiff_t(axis));
  Literal out(Shape(whole.dtype(), dims));
  const std::size_t bytes = out.byte_count() / std::size_t(outer);
  for (std::int64_t o = 0; o < outer; ++o) {
    std::memcpy(out.mutable_bytes() + std::size_t(o) * bytes,
                whole.bytes() + std::size_t(o * size + entry) * bytes, bytes);
  }
  return out;
}

/// Numbers that are equal up to rounding; the greatest difference of others, relative to 1 + |x|.
inline double difference(const Literal& got, const Literal& want) {
  if (!(got.shape() == want.shape())) return 1e300;
  double worst = 0;
  dispatch_dtype(want.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto x = got.template data<T>();
    const auto y = want.template data<T>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::memcmp(&x[i], &y[i], sizeof(T)) == 0) continue;
      const auto a = convert_element<std::complex<double>>(x[i]);
      const auto b = convert_element<std::complex<double>>(y[i]);
      if (a == b || (std::isnan(std::abs(a)) && std::isnan(std::abs(b)))) continue;
      const double apart = std::abs(a - b) / (1 + std::abs(b));
      if (!(apart <= worst)) worst = std::isnan(apart) ? 1e300 : apart;
    }
  });
  return worst;
}

/// vmap of `module` over these axes gives what a loop over the entries gives. Returns it.
inline std::unique_ptr<ir::Module> expect_batched(const ir::Module& module, const Dims& axes,
                                                  std::int64_t size, Dice& dice,
                                                  bool exact = false) {
  std::unique_ptr<ir::Module> batched = transforms::vmap(module, axes, size);
  ir::verify(*batched);
  const std::string text = ir::to_string(*batched);
  EXPECT_EQ(ir::to_string(*ir::parse_hlo(text)), text);
  const std::vector<Literal> args = random_arguments(*batched, dice, exact);
  const std::vector<Literal> got = leaves_of(evaluator::evaluate(*batched, args));
  for (std::int64_t e = 0; e < size; ++e) {
    std::vector<Literal> own;
    for (std::size_t k = 0; k < args.size(); ++k) {
      own.push_back(axes[k] < 0 ? args[k] : entry_of(args[k], axes[k], e));
    }
    const std::vector<Literal> want = leaves_of(evaluator::evaluate(module, own));
    EXPECT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size() && k < got.size(); ++k) {
      const double apart = difference(entry_of(got[k], 0, e), want[k]);
      EXPECT_LE(apart, exact ? 0 : 2e-5)
          << "result " << k << " of entry " << e << ", axes " << join(axes) << "\n"
          << ir::to_string(module) << text;
      if (apart > 2e-5) return batched;
    }
  }
  return batched;
}

/// Batched parameters and their axes at random: every parameter alone, all, and mixtures; also
/// batched twice.
inline void expect_batched_at_random(const std::string& text, bool exact = true) {
  constexpr std::size_t kTrials = 16;
  Dice dice(1);
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text, "case.hlo");
  ir::verify(*module);
  const auto& parameters = module->entry()->parameters();
  // Batches of one entry and of none.
  for (const std::int64_t size : {1, 0}) {
    expect_batched(*module, Dims(parameters.size(), 0), size, dice, exact);
  }
  for (std::size_t trial = 0; trial < parameters.size() + kTrials; ++trial) {
    Dims axes;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const bool batched = trial < parameters.size()       ? trial == k
                           : trial < parameters.size() + 2 ? true
                                                           : dice.chance(0.5);
      axes.push_back(batched ? dice.below(parameters[k]->shape.rank() + 1) : -1);
    }
    SCOPED_TRACE("axes " + join(axes));
    const auto once = expect_batched(*module, axes, 3, dice, exact);
    if (::testing::Test::HasFailure()) return;
    if (trial + 4 < parameters.size() + kTrials) continue;
    Dims again;
    for (const ir::Instruction* p : once->entry()->parameters()) {
      again.push_back(dice.chance(0.6) ? dice.below(p->shape.rank() + 1) : -1);
    }
    SCOPED_TRACE("and axes " + join(again));
    expect_batched(*once, again, 2, dice, exact);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace tessera::testing
