// SPDX-License-Identifier: Apache-2.0
// Scans become loops that give the same bits: in single cases, and at random.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/rewrite/while_view.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/control/expand_scans.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"

namespace tessera::passes {
namespace {

using ir::Builder;
using ir::Instruction;
using ir::Opcode;
using testing::Dice;

std::vector<const Instruction*> all_of(const ir::Module& module, Opcode op) {
  std::vector<const Instruction*> out;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (i->is(op)) out.push_back(i.get());
    }
  }
  return out;
}

/// The results before and after are equal, and no scan is left. Returns the expanded module.
std::unique_ptr<ir::Module> expanded(const ir::Module& module, const std::vector<Literal>& args) {
  ir::verify(module);
  const std::string text = ir::to_string(module);
  EXPECT_EQ(ir::to_string(*ir::parse_hlo(text)), text);
  std::unique_ptr<ir::Module> out = module.clone();
  const std::size_t scans = all_of(*out, Opcode::scan).size();
  EXPECT_EQ(testing::keeps_results(out.get(), args, expand_scans), scans) << text;
  EXPECT_TRUE(all_of(*out, Opcode::scan).empty());
  return out;
}

std::vector<Literal> arguments_of(Dice& dice, const ir::Module& module) {
  return testing::random_arguments(module, dice);
}

std::unique_ptr<ir::Module> expanded(const std::string& text) {
  Dice dice(1);
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  return expanded(*module, arguments_of(dice, *module));
}

TEST(ExpandScans, AScanIsReplacedByALoop) {
  const auto module = expanded(R"(HloModule m
step {
  s = f32[3] parameter(0)
  c = f32[3] parameter(1)
  k = f32[3] parameter(2)
  d = f32[3] add(c, s)
  y = f32[3] multiply(d, k)
  ROOT t = (f32[3], f32[3]) tuple(y, d)
}
ENTRY e {
  x = f32[4,3] parameter(0)
  c = f32[3] parameter(1)
  k = f32[3] parameter(2)
  n = f32[3] negate(k)
  w = (f32[4,3], f32[3]) custom-call(x, c, n), custom_call_target="tessera.Scan",
    called_computations={step}, dimensions={0}, length=4, num_carries=1, num_constants=1,
    is_reverse=true
  ys = f32[4,3] get-tuple-element(w), index=0
  last = f32[3] get-tuple-element(w), index=1
  ROOT t = (f32[4,3], f32[3]) tuple(ys, last)
})");
  EXPECT_EQ(
      ir::to_string(*module),
      R"(HloModule m, entry_computation_layout={(f32[4,3]{1,0}, f32[3]{0}, f32[3]{0})->(f32[4,3]{1,0}, f32[3]{0})}

step.cond {
  parameter = (s32[], f32[3]{0}, f32[4,3]{1,0}, f32[4,3]{1,0}, f32[3]{0}) parameter(0)
  get-tuple-element = s32[] get-tuple-element(parameter), index=0
  constant = s32[] constant(4)
  ROOT compare = pred[] compare(get-tuple-element, constant), direction=LT
}

step.body {
  parameter = (s32[], f32[3]{0}, f32[4,3]{1,0}, f32[4,3]{1,0}, f32[3]{0}) parameter(0)
  get-tuple-element = s32[] get-tuple-element(parameter), index=0
  get-tuple-element.1 = f32[3]{0} get-tuple-element(parameter), index=1
  get-tuple-element.2 = f32[4,3]{1,0} get-tuple-element(parameter), index=2
  get-tuple-element.3 = f32[4,3]{1,0} get-tuple-element(parameter), index=3
  get-tuple-element.4 = f32[3]{0} get-tuple-element(parameter), index=4
  constant = s32[] constant(3)
  subtract = s32[] subtract(constant, get-tuple-element)
  constant.1 = s32[] constant(0)
  dynamic-slice = f32[1,3]{1,0} dynamic-slice(get-tuple-element.3, subtract, constant.1), dynamic_slice_sizes={1,3}
  reshape = f32[3]{0} reshape(dynamic-slice)
  d = f32[3]{0} add(get-tuple-element.1, reshape)
  y = f32[3]{0} multiply(d, get-tuple-element.4)
  constant.2 = s32[] constant(1)
  add = s32[] add(get-tuple-element, constant.2)
  constant.3 = s32[] constant(0)
  reshape.1 = f32[1,3]{1,0} reshape(y)
  dynamic-update-slice = f32[4,3]{1,0} dynamic-update-slice(get-tuple-element.2, reshape.1, subtract, constant.3)
  ROOT tuple = (s32[], f32[3]{0}, f32[4,3]{1,0}, f32[4,3]{1,0}, f32[3]{0}) tuple(add, d, dynamic-update-slice, get-tuple-element.3, get-tuple-element.4)
}

ENTRY e {
  x = f32[4,3]{1,0} parameter(0)
  c = f32[3]{0} parameter(1)
  k = f32[3]{0} parameter(2)
  n = f32[3]{0} negate(k)
  constant = s32[] constant(0)
  constant.1 = f32[] constant(0)
  broadcast = f32[4,3]{1,0} broadcast(constant.1), dimensions={}
  tuple = (s32[], f32[3]{0}, f32[4,3]{1,0}, f32[4,3]{1,0}, f32[3]{0}) tuple(constant, c, broadcast, x, n)
  while = (s32[], f32[3]{0}, f32[4,3]{1,0}, f32[4,3]{1,0}, f32[3]{0}) while(tuple), condition=step.cond, body=step.body, backend_config={"known_trip_count":{"n":"4"}}
  ys = f32[4,3]{1,0} get-tuple-element(while), index=2
  last = f32[3]{0} get-tuple-element(while), index=1
  ROOT t = (f32[4,3]{1,0}, f32[3]{0}) tuple(ys, last)
}
)");
}

