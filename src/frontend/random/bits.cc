// SPDX-License-Identifier: Apache-2.0
// Keys, the threefry hash, random bits.
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::frontend {

using internal::impl_of;
using ir::Opcode;

void check_key(const std::string& op, const Operand& key) {
  const tessera::Shape& shape = impl_of(key.array, key.location).shape;
  if (shape.dtype != u32) {
    throw DTypeError(
        op + ": the key is " + shape.to_string() + "; a key is u32[2], made by random::key",
        key.location);
  }
  if (shape.dims == Dims{2}) return;
  const bool several = !shape.dims.empty() && shape.dims.back() == 2;
  throw ShapeError(op + ": the key is " + shape.to_string() +
                       (several ? ", an array of keys; take one of them, as index(keys, {0})"
                                : "; a key is u32[2], made by random::key"),
                   key.location);
}

KeyWords key_words(const Operand& key) {
  auto word = [&](std::int64_t i) {
    return Located{
        reshaped(sliced_dim(key.array, 0, i, i + 1, key.location, "random_key"), {}, key.location),
        key.location};
  };
  return {word(0), word(1)};
}

void check_random_shape(const std::string& op, const Dims& dims, Location location) {
  for (std::int64_t d : dims) {
    if (d < 0) {
      throw ShapeError(op + " of shape " + to_string(dims) + ": sizes must be 0 or more", location);
    }
  }
  check_size(op, tessera::Shape(u32, dims), location);
}

namespace {

/// Computation from (k0, k1, x0, x1) to the two words of the hash; keys are scalars or arrays.
ir::Computation* threefry_computation(ir::Module* module, const Dims& key_dims, const Dims& dims) {
  ir::Builder b(module->add_computation("threefry2x32"));
  b.metadata.edit().op_name = "threefry2x32";
  const tessera::Shape words(u32, key_dims), block(u32, dims);
  ir::Instruction* k0 = b.parameter(0, words, "k0");
  ir::Instruction* k1 = b.parameter(1, words, "k1");
  ir::Instruction* x0 = b.parameter(2, block, "x0");
  ir::Instruction* x1 = b.parameter(3, block, "x1");
  auto word = [&](std::uint32_t v) { return b.splat(b.scalar(u32, double(v)), key_dims); };
  auto for_each = [&](ir::Instruction* k) { return key_dims == dims ? k : b.splat(k, dims); };
  auto plus = [&](ir::Instruction* x, ir::Instruction* y) { return b.binary(Opcode::add, x, y); };
  ir::Instruction* k2 = b.binary(Opcode::xor_, b.binary(Opcode::xor_, k0, k1), word(0x1BD11BDAu));
  ir::Instruction* const keys[3] = {k0, k1, k2};
  constexpr std::uint32_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  ir::Instruction *left[2][4], *right[2][4];
  for (int set = 0; set < 2; ++set) {
    for (int i = 0; i < 4; ++i) {
      left[set][i] = b.splat(b.scalar(u32, kRotations[set][i]), dims);
      right[set][i] = b.splat(b.scalar(u32, 32 - kRotations[set][i]), dims);
    }
  }
  x0 = plus(x0, for_each(k0));
  x1 = plus(x1, for_each(k1));
  for (int i = 0; i < 5; ++i) {
    for (int r = 0; r < 4; ++r) {
      x0 = plus(x0, x1);
      x1 = b.binary(Opcode::or_, b.binary(Opcode::shift_left, x1, left[i % 2][r]),
                    b.binary(Opcode::shift_right_logical, x1, right[i % 2][r]));
      x1 = b.binary(Opcode::xor_, x1, x0);
    }
    x0 = plus(x0, for_each(keys[(i + 1) % 3]));
    x1 = plus(x1, for_each(plus(keys[(i + 2) % 3], word(std::uint32_t(i) + 1))));
  }
  b.computation()->set_root(b.tuple({x0, x1}));
  return b.computation();
}

}  // namespace

std::pair<Located, Located> threefry(const KeyWords& key, const Located& x0, const Located& x1) {
  const Dims dims = x0.array.shape(), key_dims = key.first.array.shape();
  const std::vector<Array> operands{key.first.array, key.second.array, x0.array, x1.array};
  const std::vector<Array> words = apply_many(
      Opcode::call, operands, {}, x0.location, "threefry2x32", nullptr, [&](ir::Module* module) {
        Trace::CachedCall& made =
            Trace::current()
                ->calls()[{"threefry2x32 " + to_string(key_dims) + " " + to_string(dims), {}}];
        if (!made.computation) made.computation = threefry_computation(module, key_dims, dims);
        return std::vector<ir::Computation*>{made.computation};
      });
  return {x0.with(words[0]), x0.with(words[1])};
}

std::pair<Located, Located> hashed_positions(const KeyWords& key, const Dims& dims) {
  const Location l = key.first.location;
  const bool large = element_count(dims) > (std::int64_t(1) << 32);
  const DType t = large ? u64 : u32;
  // The row-major index of an element is computed from iotas, so that devices compute only their
  // parts of split arrays.
  const Dims strides = row_major_strides(dims);
  Located number{broadcasted(program_constant(t, 0), dims, l), l};
  bool first = true;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    Located at{iota(t, dims, std::int64_t(d), l), l};
    if (strides[d] != 1) at = at * at.with(program_constant(Literal::scalar(t, strides[d])));
    number = first ? at : number + at;
    first = false;
  }
  if (!large)
    return threefry(key, number.with(broadcasted(program_constant(u32, 0), dims, l)), number);
  return threefry(key, as_type(shifted_right(number, 32), u32), as_type(number, u32));
}

