// SPDX-License-Identifier: Apache-2.0
// Random single operations of all types and odd shapes: kernels against the evaluator. Each failure
// prints the seed and the program.
#include "src/codegen/kernels/instruction_sets.h"
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

using codegen::InstructionSet;

TEST(RandomKernels, Movement) {
  const int checked = Program::checked_accesses();
  for (std::uint64_t seed = 0; seed < 2 * kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    Program p;
    const Dims dims = r.dims(1 + r.below(4), r.chance(0.1) ? 40 : 6);
    const auto rank = std::int64_t(dims.size());
    Instruction* x = p.argument(r.literal(t, dims));
    Instruction* root = nullptr;
    switch (r.below(9)) {
      case 0:
        root = p.b.transpose(x, r.permutation(rank));
        break;
      case 1: {
        Dims starts, limits, strides;
        for (const std::int64_t d : dims) {
          starts.push_back(r.below(d + 1));
          limits.push_back(starts.back() + r.below(d - starts.back() + 1));
          strides.push_back(1 + r.below(3));
        }
        root = p.b.slice(x, starts, limits, strides);
        break;
      }
      case 2: {
        Dims which;
        for (std::int64_t d = 0; d < rank; ++d) {
          if (r.chance(0.5)) which.push_back(d);
        }
        root = p.b.reverse(x, which);
        break;
      }
      case 3: {
        std::vector<ir::PadDim> pad;
        for (const std::int64_t d : dims) {
          const std::int64_t interior = r.chance(0.3) ? r.below(3) : 0;
          const std::int64_t size = d == 0 ? 0 : (d - 1) * (interior + 1) + 1;
          const std::int64_t low = r.below(5) - std::min<std::int64_t>(2, size);
          pad.push_back(
              {low, std::max(-std::min<std::int64_t>(size + low, 2), r.below(5) - 2), interior});
        }
        root = p.b.pad(x, p.argument(r.literal(t, {})), pad);
        break;
      }
      case 4: {
        const std::int64_t dim = r.below(rank);
        std::vector<Instruction*> parts{x};
        for (std::int64_t k = r.below(3); k > 0; --k) {
          Dims other = dims;
          other[std::size_t(dim)] = r.below(4);
          parts.push_back(p.argument(r.literal(t, other)));
        }
        root = p.b.concatenate(parts, dim);
        break;
      }
      case 5: {
        Dims out, at;
        for (const std::int64_t d : dims) {
          while (r.chance(0.3)) out.push_back(1 + r.below(3));
          at.push_back(std::int64_t(out.size()));
          out.push_back(d);
        }
        if (r.chance(0.5)) out.push_back(1 + r.below(3));
        root = p.b.broadcast(x, out, at);
        break;
      }
      case 6:
      case 7: {
        const bool update = r.chance(0.5);
        Dims sizes;
        std::vector<Instruction*> starts;
        const std::vector<DType> index_types = {DType::s32, DType::s64, DType::u32, DType::u8};
        const DType it = r.pick(index_types);
        for (const std::int64_t d : dims) {
          sizes.push_back(r.below(d + 1));
          starts.push_back(p.argument(Literal::scalar(it, double(r.below(9) - 2))));
        }
        root = update ? p.b.dynamic_update_slice(x, p.argument(r.literal(t, sizes)), starts)
                      : p.b.dynamic_slice(x, starts, sizes);
        break;
      }
      default: {
        if (t == DType::pred) break;
        root = p.b.iota(Shape(t, dims), r.below(rank));
      }
    }
    if (root != nullptr) p.check(root, seed);
  }
  EXPECT_GT(Program::checked_accesses() - checked, 20);
}

