// SPDX-License-Identifier: Apache-2.0
// Random numbers against jax.random's, and their statistical properties.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/random/internal.h"
#include "src/frontend/trace/trace.h"
#include "tests/frontend/ops/fixture_call.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera {
namespace {

using testing::FixtureCall;
using testing::FixtureCase;
using testing::FixtureFunction;
using Arrays = std::vector<Array>;

Array bound(const FixtureCall& c, const std::string& key) {
  const std::string text = c.word(key);
  return text.at(0) == '-' ? Array(std::int64_t(std::stoll(text)))
                           : Array(std::uint64_t(std::stoull(text)));
}

const std::map<std::string, FixtureFunction>& random_functions() {
  static const std::map<std::string, FixtureFunction> table{
      {"threefry2x32",
       [](const FixtureCall& c) {
         return frontend::as_one_program("threefry", {}, [&] {
           const auto [a, b] =
               frontend::threefry(frontend::key_words(c[0]), {c[1], {}}, {c[2], {}});
           return Arrays{stack({a.array, b.array})};
         });
       }},
      {"key",
       [](const FixtureCall& c) {
         const auto seed = std::int64_t(std::stoll(c.word("seed")));
         return Arrays{random::key(seed)};
       }},
      {"split",
       [](const FixtureCall& c) {
         return Arrays{c.word("num").at(0) == '[' ? random::split(c[0], c.list("num"))
                                                  : random::split(c[0], c.integer("num"))};
       }},
      {"fold_in",
       [](const FixtureCall& c) { return Arrays{random::fold_in(c[0], bound(c, "data"))}; }},
      {"bits",
       [](const FixtureCall& c) {
         return Arrays{random::bits(c[0], c.list("shape"), c.dtype("dtype", u32))};
       }},
      {"uniform",
       [](const FixtureCall& c) {
         return Arrays{random::uniform(c[0], c.list("shape"), c.dtype("dtype", f32),
                                       c.number("minval", 0), c.number("maxval", 1))};
       }},
      {"randint",
       [](const FixtureCall& c) {
         return Arrays{random::randint(c[0], c.list("shape"), bound(c, "minval"),
                                       bound(c, "maxval"), c.dtype("dtype", s32))};
       }},
      {"permutation",
       [](const FixtureCall& c) {
         if (c.has("n")) return Arrays{random::permutation(c[0], c.integer("n"))};
         return Arrays{
             random::permutation(c[0], c[1], c.integer("axis"), c.integer("independent") != 0)};
       }},
      {"normal",
       [](const FixtureCall& c) {
         return Arrays{random::normal(c[0], c.list("shape"), c.dtype("dtype", f32))};
       }},
      {"truncated_normal",
       [](const FixtureCall& c) {
         return Arrays{random::truncated_normal(c[0], c.number("lower"), c.number("upper"),
                                                c.list("shape"), c.dtype("dtype", f32))};
       }},
      {"bernoulli",
       [](const FixtureCall& c) {
         return Arrays{random::bernoulli(c[0], c.number("p"), c.list("shape"))};
       }},
      {"exponential",
       [](const FixtureCall& c) {
         return Arrays{random::exponential(c[0], c.list("shape"), c.dtype("dtype", f32))};
       }},
      {"gumbel",
       [](const FixtureCall& c) {
         return Arrays{random::gumbel(c[0], c.list("shape"), c.dtype("dtype", f32))};
       }},
      {"laplace",
       [](const FixtureCall& c) {
         return Arrays{random::laplace(c[0], c.list("shape"), c.dtype("dtype", f32))};
       }},
      {"categorical",
       [](const FixtureCall& c) {
         std::optional<random::Shape> shape;
         if (c.has("shape")) shape = c.list("shape");
         return Arrays{random::categorical(c[0], c[1], c.integer("axis", -1), shape)};
       }},
      {"choice", [](const FixtureCall& c) {
         random::ChoiceOptions options;
         options.replace = c.integer("replace", 1) != 0;
         if (!c.has("weighted")) {
           return Arrays{random::choice(c[0], c.integer("n"), c.list("shape"), options)};
         }
         options.p = c[2];
         return Arrays{random::choice(c[0], c[1], c.list("shape"), options)};
       }}};
  return table;
}

/// Tessera's key takes all 64 bits of a seed; JAX without 64-bit types takes the lower half. The
/// two agree for seeds from 0 to 2^32 - 1, and only those of the other kind are left out.
bool is_cut_seed(const FixtureCase& c) {
  if (c.call != "key" || c.options.at("x64") != "0") return false;
  const long long seed = std::stoll(c.options.at("seed"));
  return seed < 0 || seed > 0xffffffffll;
}

/// The cases, with a larger tolerance where one step of erf is a large part of the distance to 1:
/// between 3 and 4 sigmas XLA's own erf is a step away from the exact one, which moves the numbers
/// by 1e-4.
std::vector<FixtureCase> cases() {
  std::vector<FixtureCase> out = testing::read_fixtures("random.txt");
  for (FixtureCase& c : out) {
    if (c.name == "truncated_normal_3") c.tolerance.relative = 1e-4;
  }
  return out;
}

std::vector<std::string> function_names() {
  std::set<std::string> names;
  for (const FixtureCase& c : cases()) names.insert(c.call);
  return {names.begin(), names.end()};
}

class Random : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Run>
  void check(Run run) {
    const auto found = random_functions().find(GetParam());
    ASSERT_NE(found, random_functions().end()) << "no function for the fixtures' name";
    int count = 0;
    for (const FixtureCase& c : cases()) {
      if (c.call != GetParam() || is_cut_seed(c)) continue;
      SCOPED_TRACE(c.name);
      ++count;
      try {
        EXPECT_EQ(run(found->second, c), "");
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
    EXPECT_GT(count, 0);
  }
};

TEST_P(Random, TracedAndEvaluated) { check(testing::run_traced); }
TEST_P(Random, Eagerly) { check(testing::run_eagerly); }
TEST_P(Random, UnderJit) { check(testing::run_jitted); }
TEST_P(Random, Sharded) { check(testing::run_sharded); }

INSTANTIATE_TEST_SUITE_P(All, Random, ::testing::ValuesIn(function_names()),
                         [](const auto& info) { return info.param; });

TEST(RandomKeys, ComputedSeedsAgreeWithKnownOnes) {
  auto from_array = jit([](Array seed) { return random::key(seed); });
  const Array seed = array<std::int64_t>({1311768467463790320});
  EXPECT_EQ(from_array(reshape(seed, {})).to_vector<std::uint32_t>(),
            random::key(std::int64_t(1311768467463790320)).to_vector<std::uint32_t>());
  EXPECT_EQ(
      jit([](Array x) { return random::key(42) + x; })(zeros({2}, u32)).to_vector<std::uint32_t>(),
      (std::vector<std::uint32_t>{0, 42}));
}

TEST(RandomBounds, ArraysGiveWhatNumbersGive) {
  const Array key = random::key(7);
  for (DType t : {s8, s32, u8, u32, s64}) {
    const Array low = reshape(array<std::int64_t>({-3}), {});
    const Array high = reshape(array<std::int64_t>({1000}), {});
    const Array a = random::randint(key, {50}, low, high, t);
    const Array b = random::randint(key, {50}, -3, 1000, t);
    EXPECT_EQ(a.dtype(), t);
    EXPECT_EQ(astype(a, s64).to_vector<std::int64_t>(), astype(b, s64).to_vector<std::int64_t>())
        << name(t);
  }
  const Array low = reshape(array<float>({-3.f}), {}), high = reshape(array<float>({5.5f}), {});
  EXPECT_EQ(random::uniform(key, {100}, f32, low, high).to_vector<float>(),
            random::uniform(key, {100}, f32, -3.0, 5.5).to_vector<float>());
}

TEST(RandomFma, RoundsOnce) {
  // Products whose exact sum lies just beside the middle of two floats, where rounding twice fails.
  std::vector<float> a, b, c;
  const std::vector<std::uint32_t> words =
      random::bits(random::key(3), {3, 4000}).to_vector<std::uint32_t>();
  for (std::size_t i = 0; i < 4000; ++i) {
    a.push_back(std::ldexp(float(words[i] >> 8), -24));
    b.push_back(std::ldexp(float(words[4000 + i] >> 8), -20));
    c.push_back(std::ldexp(float(words[8000 + i] >> 8), -int(words[i] % 40)) *
                (words[i] % 2 ? 1.0f : -1.0f));
  }
  a.push_back(1 + std::ldexp(1.0f, -12));
  b.push_back(1 - std::ldexp(1.0f, -12));
  c.push_back(std::ldexp(1.0f, 30));
  auto fused = jit([](Array x, Array y, Array z) {
    return frontend::fused_multiply_add({x, {}}, {y, {}}, {z, {}}).array;
  });
  const std::vector<float> got = fused(array(a), array(b), array(c)).to_vector<float>();
  const std::vector<double> wide =
      fused(astype(array(a), f64) * 1e-3, astype(array(b), f64) / 3.0, astype(array(c), f64) / 7.0)
          .to_vector<double>();
  const auto wa = (astype(array(a), f64) * 1e-3).to_vector<double>();
  const auto wb = (astype(array(b), f64) / 3.0).to_vector<double>();
  const auto wc = (astype(array(c), f64) / 7.0).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(got[i], std::fma(a[i], b[i], c[i])) << a[i] << " " << b[i] << " " << c[i];
    ASSERT_EQ(wide[i], std::fma(wa[i], wb[i], wc[i])) << wa[i] << " " << wb[i] << " " << wc[i];
  }
}

TEST(RandomNumbers, NormalHasItsMoments) {
  const std::vector<float> x = random::normal(random::key(11), {20000}).to_vector<float>();
  double mean = 0, square = 0;
  for (float v : x) {
    mean += v;
    square += double(v) * v;
  }
  mean /= double(x.size());
  square /= double(x.size());
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(square, 1, 0.04);
}

TEST(RandomNumbers, PermutationsHoldEachNumberOnce) {
  const std::vector<std::int32_t> order =
      random::permutation(random::key(5), 2000).to_vector<std::int32_t>();
  const std::set<std::int32_t> distinct(order.begin(), order.end());
  EXPECT_EQ(distinct.size(), 2000u);
  EXPECT_EQ(*distinct.begin(), 0);
  EXPECT_EQ(*distinct.rbegin(), 1999);
}

TEST(RandomNumbers, DontDependOnTheSharding) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  auto draw = [](Array key) { return random::normal(key, {8, 12}); };
  JitOptions options;
  options.out_shardings = ShardingTree(NamedSharding(mesh, P("y", "x")));
  const Array key = random::key(9);
  EXPECT_EQ(jit(draw, options)(device_put(key, NamedSharding(mesh, P()))).to_vector<float>(),
            draw(key).to_vector<float>());
}

TEST(RandomPrograms, HashIsOneComputationPerShape) {
  auto f = [](Array key) {
    return random::uniform(key, {3, 4}) + random::uniform(random::fold_in(key, 1), {3, 4});
  };
  const std::string text = jit(f).lower(shape_dtype_struct({2}, u32)).as_text();
  std::size_t count = 0;
  for (std::size_t at = text.find("\nthreefry2x32"); at != std::string::npos;
       at = text.find("\nthreefry2x32", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, 2u) << text;  // one for [3,4], one for the scalar of fold_in
}

}  // namespace
}  // namespace tessera
