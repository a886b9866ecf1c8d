// SPDX-License-Identifier: Apache-2.0
// Peak memory of programs (views read through, results computed in place, reductions fused), as
// estimated and as measured by the allocator.
#include <numeric>

#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

struct Held {
  std::int64_t estimated = 0, seen = 0, arguments = 0;
};

/// Runs the program on one device, and checks its results against the evaluator's.
Held held_by(const std::string& text) {
  Held out;
  const auto module = ir::parse_hlo(text, "peak");
  Random r(5);
  std::vector<Literal> arguments;
  for (const Instruction* p : module->entry()->parameters()) {
    arguments.push_back(r.literal(p->shape.dtype, p->shape.dims));
    out.arguments += std::int64_t(arguments.back().byte_count());
  }
  const Literal want = evaluator::evaluate(*module, arguments);
  const std::int64_t before = runtime::memory_stats().current;
  const codegen::BuiltPlan built = plan_of(*module);
  out.estimated = codegen::estimate_memory(built.plan, {}).peak;
  std::vector<std::vector<DeviceBuffer>> buffers;
  for (const Literal& a : arguments) buffers.push_back({to_buffer(a)});
  runtime::reset_peak_memory();
  const auto results = runtime::run(built.plan, buffers, {}, nullptr);
  out.seen = runtime::memory_stats().peak - before;
  const std::vector<Literal> leaves = leaves_of(want);
  EXPECT_EQ(results.size(), leaves.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Literal got = from_buffer(results[i][0], leaves[i].shape());
    EXPECT_EQ(difference(got, leaves[i], Program::tolerance(leaves[i].dtype(), 16)), "");
  }
  return out;
}

/// All that may be held besides arguments and results: scalars.
constexpr std::int64_t kScalars = 64;

TEST(PeakMemory, ADyingArrayIsSortedInPlace) {
  const Held held = held_by(R"(HloModule sort, entry_computation_layout={(f32[64,64])->f32[64,64]}
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] sine(x)
  ROOT s = f32[64,64] sort(y), dimensions={1}, to_apply=less
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, 2 * held.arguments + kScalars);
}

