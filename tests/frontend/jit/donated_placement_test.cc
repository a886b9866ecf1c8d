// SPDX-License-Identifier: Apache-2.0
// A training step's state stays where it is: results are placed as the donated arguments that they
// follow.
#include <gtest/gtest.h>

#include <tessera/tessera.h>

#include "src/base/log.h"

namespace tessera {
namespace {

struct Adam {
  std::vector<Array> w, m, v;
};
TESSERA_TREE(Adam, w, m, v)

/// Two layers with biases.
Array loss(const std::vector<Array>& w, const Array& x) {
  return mean(square(matmul(tanh(matmul(x, w[0]) + w[1]), w[2]) + w[3]));
}

std::pair<Adam, Array> adam_step(Adam s, Array x) {
  const auto f = [&](std::vector<Array> w) { return loss(w, x); };
  const std::vector<Array> g = grad(f)(s.w);
  const Array value = f(s.w);
  for (std::size_t i = 0; i < s.w.size(); ++i) {
    s.m[i] = 0.9f * s.m[i] + 0.1f * g[i];
    s.v[i] = 0.99f * s.v[i] + 0.01f * square(g[i]);
    s.w[i] = s.w[i] - 1e-3f * s.m[i] / (sqrt(s.v[i]) + 1e-8f);
  }
  return {s, value};
}

Adam initial(const Mesh& mesh) {
  Adam s;
  const std::vector<std::vector<std::int64_t>> shapes = {{64, 256}, {256}, {256, 64}, {64}};
  const std::vector<PartitionSpec> specs = {P(nullptr, "model"), P(), P("model"), P()};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const NamedSharding where(mesh, specs[i]);
    s.w.push_back(device_put(full(shapes[i], 0.01f), where));
    s.m.push_back(device_put(zeros(shapes[i]), where));
    s.v.push_back(device_put(zeros(shapes[i]), where));
  }
  return s;
}

/// What is logged meanwhile.
class Logged {
 public:
  Logged() {
    set_log_sink([this](LogLevel, const std::string& line) {
      text += line + "\n";
      ++lines;
    });
  }
  ~Logged() { set_log_sink({}); }
  std::string text;
  int lines = 0;
};

TEST(DonatedPlacement, AnAdamStepKeepsItsState) {
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
  const auto step = jit(adam_step, {.donate_argnums = {0}});
  Adam state = initial(mesh);
  const std::vector<Array> before = tree_leaves(initial(mesh));
  const Array x = device_put(ones({32, 64}), NamedSharding(mesh, P("data")));
  const Logged logged;
  for (int n = 0; n < 3; ++n) {
    state = step(state, x).first;
    const std::vector<Array> after = tree_leaves(state);
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_TRUE(after[i].sharding().is_equivalent_to(before[i].sharding(), after[i].ndim()))
          << n << " " << i << " " << after[i].sharding().to_string();
    }
  }
  EXPECT_EQ(logged.text, "");
  EXPECT_EQ(step.cache_size(), 1);
}

TEST(DonatedPlacement, EachResultFollowsItsOwn) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const NamedSharding rows(mesh, P("x")), columns(mesh, P(nullptr, "x"));
  // In another order, and of one type.
  const auto f = jit(
      [](Array a, Array b) {
        return std::vector<Array>{b * 0.5f, a + 1};
      },
      {.donate_argnums = {0, 1}});
  const auto out = f(device_put(ones({16, 16}), rows), device_put(ones({16, 16}), columns));
  EXPECT_EQ(out[0].sharding(), Sharding(columns));
  EXPECT_EQ(out[1].sharding(), Sharding(rows));
}

TEST(DonatedPlacement, WhatIsRequestedIsKept) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const NamedSharding rows(mesh, P("x")), whole(mesh, P());
  const auto f =
      jit([](Array a) { return a + 1; }, {.out_shardings = whole, .donate_argnums = {0}});
  EXPECT_EQ(f(device_put(ones({16, 16}), rows)).sharding(), Sharding(whole));
}

TEST(DonatedPlacement, WarningsAreOne) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const NamedSharding rows(mesh, P("x"));
  const auto f = jit([](Array a, Array b) { return sum(a) + sum(b); },
                     {.donate_argnums = {0, 1}, .name = "f"});
  const Logged logged;
  (void)f(device_put(ones({16, 16}), rows), device_put(ones({16, 16}), rows));
  EXPECT_EQ(logged.lines, 1) << logged.text;
  EXPECT_NE(logged.text.find("donated argument 0 of 'f' (f32[16,16]), argument 1 of 'f' "
                             "(f32[16,16]) are not usable"),
            std::string::npos)
      << logged.text;
}

}  // namespace
}  // namespace tessera
