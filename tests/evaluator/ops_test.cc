// SPDX-License-Identifier: Apache-2.0
// Cases that the fixtures don't cover: types that XLA's backends lack, rounding, reducers with
// control flow, and errors.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::Instruction;
using ir::Opcode;

struct Entry {
  Entry() : b(start()) {}
  Literal run(Instruction* root, const std::vector<Literal>& arguments = {}) {
    b.computation()->set_root(root);
    return evaluator::evaluate(module, arguments);
  }
  Instruction* ints(DType t, const std::vector<std::int64_t>& v) {
    return b.constant(make_literal(t, {std::int64_t(v.size())}, v));
  }
  Instruction* floats(DType t, const std::vector<double>& v) {
    return b.constant(make_literal(t, {std::int64_t(v.size())}, v));
  }

  ir::Module module;
  Builder b;

 private:
  Builder start() {
    module.set_entry(module.add_computation("main"));
    return Builder(module.entry());
  }
};

TEST(Elements, IntegersOfFourBitsWrap) {
  Entry e;
  Instruction* x = e.ints(DType::s4, {7, -8, 3});
  Instruction* y = e.ints(DType::s4, {1, -1, -5});
  EXPECT_EQ(to_vector<int>(e.run(e.b.binary(Opcode::add, x, y))), (std::vector<int>{-8, 7, -2}));
  Instruction* u = e.ints(DType::u4, {15, 9, 0});
  Instruction* v = e.ints(DType::u4, {1, 9, 1});
  EXPECT_EQ(to_vector<int>(e.run(e.b.binary(Opcode::add, u, v))), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(to_vector<int>(e.run(e.b.binary(Opcode::subtract, u, v))),
            (std::vector<int>{14, 0, 15}));
  EXPECT_EQ(to_vector<int>(e.run(e.b.convert(x, u8))), (std::vector<int>{7, 248, 3}));
}

TEST(Elements, SmallFloatsRoundEachOperation) {
  Entry e;
  // 2049 is no f16; 2048 + 1 is a tie that goes to the even neighbour, 2050 + 1 goes up.
  Instruction* sum = e.b.binary(Opcode::add, e.floats(f16, {2048, 2050}), e.floats(f16, {1, 1}));
  EXPECT_EQ(to_vector<double>(e.run(sum)), (std::vector<double>{2048, 2052}));
  Instruction* again = e.b.binary(Opcode::add, sum, e.floats(f16, {1, 1}));
  EXPECT_EQ(to_vector<double>(e.run(again)), (std::vector<double>{2048, 2052}));
}

TEST(Elements, IntegersToFloatsRoundOnce) {
  Entry e;
  // Just above the middle between two neighbours, by less than a double can tell.
  const std::int64_t to_f32 = (std::int64_t(1) << 62) + (std::int64_t(1) << 38) + 1;
  const std::int64_t to_bf16 = (std::int64_t(1) << 62) + (std::int64_t(1) << 54) + 1;
  EXPECT_EQ(to_vector<double>(e.run(e.b.convert(e.ints(s64, {to_f32, -to_f32}), f32))),
            (std::vector<double>{std::ldexp(1 + std::ldexp(1.0, -23), 62),
                                 -std::ldexp(1 + std::ldexp(1.0, -23), 62)}));
  EXPECT_EQ(to_vector<double>(e.run(e.b.convert(e.ints(s64, {to_bf16}), bf16))),
            (std::vector<double>{std::ldexp(1 + std::ldexp(1.0, -7), 62)}));
}

TEST(Elements, NegateKeepsANaNsPayload) {
  Entry e;
  Literal nan(Shape(u32, {1}));
  nan.mutable_data<std::uint32_t>()[0] = 0x7f812345u;
  Instruction* x = e.b.emit_shaped(Opcode::bitcast_convert, Shape(f32, {1}), {e.b.constant(nan)});
  const Literal r = e.run(
      e.b.emit_shaped(Opcode::bitcast_convert, Shape(u32, {1}), {e.b.unary(Opcode::negate, x)}));
  EXPECT_EQ(r.data<std::uint32_t>()[0], 0xff812345u);
}

Literal codes(DType t, const std::vector<int>& v) {
  Literal out(Shape(t, {std::int64_t(v.size())}));
  for (std::size_t i = 0; i < v.size(); ++i) out.mutable_bytes()[i] = std::byte(v[i]);
  return out;
}

TEST(Elements, NarrowFloatsHaveTheirSignWhereTheyEnd) {
  for (const DType t : {DType::f4e2m1fn, DType::f6e2m3fn, DType::f6e3m2fn}) {
    SCOPED_TRACE(name(t));
    const int sign = t == DType::f4e2m1fn ? 8 : 32;
    // From the least number to -0, 0 and the greatest.
    std::vector<int> order;
    for (int n = sign; n-- > 0;) order.push_back(n | sign);
    for (int n = 0; n < sign; ++n) order.push_back(n);
    const std::vector<int> lower(order.begin(), order.end() - 1),
        upper(order.begin() + 1, order.end());
    Entry e;
    Instruction* x = e.b.constant(codes(t, lower));
    Instruction* y = e.b.constant(codes(t, upper));
    const auto less = [&](Instruction* a, Instruction* b) {
      return to_vector<int>(
          e.run(e.b.compare(ir::Direction::lt, a, b, ir::ComparisonType::total_order)));
    };
    EXPECT_EQ(less(x, y), std::vector<int>(lower.size(), 1));
    EXPECT_EQ(less(y, x), std::vector<int>(lower.size(), 0));
    std::vector<int> negated;
    for (const int code : lower) negated.push_back(code ^ sign);
    EXPECT_EQ(e.run(e.b.unary(Opcode::negate, x)), codes(t, negated));
  }
}

TEST(Elements, BitsOfSixAreCutAnew) {
  Entry e;
  Instruction* x = e.b.constant(codes(DType::f6e2m3fn, {0x3f, 0x24, 0x01}));
  EXPECT_EQ(e.run(e.b.emit_shaped(Opcode::bitcast_convert, Shape(DType::f6e3m2fn, {3}), {x})),
            codes(DType::f6e3m2fn, {0x3f, 0x24, 0x01}));
  Instruction* parts = e.b.emit_shaped(Opcode::bitcast_convert, Shape(DType::u2, {3, 3}), {x});
  EXPECT_EQ(to_vector<int>(e.run(parts)), (std::vector<int>{3, 3, 3, 0, 1, 2, 1, 0, 0}));
  EXPECT_EQ(e.run(e.b.emit_shaped(Opcode::bitcast_convert, Shape(DType::f6e2m3fn, {3}), {parts})),
            codes(DType::f6e2m3fn, {0x3f, 0x24, 0x01}));
}

/// (a, b) -> a > b ? a - b : a + b, with a branch: no plain list of scalar operations.
ir::Computation* branching_reducer(ir::Module& module) {
  const Shape scalar(s32, {}), pair = Shape::tuple({scalar, scalar});
  std::vector<ir::Computation*> branches;
  for (Opcode op : {Opcode::subtract, Opcode::add}) {
    branches.push_back(module.add_computation("branch"));
    Builder b(branches.back());
    Instruction* p = b.parameter(0, pair);
    branches.back()->set_root(b.binary(op, b.get_tuple_element(p, 0), b.get_tuple_element(p, 1)));
  }
  ir::Computation* c = module.add_computation("reducer");
  Builder b(c);
  Instruction* x = b.parameter(0, scalar);
  Instruction* y = b.parameter(1, scalar);
  Instruction* both = b.tuple({x, y});
  c->set_root(b.conditional(b.compare(ir::Direction::gt, x, y), {both, both}, branches));
  return c;
}

TEST(Reducers, MayContainAnyInstructions) {
  Entry e;
  ir::Computation* c = branching_reducer(e.module);
  Instruction* x = e.b.reshape(e.ints(s32, {1, 5, 2, 4, 3, 9}), {2, 3});
  // Column by column: 0,1,4 -> 0+1=1, 1+4=5; 0,5,3 -> 5, 5-3=2; 0,2,9 -> 2, 2+9=11.
  EXPECT_EQ(to_vector<int>(e.run(e.b.reduce(x, e.b.scalar(s32, 0), {0}, c))),
            (std::vector<int>{5, 2, 11}));
}

TEST(Reducers, SumsDoNotDependOnTheOrder) {
  Entry e;
  ir::Computation* add = ir::scalar_computation(&e.module, Opcode::add, f32);
  Instruction* x = e.floats(f32, {1e8, 1, -1e8, 1});
  EXPECT_EQ(to_scalar<float>(e.run(e.b.reduce(x, e.b.scalar(f32, 0), {0}, add))), 2.0f);
}

TEST(Reducers, EmptyDimsGiveTheInitialValue) {
  Entry e;
  ir::Computation* add = ir::scalar_computation(&e.module, Opcode::add, s32);
  Instruction* x = e.b.constant(Literal(Shape(s32, {0, 2})));
  EXPECT_EQ(to_vector<int>(e.run(e.b.reduce(x, e.b.scalar(s32, 7), {0}, add))),
            (std::vector<int>{7, 7}));
}

TEST(Fft, InverseRestoresLongRows) {
  for (std::int64_t n : {1024, 1000, 997}) {
    Entry e;
    std::vector<std::complex<double>> v;
    for (std::int64_t i = 0; i < n; ++i) {
      v.emplace_back(double(i * 7 % 31) - 15, double(i * 5 % 17) - 8);
    }
    Instruction* x = e.b.constant(make_literal(c128, {n}, v));
    Instruction* there = e.b.fft(x, ir::FftType::fft, {n});
    const auto back =
        to_vector<std::complex<double>>(e.run(e.b.fft(there, ir::FftType::ifft, {n})));
    for (std::size_t i = 0; i < v.size(); ++i) ASSERT_LT(std::abs(back[i] - v[i]), 1e-11) << i;
    // The element at 0 is the sum.
    std::complex<double> sum;
    for (const auto& z : v) sum += z;
    const auto freq = to_vector<std::complex<double>>(e.run(there));
    EXPECT_LT(std::abs(freq[0] - sum), 1e-9);
  }
}

TEST(CustomCalls, CustomPartitioningRunsItsPlainBody) {
  Entry e;
  const Shape shape(s32, {2});
  ir::Computation* body = e.module.add_computation("body");
  Builder b(body);
  Instruction* p = b.parameter(0, shape);
  body->set_root(b.tuple({b.binary(Opcode::multiply, p, p)}));
  Instruction* call = e.b.emit_shaped(Opcode::custom_partitioning, Shape::tuple({shape}),
                                      {e.ints(s32, {3, 4})}, ir::CustomPartitioningAttrs{}, {body});
  EXPECT_EQ(to_vector<int>(e.run(e.b.get_tuple_element(call, 0))), (std::vector<int>{9, 16}));
}

TEST(Interface, OneInstruction) {
  Entry e;
  Instruction* x = e.b.parameter(0, Shape(f32, {3}));
  Instruction* y = e.b.parameter(1, Shape(f32, {3}));
  Instruction* product = e.b.binary(Opcode::multiply, x, y);
  const std::vector<Literal> operands = {make_literal(f32, {3}, std::vector<double>{1, 2, 3}),
                                         make_literal(f32, {3}, std::vector<double>{4, 5, 6})};
  EXPECT_EQ(to_vector<double>(evaluator::evaluate_instruction(*product, operands)),
            (std::vector<double>{4, 10, 18}));
  EXPECT_THROW(evaluator::evaluate_instruction(*product, {}), ValueError);
}

TEST(Interface, ElidedConstantsHaveNoValue) {
  Entry e;
  ir::ConstantAttrs attrs;
  attrs.value = Literal(Shape(f32, {4}));
  attrs.elided = true;
  Instruction* c = e.b.emit_shaped(Opcode::constant, Shape(f32, {4}), {}, attrs);
  EXPECT_THROW(e.run(c), RuntimeError);
}

TEST(Interface, OperationsWithoutAMeaningSaySo) {
  Entry e;
  Instruction* token = e.b.emit_shaped(Opcode::after_all, Shape::token(), {}, {});
  Instruction* r =
      e.b.emit_shaped(Opcode::infeed, Shape::tuple({Shape(f32, {2}), Shape::token()}), {token}, {});
  try {
    e.run(r);
    FAIL();
  } catch (const NotImplementedError& error) {
    EXPECT_NE(std::string(error.what()).find("infeed"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
