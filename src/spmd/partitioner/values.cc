// SPDX-License-Identifier: Apache-2.0
// Per-device index arithmetic, masks, tuples: what the op families build from.
#include <algorithm>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/base/literal.h"
#include "src/ir/analysis/device_computations.h"
#include "src/spmd/partitioner/context.h"

namespace tessera::spmd {

namespace {

/// Axes of size 1 split nothing.
IndexList wide_axes(const TensorSharding& s, IndexList axes) {
  erase_if(axes, [&](int a) { return s.mesh->axes[std::size_t(a)].size == 1; });
  return axes;
}

}  // namespace

bool same_layout(const TensorSharding& a, const TensorSharding& b) {
  if (a.dims.size() != b.dims.size() || a.kind != b.kind) return false;
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    const IndexList &x = a.dims[i].axes, &y = b.dims[i].axes;
    if (x != y && wide_axes(a, x) != wide_axes(b, y)) return false;
  }
  if (a.unreduced.empty() && b.unreduced.empty()) return true;
  IndexList ua = wide_axes(a, a.unreduced), ub = wide_axes(b, b.unreduced);
  std::sort(ua.begin(), ua.end());
  std::sort(ub.begin(), ub.end());
  return ua == ub;
}

bool uneven(const TensorSharding& s, const Dims& global) {
  for (std::size_t d = 0; d < global.size(); ++d) {
    if (global[d] % s.shards(std::int64_t(d)) != 0) return true;
  }
  return false;
}

TensorSharding without_dims(TensorSharding s, const Dims& dims) {
  for (std::int64_t d : dims) s.dims[std::size_t(d)].axes.clear();
  return s;
}

TensorSharding reduced(TensorSharding s) {
  s.unreduced.clear();
  return s;
}

IndexList used_axes(const TensorSharding& s) {
  IndexList axes;
  for (const DimSharding& d : s.dims) axes.insert(axes.end(), d.axes.begin(), d.axes.end());
  return axes;
}

double byte_count(const ir::Instruction* x) { return double(x->shape.byte_count()); }

std::string op_label(const ir::Instruction& source) {
  if (ir::is_manual_computation(source)) return "manual computation";
  std::string label(ir::name(source.opcode));
  if (source.is(ir::Opcode::custom_call)) {
    label += " " + source.get<ir::CustomCallAttrs>().target;
  }
  return label;
}

Value* ComputationPartitioner::make(ir::Instruction* local, TensorSharding sharding,
                                    const Shape& global) {
  sharding.replicated.clear();
  Shape expected = local_shape(global, sharding);
  TESSERA_CHECK(local->shape == expected,
                local->describe() + " has the shape " + local->shape.to_string() +
                    " where a shard of " + global.to_string() + " by " + sharding.to_spec_string() +
                    " is " + expected.to_string());
  Value& v = storage_.emplace_back();
  v.local = local;
  v.sharding = std::move(sharding);
  v.shape = global;
  v.shape.layout.clear();
  v.origin = current_;
  v.original = &v;
  v.materializations.push_back(&v);
  return &v;
}

Value* ComputationPartitioner::make_recomputable(
    std::function<ir::Instruction*(const TensorSharding&)> recompute,
    const TensorSharding& sharding, const Shape& global) {
  Value* v = make(recompute(sharding), sharding, global);
  v->recompute = std::move(recompute);
  return v;
}

Shape ComputationPartitioner::local_shape(const Shape& global, const TensorSharding& s) const {
  if (!global.is_array()) return global;
  return Shape(global.dtype, s.shard_dims(global.dims));
}

std::int64_t ComputationPartitioner::ways(const IndexList& axes) const {
  std::int64_t n = 1;
  for (int a : axes) n *= mesh()->axes[std::size_t(a)].size;
  return n;
}

ir::Instruction* ComputationPartitioner::index(std::int64_t v) {
  ir::Instruction*& i = indices_[v];
  if (!i) {
    TESSERA_CHECK(v == std::int64_t(std::int32_t(v)), "an index beyond 32 bits");
    Cow<ir::Metadata> keep;
    std::swap(keep, b().metadata);
    i = b().scalar(s32, double(v));
    std::swap(keep, b().metadata);
  }
  return i;
}

ir::Instruction* ComputationPartitioner::constant_scalar(DType dtype, double v) {
  ir::Instruction*& i = scalars_[{int(dtype), v}];
  if (!i) i = b().scalar(dtype, v);
  return i;
}

