// SPDX-License-Identifier: Apache-2.0
// Per-device code on whole arrays where it is written for parts.
#include "src/ir/rewrite/builder.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::manual {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Whether this device is the first one along the axes.
Instruction* is_first(ir::Builder& b, const LogicalMesh& mesh, const IndexList& axes) {
  const std::int64_t devices = mesh.num_devices();
  Literal table(Shape(DType::pred, {devices}));
  const auto first = table.mutable_data<Pred>();
  for (std::int64_t device = 0; device < devices; ++device) {
    bool all = true;
    for (const int a : axes) all = all && mesh.coordinate(device, a) == 0;
    first[std::size_t(device)] = Pred(all);
  }
  Instruction* here = b.dynamic_slice(b.constant(std::move(table)), {b.partition_id()}, {1});
  return b.reshape(here, {});
}

/// What the other devices add is nothing.
void make_parts(ir::Builder& b, Instruction* parameter, const TensorSharding& s) {
  // What only compares needs no mask.
  if (s.reduction != Reduction::sum) return;
  const Dims& dims = parameter->shape.dims;
  Instruction* others =
      b.splat(b.constant(ir::neutral_of(Opcode::add, parameter->shape.dtype)), dims);
  Instruction* part = b.select(b.splat(is_first(b, *s.mesh, s.unreduced), dims), parameter, others);
  parameter->replace_all_uses_with(part);
  part->set_operand(1, parameter);
}

Instruction* joined(ir::Builder& b, Instruction* part, const TensorSharding& s) {
  const Opcode op = opcode_of(s.reduction);
  return b.all_reduce(part, ir::scalar_computation(b.module(), op, part->shape.dtype),
                      ir::DeviceGroups::over(s.mesh, s.unreduced));
}

}  // namespace

void take_whole_arrays(Instruction* call) {
  ir::Computation* body = call->called().at(0);
  ir::Builder b(body);
  b.metadata = call->metadata;
  for (std::size_t k = 0; k < call->operands().size(); ++k) {
    Instruction* given = call->operand(k);
    if (given->sharding.size() != 1 || given->sharding[0].unreduced.empty()) continue;
    make_parts(b, body->parameter(k), given->sharding[0]);
    given->sharding[0] = reduced(given->sharding[0]);
  }
  Instruction* root = body->root();
  const bool is_tuple = root->shape.is_tuple;
  const std::size_t count = is_tuple ? root->shape.elements.size() : 1;
  bool any = false;
  std::vector<Instruction*> results;
  for (std::size_t k = 0; k < count; ++k) {
    Instruction* x = is_tuple ? b.get_tuple_element(root, std::int64_t(k)) : root;
    if (k < call->sharding.size() && !call->sharding[k].unreduced.empty()) {
      any = true;
      x = joined(b, x, call->sharding[k]);
      call->sharding[k] = reduced(call->sharding[k]);
    }
    results.push_back(x);
  }
  if (any) body->set_root(is_tuple ? b.tuple(results) : results[0]);
  body->remove_dead();
  body->sort_topologically();
}

}  // namespace tessera::spmd::manual
