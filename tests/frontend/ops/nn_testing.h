// SPDX-License-Identifier: Apache-2.0
// Compares functions with the values and gradients of tests/fixtures/nn, with a loop over a batch,
// and with themselves on eight devices.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {

/// The numbers that the fixtures' scripts begin with: eighths, no two equal ones close together.
inline Array nn_pattern(std::vector<std::int64_t> shape, int seed) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(float((i * 37 + seed * 11) % 23 - 11) / 8);
  return array(values, std::move(shape));
}

struct NnFixture {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;

  template <class T>
  std::vector<T> as() const {
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
};

/// The arrays of a file in tests/fixtures/nn, by name.
inline const std::map<std::string, NnFixture>& nn_fixtures(const std::string& file) {
  static std::map<std::string, std::map<std::string, NnFixture>> files;
  std::map<std::string, NnFixture>& out = files[file];
  if (!out.empty()) return out;
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/nn/" + file);
  EXPECT_TRUE(in.good()) << file;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, dims, hex;
    NnFixture f;
    words >> name >> f.dtype >> dims >> hex;
    std::istringstream sizes(dims == "-" ? "" : dims);
    for (std::string size; std::getline(sizes, size, ',');) f.shape.push_back(std::stoll(size));
    for (std::size_t i = 0; hex != "-" && i + 1 < hex.size(); i += 2) {
      f.bytes.push_back(char(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    out[name] = f;
  }
  return out;
}

/// As expect_close; equal infinities are close, too.
inline void expect_numbers(const std::vector<float>& have, const std::vector<float>& want,
                           float tolerance) {
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (have[i] == want[i]) continue;
    ASSERT_NEAR(have[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
  }
}
inline void expect_numbers(const Array& have, const Array& want, float tolerance) {
  EXPECT_EQ(have.shape(), want.shape());
  expect_numbers(floats(astype(have, f32)), floats(astype(want, f32)), tolerance);
}

inline void expect_fixture(const Array& have, const NnFixture& want, float tolerance) {
  EXPECT_EQ(have.shape(), want.shape);
  EXPECT_EQ(std::string(name(have.dtype())), want.dtype);
  if (have.shape() != want.shape || std::string(name(have.dtype())) != want.dtype) return;
  if (want.dtype == "f32") return expect_numbers(floats(have), want.as<float>(), tolerance);
  if (want.dtype == "bf16") {
    std::vector<float> numbers;
    for (std::uint16_t v : want.as<std::uint16_t>()) {
      numbers.push_back(std::bit_cast<float>(std::uint32_t(v) << 16));
    }
    return expect_numbers(floats(astype(have, f32)), numbers, tolerance);
  }
  if (want.dtype == "f16") {
    const Array bits = astype(bitcast_convert(have, u16), s32);
    const std::vector<std::uint16_t> numbers = want.as<std::uint16_t>();
    EXPECT_EQ(bits.to_vector<std::int32_t>(),
              std::vector<std::int32_t>(numbers.begin(), numbers.end()));
    return;
  }
  if (want.dtype == "c64") {
    std::vector<float> numbers;
    for (const std::complex<float>& z : have.to_vector<std::complex<float>>()) {
      numbers.push_back(z.real());
      numbers.push_back(z.imag());
    }
    return expect_numbers(numbers, want.as<float>(), tolerance);
  }
  if (want.dtype == "s32") {
    EXPECT_EQ(have.to_vector<std::int32_t>(), want.as<std::int32_t>());
    return;
  }
  if (want.dtype == "u32") {
    EXPECT_EQ(have.to_vector<std::uint32_t>(), want.as<std::uint32_t>());
    return;
  }
  ADD_FAILURE() << "no comparison of " << want.dtype;
}

using NnFunction = std::function<Array(const std::vector<Array>&)>;

/// A function of arrays, and what is checked of it.
struct NnCase {
  std::string name;         ///< in the fixtures' file
  std::vector<Array> args;  ///< floating-point ones have gradients there
  NnFunction f;
  bool grad = true;
  float tolerance = 2e-5f;
};

/// Patterns with seeds 1, 2, ...
inline std::vector<Array> nn_patterns(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<Array> out;
  for (const auto& shape : shapes) out.push_back(nn_pattern(shape, int(out.size()) + 1));
  return out;
}

/// The value, eagerly and under jit, and the gradients, as in the fixtures.
inline void check_nn_values(const std::string& file, const std::vector<NnCase>& cases) {
  const auto& fixtures = nn_fixtures(file);
  for (const NnCase& c : cases) {
    SCOPED_TRACE(c.name);
    const auto found = fixtures.find(c.name);
    ASSERT_NE(found, fixtures.end());
    expect_fixture(c.f(c.args), found->second, c.tolerance);
    const auto value = [&](std::vector<Array> args) { return c.f(args); };
    expect_fixture(jit(value)(c.args), found->second, c.tolerance);
    if (!c.grad) {
      EXPECT_EQ(fixtures.count(c.name + ".0"), 0u) << "gradients that nobody looks at";
      continue;
    }
    std::vector<std::size_t> moved;
    std::vector<Array> floating;
    for (std::size_t k = 0; k < c.args.size(); ++k) {
      if (c.args[k].dtype() != DType::f32) continue;
      moved.push_back(k);
      floating.push_back(c.args[k]);
    }
    const auto of_floats = [&](std::vector<Array> xs) {
      std::vector<Array> args = c.args;
      for (std::size_t i = 0; i < xs.size(); ++i) args[moved[i]] = xs[i];
      const Array y = c.f(args);
      return sum(y * nn_pattern(y.shape(), 7));
    };
    const std::vector<Array> gradients = jit(grad(of_floats))(floating);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const std::string name = c.name + "." + std::to_string(moved[i]);
      SCOPED_TRACE(name);
      ASSERT_EQ(fixtures.count(name), 1u);
      expect_fixture(gradients[i], fixtures.at(name), c.tolerance);
    }
  }
}

/// vmap over all arguments, and over the first alone, against a loop.
inline void check_nn_batches(const std::vector<NnCase>& cases) {
  for (const NnCase& c : cases) {
    SCOPED_TRACE("vmap of " + c.name);
    std::vector<Array> stacked;
    for (const Array& a : c.args) {
      stacked.push_back(is_floating(a.dtype()) ? stack({a, a * 0.5f, 0.25f - a})
                                               : stack({a, a, a}));
    }
    const auto entry = [&](std::size_t i, bool all) {
      std::vector<Array> args = c.args;
      for (std::size_t k = 0; k < (all ? args.size() : 1); ++k) {
        args[k] = index(stacked[k], {std::int64_t(i)});
      }
      return c.f(args);
    };
    const auto loop = [&](bool all) {
      return stack({entry(0, all), entry(1, all), entry(2, all)});
    };
    const auto of_all = vmap([&](std::vector<Array> args) { return c.f(args); });
    expect_numbers(jit(of_all)(stacked), loop(true), c.tolerance);
    if (c.args.size() == 1) continue;
    const auto of_first = vmap([&](Array first) {
      std::vector<Array> args = c.args;
      args[0] = first;
      return c.f(args);
    });
    expect_numbers(jit(of_first)(stacked[0]), loop(false), c.tolerance);
  }
}

/// The function on eight devices, with the given dims of the arguments split (-1: a copy on each),
/// communicates nothing and gives the same.
inline void check_nn_sharded(const std::string& name, const NnFunction& f,
                             const std::vector<Array>& args, const std::vector<int>& split,
                             float tolerance = 1e-5f) {
  SCOPED_TRACE("on devices: " + name);
  const Mesh mesh = make_mesh({{"x", 8}});
  std::vector<Array> placed;
  for (std::size_t k = 0; k < args.size(); ++k) {
    PartitionSpec spec = P();
    if (split[k] == 0) spec = P("x");
    if (split[k] == 1) spec = P(nullptr, "x");
    if (split[k] == 2) spec = P(nullptr, nullptr, "x");
    placed.push_back(put(args[k], mesh, spec));
  }
  const auto g = jit([&](std::vector<Array> xs) { return f(xs); });
  const auto compiled = g.lower(placed).compile();
  EXPECT_EQ(compiled.collectives().size(), 0u) << compiled.as_text();
  const Array have = g(placed);
  EXPECT_FALSE(have.is_fully_replicated());
  expect_close(have, f(args), tolerance);
}

}  // namespace tessera::testing
