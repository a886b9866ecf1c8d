// SPDX-License-Identifier: Apache-2.0
// Per-device index arithmetic, masks, tuples: what the op families build from.
#include "src/spmd/partitioner/emit/shard_builder.h"

#include <algorithm>

#include "src/base/arrays/literal.h"
#include "src/base/check.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/sharding/axes/ways.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {

namespace {

/// While it lives, new instructions carry no metadata: they are shared by several ops.
class WithoutMetadata {
 public:
  explicit WithoutMetadata(ir::Builder& b) : b_(b) { std::swap(kept_, b_.metadata); }
  ~WithoutMetadata() { std::swap(kept_, b_.metadata); }
  WithoutMetadata(const WithoutMetadata&) = delete;
  WithoutMetadata& operator=(const WithoutMetadata&) = delete;

 private:
  ir::Builder& b_;
  Cow<ir::Metadata> kept_;
};

}  // namespace

ir::Computation* ImportedComputations::of(const ir::Computation& source) {
  ir::Computation*& c = imported_[&source];
  if (!c) c = target_->import(source);
  return c;
}

ShardBuilder::OpScope::OpScope(ShardBuilder& emit, const ir::Instruction& op)
    : emit_(emit), outer_(emit.current_), metadata_(std::move(emit.builder_.metadata)) {
  emit_.current_ = &op;
  emit_.builder_.metadata = op.metadata;
}

ShardBuilder::OpScope::~OpScope() {
  emit_.current_ = outer_;
  emit_.builder_.metadata = std::move(metadata_);
}

std::int64_t ShardBuilder::ways(const IndexList& axes) const { return ways_of(*mesh_, axes); }

ir::Instruction* ShardBuilder::index(std::int64_t v) {
  ir::Instruction*& i = indices_[v];
  if (!i) {
    TESSERA_CHECK(v == std::int64_t(std::int32_t(v)), "an index beyond 32 bits");
    const WithoutMetadata scope(b());
    i = b().scalar(s32, double(v));
  }
  return i;
}

ir::Instruction* ShardBuilder::constant_scalar(DType dtype, double v) {
  ir::Instruction*& i = scalars_[{int(dtype), v}];
  if (!i) i = b().scalar(dtype, v);
  return i;
}

ir::Instruction* ShardBuilder::position() {
  if (position_) return position_;
  const WithoutMetadata scope(b());
  position_ = b().convert(b().partition_id(), s32);
  if (!mesh_->device_ids.empty()) {
    Literal table(Shape(s32, {devices_}));
    auto data = table.mutable_data<std::int32_t>();
    for (std::int64_t p = 0; p < devices_; ++p) {
      data[std::size_t(mesh_->device_at(p))] = std::int32_t(p);
    }
    position_ = b().reshape(b().dynamic_slice(b().constant(table), {position_}, {1}), {});
  }
  return position_;
}

ir::Instruction* ShardBuilder::coordinate(const IndexList& axes) {
  if (ways(axes) == 1) return index(0);
  if (auto it = coordinates_.find(axes); it != coordinates_.end()) return it->second;
  ir::Instruction* at = position();
  const WithoutMetadata scope(b());
  Dims strides = mesh_->strides();
  auto size = [&](std::size_t i) { return mesh_->axes[std::size_t(axes[i])].size; };
  auto stride = [&](std::size_t i) { return strides[std::size_t(axes[i])]; };
  ir::Instruction* sum = nullptr;
  std::int64_t weight = 1;
  for (std::size_t end = axes.size(); end > 0;) {
    // Axes that are neighbours in the mesh are one mixed-radix digit.
    std::size_t begin = end - 1;
    std::int64_t product = size(begin);
    while (begin > 0 && stride(begin - 1) == stride(end - 1) * product) {
      --begin;
      product *= size(begin);
    }
    ir::Instruction* digit = at;
    std::int64_t s = stride(end - 1);
    if (s != 1) digit = b().binary(ir::Opcode::divide, digit, index(s));
    if (s * product != devices_) {
      digit = b().binary(ir::Opcode::remainder, digit, index(product));
    }
    if (weight != 1) digit = b().binary(ir::Opcode::multiply, digit, index(weight));
    sum = sum ? b().binary(ir::Opcode::add, digit, sum) : digit;
    weight *= product;
    end = begin;
  }
  return coordinates_[axes] = sum;
}

ir::Instruction* ShardBuilder::on_line(const ByCoordinate::Piece& piece, ir::Instruction* c) {
  if (piece.step == 0) return index(piece.value);
  const std::int64_t first = piece.value - piece.step * piece.begin;
  ir::Instruction* out =
      piece.step == 1 ? c : b().binary(ir::Opcode::multiply, c, index(piece.step));
  return first == 0 ? out : b().binary(ir::Opcode::add, out, index(first));
}

