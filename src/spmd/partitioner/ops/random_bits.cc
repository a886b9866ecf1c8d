// SPDX-License-Identifier: Apache-2.0
// Random bits of a counter: each device computes the blocks that its own elements come from, so
// that bits depend on an element's place in the array and not on the mesh. A shard that is one run
// of the array is made by the same op from an advanced counter; of any other the blocks are
// computed here.
#include <algorithm>
#include <array>

#include "src/base/arrays/literal_util.h"
#include "src/base/check.h"
#include "src/spmd/partitioner/families.h"

namespace tessera::spmd {

namespace {

using ir::Opcode;
using Words = std::vector<ir::Instruction*>;

/// Which elements share one block of the generator: `per_block` neighbours along `dim`.
struct Blocks {
  bool three_fry = false;
  std::int64_t dim = 0, per_block = 1;
  bool aligned = true;  ///< no block reaches from one row into the next
  Dims counts;          ///< of blocks along each dim, where aligned
};

Blocks blocks_of(const Shape& out, bool three_fry) {
  Blocks b;
  b.three_fry = three_fry;
  b.counts = out.dims;
  const bool wide = byte_size(out.dtype) == 8;
  if (!three_fry) {
    b.dim = out.rank() - 1;
    b.per_block = wide ? 2 : 4;
    b.aligned = out.dims.back() % b.per_block == 0;
  } else if (!wide) {
    // The first even dim, or the longest if there is none.
    b.per_block = 2;
    auto even = std::find_if(out.dims.begin(), out.dims.end(), [](auto n) { return n % 2 == 0; });
    if (even == out.dims.end()) even = std::max_element(out.dims.begin(), out.dims.end());
    b.dim = even - out.dims.begin();
  }
  std::int64_t& count = b.counts[std::size_t(b.dim)];
  count = ceil_div(count, b.per_block);
  return b;
}

class Generator {
 public:
  Generator(PartitionContext& p, ir::Instruction* state, bool three_fry)
      : b_(p.b()), three_fry_(three_fry) {
    for (std::int64_t i = 0; i < state->shape.dim(0); ++i) {
      state_.push_back(b_.reshape(b_.slice(state, {i}, {i + 1}), {}));
    }
  }

  ir::Instruction* u64_constant(std::uint64_t v) { return b_.constant(Literal::scalar(u64, v)); }

  /// The state that begins `blocks` (u64[]) later; `full`: with the counter's upper half.
  ir::Instruction* advanced(ir::Instruction* blocks, bool full) {
    ir::Instruction* low = b_.binary(Opcode::add, state_[1], blocks);
    Words parts{state_[0], low};
    if (full) {
      ir::Instruction* carry = b_.convert(b_.compare(ir::Direction::lt, low, state_[1]), u64);
      parts.push_back(b_.binary(Opcode::add, state_.size() == 3 ? state_[2] : state_[0], carry));
    }
    for (ir::Instruction*& x : parts) x = b_.reshape(x, {1});
    return b_.concatenate(parts, 0);
  }

  /// The words of the blocks with these numbers (u64), as elements of that width.
  Words words(ir::Instruction* block, bool wide) {
    Words w = three_fry_ ? three_fry(block) : philox(block);
    if (!wide) return w;
    Words out;
    for (std::size_t i = 0; i + 1 < w.size(); i += 2) {
      ir::Instruction* high =
          binary(Opcode::shift_left, b_.convert(w[i + 1], u64), u64_constant(32));
      out.push_back(b_.binary(Opcode::or_, b_.convert(w[i], u64), high));
    }
    return out;
  }

 private:
  ir::Instruction* binary(Opcode op, ir::Instruction* x, ir::Instruction* scalar) {
    return b_.binary(op, x, b_.splat(scalar, x->shape.dims));
  }
  ir::Instruction* word(std::uint32_t v) { return b_.constant(Literal::scalar(u32, v)); }
  ir::Instruction* low(ir::Instruction* x) { return b_.convert(x, u32); }
  ir::Instruction* high(ir::Instruction* x) {
    return b_.convert(binary(Opcode::shift_right_logical, x, u64_constant(32)), u32);
  }

  /// Threefry-2x32 of 20 rounds.
  Words three_fry(ir::Instruction* block) {
    constexpr std::array<std::uint32_t, 8> kTurns = {13, 15, 26, 6, 17, 29, 16, 24};
    ir::Instruction* counter = binary(Opcode::add, block, state_[1]);
    const std::array<ir::Instruction*, 2> key = {low(state_[0]), high(state_[0])};
    ir::Instruction* both = b_.binary(Opcode::xor_, key[0], key[1]);
    const std::array<ir::Instruction*, 3> keys = {key[0], key[1],
                                                  b_.binary(Opcode::xor_, both, word(0x1BD11BDAu))};
    ir::Instruction* x = binary(Opcode::add, low(counter), keys[0]);
    ir::Instruction* y = binary(Opcode::add, high(counter), keys[1]);
    for (std::size_t group = 0; group < 5; ++group) {
      for (std::size_t r = 0; r < 4; ++r) {
        const std::uint32_t turn = kTurns[group % 2 * 4 + r];
        x = b_.binary(Opcode::add, x, y);
        ir::Instruction* left = binary(Opcode::shift_left, y, word(turn));
        ir::Instruction* right = binary(Opcode::shift_right_logical, y, word(32 - turn));
        y = b_.binary(Opcode::xor_, b_.binary(Opcode::or_, left, right), x);
      }
      x = binary(Opcode::add, x, keys[(group + 1) % 3]);
      ir::Instruction* k =
          b_.binary(Opcode::add, keys[(group + 2) % 3], word(std::uint32_t(group) + 1));
      y = binary(Opcode::add, y, k);
    }
    return {x, y};
  }

