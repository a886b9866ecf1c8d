// SPDX-License-Identifier: Apache-2.0
// Windows and running reductions by functions of several arrays, against the evaluator.
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

/// A reducer, the types of its arrays, and what leaves them as they are.
struct SomeReducer {
  ir::Computation* computation = nullptr;
  std::vector<DType> types;
  std::vector<double> identity;
};

SomeReducer make_reducer(ir::Module* module, std::int64_t kind) {
  SomeReducer out;
  out.computation = module->add_computation("reducer");
  ir::Builder b(out.computation);
  const auto parameters = [&](std::vector<DType> types, std::vector<double> identity) {
    out.types = std::move(types);
    out.identity = std::move(identity);
    std::vector<Instruction*> p;
    for (std::size_t k = 0; k < 2 * out.types.size(); ++k) {
      p.push_back(b.parameter(std::int64_t(k), Shape(out.types[k % out.types.size()], {})));
    }
    return p;
  };
  if (kind == 0) {  // maps x → a x + b, one after the other: their order matters
    const auto p = parameters({DType::u32, DType::u32}, {1, 0});
    Instruction* scaled = b.binary(Opcode::multiply, p[1], p[2]);
    b.tuple({b.binary(Opcode::multiply, p[0], p[2]), b.binary(Opcode::add, scaled, p[3])});
  } else if (kind == 1) {  // the largest, and where it is
    const auto p = parameters({DType::f32, DType::s32}, {-1e30, 1 << 20});
    Instruction* first = b.binary(Opcode::or_, b.compare(ir::Direction::gt, p[0], p[2]),
                                  b.binary(Opcode::and_, b.compare(ir::Direction::eq, p[0], p[2]),
                                           b.compare(ir::Direction::lt, p[1], p[3])));
    b.tuple({b.select(first, p[0], p[2]), b.select(first, p[1], p[3])});
  } else if (kind == 2) {  // log(exp(x) + exp(y))
    const auto p = parameters({DType::f32}, {-1e30});
    Instruction* apart = b.unary(Opcode::abs, b.binary(Opcode::subtract, p[0], p[1]));
    b.binary(Opcode::add, b.binary(Opcode::maximum, p[0], p[1]),
             b.unary(Opcode::log_plus_one,
                     b.unary(Opcode::exponential, b.unary(Opcode::negate, apart))));
  } else {  // the last that isn't 0
    const auto p = parameters({DType::s16}, {0});
    b.select(b.compare(ir::Direction::ne, p[1], b.zero(DType::s16)), p[1], p[0]);
  }
  out.computation->set_root(out.computation->instructions().back().get());
  return out;
}

void check_windows(std::uint64_t seed, Random& r, const Dims& dims, const ir::WindowAttrs& window) {
  Program p;
  const SomeReducer reducer = make_reducer(&p.module, r.below(4));
  std::vector<Instruction*> operands;
  for (const DType t : reducer.types) operands.push_back(p.argument(r.literal(t, dims)));
  for (std::size_t k = 0; k < reducer.types.size(); ++k) {
    operands.push_back(p.b.scalar(reducer.types[k], reducer.identity[k]));
  }
  p.check(p.b.emit(Opcode::reduce_window, operands, window, {reducer.computation}), seed, 100);
}

TEST(ReducerWindows, AreThoseOfTheEvaluator) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const Dims dims = r.dims(1 + r.below(3), r.chance(0.1) ? 30 : 6);
    ir::WindowAttrs window;
    window.dims.resize(dims.size());
    for (ir::WindowDim& w : window.dims) {
      if (r.chance(0.3)) continue;
      w.size = 1 + r.below(3);
      w.stride = 1 + r.below(2);
      w.lhs_dilation = 1 + r.below(2);
      w.rhs_dilation = 1 + r.below(2);
      w.pad_low = r.below(4);
      w.pad_high = 4;
    }
    check_windows(seed, r, dims, window);
  }
}

TEST(ReducerWindows, RunningReductionsAreThoseOfTheEvaluator) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    // Few long ones, many short ones, and some next to each other.
    const std::int64_t kind = r.below(4);
    Dims dims = kind == 0   ? Dims{1 + r.below(3), 20 + r.below(150)}
                : kind == 1 ? Dims{60 + r.below(300), 1 + r.below(20)}
                : kind == 2 ? Dims{1 + r.below(20), 60 + r.below(300)}
                            : r.dims(1 + r.below(3), 9);
    const std::size_t along = kind == 0 || kind == 1 ? 1
                              : kind == 2            ? 0
                                          : std::size_t(r.below(std::int64_t(dims.size())));
    ir::WindowAttrs window;
    window.dims.resize(dims.size());
    if (dims[along] > 0) {
      window.dims[along].size = dims[along];
      (r.chance(0.5) ? window.dims[along].pad_low : window.dims[along].pad_high) = dims[along] - 1;
    }
    check_windows(seed, r, dims, window);
  }
}

TEST(ReducerWindows, HaveKernels) {
  for (std::int64_t kind = 0; kind < 4; ++kind) {
    Program p;
    Random r(1);
    const SomeReducer reducer = make_reducer(&p.module, kind);
    std::vector<Instruction*> operands;
    for (const DType t : reducer.types) operands.push_back(p.argument(r.literal(t, {8, 30})));
    for (const DType t : reducer.types) operands.push_back(p.b.zero(t));
    ir::WindowAttrs window;
    window.dims.resize(2);
    window.dims[1].size = 3;
    p.entry->set_root(p.b.emit(Opcode::reduce_window, operands, window, {reducer.computation}));
    EXPECT_TRUE(codegen::plan_program(p.module).built.evaluator_ops.empty());
  }
}

}  // namespace
}  // namespace tessera::testing