TEST(RandomKernels, Dot) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    if (t == DType::pred) continue;
    Program p;
    // Factors: batch, contracting, free of either side; then each side in a random order.
    std::int64_t next = 0;
    std::vector<std::int64_t> size;
    const auto some = [&](std::int64_t most) {
      Dims out;
      for (std::int64_t k = r.below(most + 1); k > 0; --k) {
        out.push_back(next++);
        size.push_back(r.chance(0.04) ? 0 : 1 + r.below(r.chance(0.1) ? 70 : 5));
      }
      return out;
    };
    const Dims batch = some(2), contracting = some(2), left = some(2), right = some(2);
    ir::DotAttrs attrs;
    const auto side = [&](const Dims& free, Dims* batch_at, Dims* contracting_at) {
      Dims factors = batch;
      factors.insert(factors.end(), contracting.begin(), contracting.end());
      factors.insert(factors.end(), free.begin(), free.end());
      if (r.chance(0.7)) std::shuffle(factors.begin(), factors.end(), r.engine);
      Dims dims;
      for (const std::int64_t f : factors) dims.push_back(size[std::size_t(f)]);
      const auto place = [&](std::int64_t f) {
        return std::int64_t(std::find(factors.begin(), factors.end(), f) - factors.begin());
      };
      for (const std::int64_t f : batch) batch_at->push_back(place(f));
      for (const std::int64_t f : contracting) contracting_at->push_back(place(f));
      return p.argument(r.literal(t, dims));
    };
    Instruction* a = side(left, &attrs.lhs_batch, &attrs.lhs_contracting);
    Instruction* b = side(right, &attrs.rhs_batch, &attrs.rhs_contracting);
    p.check(p.b.dot(a, b, attrs), seed, 100);
  }
}

// Sums of 32 bits of 8-bit integers of either sign, in each version.
TEST(RandomKernels, DotOfBytes) {
  using codegen::InstructionSet;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random r(seed);
    codegen::limit_instruction_set(InstructionSet(r.below(3)));
    const std::vector<DType> bytes = {DType::s8, DType::u8};
    const std::int64_t batch = 1 + r.below(2), m = 1 + r.below(r.chance(0.2) ? 120 : 20),
                       n = 1 + r.below(r.chance(0.1) ? 1200 : 90),
                       k = 1 + r.below(r.chance(0.2) ? 900 : 40);
    const bool lhs_last = r.chance(0.5), rhs_last = r.chance(0.5);
    Program p;
    Instruction* a = p.argument(
        r.literal(r.pick(bytes), lhs_last ? Dims{batch, m, k} : Dims{batch, k, m}, r.chance(0.5)));
    Instruction* b = p.argument(
        r.literal(r.pick(bytes), rhs_last ? Dims{batch, n, k} : Dims{batch, k, n}, r.chance(0.5)));
    ir::DotAttrs attrs;
    attrs.lhs_batch = attrs.rhs_batch = {0};
    attrs.lhs_contracting = {lhs_last ? 2 : 1};
    attrs.rhs_contracting = {rhs_last ? 2 : 1};
    auto dot = std::make_unique<Instruction>();
    dot->opcode = Opcode::dot;
    dot->shape = Shape(DType::s32, {batch, m, n});
    dot->attrs = attrs;
    dot->add_operand(a);
    dot->add_operand(b);
    p.check(p.entry->add(std::move(dot)), seed);
  }
  codegen::limit_instruction_set(InstructionSet::avx512);
}

TEST(RandomKernels, Reduce) {
  const std::vector<Opcode> ops = {Opcode::add, Opcode::maximum, Opcode::minimum, Opcode::multiply};
  const std::vector<Opcode> bit_ops = {Opcode::and_, Opcode::or_, Opcode::xor_};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    Opcode op =
        t == DType::pred || (is_integer(t) && r.chance(0.3)) ? r.pick(bit_ops) : r.pick(ops);
    if (is_complex(t)) op = Opcode::add;
    Program p;
    const Dims dims = r.dims(r.below(5), r.chance(0.1) ? 50 : 5);
    Dims which;
    for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
      if (r.chance(0.5)) which.push_back(d);
    }
    Literal values = r.literal(t, dims);
    if (op == Opcode::multiply && !is_integer(t)) {
      // Products of few numbers near 1, so that they stay in range.
      values = r.literal(DType::s8, dims);
      values = evaluator::evaluate(
          [&] {
            static thread_local std::unique_ptr<ir::Module> m;
            m = std::make_unique<ir::Module>("c");
            ir::Computation* c = m->add_computation("main");
            m->set_entry(c);
            ir::Builder b(c);
            c->set_root(b.convert(b.unary(Opcode::sign, b.parameter(0, values.shape())), t));
            return std::cref(*m);
          }()
              .get(),
          std::vector<Literal>{values});
    }
    Instruction* x = p.argument(std::move(values));
    Instruction* init = p.argument(r.literal(t, {}));
    p.check(p.b.reduce(x, init, which, ir::scalar_computation(&p.module, op, t)), seed, 300);
  }
}