ir::Instruction* ShardBuilder::lookup(const ByCoordinate& table, const IndexList& axes) {
  // A list in the program is short, or can't be said otherwise.
  constexpr std::int64_t short_list = 1024;
  constexpr std::size_t few_pieces = 6;
  TESSERA_CHECK(table.size() == ways(axes), "a table of a wrong size");
  const std::vector<ByCoordinate::Piece>& pieces = table.pieces();
  if (table.is_line() && (table.size() == 1 || pieces[0].step == 0)) return index(table[0]);
  auto key = std::pair(table, axes);
  if (auto it = lookups_.find(key); it != lookups_.end()) return it->second;
  ir::Instruction* c = coordinate(axes);
  const WithoutMetadata scope(b());
  ir::Instruction* out;
  if (table.is_line() || (table.size() > short_list && pieces.size() <= few_pieces)) {
    out = on_line(pieces[0], c);
    for (std::size_t k = 1; k < pieces.size(); ++k) {
      ir::Instruction* from_here = b().compare(ir::Direction::ge, c, index(pieces[k].begin));
      out = b().select(from_here, on_line(pieces[k], c), out);
    }
  } else {
    Literal values(Shape(s32, {table.size()}));
    auto data = values.mutable_data<std::int32_t>();
    std::size_t at = 0;
    for_equal<1>({&table}, [&](std::int64_t, std::int64_t count, const auto& v) {
      for (std::int64_t k = 0; k < count; ++k) data[at++] = std::int32_t(v[0]);
    });
    out = b().reshape(b().dynamic_slice(b().constant(values), {c}, {1}), {});
  }
  return lookups_[key] = out;
}

const DevicePairs& ShardBuilder::pairs_along(const IndexList& axes, const ByCoordinate& target) {
  const auto [it, fresh] = pairs_.try_emplace({Dims(axes.begin(), axes.end()), target});
  if (!fresh) return it->second;
  Dims targets;
  targets.reserve(std::size_t(target.size()));
  for_equal<1>({&target}, [&](std::int64_t, std::int64_t count, const auto& v) {
    targets.insert(targets.end(), std::size_t(count), v[0]);
  });
  std::vector<std::int64_t> sent_to(std::size_t(devices_), -1);
  for (const auto& group : groups(axes).expand(devices_)) {
    for (std::size_t c = 0; c < group.size(); ++c) {
      if (targets[c] >= 0) sent_to[std::size_t(group[c])] = group[std::size_t(targets[c])];
    }
  }
  std::vector<DevicePairs::Pair> pairs;
  pairs.reserve(sent_to.size());
  for (std::size_t d = 0; d < sent_to.size(); ++d) {
    if (sent_to[d] >= 0) pairs.emplace_back(std::int64_t(d), sent_to[d]);
  }
  return it->second = DevicePairs(std::move(pairs));
}

ir::Instruction* ShardBuilder::shard_offset(const TensorSharding& s, std::int64_t dim,
                                            std::int64_t size) {
  const IndexList& axes = s.dims[std::size_t(dim)].axes;
  const std::int64_t n = ways(axes);
  return lookup(ByCoordinate::line(n, 0, ceil_div(size, n)), axes);
}

ir::Instruction* ShardBuilder::constant_of(const ir::Instruction& origin, const Literal& value) {
  // Several constants may be for one op of the propagated program.
  ir::Instruction*& constant = constants_[&origin];
  if (!constant || !(constant->get<ir::ConstantAttrs>().value == value)) {
    constant = b().constant(value);
  }
  return constant;
}

