// SPDX-License-Identifier: Apache-2.0
// Random convolutions and selections by windows against the evaluator.
#include "src/codegen/kernels/instruction_sets.h"
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

/// No value of the random arrays makes sums lose more than their type's precision.
constexpr double kSums = 300;

TEST(RandomKernels, Convolution) {
  using codegen::InstructionSet;
  for (std::uint64_t seed = 0; seed < 2 * kPrograms; ++seed) {
    Random r(seed);
    codegen::limit_instruction_set(InstructionSet(r.below(3)));
    // Some are large enough in one way or another to be products of operands as they stand.
    const std::int64_t more = r.chance(0.3) ? 12 : 1;
    const DType t = more == 1 ? r.pick(kTypes) : r.chance(0.5) ? DType::f32 : DType::f64;
    if (t == DType::pred) continue;
    const std::int64_t spatial = r.below(4);
    const std::int64_t feature_groups = r.chance(0.3) ? 1 + r.below(3) : 1;
    const std::int64_t batch_groups = feature_groups == 1 && r.chance(0.3) ? 1 + r.below(3) : 1;
    const std::int64_t per_group = 1 + r.below(r.chance(0.5) ? 5 * more : 3);
    Dims x(std::size_t(spatial + 2)), w(x.size());
    const Dims xi = r.permutation(spatial + 2), wi = r.permutation(spatial + 2),
               oi = r.permutation(spatial + 2);
    const bool in_order = r.chance(0.4);
    const auto place = [&](const Dims& shuffled, std::int64_t k) {
      return in_order ? k : shuffled[std::size_t(k)];
    };
    ir::ConvolutionAttrs c;
    c.feature_group_count = feature_groups;
    c.batch_group_count = batch_groups;
    c.input_batch = place(xi, 0);
    c.input_feature = place(xi, spatial + 1);
    c.kernel_input_feature = place(wi, spatial);
    c.kernel_output_feature = place(wi, spatial + 1);
    c.output_batch = place(oi, 0);
    c.output_feature = place(oi, spatial + 1);
    const auto at = [](Dims& d, std::int64_t i) -> std::int64_t& { return d[std::size_t(i)]; };
    at(x, c.input_batch) = batch_groups * (1 + r.below(r.chance(0.5) ? 3 * more : 3));
    at(x, c.input_feature) = feature_groups * per_group;
    at(w, c.kernel_input_feature) = per_group;
    at(w, c.kernel_output_feature) = feature_groups * batch_groups * (1 + r.below(2 * more + 3));
    if (r.chance(0.2)) {
      // As many groups as features.
      const std::int64_t groups = 4 + r.below(r.chance(0.3) ? 150 : 20);
      at(w, c.kernel_output_feature) = groups;
      if (batch_groups > 1) {
        c.batch_group_count = groups;
        at(x, c.input_batch) = groups;
      } else {
        c.feature_group_count = at(x, c.input_feature) = groups;
        at(w, c.kernel_input_feature) = 1;
      }
    }
    for (std::int64_t d = 0; d < spatial; ++d) {
      c.input_spatial.push_back(place(xi, d + 1));
      c.kernel_spatial.push_back(place(wi, d));
      c.output_spatial.push_back(place(oi, d + 1));
      ir::WindowDim win;
      win.size = 1 + r.below(more > 1 && spatial < 3 && r.chance(0.2) ? 12 : 3);
      if (r.chance(0.7)) {
        win.stride = 1 + r.below(2);
        win.lhs_dilation = 1 + r.below(2);
        win.rhs_dilation = 1 + r.below(2);
        win.pad_low = r.below(4) - 1;
        win.pad_high = 4;
        win.reversal = r.chance(0.3);
      }
      at(x, c.input_spatial.back()) = 3 + r.below(r.chance(0.1) ? 30 : 5);
      at(w, c.kernel_spatial.back()) = win.size;
      c.window.push_back(win);
    }
    Program p;
    p.check(p.b.emit(Opcode::convolution,
                     {p.argument(r.literal(t, x)), p.argument(r.literal(t, w))}, c),
            seed, kSums);
    if (::testing::Test::HasFailure()) break;
  }
  codegen::limit_instruction_set(InstructionSet::avx512);
}