TEST(RandomKernels, ReduceWindow) {
  const std::vector<Opcode> ops = {Opcode::add, Opcode::maximum, Opcode::minimum};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    if (t == DType::pred) continue;
    const Opcode op = is_complex(t) ? Opcode::add : r.pick(ops);
    Program p;
    const Dims dims = r.dims(1 + r.below(3), r.chance(0.1) ? 40 : 6);
    ir::WindowAttrs window;
    window.dims.resize(dims.size());
    const bool running = r.chance(0.4);
    const auto scanned = std::size_t(r.below(std::int64_t(dims.size())));
    for (std::size_t d = 0; d < dims.size(); ++d) {
      ir::WindowDim& w = window.dims[d];
      if (running) {
        if (d != scanned || dims[d] == 0) continue;
        w.size = dims[d];
        (r.chance(0.5) ? w.pad_low : w.pad_high) = dims[d] - 1;
        continue;
      }
      w.size = 1 + r.below(3);
      w.stride = 1 + r.below(2);
      w.lhs_dilation = 1 + r.below(2);
      w.rhs_dilation = 1 + r.below(2);
      w.pad_low = r.below(4);
      w.pad_high = 4;
    }
    p.check(p.b.emit(Opcode::reduce_window,
                     {p.argument(r.literal(t, dims)), p.argument(r.literal(t, {}))}, window,
                     {ir::scalar_computation(&p.module, op, t)}),
            seed, 100);
  }
}

/// (value, index) of the largest element, the first of equal ones.
ir::Computation* argmax_computation(ir::Module* m, DType t) {
  ir::Computation* c = m->add_computation("argmax");
  ir::Builder b(c);
  Instruction* v0 = b.parameter(0, Shape(t, {}));
  Instruction* i0 = b.parameter(1, Shape(DType::s32, {}));
  Instruction* v1 = b.parameter(2, Shape(t, {}));
  Instruction* i1 = b.parameter(3, Shape(DType::s32, {}));
  Instruction* larger = b.compare(ir::Direction::gt, v0, v1);
  Instruction* tie = b.binary(Opcode::and_, b.compare(ir::Direction::eq, v0, v1),
                              b.compare(ir::Direction::lt, i0, i1));
  Instruction* keep = b.binary(Opcode::or_, larger, tie);
  c->set_root(b.tuple({b.select(keep, v0, v1), b.select(keep, i0, i1)}));
  return c;
}

TEST(RandomKernels, ReduceOfSeveral) {
  for (std::uint64_t seed = 0; seed < kPrograms / 4; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    if (is_complex(t)) continue;
    Program p;
    const Dims dims = r.dims(1 + r.below(3), r.chance(0.2) ? 40 : 6);
    Dims which;
    for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
      if (r.chance(0.6)) which.push_back(d);
    }
    Instruction* x = p.argument(r.literal(t, dims));
    Instruction* at = p.argument(r.literal(DType::s32, dims));
    Instruction* init = p.argument(Literal::scalar(t, is_unsigned_integer(t) ? 0 : -128));
    Instruction* zero = p.argument(Literal::scalar(DType::s32, -1));
    p.check(p.b.emit(Opcode::reduce, {x, at, init, zero}, ir::DimensionsAttrs{which},
                     {argmax_computation(&p.module, t)}),
            seed);
  }
}

