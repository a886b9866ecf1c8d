// SPDX-License-Identifier: Apache-2.0
// Attention with grouped heads, masks and rotary positions.
#include <tessera/ops/attention.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <tessera/custom_derivative.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/nn.h>

#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/products.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace {

const char* const kAttention = "dot_product_attention";

/// Sizes of an attention: batch, queries, keys, heads of keys, heads of queries that share one,
/// features.
struct AttentionSizes {
  std::int64_t batch = 1, queries = 0, keys = 0, heads = 0, group = 1, features = 0;
};

/// With dims of size 1 in front, so that there are four.
Dims in_four(const Dims& dims) {
  Dims out(dims.size() < 4 ? 4 - dims.size() : 0, 1);
  out.insert(out.end(), dims.begin(), dims.end());
  return out;
}

AttentionSizes sizes_of_attention(const Operand& query, const Operand& key, const Operand& value) {
  const Location l = query.location;
  const Shape &q = shape_of(query), k = internal::impl_of(key.array, l).shape,
              v = internal::impl_of(value.array, l).shape;
  const auto misfit = [&](const std::string& why) {
    throw ShapeError(std::string(kAttention) + " of query " + q.to_string() + ", key " +
                         k.to_string() + " and value " + v.to_string() + ": " + why,
                     l);
  };
  for (const Shape* s : {&q, &k, &v}) {
    if (s->rank() != q.rank() || (s->rank() != 4 && s->rank() != 3)) {
      misfit("all three are [batch, length, heads, features], or without a batch");
    }
  }
  if (k.dims != v.dims) misfit("key and value must have one shape");
  if (q.dtype != k.dtype || q.dtype != v.dtype || !is_floating(q.dtype)) {
    throw DTypeError(std::string(kAttention) + " of query " + q.to_string() + ", key " +
                         k.to_string() + " and value " + v.to_string() +
                         ": they must be floats of one dtype",
                     l);
  }
  const Dims a = in_four(q.dims), b = in_four(k.dims);
  if (a[0] != b[0]) misfit("query and key must have one batch");
  if (a[3] != b[3]) misfit("query and key must have as many features");
  if (b[2] == 0 || a[2] % b[2] != 0) {
    misfit("the number of heads of queries, " + std::to_string(a[2]) +
           ", must be a multiple of that of keys, " + std::to_string(b[2]));
  }
  return {a[0], a[1], b[1], b[2], a[2] / b[2], a[3]};
}

/// Stages the attention in dims [batch, heads, queries, group, keys] of scores.
class Attention {
 public:
  Attention(const AttentionSizes& sizes, const AttentionOptions& options, Location location)
      : s_(sizes), options_(options), location_(location) {
    check_scores("bias", options.bias);
    check_scores("mask", options.mask);
    if (options.mask && options.mask->dtype() != DType::pred) {
      throw DTypeError(
          std::string(kAttention) + ": the mask must be pred, not " + options.mask->type_string(),
          location_);
    }
    if (options.bias && is_complex(options.bias->dtype())) {
      throw DTypeError(std::string(kAttention) + " with a complex bias", location_);
    }
    check_lengths("query_seq_lengths", options.query_seq_lengths);
    check_lengths("key_value_seq_lengths", options.key_value_seq_lengths);
    if (options.local_window_size &&
        (options.local_window_size->first < 0 || options.local_window_size->second < 0)) {
      throw ValueError(std::string(kAttention) + ": local_window_size (" +
                           std::to_string(options.local_window_size->first) + ", " +
                           std::to_string(options.local_window_size->second) + "); give 0 or more",
                       location_);
    }
  }

  /// Scores with bias, and a large negative number where a query doesn't see a key.
  Located scores(const Array& query, const Array& key) const {
    const DType t = query.dtype();
    const DType wide = t == f64 ? f64 : f32;
    const Array q = frontend::reshaped(
        query, {s_.batch, s_.queries, s_.heads, s_.group, s_.features}, location_);
    ir::DotAttrs attrs;
    attrs.lhs_batch = attrs.rhs_batch = {0, 2};
    attrs.lhs_contracting = {4};
    attrs.rhs_contracting = {3};
    const Located products{frontend::dotted(q, in_heads(key), attrs, wide, location_, kAttention),
                           location_};
    const double scale = options_.scale.value_or(1 / std::sqrt(double(s_.features)));
    Located out = products * scale;
    if (options_.bias) out = out + frontend::as_type(in_groups(*options_.bias), wide);
    if (const std::optional<Located> seen = visible()) {
      // Finite, so that a query that sees no key gives no NaN.
      const double lowest = -0.7 * double(std::numeric_limits<float>::max());
      out = choose(*seen, out, out.constant(lowest));
    }
    return out;
  }

