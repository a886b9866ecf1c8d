// SPDX-License-Identifier: Apache-2.0
// Top-k kernel: candidates of each row, cut down to k now and then, and sorted.
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
#include "src/codegen/kernels/sorts/vector_sort.h"

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
    return std::uint8_t(v.value);
  } else if constexpr (is_integer_type<T>) {
    return v;
  } else {
    using S = SignedOf<sizeof(T)>;
    S bits;
    std::memcpy(&bits, &v, sizeof bits);
    return bits >= 0 ? bits : S(bits ^ std::numeric_limits<S>::max());
  }
}

/// What stands for an element: smaller ones come first, and no two are the same. Up to 4 bytes it
/// is one number.
struct WideItem {
  std::int64_t rank;
  std::int32_t place;
  bool operator<(const WideItem& o) const {
    return rank != o.rank ? rank < o.rank : place < o.place;
  }
};
template <class T>
using ItemOf = std::conditional_t<sizeof(T) <= 4, std::int64_t, WideItem>;
template <class T>
using RankOf = std::conditional_t<sizeof(T) <= 4, std::int32_t, std::int64_t>;

/// A signed number in the order in which elements come.
template <class T, bool largest>
RankOf<T> rank_of(const T& v) {
  using Rank = RankOf<T>;
  const auto key = key_of(v);
  Rank rank = Rank(key);
  if constexpr (std::is_unsigned_v<decltype(key)> && sizeof key == sizeof(Rank)) {
    rank = Rank(key ^ (decltype(key)(1) << (8 * sizeof(Rank) - 1)));
  }
  return largest ? Rank(~rank) : rank;
}

template <class Item, class Rank>
Item item_of(Rank rank, std::int32_t place) {
  if constexpr (std::is_same_v<Item, std::int64_t>) {
    return Item((std::uint64_t(std::uint32_t(rank)) << 32) | std::uint32_t(place));
  } else {
    return {rank, place};
  }
}
inline std::int64_t rank_of_item(std::int64_t item) { return item >> 32; }
inline std::int64_t rank_of_item(const WideItem& item) { return item.rank; }
inline std::int32_t place_of(std::int64_t item) { return std::int32_t(std::uint32_t(item)); }
inline std::int32_t place_of(const WideItem& item) { return item.place; }

/// Puts the first k in front of the others, and in the end in order: by vectors that is one.
inline void select_first(std::int64_t* items, std::int64_t n, std::int64_t k) {
  vector_sort(items, std::size_t(n), SortedPart{0, std::size_t(k)});
}
inline void sort_selected(std::int64_t*, std::int64_t) {}
inline void select_first(WideItem* items, std::int64_t n, std::int64_t k) {
  std::nth_element(items, items + (k - 1), items + n);
}
inline void sort_selected(WideItem* items, std::int64_t k) { std::sort(items, items + k); }

/// Elements at a time, of which most rows have none that is among the first k so far.
constexpr std::int64_t kTogether = 64;

/// Ranks of consecutive elements; returns the first in order.
template <class T, bool largest>
RankOf<T> ranks_of(const T* x, std::int64_t n, RankOf<T>* ranks) {
  RankOf<T> first = std::numeric_limits<RankOf<T>>::max();
  for (std::int64_t i = 0; i < n; ++i) {
    ranks[i] = rank_of<T, largest>(x[i]);
    first = std::min(first, ranks[i]);
  }
  return first;
}

/// So many candidates are cut down to k: twice as many as are wanted, so that it pays for itself.
/// While there is nothing to compare with all elements are candidates, and a few are enough.
std::int64_t most_candidates(std::int64_t n, std::int64_t k, bool all) {
  return std::min(n, std::max(2 * k, all ? kTogether : k + 2 * kTogether));
}
std::size_t room_of(std::int64_t n, std::int64_t k) {
  return std::size_t(most_candidates(n, k, false) + kTogether);
}

/// The first k of a row, in order, at the front of `items`. Candidates are those that come before
/// the last of the first k so far: an element with the same rank comes behind it.
template <class T, bool largest>
void first_of_row(const T* x, std::int64_t n, std::int64_t k, ItemOf<T>* items) {
  using Item = ItemOf<T>;
  const std::int64_t most = most_candidates(n, k, false);
  const std::int64_t enough = most_candidates(n, k, true);
  std::int64_t count = 0;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  bool all = true;  // until there are k to compare with
  RankOf<T> ranks[kTogether];
  const auto cut = [&] {
    select_first(items, count, k);
    count = k;
    last = rank_of_item(items[k - 1]);
    all = false;
  };
  for (std::int64_t begin = 0; begin < n; begin += kTogether) {
    const std::int64_t here = std::min(kTogether, n - begin);
    const std::int64_t first = ranks_of<T, largest>(x + begin, here, ranks);
    if (!all && first >= last) continue;
    for (std::int64_t i = 0; i < here; ++i) {
      // Written where the next one goes, and kept if it is a candidate.
      items[count] = item_of<Item>(ranks[i], std::int32_t(begin + i));
      count += std::int64_t(all || std::int64_t(ranks[i]) < last);
    }
    if (all ? count >= enough && count >= k : count > most) cut();
  }
  if (all || count > k) cut();
  sort_selected(items, k);
}

template <class T, bool largest>
void run_rows(const KernelCall& call, const TopKRun& a) {
  std::vector<ItemOf<T>> items(room_of(a.n, a.k));
  for (std::int64_t row = call.begin; row < call.end; ++row) {
    const T* const x = reinterpret_cast<const T*>(call.inputs[0]) + row * a.n;
    T* const values = reinterpret_cast<T*>(call.outputs[0]) + row * a.k;
    auto* const places = reinterpret_cast<std::int32_t*>(call.outputs[1]) + row * a.k;
    first_of_row<T, largest>(x, a.n, a.k, items.data());
    for (std::int64_t i = 0; i < a.k; ++i) {
      places[i] = place_of(items[std::size_t(i)]);
      values[i] = x[places[i]];
    }
  }
}

template <class T>
void run_topk(const KernelCall& call) {
  const auto& a = *static_cast<const TopKRun*>(call.attributes);
  if (a.k == 0) return;
  a.largest ? run_rows<T, true>(call, a) : run_rows<T, false>(call, a);
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
    {{"topk/partial-sort",
      "numbers by their order: those before the last of the first k so far, and these sorted"},
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