ir::Instruction* ComputationPartitioner::position() {
  if (position_) return position_;
  Cow<ir::Metadata> keep;
  std::swap(keep, b().metadata);
  position_ = b().convert(b().partition_id(), s32);
  if (!mesh()->device_ids.empty()) {
    Literal table(Shape(s32, {module_.devices()}));
    auto data = table.mutable_data<std::int32_t>();
    for (std::int64_t d = 0; d < module_.devices(); ++d) {
      data[std::size_t(d)] = std::int32_t(mesh()->position_of(d));
    }
    position_ = b().reshape(b().dynamic_slice(b().constant(table), {position_}, {1}), {});
  }
  std::swap(keep, b().metadata);
  return position_;
}

ir::Instruction* ComputationPartitioner::coordinate(const IndexList& axes) {
  if (ways(axes) == 1) return index(0);
  if (auto it = coordinates_.find(axes); it != coordinates_.end()) return it->second;
  ir::Instruction* at = position();
  Cow<ir::Metadata> keep;
  std::swap(keep, b().metadata);
  Dims strides = mesh()->strides();
  auto size = [&](std::size_t i) { return mesh()->axes[std::size_t(axes[i])].size; };
  auto stride = [&](std::size_t i) { return strides[std::size_t(axes[i])]; };
  ir::Instruction* sum = nullptr;
  std::int64_t weight = 1;
  for (std::size_t end = axes.size(); end > 0;) {
    // Axes that lie side by side in the mesh are one mixed-radix digit.
    std::size_t begin = end - 1;
    std::int64_t product = size(begin);
    while (begin > 0 && stride(begin - 1) == stride(end - 1) * product) {
      --begin;
      product *= size(begin);
    }
    ir::Instruction* digit = at;
    std::int64_t s = stride(end - 1);
    if (s != 1) digit = b().binary(ir::Opcode::divide, digit, index(s));
    if (s * product != module_.devices()) {
      digit = b().binary(ir::Opcode::remainder, digit, index(product));
    }
    if (weight != 1) digit = b().binary(ir::Opcode::multiply, digit, index(weight));
    sum = sum ? b().binary(ir::Opcode::add, digit, sum) : digit;
    weight *= product;
    end = begin;
  }
  std::swap(keep, b().metadata);
  return coordinates_[axes] = sum;
}

ir::Instruction* ComputationPartitioner::lookup(const Dims& table, const IndexList& axes) {
  TESSERA_CHECK(std::int64_t(table.size()) == ways(axes), "a table of a wrong size");
  if (table.size() == 1) return index(table[0]);
  std::int64_t step = table[1] - table[0];
  bool affine = true;
  for (std::size_t i = 1; i < table.size(); ++i) affine &= table[i] - table[i - 1] == step;
  if (affine && step == 0) return index(table[0]);
  auto key = std::pair(table, axes);
  if (auto it = lookups_.find(key); it != lookups_.end()) return it->second;
  ir::Instruction* c = coordinate(axes);
  Cow<ir::Metadata> keep;
  std::swap(keep, b().metadata);
  ir::Instruction* out;
  if (affine) {
    out = step == 1 ? c : b().binary(ir::Opcode::multiply, c, index(step));
    if (table[0] != 0) out = b().binary(ir::Opcode::add, out, index(table[0]));
  } else {
    Literal values(Shape(s32, {std::int64_t(table.size())}));
    auto data = values.mutable_data<std::int32_t>();
    for (std::size_t i = 0; i < table.size(); ++i) data[i] = std::int32_t(table[i]);
    out = b().reshape(b().dynamic_slice(b().constant(values), {c}, {1}), {});
  }
  std::swap(keep, b().metadata);
  return lookups_[key] = out;
}

ir::Instruction* ComputationPartitioner::shard_offset(const TensorSharding& s, std::int64_t dim,
                                                      std::int64_t size) {
  const IndexList& axes = s.dims[std::size_t(dim)].axes;
  std::int64_t n = ways(axes), block = ceil_div(size, n);
  Dims table;
  for (std::int64_t c = 0; c < n; ++c) table.push_back(c * block);
  return lookup(table, axes);
}

ir::Instruction* ComputationPartitioner::range_mask(const Dims& dims, std::int64_t dim,
                                                    ir::Instruction* lo, ir::Instruction* hi) {
  std::int64_t n = dims[std::size_t(dim)];
  ir::Instruction* at = b().iota(Shape(s32, {n}), 0);
  ir::Instruction* mask = nullptr;
  if (lo) mask = b().compare(ir::Direction::ge, at, b().splat(lo, {n}));
  if (hi) {
    ir::Instruction* below = b().compare(ir::Direction::lt, at, b().splat(hi, {n}));
    mask = mask ? b().binary(ir::Opcode::and_, mask, below) : below;
  }
  return b().broadcast(mask, dims, {dim});
}

