// SPDX-License-Identifier: Apache-2.0
// Random calls, most of them wrong: each gives the result that it gives on one device, or an Error
// with the line; never a crash or an InternalError.
#include <tessera/tessera.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <thread>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::misuse {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : rng_(seed) {}
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(rng_);
  }
  bool rarely() { return number(0, 9) == 0; }
  bool often() { return number(0, 3) != 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[std::size_t(number(0, std::int64_t(list.size()) - 1))];
  }
  std::vector<std::int64_t> numbers(std::int64_t count, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(number(low, high));
    return out;
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> out;
    for (std::int64_t d = number(0, 3); d > 0; --d) {
      out.push_back(of<std::int64_t>({0, 1, 2, 3, 4, 8, 8, 4}));
    }
    return out;
  }
  DType dtype() {
    return of<DType>({DType::f32, DType::f32, DType::f32, DType::s32, DType::pred, DType::bf16,
                      DType::c64, DType::f64, DType::u8});
  }
  PartitionSpec spec() {
    std::vector<SpecEntry> entries;
    for (std::int64_t d = number(0, 3); d > 0; --d) {
      const std::int64_t kind = number(0, 9);
      if (kind < 4) {
        entries.emplace_back(nullptr);
      } else if (kind < 8) {
        entries.emplace_back(axis());
      } else if (kind == 8) {
        entries.emplace_back(std::vector<std::string>{axis(), axis()});
      } else if (rarely()) {
        entries.emplace_back(UNCONSTRAINED);
      } else {
        entries.emplace_back(std::vector<std::string>());
      }
    }
    PartitionSpec out = PartitionSpec::from_entries(std::move(entries));
    if (!rarely()) return out;
    try {
      return out.with_unreduced({axis()});
    } catch (const ValueError&) {
      return out;
    }
  }
  std::string axis() { return of<std::string>({"x", "y", "x", "y", "x", "y", "z", ""}); }
  std::string letters(std::int64_t most) {
    std::string out;
    for (std::int64_t n = number(0, most); n > 0; --n) out += of<char>({'i', 'j', 'k', 'i', 'j'});
    return out;
  }

 private:
  std::mt19937_64 rng_;
};

std::vector<Mesh> meshes() {
  using enum AxisType;
  return {make_mesh({{"x", 2}, {"y", 4}}), make_mesh({{"x", 8}}),
          make_mesh({2, 4}, {"x", "y"}, {Explicit, Explicit}),
          make_mesh({4, 2}, {"x", "y"}, {Explicit, Auto})};
}

using Op = std::function<Array(const std::vector<Array>&)>;

/// An operation with arguments that may not fit.
Op operation(Random& r) {
  const std::vector<std::int64_t> n = r.numbers(3, -2, 8);
  const std::vector<std::int64_t> shape = r.shape();
  const std::int64_t axis = r.number(-3, 3);
  switch (r.number(0, 27)) {
    case 0:
      return [](const auto& a) { return a[0] + a[1]; };
    case 1:
      return [](const auto& a) { return a[0] * a[1]; };
    case 2:
      return [](const auto& a) { return matmul(a[0], a[1]); };
    case 3:
      return [=](const auto& a) { return reshape(a[0], shape); };
    case 4:
      return [=](const auto& a) { return transpose(a[0], n); };
    case 5:
      return [=](const auto& a) { return sum(a[0], axis); };
    case 6:
      return [=](const auto& a) { return concatenate({a[0], a[1]}, axis); };
    case 7:
      return [=](const auto& a) { return stack({a[0], a[1]}, axis); };
    case 8:
      return [=](const auto& a) { return take(a[0], array({n[0], n[1]}), axis); };
    case 9:
      return [=](const auto& a) { return broadcast_to(a[0], shape); };
    case 10:
      return [=](const auto& a) { return slice(a[0], {n[0], 0}, {n[1], n[2]}); };
    case 11:
      return [=](const auto& a) { return roll(a[0], n[0], axis); };
    case 12:
      return [=](const auto& a) { return sort(a[0], axis); };
    case 13:
      return [=](const auto& a) { return cumsum(a[0], axis); };
    case 14:
      return [=](const auto& a) { return expand_dims(a[0], axis); };
    case 15:
      return [=](const auto& a) { return squeeze(a[0], axis); };
    case 16:
      return [](const auto& a) { return where(a[0], a[1], a[0]); };
    case 17:
      return [](const auto& a) { return softmax(a[0]); };
    case 18:
      return [](const auto& a) { return grad([](Array v) { return sum(v * v); })(a[0]); };
    case 19:
      return [](const auto& a) { return grad([](Array v) { return v * v; })(a[0]); };
    case 20:
      return [=](const auto& a) {
        return vmap([](Array v, Array w) { return v + w; },
                    {.in_axes = axes_tree(std::int64_t(n[0]), nullptr)})(a[0], a[1]);
      };
    case 21:
      return [](const auto& a) {
        return scan([](Array c, Array v) { return std::pair(c + v, c); }, a[0], a[1]).first;
      };
    case 22:
      return [](const auto& a) {
        return cond(
            a[0], [](Array v) { return v + 1; }, [](Array v) { return v; }, a[1]);
      };
    case 23: {
      const std::string spec = r.letters(3) + "," + r.letters(3) + "->" + r.letters(3);
      return [=](const auto& a) { return einsum(spec, {a[0], a[1]}); };
    }
    case 24:
      return [=](const auto& a) { return top_k(a[0], n[0]).first; };
    case 25:
      return [=](const auto& a) { return repeat(a[0], n[0], axis); };
    case 26:
      return [=](const auto& a) { return argmax(a[0], axis); };
    default:
      return [=](const auto& a) { return dynamic_slice(a[0], {a[1]}, {n[0]}); };
  }
}

