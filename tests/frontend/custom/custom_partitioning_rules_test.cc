// SPDX-License-Identifier: Apache-2.0
// custom_partitioning under derivatives and batches: derived ones, and rules of its own.
#include <tessera/custom_partitioning.h>

#include <tessera/collectives.h>
#include <tessera/derivatives.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/fft.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>
#include <tessera/vmap.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

using Shardings = std::vector<Sharding>;

/// The real part of an FFT along the last dim, which no device may have a part of; by callbacks.
struct Spectrum {
  std::shared_ptr<std::vector<std::vector<std::int64_t>>> seen =
      std::make_shared<std::vector<std::vector<std::int64_t>>>();

  static Array plain(Array x) { return real(fft(x.astype(c64))); }
  static Sharding last_whole(const ShapeInfo& x) {
    const NamedSharding given(x.sharding);
    std::vector<SpecEntry> entries = given.spec().entries();
    entries.resize(x.shape.size());
    entries.back() = SpecEntry();
    return NamedSharding(given.mesh(), PartitionSpec::from_entries(entries));
  }
  auto operator()() const {
    auto f = custom_partitioning([](Array x) { return plain(x); }, "spectrum");
    f.def_partition(
        {.partition =
             [seen = seen](const Mesh& mesh, const ShapeInfos& args, const ShapeInfos&) {
               seen->push_back(args[0].shape);
               const Sharding s = last_whole(args[0]);
               return Partition{mesh, [](Array x) { return plain(x); }, {s}, {s}};
             },
         .infer_sharding_from_operands =
             [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
               return Shardings{last_whole(args[0])};
             }});
    return f;
  }
};

/// A product whose contracting dim is split over "k": a sum over these devices, by a rule.
auto make_product(int* partitioned = nullptr) {
  auto f = custom_partitioning([](Array a, Array b) { return matmul(a, b); }, "product");
  f.def_partition({.partition =
                       [partitioned](const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
                         if (partitioned) ++*partitioned;
                         EXPECT_EQ(args[0].shape.size(), 2u);
                         return Partition{
                             m,
                             [](Array a, Array b) { return psum(matmul(a, b), "k"); },
                             {NamedSharding(m, P())},
                             {NamedSharding(m, P(nullptr, "k")), NamedSharding(m, P("k"))}};
                       },
                   .sharding_rule = "i k, k j -> i j",
                   .reduction_factors = {"k"}});
  return f;
}

const char* const kMoves[] = {"all-gather", "all-to-all", "collective-permute", "reduce-scatter"};

void expect_no_moves(const std::string& text) {
  for (const char* op : kMoves) EXPECT_FALSE(has(text, op)) << op << " in\n" << text;
}
void expect_no_communication(const std::string& text) {
  expect_no_moves(text);
  EXPECT_FALSE(has(text, "all-reduce")) << text;
}

TEST(CustomPartitioningRules, BatchesAreSplitByCallbacksOfAnEntry) {
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 4}});
  const Spectrum make;
  const auto spectrum = make();
  const Array whole = counting({8, 8, 16}, 0.125f);
  const Array want = Spectrum::plain(whole);
  const auto check = [&](const PartitionSpec& spec, const std::string& part) {
    const Array x = put(whole, mesh, spec);
    const auto f = jit([&](Array a) { return vmap([&](Array e) { return spectrum(e); })(a); });
    const std::string text = f.lower(x).compile().as_text();
    expect_no_communication(text);
    EXPECT_TRUE(has(text, part)) << text;
    EXPECT_EQ(make.seen->back(), (std::vector<std::int64_t>{8, 16}));
    expect_close(f(x), want);
    EXPECT_EQ(f(x).sharding(), NamedSharding(mesh, spec));
  };
  check(P("x"), "f32[4,8,16]");
  check(P("x", "y"), "f32[4,2,16]");
  check(P(nullptr, "y"), "f32[8,2,16]");
  check(P(axes("y", "x")), "f32[1,8,16]");
  EXPECT_EQ(make.seen->size(), 8u);
}

TEST(CustomPartitioningRules, ABatchIsOneMoreFactorOfARule) {
  const Mesh mesh = mesh_of({{"b", 2}, {"k", 4}});
  int partitioned = 0;
  const auto product = make_product(&partitioned);
  const Array a = counting({8, 4, 8}, 0.125f), b = counting({8, 5}, 0.25f);
  const auto f = jit([&](Array l, Array r) {
    return vmap([&](Array one, Array other) { return product(one, other); },
                {.in_axes = axes_tree(0, nullptr)})(l, r);
  });
  const Array l = put(a, mesh, P("b", nullptr, "k")), r = put(b, mesh, P("k"));
  const std::string text = f.lower(l, r).compile().as_text();
  expect_no_moves(text);
  EXPECT_EQ(count(text, " all-reduce("), 1u) << text;
  EXPECT_TRUE(has(text, "f32[4,4,5]")) << text;
  EXPECT_GE(partitioned, 1);
  expect_close(f(l, r), matmul(a, b));

  // Over the axis on which the per-device function sums there is no room for the batch.
  const Array other = put(a, mesh, P("k"));
  expect_close(f(other, put(b, mesh, P())), matmul(a, b));

  // Batches of batches; the batch as another dim.
  const Array many = counting({2, 4, 6, 8}, 0.125f);
  const auto twice = jit([&](Array x, Array y) {
    const auto inner = vmap([&](Array one, Array o) { return product(one, o); },
                            {.in_axes = axes_tree(1, nullptr)});
    return vmap(inner, {.in_axes = axes_tree(0, nullptr)})(x, y);
  });
  const Array m = put(many, mesh, P("b", nullptr, nullptr, "k"));
  const std::string nested = twice.lower(m, r).compile().as_text();
  expect_no_moves(nested);
  EXPECT_EQ(count(nested, " all-reduce("), 1u) << nested;
  expect_close(twice(m, r), matmul(swapaxes(many, 1, 2), b));
}

