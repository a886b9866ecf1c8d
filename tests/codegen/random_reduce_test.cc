// SPDX-License-Identifier: Apache-2.0
// Compiled reductions of what is made where it is read: also of few columns and of short rows,
// which are read in another order than they stand.
#include <gtest/gtest.h>

#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

TEST(RandomReduce, FewColumnsAndShortRows) {
  constexpr std::uint64_t kPrograms = 200;
  const std::vector<std::int64_t> few = {1, 2, 3, 5, 8, 15, 16, 20, 31, 33, 49, 70};
  const std::vector<Opcode> ops = {Opcode::add, Opcode::maximum, Opcode::minimum};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const std::vector<DType> types = {DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16};
    const DType t = r.pick(types);
    Dims dims;
    for (int d = 0; d < 3; ++d) dims.push_back(r.pick(few));
    if (r.chance(0.3)) dims[0] = 1;
    Program p;
    Instruction* x = p.argument(r.literal(t, dims));
    // Something of fewer dims, and numbers along one of them.
    Dims some, sizes;
    for (std::int64_t d = 0; d < 3; ++d) {
      if (!r.chance(0.6)) continue;
      some.push_back(d);
      sizes.push_back(dims[std::size_t(d)]);
    }
    Instruction* y = p.b.broadcast(p.argument(r.literal(t, sizes)), dims, some);
    x = p.b.binary(Opcode::multiply, p.b.unary(Opcode::tanh, x), y);
    if (r.chance(0.3)) {
      x = p.b.binary(Opcode::add, x, p.b.iota(Shape(t, dims), r.below(3)));
    }
    Instruction* init = p.argument(r.literal(t, {}));
    const Dims which = r.chance(0.8) ? Dims{1} : r.chance(0.5) ? Dims{0} : Dims{2};
    p.check(p.b.reduce(x, init, which, ir::scalar_computation(&p.module, r.pick(ops), t)), seed,
            100);
  }
}

}  // namespace
}  // namespace tessera::testing