  /// Philox-4x32 of 10 rounds.
  Words philox(ir::Instruction* block) {
    ir::Instruction* lower = binary(Opcode::add, block, state_[1]);
    ir::Instruction* start = b_.splat(state_[1], block->shape.dims);
    ir::Instruction* carry = b_.convert(b_.compare(ir::Direction::lt, lower, start), u64);
    ir::Instruction* upper = binary(Opcode::add, carry, state_.size() == 3 ? state_[2] : state_[0]);
    Words x = {low(lower), high(lower), low(upper), high(upper)};
    std::array<ir::Instruction*, 2> key = {low(state_[0]), high(state_[0])};
    for (int round = 0; round < 10; ++round) {
      ir::Instruction* p =
          binary(Opcode::multiply, b_.convert(x[0], u64), u64_constant(0xD2511F53u));
      ir::Instruction* q =
          binary(Opcode::multiply, b_.convert(x[2], u64), u64_constant(0xCD9E8D57u));
      x = {binary(Opcode::xor_, b_.binary(Opcode::xor_, high(q), x[1]), key[0]), low(q),
           binary(Opcode::xor_, b_.binary(Opcode::xor_, high(p), x[3]), key[1]), low(p)};
      key[0] = b_.binary(Opcode::add, key[0], word(0x9E3779B9u));
      key[1] = b_.binary(Opcode::add, key[1], word(0xBB67AE85u));
    }
    return x;
  }

  ir::Builder& b_;
  Words state_;
  bool three_fry_;
};

/// Places along a dim, in u64: the device's first plus 0, 1, ..., spread over the other dims.
ir::Instruction* places(PartitionContext& p, const Dims& dims, std::int64_t dim,
                        ir::Instruction* first) {
  ir::Builder& b = p.b();
  ir::Instruction* x = b.iota(Shape(u64, dims), dim);
  return b.binary(Opcode::add, x, b.splat(b.convert(first, u64), dims));
}

/// Row-major numbers of elements (or blocks) of an array of `counts`, from their places.
ir::Instruction* numbers(PartitionContext& p, const Dims& counts, const Words& at) {
  ir::Builder& b = p.b();
  ir::Instruction* sum = at[0];
  for (std::size_t d = 1; d < at.size(); ++d) {
    ir::Instruction* size = b.constant(Literal::scalar(u64, std::uint64_t(counts[d])));
    sum = b.binary(Opcode::multiply, sum, b.splat(size, sum->shape.dims));
    sum = b.binary(Opcode::add, sum, at[d]);
  }
  return sum;
}

/// The shard's blocks, each computed once and laid out as its elements are.
ir::Instruction* aligned_blocks(PartitionContext& p, Generator& generator, const Blocks& blocks,
                                const TensorSharding& s, const Shape& global) {
  ir::Builder& b = p.b();
  const Dims local = s.shard_dims(global.dims);
  const std::size_t g = std::size_t(blocks.dim);
  Dims dims = local;
  dims[g] = ceil_div(dims[g], blocks.per_block);
  Words at;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto table = ByCoordinate::line(s.shards(std::int64_t(d)), 0, dims[d]);
    at.push_back(places(p, dims, std::int64_t(d), p.emit.lookup(table, s.dims[d].axes)));
  }
  Words words = generator.words(numbers(p, blocks.counts, at), byte_size(global.dtype) == 8);
  Dims one = dims;
  one.insert(one.begin() + blocks.dim + 1, 1);
  for (ir::Instruction*& w : words) w = b.reshape(b.convert(w, global.dtype), one);
  words.resize(std::size_t(blocks.per_block));
  ir::Instruction* x = words.size() == 1 ? words[0] : b.concatenate(words, blocks.dim + 1);
  dims[g] *= blocks.per_block;
  return p.emit.resized(b.reshape(x, dims), blocks.dim, local[g]);
}

/// Each element computes its block and takes one word of it.
ir::Instruction* each_its_block(PartitionContext& p, Generator& generator, const Blocks& blocks,
                                const TensorSharding& s, const Shape& global) {
  ir::Builder& b = p.b();
  const Dims local = s.shard_dims(global.dims);
  Words at;
  for (std::size_t d = 0; d < local.size(); ++d) {
    const std::int64_t dim = std::int64_t(d);
    at.push_back(places(p, local, dim, p.emit.shard_offset(s, dim, global.dims[d])));
  }
  ir::Instruction* size = b.splat(generator.u64_constant(std::uint64_t(blocks.per_block)), local);
  ir::Instruction *side, *block;
  if (blocks.three_fry) {
    ir::Instruction*& along = at[std::size_t(blocks.dim)];
    side = b.binary(Opcode::remainder, along, size);
    along = b.binary(Opcode::divide, along, size);
    block = numbers(p, blocks.counts, at);
  } else {
    ir::Instruction* element = numbers(p, global.dims, at);
    side = b.binary(Opcode::remainder, element, size);
    block = b.binary(Opcode::divide, element, size);
  }
  const Words words = generator.words(block, byte_size(global.dtype) == 8);
  ir::Instruction* x = words[0];
  for (std::int64_t i = 1; i < blocks.per_block; ++i) {
    ir::Instruction* mine = b.splat(generator.u64_constant(std::uint64_t(i)), local);
    x = b.select(b.compare(ir::Direction::eq, side, mine), words[std::size_t(i)], x);
  }
  return b.convert(x, global.dtype);
}

/// Blocks that a device skips if its shard is one run of blocks of the array, else none.
std::optional<std::int64_t> run_of(const Blocks& blocks, const TensorSharding& s,
                                   const Shape& global) {
  const Dims local = s.shard_dims(global.dims);
  std::size_t d = 0;
  while (d < local.size() && global.dims[d] == 1) ++d;
  for (std::size_t i = 0; i < local.size(); ++i) {
    if (i != d && s.shards(std::int64_t(i)) > 1) return std::nullopt;
  }
  std::int64_t elements = 1;
  for (std::int64_t n : local) elements *= n;
  if (elements % blocks.per_block != 0) return std::nullopt;
  if (blocks.three_fry && blocks.per_block > 1) {
    // The shard must pair its elements along the same dim.
    if (std::size_t(blocks.dim) != d || local[d] % 2 != 0) return std::nullopt;
  }
  return elements / blocks.per_block;
}

}  // namespace