// To a few features of each group, positions or features last: rows are long, and edges see fewer
// taps.
TEST(RandomKernels, ConvolutionOfRows) {
  using codegen::InstructionSet;
  for (std::uint64_t seed = 0; seed < kPrograms / 2; ++seed) {
    Random r(seed);
    codegen::limit_instruction_set(InstructionSet(r.below(3)));
    const DType t = r.chance(0.5) ? DType::f32 : DType::f64;
    const std::int64_t spatial = 1 + r.below(3), groups = 1 + r.below(r.chance(0.2) ? 12 : 3),
                       per_group = 1 + r.below(3), columns = r.chance(0.4) ? 1 : 1 + r.below(7);
    ir::ConvolutionAttrs c;
    c.feature_group_count = groups;
    c.input_batch = c.output_batch = c.kernel_output_feature = 0;
    c.input_feature = c.output_feature = c.kernel_input_feature = 1;
    Dims x = {1 + r.below(3), groups * per_group}, w = {groups * columns, per_group};
    for (std::int64_t d = 0; d < spatial; ++d) {
      for (Dims* dims : {&c.input_spatial, &c.kernel_spatial, &c.output_spatial}) {
        dims->push_back(d + 2);
      }
      const bool last = d + 1 == spatial;
      ir::WindowDim win;
      win.size = 1 + r.below(last ? 12 : 3);
      win.rhs_dilation = 1 + r.below(2);
      win.pad_low = r.below(8) - 1;
      win.pad_high = r.below(8);
      win.reversal = r.chance(0.3);
      if (r.chance(0.3)) win.stride = 2 + r.below(2);
      if (r.chance(0.3)) win.lhs_dilation = 2 + r.below(2);
      x.push_back(last ? 24 + r.below(r.chance(0.03) ? 5000 : 200) : 4 + r.below(4));
      w.push_back(win.size);
      c.window.push_back(win);
    }
    if (r.chance(0.4)) {
      // Features last.
      x.push_back(x[1]);
      x.erase(x.begin() + 1);
      c.input_feature = spatial + 1;
      for (std::int64_t& d : c.input_spatial) --d;
    }
    if (r.chance(0.4)) {
      c.output_feature = spatial + 1;
      for (std::int64_t& d : c.output_spatial) --d;
    }
    Program p;
    Instruction* input = p.argument(r.literal(t, x));
    if (r.chance(0.3)) input = p.b.unary(Opcode::negate, input);
    p.check(p.b.emit(Opcode::convolution, {input, p.argument(r.literal(t, w))}, c), seed, 300);
    if (::testing::Test::HasFailure()) break;
  }
  codegen::limit_instruction_set(InstructionSet::avx512);
}

