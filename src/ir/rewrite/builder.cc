// SPDX-License-Identifier: Apache-2.0
// The builder: one function per op, with shape inference.
#include "src/ir/rewrite/builder.h"

#include <algorithm>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir {
namespace {

Instruction* append(Computation* computation, const Cow<Metadata>& metadata, Opcode op, Shape shape,
                    std::vector<Instruction*> operands, Attributes attrs,
                    std::vector<Computation*> called) {
  auto i = std::make_unique<Instruction>();
  i->opcode = op;
  i->shape = std::move(shape);
  i->set_operands(std::move(operands));
  i->attrs = std::move(attrs);
  i->set_called(std::move(called));
  i->metadata = metadata;
  return computation->add(std::move(i));
}

}  // namespace

Instruction* Builder::emit(Opcode op, std::vector<Instruction*> operands, Attributes attrs,
                           std::vector<Computation*> called) {
  Shape shape =
      infer_shape(op, operands, attrs, called, nullptr, metadata->location(), module()->grid());
  return append(computation_, metadata, op, std::move(shape), std::move(operands), std::move(attrs),
                std::move(called));
}

Instruction* Builder::emit_shaped(Opcode op, Shape shape, std::vector<Instruction*> operands,
                                  Attributes attrs, std::vector<Computation*> called) {
  infer_shape(op, operands, attrs, called, &shape, metadata->location(), module()->grid());
  return append(computation_, metadata, op, std::move(shape), std::move(operands), std::move(attrs),
                std::move(called));
}

Instruction* Builder::parameter(std::int64_t number, const Shape& shape, const std::string& name) {
  auto i = std::make_unique<Instruction>();
  i->opcode = Opcode::parameter;
  i->shape = shape;
  i->name = name;
  i->attrs = ParameterAttrs{number};
  i->metadata = metadata;
  return computation_->add(std::move(i));
}

Instruction* Builder::constant(Literal value) {
  return emit(Opcode::constant, {}, ConstantAttrs{std::move(value)});
}

Instruction* Builder::scalar(DType dtype, double value) {
  return constant(is_small_float(dtype) ? small_float_scalar(dtype, value)
                                        : Literal::scalar(dtype, value));
}

Instruction* Builder::iota(const Shape& shape, std::int64_t dim) {
  return emit_shaped(Opcode::iota, shape, {}, IotaAttrs{dim});
}

Instruction* Builder::convert(Instruction* x, DType dtype) {
  if (x->shape.is_array() && x->shape.dtype == dtype) return x;
  return emit_shaped(Opcode::convert, Shape(dtype, x->shape.dims), {x});
}

Instruction* Builder::broadcast(Instruction* x, Dims result_dims, Dims dims) {
  return emit_shaped(Opcode::broadcast, Shape(x->shape.dtype, std::move(result_dims)), {x},
                     DimensionsAttrs{std::move(dims)});
}

Instruction* Builder::splat(Instruction* scalar, Dims dims) {
  if (scalar->shape.is_array() && scalar->shape.dims == dims) return scalar;
  return broadcast(scalar, std::move(dims), {});
}

Instruction* Builder::reshape(Instruction* x, Dims dims) {
  if (x->shape.is_array() && x->shape.dims == dims) return x;
  return emit_shaped(Opcode::reshape, Shape(x->shape.dtype, std::move(dims)), {x});
}

Instruction* Builder::transpose(Instruction* x, Dims perm) {
  return emit(Opcode::transpose, {x}, DimensionsAttrs{std::move(perm)});
}

Instruction* Builder::slice(Instruction* x, Dims starts, Dims limits, Dims strides) {
  if (strides.empty()) strides.assign(starts.size(), 1);
  return emit(Opcode::slice, {x},
              SliceAttrs{std::move(starts), std::move(limits), std::move(strides)});
}

Instruction* Builder::dynamic_slice(Instruction* x, std::vector<Instruction*> starts, Dims sizes) {
  starts.insert(starts.begin(), x);
  return emit(Opcode::dynamic_slice, std::move(starts), DynamicSliceAttrs{std::move(sizes)});
}

Instruction* Builder::dynamic_update_slice(Instruction* x, Instruction* update,
                                           std::vector<Instruction*> starts) {
  starts.insert(starts.begin(), {x, update});
  return emit(Opcode::dynamic_update_slice, std::move(starts));
}

Instruction* Builder::pad(Instruction* x, Instruction* value, std::vector<PadDim> dims) {
  return emit(Opcode::pad, {x, value}, PadAttrs{std::move(dims)});
}

Instruction* Builder::concatenate(std::vector<Instruction*> xs, std::int64_t dim) {
  return emit(Opcode::concatenate, std::move(xs), DimensionsAttrs{{dim}});
}

Instruction* Builder::reverse(Instruction* x, Dims dims) {
  return emit(Opcode::reverse, {x}, DimensionsAttrs{std::move(dims)});
}

