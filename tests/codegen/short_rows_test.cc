// SPDX-License-Identifier: Apache-2.0
// Loops over dims that are shorter than vectors: what is read along them, and what is put together.
#include "tests/codegen/random_case.h"
#include "tests/support/loop_text.h"

namespace tessera::testing {
namespace {

std::string shape_text(const std::string& type, const Dims& dims) {
  std::string out = type + "[";
  for (std::size_t d = 0; d < dims.size(); ++d) {
    out += (d == 0 ? "" : ",") + std::to_string(dims[d]);
  }
  return out + "]";
}

/// Parts of x and y are computed with, and put together along a dim that is short.
std::string program(const std::string& type, std::int64_t rows, std::int64_t columns,
                    std::int64_t inner, std::int64_t first) {
  const Dims whole = {rows, columns, inner};
  const auto t = [&](const Dims& dims) { return shape_text(type, dims); };
  const auto slice = [&](const char* name, const char* of, std::int64_t from, std::int64_t to) {
    return std::string("  ") + name + " = " + t({rows, to - from, inner}) + " slice(" + of +
           "), slice={[0:" + std::to_string(rows) + "], [" + std::to_string(from) + ":" +
           std::to_string(to) + "], [0:" + std::to_string(inner) + "]}\n";
  };
  return "HloModule rows\nENTRY main {\n  x = " + t(whole) + " parameter(0)\n  y = " + t(whole) +
         " parameter(1)\n  b = " + t({columns}) + " parameter(2)\n  p = " + t({}) +
         " parameter(3)\n" + slice("x.1", "x", 0, first) + slice("x.2", "x", first, columns) +
         slice("y.1", "y", columns - first, columns) + slice("y.2", "y", 0, columns - first) +
         "  part.1 = " + t({rows, first, inner}) +
         " multiply(x.1, y.1)\n  part.2 = " + t({rows, columns - first, inner}) +
         " subtract(y.2, x.2)\n  both = " + t(whole) +
         " concatenate(part.1, part.2), dimensions={1}\n  over = " + t(whole) +
         " broadcast(b), dimensions={1}\n  sum = " + t(whole) +
         " add(both, over)\n  number = " + shape_text("s32", whole) +
         " iota(), iota_dimension=1\n  as = " + t(whole) +
         " convert(number)\n  made = " + t(whole) +
         " multiply(sum, as)\n  padded = " + t({rows, columns, inner}) +
         " pad(x.1, p), padding=0_0x" + std::to_string(columns - first) + "_0x0_0\n  ROOT out = (" +
         t(whole) + ", " + t(whole) + ") tuple(made, " + "again)\n}\n";
}

TEST(ShortRows, ComputeWhatTheEvaluatorDoes) {
  const std::uint64_t seed = 20261126;
  Random r(seed);
  const std::pair<const char*, DType> types[] = {{"f32", DType::f32},   {"f64", DType::f64},
                                                 {"bf16", DType::bf16}, {"s8", DType::s8},
                                                 {"c64", DType::c64},   {"s64", DType::s64}};
  for (int n = 0; n < 60; ++n) {
    const auto& [name, type] = types[std::size_t(n) % std::size(types)];
    const std::int64_t rows = 1 + r.below(90), columns = 2 + r.below(12);
    const std::int64_t inner = n % 3 == 0 ? 2 + r.below(4) : 1;
    const std::int64_t first = 1 + r.below(columns - 1);
    std::string text = program(name, rows, columns, inner, first);
    const std::string shape = shape_text(name, {rows, columns, inner});
    text.insert(text.find("  ROOT"), "  again = " + shape + " add(padded, x)\n");
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
    const std::vector<Literal> arguments = {r.literal(type, {rows, columns, inner}),
                                            r.literal(type, {rows, columns, inner}),
                                            r.literal(type, {columns}), r.literal(type, {})};
    expect_results(*module, arguments, evaluator::evaluate(*module, arguments), 10);
    if (HasFailure()) return;
  }
}

/// Pairs of points, and what is one number for a point, for a coordinate or for a pair: the rows of
/// pairs, of any length, aren't made of whole periods.
TEST(ShortRows, NeedNotBeWholePeriods) {
  const std::uint64_t seed = 20261129;
  Random r(seed);
  const DType types[] = {DType::f32, DType::f64, DType::bf16, DType::s8, DType::c64};
  for (int n = 0; n < 80; ++n) {
    const DType type = types[std::size_t(n) % std::size(types)];
    const Dims all = {1 + r.below(40), 20 + r.below(300), 2 + r.below(12)};
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(n));
    Program p;
    const auto over = [&](const Dims& dims) {
      Dims sizes;
      for (const std::int64_t d : dims) sizes.push_back(all[std::size_t(d)]);
      return p.b.broadcast(p.argument(r.literal(type, sizes)), all, dims);
    };
    Instruction* pair = p.b.binary(Opcode::subtract, over({0, 2}), over({1, 2}));
    Instruction* scaled = p.b.binary(Opcode::multiply, over({0, 1}), over({2}));
    Instruction* out = p.b.binary(Opcode::add, pair, scaled);
    if (!is_complex(type))
      out = p.b.binary(Opcode::add, out, p.b.iota(Shape(type, all), 1 + n % 2));
    p.check(out, seed);
    if (HasFailure()) return;
  }
}

/// Small arrays of these dims, stacked along new dims behind those.
Instruction* stacked(Program& p, Random& r, DType t, const Dims& dims, int levels) {
  if (levels == 0) return p.argument(r.literal(t, dims));
  std::vector<Instruction*> parts;
  const std::int64_t count = 2 + r.below(2);
  for (std::int64_t k = 0; k < count; ++k) {
    Instruction* x = stacked(p, r, t, dims, levels - 1);
    Dims longer = x->shape.dims;
    longer.insert(longer.begin() + std::ptrdiff_t(dims.size()), 1);
    parts.push_back(p.b.reshape(x, longer));
  }
  // All have to have the same dims: others than the first are cut or repeated.
  for (Instruction*& x : parts) {
    if (x->shape.dims != parts[0]->shape.dims) x = parts[0];
  }
  return p.b.concatenate(parts, std::int64_t(dims.size()));
}

// What is chosen by coordinates of several dims, as matrices that are put together of numbers.
TEST(ShortRows, AreStackedInSeveralDims) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(std::vector<DType>{DType::f32, DType::f64, DType::s8, DType::s32});
    const Dims dims = {r.chance(0.3) ? 1000 : 1 + r.below(70)};
    Instruction* x = stacked(p, r, t, dims, 1 + int(r.below(3)));
    std::vector<Instruction*> results = {x};
    if (r.chance(0.5))
      results.push_back(p.b.binary(Opcode::maximum, x, p.b.unary(Opcode::negate, x)));
    if (x->shape.rank() == 3 && r.chance(0.5)) {
      results.push_back(p.b.unary(Opcode::negate, p.b.transpose(x, {0, 2, 1})));
    }
    p.check(p.b.tuple(results), seed, 0);
  }
}