// Features last, in groups that fill vectors: one group, several or a part of one in each. Parts of
// lines see the same taps.
TEST(RandomKernels, ConvolutionOfWholeVectors) {
  using codegen::InstructionSet;
  for (std::uint64_t seed = 0; seed < kPrograms / 2; ++seed) {
    Random r(seed);
    codegen::limit_instruction_set(InstructionSet(r.below(3)));
    const DType t = r.chance(0.7) ? DType::f32 : DType::f64;
    const std::int64_t spatial = 1 + r.below(3), columns = std::int64_t(2) << r.below(4);
    const std::int64_t groups = r.chance(0.4) ? 1
                                              : std::max<std::int64_t>(16 / columns, 1) *
                                                    (1 + r.below(r.chance(0.1) ? 30 : 6));
    const std::int64_t per_group = groups > 1 && r.chance(0.8) ? columns : 1 + r.below(40);
    ir::ConvolutionAttrs c;
    c.feature_group_count = groups;
    c.input_batch = c.output_batch = 0;
    c.input_feature = c.output_feature = c.kernel_output_feature = spatial + 1;
    c.kernel_input_feature = spatial;
    Dims x = {1 + r.below(4)}, w;
    for (std::int64_t d = 0; d < spatial; ++d) {
      c.input_spatial.push_back(d + 1);
      c.output_spatial.push_back(d + 1);
      c.kernel_spatial.push_back(d);
      ir::WindowDim win;
      win.size = 1 + r.below(4);
      win.pad_low = win.pad_high = r.chance(0.7) ? win.size / 2 : r.below(4);
      win.reversal = r.chance(0.2);
      if (r.chance(0.2)) win.rhs_dilation = 2;
      if (r.chance(0.3)) win.stride = 2;
      if (r.chance(0.1)) win.lhs_dilation = 2;
      x.push_back(7 + r.below(d + 1 == spatial ? 20 : 5));
      w.push_back(win.size);
      c.window.push_back(win);
    }
    x.push_back(groups * per_group);
    w.push_back(per_group);
    w.push_back(groups * columns);
    Program p;
    p.check(p.b.emit(Opcode::convolution,
                     {p.argument(r.literal(t, x)), p.argument(r.literal(t, w))}, c),
            seed, kSums);
    if (::testing::Test::HasFailure()) break;
  }
  codegen::limit_instruction_set(InstructionSet::avx512);
}

// Rows that are longer than what is convolved at a time.
TEST(RandomKernels, ConvolutionOfLongRows) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random r(seed);
    ir::ConvolutionAttrs c;
    const bool features_last = r.chance(0.7);
    c.input_feature = c.output_feature = features_last ? 2 : 1;
    c.input_spatial = c.output_spatial = {features_last ? 1 : 2};
    c.kernel_spatial = {0};
    c.kernel_input_feature = 1;
    c.kernel_output_feature = 2;
    ir::WindowDim win;
    win.size = 1 + r.below(5);
    win.stride = 1 + r.below(2);
    win.lhs_dilation = 1 + r.below(2);
    win.rhs_dilation = 1 + r.below(2);
    win.pad_low = r.chance(0.3) ? 0 : r.below(5) - 1;
    win.pad_high = win.pad_low;
    win.reversal = r.chance(0.3);
    c.window.push_back(win);
    const std::int64_t length = 2100 + r.below(1500), features = 1 + r.below(12);
    const Dims x = features_last ? Dims{2, length, features} : Dims{2, features, length};
    const DType t = r.chance(0.5) ? DType::f32 : DType::f64;
    Program p;
    p.check(p.b.emit(Opcode::convolution,
                     {p.argument(r.literal(t, x)),
                      p.argument(r.literal(t, {win.size, features, 16 + r.below(20)}))},
                     c),
            seed, 300);
    if (::testing::Test::HasFailure()) break;
  }
}

// The derivative by a kernel sums up over many images and places, more than the caches hold: part
// by part.
TEST(RandomKernels, ConvolutionOfManyPlaces) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Random r(seed);
    const std::int64_t images = 7 + r.below(2), height = 20 + r.below(5), width = 24 + r.below(8),
                       of_x = 20 + r.below(20), of_out = seed < 2 ? 16 : 1 + r.below(3);
    ir::ConvolutionAttrs c;
    c.input_feature = c.kernel_input_feature = 0;
    c.input_spatial = c.kernel_spatial = {1, 2};
    c.output_spatial = {0, 1};
    c.input_batch = c.kernel_output_feature = c.output_feature = 3;
    c.output_batch = 2;
    for (const std::int64_t size : {height, width}) {
      ir::WindowDim win;
      win.size = size;
      win.pad_low = win.pad_high = 1;
      c.window.push_back(win);
    }
    Program p;
    Instruction* x = p.argument(r.literal(DType::f64, {images, height, width, of_x}));
    Instruction* g = p.argument(r.literal(DType::f64, {images, height, width, of_out}));
    p.check(p.b.emit(Opcode::convolution, {x, g}, c), seed, 3000);
  }
}