TEST(CustomPartitioningRules, DerivativesGoThroughTheBodyWithoutCommunication) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto spectrum = Spectrum()();
  const Array whole = counting({8, 16}, 0.125f), g = counting({8, 16}, 0.5f);
  const auto pull = [](auto f) { return [f](Array x, Array ct) { return vjp(f, x).second(ct); }; };
  const auto plain = [](Array x) { return Spectrum::plain(x); };
  const Array want = pull(plain)(whole, g);
  const auto f = jit(pull([&](Array x) { return spectrum(x); }));
  const Array x = put(whole, mesh, P("x")), ct = put(g, mesh, P("x"));
  expect_no_communication(f.lower(x, ct).compile().as_text());
  expect_close(f(x, ct), want);
  const auto push = jit([&](Array p, Array t) {
    return jvp([&](Array v) { return spectrum(v); }, std::tuple(p), std::tuple(t));
  });
  expect_no_communication(push.lower(x, ct).compile().as_text());
  expect_close(push(x, ct).second, Spectrum::plain(g));

  const auto product = make_product();
  const Mesh line = mesh_of({{"k", 8}});
  const Array a = put(counting({4, 16}, 0.125f), line, P(nullptr, "k"));
  const Array b = put(counting({16, 4}, 0.25f), line, P("k"));
  const auto back = jit([&](Array l, Array r, Array c) {
    return vjp([&](Array u, Array v) { return product(u, v); }, l, r).second(c);
  });
  const Array c = counting({4, 4});
  const std::string text = back.lower(a, b, c).compile().as_text();
  expect_no_communication(text);
  const auto [da, db] = back(a, b, c);
  expect_close(da, matmul(c, transpose(b)));
  expect_close(db, matmul(transpose(a), c));
}

TEST(CustomPartitioningRules, ReverseModeRulesArePartitioned) {
  const Mesh mesh = mesh_of({{"x", 8}});
  const Spectrum make;
  auto spectrum = make();
  // A rule that differs from the derivative, to be told apart.
  spectrum.def_vjp([spectrum](Array x) { return std::pair(spectrum(x), x); },
                   [spectrum](Array x, Array g) { return spectrum(g) * 2.0f + x; });
  const Array whole = counting({8, 16}, 0.125f);
  const Array x = put(whole, mesh, P("x"));
  const auto f = jit([&](Array v) { return grad([&](Array u) { return sum(spectrum(u)); })(v); });
  const std::string text = f.lower(x).compile().as_text();
  expect_no_communication(text);
  EXPECT_EQ(count(text, " fft("), 1u) << text;  // that of the value isn't needed
  EXPECT_EQ(make.seen->size(), 1u);
  const Array want = Spectrum::plain(ones({8, 16})) * 2.0f + whole;
  expect_close(f(x), want);
  EXPECT_EQ(f(x).sharding(), NamedSharding(mesh, P("x")));
  // Eagerly, and for each row of a batch that is split.
  expect_close(grad([&](Array u) { return sum(spectrum(u)); })(whole), want);
  const auto rows =
      jit([&](Array v) { return vmap(grad([&](Array u) { return sum(spectrum(u)); }))(v); });
  expect_no_communication(rows.lower(x).compile().as_text());
  EXPECT_EQ(make.seen->back(), (std::vector<std::int64_t>{16}));
  expect_close(rows(x), want);
  expect_error<NotImplementedError>(
      [&] { jvp([&](Array u) { return spectrum(u); }, std::tuple(whole), std::tuple(whole)); },
      {"spectrum", "custom_vjp"});
}