/// Something else that takes specs and meshes.
std::function<Array(const Array&)> placement(Random& r, const Mesh& mesh) {
  const PartitionSpec spec = r.spec(), other = r.spec();
  const int donated = int(r.number(-1, 2));
  switch (r.number(0, 8)) {
    case 0:
      return [=](const Array& a) { return with_sharding_constraint(a, NamedSharding(mesh, spec)); };
    case 1:
      return [=](const Array& a) {
        return jit(
            [=](Array v) { return with_sharding_constraint(v * 2, NamedSharding(mesh, spec)); })(a);
      };
    case 2:
      return [=](const Array& a) {
        return jit([](Array v) { return v * 2; }, {.in_shardings = NamedSharding(mesh, spec),
                                                   .out_shardings = NamedSharding(mesh, other)})(a);
      };
    case 3:
      return [=](const Array& a) {
        const MeshScope scope(mesh);
        return jit([](Array v) { return v * 2; },
                   {.in_shardings = spec, .out_shardings = other})(a);
      };
    case 4:
      return [=](const Array& a) { return reshard(a, NamedSharding(mesh, spec)); };
    case 5:
      return [=](const Array& a) {
        return shard_map([](Array v) { return v * 2; },
                         {.mesh = mesh, .in_specs = spec, .out_specs = spec})(a);
      };
    case 6:
      return [=](const Array& a) {
        return auto_axes([](Array v) { return v * 2; }, {.out_sharding = spec})(a);
      };
    case 7:
      return [=](const Array& a) {
        return jit([](Array v) { return v * 2; }, {.donate_argnums = {donated}})(a);
      };
    default:
      return [=](const Array& a) { return device_put(a, NamedSharding(mesh, spec)); };
  }
}

bool close(const Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (is_complex(a.dtype())) return close(real(a), real(b)) && close(imag(a), imag(b));
  const auto x = astype(copy(a), DType::f32).to_vector<float>();
  const auto y = astype(copy(b), DType::f32).to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (x[i] != y[i] && !(std::abs(x[i] - y[i]) <= 2e-2f * (1 + std::abs(y[i])))) return false;
  }
  return true;
}

/// The result, or nothing after an Error, which must be one of the user's and name a line.
std::optional<Array> attempt(const std::function<Array()>& f, const std::string& what) {
  try {
    return f();
  } catch (const InternalError& e) {
    ADD_FAILURE() << what << ": " << e.what();
  } catch (const Error& e) {
    EXPECT_TRUE(e.location().known()) << what << ": no line in: " << e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << what << ": " << typeid(e).name() << ": " << e.what();
  }
  return std::nullopt;
}

/// How many of the calls gave a result.
int misused(std::uint64_t seed) {
  Random r(seed);
  const std::string what = "SOAK_SEED=" + std::to_string(seed);
  const std::vector<Mesh> all = meshes();
  const Mesh& mesh = r.of(all);
  const std::vector<std::int64_t> shape = r.shape();
  std::vector<Array> plain, placed;
  for (int k = 0; k < 2; ++k) {
    const auto mine = r.often() ? shape : r.shape();
    Array x = astype(counting(mine, 0.25f), r.often() ? DType::f32 : r.dtype());
    plain.push_back(x);
    const PartitionSpec spec = r.spec();
    const auto there = attempt([&] { return device_put(x, NamedSharding(mesh, spec)); }, what);
    placed.push_back(there ? *there : x);
  }
  int results = 0;
  if (r.often()) {
    const Op op = operation(r);
    const bool traced = r.often();
    const auto want = attempt([&] { return op(plain); }, what);
    const auto have = attempt(
        [&] {
          return traced ? jit([&](std::vector<Array> in) { return op(in); })(placed) : op(placed);
        },
        what);
    if (have) {
      ++results;
      EXPECT_TRUE(want && close(*have, *want)) << what << ": wrong result";
    }
    return results;
  }
  const auto f = placement(r, mesh);
  const Array before = copy(plain[0]);
  if (const auto have = attempt([&] { return f(placed[0]); }, what)) {
    ++results;
    EXPECT_TRUE(close(*have, before) || close(*have, before * 2) || before.dtype() == DType::pred)
        << what << ": wrong result";
  }
  return results;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Misuse, RandomCallsGiveResultsOrErrors) {
  const std::uint64_t first = from_environment("SOAK_SEED", 1);
  const std::uint64_t count = 2 * from_environment("SOAK_PROGRAMS", 5000);
  int results = 0;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    try {
      results += misused(seed);
    } catch (const std::exception& e) {
      FAIL() << "SOAK_SEED=" << seed << ": " << e.what();
    }
  }
  // Many calls are right.
  if (count > 1000) {
    EXPECT_GT(results, int(count / 20));
  }
}

TEST(Misuse, FromSeveralThreadsAtOnce) {
  const std::uint64_t first = from_environment("SOAK_SEED", 100000);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([first, t] {
      for (std::uint64_t k = 0; k < 60; ++k) misused(first + std::uint64_t(t % 4) * 60 + k);
    });
  }
}

}  // namespace
}  // namespace tessera::testing::misuse
