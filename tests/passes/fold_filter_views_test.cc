// SPDX-License-Identifier: Apache-2.0
// Convolutions by filters that are reversed and transposed, and those that become dots then.
#include "src/passes/products/fold_filter_views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/products/convolutions_as_dots.h"
#include "tests/support/against_evaluator.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

class RandomFilters {
 public:
  explicit RandomFilters(unsigned seed) : random_(seed) {}

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return low + std::int64_t(random_() % std::uint64_t(high - low + 1));
  }

  /// With up to three views of its filter, some of which may be folded.
  std::unique_ptr<ir::Module> convolution(std::size_t* views) {
    auto module = std::make_unique<ir::Module>("m");
    ir::Builder b(module->add_computation("e"));
    ir::ConvolutionAttrs a;
    const std::int64_t rank = draw(1, 2), groups = draw(1, 2),
                       features = draw(0, 3) == 0 ? 32 : draw(1, 3);
    a.feature_group_count = groups;
    Dims x{draw(1, 2), groups * features}, roles(std::size_t(rank) + 2), filter(roles.size());
    std::iota(roles.begin(), roles.end(), 0);
    std::shuffle(roles.begin(), roles.end(), random_);
    a.kernel_output_feature = roles[0];
    a.kernel_input_feature = roles[1];
    filter[std::size_t(roles[0])] = groups * draw(1, 20);
    filter[std::size_t(roles[1])] = features;
    for (std::int64_t d = 0; d < rank; ++d) {
      ir::WindowDim w;
      w.size = draw(1, 3);
      w.stride = draw(1, 2);
      w.lhs_dilation = draw(1, 3) == 1 ? 2 : 1;
      w.rhs_dilation = draw(1, 2);
      w.pad_low = draw(0, 2);
      w.pad_high = draw(0, 2);
      w.reversal = draw(0, 1) == 1;
      a.window.push_back(w);
      a.input_spatial.push_back(d + 2);
      a.output_spatial.push_back(d + 2);
      a.kernel_spatial.push_back(roles[std::size_t(d) + 2]);
      filter[std::size_t(a.kernel_spatial.back())] = w.size;
      x.push_back(draw(4, 6));
    }
    Instruction* image = numbers(b, x);
    b.computation()->set_root(b.emit(Opcode::convolution, {image, seen(b, a, filter, views)}, a));
    module->set_entry(b.computation());
    return module;
  }

 private:
  /// Small whole numbers, of which sums are exact in any order.
  Instruction* numbers(ir::Builder& b, const Dims& dims) {
    Literal values(Shape(DType::f64, dims));
    for (double& v : values.mutable_data<double>()) v = double(draw(-8, 8));
    return b.constant(values);
  }

  /// A filter of these dims: a view of views of numbers.
  Instruction* seen(ir::Builder& b, const ir::ConvolutionAttrs& a, const Dims& dims,
                    std::size_t* views) {
    const std::int64_t left = draw(0, 3);
    std::vector<Dims> perms, ends;
    Dims now = dims, spatial = a.kernel_spatial;
    for (std::int64_t n = 0; n < left; ++n) {
      Dims perm(dims.size()), before(dims.size());
      std::iota(perm.begin(), perm.end(), 0);
      ends.push_back(spatial);
      if (draw(0, 1) == 1) {
        std::shuffle(perm.begin(), perm.end(), random_);
        ends.back().clear();
      }
      for (std::size_t d = 0; d < perm.size(); ++d) before[std::size_t(perm[d])] = now[d];
      for (std::int64_t& d : spatial) d = perm[std::size_t(d)];
      now = before;
      perms.push_back(perm);
    }
    Instruction* out = numbers(b, now);
    for (std::size_t n = perms.size(); n-- > 0;) {
      const bool turns = !ends[n].empty();
      if (!turns && std::is_sorted(perms[n].begin(), perms[n].end())) continue;
      out = turns ? b.reverse(out, ends[n]) : b.transpose(out, perms[n]);
      if (out->is(turns ? Opcode::reverse : Opcode::transpose)) ++*views;
    }
    return out;
  }

  std::mt19937 random_;
};

TEST(FoldFilterViews, AnyFilterGivesTheSame) {
  constexpr unsigned kSeed = 3;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RandomFilters random(kSeed);
  std::size_t folded = 0, dots = 0;
  for (int n = 0; n < 500 && !HasFailure(); ++n) {
    std::size_t views = 0;
    const std::unique_ptr<ir::Module> module = random.convolution(&views);
    SCOPED_TRACE(ir::to_string(*module));
    const std::size_t count = testing::keeps_results(module.get(), {}, fold_filter_views);
    EXPECT_LE(count, views);
    folded += count;
    dots += testing::keeps_results(module.get(), {}, convolutions_as_dots);
  }
  EXPECT_GT(folded, 300u);
  EXPECT_GT(dots, 10u);
}

}  // namespace
}  // namespace tessera::passes