  /// Means of values weighted by [batch, heads, queries, group, keys]; of the query's shape.
  Array weighted(const Located& weights, const Array& value, const Dims& shape) const {
    ir::DotAttrs attrs;
    attrs.lhs_batch = {0, 1};
    attrs.rhs_batch = {0, 2};
    attrs.lhs_contracting = {4};
    attrs.rhs_contracting = {1};
    const Array w = frontend::converted(weights.array, value.dtype(), location_);
    Array out = frontend::dotted(w, in_heads(value), attrs, {}, location_, kAttention);
    out = frontend::transposed(out, {0, 2, 1, 3, 4}, location_, kAttention);
    if (options_.query_seq_lengths) {
      const Located v{out, location_};
      const Located counts = before(*options_.query_seq_lengths, {0, 1}, 5, s_.queries);
      out = choose(counts, v, v.constant(0)).array;
    }
    return frontend::reshaped(out, shape, location_);
  }

  /// [batch, heads, queries, group] in the order of the query's dims.
  Array per_query(const Located& x, const Dims& shape) const {
    const Array moved = frontend::transposed(x.array, {0, 2, 1, 3}, location_, kAttention);
    return frontend::reshaped(moved, shape, location_);
  }

 private:
  Array in_heads(const Array& x) const {
    return frontend::reshaped(x, {s_.batch, s_.keys, s_.heads, s_.features}, location_);
  }

  void check_scores(const char* what, const std::optional<Array>& a) const {
    if (!a) return;
    const Dims all{s_.batch, s_.heads * s_.group, s_.queries, s_.keys};
    const Dims& have = internal::impl_of(*a, location_).shape.dims;
    if (frontend::broadcast_shapes(kAttention, all, have, location_) == all) return;
    throw ShapeError(std::string(kAttention) + ": " + what + " " + a->type_string() +
                         " doesn't broadcast to [batch, heads, queries, keys], " + to_string(all),
                     location_);
  }
  void check_lengths(const char* what, const std::optional<Array>& a) const {
    if (!a || internal::impl_of(*a, location_).shape == Shape(s32, {s_.batch})) return;
    throw DTypeError(std::string(kAttention) + ": " + what + " is " + a->type_string() +
                         "; give s32[" + std::to_string(s_.batch) + "]",
                     location_);
  }

  /// [B, N, T, S], where any size may be 1, as [B, K, T, G, S].
  Located in_groups(const Array& x) const {
    const Dims d = in_four(x.shape());
    const Array four = frontend::reshaped(x, d, location_);
    if (d[1] == 1) {
      return {frontend::reshaped(four, {d[0], 1, d[2], 1, d[3]}, location_), location_};
    }
    const Array grouped =
        frontend::reshaped(four, {d[0], s_.heads, s_.group, d[2], d[3]}, location_);
    return {frontend::transposed(grouped, {0, 1, 3, 2, 4}, location_, kAttention), location_};
  }

  /// Whether the position along a dim of size n is below the batch's length; `dims`: of the batch
  /// and of the position among `rank` dims.
  Located before(const Array& lengths, std::pair<std::size_t, std::size_t> dims, std::size_t rank,
                 std::int64_t n) const {
    Dims of_batch(rank, 1), of_places(rank, 1);
    of_batch[dims.first] = s_.batch;
    of_places[dims.second] = n;
    const Located places{iota(s32, of_places, std::int64_t(dims.second), location_), location_};
    return places < Located{frontend::reshaped(lengths, of_batch, location_), location_};
  }

  /// Which keys each query sees, in dims that broadcast to the scores; none: all of them.
  std::optional<Located> visible() const {
    std::optional<Located> out;
    const auto also = [&](const Located& m) { out = out ? *out & m : m; };
    if (options_.mask) also(in_groups(*options_.mask));
    if (options_.is_causal || options_.local_window_size) {
      const Dims plane{1, 1, s_.queries, 1, s_.keys};
      const Located query{iota(s32, plane, 2, location_), location_};
      const Located key{iota(s32, plane, 4, location_), location_};
      if (options_.is_causal) also(key <= query);
      if (options_.local_window_size) {
        const auto [left, right] = *options_.local_window_size;
        // No window is longer than the sequence.
        const std::int64_t most = std::max(s_.queries, s_.keys);
        also(query <= key + double(std::min(left, most)));
        also(query >= key - double(std::min(right, most)));
      }
    }
    if (options_.query_seq_lengths) {
      also(before(*options_.query_seq_lengths, {0, 2}, 5, s_.queries));
    }
    if (options_.key_value_seq_lengths) {
      also(before(*options_.key_value_seq_lengths, {0, 4}, 5, s_.keys));
    }
    return out;
  }

  AttentionSizes s_;
  const AttentionOptions& options_;
  Location location_;
};

}  // namespace