Instruction* Builder::select(Instruction* pred, Instruction* on_true, Instruction* on_false) {
  return emit(Opcode::select, {pred, on_true, on_false});
}

Instruction* Builder::compare(Direction d, Instruction* a, Instruction* b, ComparisonType type) {
  return emit(Opcode::compare, {a, b}, CompareAttrs{d, type});
}

Instruction* Builder::dot(Instruction* lhs, Instruction* rhs, DotAttrs attrs) {
  return emit(Opcode::dot, {lhs, rhs}, std::move(attrs));
}

Instruction* Builder::reduce(Instruction* x, Instruction* init, Dims dims, Computation* reducer) {
  return emit(Opcode::reduce, {x, init}, DimensionsAttrs{std::move(dims)}, {reducer});
}

Instruction* Builder::tuple(std::vector<Instruction*> elements) {
  return emit(Opcode::tuple, std::move(elements));
}

Instruction* Builder::get_tuple_element(Instruction* tuple, std::int64_t index) {
  return emit(Opcode::get_tuple_element, {tuple}, GetTupleElementAttrs{index});
}

Instruction* Builder::call(Computation* callee, std::vector<Instruction*> operands) {
  return emit(Opcode::call, std::move(operands), {}, {callee});
}

Instruction* Builder::while_loop(Computation* condition, Computation* body, Instruction* init,
                                 std::optional<std::int64_t> trip_count) {
  return emit(Opcode::while_, {init}, WhileAttrs{trip_count}, {condition, body});
}

Instruction* Builder::conditional(Instruction* pred_or_index, std::vector<Instruction*> operands,
                                  std::vector<Computation*> branches) {
  operands.insert(operands.begin(), pred_or_index);
  return emit(Opcode::conditional, std::move(operands), {}, std::move(branches));
}

Instruction* Builder::fft(Instruction* x, FftType type, Dims lengths) {
  return emit(Opcode::fft, {x}, FftAttrs{type, std::move(lengths)});
}

Instruction* Builder::sort(std::vector<Instruction*> operands, std::int64_t dim, bool stable,
                           Computation* comparator) {
  return emit(Opcode::sort, std::move(operands), SortAttrs{dim, stable}, {comparator});
}

Instruction* Builder::partition_id() { return emit(Opcode::partition_id, {}); }

Instruction* Builder::all_reduce(Instruction* x, Computation* reducer, DeviceGroups groups) {
  CollectiveAttrs attrs;
  attrs.groups = std::move(groups);
  attrs.channel_id = next_channel_id(module());
  attrs.use_global_device_ids = true;
  return emit(Opcode::all_reduce, {x}, std::move(attrs), {reducer});
}

Instruction* Builder::all_gather(Instruction* x, std::int64_t dim, DeviceGroups groups) {
  CollectiveAttrs attrs;
  attrs.groups = std::move(groups);
  attrs.dims = {dim};
  attrs.channel_id = next_channel_id(module());
  attrs.use_global_device_ids = true;
  return emit(Opcode::all_gather, {x}, std::move(attrs));
}

Instruction* Builder::reduce_scatter(Instruction* x, Computation* reducer, std::int64_t dim,
                                     DeviceGroups groups) {
  CollectiveAttrs attrs;
  attrs.groups = std::move(groups);
  attrs.dims = {dim};
  attrs.channel_id = next_channel_id(module());
  attrs.use_global_device_ids = true;
  return emit(Opcode::reduce_scatter, {x}, std::move(attrs), {reducer});
}

Instruction* Builder::all_to_all(Instruction* x, std::int64_t dim, DeviceGroups groups) {
  CollectiveAttrs attrs;
  attrs.groups = std::move(groups);
  attrs.dims = {dim};
  attrs.channel_id = next_channel_id(module());
  return emit(Opcode::all_to_all, {x}, std::move(attrs));
}

Instruction* Builder::collective_permute(Instruction* x, DevicePairs pairs, BatchAxis batch) {
  PermuteAttrs attrs;
  attrs.source_target_pairs = std::move(pairs);
  attrs.batch = std::move(batch);
  attrs.channel_id = next_channel_id(module());
  return emit(Opcode::collective_permute, {x}, std::move(attrs));
}

Instruction* emit_like(Builder& b, const Instruction& like, std::vector<Instruction*> operands,
                       Attributes attrs, const Shape* shape) {
  give_fresh_channel(&attrs, b.module());
  Instruction* out =
      shape
          ? b.emit_shaped(like.opcode, *shape, std::move(operands), std::move(attrs), like.called())
          : b.emit(like.opcode, std::move(operands), std::move(attrs), like.called());
  out->backend_config = like.backend_config;
  out->frontend_attributes = like.frontend_attributes;
  return out;
}

Instruction* emit_like(Builder& b, const Instruction& like, std::vector<Instruction*> operands,
                       const Shape* shape) {
  return emit_like(b, like, std::move(operands), like.attrs, shape);
}

}  // namespace tessera::ir
