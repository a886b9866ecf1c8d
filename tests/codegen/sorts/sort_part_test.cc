// SPDX-License-Identifier: Apache-2.0
// Sorts of which slices are read, against the evaluator, which sorts all.
#include <gtest/gtest.h>

#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

/// Keys first; then the places, along the sorted dim.
std::string sort_of_slices(Random& r, const std::string& type, std::int64_t n, std::int64_t inner) {
  const auto shape = [&](const std::string& t, std::int64_t rows) {
    return t + "[" + std::to_string(rows) + "," + std::to_string(inner) + "]";
  };
  const bool two_keys = r.chance(0.3), total = type[0] == 'f' && r.chance(0.5);
  const std::string order = std::string(", direction=") + (r.chance(0.5) ? "LT" : "GT") +
                            (total ? ", type=TOTALORDER" : "");
  std::string text = "HloModule m\nless {\n  a = " + type + "[] parameter(0)\n  b = " + type +
                     "[] parameter(1)\n  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n";
  if (two_keys) {
    text +=
        "  first = pred[] compare(i, j), direction=LT\n  same = pred[] compare(i, j), "
        "direction=EQ\n  then = pred[] compare(a, b)" +
        order + "\n  both = pred[] and(same, then)\n  ROOT r = pred[] or(first, both)\n}\n";
  } else {
    text += "  ROOT r = pred[] compare(a, b)" + order + "\n}\n";
  }
  text += "ENTRY main {\n  x = " + shape(type, n) + " parameter(0)\n  y = " + shape("s32", n) +
          " parameter(1)\n  s = (" + shape(type, n) + ", " + shape("s32", n) +
          ") sort(x, y), dimensions={0}, is_stable=true, to_apply=less\n  v = " + shape(type, n) +
          " get-tuple-element(s), index=0\n  w = " + shape("s32", n) +
          " get-tuple-element(s), index=1\n";
  const std::int64_t size = 1 + r.below(r.chance(0.5) ? std::min<std::int64_t>(n, 9) : n);
  const std::int64_t begin = r.chance(0.3) ? 0 : r.chance(0.4) ? n - size : r.below(n - size + 1);
  const auto slice = [&](const char* name, const std::string& of, const std::string& t,
                         std::int64_t first, std::int64_t count) {
    text += std::string("  ") + name + " = " + shape(t, count) + " slice(" + of + "), slice={[" +
            std::to_string(first) + ":" + std::to_string(first + count) +
            "], [0:" + std::to_string(inner) + "]}\n";
  };
  slice("p", "v", type, begin, size);
  slice("q", "w", "s32", begin + size / 2, size - size / 2);
  return text + "  ROOT out = (" + shape(type, size) + ", " + shape("s32", size - size / 2) +
         ") tuple(p, q)\n}\n";
}

TEST(SortsOfParts, GiveWhatTheEvaluatorDoes) {
  const std::uint64_t seed = 20261129;
  Random r(seed);
  const std::pair<const char*, DType> types[] = {{"f32", DType::f32},   {"f64", DType::f64},
                                                 {"bf16", DType::bf16}, {"s8", DType::s8},
                                                 {"u64", DType::u64},   {"s32", DType::s32}};
  for (int n = 0; n < 240; ++n) {
    const auto& [name, type] = types[std::size_t(n) % std::size(types)];
    const std::int64_t rows = 1 + r.below(n % 4 == 0 ? 700 : 90), inner = 1 + r.below(3);
    const std::string text = sort_of_slices(r, name, rows, inner);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
    // Few numbers, so that many are equal, and any.
    Literal second = r.literal(DType::s32, {rows, inner});
    if (r.chance(0.5)) {
      for (std::int32_t& x : second.mutable_data<std::int32_t>()) x %= 3;
    }
    Literal first = r.literal(type, {rows, inner}, r.chance(0.3));
    // Keys that differ in their first bits now and then only.
    if (type == DType::u64 && r.chance(0.5)) {
      for (std::uint64_t& x : first.mutable_data<std::uint64_t>()) {
        x = (x % 3) << 50 | x % 7 << 20 | x % 5;
      }
    }
    const std::vector<Literal> arguments = {std::move(first), std::move(second)};
    expect_results(*module, arguments, evaluator::evaluate(*module, arguments));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tessera::testing