TEST(RandomKernels, Sort) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    if (is_complex(t)) continue;
    Program p;
    const Dims dims = r.dims(1 + r.below(3), r.chance(0.1) ? 100 : 7);
    std::vector<Instruction*> operands{p.argument(r.literal(t, dims, r.chance(0.5)))};
    if (r.chance(0.5)) operands.push_back(p.argument(r.literal(DType::s32, dims)));
    ir::Computation* c = p.module.add_computation("less");
    ir::Builder b(c);
    std::vector<Instruction*> ps;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      for (int side = 0; side < 2; ++side) {
        ps.push_back(b.parameter(std::int64_t(ps.size()), Shape(operands[k]->shape.dtype, {})));
      }
    }
    const auto d = r.chance(0.5) ? ir::Direction::lt : ir::Direction::gt;
    const auto type = is_floating(t) && r.chance(0.5) ? ir::ComparisonType::total_order
                                                      : ir::ComparisonType::by_dtype;
    Instruction *left = ps[0], *right = ps[1];
    if (r.chance(0.3)) std::swap(left, right);
    if (is_floating(t) && r.chance(0.4)) {
      // Keys are computed: both zeros, and all NaNs, alike.
      const auto key = [&](Instruction* v) {
        Instruction* zero = b.zero(t);
        v = b.select(b.compare(ir::Direction::eq, v, zero), zero, v);
        return b.select(b.compare(ir::Direction::ne, v, v), b.scalar(t, NAN), v);
      };
      left = key(left);
      right = key(right);
    }
    Instruction* answer = b.compare(d, left, right, type);
    if (operands.size() == 2 && r.chance(0.3)) {
      // Ties go to the second operand.
      answer = b.binary(Opcode::or_, answer,
                        b.binary(Opcode::and_, b.compare(ir::Direction::eq, left, right),
                                 b.compare(ir::Direction::lt, ps[2], ps[3])));
    }
    if (operands.size() == 2 && r.chance(0.3)) {
      // Ties go to the place, and places that aren't below a limit come last.
      Instruction* earlier = b.compare(ir::Direction::lt, ps[2], ps[3]);
      Instruction* after = b.compare(d, right, left, type);
      answer = b.binary(Opcode::or_, b.compare(d, left, right, type),
                        b.binary(Opcode::and_, b.unary(Opcode::not_, after), earlier));
      if (r.chance(0.5)) {
        Instruction* limit = b.scalar(DType::s32, double(r.below(6)));
        Instruction* real = b.binary(Opcode::and_, b.compare(ir::Direction::lt, ps[2], limit),
                                     b.compare(ir::Direction::lt, ps[3], limit));
        answer = b.select(real, answer, earlier);
      }
    }
    if (operands.size() == 2 && r.chance(0.2)) {
      // By both keys, then by the place.
      operands.push_back(p.argument(r.literal(DType::s32, dims)));
      for (int side = 0; side < 2; ++side) {
        ps.push_back(b.parameter(std::int64_t(ps.size()), Shape(DType::s32, {})));
      }
      const auto before = [&](std::size_t x, std::size_t y) {
        Instruction* equal = b.compare(ir::Direction::eq, ps[x], ps[y], type);
        Instruction* tie =
            b.binary(Opcode::and_, equal, b.compare(ir::Direction::gt, ps[2 + x], ps[2 + y]));
        return b.binary(Opcode::or_, b.compare(d, ps[x], ps[y], type), tie);
      };
      answer = b.binary(Opcode::or_, before(0, 1),
                        b.binary(Opcode::and_, b.unary(Opcode::not_, before(1, 0)),
                                 b.compare(ir::Direction::lt, ps[4], ps[5])));
    }
    c->set_root(answer);
    p.check(p.b.sort(operands, r.below(std::int64_t(dims.size())), true, c), seed);
  }
}

TEST(RandomKernels, Fft) {
  const std::vector<std::int64_t> sizes = {1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 67, 97, 128, 134};
  for (std::uint64_t seed = 0; seed < kPrograms / 2; ++seed) {
    Random r(seed);
    Program p;
    const auto type = ir::FftType(r.below(4));
    const bool wide = r.chance(0.5);
    const DType real = wide ? DType::f64 : DType::f32, complex = wide ? DType::c128 : DType::c64;
    Dims dims = r.dims(r.below(3), 3), lengths;
    for (std::int64_t k = 1 + r.below(r.chance(0.3) ? 3 : 1); k > 0; --k) {
      lengths.push_back(r.chance(0.05) && k > 1 ? 1 : r.pick(sizes));
      if (lengths.size() > 1) lengths.back() = std::min<std::int64_t>(lengths.back(), 8);
    }
    dims.insert(dims.end(), lengths.begin(), lengths.end());
    if (type == ir::FftType::irfft) dims.back() = lengths.back() / 2 + 1;
    const DType t = type == ir::FftType::rfft ? real : complex;
    p.check(p.b.fft(p.argument(r.literal(t, dims)), type, lengths), seed, 2000);
  }
}

/// Root mean square of the error, relative to that of the values.
double relative_error(const Literal& got, const Literal& want) {
  double error = 0, size = 0;
  dispatch_dtype(want.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto a = got.data<T>(), b = want.data<T>();
    for (std::size_t i = 0; i < b.size(); ++i) {
      if constexpr (is_complex_v<T>) {
        error += std::norm(std::complex<double>(a[i]) - std::complex<double>(b[i]));
        size += std::norm(std::complex<double>(b[i]));
      } else if constexpr (std::is_floating_point_v<T>) {
        error += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
        size += double(b[i]) * double(b[i]);
      }
    }
  });
  return size == 0 ? 0 : std::sqrt(error / size);
}

