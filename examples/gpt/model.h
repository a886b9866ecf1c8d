// SPDX-License-Identifier: Apache-2.0
// A small transformer that predicts the next character, and where its weights lie on a mesh.
#pragma once

#include <tessera/tessera.h>

#include <cmath>
#include <cstdint>

namespace gpt {

using tessera::Array, tessera::Mesh, tessera::NamedSharding, tessera::P;

constexpr std::int64_t kContext = 64, kWidth = 64, kHeads = 4, kLayers = 4;
constexpr std::int64_t kHeadWidth = kWidth / kHeads, kHidden = 4 * kWidth;

/// The weights of all layers: each array has a leading dimension of kLayers, over which `scan`
/// goes.
struct Layers {
  Array norm1, qkv, out, norm2, up, down;
};
TESSERA_TREE(Layers, norm1, qkv, out, norm2, up, down)

struct Params {
  Array token, position;
  Layers layers;
  Array norm;
};
TESSERA_TREE(Params, token, position, layers, norm)

/// Random weights, such that each product keeps the size of its operand.
inline Params init(const Array& key, std::int64_t vocabulary) {
  using tessera::ones;
  const Array keys = tessera::random::split(key, 6);
  const auto draw = [&](int i, std::vector<std::int64_t> shape, double inputs) {
    return tessera::random::normal(tessera::index(keys, {i}), std::move(shape)) /
           float(std::sqrt(inputs));
  };
  // What is added to the stream of a layer is small at first, so that many layers don't enlarge it.
  const double added = 2 * kLayers;
  return {draw(0, {vocabulary, kWidth}, kWidth),
          draw(1, {kContext, kWidth}, kWidth),
          {ones({kLayers, kWidth}), draw(2, {kLayers, kWidth, 3, kHeads, kHeadWidth}, kWidth),
           draw(3, {kLayers, kHeads, kHeadWidth, kWidth}, kWidth * added), ones({kLayers, kWidth}),
           draw(4, {kLayers, kWidth, kHidden}, kWidth),
           draw(5, {kLayers, kHidden, kWidth}, kHidden * added)},
          ones({kWidth})};
}

/// Tensor parallelism: heads, hidden units and the vocabulary are split over "model". Of each pair
/// of products the first is split by its results and the second by its sums, so that nothing moves
/// between the two, and one all-reduce follows. Along "data" weights are replicated.
inline tessera::ShardingTree shardings(const Mesh& mesh) {
  const auto on = [&](const tessera::PartitionSpec& spec) { return NamedSharding(mesh, spec); };
  const NamedSharding everywhere = on(P());
  return tessera::tree(
      on(P("model")), everywhere,
      tessera::tree(everywhere, on(P(nullptr, nullptr, nullptr, "model")), on(P(nullptr, "model")),
                    everywhere, on(P(nullptr, nullptr, "model")), on(P(nullptr, "model"))),
      everywhere);
}

inline Array normalized(const Array& x, const Array& scale) {
  return x * tessera::rsqrt(tessera::mean(tessera::square(x), -1, {.keepdims = true}) + 1e-5f) *
         scale;
}

/// One layer: attention to the characters so far, then two dense products. `w`: its weights.
inline Array layer(const Array& x, const Layers& w) {
  const Array qkv = tessera::einsum("btd,dchk->cbhtk", normalized(x, w.norm1), w.qkv);
  const Array q = tessera::index(qkv, {0}), k = tessera::index(qkv, {1}),
              v = tessera::index(qkv, {2});
  const Array scores =
      tessera::einsum("bhtk,bhsk->bhts", q, k) / float(std::sqrt(double(kHeadWidth)));
  const Array past = tessera::tri(x.shape(1), x.shape(1), 0, tessera::DType::pred);
  const Array weights = tessera::softmax(tessera::where(past, scores, -1e9f));
  const Array seen = tessera::einsum("bhts,bhsk->bthk", weights, v);
  const Array y = x + tessera::einsum("bthk,hkd->btd", seen, w.out);
  return y + tessera::matmul(tessera::gelu(tessera::matmul(normalized(y, w.norm2), w.up)), w.down);
}

/// Scores of the next character: [batch, time] -> [batch, time, vocabulary].
inline Array logits(const Params& p, const Array& characters) {
  const Array embedded = tessera::embedding_lookup(p.token, characters) +
                         tessera::slice_in_dim(p.position, 0, characters.shape(1));
  // One layer is traced and compiled, whatever their number. Its derivative computes it again, so
  // that of the way forward only the input of each layer is kept.
  const auto step = tessera::remat(layer);
  const Array x =
      tessera::scan(
          [&](Array stream, Layers w) { return std::pair(step(stream, w), std::tuple<>()); },
          embedded, p.layers)
          .first;
  return tessera::matmul(normalized(x, p.norm), tessera::transpose(p.token));
}

/// The mean of -log(probability) that the model gives the characters that follow.
/// @param batch  [batch, time + 1].
inline Array loss(const Params& p, const Array& batch) {
  const Array seen = tessera::slice_in_dim(batch, 0, -1, 1, 1),
              next = tessera::slice_in_dim(batch, 1, {}, 1, 1);
  const Array scores = tessera::log_softmax(logits(p, seen));
  // A product rather than a gather: the vocabulary is split, and sums over it are.
  return -tessera::mean(tessera::sum(scores * tessera::one_hot(next, p.token.shape(0)), -1));
}

/// Characters that the model draws one after the other, each from the last kContext ones.
/// @param window  The text so far, [kContext].
/// @return [count].
inline Array sample(const Params& p, const Array& window, const Array& key, std::int64_t count) {
  const Array keys = tessera::random::split(key, count);
  return tessera::scan(
             [&](Array last, Array k) {
               const Array scores =
                   tessera::index(logits(p, tessera::expand_dims(last, 0)), {0, -1});
               const Array next = tessera::random::categorical(k, scores / 0.7f);
               return std::pair(tessera::concatenate({tessera::slice_in_dim(last, 1, {}),
                                                      tessera::expand_dims(next, 0)}),
                                next);
             },
             window, keys)
      .second;
}

}  // namespace gpt
