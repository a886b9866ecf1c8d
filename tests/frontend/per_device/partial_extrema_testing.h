// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of values that are left as parts of a maximum or minimum.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/frontend/per_device/explicit_testing.h"

namespace tessera::testing::partial_extrema {

inline constexpr UnreducedKind kMax = UnreducedKind::max, kMin = UnreducedKind::min;
inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// Some numbers in no order, of both signs.
inline Array mixed(std::vector<std::int64_t> shape, int from = 0) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(float((i + from) * 37 % 23) - 11);
  return array(values, std::move(shape));
}

/// One of the two kinds, with what joins its parts.
struct Extremum {
  UnreducedKind kind;

  bool is_max() const { return kind == kMax; }
  UnreducedKind other() const { return is_max() ? kMin : kMax; }
  std::string name() const { return to_string(kind); }
  P spec(const P& dims, std::vector<std::string> axes) const {
    return dims.with_unreduced(std::move(axes), kind);
  }
  Array of(Operand a, Operand b) const { return is_max() ? maximum(a, b) : minimum(a, b); }
  Array along(Operand x, Axes axes) const { return is_max() ? max(x, axes) : min(x, axes); }
  Array along(Operand x, Axes axes, const P& out) const {
    return is_max() ? max(x, axes, out) : min(x, axes, out);
  }
  float worst() const { return is_max() ? -kInf : kInf; }
};

inline std::size_t collectives(const std::string& text) {
  std::size_t n = 0;
  for (const char* kind : {" all-reduce(", " all-gather(", " reduce-scatter(", " all-to-all(",
                           " collective-permute("}) {
    n += count(text, kind);
  }
  return n;
}

/// Bits but for which NaN it is.
inline void expect_same(const Array& have, const Array& want) {
  ASSERT_EQ(have.shape(), want.shape());
  const std::vector<float> a = floats(have.astype(f32)), b = floats(want.astype(f32));
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(b[i])) {
      EXPECT_TRUE(std::isnan(a[i])) << "element " << i << " is " << a[i];
    } else {
      EXPECT_EQ(a[i], b[i]) << "element " << i;
    }
  }
}

/// Some parts of an explicit mesh.
struct ExtremaOnMesh {
  Extremum e;
  Mesh mesh = explicit_mesh({2, 4}, {"x", "y"});
  NamedSharding on(const P& spec) const { return NamedSharding(mesh, spec); }
  Array placed(const Array& x, const P& spec) const { return device_put(x, on(spec)); }
  /// f32[8,8]{U_max:x}, and the same array whole.
  Array parts(int from = 0) const {
    return e.along(placed(mixed({4, 8, 8}, from), P("x")), 0, e.spec(P(), {"x"}));
  }
  Array whole(int from = 0) const { return e.along(mixed({4, 8, 8}, from), 0); }
  std::string text(const std::string& type, const std::string& axes) const {
    return type + "{U_" + e.name() + ":" + axes + "}";
  }
};

}  // namespace tessera::testing::partial_extrema
