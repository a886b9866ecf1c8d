// SPDX-License-Identifier: Apache-2.0
// Loops over dims that are shorter than vectors: what is read along them, and what is put together.
#include "tests/codegen/random_case.h"

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
    std::vector<Literal> want;
    append_leaves(evaluator::evaluate(*module, arguments), want);
    const std::vector<Literal> got = run_module(*module, arguments);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      ASSERT_EQ(difference(got[k], want[k], Program::tolerance(type, 10)), "");
    }
  }
}

}  // namespace
}  // namespace tessera::testing