TEST(ExpandScans, ACarryThatCountsTripsBecomesTheLoopCounter) {
  const auto text = [](const std::string& type, const std::string& start, int length) {
    const std::string state = "(" + type + ", f32[2])";
    return "HloModule m\nstep {\n  i = " + type + " parameter(0)\n  v = f32[2] parameter(1)\n" +
           "  one = " + type + " constant(1)\n  more = " + type + " add(i, one)\n" +
           "  s = f32[] convert(i)\n  b = f32[2] broadcast(s), dimensions={}\n" +
           "  w = f32[2] add(v, b)\n  ROOT t = " + state + " tuple(more, w)\n}\n" +
           "ENTRY e {\n  v = f32[2] parameter(0)\n  i = " + type + " " + start +
           "\n  ROOT r = " + state + " custom-call(i, v), custom_call_target=\"tessera.Scan\", " +
           "called_computations={step}, dimensions={0}, length=" + std::to_string(length) +
           ", num_carries=2, num_constants=0, is_reverse=false\n}\n";
  };
  const auto carried = [](const ir::Module& module) {
    const auto loops = all_of(module, Opcode::while_);
    EXPECT_EQ(loops.size(), 1u);
    return loops.empty() ? 0 : loops[0]->shape.elements.size();
  };
  const auto plain = expanded(text("s32[]", "constant(3)", 5));
  EXPECT_EQ(carried(*plain), 2u);
  const ir::WhileView loop(*all_of(*plain, Opcode::while_)[0]);
  ASSERT_TRUE(loop.counter());
  EXPECT_EQ(loop.counter()->start, 3);
  EXPECT_EQ(loop.counter()->trips, 5);
  EXPECT_EQ(carried(*expanded(text("u8[]", "constant(250)", 5))), 2u);
  // It would wrap around before the last trip.
  EXPECT_EQ(carried(*expanded(text("u8[]", "constant(250)", 10))), 3u);
  EXPECT_EQ(carried(*expanded(text("s8[]", "constant(-128)", 256))), 3u);
  // Nobody knows where it starts.
  EXPECT_EQ(carried(*expanded(text("s32[]", "parameter(1)", 5))), 3u);
}

TEST(ExpandScans, AScanWithoutStepsMakesNoLoop) {
  const auto module = expanded(R"(HloModule m
step { s = f32[] parameter(0) c = f32[2] parameter(1) d = f32[2] negate(c)
  z = s32[] constant(7) ROOT t = (f32[], s32[], f32[2]) tuple(s, z, d) }
ENTRY e { x = f32[0] parameter(0) c = f32[2] parameter(1)
  ROOT r = (f32[0], s32[0], f32[2]) scan(x, c), dimensions={0}, num_carries=1, to_apply=step })");
  EXPECT_TRUE(all_of(*module, Opcode::while_).empty());
}

/// A scan of `length` steps that stacks one output; with a carry that nobody slices by.
std::unique_ptr<ir::Module> unrolled(std::int64_t length, std::int64_t unroll, bool reverse) {
  const std::string n = std::to_string(length);
  return expanded(
      "HloModule m\nstep {\n  x = s32[2] parameter(0)\n  c = s32[2] parameter(1)\n"
      "  k = s32[2] parameter(2)\n  m = s32[2] multiply(c, k)\n"
      "  d = s32[2] add(m, x)\n  y = s32[2] subtract(d, c)\n"
      "  ROOT t = (s32[2], s32[2]) tuple(y, d)\n}\nENTRY e {\n  xs = s32[" +
      n + ",2] parameter(0)\n  c = s32[2] parameter(1)\n  k = s32[2] parameter(2)\n" +
      "  ROOT r = (s32[" + n + ",2], s32[2]) custom-call(xs, c, k), " +
      "custom_call_target=\"tessera.Scan\", called_computations={step}, " +
      "dimensions={0}, length=" + n + ", num_carries=1, num_constants=1, " + "is_reverse=" +
      (reverse ? "true" : "false") + ", unroll=" + std::to_string(unroll) + "\n}\n");
}

