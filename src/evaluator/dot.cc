// SPDX-License-Identifier: Apache-2.0
// Evaluates dot as batched matrix products in wide arithmetic.
#include <algorithm>

#include "src/base/contains.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"
#include "src/evaluator/wide.h"

namespace tessera::evaluator {
namespace {

/// An operand as [batch, free, contracted].
struct Side3 {
  Dims perm;
  std::int64_t batch = 1, free = 1, contracted = 1;
};

Side3 side_of(const Literal& x, const Dims& batch, const Dims& contracting) {
  Side3 s;
  const auto in = [](const Dims& list, std::int64_t d) { return contains(list, d); };
  for (std::int64_t d : batch) {
    s.perm.push_back(d);
    s.batch *= x.dims()[std::size_t(d)];
  }
  for (std::int64_t d = 0; d < std::int64_t(x.dims().size()); ++d) {
    if (in(batch, d) || in(contracting, d)) continue;
    s.perm.push_back(d);
    s.free *= x.dims()[std::size_t(d)];
  }
  for (std::int64_t d : contracting) {
    s.perm.push_back(d);
    s.contracted *= x.dims()[std::size_t(d)];
  }
  return s;
}

template <class W>
W inner(const W* a, const W* b, std::int64_t n) {
  W sum{};
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Without the special cases of std::complex's product.
template <>
Complex inner(const Complex* a, const Complex* b, std::int64_t n) {
  double re = 0, im = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    re += a[i].real() * b[i].real() - a[i].imag() * b[i].imag();
    im += a[i].real() * b[i].imag() + a[i].imag() * b[i].real();
  }
  return {re, im};
}

}  // namespace

Literal eval_dot(const ir::Instruction& in, Operands xs) { return dot_of(in, *xs[0], *xs[1]); }

Literal dot_of(const ir::Instruction& in, const Literal& lhs, const Literal& rhs) {
  const auto& attrs = in.get<ir::DotAttrs>();
  const Side3 l = side_of(lhs, attrs.lhs_batch, attrs.lhs_contracting);
  const Side3 r = side_of(rhs, attrs.rhs_batch, attrs.rhs_contracting);
  TESSERA_CHECK(l.batch == r.batch && l.contracted == r.contracted,
                "operands of " + in.name + " don't fit together");
  const Literal a = permuted(lhs, l.perm), b = permuted(rhs, r.perm);
  return dispatch_domain(in.shape.dtype, [&](auto tag) {
    using W = typename decltype(tag)::type;
    const std::vector<W> x = load_all<W>(a), y = load_all<W>(b);
    std::vector<W> out(std::size_t(l.batch * l.free * r.free));
    W* to = out.data();
    for (std::int64_t g = 0; g < l.batch; ++g) {
      for (std::int64_t i = 0; i < l.free; ++i) {
        const W* row = x.data() + (g * l.free + i) * l.contracted;
        for (std::int64_t j = 0; j < r.free; ++j) {
          *to++ = inner(row, y.data() + (g * r.free + j) * r.contracted, l.contracted);
        }
      }
    }
    return store_all(Shape(in.shape.dtype, in.shape.dims), out);
  });
}

}  // namespace tessera::evaluator