Array dot_product_attention(Operand query, Operand key, Operand value,
                            const AttentionOptions& options) {
  const Location l = query.location;
  const Attention attention(sizes_of_attention(query, key, value), options, l);
  return composed(kAttention, l, [&] {
    const Located scores = attention.scores(query.array, key.array);
    const Located weights = scores.with(softmax(scores));
    return attention.weighted(weights, value.array, shape_of(query).dims);
  });
}

std::pair<Array, Array> dot_product_attention_with_residual(Operand query, Operand key,
                                                            Operand value,
                                                            const AttentionOptions& options) {
  const Location l = query.location;
  const Attention attention(sizes_of_attention(query, key, value), options, l);
  const std::vector<Array> out = frontend::as_one_program(kAttention, l, [&] {
    const Located scores = attention.scores(query.array, key.array);
    const Located weights = scores.with(softmax(scores));
    const Dims& shape = shape_of(query).dims;
    const Located total = scores.with(logsumexp(stop_gradient({scores.array, l}), -1));
    const Array residual = attention.per_query(frontend::as_type(total, shape_of(query).dtype),
                                               Dims(shape.begin(), shape.end() - 1));
    return std::vector<Array>{attention.weighted(weights, value.array, shape), residual};
  });
  return {out[0], out[1]};
}

Array rope(Operand x, Operand positions, const RopeOptions& options) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  const Shape& at = internal::impl_of(positions.array, l).shape;
  if (shape.rank() < 3) {
    throw ShapeError(
        "rope of " + shape.to_string() + "; the array is [.., length, heads, features]", l);
  }
  if (!is_floating(shape.dtype) || is_complex(at.dtype)) {
    throw DTypeError("rope of " + shape.to_string() + " at positions " + at.to_string() +
                         "; the array must have real floats, and positions real numbers",
                     l);
  }
  const Dims places(shape.dims.begin(), shape.dims.end() - 2);
  if (frontend::broadcast_shapes("rope", places, at.dims, l) != places) {
    throw ShapeError("rope of " + shape.to_string() + ": positions " + at.to_string() +
                         " don't broadcast to " + to_string(places),
                     l);
  }
  const std::int64_t last = shape.rank() - 1, features = shape.dims.back();
  const std::int64_t n = options.rotated.value_or(features);
  if (n < 0 || n > features || n % 2 != 0) {
    throw ValueError("rope of " + shape.to_string() + ": " + std::to_string(n) +
                         " rotated features; give an even number up to " + std::to_string(features),
                     l);
  }
  if (n == 0) return x.array;
  return composed("rope", l, [&] {
    const DType t = shape.dtype == f64 ? f64 : f32;
    // Exact: what is off in a speed is multiplied by the position.
    Literal speeds(Shape(t, {n / 2}));
    for (std::int64_t i = 0; i < n / 2; ++i) {
      const double speed = std::pow(options.base, -2 * double(i) / double(n));
      if (t == f64) {
        speeds.mutable_data<double>()[std::size_t(i)] = speed;
      } else {
        speeds.mutable_data<float>()[std::size_t(i)] = float(speed);
      }
    }
    const Located speed{frontend::program_constant(speeds), l};
    Dims spread = at.dims;
    spread.push_back(1);
    spread.push_back(1);
    const Located place{frontend::reshaped(frontend::converted(positions.array, t, l), spread, l),
                        l};
    const Located angle = place * speed;  // [.., T, 1, n / 2]
    const Located c = angle.with(cos(angle)), s = angle.with(sin(angle));
    const Located all{frontend::converted(x.array, t, l), l};
    const auto part = [&](const Located& v, std::int64_t dim, std::int64_t first,
                          std::int64_t limit) {
      return v.with(frontend::sliced_dim(v.array, dim, first, limit, l, "rope"));
    };
    Array rotated;
    if (options.interleaved) {
      Dims flat = shape.dims;
      flat.back() = n / 2;
      Dims apart = flat, pairs = flat;
      apart.push_back(2);
      pairs.push_back(1);
      const Located two{frontend::reshaped(part(all, last, 0, n).array, apart, l), l};
      const auto side = [&](std::int64_t i) {
        return two.with(frontend::reshaped(part(two, last + 1, i, i + 1).array, flat, l));
      };
      const Located a = side(0), b = side(1);
      const auto column = [&](const Located& v) { return frontend::reshaped(v.array, pairs, l); };
      const Array joined = frontend::concatenated({column(a * c - b * s), column(b * c + a * s)},
                                                  last + 1, l, "rope");
      flat.back() = n;
      rotated = frontend::reshaped(joined, flat, l);
    } else {
      const Located a = part(all, last, 0, n / 2), b = part(all, last, n / 2, n);
      rotated =
          frontend::concatenated({(a * c - b * s).array, (b * c + a * s).array}, last, l, "rope");
    }
    if (n < features) {
      rotated =
          frontend::concatenated({rotated, part(all, last, n, features).array}, last, l, "rope");
    }
    return frontend::converted(rotated, shape.dtype, l);
  });
}

}  // namespace tessera
