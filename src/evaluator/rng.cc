// SPDX-License-Identifier: Apache-2.0
// Counter-based random bits. A state of u64[2] is (key, counter); Philox may have u64[3], whose
// last two are a counter of 128 bits.
#include <array>
#include <cmath>

#include "src/evaluator/counter_bits.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/wide.h"

namespace tessera::evaluator {
namespace {

/// 32-bit words of Threefry.
std::vector<std::uint64_t> threefry_words(const Dims& shape, std::array<Word, 2> key,
                                          std::uint64_t counter, std::uint64_t& used) {
  const ThreefryOrder order(shape);
  const std::int64_t outer = order.outer, n = order.n, inner = order.inner, half = order.half();
  used = std::uint64_t(order.blocks());
  std::vector<std::uint64_t> words(std::size_t(outer * n * inner));
  std::uint64_t block = counter;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t h = 0; h < half; ++h) {
      for (std::int64_t i = 0; i < inner; ++i, ++block) {
        const auto pair = threefry({low(block), high(block)}, key);
        for (std::int64_t side = 0; side < 2; ++side) {
          const std::int64_t at = 2 * h + side;
          if (at < n) words[std::size_t((o * n + at) * inner + i)] = pair[std::size_t(side)];
        }
      }
    }
  }
  return words;
}

}  // namespace

Literal eval_rng_bit_generator(const ir::Instruction& in, Operands xs) {
  const Literal& state = *xs[0];
  const Shape& out = in.shape.is_tuple ? in.shape.elements.at(1) : in.shape;
  const std::string& kind = in.get<ir::RngAttrs>().kind;
  const bool three_fry = kind == "rng_three_fry";
  if (!three_fry && kind != "rng_philox" && kind != "rng_default") {
    throw NotImplementedError(in.describe() + ": unknown algorithm " + kind, in.location());
  }
  if (state.dtype() != DType::u64 || state.element_count() < 2 || state.element_count() > 3) {
    throw ShapeError(in.describe() + ": the state must be u64[2] or (Philox) u64[3], not " +
                         state.shape().to_string(),
                     in.location());
  }
  const int width = int(byte_size(out.dtype)) * 8;
  const std::int64_t n = out.element_count();
  Literal next = state;
  auto s = next.mutable_data<std::uint64_t>();
  const std::array<Word, 2> key = {low(s[0]), high(s[0])};
  std::vector<std::uint64_t> bits;
  if (three_fry) {
    std::uint64_t used = std::uint64_t(n);
    if (width == 64) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t block = s[1] + std::uint64_t(i);
        const auto pair = threefry({low(block), high(block)}, key);
        bits.push_back(join_words(pair[0], pair[1]));
      }
    } else {
      bits = threefry_words(out.dims, key, s[1], used);
    }
    s[1] += used;
  } else {
    // A state of two is (key, low part): its key is also the counter's high part.
    const bool has_high_part = state.element_count() == 3;
    const std::uint64_t low64 = s[1], high64 = has_high_part ? s[2] : s[0];
    const std::int64_t words = width == 64 ? 2 * n : n;
    const std::uint64_t blocks = std::uint64_t(ceil_div(words, 4));
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const std::uint64_t lo = low64 + b, hi = high64 + (lo < low64 ? 1 : 0);
      const auto w = philox({low(lo), high(lo), low(hi), high(hi)}, key);
      if (width == 64) {
        bits.push_back(join_words(w[0], w[1]));
        bits.push_back(join_words(w[2], w[3]));
      } else {
        for (Word v : w) bits.push_back(v);
      }
    }
    bits.resize(std::size_t(n));
    s[1] = low64 + blocks;
    if (has_high_part) s[2] = high64 + (s[1] < low64 ? 1 : 0);
  }
  Literal values(Shape(out.dtype, out.dims));
  store_bits(byte_size(out.dtype), bits.data(), n, values.mutable_bytes());
  if (!in.shape.is_tuple) return values;
  return Literal::tuple({std::move(next), std::move(values)});
}

Literal eval_rng(const ir::Instruction& in, Operands xs, std::uint64_t counter) {
  const bool normal = in.get<ir::RngAttrs>().kind == "rng_normal";
  if (!normal && in.get<ir::RngAttrs>().kind != "rng_uniform") {
    throw NotImplementedError(
        in.describe() + ": unknown distribution " + in.get<ir::RngAttrs>().kind, in.location());
  }
  const DType t = in.shape.dtype;
  const std::int64_t n = in.shape.element_count();
  // The stream of an operation depends on where it stands.
  const std::array<Word, 2> key = {Word(in.index), 0x7e55e7a0u};
  const auto words_at = [&](std::int64_t i) {
    const std::uint64_t block = std::uint64_t(i);
    return philox({low(block), high(block), low(counter), high(counter)}, key);
  };
  const auto fraction = [](Word a, Word b) {
    return double(join_words(a, b) >> 11) * 0x1p-53;  // in [0, 1)
  };
  Literal out(Shape(t, in.shape.dims));
  if (domain_of(t) == Domain::integer) {
    if (normal) {
      throw DTypeError(
          in.describe() + ": rng_normal makes floating point numbers, not " + std::string(name(t)),
          in.location());
    }
    const std::uint64_t from = load_all<std::uint64_t>(*xs[0]).at(0);
    const std::uint64_t span = load_all<std::uint64_t>(*xs[1]).at(0) - from;
    std::vector<std::uint64_t> v(std::size_t(n), from);
    for (std::int64_t i = 0; i < n && span != 0; ++i) {
      const auto w = words_at(i);
      v[std::size_t(i)] += join_words(w[0], w[1]) % span;
    }
    store(t, v.data(), n, out.mutable_bytes());
    return out;
  }
  const double a = load_all<double>(*xs[0]).at(0), b = load_all<double>(*xs[1]).at(0);
  std::vector<double> v(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto w = words_at(i);
    const double u = fraction(w[0], w[1]);
    if (normal) {
      const double angle = 2 * 3.14159265358979323846 * fraction(w[2], w[3]);
      v[std::size_t(i)] = a + b * std::sqrt(-2 * std::log(1 - u)) * std::cos(angle);
    } else {
      v[std::size_t(i)] = a + (b - a) * u;
    }
  }
  store(t, v.data(), n, out.mutable_bytes());
  if (normal || !(a < b)) return out;
  // Rounding may reach the upper bound, which is none of the numbers.
  std::vector<double> kept = load_all<double>(out);
  for (double& x : kept) x = x >= b ? a : x;
  store(t, kept.data(), n, out.mutable_bytes());
  return out;
}

}  // namespace tessera::evaluator