ir::Instruction* ComputationPartitioner::masked(Value* v, const Dims& dims,
                                                ir::Instruction* neutral) {
  Dims padded;
  for (std::int64_t d : dims) {
    if (v->shape.dim(d) % v->sharding.shards(d) != 0) padded.push_back(d);
  }
  if (padded.empty()) return v->local;
  std::string key = join(padded) + ":" + neutral->name;
  ir::Instruction*& out = v->masked[key];
  if (out) return out;
  ir::Instruction* mask = nullptr;
  for (std::int64_t d : padded) {
    std::int64_t n = v->shape.dim(d), count = v->sharding.shards(d), block = ceil_div(n, count);
    Dims left;
    for (std::int64_t c = 0; c < count; ++c) {
      left.push_back(std::clamp<std::int64_t>(n - c * block, 0, block));
    }
    ir::Instruction* m = range_mask(v->local->shape.dims, d, nullptr,
                                    lookup(left, v->sharding.dims[std::size_t(d)].axes));
    mask = mask ? b().binary(ir::Opcode::and_, mask, m) : m;
  }
  out = b().select(mask, v->local, b().splat(neutral, v->local->shape.dims));
  return out;
}

ir::Instruction* ComputationPartitioner::resized(ir::Instruction* x, std::int64_t dim,
                                                 std::int64_t size) {
  std::int64_t now = x->shape.dim(dim);
  if (now == size) return x;
  if (now < size) {
    std::vector<ir::PadDim> padding(x->shape.dims.size());
    padding[std::size_t(dim)].high = size - now;
    return b().pad(x, constant_scalar(x->shape.dtype, 0), padding);
  }
  Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims, strides(x->shape.dims.size(), 1);
  limits[std::size_t(dim)] = size;
  return b().slice(x, starts, limits, strides);
}

ir::Instruction* ComputationPartitioner::dynamic_slice_dim(ir::Instruction* x, std::int64_t dim,
                                                           ir::Instruction* start,
                                                           std::int64_t size) {
  if (x->shape.dim(dim) == size) return x;
  // A start that is known is a plain slice.
  for (const auto& [value, constant] : indices_) {
    if (constant != start) continue;
    Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims, strides(x->shape.dims.size(), 1);
    starts[std::size_t(dim)] = value;
    limits[std::size_t(dim)] = value + size;
    return b().slice(x, starts, limits, strides);
  }
  std::vector<ir::Instruction*> starts(x->shape.dims.size(), index(0));
  starts[std::size_t(dim)] = start;
  Dims sizes = x->shape.dims;
  sizes[std::size_t(dim)] = size;
  return b().dynamic_slice(x, starts, sizes);
}

std::vector<ir::Instruction*> ComputationPartitioner::unpack(ir::Instruction* local) {
  if (!local->shape.is_tuple) return {local};
  std::vector<ir::Instruction*> out;
  for (std::size_t i = 0; i < local->shape.elements.size(); ++i) {
    for (ir::Instruction* leaf : unpack(b().get_tuple_element(local, std::int64_t(i)))) {
      out.push_back(leaf);
    }
  }
  return out;
}

ir::Instruction* ComputationPartitioner::pack(const Shape& shape,
                                              const std::vector<ir::Instruction*>& leaves) {
  std::size_t next = 0;
  return pack(shape, leaves, &next);
}

ir::Instruction* ComputationPartitioner::pack(const Shape& shape,
                                              const std::vector<ir::Instruction*>& leaves,
                                              std::size_t* next) {
  if (!shape.is_tuple) return leaves[(*next)++];
  std::vector<ir::Instruction*> elements;
  for (const Shape& e : shape.elements) elements.push_back(pack(e, leaves, next));
  return b().tuple(elements);
}

namespace {

Shape local_tuple_at(const ComputationPartitioner& p, const Shape& shape,
                     const std::vector<TensorSharding>& s, std::size_t* next) {
  if (!shape.is_tuple) return p.local_shape(shape, s[(*next)++]);
  std::vector<Shape> elements;
  for (const Shape& e : shape.elements) elements.push_back(local_tuple_at(p, e, s, next));
  return Shape::tuple(elements);
}

}  // namespace

Shape ComputationPartitioner::local_tuple(const Shape& shape,
                                          const std::vector<TensorSharding>& s) const {
  std::size_t next = 0;
  return local_tuple_at(*this, shape, s, &next);
}

}  // namespace tessera::spmd