ir::Computation* comparison(ir::Module* m, DType t, ir::Direction direction, bool swapped) {
  ir::Computation* c = m->add_computation("select");
  ir::Builder b(c);
  Instruction* first = b.parameter(0, Shape(t, {}));
  Instruction* second = b.parameter(1, Shape(t, {}));
  c->set_root(swapped ? b.compare(direction, second, first) : b.compare(direction, first, second));
  return c;
}

TEST(RandomKernels, SelectAndScatter) {
  const std::vector<ir::Direction> directions = {ir::Direction::ge, ir::Direction::gt,
                                                 ir::Direction::le, ir::Direction::lt};
  const std::vector<DType> types = {DType::f32, DType::f64, DType::s32, DType::bf16};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(types);
    const std::int64_t rank = 1 + r.below(4);
    Dims x = r.dims(rank, 8), source;
    ir::WindowAttrs window;
    for (std::int64_t& d : x) {
      ir::WindowDim w;
      if (r.chance(0.6) && d > 0) {
        w.size = 1 + r.below(std::min<std::int64_t>(d, 3));
        w.stride = 1 + r.below(3);
        w.pad_low = r.below(w.size);
        w.pad_high = r.below(w.size);
      }
      source.push_back(d == 0 ? 0 : (d + w.pad_low + w.pad_high - w.size) / w.stride + 1);
      window.dims.push_back(w);
    }
    Program p;
    // Few values, so that windows hold equal ones.
    Literal values = r.literal(t, x, t != DType::s32 && r.chance(0.2));
    p.check(p.b.emit(Opcode::select_and_scatter,
                     {p.argument(values), p.argument(r.literal(t, source)),
                      p.argument(r.literal(t, {}))},
                     window,
                     {comparison(&p.module, t, r.pick(directions), r.chance(0.3)),
                      ir::scalar_computation(&p.module, Opcode::add, t)}),
            seed, 20);
    if (::testing::Test::HasFailure()) return;
  }
}

// Lines of more windows than are done at once, beside each other, apart and overlapping, of one
// lane and of a few.
TEST(RandomKernels, SelectAndScatterAlongLines) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::bf16, DType::s64};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random r(seed);
    const DType t = r.pick(types);
    const Dims x = {2, 1 + r.below(6), 1 + r.below(400), r.pick<std::int64_t>({1, 1, 3, 15, 17})};
    Dims source = x;
    ir::WindowAttrs window;
    window.dims.resize(x.size());
    for (const std::size_t d : {1, 2}) {
      ir::WindowDim& w = window.dims[d];
      w.size = 1 + r.below(std::min<std::int64_t>(x[d], 4));
      w.stride = 1 + r.below(4);
      w.pad_low = r.below(w.size);
      w.pad_high = r.below(w.size);
      source[d] = (x[d] + w.pad_low + w.pad_high - w.size) / w.stride + 1;
    }
    Program p;
    p.check(p.b.emit(Opcode::select_and_scatter,
                     {p.argument(r.literal(t, x)), p.argument(r.literal(t, source)),
                      p.argument(r.literal(t, {}))},
                     window,
                     {comparison(&p.module, t,
                                 r.pick<ir::Direction>({ir::Direction::ge, ir::Direction::lt}),
                                 r.chance(0.3)),
                      ir::scalar_computation(&p.module, Opcode::add, t)}),
            seed, 20);
    if (::testing::Test::HasFailure()) return;
  }
}

