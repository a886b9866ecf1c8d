// SPDX-License-Identifier: Apache-2.0
// Convolutions of small images by larger windows.
#include "src/passes/products/clip_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

class SmallImages {
 public:
  explicit SmallImages(unsigned seed) : random_(seed) {}

  std::unique_ptr<ir::Module> convolution() {
    auto module = std::make_unique<ir::Module>("m");
    ir::Builder b(module->add_computation("e"));
    ir::ConvolutionAttrs a;
    const std::int64_t rank = draw(1, 3), groups = draw(1, 2), features = draw(1, 3);
    const bool of_batch = draw(0, 2) == 0;
    (of_batch ? a.batch_group_count : a.feature_group_count) = groups;
    const Dims in = order(rank), of_filter = order(rank), out = order(rank);
    Dims x(in.size()), filter(in.size());
    a.input_batch = in[0];
    a.input_feature = in[1];
    a.kernel_output_feature = of_filter[0];
    a.kernel_input_feature = of_filter[1];
    a.output_batch = out[0];
    a.output_feature = out[1];
    x[std::size_t(in[0])] = (of_batch ? groups : 1) * draw(1, 2);
    x[std::size_t(in[1])] = (of_batch ? 1 : groups) * features;
    filter[std::size_t(of_filter[0])] = groups * draw(1, 3);
    filter[std::size_t(of_filter[1])] = features;
    for (std::int64_t d = 0; d < rank; ++d) {
      const auto s = std::size_t(d) + 2;
      a.input_spatial.push_back(in[s]);
      a.kernel_spatial.push_back(of_filter[s]);
      a.output_spatial.push_back(out[s]);
      ir::WindowDim w;
      const std::int64_t size = draw(0, 2) > 0 ? 1 : draw(2, 4);
      w.size = draw(1, 4);
      w.stride = draw(1, 3);
      w.lhs_dilation = draw(1, 3);
      w.rhs_dilation = draw(1, 3);
      w.reversal = draw(0, 1) == 1;
      w.pad_low = draw(-1, 6);
      // Results have an element or more.
      const std::int64_t least = (w.size - 1) * w.rhs_dilation - (size - 1) * w.lhs_dilation;
      w.pad_high = std::max(draw(-1, 6), least - w.pad_low);
      a.window.push_back(w);
      x[std::size_t(in[s])] = size;
      filter[std::size_t(of_filter[s])] = w.size;
    }
    b.computation()->set_root(b.emit(Opcode::convolution, {numbers(b, x), numbers(b, filter)}, a));
    module->set_entry(b.computation());
    return module;
  }

 private:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return low + std::int64_t(random_() % std::uint64_t(high - low + 1));
  }
  /// Where the batch, the features and the spatial dims stand.
  Dims order(std::int64_t rank) {
    Dims out(std::size_t(rank) + 2);
    std::iota(out.begin(), out.end(), 0);
    std::shuffle(out.begin(), out.end(), random_);
    return out;
  }
  /// Small whole numbers, of which sums are exact in any order.
  Instruction* numbers(ir::Builder& b, const Dims& dims) {
    Literal values(Shape(DType::f32, dims));
    for (float& v : values.mutable_data<float>()) v = float(draw(-8, 8));
    return b.constant(values);
  }

  std::mt19937 random_;
};

TEST(ClipWindows, AnyWindowGivesTheSame) {
  constexpr unsigned kSeed = 5;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  SmallImages random(kSeed);
  std::size_t changed = 0, dots = 0;
  for (int n = 0; n < 1000 && !HasFailure(); ++n) {
    const std::unique_ptr<ir::Module> module = random.convolution();
    SCOPED_TRACE(ir::to_string(*module));
    changed += testing::keeps_results(module.get(), {}, clip_windows) > 0 ? 1 : 0;
    // Nothing is left to do.
    EXPECT_EQ(clip_windows(module.get()), 0u) << ir::to_string(*module);
    for (const auto& i : module->entry()->instructions()) dots += i->is(Opcode::dot) ? 1 : 0;
  }
  EXPECT_GT(changed, 500u);
  EXPECT_GT(dots, 20u);
}

}  // namespace
}  // namespace tessera::passes
