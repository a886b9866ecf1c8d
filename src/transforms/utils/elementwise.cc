// SPDX-License-Identifier: Apache-2.0
// Scalar computations, as reducers and maps call them, on whole arrays.
#include "src/transforms/utils/elementwise.h"

#include "src/ir/rewrite/on_arrays.h"
#include "src/transforms/utils/tangent.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

[[noreturn]] void refuse(const Computation& c, const Instruction& i) {
  throw NotImplementedError("can't apply " + c.name() + " to whole arrays: it has " + i.describe() +
                                ", which is not elementwise",
                            i.location());
}

}  // namespace

std::vector<Instruction*> apply_to_arrays(ir::Builder& b, const Computation& scalar,
                                          std::span<Instruction* const> arrays) {
  if (const Instruction* i = ir::not_on_arrays(scalar)) refuse(scalar, *i);
  return ir::on_arrays(b, scalar, arrays);
}

std::vector<Instruction*> reduce_by_halves(ir::Builder& b, const Computation& reducer,
                                           std::vector<Instruction*> arrays,
                                           std::span<Instruction* const> init) {
  const auto part = [&](Instruction* x, std::int64_t from, std::int64_t to) {
    Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
    starts[0] = from;
    limits[0] = to;
    return b.slice(x, starts, limits);
  };
  const auto without_lead = [&](Instruction* x) {
    return b.reshape(x, Dims(x->shape.dims.begin() + 1, x->shape.dims.end()));
  };
  std::vector<Instruction*> total;  // init and what was left over
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    const Dims& dims = arrays[k]->shape.dims;
    total.push_back(b.splat(init[k], Dims(dims.begin() + 1, dims.end())));
  }
  const auto combine = [&](std::vector<Instruction*> left, const std::vector<Instruction*>& right) {
    left.insert(left.end(), right.begin(), right.end());
    return apply_to_arrays(b, reducer, left);
  };
  std::int64_t n = arrays[0]->shape.dims[0];
  while (n > 0) {
    if (n % 2 == 1) {
      std::vector<Instruction*> last;
      for (Instruction* x : arrays) last.push_back(without_lead(part(x, n - 1, n)));
      total = combine(total, last);
      if (--n == 0) break;
    }
    std::vector<Instruction*> left, right;
    for (Instruction* x : arrays) {
      left.push_back(part(x, 0, n / 2));
      right.push_back(part(x, n / 2, n));
    }
    arrays = combine(left, right);
    n /= 2;
  }
  return total;
}

}  // namespace tessera::transforms