// Each way to transform, in each version: short lines, matrices, primes by convolution, columns.
TEST(RandomKernels, FftIsAccurateWithAllInstructionSets) {
  const std::vector<std::int64_t> sizes = {2,    6,    15,   17,   49,   61,   64,   100,  127,
                                           128,  129,  243,  256,  500,  509,  541,  720,  1000,
                                           1024, 1331, 2048, 2310, 3599, 4096, 6561, 10007};
  for (const InstructionSet set :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    codegen::limit_instruction_set(set);
    for (std::uint64_t seed = 0; seed < 2 * sizes.size(); ++seed) {
      Random r(seed);
      Program p;
      const auto type = ir::FftType(r.below(4));
      const bool wide = r.chance(0.5);
      const DType real = wide ? DType::f64 : DType::f32, complex = wide ? DType::c128 : DType::c64;
      Dims lengths = {sizes[std::size_t(seed) % sizes.size()]};
      Dims dims = {1 + r.below(lengths[0] < 200 ? 40 : 5)};
      if (r.chance(0.3) && lengths[0] < 3000) {
        lengths.insert(lengths.begin() + r.below(2), 1 + r.below(20));
      }
      dims.insert(dims.end(), lengths.begin(), lengths.end());
      if (type == ir::FftType::irfft) dims.back() = lengths.back() / 2 + 1;
      p.argument(r.literal(type == ir::FftType::rfft ? real : complex, dims));
      p.entry->set_root(p.b.fft(p.entry->parameters()[0], type, lengths));
      const DescribeFailure what(
          [&] { return "seed " + std::to_string(seed) + "\n" + ir::to_string(p.module); });
      const Literal want = evaluator::evaluate(p.module, p.arguments);
      const Literal got = run_module(p.module, p.arguments)[0];
      EXPECT_LE(relative_error(got, want), wide ? 1e-14 : 1e-6);
    }
  }
  codegen::limit_instruction_set(InstructionSet::avx512);
}

// What isn't finite stays in its own line.
TEST(RandomKernels, FftLinesDoNotMix) {
  for (const std::int64_t n : {8, 60, 67, 1024}) {
    for (const auto type : {ir::FftType::fft, ir::FftType::rfft, ir::FftType::irfft}) {
      Random r(1);
      Program p;
      const std::int64_t given = type == ir::FftType::irfft ? n / 2 + 1 : n;
      const DType t = type == ir::FftType::rfft ? f32 : c64;
      Literal x = r.literal(t, {7, given});
      Literal clean = x;
      const auto row = std::size_t(given) * byte_size(t);
      const float nan = NAN;
      std::memcpy(x.mutable_bytes() + 3 * row + byte_size(t), &nan, sizeof nan);
      p.entry->set_root(p.b.fft(p.argument(x), type, {n}));
      const Literal got = run_module(p.module, {x})[0], want = run_module(p.module, {clean})[0];
      const std::size_t out_row = want.byte_count() / 7;
      for (std::size_t k = 0; k < 7; ++k) {
        const bool same =
            std::memcmp(got.bytes() + k * out_row, want.bytes() + k * out_row, out_row) == 0;
        EXPECT_EQ(same, k != 3) << n << " " << k;
      }
    }
  }
}

TEST(RandomKernels, FftOfManyRowsAtOnce) {
  // Lengths with large factors, whose transforms need memory of their own, on all threads.
  for (const std::int64_t n : {63, 77, 59}) {
    const auto seed = static_cast<std::uint64_t>(n);
    Random r(seed);
    Program p;
    p.check(p.b.fft(p.argument(r.literal(c64, {1024, n})), ir::FftType::fft, {n}), seed, 2000);
  }
}