// Sums of rows that workers share by where they go: to the bit in the order of the indices.
TEST(RandomKernels, ScatterOfManyRows) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random r(seed);
    const DType t = r.pick<DType>({DType::f32, DType::f64, DType::s32, DType::bf16});
    const DType index = r.pick<DType>({DType::s32, DType::s64});
    Program p;
    const std::int64_t rows = 1 + r.below(200), columns = r.pick<std::int64_t>({1, 8, 16, 33});
    const std::int64_t count = 1 + r.below(5000);
    ir::ScatterAttrs s;
    s.index_vector_dim = 1;
    s.scatter_dims_to_operand_dims = {0};
    s.inserted_window_dims = {0};
    s.update_window_dims = {1};
    Literal indices(Shape(index, {count, 1}));
    const auto fill = [&](auto values) {
      for (auto& v : values) v = static_cast<std::decay_t<decltype(v)>>(r.below(rows + 10) - 5);
    };
    if (index == DType::s32) {
      fill(indices.mutable_data<std::int32_t>());
    } else {
      fill(indices.mutable_data<std::int64_t>());
    }
    const Opcode op = r.pick<Opcode>({Opcode::add, Opcode::maximum, Opcode::minimum});
    ir::Computation* c = ir::scalar_computation(&p.module, op, t);
    Instruction* x = p.argument(r.literal(t, {rows, columns}));
    Instruction* i = p.argument(std::move(indices));
    const bool special = op != Opcode::add && t != DType::s32;
    Instruction* updates = p.argument(r.literal(t, {count, columns}, special));
    p.check(p.b.emit(Opcode::scatter, {x, i, updates}, s, {c}), seed, 0);
  }
}

// Images with enough rows for the channels to be done together, however many bytes they take.
TEST(RandomKernels, PoolsOfFewChannels) {
  const std::vector<Opcode> ops = {Opcode::add, Opcode::maximum, Opcode::minimum};
  const std::vector<DType> types = {DType::f32, DType::f16, DType::bf16, DType::f64,
                                    DType::s8,  DType::s32, DType::c64};
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Random r(seed);
    const DType t = r.pick(types);
    const Dims dims = {2, 20 + r.below(20), 3 + r.below(20), 1 + r.below(9)};
    ir::WindowAttrs window;
    window.dims.resize(4);
    for (const std::size_t d : {1, 2}) {
      window.dims[d].size = 1 + r.below(3);
      window.dims[d].stride = 1 + r.below(3);
      window.dims[d].pad_low = r.below(2);
      window.dims[d].pad_high = r.below(3);
      if (r.chance(0.2)) window.dims[d].rhs_dilation = 2;
    }
    Program p;
    p.check(
        p.b.emit(Opcode::reduce_window,
                 {p.argument(r.literal(t, dims)), p.argument(r.literal(t, {}))}, window,
                 {ir::scalar_computation(&p.module, is_complex(t) ? Opcode::add : r.pick(ops), t)}),
        seed, 100);
  }
}

// Windows of many elements along rows that are longer than what is combined at a time.
TEST(RandomKernels, LongWindowsAlongRows) {
  const std::vector<Opcode> ops = {Opcode::add, Opcode::maximum, Opcode::minimum};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random r(seed);
    const DType t = r.chance(0.5) ? DType::f32 : DType::f64;
    const std::int64_t size = 10 + r.below(r.chance(0.2) ? 600 : 60);
    const Dims dims = {1 + r.below(3), size + r.below(r.chance(0.3) ? 4000 : 100)};
    ir::WindowAttrs window;
    window.dims.resize(2);
    window.dims[0].size = 1 + r.below(dims[0]);
    window.dims[1].size = size;
    if (r.chance(0.2)) window.dims[1].stride = 2;
    // Also more padding than a window has elements.
    if (r.chance(0.5)) window.dims[1].pad_low = r.below(2 * size);
    if (r.chance(0.5)) window.dims[1].pad_high = r.below(2 * size);
    Program p;
    p.check(p.b.emit(Opcode::reduce_window,
                     {p.argument(r.literal(t, dims)), p.argument(r.literal(t, {}))}, window,
                     {ir::scalar_computation(&p.module, r.pick(ops), t)}),
            seed, 300);
  }
}

}  // namespace
}  // namespace tessera::testing