TEST(ExpandScans, UnrolledOnesAreTheSame) {
  for (const bool reverse : {false, true}) {
    for (const std::int64_t length : {1, 2, 6, 7}) {
      for (const std::int64_t unroll : {1, 2, 3, 6, 7, 100}) {
        SCOPED_TRACE(std::to_string(length) + " steps by " + std::to_string(unroll));
        const auto module = unrolled(length, unroll, reverse);
        const auto loops = all_of(*module, Opcode::while_);
        if (unroll > 1 && unroll >= length) {
          EXPECT_TRUE(loops.empty());
          EXPECT_EQ(all_of(*module, Opcode::multiply).size(), std::size_t(length));
          continue;
        }
        ASSERT_EQ(loops.size(), 1u);
        EXPECT_EQ(ir::WhileView(*loops[0]).trips(), length / unroll);
        const auto counter = ir::WhileView(*loops[0]).counter();
        ASSERT_TRUE(counter);
        EXPECT_EQ(counter->trips, length / unroll);
        EXPECT_EQ(counter->step, unroll);
        // Those of a trip, and those that follow the loop.
        EXPECT_EQ(all_of(*module, Opcode::multiply).size(), std::size_t(unroll + length % unroll));
      }
    }
  }
}

TEST(ExpandScans, ACounterOfItsOwnCountsUnrolledSteps) {
  const auto text = [](int length, int unroll) {
    return "HloModule m\nstep {\n  i = s32[] parameter(0)\n  v = s32[2] parameter(1)\n"
           "  one = s32[] constant(1)\n  more = s32[] add(i, one)\n"
           "  b = s32[2] broadcast(i), dimensions={}\n  two = s32[2] add(v, v)\n"
           "  w = s32[2] add(two, b)\n  ROOT t = (s32[], s32[2]) tuple(more, w)\n}\n"
           "ENTRY e {\n  v = s32[2] parameter(0)\n  i = s32[] constant(3)\n"
           "  ROOT r = (s32[], s32[2]) custom-call(i, v), custom_call_target=\"tessera.Scan\", "
           "called_computations={step}, dimensions={0}, length=" +
           std::to_string(length) + ", num_carries=2, unroll=" + std::to_string(unroll) + "\n}\n";
  };
  for (const auto& [length, unroll] : {std::pair{6, 2}, {6, 4}, {7, 3}, {5, 4}}) {
    SCOPED_TRACE(std::to_string(length) + " steps by " + std::to_string(unroll));
    const auto module = expanded(text(length, unroll));
    const auto loops = all_of(*module, Opcode::while_);
    ASSERT_EQ(loops.size(), 1u);
    EXPECT_EQ(loops[0]->shape.elements.size(), 2u);
    const auto counter = ir::WhileView(*loops[0]).counter();
    ASSERT_TRUE(counter);
    EXPECT_EQ(counter->start, 3);
    EXPECT_EQ(counter->step, unroll);
    EXPECT_EQ(counter->trips, length / unroll);
  }
  EXPECT_TRUE(all_of(*expanded(text(4, 4)), Opcode::while_).empty());
}

TEST(ExpandScans, UnrollingHasItsBounds) {
  const auto module = ir::parse_hlo(
      "HloModule m\nstep { c = s32[2] parameter(0) d = s32[2] negate(c)\n"
      "ROOT t = (s32[2]) tuple(d) }\nENTRY e { c = s32[2] parameter(0)\n"
      "ROOT r = (s32[2]) custom-call(c), custom_call_target=\"tessera.Scan\", dimensions={0}, "
      "length=1000000000, num_carries=1, unroll=1000000000, called_computations={step} }",
      "m.hlo");
  try {
    expand_scans(module.get());
    FAIL() << "nothing was thrown";
  } catch (const CompileError& e) {
    EXPECT_NE(
        e.message().find("unrolls 1000000000 steps of 3 instructions each; valid are 1000000"),
        std::string::npos)
        << e.message();
  }
}

/// A random scan over values of a computation; its step may have another one.
class RandomScan {
 public:
  RandomScan(Dice& dice, ir::Module* module) : dice_(dice), module_(module) {}

