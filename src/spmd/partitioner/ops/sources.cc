// SPDX-License-Identifier: Apache-2.0
// Constants, iotas, random numbers of a device's own generator; bits of floats.
#include <cstring>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

/// A source that each layout has a copy of.
void place_source(PartitionContext& p, const ir::Instruction& source) {
  p.values.define(source, p.values.make_recomputable(
                              [&p, &source](const TensorSharding&) {
                                const ShardBuilder::OpScope scope(p.emit, source);
                                return p.emit.local_op(source, {}, source.shape);
                              },
                              reduced(p.source.sharding(source)), source.shape));
}

}  // namespace

void place_constant(PartitionContext& p, const ir::Instruction& source) {
  if (source.shape.is_tuple) return place(p, source, plan_replicated(p, source));
  if (!source.get<ir::ConstantAttrs>().elided) return place_source(p, source);
  place(p, source, plan_at_boundary(p, source));
}

void place_iota(PartitionContext& p, const ir::Instruction& source) { place_source(p, source); }

void partition_constant(PartitionContext& p, const ir::Instruction& source) {
  if (source.shape.is_tuple) return replicate(p, source, "a constant tuple");
  const auto& attrs = source.get<ir::ConstantAttrs>();
  const TensorSharding& layout = p.source.sharding(source);
  const Literal& l = attrs.value;
  if (attrs.elided) {
    if (!is_fully_replicated(layout)) {
      throw CompileError("the elements of constant " + source.name +
                             " were left out of the text ({...}), so that it can't be cut up by " +
                             layout.to_spec_string(),
                         source.location());
    }
    return p.values.define(source, p.emit.local_op(source, {}, source.shape), {layout});
  }
  const ir::Instruction& origin = *p.module.log().origin_of(&source);
  if (source.shape.rank() > 0 && is_splat(l)) {
    const Literal one(Shape(l.dtype(), {}), std::span(l.bytes(), byte_size(l.dtype())));
    ir::Instruction* x =
        p.b().splat(p.emit.constant_of(origin, one), layout.shard_dims(source.shape.dims));
    return p.values.define(source, x, {layout});
  }
  Value* full = p.values.make(p.emit.constant_of(origin, l),
                              p.source.replicated(source.shape.rank()), source.shape);
  p.values.define(source, p.values.reshard(full, layout, "constant"));
}

void partition_iota(PartitionContext& p, const ir::Instruction& source) {
  const std::int64_t dim = source.get<ir::IotaAttrs>().dim;
  const TensorSharding& layout = p.source.sharding(source);
  const Shape local = local_shape(source.shape, layout);
  ir::Builder& b = p.b();
  if (layout.shards(dim) == 1) return p.values.define(source, b.iota(local, dim), {layout});
  // Sums are exact in integers only, so that others are converted at the end.
  const bool wide = is_integer(local.dtype) && byte_size(local.dtype) >= 4;
  const DType exact = wide ? local.dtype : s32;
  ir::Instruction* x = b.iota(Shape(exact, local.dims), dim);
  ir::Instruction* offset =
      b.convert(p.emit.shard_offset(layout, dim, source.shape.dim(dim)), exact);
  x = b.binary(ir::Opcode::add, x, b.splat(offset, local.dims));
  p.values.define(source, b.convert(x, local.dtype), {layout});
}

void partition_rng(PartitionContext& p, const ir::Instruction& source) {
  // Generators differ between devices: the first device's numbers go to all.
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    Value* v = p.values.declared(*source.operand(i));
    operands.push_back(
        p.values.reshard(v, p.source.replicated(v->shape.rank()), operand_reason(source, i))
            ->local);
  }
  ir::Instruction* bits = as_bits(p.b(), p.emit.local_op(source, operands, source.shape));
  Value* v = p.values.make(bits, p.source.replicated(source.shape.rank()), bits->shape);
  TensorSharding partial = v->sharding;
  for (int a = 0; a < int(p.module.mesh()->axes.size()); ++a) {
    const IndexList& manual = p.source.manual_axes();
    if (!contains(manual, a)) partial.unreduced.push_back(a);
  }
  v = p.values.reshard(v, partial, "random numbers of the first device");
  define_sum_of_bits(p, source, v->local, partial, reduced(p.source.sharding(source)));
}

}  // namespace tessera::spmd