void partition_rng_bit_generator(PartitionContext& p, const ir::Instruction& source) {
  const std::vector<Shape> shapes = flatten(source.shape);
  const Shape& out = shapes.back();
  const Shape& key = source.operand(0)->shape;
  const std::string& kind = source.get<ir::RngAttrs>().kind;
  const TensorSharding s = reduced(p.source.shardings(source).back());
  const bool three_fry = kind == "rng_three_fry";
  const bool known = three_fry || kind == "rng_philox" || kind == "rng_default";
  if (is_fully_replicated(s) || out.element_count() == 0 || !known || !is_integer(out.dtype) ||
      key.dtype != u64 || key.rank() != 1 || key.dim(0) < 2 || key.dim(0) > 3) {
    return replicate(p, source, "random bits are made in full from a state that all devices share");
  }
  ir::Builder& b = p.b();
  const Blocks blocks = blocks_of(out, three_fry);
  Value* state = p.values.declared(*source.operand(0));
  state = p.values.reshard(state, p.source.replicated(1), operand_reason(source, 0));
  Generator generator(p, state->local, three_fry);
  const std::int64_t local = ceil_div(out.dims[std::size_t(blocks.dim)], s.shards(blocks.dim));
  const bool fits = s.shards(blocks.dim) == 1 || local % blocks.per_block == 0;
  ir::Instruction* x;
  if (std::optional<std::int64_t> skip = run_of(blocks, s, out)) {
    ir::Instruction* part = b.convert(p.emit.coordinate(used_axes(s)), u64);
    part = b.binary(Opcode::multiply, part, generator.u64_constant(std::uint64_t(*skip)));
    ir::Instruction* from = generator.advanced(part, !three_fry);
    const Shape shard = local_shape(out, s);
    x = b.emit_shaped(Opcode::rng_bit_generator, Shape::tuple({from->shape, shard}), {from},
                      source.attrs);
    x = b.get_tuple_element(x, 1);
  } else {
    x = blocks.aligned && fits ? aligned_blocks(p, generator, blocks, s, out)
                               : each_its_block(p, generator, blocks, s, out);
  }
  std::vector<Value*> results;
  if (shapes.size() > 1) {
    std::int64_t used = 1;
    if (blocks.three_fry || blocks.aligned) {
      for (std::int64_t n : blocks.counts) used *= n;
    } else {
      used = ceil_div(out.element_count(), blocks.per_block);
    }
    ir::Instruction* next = generator.advanced(generator.u64_constant(std::uint64_t(used)),
                                               !three_fry && key.dim(0) == 3);
    if (three_fry && key.dim(0) == 3) {
      next = b.concatenate({next, b.slice(state->local, {2}, {3})}, 0);
    }
    results.push_back(p.values.make(next, p.source.replicated(1), shapes[0]));
  }
  results.push_back(p.values.make(x, s, out));
  p.values.define(source, results);
}

}  // namespace tessera::spmd