TEST(RandomKernels, GatherAndScatter) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    Program p;
    const Dims dims = r.dims(1 + r.below(3), 5);
    const auto rank = std::int64_t(dims.size());
    // Windows over all dims; some of size one are dropped.
    Dims sizes, collapsed, offset_sizes;
    for (std::int64_t d = 0; d < rank; ++d) {
      const bool drop = r.chance(0.5) && dims[std::size_t(d)] > 0;
      sizes.push_back(drop ? 1 : r.below(dims[std::size_t(d)] + 1));
      if (drop) {
        collapsed.push_back(d);
      } else {
        offset_sizes.push_back(sizes.back());
      }
    }
    Dims mapped = r.permutation(rank);
    mapped.resize(std::size_t(1 + r.below(rank)));
    const Dims batch = r.dims(r.below(3), 3);
    Dims index_dims = batch;
    index_dims.push_back(std::int64_t(mapped.size()));
    Literal indices(Shape(DType::s32, index_dims));
    for (auto& v : indices.mutable_data<std::int32_t>()) v = std::int32_t(r.below(8)) - 2;
    Dims out, offsets;
    std::size_t b = 0, o = 0;
    while (b < batch.size() || o < offset_sizes.size()) {
      if (b < batch.size() && (o == offset_sizes.size() || r.chance(0.5))) {
        out.push_back(batch[b++]);
      } else {
        offsets.push_back(std::int64_t(out.size()));
        out.push_back(offset_sizes[o++]);
      }
    }
    Instruction* x = p.argument(r.literal(t, dims));
    Instruction* i = p.argument(std::move(indices));
    if (r.chance(0.5)) {
      ir::GatherAttrs g;
      g.offset_dims = offsets;
      g.collapsed_slice_dims = collapsed;
      g.start_index_map = mapped;
      g.slice_sizes = sizes;
      g.index_vector_dim = std::int64_t(batch.size());
      p.check(p.b.emit(Opcode::gather, {x, i}, g), seed);
    } else {
      ir::ScatterAttrs s;
      s.update_window_dims = offsets;
      s.inserted_window_dims = collapsed;
      s.scatter_dims_to_operand_dims = mapped;
      s.index_vector_dim = std::int64_t(batch.size());
      ir::Computation* c = r.chance(0.4) ? p.module.add_computation("assign") : nullptr;
      if (c != nullptr) {
        ir::Builder cb(c);
        cb.parameter(0, Shape(t, {}));
        c->set_root(cb.parameter(1, Shape(t, {})));
      } else {
        const Opcode any[] = {Opcode::add, Opcode::add, Opcode::subtract, Opcode::multiply};
        c = ir::scalar_computation(&p.module, t == DType::pred ? Opcode::or_ : any[seed % 4], t);
      }
      p.check(p.b.emit(Opcode::scatter, {x, i, p.argument(r.literal(t, out))}, s, {c}), seed, 10);
    }
  }
}

// Large enough for several workers, with many windows at the same place and across the ranges that
// workers have.
TEST(RandomKernels, ScatterOfManyWindows) {
  const std::vector<DType> types = {DType::s8,  DType::s32, DType::s64, DType::f16, DType::bf16,
                                    DType::f32, DType::f64, DType::c64, DType::pred};
  const std::vector<Opcode> ops = {Opcode::add, Opcode::multiply, Opcode::maximum};
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Random r(seed);
    const DType t = r.pick(types);
    Program p;
    const std::int64_t rank = 1 + r.below(3);
    Dims dims;
    for (std::int64_t d = 0; d < rank; ++d) dims.push_back(1 + r.below(r.chance(0.5) ? 90 : 12));
    const std::int64_t count = 1 + r.below(700);
    ir::ScatterAttrs s;
    s.index_vector_dim = 1;
    Dims updates = {count};
    for (std::int64_t d = 0; d < rank; ++d) {
      const std::int64_t size = dims[std::size_t(d)];
      if (r.chance(0.5)) s.scatter_dims_to_operand_dims.push_back(d);
      if (r.chance(0.3)) {
        s.inserted_window_dims.push_back(d);
        continue;
      }
      s.update_window_dims.push_back(std::int64_t(updates.size()));
      updates.push_back(r.chance(0.6) ? size : 1 + r.below(size));
    }
    const auto components = std::int64_t(s.scatter_dims_to_operand_dims.size());
    Literal indices(Shape(DType::s32, {count, components}));
    for (auto& v : indices.mutable_data<std::int32_t>()) {
      v = r.chance(0.5) ? 0 : std::int32_t(r.below(95)) - 3;
    }
    const double what = double(r.below(4));
    ir::Computation* c = nullptr;
    if (what == 3 || t == DType::pred) {
      c = p.module.add_computation("assign");
      ir::Builder cb(c);
      cb.parameter(0, Shape(t, {}));
      c->set_root(cb.parameter(1, Shape(t, {})));
    } else {
      const Opcode op = t == DType::c64 ? Opcode::add : ops[std::size_t(what)];
      c = ir::scalar_computation(&p.module, op, t);
    }
    Instruction* x = p.argument(r.literal(t, dims));
    Instruction* i = p.argument(std::move(indices));
    p.check(p.b.emit(Opcode::scatter, {x, i, p.argument(r.literal(t, updates))}, s, {c}), seed, 10);
  }
}

}  // namespace
}  // namespace tessera::testing