  Instruction* in(Builder& b, const std::vector<Instruction*>& values, int depth) {
    ir::ScanAttrs a;
    a.reverse = dice_.chance(0.5);
    if (dice_.chance(0.5)) a.unroll = dice_.between(1, 5);
    a.length = dice_.below(4);
    std::vector<Instruction*> operands;
    const Instruction* first = dice_.pick(values);
    if (first->shape.rank() > 0 && dice_.chance(0.8)) {
      a.dim = dice_.below(first->shape.rank());
      a.length = first->shape.dim(a.dim);
      for (Instruction* v : values) {
        const bool fits = v->shape.rank() > a.dim && v->shape.dim(a.dim) == a.length;
        if (v == first || (fits && dice_.chance(0.3))) operands.push_back(v);
      }
    }
    const std::size_t inputs = operands.size();
    a.carries = dice_.below(4);
    a.constants = dice_.below(3);
    for (std::int64_t k = 0; k < a.carries + a.constants; ++k) {
      operands.push_back(dice_.pick(values));
    }
    return b.emit(Opcode::scan, operands, a, {step(operands, inputs, a, depth)});
  }

  std::vector<Instruction*> results(Builder& b, Instruction* scan) {
    std::vector<Instruction*> out;
    for (std::size_t k = 0; k < scan->shape.elements.size(); ++k) {
      out.push_back(b.get_tuple_element(scan, std::int64_t(k)));
    }
    return out;
  }

 private:
  ir::Computation* step(const std::vector<Instruction*>& operands, std::size_t inputs,
                        const ir::ScanAttrs& a, int depth) {
    Builder b(module_->add_computation("step"));
    std::vector<Instruction*> pool;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      Shape shape(operands[k]->shape.dtype, operands[k]->shape.dims);
      if (k < inputs) shape.dims.erase(shape.dims.begin() + std::ptrdiff_t(a.dim));
      pool.push_back(b.parameter(std::int64_t(k), shape));
    }
    pool.push_back(b.constant(testing::random_literal(dice_, DType::s32, {3}, true)));
    for (std::int64_t n = dice_.between(1, 5); n > 0; --n) pool.push_back(made(b, pool));
    if (depth > 0 && dice_.chance(0.5)) {
      for (Instruction* i : results(b, in(b, pool, depth - 1))) pool.push_back(i);
    }
    std::vector<Instruction*> next;
    for (std::int64_t n = dice_.between(a.carries > 0 ? 0 : 1, 3); n > 0; --n) {
      Instruction* i = dice_.pick(pool);
      next.push_back(i->shape.rank() >= a.dim ? i : pool[operands.size()]);
      if (next.back()->shape.rank() < a.dim) next.pop_back();
    }
    if (next.empty() && a.carries == 0) {
      next.push_back(b.splat(b.scalar(DType::f32, 2), Dims(std::size_t(a.dim), 1)));
    }
    for (std::int64_t k = 0; k < a.carries; ++k) {
      next.push_back(like(pool, pool[inputs + std::size_t(k)]));
    }
    b.computation()->set_root(b.tuple(next));
    return b.computation();
  }

  Instruction* like(const std::vector<Instruction*>& pool, const Instruction* model) {
    std::vector<Instruction*> fitting;
    for (Instruction* i : pool) {
      if (i->shape == model->shape) fitting.push_back(i);
    }
    return dice_.pick(fitting);
  }

  Instruction* made(Builder& b, const std::vector<Instruction*>& pool) {
    Instruction* x = dice_.pick(pool);
    const Opcode op = dice_.pick(
        std::vector<Opcode>{Opcode::add, Opcode::subtract, Opcode::multiply, Opcode::maximum});
    return b.binary(op, x, like(pool, x));
  }

  Dice& dice_;
  ir::Module* module_;
};

TEST(ExpandScans, RandomScansAreTheSameLoops) {
  std::size_t nested = 0, loops = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    ir::Module module("random");
    Builder b(module.add_computation("main"));
    module.set_entry(b.computation());
    std::vector<Instruction*> values;
    for (const Shape& shape : {Shape(f32, {3}), Shape(f32, {4, 3}), Shape(s32, {3}), Shape(s32, {}),
                               Shape(f32, {2, 3, 3}), Shape(f32, {3, 0}), Shape(s32, {4, 3})}) {
      values.push_back(b.parameter(std::int64_t(values.size()), shape));
    }
    RandomScan random(dice, &module);
    Instruction* scan = random.in(b, values, 2);
    if (dice.chance(0.3)) {
      for (Instruction* i : random.results(b, scan)) values.push_back(i);
      scan = random.in(b, values, 1);
    }
    const bool whole = dice.chance(0.3);
    b.computation()->set_root(whole ? scan : b.tuple(random.results(b, scan)));
    module.remove_dead_computations();
    nested += all_of(module, Opcode::scan).size() - 1;
    const auto out = expanded(module, arguments_of(dice, module));
    loops += all_of(*out, Opcode::while_).size();
    if (HasFailure()) break;
  }
  EXPECT_GE(nested, 200u);
  EXPECT_GE(loops, 200u);
}

}  // namespace
}  // namespace tessera::passes
