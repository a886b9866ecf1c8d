// SPDX-License-Identifier: Apache-2.0
// Convolutions by large kernels become convolutions by small ones of equal value.
#include "src/passes/products/swap_convolutions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Small whole numbers, of which sums are exact in any order.
Instruction* numbers(ir::Builder& b, const Dims& dims, int seed) {
  Literal values(Shape(DType::f64, dims));
  std::mt19937 random(static_cast<unsigned>(seed));
  for (double& v : values.mutable_data<double>()) v = double(int(random() % 17)) - 8;
  return b.constant(values);
}

/// A convolution [2,3] over the window's dims by [4,3], output [2,4].
std::unique_ptr<ir::Module> convolution(const std::vector<ir::WindowDim>& window,
                                        const Dims& input) {
  auto module = std::make_unique<ir::Module>("m");
  ir::Builder b(module->add_computation("e"));
  ir::ConvolutionAttrs a;
  a.window = window;
  Dims x{2, 3}, w{4, 3};
  a.kernel_output_feature = 0;
  a.kernel_input_feature = 1;
  for (std::size_t d = 0; d < window.size(); ++d) {
    for (Dims* spatial : {&a.input_spatial, &a.kernel_spatial, &a.output_spatial}) {
      spatial->push_back(std::int64_t(d) + 2);
    }
    x.push_back(input[d]);
    w.push_back(window[d].size);
  }
  b.computation()->set_root(b.emit(Opcode::convolution, {numbers(b, x, 1), numbers(b, w, 2)}, a));
  module->set_entry(b.computation());
  return module;
}

/// Whether it is swapped; its value stays.
bool swaps(const std::vector<ir::WindowDim>& window, const Dims& input) {
  const std::unique_ptr<ir::Module> module = convolution(window, input);
  const std::size_t count = testing::keeps_results(module.get(), {}, swap_convolutions);
  EXPECT_EQ(swap_convolutions(module.get()), 0u) << "and back";
  return count == 1;
}

ir::WindowDim window(std::int64_t size, std::int64_t low, std::int64_t high) {
  ir::WindowDim w;
  w.size = size;
  w.pad_low = low;
  w.pad_high = high;
  return w;
}

TEST(SwapConvolutions, WhereTheKernelCoversMore) {
  EXPECT_TRUE(swaps({window(7, 6, 6)}, {3}));
  EXPECT_FALSE(swaps({window(3, 2, 2)}, {7}));
  EXPECT_FALSE(swaps({window(3, 1, 1)}, {3}));
  EXPECT_TRUE(swaps({window(9, 8, 8), window(1, 0, 0)}, {2, 4}));
  ir::WindowDim strided = window(7, 6, 6);
  strided.stride = 2;
  EXPECT_FALSE(swaps({strided}, {3}));
}

TEST(SwapConvolutions, AnyWindowGivesTheSame) {
  const unsigned seed = 5;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return std::int64_t(low + int(random() % unsigned(high - low + 1)));
  };
  int swapped = 0;
  for (int n = 0; n < 400; ++n) {
    std::vector<ir::WindowDim> dims;
    Dims input;
    for (std::int64_t d = draw(1, 2); d > 0; --d) {
      ir::WindowDim w = window(draw(1, 6), draw(-2, 7), draw(-2, 7));
      w.lhs_dilation = draw(1, 3);
      w.rhs_dilation = draw(1, 3);
      w.reversal = draw(0, 1) == 1;
      input.push_back(draw(1, 4));
      const std::int64_t reach = (input.back() - 1) * w.lhs_dilation + w.pad_low + w.pad_high;
      // At least one place.
      w.pad_high += std::max<std::int64_t>(0, (w.size - 1) * w.rhs_dilation - reach);
      dims.push_back(w);
    }
    swapped += swaps(dims, input) ? 1 : 0;
  }
  EXPECT_GT(swapped, 50);
}

}  // namespace
}  // namespace tessera::passes
