// SPDX-License-Identifier: Apache-2.0
// Units are stretches of blocks of the counter, which depend on nothing but their number.
#include "src/codegen/kernels/elementwise/random_bits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/evaluator/counter_bits.h"
#include "src/ir/text_attributes.h"

namespace tessera::codegen {
namespace {

using evaluator::high;
using evaluator::low;
using evaluator::Word;
using runtime::KernelCall;

/// Blocks of a unit.
constexpr std::int64_t kBlocksOfUnit = 1024;

struct RandomBits {
  bool three_fry = false;
  bool has_high_part = false;  ///< of Philox' counter, in the state
  bool returns_state = false;
  std::int64_t count = 0;   ///< elements
  std::int64_t blocks = 0;  ///< that are used
  std::int64_t n = 1, inner = 1;
};

/// The counter at a block.
struct BlockCounter {
  const RandomBits& a;
  const std::uint64_t* state;

  std::array<Word, 2> key() const { return {low(state[0]), high(state[0])}; }
  std::array<Word, 2> threefry(std::int64_t block) const {
    const std::uint64_t at = state[1] + std::uint64_t(block);
    return evaluator::threefry({low(at), high(at)}, key());
  }
  std::uint64_t high_part(std::uint64_t low_part) const {
    // A state of two is (key, low part): its key is also the counter's high part.
    return (a.has_high_part ? state[2] : state[0]) + (low_part < state[1] ? 1 : 0);
  }
  std::array<Word, 4> philox(std::int64_t block) const {
    const std::uint64_t lo = state[1] + std::uint64_t(block), hi = high_part(lo);
    return evaluator::philox({low(lo), high(lo), low(hi), high(hi)}, key());
  }
};

template <class T>
void make_blocks(const RandomBits& a, const BlockCounter& counter, std::int64_t begin,
                 std::int64_t end, T* out) {
  constexpr bool kWide = sizeof(T) == 8;
  if (a.three_fry && kWide) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto w = counter.threefry(i);
      out[i] = T(evaluator::join_words(w[0], w[1]));
    }
  } else if (a.three_fry) {
    const std::int64_t half = (a.n + 1) / 2;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % a.inner, row = i / a.inner % half, o = i / a.inner / half;
      const auto w = counter.threefry(i);
      T* const to = out + (o * a.n + 2 * row) * a.inner + column;
      to[0] = T(w[0]);
      if (2 * row + 1 < a.n) to[a.inner] = T(w[1]);
    }
  } else {
    constexpr std::int64_t kEach = kWide ? 2 : 4;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto w = counter.philox(i);
      T made[kEach];
      for (std::size_t k = 0; k < std::size_t(kEach); ++k) {
        made[k] = kWide ? T(evaluator::join_words(w[2 * k % 4], w[(2 * k + 1) % 4])) : T(w[k]);
      }
      std::copy_n(made, std::min(kEach, a.count - i * kEach), out + i * kEach);
    }
  }
}

template <class T>
void run_random_bits(const KernelCall& call) {
  const auto& a = *static_cast<const RandomBits*>(call.attributes);
  std::uint64_t state[3] = {0, 0, 0};
  const std::size_t words = a.has_high_part ? 3 : 2;
  std::memcpy(state, call.inputs[0], words * sizeof(std::uint64_t));
  const BlockCounter counter{a, state};
  T* const out = reinterpret_cast<T*>(call.outputs[a.returns_state ? 1 : 0]);
  make_blocks(a, counter, call.begin * kBlocksOfUnit, std::min(a.blocks, call.end * kBlocksOfUnit),
              out);
  if (!a.returns_state || call.begin != 0) return;
  std::uint64_t next[3] = {state[0], state[1] + std::uint64_t(a.blocks), 0};
  next[2] = counter.high_part(next[1]);
  std::memcpy(call.outputs[0], next, words * sizeof(std::uint64_t));
}

/// The low word counts, the high one tells streams apart.
struct RandomState {
  std::uint64_t stream = 0, delta = 0;
  mutable std::atomic<std::uint64_t> next{0};
};

void run_random_state(const KernelCall& call) {
  const auto& a = *static_cast<const RandomState*>(call.attributes);
  const std::uint64_t state[2] = {a.next.fetch_add(a.delta, std::memory_order_relaxed), a.stream};
  std::memcpy(call.outputs[0], state, sizeof state);
}

/// The same in every process (FNV-1a).
std::uint64_t stream_of(const ir::Instruction& state) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::string* name : {&state.parent->name(), &state.name}) {
    for (const char c : *name + '/') hash = (hash ^ std::uint8_t(c)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace

KernelDescriptor random_state_kernel(const ir::Instruction& state) {
  const std::uint64_t stream = stream_of(state);
  const auto delta = std::uint64_t(ir::text_integer(state.attrs, "delta", 0));
  KernelDescriptor kernel;
  kernel.nanoseconds = prices::call::kRandomBits;
  kernel.key = kernel_key("random-state", stream, delta);
  kernel.make = [stream, delta] {
    auto made = std::make_shared<RandomState>();
    made->stream = stream;
    made->delta = delta;
    return runtime::Kernel{run_random_state, std::move(made)};
  };
  return kernel;
}

KernelDescriptor random_bits_kernel(const ir::Instruction& generator) {
  const Shape& state = generator.operand(0)->shape;
  const std::string& kind = generator.get<ir::RngAttrs>().kind;
  RandomBits a;
  a.three_fry = kind == "rng_three_fry";
  if ((!a.three_fry && kind != "rng_philox" && kind != "rng_default") ||
      state.dtype != DType::u64 || state.rank() != 1 || state.dim(0) < 2 || state.dim(0) > 3) {
    return {};
  }
  a.returns_state = generator.shape.is_tuple;
  const Shape& out = a.returns_state ? generator.shape.elements.at(1) : generator.shape;
  const std::size_t bytes = byte_size(out.dtype);
  a.has_high_part = state.dim(0) == 3;
  a.count = out.element_count();
  if (a.three_fry) {
    // Its third word stays as it is, which is rare enough for the evaluator.
    if (a.has_high_part) return {};
    const evaluator::ThreefryOrder order(out.dims);
    a.n = order.n;
    a.inner = order.inner;
    a.blocks = bytes == 8 ? a.count : order.blocks();
  } else {
    a.blocks = ((bytes == 8 ? 2 : 1) * a.count + 3) / 4;
  }
  KernelDescriptor kernel;
  kernel.units = std::max<std::int64_t>(1, (a.blocks + kBlocksOfUnit - 1) / kBlocksOfUnit);
  kernel.nanoseconds = prices::call::kRandomBits + prices::other::kRandomBlock * double(a.blocks);
  kernel.key = kernel_key("random-bits", out.dtype, a.three_fry, a.has_high_part, a.returns_state,
                          a.count, a.blocks, a.n, a.inner);
  const runtime::KernelFunction function = bytes == 1   ? run_random_bits<std::uint8_t>
                                           : bytes == 2 ? run_random_bits<std::uint16_t>
                                           : bytes == 4 ? run_random_bits<std::uint32_t>
                                           : bytes == 8 ? run_random_bits<std::uint64_t>
                                                        : nullptr;
  if (function == nullptr) return {};
  kernel.make = kernel_maker(function, a);
  return kernel;
}

}  // namespace tessera::codegen
