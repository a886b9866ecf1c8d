// SPDX-License-Identifier: Apache-2.0
// Cuts arrays into shards and puts them together again.
#include "tests/support/shards.h"

#include "tests/support/against_evaluator.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "src/base/arrays/literal_util.h"

namespace tessera::testing {

namespace {

void poison(Literal* l) {
  dispatch_dtype(l->dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto data = l->mutable_data<T>();
    for (T& x : data) {
      if constexpr (std::is_same_v<T, Pred>) {
        x = Pred(true);
      } else if constexpr (std::is_integral_v<T>) {
        x = T(std::numeric_limits<T>::max() - 3);
      } else if constexpr (is_complex_v<T>) {
        x = T(std::nan(""), std::nan(""));
      } else {
        x = T(float(std::nan("")));
      }
    }
  });
}

/// Calls f(element of the global array, element of the shard) for each valid element of a shard.
template <class F>
void for_shard(const Dims& whole, const TensorSharding& s, std::int64_t device, const F& f) {
  const Dims local = s.shard_dims(whole), at = s.shard_coordinates(device);
  const Dims strides = row_major_strides(whole);
  const std::int64_t count = element_count(local);
  Dims index(whole.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, position = 0;
    bool valid = true;
    for (std::size_t d = whole.size(); d-- > 0;) {
      const std::int64_t global = at[d] * local[d] + rest % local[d];
      rest /= local[d];
      valid &= global < whole[d];
      position += global * strides[d];
    }
    if (valid) f(position, i);
  }
}

std::string show(const Literal& l, std::int64_t i) {
  return dispatch_dtype(l.dtype(), [&](auto tag) -> std::string {
    using T = typename decltype(tag)::type;
    T v = l.data<T>()[std::size_t(i)];
    if constexpr (is_complex_v<T>) {
      return "(" + std::to_string(v.real()) + ", " + std::to_string(v.imag()) + ")";
    } else {
      return std::to_string(convert_element<double>(v));
    }
  });
}

/// |a - b| of two elements; 0 where both are NaN; the largest |b| goes to `scale`.
double distance(const Literal& a, std::int64_t i, const Literal& b, std::int64_t k) {
  return dispatch_dtype(a.dtype(), [&](auto tag) -> double {
    using T = typename decltype(tag)::type;
    auto x = convert_element<std::complex<double>>(a.data<T>()[std::size_t(i)]);
    auto y = convert_element<std::complex<double>>(b.data<T>()[std::size_t(k)]);
    const bool nan_x = std::isnan(x.real()) || std::isnan(x.imag());
    const bool nan_y = std::isnan(y.real()) || std::isnan(y.imag());
    if (nan_x || nan_y) return nan_x && nan_y ? 0 : std::numeric_limits<double>::infinity();
    return x == y ? 0 : std::abs(x - y);
  });
}

double largest(const Literal& l) {
  return dispatch_dtype(l.dtype(), [&](auto tag) -> double {
    using T = typename decltype(tag)::type;
    double m = 0;
    for (const T& x : l.data<T>()) {
      double v = std::abs(convert_element<std::complex<double>>(x));
      if (std::isfinite(v)) m = std::max(m, v);
    }
    return m;
  });
}

Literal shard_tree(const Literal& whole, const std::vector<TensorSharding>& s, std::size_t* next,
                   std::int64_t device) {
  if (!whole.is_tuple()) return shard_of(whole, s[(*next)++], device);
  std::vector<Literal> elements;
  for (const Literal& e : whole.elements()) elements.push_back(shard_tree(e, s, next, device));
  return Literal::tuple(std::move(elements));
}

TensorSharding with_mesh(const TensorSharding& s, const ir::Module& m, std::int64_t rank) {
  if (s.kind != TensorSharding::Kind::axes || !s.mesh) {
    MeshRef mesh = m.mesh ? m.mesh : make_logical_mesh({{"devices", m.num_partitions}});
    return TensorSharding::replicated_on(mesh, rank);
  }
  return s;
}

}  // namespace

Literal shard_of(const Literal& whole, const TensorSharding& sharding, std::int64_t device) {
  Literal out(Shape(whole.dtype(), sharding.shard_dims(whole.dims())));
  poison(&out);
  std::byte* to = out.mutable_bytes();
  const std::byte* from = whole.bytes();
  const std::size_t width = byte_size(whole.dtype());
  for_shard(whole.dims(), sharding, device, [&](std::int64_t g, std::int64_t l) {
    std::memcpy(to + std::size_t(l) * width, from + std::size_t(g) * width, width);
  });
  return out;
}

std::vector<std::vector<Literal>> shard_arguments(const ir::Module& partitioned,
                                                  const std::vector<Literal>& arguments) {
  std::vector<std::vector<Literal>> out(std::size_t(partitioned.num_partitions));
  const auto& parameters = partitioned.entry()->parameters();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::vector<Literal> leaves = leaves_of(arguments[i]);
    std::vector<TensorSharding> s;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      const auto& given = parameters[i]->sharding;
      s.push_back(
          with_mesh(given.empty() ? TensorSharding{} : given[given.size() == leaves.size() ? k : 0],
                    partitioned, leaves[k].shape().rank()));
    }
    for (std::size_t d = 0; d < out.size(); ++d) {
      std::size_t next = 0;
      out[d].push_back(shard_tree(arguments[i], s, &next, std::int64_t(d)));
    }
  }
  return out;
}

std::optional<std::string> difference(const std::vector<Literal>& results, const Literal& whole,
                                      const std::vector<TensorSharding>& shardings,
                                      double tolerance) {
  const std::vector<Literal> expected = leaves_of(whole);
  for (std::size_t d = 0; d < results.size(); ++d) {
    const std::vector<Literal> met = leaves_of(results[d]);
    if (met.size() != expected.size()) return "a wrong number of results";
    for (std::size_t r = 0; r < met.size(); ++r) {
      const TensorSharding& s = shardings[r];
      const Literal& e = expected[r];
      if (met[r].dims() != s.shard_dims(e.dims()) || met[r].dtype() != e.dtype()) {
        return "result " + std::to_string(r) + " has shards " + met[r].shape().to_string() +
               " of " + e.shape().to_string() + " by " + s.to_spec_string();
      }
      const std::size_t width = byte_size(e.dtype());
      const double bound = tolerance * (1 + largest(e));
      std::optional<std::string> fault;
      for_shard(e.dims(), s, std::int64_t(d), [&](std::int64_t g, std::int64_t l) {
        if (fault) return;
        const bool same = tolerance == 0
                              ? std::memcmp(e.bytes() + std::size_t(g) * width,
                                            met[r].bytes() + std::size_t(l) * width, width) == 0
                              : distance(met[r], l, e, g) <= bound;
        if (!same) {
          fault = "result " + std::to_string(r) + " (" + e.shape().to_string() + ", " +
                  s.to_spec_string() + "), device " + std::to_string(d) + ", element " +
                  std::to_string(g) + ": " + show(met[r], l) + " where " + show(e, g) + " is right";
        }
      });
      if (fault) return fault;
    }
  }
  return std::nullopt;
}

}  // namespace tessera::testing
