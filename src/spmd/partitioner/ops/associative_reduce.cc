// SPDX-License-Identifier: Apache-2.0
// Reducers of any kind: on elements of which some are not there, and the last step of a reduction
// whose parts are on several devices.
#include <algorithm>

#include "src/base/check.h"
#include "src/ir/rewrite/on_arrays.h"
#include "src/spmd/partitioner/ops/ordered.h"

namespace tessera::spmd {

ir::Computation* flagged(PartitionContext& p, const ir::Instruction& source) {
  ir::Computation* reducer = p.emit.import_called(source).front();
  ir::Module* module = p.module.target();
  const std::size_t count = reducer->parameters().size() / 2;
  ir::Builder b(module->add_computation(reducer->name() + "_of_present"));
  std::vector<ir::Instruction*> sides[2], operands;
  ir::Instruction* present[2];
  std::int64_t number = 0;
  for (int side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < count; ++i) {
      const Shape& shape = reducer->parameter(std::size_t(side) * count + i)->shape;
      sides[side].push_back(b.parameter(number++, shape));
    }
    present[side] = b.parameter(number++, Shape(DType::pred, {}));
    operands.insert(operands.end(), sides[side].begin(), sides[side].end());
  }
  ir::Instruction* joined = b.call(reducer, operands);
  ir::Instruction* both = b.binary(ir::Opcode::and_, present[0], present[1]);
  std::vector<ir::Instruction*> out;
  for (std::size_t i = 0; i < count; ++i) {
    ir::Instruction* x =
        joined->shape.is_tuple ? b.get_tuple_element(joined, std::int64_t(i)) : joined;
    out.push_back(b.select(both, x, b.select(present[0], sides[0][i], sides[1][i])));
  }
  out.push_back(b.binary(ir::Opcode::or_, present[0], present[1]));
  b.computation()->set_root(b.tuple(out));
  return b.computation();
}

std::vector<Value*> reduce_parts(PartitionContext& p, const ir::Instruction& source,
                                 const std::vector<ir::Instruction*>& partial,
                                 const std::vector<TensorSharding>& layout, const IndexList& axes,
                                 const PartReducer& reduce) {
  const std::int64_t k = p.emit.ways(axes);
  const std::vector<Shape> results = flatten(source.shape);
  FactorRule rule;
  rule.factors.push_back({k, FactorKind::need_replication});
  TensorFactors operand{{0}}, result;
  for (std::int64_t d = 0; d < results.front().rank(); ++d) {
    rule.factors.push_back({results.front().dim(d)});
    operand.push_back({int(d) + 1});
    result.push_back({int(d) + 1});
  }
  std::vector<Shape> shapes;
  std::vector<TensorSharding> shardings;
  double work = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    rule.operands.push_back(operand);
    rule.results.push_back(result);
    shapes.push_back(results[i]);
    shapes.back().dims.insert(shapes.back().dims.begin(), k);
    shardings.push_back(reduced(layout[i]));
    shardings.back().dims.insert(shardings.back().dims.begin(), DimSharding{});
    shardings.back().dims.front().axes = axes;
    work = double(shapes.back().element_count());
  }
  const ComputeLayout last =
      p.module.choose_layout({rule, shapes, shardings, results, p.source.shardings(source), work});
  std::vector<ir::Instruction*> parts;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Dims dims = partial[i]->shape.dims;
    dims.insert(dims.begin(), 1);
    Value* own = p.values.make(p.b().reshape(partial[i], dims), shardings[i], shapes[i]);
    parts.push_back(
        p.values.reshard(own, last.operands[i], "partial results of " + op_label(source))->local);
  }
  return p.values.make(p.emit.unpack(reduce(parts, local_tuple(source.shape, last.results))),
                       last.results, results);
}

}  // namespace tessera::spmd
