// SPDX-License-Identifier: Apache-2.0
// The workloads of bench/workloads.cc: the programs that are compared with JAX's, in C++.
#pragma once

#include "bench/workloads.h"

namespace tessera::bench {
namespace {

/// Normally distributed, a tenth in size.
Array normal(std::int64_t seed, std::vector<std::int64_t> shape) {
  return random::normal(random::key(seed), std::move(shape)) * 0.1f;
}

const Mesh::Shape kX8{{"x", 8}}, kXY{{"x", 2}, {"y", 4}};

/// w - 0.01 g, and the loss.
Arrays updated(const Arrays& w, const std::pair<Array, Arrays>& loss_and_gradient) {
  Arrays out;
  for (std::size_t i = 0; i < w.size(); ++i) {
    out.push_back(w[i] - 0.01f * loss_and_gradient.second[i]);
  }
  out.push_back(loss_and_gradient.first);
  return out;
}

Workload tiny_add() {
  return {"tiny_add",
          [] { return Arrays{normal(0, {8})}; },
          [](const Arrays& a, const Mesh*) { return Arrays{a[0] + 1}; },
          {{"x8", kX8, {P("x")}}}};
}

Workload matrix_product() {
  return {"matmul",
          [] {
            return Arrays{normal(0, {2048, 2048}), normal(1, {2048, 2048})};
          },
          [](const Arrays& a, const Mesh*) { return Arrays{matmul(a[0], a[1])}; },
          {{"rows", kX8, {P("x"), P()}},
           {"contract", kX8, {P(nullptr, "x"), P("x")}},
           {"xy", kXY, {P("x", "y"), P("y", "x")}}}};
}

Workload mlp_step() {
  return {"mlp_step",
          [] {
            return Arrays{normal(0, {512, 512}),  normal(1, {512, 2048}), normal(2, {2048}),
                          normal(3, {2048, 512}), normal(4, {512}),       normal(5, {512, 512})};
          },
          [](const Arrays& a, const Mesh*) {
            const Array x = a[0], y = a[5];
            const Arrays w{a[1], a[2], a[3], a[4]};
            const auto loss = [x, y](Arrays w) {
              return mean(square(matmul(tanh(matmul(x, w[0]) + w[1]), w[2]) + w[3] - y));
            };
            return updated(w, value_and_grad(loss)(w));
          },
          {{"dp", kX8, {P("x"), P(), P(), P(), P(), P("x")}},
           {"dp_tp", kXY, {P("x"), P(nullptr, "y"), P("y"), P("y", nullptr), P(), P("x")}},
           {"fsdp", kX8, {P("x")}}}};
}

Workload softmax_layernorm_gelu() {
  return {"softmax_layernorm_gelu",
          [] {
            return Arrays{normal(0, {2048, 4096})};
          },
          [](const Arrays& a, const Mesh*) {
            const Array x = softmax(a[0] * 2 + 1, -1);
            const Array m = mean(x, -1, {.keepdims = true});
            const Array v = mean(square(x - m), -1, {.keepdims = true});
            return Arrays{gelu((x - m) * rsqrt(v + 1e-5f))};
          },
          {{"rows", kX8, {P("x")}}, {"cols", kX8, {P(nullptr, "x")}}}};
}

Workload elementwise_chain() {
  return {"elementwise_chain",
          [] {
            return Arrays{normal(0, {4096, 4096})};
          },
          [](const Arrays& a, const Mesh*) {
            const Array& x = a[0];
            return Arrays{where(x > 0, exp(-x * x), log1p(abs(x))) * sin(x) + x * x * x / 7};
          },
          {{"rows", kX8, {P("x")}}}};
}

Workload reductions() {
  return {"reductions",
          [] {
            return Arrays{normal(0, {4096, 4096})};
          },
          [](const Arrays& a, const Mesh*) {
            return Arrays{sum(a[0]), max(a[0], 0), mean(a[0], 1), argmax(a[0], 1)};
          },
          {{"rows", kX8, {P("x")}}, {"xy", kXY, {P("x", "y")}}}};
}

Workload fft_rows() {
  return {"fft_rows",
          [] {
            return Arrays{complex(normal(0, {8192, 1024}), normal(1, {8192, 1024}))};
          },
          [](const Arrays& a, const Mesh*) { return Arrays{fft(a[0])}; },
          {{"rows", kX8, {P("x")}}}};
}

Workload heat_20_steps() {
  return {"heat_20_steps",
          [] {
            return Arrays{normal(0, {2048, 2048})};
          },
          [](const Arrays& a, const Mesh*) {
            return Arrays{fori_loop(
                0, 20,
                [](Array, Array u) {
                  return u + 0.1f * (roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) +
                                     roll(u, -1, 1) - 4 * u);
                },
                a[0])};
          },
          {{"rows", kX8, {P("x")}}, {"xy", kXY, {P("x", "y")}}}};
}

Workload conv_block_grad() {
  return {
      "conv_block_grad",
      [] {
        return Arrays{normal(0, {8, 56, 56, 64}), normal(1, {3, 3, 64, 64}),
                      normal(2, {3, 3, 64, 64})};
      },
      [](const Arrays& a, const Mesh*) {
        const Array x = a[0];
        const auto conv = [](const Array& x, const Array& w) {
          return conv_general_dilated(x, w, {1, 1}, "SAME", {.layout = {"NHWC", "HWIO", "NHWC"}});
        };
        const auto loss = [&](Arrays w) {
          return mean(square(relu(x + conv(relu(conv(x, w[0])), w[1]))));
        };
        const auto [value, gradient] = value_and_grad(loss)(Arrays{a[1], a[2]});
        return Arrays{value, gradient[0], gradient[1]};
      },
      {{"batch", kX8, {P("x"), P()}}, {"space", kX8, {P(nullptr, "x"), P()}}}};
}

Workload attention_of_heads() {
  return {"attention",
          [] {
            return Arrays{normal(0, {2, 8, 1024, 64}), normal(1, {2, 8, 1024, 64}),
                          normal(2, {2, 8, 1024, 64})};
          },
          [](const Arrays& a, const Mesh*) {
            const Array scores = softmax(einsum("bhqd,bhkd->bhqk", a[0], a[1]) / 8, -1);
            return Arrays{einsum("bhqk,bhkd->bhqd", scores, a[2])};
          },
          {{"heads", kX8, {P(nullptr, "x")}}, {"seq", kX8, {P(nullptr, nullptr, "x")}}}};
}

Workload sort_1m() {
  return {"sort_1m",
          [] { return Arrays{normal(0, {1 << 20})}; },
          [](const Arrays& a, const Mesh*) { return Arrays{sort(a[0])}; },
          {{"x8", kX8, {P("x")}}}};
}

Workload cumsum_4m() {
  return {"cumsum_4m",
          [] { return Arrays{normal(0, {1 << 22})}; },
          [](const Arrays& a, const Mesh*) { return Arrays{cumsum(a[0])}; },
          {{"x8", kX8, {P("x")}}}};
}

Workload embedding_grad() {
  return {
      "embedding_grad",
      [] {
        return Arrays{normal(0, {8192, 256}), random::randint(random::key(1), {64, 256}, 0, 8192)};
      },
      [](const Arrays& a, const Mesh*) {
        const Array tokens = a[1];
        return Arrays{grad([&](Array e) { return sum(square(index(e, {tokens}))); })(a[0])};
      },
      {{"vocab", kX8, {P("x"), P()}}, {"tokens", kX8, {P(), P("x")}}}};
}

Workload rnn_scan() {
  return {"rnn_scan",
          [] {
            return Arrays{normal(0, {64, 64, 256}), normal(1, {256, 256}), normal(2, {256, 256})};
          },
          [](const Arrays& a, const Mesh*) {
            const Array w = a[1], u = a[2];
            const auto [last, all] = scan(
                [&](Array h, Array x) {
                  const Array next = tanh(matmul(x, w) + matmul(h, u));
                  return std::pair{next, next};
                },
                zeros({64, 256}), a[0]);
            return Arrays{last, all};
          },
          {{"batch", kX8, {P(nullptr, "x"), P()}}}};
}

Workload random_normal_4m() {
  return {"random_normal_4m",
          [] { return Arrays{random::key(1)}; },
          [](const Arrays& a, const Mesh*) {
            return Arrays{random::normal(a[0], {2048, 2048})};
          },
          {}};
}

Array transformer_block(const Array& x, const Array* w) {
  const std::int64_t b = x.shape(0), s = x.shape(1), d = x.shape(2);
  const auto norm = [](const Array& x) {
    return (x - mean(x, -1, {.keepdims = true})) * rsqrt(var(x, -1, {.keepdims = true}) + 1e-5f);
  };
  const auto heads = [&](const Array& t) {
    return transpose(reshape(t, {b, s, 8, d / 8}), {0, 2, 1, 3});
  };
  const std::vector<Array> qkv = split(matmul(norm(x), w[0]), 3, -1);
  const Array scores = einsum("bhqd,bhkd->bhqk", heads(qkv[0]), heads(qkv[1])) / 8;
  const Array causal = tril(ones({s, s}, pred));
  const Array a = softmax(where(causal, scores, -1e9f), -1);
  const Array attended =
      reshape(transpose(einsum("bhqk,bhkd->bhqd", a, heads(qkv[2])), {0, 2, 1, 3}), {b, s, d});
  const Array y = x + matmul(attended, w[1]);
  return y + matmul(gelu(matmul(norm(y), w[2])), w[3]);
}

Workload transformer(const std::string& name, int layers, std::vector<Variant> variants) {
  for (Variant& v : variants) {
    // Four specs a layer, after that of the batch.
    if (v.specs.size() != 5) continue;
    for (int i = 1; i < layers; ++i) {
      for (std::size_t k = 1; k <= 4; ++k) v.specs.push_back(v.specs[k]);
    }
  }
  return {name,
          [layers] {
            Arrays out{normal(0, {8, 128, 512})};
            for (int i = 0; i < layers; ++i) {
              for (const auto& shape : std::vector<std::vector<std::int64_t>>{
                       {512, 1536}, {512, 512}, {512, 2048}, {2048, 512}}) {
                out.push_back(normal(std::int64_t(out.size()), shape));
              }
            }
            return out;
          },
          [](const Arrays& a, const Mesh*) {
            const Array x = a[0];
            const Arrays w(a.begin() + 1, a.end());
            const auto loss = [x](Arrays w) {
              Array y = x;
              for (std::size_t i = 0; i < w.size(); i += 4) y = transformer_block(y, &w[i]);
              return mean(square(y));
            };
            return updated(w, value_and_grad(loss)(w));
          },
          std::move(variants)};
}

/// Doubles it, and shards the result as the spec says.
Workload resharded(const std::string& name, const PartitionSpec& to) {
  return {name,
          [] {
            return Arrays{normal(0, {4096, 4096})};
          },
          [to](const Arrays& a, const Mesh* mesh) {
            const Array x = a[0] * 2;
            return Arrays{mesh ? with_sharding_constraint(x, NamedSharding(*mesh, to)) : x};
          },
          {{"x8", kX8, {P("x", nullptr)}}}};
}

}  // namespace

inline std::vector<Workload> workloads() {
  const Variant by_both{
      "dp_tp", kXY, {P("x"), P(nullptr, "y"), P("y", nullptr), P(nullptr, "y"), P("y", nullptr)}};
  return {tiny_add(),
          matrix_product(),
          mlp_step(),
          softmax_layernorm_gelu(),
          elementwise_chain(),
          reductions(),
          fft_rows(),
          heat_20_steps(),
          conv_block_grad(),
          attention_of_heads(),
          sort_1m(),
          cumsum_4m(),
          embedding_grad(),
          rnn_scan(),
          random_normal_4m(),
          transformer("transformer_step", 2,
                      {{"dp", kX8, {P("x"), P()}}, by_both, {"fsdp", kX8, {P("x")}}}),
          transformer("transformer_12_layers_step", 12, {by_both}),
          resharded("reshard_rows_to_cols", P(nullptr, "x")),
          resharded("all_gather_64mb", P())};
}

}  // namespace tessera::bench