TEST(PeakMemory, ARolledArrayIsReadInPlace) {
  const Held held = held_by(R"(HloModule roll, entry_computation_layout={(f32[64,64])->f32[64,64]}
ENTRY main {
  x = f32[64,64] parameter(0)
  a = f32[1,64] slice(x), slice={[63:64], [0:64]}
  b = f32[63,64] slice(x), slice={[0:63], [0:64]}
  up = f32[64,64] concatenate(a, b), dimensions={0}
  c = f32[64,1] slice(x), slice={[0:64], [0:1]}
  d = f32[64,63] slice(x), slice={[0:64], [1:64]}
  left = f32[64,64] concatenate(d, c), dimensions={1}
  zero = f32[] constant(0)
  inner = f32[62,64] slice(x), slice={[2:64], [0:64]}
  down = f32[64,64] pad(inner, zero), padding=0_2x0_0
  deep = f32[64,1,64] reshape(left)
  turned = f32[64,1,64] reverse(deep), dimensions={0,2}
  back = f32[64,64] reshape(turned)
  sum = f32[64,64] add(up, back)
  sum2 = f32[64,64] add(sum, down)
  ROOT out = f32[64,64] subtract(sum2, x)
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, 2 * held.arguments + kScalars);
}

TEST(PeakMemory, ASoftmaxHoldsItsInputAndItsResult) {
  const Held held =
      held_by(R"(HloModule softmax, entry_computation_layout={(f32[128,64])->f32[128,64]}
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[128,64] parameter(0)
  lowest = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[128] reduce(x, lowest), dimensions={1}, to_apply=max
  mb = f32[128,64] broadcast(m), dimensions={0}
  less = f32[128,64] subtract(x, mb)
  e = f32[128,64] exponential(less)
  s = f32[128] reduce(e, zero), dimensions={1}, to_apply=sum
  sb = f32[128,64] broadcast(s), dimensions={0}
  p = f32[128,64] divide(e, sb)
  square = f32[128,64] multiply(p, p)
  n = f32[128] reduce(square, zero), dimensions={1}, to_apply=sum
  nb = f32[128,64] broadcast(n), dimensions={0}
  ROOT out = f32[128,64] divide(p, nb)
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, 2 * held.arguments + 2 * 128 * 4 + kScalars);
}

TEST(PeakMemory, AnOptimizersStepHoldsNoTemporaries) {
  const Held held = held_by(
      R"(HloModule adamw, entry_computation_layout={(f32[4096], f32[4096], f32[4096], f32[4096])->(f32[4096], f32[4096], f32[4096])}
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  w = f32[4096] parameter(0)
  m = f32[4096] parameter(1)
  v = f32[4096] parameter(2)
  g = f32[4096] parameter(3)
  zero = f32[] constant(0)
  gg = f32[4096] multiply(g, g)
  norm2 = f32[] reduce(gg, zero), dimensions={0}, to_apply=sum
  norm = f32[] sqrt(norm2)
  normb = f32[4096] broadcast(norm), dimensions={}
  gc = f32[4096] divide(g, normb)
  b1 = f32[] constant(0.9)
  b1b = f32[4096] broadcast(b1), dimensions={}
  m1 = f32[4096] multiply(m, b1b)
  m2 = f32[4096] add(m1, gc)
  g2 = f32[4096] multiply(gc, gc)
  v1 = f32[4096] multiply(v, b1b)
  v2 = f32[4096] add(v1, g2)
  va = f32[4096] abs(v2)
  one = f32[] constant(1)
  oneb = f32[4096] broadcast(one), dimensions={}
  vs = f32[4096] add(va, oneb)
  step = f32[4096] divide(m2, vs)
  w2 = f32[4096] subtract(w, step)
  ROOT out = (f32[4096], f32[4096], f32[4096]) tuple(w2, m2, v2)
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, held.arguments + 4 * 4096 * 4 + kScalars);
}

TEST(PeakMemory, RowsOfAPaddedArrayAreConvolvedFromOneCopy) {
  const Held held = held_by(
      R"(HloModule conv, entry_computation_layout={(f32[2,16,16,4], f32[3,3,4,4])->f32[2,16,16,4]}
ENTRY main {
  x = f32[2,16,16,4] parameter(0)
  k = f32[3,3,4,4] parameter(1)
  zero = f32[] constant(0)
  low = f32[2,16,18,4] pad(x, zero), padding=0_0x0_0x2_0x0_0
  high = f32[2,16,18,4] pad(x, zero), padding=0_0x0_0x0_2x0_0
  at = s32[18] iota(), iota_dimension=0
  nine = s32[] constant(9)
  nines = s32[18] broadcast(nine), dimensions={}
  first = pred[18] compare(at, nines), direction=LT
  mask = pred[2,16,18,4] broadcast(first), dimensions={2}
  both = f32[2,16,18,4] select(mask, low, high)
  ROOT out = f32[2,16,16,4] convolution(both, k), window={size=3x3 pad=1_1x0_0}, dim_labels=b01f_01io->b01f
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, held.arguments + (2 * 16 * 18 * 4 + 2 * 16 * 16 * 4) * 4 + kScalars);
}

TEST(PeakMemory, SumsOfGatheredRowsDontStoreTheRows) {
  const Held held =
      held_by(R"(HloModule embed, entry_computation_layout={(f32[64,32], s32[16,8])->f32[16,32]}
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  table = f32[64,32] parameter(0)
  words = s32[16,8] parameter(1)
  zero = f32[] constant(0)
  rows = f32[16,8,32] gather(table, words), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,32}
  ROOT out = f32[16,32] reduce(rows, zero), dimensions={1}, to_apply=sum
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_EQ(held.seen, held.arguments + 16 * 32 * 4 + 4);
}

TEST(PeakMemory, PartsOfAConcatenationAreComputedInTheirPlaces) {
  const Held held = held_by(
      R"(HloModule stack, entry_computation_layout={(f32[64,32], f32[32])->f32[192,32]}
ENTRY main {
  x = f32[64,32] parameter(0)
  v = f32[32] parameter(1)
  w = f32[64,32] broadcast(v), dimensions={1}
  a = f32[64,32] sine(x)
  b = f32[64,32] multiply(x, w)
  c = f32[64,32] exponential(x)
  ROOT out = f32[192,32] concatenate(a, b, c), dimensions={0}
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_EQ(held.seen, held.arguments + 192 * 32 * 4);
}

TEST(PeakMemory, PartsOfATransposedStackAreComputedWhereItIsReduced) {
  const Held held =
      held_by(R"(HloModule stack, entry_computation_layout={(f32[128], f32[128])->f32[128]}
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[128] parameter(0)
  v = f32[128] parameter(1)
  zero = f32[] constant(0)
  a = f32[128] sine(x)
  b = f32[128] multiply(x, v)
  c = f32[128] exponential(v)
  ra = f32[1,128] reshape(a)
  rb = f32[1,128] reshape(b)
  rc = f32[1,128] reshape(c)
  stack = f32[3,128] concatenate(ra, rb, rc), dimensions={0}
  turned = f32[128,3] transpose(stack), dimensions={1,0}
  square = f32[128,3] multiply(turned, turned)
  ROOT out = f32[128] reduce(square, zero), dimensions={1}, to_apply=sum
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, held.arguments + 128 * 4 + kScalars);
}

TEST(PeakMemory, IndicesOfGathersAreNotStored) {
  const Held held = held_by(
      R"(HloModule sample, entry_computation_layout={(f32[64,64], f32[1024], f32[1024])->f32[1024]}
ENTRY main {
  image = f32[64,64] parameter(0)
  y = f32[1024] parameter(1)
  x = f32[1024] parameter(2)
  fy = f32[1024] floor(y)
  fx = f32[1024] floor(x)
  iy = s32[1024] convert(fy)
  ix = s32[1024] convert(fx)
  cy = s32[1024,1] reshape(iy)
  cx = s32[1024,1] reshape(ix)
  at = s32[1024,2] concatenate(cy, cx), dimensions={1}
  ROOT out = f32[1024] gather(image, at), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_EQ(held.seen, held.arguments + 1024 * 4);
}

TEST(PeakMemory, AWindowOfAPaddedArrayIsTakenWithoutThePadding) {
  const Held held = held_by(
      R"(HloModule window, entry_computation_layout={(f32[32,32], s32[])->f32[32,32]}
ENTRY main {
  x = f32[32,32] parameter(0)
  at = s32[] parameter(1)
  zero = f32[] constant(0)
  none = s32[] constant(0)
  wide = f32[96,32] pad(x, zero), padding=32_32x0_0
  ROOT out = f32[32,32] dynamic-slice(wide, at, none), dynamic_slice_sizes={32,32}
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, held.arguments + 32 * 32 * 4 + kScalars);
}

TEST(PeakMemory, OperandsOfConvolutionsAreComputedInPackedOrder) {
  const Held held = held_by(
      R"(HloModule packed, entry_computation_layout={(f32[2,8,32], f32[3,8,4])->f32[2,4,30]}
ENTRY main {
  x = f32[2,8,32] parameter(0)
  w = f32[3,8,4] parameter(1)
  y = f32[2,8,32] sine(x)
  turned = f32[2,8,32] reverse(y), dimensions={2}
  ROOT out = f32[2,4,30] convolution(turned, w), window={size=3}, dim_labels=bf0_0io->bf0
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  // The packed operand, and the result in both orders.
  EXPECT_EQ(held.seen, held.arguments + 2 * 8 * 32 * 4 + 2 * 4 * 30 * 4);
}

TEST(PeakMemory, OperandsOfReductionsAreComputedInTransposedOrder) {
  const Held held =
      held_by(R"(HloModule packed, entry_computation_layout={(f32[4,4,4,32])->f32[4,32]}
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4,4,4,32] parameter(0)
  zero = f32[] constant(0)
  y = f32[4,4,4,32] exponential(x)
  ROOT out = f32[4,32] reduce(y, zero), dimensions={0,2}, to_apply=sum
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_EQ(held.seen, 2 * held.arguments + 4 * 32 * 4 + 4);
}

TEST(PeakMemory, CheapValuesAreRecomputedForEachSlice) {
  const Held held = held_by(
      R"(HloModule parts, entry_computation_layout={(s8[64,64])->(f32[16,64], f32[16,64], f32[16,64], f32[16,64])}
ENTRY main {
  x = s8[64,64] parameter(0)
  y = f32[64,64] convert(x)
  a = f32[16,64] slice(y), slice={[0:16], [0:64]}
  b = f32[16,64] slice(y), slice={[16:32], [0:64]}
  c = f32[16,64] slice(y), slice={[32:48], [0:64]}
  d = f32[16,64] slice(y), slice={[48:64], [0:64]}
  ROOT out = (f32[16,64], f32[16,64], f32[16,64], f32[16,64]) tuple(a, b, c, d)
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_EQ(held.seen, held.arguments + 64 * 64 * 4);
}

TEST(PeakMemory, CheapFunctionsOfALiveExpensiveArrayAreRecomputed) {
  // The exponential is held for its users; where it is least, is found out for each use.
  const Held held = held_by(
      R"(HloModule least, entry_computation_layout={(f32[4,512])->(f32[4], f32[4], f32[4,512])}
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
min { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] minimum(a, b) }
ENTRY main {
  x = f32[4,512] parameter(0)
  angle = f32[4,512] sine(x)
  bent = f32[4,512] tanh(angle)
  wave = f32[4,512] cosine(bent)
  e = f32[4,512] exponential(wave)
  zero = f32[] constant(0)
  most = f32[] constant(inf)
  sum = f32[4] reduce(e, zero), dimensions={1}, to_apply=add
  least = f32[4] reduce(e, most), dimensions={1}, to_apply=min
  wide = f32[4,512] broadcast(least), dimensions={0}
  at = pred[4,512] compare(e, wide), direction=EQ
  one = f32[4,512] convert(at)
  ties = f32[4] reduce(one, zero), dimensions={1}, to_apply=add
  all = f32[4,512] broadcast(ties), dimensions={0}
  share = f32[4,512] divide(one, all)
  part = f32[4,512] multiply(e, share)
  ROOT r = (f32[4], f32[4], f32[4,512]) tuple(sum, ties, part)
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, 2 * held.arguments + 3 * 16 + kScalars);
}

TEST(PeakMemory, WindowsReadThroughViews) {
  const Held held = held_by(
      R"(HloModule pool, entry_computation_layout={(f32[16,16], f32[])->(f32[8,8], f32[16,8])}
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[16,16] parameter(0)
  v = f32[] parameter(1)
  zero = f32[] constant(0)
  all = f32[32,32] broadcast(v), dimensions={}
  count = f32[8,8] reduce-window(all, zero), window={size=4x4 stride=4x4}, to_apply=sum
  turned = f32[16,16] transpose(x), dimensions={1,0}
  first = f32[16,1] slice(turned), slice={[0:16], [0:1]}
  wide = f32[16,17] concatenate(turned, first), dimensions={1}
  pooled = f32[16,8] reduce-window(wide, zero), window={size=1x3 stride=1x2}, to_apply=sum
  ROOT out = (f32[8,8], f32[16,8]) tuple(count, pooled)
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, held.arguments + 8 * 8 * 4 + 16 * 8 * 4 + kScalars);
}

TEST(PeakMemory, AnInitialCarryThatIsABroadcastIsFreedAfterTheFirstTrip) {
  const Held held = held_by(R"(HloModule loop, entry_computation_layout={(f32[64])->f32[64]}
more { s = (s32[], f32[64], f32[64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT r = pred[] compare(n, ten), direction=LT }
body { s = (s32[], f32[64], f32[64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  a = f32[64] get-tuple-element(s), index=1
  x = f32[64] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(n, one)
  y = f32[64] sine(x)
  sum = f32[64] add(a, y)
  turned = f32[64] reverse(sum), dimensions={0}
  ROOT r = (s32[], f32[64], f32[64]) tuple(next, turned, x) }
ENTRY main {
  x = f32[64] parameter(0)
  none = s32[] constant(0)
  zero = f32[] constant(0)
  start = f32[64] broadcast(zero), dimensions={}
  all = (s32[], f32[64], f32[64]) tuple(none, start, x)
  loop = (s32[], f32[64], f32[64]) while(all), condition=more, body=body
  ROOT out = f32[64] get-tuple-element(loop), index=1
}
)");
  EXPECT_EQ(held.seen, held.estimated);
  EXPECT_LE(held.seen, 3 * held.arguments + kScalars);
}

// -- Chains of views
// --------------------------------------------------------------------------------

class Chain {
 public:
  explicit Chain(std::uint64_t seed) : r_(seed), type_(r_.chance(0.5) ? DType::s32 : DType::f32) {}

  void run(std::uint64_t seed) {
    for (std::int64_t k = 0; k < 1 + r_.below(2); ++k) {
      Dims dims;
      for (std::int64_t d = 0; d < 1 + r_.below(3); ++d) dims.push_back(1 + r_.below(5));
      pool_.push_back(p_.argument(r_.literal(type_, dims)));
    }
    for (std::int64_t k = 0; k < 3 + r_.below(10); ++k) {
      Instruction* next = step();
      if (next->shape.element_count() > 3000) continue;
      pool_.push_back(next);
    }
    std::vector<Instruction*> results;
    for (std::int64_t k = 0; k < 1 + r_.below(2); ++k) results.push_back(recent());
    p_.check(p_.b.tuple(results), seed, 30);
  }

 private:
  Instruction* recent() {
    const auto n = std::int64_t(pool_.size());
    return pool_[std::size_t(n - 1 - std::min(n - 1, r_.below(3)))];
  }
  Instruction* start(std::int64_t size) {
    return p_.argument(Literal::scalar(DType::s32, std::int32_t(r_.below(size + 2) - 1)));
  }
  Instruction* same_dims(const Instruction* x) {
    std::vector<Instruction*> fitting;
    for (Instruction* i : pool_) {
      if (i->shape.dims == x->shape.dims) fitting.push_back(i);
    }
    return r_.pick(fitting);
  }

  Instruction* step() {
    ir::Builder& b = p_.b;
    Instruction* x = recent();
    const Dims& dims = x->shape.dims;
    const auto rank = std::int64_t(dims.size());
    switch (r_.below(14)) {
      case 0:
        return b.unary(Opcode::negate, x);
      case 1:
      case 2:
        return b.binary(Opcode::add, x, same_dims(x));
      case 3: {
        Dims starts, limits, strides;
        for (const std::int64_t d : dims) {
          starts.push_back(r_.below(d));
          limits.push_back(starts.back() + 1 + r_.below(d - starts.back()));
          strides.push_back(r_.chance(0.7) ? 1 : 1 + r_.below(3));
        }
        return b.slice(x, starts, limits, strides);
      }
      case 4:
        return rank == 0 ? x : b.reverse(x, {r_.below(rank)});
      case 5:
        return b.transpose(x, r_.permutation(rank));
      case 6: {
        std::vector<ir::PadDim> pads;
        for (const std::int64_t d : dims) {
          ir::PadDim p;
          p.low = r_.below(4) - (d > 1 ? 1 : 0);
          p.high = r_.below(3);
          p.interior = r_.chance(0.9) ? 0 : 1;
          pads.push_back(p);
        }
        return b.pad(x, b.scalar(type_, double(r_.below(2))), pads);
      }
      case 7: {
        if (rank == 0) return x;
        return b.concatenate({x, same_dims(x), x}, r_.below(rank));
      }
      case 8: {
        Dims out = dims, at;
        for (std::int64_t d = 0; d <= rank; ++d) at.push_back(d);
        at.erase(at.begin() + r_.below(rank + 1));
        Dims all(std::size_t(rank + 1), 1 + r_.below(3));
        for (std::size_t d = 0; d < at.size(); ++d) all[std::size_t(at[d])] = dims[d];
        return b.broadcast(x, all, at);
      }
      case 9: {
        Dims out;
        for (const std::int64_t d : dims) {
          if (d % 2 == 0 && r_.chance(0.5)) {
            out.push_back(2);
            out.push_back(d / 2);
          } else if (!out.empty() && r_.chance(0.3)) {
            out.back() *= d;
          } else {
            out.push_back(d);
          }
          if (r_.chance(0.2)) out.push_back(1);
        }
        return b.reshape(x, out);
      }
      case 10: {
        Dims sizes;
        std::vector<Instruction*> starts;
        for (const std::int64_t d : dims) {
          sizes.push_back(1 + r_.below(d));
          starts.push_back(start(d));
        }
        return b.dynamic_slice(x, starts, sizes);
      }
      case 11: {
        Dims sizes;
        std::vector<Instruction*> starts;
        for (const std::int64_t d : dims) {
          sizes.push_back(1 + r_.below(d));
          starts.push_back(start(d));
        }
        Instruction* part = b.slice(same_dims(x), Dims(std::size_t(rank), 0), sizes);
        return b.dynamic_update_slice(x, part, starts);
      }
      case 12: {
        Dims reduced;
        for (std::int64_t d = 0; d < rank; ++d) {
          if (r_.chance(0.4)) reduced.push_back(d);
        }
        const Opcode op = r_.chance(0.5) ? Opcode::add : Opcode::maximum;
        return b.reduce(x, b.scalar(type_, -3), reduced,
                        ir::scalar_computation(&p_.module, op, type_));
      }
      default: {
        if (rank == 0) return x;
        // Whole rows of dim 0.
        const Dims count = {1 + r_.below(3), 1 + r_.below(3)};
        ir::GatherAttrs g;
        g.slice_sizes = dims;
        g.slice_sizes[0] = 1;
        g.collapsed_slice_dims = {0};
        g.start_index_map = {0};
        g.index_vector_dim = 2;
        for (std::int64_t d = 1; d < rank; ++d) g.offset_dims.push_back(d + 1);
        Literal rows(Shape(DType::s32, count));
        for (auto& v : rows.mutable_data<std::int32_t>()) v = std::int32_t(r_.below(dims[0]));
        return b.emit(Opcode::gather, {x, p_.argument(std::move(rows))}, g);
      }
    }
  }

  Random r_;
  DType type_;
  Program p_;
  std::vector<Instruction*> pool_;
};

TEST(Views, RandomChains) {
  for (std::uint64_t seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed) {
    Chain(seed).run(seed);
  }
}

}  // namespace
}  // namespace tessera::testing
