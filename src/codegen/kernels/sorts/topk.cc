// SPDX-License-Identifier: Apache-2.0
// Top-k kernel: a partial sort of each row.
#include "src/codegen/kernels/sorts/topk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct TopKRun {
  std::int64_t n = 0, k = 0;
  bool largest = true;
};

template <std::size_t bytes>
using SignedOf = std::conditional_t<
    bytes == 1, std::int8_t,
    std::conditional_t<bytes == 2, std::int16_t,
                       std::conditional_t<bytes == 4, std::int32_t, std::int64_t>>>;

template <class T>
constexpr bool is_integer_type = std::is_integral_v<T> || std::is_same_v<T, Pred>;

/// A number in the order of the type's values; of floats, of their bits (total order).
template <class T>
auto key_of(const T& v) {
  if constexpr (std::is_same_v<T, Pred>) {
    return v.value;
  } else if constexpr (is_integer_type<T>) {
    return v;
  } else {
    using S = SignedOf<sizeof(T)>;
    S bits;
    std::memcpy(&bits, &v, sizeof bits);
    return bits >= 0 ? bits : S(bits ^ std::numeric_limits<S>::max());
  }
}

template <class T>
void run_topk(const KernelCall& call) {
  const auto& a = *static_cast<const TopKRun*>(call.attributes);
  using Key = decltype(key_of(std::declval<T>()));
  struct Item {
    Key key;
    std::int32_t place;
  };
  std::vector<Item> items(static_cast<std::size_t>(a.n));
  const auto k = std::ptrdiff_t(a.k);
  for (std::int64_t row = call.begin; row < call.end; ++row) {
    const T* const x = reinterpret_cast<const T*>(call.inputs[0]) + row * a.n;
    T* const values = reinterpret_cast<T*>(call.outputs[0]) + row * a.k;
    auto* const places = reinterpret_cast<std::int32_t*>(call.outputs[1]) + row * a.k;
    for (std::int64_t i = 0; i < a.n; ++i) {
      items[std::size_t(i)] = {key_of(x[i]), std::int32_t(i)};
    }
    if (a.largest) {
      std::partial_sort(items.begin(), items.begin() + k, items.end(),
                        [](const Item& p, const Item& q) {
                          return p.key != q.key ? p.key > q.key : p.place < q.place;
                        });
    } else {
      std::partial_sort(items.begin(), items.begin() + k, items.end(),
                        [](const Item& p, const Item& q) {
                          return p.key != q.key ? p.key < q.key : p.place < q.place;
                        });
    }
    for (std::int64_t i = 0; i < a.k; ++i) {
      places[i] = items[std::size_t(i)].place;
      values[i] = x[places[i]];
    }
  }
}

struct TopKOperation {
  DType type = DType::f32;
  std::size_t rank = 1;
};
enum class TopKKernel : std::uint8_t { none, partial_sort };
constexpr KernelLine<TopKOperation, TopKKernel> kTopKs[] = {
    {kOnEvaluator,
     [](const TopKOperation& t) {
       return t.rank == 0 || is_complex(t.type) || (is_floating(t.type) && byte_size(t.type) == 1);
     },
     TopKKernel::none},
    {{"topk/partial-sort", "numbers with keys of their order: the first k are sorted"},
     always<TopKOperation>,
     TopKKernel::partial_sort},
};

}  // namespace

KernelFamily topk_family() { return family_of("topk", kTopKs); }

KernelDescriptor topk_kernel(const ir::Instruction& topk) {
  const Shape& x = topk.operand(0)->shape;
  const auto& attrs = topk.get<ir::TopKAttrs>();
  const auto& line = choose(kTopKs, TopKOperation{x.dtype, x.dims.size()});
  if (line.how == TopKKernel::none) return {};
  TopKRun run;
  run.n = x.dims.back();
  run.k = attrs.k;
  run.largest = attrs.largest;
  KernelDescriptor kernel;
  const auto function = dispatch_dtype(x.dtype, [](auto tag) -> runtime::KernelFunction {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) == 16 || std::is_same_v<T, std::complex<float>>) {
      return nullptr;
    } else {
      return run_topk<T>;
    }
  });
  kernel.units = run.n == 0 ? 0 : x.element_count() / run.n;
  kernel.nanoseconds =
      prices::call::kTopK +
      double(x.element_count()) *
          (prices::other::kTopK +
           prices::other::kTopKLevel * std::log2(double(std::max<std::int64_t>(2, run.k))));
  kernel.label = &line.label;
  kernel.key = kernel_key("topk", x.dtype, run.n, run.k, run.largest);
  if (function != nullptr) kernel.make = kernel_maker(function, run);
  return kernel;
}

}  // namespace tessera::codegen