TEST(CustomPartitioningRules, ForwardModeRulesTakeStaticArguments) {
  const Mesh mesh = mesh_of({{"k", 8}});
  auto scaled =
      custom_partitioning([](Array a, int scale, Array b) { return matmul(a, b) * scale; },
                          static_argnums<1>, "scaled");
  scaled.def_partition(
      {.partition =
           [](int scale, const Mesh& m, const ShapeInfos&, const ShapeInfos&) {
             return Partition{m,
                              [scale](Array a, Array b) { return psum(matmul(a, b) * scale, "k"); },
                              {NamedSharding(m, P())},
                              {NamedSharding(m, P(nullptr, "k")), NamedSharding(m, P("k"))}};
           },
       .sharding_rule = "i k, k j -> i j",
       .reduction_factors = {"k"}});
  // The tangent of the first argument alone, and tenfold.
  scaled.def_jvp([scaled](int scale, std::tuple<Array, Array> x, std::tuple<Array, Array> dx) {
    const auto& [a, b] = x;
    return std::pair(scaled(a, scale, b), scaled(std::get<0>(dx), 10 * scale, b));
  });
  const Array a = counting({4, 16}, 0.125f), b = counting({16, 4}, 0.25f), c = ones({4, 4});
  const Array l = put(a, mesh, P(nullptr, "k")), r = put(b, mesh, P("k"));
  const auto f = jit([&](Array x, Array y) {
    return grad<0, 1>([&](Array u, Array v) { return sum(scaled(u, 3, v)); })(x, y);
  });
  const std::string text = f.lower(l, r).compile().as_text();
  expect_no_moves(text);
  const auto [da, db] = f(l, r);
  expect_close(da, matmul(c, transpose(b)) * 30.0f);
  expect_close(db, zeros({16, 4}));
  const auto push = jit([&](Array x, Array y) {
    return jvp([&](Array u) { return scaled(u, 3, y); }, std::tuple(x), std::tuple(x)).second;
  });
  expect_close(push(l, r), matmul(a, b) * 30.0f);

  // With symbolic zeros the rule is told that the second argument has no tangent.
  auto told = scaled;
  told.def_jvp(
      [scaled](int scale, std::tuple<Array, Array> x, std::tuple<Array, Array> dx) {
        const auto& [u, v] = x;
        const float factor = is_symbolic_zero(std::get<1>(dx)) ? 2.0f : 1.0f;
        return std::pair(scaled(u, scale, v), scaled(std::get<0>(dx), scale, v) * factor);
      },
      symbolic_zeros);
  expect_close(jvp([&](Array u) { return told(u, 3, b); }, std::tuple(a), std::tuple(a)).second,
               matmul(a, b) * 6.0f);
  // Copies made before have their own rule.
  expect_close(jvp([&](Array u) { return scaled(u, 3, b); }, std::tuple(a), std::tuple(a)).second,
               matmul(a, b) * 30.0f);
}

TEST(CustomPartitioningRules, RulesForBatches) {
  const Mesh mesh = mesh_of({{"k", 8}});
  int partitioned = 0, batched = 0;
  auto product = make_product(&partitioned);
  product.def_vmap([product, &batched](const BatchInfo& batch, Array a, Array b) {
    ++batched;
    if (batch.in_batched[1]) throw ValueError("one matrix for all entries");
    const std::int64_t rows = a.shape()[1];
    return reshape(product(reshape(a, {-1, a.shape()[2]}), b), {batch.axis_size, rows, -1});
  });
  const Array a = counting({3, 4, 16}, 0.125f), b = counting({16, 5}, 0.25f);
  const Array l = put(a, mesh, P(nullptr, nullptr, "k")), r = put(b, mesh, P("k"));
  const auto f = jit([&](Array x, Array y) {
    return vmap([&](Array u, Array v) { return product(u, v); },
                {.in_axes = axes_tree(0, nullptr)})(x, y);
  });
  const std::string text = f.lower(l, r).compile().as_text();
  expect_no_moves(text);
  EXPECT_TRUE(has(text, "f32[12,2]")) << text;
  EXPECT_GE(batched, 1);
  EXPECT_GE(partitioned, 1);
  expect_close(f(l, r), matmul(a, b));
  expect_error<ValueError>(
      [&] {
        vmap([&](Array v) { return product(ones({4, 16}), v); })(ones({2, 16, 5}));
      },
      {"one matrix for all entries"});
  // A derivative has its own rule also on a batch.
  product.def_jvp([product](std::tuple<Array, Array> x, std::tuple<Array, Array> dx) {
    const auto& [u, v] = x;
    return std::pair(product(u, v), product(std::get<0>(dx), v) * 10.0f);
  });
  const auto push = jit([&](Array x, Array y) {
    return vmap(
        [&](Array u, Array v) {
          return jvp([&](Array w) { return product(w, v); }, std::tuple(u), std::tuple(u));
        },
        {.in_axes = axes_tree(0, nullptr)})(x, y);
  });
  const int before = batched;
  const auto [value, tangent] = push(l, r);
  EXPECT_GT(batched, before);
  expect_close(value, matmul(a, b));
  expect_close(tangent, matmul(a, b) * 10.0f);
}

TEST(CustomPartitioningRules, AreChecked) {
  auto product = make_product();
  product.def_vjp([product](Array a, Array b) { return std::pair(product(a, b), a); },
                  [](Array a, Array) { return std::tuple(a, a); });
  expect_error<TypeError>(
      [&] {
        grad<0, 1>([&](Array a, Array b) { return sum(product(a, b)); })(ones({2, 3}),
                                                                         ones({3, 4}));
      },
      {"the cotangent of leaf 1 of the arguments that the backward rule of product gives",
       "f32[2,3] and must be f32[3,4]"});
}

}  // namespace
}  // namespace tessera::testing
