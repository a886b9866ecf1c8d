// SPDX-License-Identifier: Apache-2.0
// Evaluates sort and top-k with a stable merge sort.
#include <algorithm>
#include <limits>
#include <numeric>

#include "src/base/arrays/small_floats.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/scalar_function.h"
#include "src/evaluator/strided.h"
#include "src/ir/analysis/layouts.h"

namespace tessera::evaluator {
namespace {

/// Plain stable merge sort: safe for comparators that are no order at all.
template <class Less>
void merge_sort(std::vector<std::int64_t>& items, const Less& less) {
  std::vector<std::int64_t> merged(items.size());
  const std::size_t n = items.size();
  for (std::size_t width = 1; width < n; width *= 2) {
    for (std::size_t begin = 0; begin < n; begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, n), end = std::min(begin + 2 * width, n);
      std::size_t a = begin, b = middle;
      for (std::size_t to = begin; to < end; ++to) {
        const bool right = a == middle || (b < end && less(items[b], items[a]));
        merged[to] = right ? items[b++] : items[a++];
      }
    }
    items.swap(merged);
  }
}

/// Rows of a literal along one dim, made contiguous: [all other dims..., n].
Dims dim_last(std::size_t rank, std::int64_t dim) {
  Dims perm;
  for (std::int64_t d = 0; d < std::int64_t(rank); ++d) {
    if (d != dim) perm.push_back(d);
  }
  perm.push_back(dim);
  return perm;
}

}  // namespace

Literal eval_sort(const ir::Instruction& in, Operands xs) {
  const std::int64_t dim = in.get<ir::SortAttrs>().dim;
  const Dims perm = dim_last(xs[0]->dims().size(), dim);
  const std::int64_t n = xs[0]->dims()[std::size_t(dim)];
  const std::int64_t rows = n == 0 ? 0 : xs[0]->element_count() / n;
  const std::size_t k = xs.size();
  ScalarFunction comparator(*in.called()[0]);
  std::vector<Literal> moved, sorted;
  for (const Literal* x : xs) {
    moved.push_back(permuted(*x, perm));
    sorted.push_back(moved.back());
  }
  std::vector<std::int64_t> order;
  std::vector<const std::byte*> inputs(2 * k);
  for (std::int64_t r = 0; r < rows; ++r) {
    order.resize(std::size_t(n));
    std::iota(order.begin(), order.end(), r * n);
    merge_sort(order, [&](std::int64_t a, std::int64_t b) {
      for (std::size_t i = 0; i < k; ++i) {
        const std::size_t size = byte_size(moved[i].dtype());
        inputs[2 * i] = moved[i].bytes() + std::size_t(a) * size;
        inputs[2 * i + 1] = moved[i].bytes() + std::size_t(b) * size;
      }
      return comparator.test(inputs.data());
    });
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t size = byte_size(moved[i].dtype());
      std::byte* to = sorted[i].mutable_bytes() + std::size_t(r * n) * size;
      for (std::size_t j = 0; j < order.size(); ++j) {
        std::memcpy(to + j * size, moved[i].bytes() + std::size_t(order[j]) * size, size);
      }
    }
  }
  for (Literal& s : sorted) s = permuted(s, ir::inverse_order(perm));
  if (in.shape.is_tuple) return Literal::tuple(std::move(sorted));
  return sorted[0];
}

namespace {

/// Numbers of any real type in an order of signed integers: floats by total order.
std::vector<std::int64_t> ordered_keys(const Literal& x) {
  std::vector<std::int64_t> keys;
  constexpr std::uint64_t top = std::uint64_t(1) << 63;
  if (domain_of(x.dtype()) == Domain::integer) {
    for (std::uint64_t v : load_all<std::uint64_t>(x)) {
      keys.push_back(std::int64_t(is_signed_integer(x.dtype()) ? v : v ^ top));
    }
    return keys;
  }
  const std::size_t size = byte_size(x.dtype());
  // The highest bit is the sign, of those that have one.
  const int width = x.dtype() == DType::f8e8m0fnu ? 9
                    : is_small_float(x.dtype())   ? small_float_width(x.dtype())
                                                  : int(8 * size);
  std::vector<std::uint64_t> bits(std::size_t(x.element_count()));
  load_bits(size, x.bytes(), x.element_count(), bits.data());
  for (std::uint64_t v : bits) {
    const std::int64_t s = std::int64_t(v << (64 - width));
    keys.push_back(s >= 0 ? s : s ^ std::numeric_limits<std::int64_t>::max());
  }
  return keys;
}

}  // namespace

Literal eval_topk(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  const auto& attrs = in.get<ir::TopKAttrs>();
  const std::int64_t n = x.dims().back();
  const std::int64_t rows = n == 0 ? 0 : x.element_count() / n;
  const std::vector<std::int64_t> keys = ordered_keys(x);
  Dims dims = x.dims();
  dims.back() = attrs.k;
  Literal values(Shape(x.dtype(), dims)), places(Shape(DType::s32, dims));
  const std::size_t size = byte_size(x.dtype());
  std::byte* to = values.mutable_bytes();
  auto at = places.mutable_data<std::int32_t>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::iota(order.begin(), order.end(), r * n);
    merge_sort(order, [&](std::int64_t a, std::int64_t b) {
      return attrs.largest ? keys[std::size_t(a)] > keys[std::size_t(b)]
                           : keys[std::size_t(a)] < keys[std::size_t(b)];
    });
    for (std::int64_t j = 0; j < attrs.k; ++j) {
      const std::int64_t from = order[std::size_t(j)];
      const std::size_t out = std::size_t(r * attrs.k + j);
      std::memcpy(to + out * size, x.bytes() + std::size_t(from) * size, size);
      at[out] = std::int32_t(from - r * n);
    }
  }
  return Literal::tuple({std::move(values), std::move(places)});
}

}  // namespace tessera::evaluator
