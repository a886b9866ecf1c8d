// SPDX-License-Identifier: Apache-2.0
// Constants, iotas, random numbers of a device's own generator; bits of floats.
#include <cstring>

#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

bool is_splat(const Literal& l) {
  const std::size_t width = byte_size(l.dtype());
  const std::byte* first = l.bytes();
  for (std::int64_t i = 1; i < l.element_count(); ++i) {
    if (std::memcmp(first, first + std::size_t(i) * width, width) != 0) return false;
  }
  return l.element_count() > 0;
}

}  // namespace

DType bits_type(DType dtype) {
  if (is_complex(dtype)) return dtype;
  switch (byte_size(dtype)) {
    case 1:
      return is_floating(dtype) || dtype == DType::pred ? u8 : dtype;
    case 2:
      return u16;
    case 4:
      return u32;
    default:
      return u64;
  }
}

ir::Instruction* as_bits(ir::Builder& b, ir::Instruction* x) {
  const DType from = x->shape.dtype, to = bits_type(from);
  if (from == to) return x;
  if (from == DType::pred) return b.convert(x, to);
  return b.emit_shaped(ir::Opcode::bitcast_convert, Shape(to, x->shape.dims), {x});
}

ir::Instruction* from_bits(ir::Builder& b, ir::Instruction* x, DType dtype) {
  if (x->shape.dtype == dtype) return x;
  if (dtype == DType::pred) return b.convert(x, dtype);
  return b.emit_shaped(ir::Opcode::bitcast_convert, Shape(dtype, x->shape.dims), {x});
}

void partition_constant(ComputationPartitioner& p, const ir::Instruction& source) {
  if (source.shape.is_tuple) return p.replicate(source, "a constant tuple");
  const auto& attrs = source.get<ir::ConstantAttrs>();
  const TensorSharding& wanted = p.declared_array(source);
  const Literal& l = attrs.value;
  if (attrs.elided && !is_whole(wanted)) {
    throw CompileError("the elements of constant " + source.name +
                           " were left out of the text ({...}), so that it can't be cut up by " +
                           wanted.to_spec_string(),
                       source.location());
  }
  if (!attrs.elided && source.shape.rank() > 0 && is_splat(l)) {
    Literal one(Shape(l.dtype(), {}), std::span(l.bytes(), byte_size(l.dtype())));
    ir::Instruction* scalar = p.b().constant(one);
    const Dims global = source.shape.dims;
    return p.define(source, p.make_recomputable(
                                [&p, scalar, global](const TensorSharding& to) {
                                  return p.b().splat(scalar, to.shard_dims(global));
                                },
                                wanted, source.shape));
  }
  ir::Instruction* x = attrs.elided ? p.emit_local(source, {}, source.shape) : p.b().constant(l);
  if (attrs.elided) return p.define(source, p.make(x, wanted, source.shape));
  Value* whole = p.make(x, p.whole(source.shape.rank()), source.shape);
  p.define(source, p.make_recomputable(
                       [&p, whole](const TensorSharding& to) {
                         return p.reshard(whole, to, "constant")->local;
                       },
                       wanted, source.shape));
}

void partition_iota(ComputationPartitioner& p, const ir::Instruction& source) {
  const std::int64_t dim = source.get<ir::IotaAttrs>().dim;
  const Shape global = source.shape;
  auto made = [&p, dim, global](const TensorSharding& to) {
    const Shape local = p.local_shape(global, to);
    ir::Builder& b = p.b();
    if (to.shards(dim) == 1) return b.iota(local, dim);
    // Sums are exact in integers only, so that others are converted at the end.
    const bool wide = is_integer(local.dtype) && byte_size(local.dtype) >= 4;
    const DType exact = wide ? local.dtype : s32;
    ir::Instruction* x = b.iota(Shape(exact, local.dims), dim);
    ir::Instruction* offset = b.convert(p.shard_offset(to, dim, global.dim(dim)), exact);
    x = b.binary(ir::Opcode::add, x, b.splat(offset, local.dims));
    return b.convert(x, local.dtype);
  };
  p.define(source, p.make_recomputable(made, p.declared_array(source), global));
}

void partition_rng(ComputationPartitioner& p, const ir::Instruction& source) {
  // Generators differ between devices: the first device's numbers go to all.
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < source.operands().size(); ++i) {
    Value* v = p.value(*source.operand(i));
    operands.push_back(p.reshard(v, p.whole(v->shape.rank()), p.operand_reason(source, i))->local);
  }
  ir::Instruction* bits = as_bits(p.b(), p.emit_local(source, operands, source.shape));
  Value* v = p.make(bits, p.whole(source.shape.rank()), bits->shape);
  TensorSharding partial = v->sharding;
  for (int a = 0; a < int(p.mesh()->axes.size()); ++a) {
    const IndexList& manual = p.manual_axes();
    if (std::find(manual.begin(), manual.end(), a) == manual.end()) partial.unreduced.push_back(a);
  }
  v = p.reshard(v, partial, "random numbers of the first device");
  Value* sum = p.make(v->local, partial, v->shape);
  sum = p.reshard(sum, p.declared_array(source), "random numbers of the first device");
  p.define(source,
           p.make(from_bits(p.b(), sum->local, source.shape.dtype), sum->sharding, source.shape));
}

}  // namespace tessera::spmd
