// SPDX-License-Identifier: Apache-2.0
// Attention.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <tessera/array.h>

/// @file
/// Attention and what goes with it.
///
/// @throws ShapeError if shapes don't fit.
/// @throws DTypeError if operands have different or wrong dtypes.
///
/// All messages name the caller's line.

namespace tessera {

/// Options of `dot_product_attention`.
struct AttentionOptions {
  /// Added to the scores: an array that broadcasts to [B, N, T, S].
  std::optional<Array> bias{};
  /// Which keys a query sees: an array of pred that broadcasts to [B, N, T, S].
  std::optional<Array> mask{};
  /// Factor of the products of queries and keys; by default 1 / sqrt(H).
  std::optional<double> scale{};
  /// A query sees keys up to its own position only.
  bool is_causal = false;
  /// Numbers (s32[B]) of queries and of keys that count in each entry of the batch. Results of
  /// other queries are 0.
  std::optional<Array> query_seq_lengths{}, key_value_seq_lengths{};
  /// A query sees keys from so many positions before its own to so many after it.
  std::optional<std::pair<std::int64_t, std::int64_t>> local_window_size{};
};

/// Scaled dot-product attention (jax.nn.dot_product_attention):
/// softmax(scale * query key^T + bias) value for each head.
///
/// Scores are accumulated, and their softmax computed, in f32, or f64 for f64 operands. A query
/// that sees no key gives the mean of all values, as in JAX.
/// @code
/// // [B, T, N, H], [B, S, N, H], [B, S, N, H] -> [B, T, N, H]
/// Array out = dot_product_attention(q, k, v, {.is_causal = true});
/// @endcode
/// @param query  [B, T, N, H]: batch, queries, heads, features; or [T, N, H] without a batch.
/// @param key  [B, S, K, H]. N is a multiple of K: each group of N / K heads of queries shares a
///   head of keys and values (grouped-query attention).
/// @param value  [B, S, K, H].
/// @param options  See AttentionOptions.
/// @return An array of query's shape.
/// @throws DTypeError if query, key and value have different dtypes or aren't floats, `mask` isn't
///   pred, or lengths aren't s32.
Array dot_product_attention(Operand query, Operand key, Operand value,
                            const AttentionOptions& options = {});
/// The same, and the logarithm of the sum of the scores' exponentials for each query [B, T, N], of
/// which derivatives see a constant (`return_residual` of JAX).
std::pair<Array, Array> dot_product_attention_with_residual(Operand query, Operand key,
                                                            Operand value,
                                                            const AttentionOptions& options = {});

/// Options of `rope`.
struct RopeOptions {
  /// The longest wavelength is 2 pi times nearly this.
  double base = 10000;
  /// Number of features that are rotated, the first ones; by default all of them.
  std::optional<std::int64_t> rotated{};
  /// Pair neighbours (0, 1), (2, 3), ... instead of feature i with feature i + rotated / 2.
  bool interleaved = false;
};
/// Rotary position embedding (Su et al., "RoFormer: Enhanced Transformer with Rotary Position
/// Embedding", 2021): each pair of features is rotated by an angle proportional to the position,
/// the i-th of n / 2 pairs by position * base^(-2 i / n).
/// @param x  [.., T, N, H]: queries or keys.
/// @param positions  An array that broadcasts to [.., T], for example arange(T).
/// @param options  See RopeOptions.
/// @return An array of x's shape and dtype; angles are computed in f32, or f64 for f64.
/// @throws ValueError if the number of rotated features is odd or more than H.
/// @throws DTypeError if x isn't real floats, or positions are complex.
Array rope(Operand x, Operand positions, const RopeOptions& options = {});

}  // namespace tessera
