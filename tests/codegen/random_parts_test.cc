// SPDX-License-Identifier: Apache-2.0
// Concatenations whose parts, and gathers whose indices, are fused into their loop.
#include "src/codegen/kernels/moves/copy.h"
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

/// An array of these dims, by some elementwise ops or as it is.
Instruction* some_part(Program& p, Random& r, DType t, const Dims& dims,
                       std::vector<Instruction*>* made) {
  Instruction* x = p.argument(r.literal(t, dims));
  for (std::int64_t k = r.below(4); k > 0; --k) {
    x = r.chance(0.5) ? p.b.unary(Opcode::negate, x)
                      : p.b.binary(r.chance(0.5) ? Opcode::add : Opcode::maximum, x,
                                   p.b.splat(p.argument(r.literal(t, {})), dims));
    if (r.chance(0.2)) made->push_back(x);
  }
  return x;
}

/// Rows of any length, by any of the loops for them, of any workers.
TEST(RandomParts, RowsStandSideBySide) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random r(seed);
    const std::int64_t rows = 1 + r.below(r.chance(0.3) ? 700 : 20);
    std::vector<std::int64_t> bytes;
    for (std::int64_t k = 1 + r.below(5); k > 0; --k)
      bytes.push_back(r.below(r.chance(0.2) ? 900 : 80));
    std::vector<Literal> parts;
    std::vector<const std::byte*> inputs;
    std::int64_t row = 0;
    for (const std::int64_t n : bytes) {
      parts.push_back(r.literal(DType::u8, {rows, n}));
      row += n;
    }
    for (const Literal& part : parts) inputs.push_back(part.bytes());
    std::vector<std::byte> want, got(std::size_t(rows * row) + 1, std::byte{77});
    for (std::int64_t n = 0; n < rows; ++n) {
      for (std::size_t k = 0; k < bytes.size(); ++k) {
        const std::byte* from = inputs[k] + n * bytes[k];
        want.insert(want.end(), from, from + bytes[k]);
      }
    }
    want.push_back(std::byte{77});
    const codegen::KernelDescriptor descriptor = codegen::parts_kernel(rows, bytes);
    EXPECT_EQ(descriptor.units, row == 0 ? 0 : rows);
    const runtime::Kernel kernel = descriptor.make();
    std::byte* const outputs[] = {got.data()};
    for (std::int64_t begin = 0; begin < descriptor.units;) {
      const std::int64_t end = begin + 1 + r.below(descriptor.units - begin);
      kernel.function({kernel.attributes.get(), inputs.data(), outputs, begin, end});
      begin = end;
    }
    EXPECT_EQ(got, want) << seed;
  }
}

TEST(RandomParts, Concatenations) {
  const std::vector<DType> types = {DType::f32, DType::f64, DType::s32, DType::u8, DType::bf16};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(types);
    // Also more than a block.
    Dims dims = r.chance(0.1) ? Dims{1 + r.below(3), 700, 1 + r.below(4)} : r.dims(1 + r.below(3));
    const auto join = [&] {
      const auto dim = r.below(std::int64_t(dims.size()));
      std::vector<Instruction*> parts, shared;
      std::int64_t size = 0;
      for (std::int64_t k = 2 + r.below(3); k > 0; --k) {
        Dims part = dims;
        if (dims[std::size_t(dim)] < 600) part[std::size_t(dim)] = r.below(4);
        size += part[std::size_t(dim)];
        parts.push_back(some_part(p, r, t, part, &shared));
      }
      dims[std::size_t(dim)] = size;
      return std::pair(p.b.concatenate(parts, dim), shared);
    };
    auto [x, shared] = join();
    // Used by a loop, or part of another concatenation, or stored.
    if (r.chance(0.5)) x = p.b.binary(Opcode::add, x, p.argument(r.literal(t, dims)));
    if (r.chance(0.3)) {
      const auto dim = r.below(std::int64_t(dims.size()));
      x = p.b.concatenate({p.b.unary(Opcode::negate, x), p.argument(r.literal(t, dims))}, dim);
    }
    shared.push_back(x);
    p.check(p.b.tuple(shared), seed, 0);
  }
}

TEST(RandomParts, Gathers) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(kTypes);
    const Dims dims = {1 + r.below(5), 1 + r.below(5), 1 + r.below(5)};
    const Dims batch = r.chance(0.1) ? Dims{3000} : r.dims(1 + r.below(2), 7);
    const std::int64_t indexed = 1 + r.below(2);
    std::vector<Instruction*> columns, shared;
    for (std::int64_t k = 0; k < indexed; ++k) {
      Dims column = batch;
      column.push_back(1);
      Literal values(Shape(DType::s32, column));
      for (auto& v : values.mutable_data<std::int32_t>()) v = std::int32_t(r.below(9)) - 3;
      Instruction* i = p.argument(std::move(values));
      if (r.chance(0.7)) i = p.b.unary(Opcode::negate, i);
      if (r.chance(0.3)) shared.push_back(i);
      columns.push_back(i);
    }
    Instruction* indices =
        columns.size() == 1 ? columns[0] : p.b.concatenate(columns, batch.size());
    ir::GatherAttrs g;
    g.slice_sizes = {1, indexed == 2 ? 1 : dims[1], dims[2]};
    const auto rank = std::int64_t(batch.size());
    g.collapsed_slice_dims = indexed == 2 ? Dims{0, 1} : Dims{0};
    g.offset_dims = indexed == 2 ? Dims{rank} : Dims{rank, rank + 1};
    g.start_index_map = indexed == 2 ? Dims{r.below(2), 0} : Dims{0};
    if (indexed == 2) g.start_index_map[1] = 1 - g.start_index_map[0];
    g.index_vector_dim = rank;
    Instruction* x = p.argument(r.literal(t, dims));
    if (t == DType::f32 && r.chance(0.5)) x = p.b.unary(Opcode::negate, x);
    Instruction* rows = p.b.emit(Opcode::gather, {x, indices}, g);
    if (t == DType::f32 && r.chance(0.5)) rows = p.b.binary(Opcode::add, rows, rows);
    shared.push_back(rows);
    p.check(p.b.tuple(shared), seed, 0);
  }
}

}  // namespace
}  // namespace tessera::testing
