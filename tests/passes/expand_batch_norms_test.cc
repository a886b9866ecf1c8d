// SPDX-License-Identifier: Apache-2.0
// What batch norms are expanded to gives what the evaluator makes of them.
#include "src/passes/expand_batch_norms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/fixtures.h"

namespace tessera::passes {
namespace {

using ir::Opcode;

constexpr Opcode kOps[] = {Opcode::batch_norm_inference, Opcode::batch_norm_training,
                           Opcode::batch_norm_grad};

std::unique_ptr<ir::Module> norm(Opcode op, DType t, const Dims& dims, std::int64_t feature) {
  auto module = std::make_unique<ir::Module>("m");
  ir::Builder b(module->add_computation("e"));
  const Shape whole(t, dims), each(t, {dims[std::size_t(feature)]});
  std::vector<ir::Instruction*> operands;
  const auto add = [&](const Shape& shape) {
    operands.push_back(b.parameter(std::int64_t(operands.size()), shape));
  };
  add(whole);
  add(each);
  add(each);
  if (op != Opcode::batch_norm_training) add(each);
  if (op == Opcode::batch_norm_inference) add(each);
  if (op == Opcode::batch_norm_grad) add(whole);
  ir::BatchNormAttrs attrs;
  attrs.epsilon = 0.01F;
  attrs.feature_index = feature;
  b.computation()->set_root(b.emit(op, operands, attrs));
  module->set_entry(b.computation());
  return module;
}

std::vector<double> numbers(const Literal& x) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    out.push_back(
        testing::internal::real_at(x.dtype(), x.bytes() + std::size_t(i) * byte_size(x.dtype()))
            .value);
  }
  return out;
}

/// Variances are positive.
std::vector<Literal> arguments(const ir::Module& module, Opcode op) {
  testing::Dice dice(7);
  std::vector<Literal> out = testing::random_arguments(module, dice);
  const std::size_t k = op == Opcode::batch_norm_inference ? 4 : 3;
  if (op == Opcode::batch_norm_training) return out;
  out[k] = testing::random_literal(dice, out[k].dtype(), out[k].dims(), false);
  // Signs are the top bits of the top bytes.
  const std::size_t size = byte_size(out[k].dtype());
  for (std::size_t i = size - 1; i < out[k].byte_count(); i += size) {
    out[k].mutable_bytes()[i] &= std::byte(0x7f);
  }
  return out;
}

void compare(const Literal& got, const Literal& want, double tolerance, const std::string& what) {
  const auto g = testing::leaves_of(got), w = testing::leaves_of(want);
  ASSERT_EQ(g.size(), w.size());
  for (std::size_t k = 0; k < g.size(); ++k) {
    ASSERT_EQ(g[k].shape(), w[k].shape()) << what;
    const std::vector<double> a = numbers(g[k]), b = numbers(w[k]);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = a[i], y = b[i];
      if (std::isnan(x) && std::isnan(y)) continue;
      ASSERT_NEAR(x, y, tolerance * (1 + std::abs(y))) << what << ", result " << k;
    }
  }
}

TEST(ExpandBatchNorms, GivesWhatTheEvaluatorDoes) {
  struct Case {
    Dims dims;
    std::int64_t feature;
  };
  const Case cases[] = {{{2, 3, 4, 5}, 1}, {{2, 3, 4, 5}, 3}, {{1, 6, 8}, 1},
                        {{4}, 0},          {{1, 3, 1}, 1},    {{0, 3}, 1}};
  for (const Opcode op : kOps) {
    for (const DType t : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const Case& c : cases) {
        const auto module = norm(op, t, c.dims, c.feature);
        const std::vector<Literal> args = arguments(*module, op);
        const Literal want = evaluator::evaluate(*module, args);
        EXPECT_EQ(expand_batch_norms(module.get()), 1u);
        ir::verify(*module);
        const double tolerance = t == DType::bf16  ? 2e-2
                                 : t == DType::f16 ? 2e-3
                                 : t == DType::f32 ? 1e-5
                                                   : 1e-12;
        compare(evaluator::evaluate(*module, args), want, tolerance, ir::to_string(*module));
      }
    }
  }
}

// Of numbers far from zero, of which squares would lose everything.
TEST(ExpandBatchNorms, TakesVariancesOfDifferences) {
  const auto module = norm(Opcode::batch_norm_training, DType::f32, {8, 1}, 1);
  Literal x(Shape(DType::f32, {8, 1}));
  for (int i = 0; i < 8; ++i) x.mutable_data<float>()[i] = 1e6F + float(i % 2);
  Literal one(Shape(DType::f32, {1}));
  one.mutable_data<float>()[0] = 1;
  Literal none(Shape(DType::f32, {1}));
  none.mutable_data<float>()[0] = 0;
  expand_batch_norms(module.get());
  const Literal got = evaluator::evaluate(*module, std::vector<Literal>{x, one, none});
  EXPECT_NEAR(double(got.elements()[2].data<float>()[0]), 0.25, 1e-6);
}

}  // namespace
}  // namespace tessera::passes