ir::Instruction* ShardBuilder::range_mask(const Dims& dims, std::int64_t dim, ir::Instruction* lo,
                                          ir::Instruction* hi) {
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

ir::Instruction* ShardBuilder::mask_padding(ir::Instruction* shard, const TensorSharding& s,
                                            const Dims& global, const Dims& dims,
                                            ir::Instruction* neutral) {
  ir::Instruction* mask = nullptr;
  for (std::int64_t d : dims) {
    std::int64_t n = global[std::size_t(d)], count = s.shards(d), block = ceil_div(n, count);
    const ByCoordinate left = ByCoordinate::line(count, n, -block).at_least(0).at_most(block);
    ir::Instruction* m =
        range_mask(shard->shape.dims, d, nullptr, lookup(left, s.dims[std::size_t(d)].axes));
    mask = mask ? b().binary(ir::Opcode::and_, mask, m) : m;
  }
  return b().select(mask, shard, b().splat(neutral, shard->shape.dims));
}

ir::Instruction* ShardBuilder::resized(ir::Instruction* x, std::int64_t dim, std::int64_t size) {
  std::int64_t now = x->shape.dim(dim);
  if (now == size) return x;
  if (now < size) return pad_dim(x, dim, {0, size - now, 0}, constant_scalar(x->shape.dtype, 0));
  return slice_dim(x, dim, 0, size);
}

ir::Instruction* ShardBuilder::pad_dim(ir::Instruction* x, std::int64_t dim, const ir::PadDim& by,
                                       ir::Instruction* fill) {
  if (by == ir::PadDim{}) return x;
  std::vector<ir::PadDim> padding(x->shape.dims.size());
  padding[std::size_t(dim)] = by;
  return b().pad(x, fill, padding);
}

ir::Instruction* ShardBuilder::slice_dim(ir::Instruction* x, std::int64_t dim, std::int64_t from,
                                         std::int64_t to) {
  if (to - from == x->shape.dim(dim)) return x;
  Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
  starts[std::size_t(dim)] = from;
  limits[std::size_t(dim)] = to;
  return b().slice(x, starts, limits);
}

ir::Instruction* ShardBuilder::dynamic_slice_dim(ir::Instruction* x, std::int64_t dim,
                                                 ir::Instruction* start, std::int64_t size) {
  if (x->shape.dim(dim) == size) return x;
  // A start that is known is a plain slice.
  for (const auto& [value, constant] : indices_) {
    if (constant == start) return slice_dim(x, dim, value, value + size);
  }
  std::vector<ir::Instruction*> starts(x->shape.dims.size(), index(0));
  starts[std::size_t(dim)] = start;
  Dims sizes = x->shape.dims;
  sizes[std::size_t(dim)] = size;
  return b().dynamic_slice(x, starts, sizes);
}

ir::Instruction* ShardBuilder::local_op(const ir::Instruction& source,
                                        std::vector<ir::Instruction*> operands, const Shape& shape,
                                        ir::Attributes attrs) {
  ir::Instruction* x = b().emit_shaped(source.opcode, shape, std::move(operands), std::move(attrs),
                                       import_called(source));
  x->backend_config = source.backend_config;
  for (const auto& [key, text] : *source.frontend_attributes) {
    if (key.rfind("xla.sdy", 0) != 0) x->frontend_attributes.edit()[key] = text;
  }
  if (x->attrs.call_attrs()) ir::keep_call_layouts(source, x);
  return x;
}

std::vector<ir::Computation*> ShardBuilder::import_called(const ir::Instruction& source) {
  std::vector<ir::Computation*> out;
  for (const ir::Computation* c : source.called()) out.push_back(imported_.of(*c));
  return out;
}

std::vector<ir::Instruction*> ShardBuilder::unpack(ir::Instruction* local) {
  if (!local->shape.is_tuple) return {local};
  std::vector<ir::Instruction*> out;
  for (std::size_t i = 0; i < local->shape.elements.size(); ++i) {
    for (ir::Instruction* leaf : unpack(b().get_tuple_element(local, std::int64_t(i)))) {
      out.push_back(leaf);
    }
  }
  return out;
}

ir::Instruction* ShardBuilder::pack(const Shape& shape,
                                    const std::vector<ir::Instruction*>& leaves) {
  std::size_t next = 0;
  return pack(shape, leaves, &next);
}

ir::Instruction* ShardBuilder::pack(const Shape& shape, const std::vector<ir::Instruction*>& leaves,
                                    std::size_t* next) {
  if (!shape.is_tuple) return leaves[(*next)++];
  std::vector<ir::Instruction*> elements;
  for (const Shape& e : shape.elements) elements.push_back(pack(e, leaves, next));
  return b().tuple(elements);
}

std::vector<TensorSharding> layouts_to_try(const ShardBuilder& emit, const Dims& global,
                                           const Dims& changed,
                                           const std::vector<TensorSharding>& ends) {
  std::vector<TensorSharding> out;
  auto add = [&](const TensorSharding& s) {
    for (const TensorSharding& o : out) {
      if (same_layout(o, s)) return;
    }
    out.push_back(s);
  };
  for (const TensorSharding& e : ends) {
    TensorSharding end = reduced(e);
    add(end);
    IndexList axes = axes_on(end, changed);
    if (axes.empty()) continue;
    TensorSharding rest = without_dims(end, changed);
    for (std::size_t d = 0; d < global.size(); ++d) {
      if (contains(changed, std::int64_t(d))) continue;
      if (global[d] % (end.shards(std::int64_t(d)) * emit.ways(axes)) != 0) continue;
      TensorSharding moved = rest;
      moved.dims[d].axes.insert(moved.dims[d].axes.end(), axes.begin(), axes.end());
      add(moved);
    }
    add(rest);
  }
  return out;
}

Shape local_shape(const Shape& global, const TensorSharding& s) {
  if (!global.is_array()) return global;
  return Shape(global.dtype, s.shard_dims(global.dims));
}

namespace {

Shape local_tuple_at(const Shape& shape, const std::vector<TensorSharding>& s, std::size_t* next) {
  if (!shape.is_tuple) return local_shape(shape, s[(*next)++]);
  std::vector<Shape> elements;
  for (const Shape& e : shape.elements) elements.push_back(local_tuple_at(e, s, next));
  return Shape::tuple(elements);
}

}  // namespace

Shape local_tuple(const Shape& shape, const std::vector<TensorSharding>& s) {
  std::size_t next = 0;
  return local_tuple_at(shape, s, &next);
}

}  // namespace tessera::spmd