KeyWords child_keys(const KeyWords& keys, std::uint32_t which) {
  const Dims& dims = keys.first.array.shape();
  const Location l = keys.first.location;
  auto filled = [&](std::uint32_t v) {
    return Located{broadcasted(program_constant(Literal::scalar(u32, v)), dims, l), l};
  };
  return threefry(keys, filled(0), filled(which));
}

std::vector<KeyWords> split_in(const KeyWords& key, std::int64_t n) {
  const auto [a, b] = hashed_positions(key, {n});
  const Location l = key.first.location;
  auto word = [&](const Located& x, std::int64_t i) {
    return x.with(reshaped(sliced_dim(x.array, 0, i, i + 1, l, "random_key"), {}, l));
  };
  std::vector<KeyWords> out;
  for (std::int64_t i = 0; i < n; ++i) out.emplace_back(word(a, i), word(b, i));
  return out;
}

std::pair<KeyWords, KeyWords> split_in_two(const KeyWords& key) {
  const std::vector<KeyWords> both = split_in(key, 2);
  return {both[0], both[1]};
}

namespace {

Located bits_of(const std::pair<Located, Located>& words, int width) {
  const auto& [a, b] = words;
  if (width == 64) return shifted_left(as_type(a, u64), 32) | as_type(b, u64);
  const Located word = a ^ b;
  return width == 32 ? word : as_type(word, width == 16 ? u16 : u8);
}

}  // namespace

Located random_bits(const KeyWords& key, const Dims& dims, int width) {
  return bits_of(hashed_positions(key, dims), width);
}

Located random_bits_each(const KeyWords& keys, int width) {
  return bits_of(child_keys(keys, 0), width);
}

}  // namespace tessera::frontend

namespace tessera::random {

using frontend::composed;
using frontend::Located;
using internal::impl_of;

Array key(Operand seed) {
  const tessera::Shape& shape = impl_of(seed.array, seed.location).shape;
  if (!is_integer(shape.dtype) || shape.rank() != 0) {
    throw TypeError(
        "random::key: the seed is " + shape.to_string() + "; it must be an integer scalar",
        seed.location);
  }
  if (const Literal* known = frontend::constant_value(seed.array);
      known && !frontend::Trace::current()) {
    const std::uint64_t v = shape.dtype == u64 ? to_scalar<std::uint64_t>(*known)
                                               : std::uint64_t(to_scalar<std::int64_t>(*known));
    return frontend::from_literal(make_literal(
        u32, {2}, std::vector<std::uint32_t>{std::uint32_t(v >> 32), std::uint32_t(v)}));
  }
  return composed("random_key", seed.location, [&] {
    Located s{seed.array, seed.location};
    // All 64 bits of a plain number count, even if it has a narrower type.
    if (seed.array.weak_type()) s = frontend::as_type(s, s64);
    const bool wide = byte_size(s.dtype()) == 8;
    if (wide) s = frontend::same_bits(s, u64);
    const Located low = frontend::as_type(s, u32);
    const Located high =
        wide ? frontend::as_type(frontend::shifted_right(s, 32), u32) : low.constant(0);
    return stack({high.array, low.array}, 0, seed.location);
  });
}

Array PRNGKey(Operand seed) { return random::key(seed); }

namespace {

void check_keys(const std::string& op, const Operand& keys) {
  const tessera::Shape& shape = impl_of(keys.array, keys.location).shape;
  const std::string found = op + ": the keys are " + shape.to_string();
  if (shape.dtype != u32) throw DTypeError(found + "; keys are u32[.., 2]", keys.location);
  if (shape.dims.empty() || shape.dims.back() != 2) {
    throw ShapeError(found + "; keys are u32[.., 2]", keys.location);
  }
}

}  // namespace

Array key_data(Operand keys) {
  check_keys("random::key_data", keys);
  return keys.array;
}
Array wrap_key_data(Operand words) {
  check_keys("random::wrap_key_data", words);
  return words.array;
}
std::string key_impl(Operand keys) {
  check_keys("random::key_impl", keys);
  return "threefry2x32";
}
Array clone(Operand key) {
  check_keys("random::clone", key);
  return key.array;
}

Array split(Operand key, std::int64_t n) { return random::split(key, Shape{n}); }
Array split(Operand key, Shape shape) {
  frontend::check_key("random::split", key);
  frontend::check_random_shape("random::split", shape, key.location);
  return composed("random_split", key.location, [&] {
    const auto [a, b] = frontend::hashed_positions(frontend::key_words(key), shape);
    return stack({a.array, b.array}, -1, key.location);
  });
}

Array fold_in(Operand key, Operand data) {
  frontend::check_key("random::fold_in", key);
  const tessera::Shape& shape = impl_of(data.array, key.location).shape;
  if (!is_integer(shape.dtype) || shape.rank() != 0) {
    throw TypeError(
        "random::fold_in: the data is " + shape.to_string() + "; it must be an integer scalar",
        key.location);
  }
  return composed("random_fold_in", key.location, [&] {
    const Located low = frontend::as_type({data.array, key.location}, u32);
    const auto [a, b] = frontend::threefry(frontend::key_words(key), low.constant(0), low);
    return stack({a.array, b.array}, 0, key.location);
  });
}

Array bits(Operand key, Shape shape, DType dtype) {
  frontend::check_key("random::bits", key);
  frontend::check_random_shape("random::bits", shape, key.location);
  if (dtype != u8 && dtype != u16 && dtype != u32 && dtype != u64) {
    throw DTypeError(
        "random::bits as " + std::string(name(dtype)) + "; valid are u8, u16, u32 and u64",
        key.location);
  }
  return composed("random_bits", key.location, [&] {
    return frontend::random_bits(frontend::key_words(key), shape, int(byte_size(dtype)) * 8).array;
  });
}

}  // namespace tessera::random