// Rows of about a vector, of which each is read by many others.
TEST(ShortRows, AreReducedAsTheyAre) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(
        std::vector<DType>{DType::f32, DType::f64, DType::bf16, DType::s32, DType::u8, DType::c64});
    const std::int64_t a = 1 + r.below(90), b = 1 + r.below(40), n = 2 + r.below(36);
    const Dims dims = {a, b, n};
    Instruction* x = p.b.broadcast(p.argument(r.literal(t, {a, n})), dims, {0, 2});
    Instruction* y = p.b.broadcast(p.argument(r.literal(t, {b, n})), dims, {1, 2});
    Instruction* d = p.b.binary(Opcode::subtract, x, y);
    d = p.b.binary(Opcode::multiply, d, r.chance(0.5) ? d : x);
    const bool extremum = t != DType::c64 && r.chance(0.4);
    const Opcode op = extremum ? (r.chance(0.5) ? Opcode::maximum : Opcode::minimum) : Opcode::add;
    Instruction* init = p.argument(r.literal(t, {}));
    p.check(p.b.reduce(d, init, {2}, ir::scalar_computation(&p.module, op, t)), seed, 300);
  }
}

// Rows of several vectors are written where they belong, whole and in part; and what is made of a
// concatenation in a short loop, whose elements are no whole number of periods.
TEST(ShortRows, StandAmongOthers) {
  const WithVariable jit("TESSERA_JIT", "always");
  Random r(7);
  for (int n = 0; n < 12; ++n) {
    const std::int64_t rows = 1 + r.below(300), a = 1 + r.below(40), b = 1 + r.below(40);
    Program p;
    Instruction* x = p.argument(r.literal(DType::f32, {rows, a}));
    Instruction* y = p.argument(r.literal(DType::f32, {rows, b}));
    Instruction* both =
        p.b.concatenate({p.b.binary(Opcode::multiply, x, x), y, p.b.unary(Opcode::negate, y)}, 1);
    p.check(p.b.tuple({both}), std::uint64_t(n), 0);
  }
}

TEST(ShortRows, InLoopsOfAnyLength) {
  for (const int rows : {1, 5, 8, 21, 33, 100}) {
    const std::string whole = "f32[" + std::to_string(rows) + ",3]",
                      column = "f32[" + std::to_string(rows) + ",1]";
    const auto slice = [&](int k) {
      return " " + column + " slice(x), slice={[0:" + std::to_string(rows) + "], [" +
             std::to_string(k) + ":" + std::to_string(k + 1) + "]}\n";
    };
    const CountedLoopText loop("n", {{"x", whole}});
    const std::string text =
        "HloModule rows\n" + loop.condition("condition", 3) +
        loop.body("body",
                  "  a =" + slice(0) + "  b =" + slice(1) + "  c =" + slice(2) +
                      "  ab = " + column + " multiply(a, b)\n  bc = " + column +
                      " subtract(b, c)\n  ca = " + column + " negate(c)\n  both = " + whole +
                      " concatenate(ab, bc, ca), dimensions={1}\n  next = " + whole +
                      " add(x, both)\n",
                  "next") +
        "ENTRY main {\n  x = " + whole + " parameter(0)\n" + loop.loop("loop", "x") +
        "  ROOT out = " + whole + " get-tuple-element(loop), index=1\n}\n";
    SCOPED_TRACE(text);
    const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
    Random r(std::uint64_t(rows) + 1);
    const std::vector<Literal> arguments = {r.literal(DType::f32, {rows, 3})};
    expect_results(*module, arguments, evaluator::evaluate(*module, arguments), 100);
  }
}

}  // namespace
}  // namespace tessera::testing
