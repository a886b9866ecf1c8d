// SPDX-License-Identifier: Apache-2.0
// For each row of the op table: elementwise ops compute on all types that the row names, in the
// evaluator and in a kernel, and both agree.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/rewrite/builder.h"
#include "tests/codegen/run_module.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

const std::map<unsigned, DType> kTypeOfClass = {{ir::types::pred, DType::pred},
                                                {ir::types::signed_integer, DType::s32},
                                                {ir::types::unsigned_integer, DType::u32},
                                                {ir::types::floating, DType::f32},
                                                {ir::types::complex, DType::c64}};

/// What runs on the evaluator: too rare for a kernel.
const std::set<std::pair<Opcode, DType>>& without_kernel() {
  static const std::set<std::pair<Opcode, DType>> all = [] {
    return std::set<std::pair<Opcode, DType>>{
        {Opcode::atan2, DType::c64}, {Opcode::clamp, DType::pred},
        {Opcode::imag, DType::f32},  {Opcode::mulhi, DType::s32},
        {Opcode::mulhi, DType::u32}, {Opcode::stochastic_convert, DType::f32}};
  }();
  return all;
}

struct Case {
  ir::Module module;
  ir::Instruction* root = nullptr;
  std::vector<Literal> arguments;

  Case(Opcode op, DType t) {
    module.set_entry(module.add_computation("e"));
    ir::Builder b(module.entry());
    std::vector<ir::Instruction*> operands;
    for (int k = 0; k < ir::info(op).operands; ++k) {
      DType type = t;
      if (op == Opcode::select && k == 0) type = DType::pred;
      if (op == Opcode::stochastic_convert && k == 1) type = DType::u32;
      const bool truth = type == DType::pred;
      const std::vector<double> numbers = truth    ? std::vector<double>{1, 0, 1}
                                          : k == 0 ? std::vector<double>{1, 2, 3}
                                                   : std::vector<double>{2, 1, 4};
      arguments.push_back(make_literal(type, {3}, numbers));
      operands.push_back(b.parameter(k, Shape(type, {3}), "x" + std::to_string(k)));
    }
    ir::Attributes attrs;
    if (op == Opcode::compare) attrs = ir::CompareAttrs{};
    if (op == Opcode::reduce_precision) attrs = ir::ReducePrecisionAttrs{8, 7};
    const bool declared =
        op == Opcode::convert || op == Opcode::bitcast_convert || op == Opcode::stochastic_convert;
    const Shape same(op == Opcode::stochastic_convert ? DType::s8 : t, {3});
    root = declared ? b.emit_shaped(op, same, operands, attrs) : b.emit(op, operands, attrs);
    module.entry()->set_root(root);
  }
};

template <class F>
void each_elementwise(F check) {
  for (int n = 0; n < ir::opcode_count(); ++n) {
    const auto op = Opcode(n);
    if (!ir::is_elementwise(op)) continue;
    for (const auto& [bit, type] : kTypeOfClass) {
      if ((ir::info(op).types & bit) == 0) continue;
      // Of 32 bits exactly, and of floats.
      if (op == Opcode::stochastic_convert && type != DType::f32) continue;
      SCOPED_TRACE(std::string(ir::name(op)) + " of " + std::string(name(type)));
      check(op, type);
    }
  }
}

TEST(OpTable, ElementwiseOpsHaveAMeaningAndAKernel) {
  each_elementwise([](Opcode op, DType type) {
    Case c(op, type);
    const Literal expected = evaluator::evaluate(c.module, c.arguments);
    EXPECT_EQ(expected.shape(), c.root->shape);
    // Copies are but names.
    const bool kernel = op == Opcode::copy || codegen::is_loop_op(*c.root);
    EXPECT_EQ(kernel, without_kernel().count({op, type}) == 0);
    const Literal met = run_module(c.module, c.arguments)[0];
    ASSERT_EQ(met.shape(), expected.shape());
    if (is_complex(met.dtype())) return;  // compared on more numbers by the tests of kernels
    const std::vector<double> x = to_vector<double>(expected), y = to_vector<double>(met);
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (std::isnan(x[k])) {
        EXPECT_TRUE(std::isnan(y[k]));
      } else if (std::isinf(x[k])) {
        EXPECT_EQ(y[k], x[k]);
      } else {
        EXPECT_NEAR(y[k], x[k], 1e-5 * (1 + std::abs(x[k])));
      }
    }
  });
}

}  // namespace
}  // namespace tessera::testing
