// SPDX-License-Identifier: Apache-2.0
// Sort kernel: recognises comparators by key, else a stable merge sort with the comparator.
#include "src/codegen/kernels/sorts/sort.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "src/base/arrays/literal_util.h"
#include "src/base/threads/run_memory.h"
#include "src/base/threads/thread_scratch.h"
#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/sorts/key_order.h"
#include "src/codegen/kernels/sorts/radix_sort.h"
#include "src/codegen/kernels/sorts/vector_sort.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using ir::Instruction;
using ir::Opcode;
using runtime::KernelCall;

struct SortAttrs {
  std::int64_t n = 1, inner = 1;  ///< elements of the sorted dim, and of those after it
  SortedPart part;                ///< of a row, what is read
  std::vector<std::int64_t> bytes;
  std::optional<KeyOrder> order;
  std::shared_ptr<const FusedLoop> comparator;
};

template <class F>
std::int64_t float_key(F v, bool total_order) {
  if (!total_order && v == 0) v = 0;  // both zeros are one
  if constexpr (sizeof(F) == 8) {
    const auto s = std::bit_cast<std::int64_t>(v);
    return s < 0 ? s ^ std::numeric_limits<std::int64_t>::max() : s;
  } else {
    const auto s = std::bit_cast<std::int32_t>(v);
    return s < 0 ? s ^ std::numeric_limits<std::int32_t>::max() : s;
  }
}

/// Keys as integers of the same order. False if there is a NaN where it has no place in the order.
bool integer_keys(const SortKey& order, const std::byte* keys, std::int64_t n,
                  std::vector<std::int64_t>* out) {
  out->resize(std::size_t(n));
  bool ordered = true;
  dispatch_dtype(order.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* k = reinterpret_cast<const T*>(keys);
    std::int64_t* o = out->data();
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        ordered = ordered && (order.total_order || !std::isnan(k[i]));
        o[i] = float_key(k[i], order.total_order);
      } else if constexpr (is_small_float_v<T>) {
        const auto v = float(k[i]);
        ordered = ordered && (order.total_order || !std::isnan(v));
        o[i] = float_key(v, order.total_order);
      } else if constexpr (std::is_same_v<T, Pred>) {
        o[i] = k[i].value;
      } else if constexpr (std::is_same_v<T, std::uint64_t>) {
        o[i] = std::int64_t(k[i] ^ (std::uint64_t(1) << 63));
      } else if constexpr (std::is_integral_v<T>) {
        o[i] = std::int64_t(k[i]);
      }
    }
  });
  if (order.descending) {
    for (std::int64_t& k : *out) k = ~k;
  }
  return ordered;
}

struct WideWord {
  std::uint64_t key = 0;
  std::uint32_t index = 0, place = 0;
};

struct Scratch {
  std::vector<std::vector<std::byte>> rows;
  std::vector<std::byte> keys;
  std::vector<std::int64_t> integers;
  std::vector<std::uint64_t> packed, packed_scratch;
  std::vector<WideWord> wide, wide_scratch;
  std::vector<std::uint32_t> index, merged;
};

/// Plain merge sort: defined for comparators that are no order at all.
template <class Less>
void merge_sort(Scratch* s, std::size_t n, const Less& less) {
  s->merged.resize(n);
  for (std::size_t width = 1; width < n; width *= 2) {
    for (std::size_t begin = 0; begin < n; begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, n), end = std::min(begin + 2 * width, n);
      std::size_t a = begin, b = middle;
      for (std::size_t to = begin; to < end; ++to) {
        const bool right = a == middle || (b < end && less(s->index[b], s->index[a]));
        s->merged[to] = right ? s->index[b++] : s->index[a++];
      }
    }
    s->index.swap(s->merged);
  }
}

void load_places(const KeyOrder& order, const std::byte* from, std::size_t n,
                 std::vector<std::int64_t>* to) {
  to->resize(n);
  dispatch_dtype(order.place_type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      const T* places = reinterpret_cast<const T*>(from);
      for (std::size_t i = 0; i < n; ++i) (*to)[i] = std::int64_t(places[i]);
    }
  });
}

constexpr std::uint64_t kSign = std::uint64_t(1) << 63;
/// Less than this part of a row is picked out rather than the whole sorted by digits.
constexpr std::size_t kShortPart = 16;

/// Places words in front of the part's begin and end that belong there, then sorts the part.
void sort_part(SortedPart part, std::vector<WideWord>* words) {
  const auto less = [](const WideWord& a, const WideWord& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  };
  const auto begin = words->begin() + std::ptrdiff_t(part.begin);
  const auto end = words->begin() + std::ptrdiff_t(part.end);
  if (begin != words->begin()) std::nth_element(words->begin(), begin, words->end(), less);
  if (end != words->end()) std::nth_element(begin, end, words->end(), less);
  std::sort(begin, end, less);
}

/// Sorts the first `n` of the index by the integer keys, as far as the part wants it; equal ones
/// stay in their order.
void sort_integers(std::size_t n, SortedPart part, Scratch* s) {
  part = part.within(n);
  if (part.size() == 0) return;
  const auto [low, high] = std::minmax_element(s->integers.begin(), s->integers.end());
  const std::uint64_t least = std::uint64_t(*low), range = std::uint64_t(*high) - least;
  const auto bits = unsigned(std::bit_width(range));
  if (bits <= 32) {
    // Key and place in one word: none are equal, so that any sort keeps the order of equal keys.
    const bool by_vectors = instruction_set() != InstructionSet::baseline;
    s->packed.resize(n);
    s->packed_scratch.resize(n + kSortRoom);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t key = std::uint64_t(s->integers[s->index[i]]) - least;
      s->packed[i] = (key << 32 | i) ^ (by_vectors ? kSign : 0);
    }
    if (by_vectors) {
      vector_sort(reinterpret_cast<std::int64_t*>(s->packed.data()), n, part,
                  reinterpret_cast<std::int64_t*>(s->packed_scratch.data()));
    } else {
      radix_sort(&s->packed, &s->packed_scratch, 32, 32 + bits,
                 [](std::uint64_t word) { return word; });
    }
    s->merged.resize(s->index.size());
    for (std::size_t i = 0; i < n; ++i) s->merged[i] = s->index[std::uint32_t(s->packed[i])];
    std::copy(s->index.begin() + std::ptrdiff_t(n), s->index.end(),
              s->merged.begin() + std::ptrdiff_t(n));
    s->index.swap(s->merged);
    return;
  }
  s->wide.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t at = s->index[i];
    s->wide[i] = {std::uint64_t(s->integers[at]) - least, at, std::uint32_t(i)};
  }
  if (part.size() * kShortPart <= n) {
    sort_part(part, &s->wide);
  } else {
    radix_sort(&s->wide, &s->wide_scratch, 0, bits, [](const WideWord& word) { return word.key; });
  }
  for (std::size_t i = 0; i < n; ++i) s->index[i] = s->wide[i].index;
}

/// Integers of the order of `key` of all elements. False if there is a NaN without a place in it.
bool load_keys(const SortKey& key, std::int64_t n, Scratch* s) {
  const std::byte* elements = s->rows[std::size_t(key.operand)].data();
  if (key.program) {
    s->keys.resize(std::size_t(n) * byte_size(key.type));
    const std::byte* in[] = {elements};
    std::byte* out[] = {s->keys.data()};
    key.program->run(in, out, 0, n);
    elements = s->keys.data();
  }
  return integer_keys(key, elements, n, &s->integers);
}

/// False if some key has a NaN that has no place in the order: nothing else can tell then.
bool sort_by_keys(const SortAttrs& attrs, Scratch* s) {
  const KeyOrder& order = *attrs.order;
  auto n = std::size_t(attrs.n);
  if (order.places >= 0) {
    // From here on equal keys need only stay in their order; padding is at the end already.
    load_places(order, s->rows[std::size_t(order.places)].data(), n, &s->integers);
    const bool sorted = std::is_sorted(s->integers.begin(), s->integers.end());
    if (!sorted) sort_integers(n, {0, n}, s);
    while (order.limit >= 0 && n > 0 && s->integers[s->index[n - 1]] >= order.limit) --n;
  }
  // The key that counts least first: each sort keeps the order of what it finds equal. Only the
  // last one may leave out what isn't read.
  for (std::size_t key = order.keys.size(); key-- > 0;) {
    if (!load_keys(order.keys[key], attrs.n, s)) return false;
    sort_integers(n, key == 0 ? attrs.part : SortedPart{0, n}, s);
  }
  return true;
}

/// The bits of the element whose integer key is given; all bits of it are in its key.
template <class Bits>
Bits element_of(const SortKey& key, std::int64_t integer) {
  if (key.descending) integer = ~integer;
  if (is_floating(key.type)) {
    using Signed = std::make_signed_t<Bits>;
    const auto s = Signed(integer);
    return Bits(s < 0 ? s ^ std::numeric_limits<Signed>::max() : s);
  }
  return Bits(std::uint64_t(integer) ^ (key.type == DType::u64 ? kSign : 0));
}

/// The only operand, if its elements are their own keys, as integers are, and floats without those
/// zeros and NaNs that comparators replace: the keys are sorted alone, and looked up by no index.
/// They are written `step` elements apart. False if that isn't so.
template <class Bits>
bool sort_elements(const SortKey& key, std::size_t step, SortedPart part, Scratch* s,
                   std::byte* to) {
  const std::size_t n = s->index.size();
  if (byte_size(key.type) != sizeof(Bits) || !load_keys(key, std::int64_t(n), s)) return false;
  if (n == 0) return true;
  if (key.program && std::memcmp(s->keys.data(), s->rows[0].data(), n * sizeof(Bits)) != 0) {
    return false;
  }
  const auto write = [&](std::size_t i, std::int64_t integer) {
    const Bits out = element_of<Bits>(key, integer);
    std::memcpy(to + i * step * sizeof out, &out, sizeof out);
  };
  if constexpr (sizeof(Bits) == 8) {
    s->packed_scratch.resize(n + kSortRoom);
    vector_sort(s->integers.data(), n, part,
                reinterpret_cast<std::int64_t*>(s->packed_scratch.data()));
    for (std::size_t i = part.begin; i < part.end; ++i) write(i, s->integers[i]);
  } else {
    constexpr std::int64_t kMiddle = std::int64_t(1) << 31;
    const std::int64_t first = *std::min_element(s->integers.begin(), s->integers.end());
    s->merged.resize(n + kSortRoom);
    auto* words = reinterpret_cast<std::int32_t*>(s->index.data());
    for (std::size_t i = 0; i < n; ++i) {
      words[i] = std::int32_t(s->integers[i] - first - kMiddle);
    }
    vector_sort(words, n, part, reinterpret_cast<std::int32_t*>(s->merged.data()));
    for (std::size_t i = part.begin; i < part.end; ++i) write(i, words[i] + kMiddle + first);
  }
  return true;
}
bool sort_elements(const SortAttrs& attrs, Scratch* s, std::byte* to) {
  if (!attrs.order || attrs.order->places >= 0 || attrs.order->keys.size() != 1 ||
      attrs.bytes.size() != 1) {
    return false;
  }
  const SortKey& key = attrs.order->keys[0];
  const bool own = key.program             ? is_floating(key.type) && key.total_order
                   : is_floating(key.type) ? key.total_order
                                           : is_integer(key.type);
  if (!own || instruction_set() == InstructionSet::baseline) return false;
  const auto step = std::size_t(attrs.inner);
  if (attrs.bytes[0] == 4) return sort_elements<std::uint32_t>(key, step, attrs.part, s, to);
  if (attrs.bytes[0] == 8) return sort_elements<std::uint64_t>(key, step, attrs.part, s, to);
  return false;
}

void sort_by_comparator(const SortAttrs& attrs, Scratch* s) {
  const std::size_t k = attrs.bytes.size();
  std::vector<const std::byte*> in(2 * k);
  merge_sort(s, std::size_t(attrs.n), [&](std::uint32_t a, std::uint32_t b) {
    for (std::size_t i = 0; i < k; ++i) {
      in[2 * i] = s->rows[i].data() + a * std::size_t(attrs.bytes[i]);
      in[2 * i + 1] = s->rows[i].data() + b * std::size_t(attrs.bytes[i]);
    }
    std::byte answer;
    std::byte* out[] = {&answer};
    attrs.comparator->run(in.data(), out, 0, 1);
    return answer != std::byte{0};
  });
}

template <std::size_t kBytes>
void pick(const std::vector<std::uint32_t>& index, SortedPart part, const std::byte* from,
          std::size_t step, std::byte* to) {
  for (std::size_t i = part.begin; i < part.end; ++i) {
    std::memcpy(to + i * step * kBytes, from + index[i] * kBytes, kBytes);
  }
}
/// Elements of `from`, in the order of the index; each `step` elements behind the last one.
void pick(const std::vector<std::uint32_t>& index, SortedPart part, const std::byte* from,
          std::int64_t bytes, std::size_t step, std::byte* to) {
  for_constant<1, 2, 4, 8, 16>(std::size_t(bytes), [&](auto size) {
    pick<size()>(index, part, from, step, to);
    return true;
  });
}

/// What a sort may need, whatever its keys are.
void take_all(std::size_t n, Scratch* s) {
  s->integers.resize(n);
  s->packed.resize(n);
  s->packed_scratch.resize(n + kSortRoom);
  s->wide.resize(n);
  s->wide_scratch.resize(n);
  s->merged.resize(n + kSortRoom);
}

void run_sort(const KernelCall& call) {
  const auto& attrs = *static_cast<const SortAttrs*>(call.attributes);
  const std::size_t k = attrs.bytes.size();
  // Kept: the next run needs no new pages.
  Scratch& s = thread_scratch<Scratch>();
  if (RunMemory::rehearses()) take_all(std::size_t(attrs.n), &s);
  s.rows.resize(std::max(k, s.rows.size()));
  for (std::size_t i = 0; i < k; ++i) s.rows[i].resize(std::size_t(attrs.n * attrs.bytes[i]));
  s.index.resize(std::size_t(attrs.n));
  for (std::int64_t r = call.begin; r < call.end; ++r) {
    const std::int64_t first = r / attrs.inner * attrs.n * attrs.inner + r % attrs.inner;
    for (std::size_t i = 0; i < k; ++i) {
      const auto size = std::size_t(attrs.bytes[i]);
      const std::byte* from = call.inputs[i] + std::size_t(first) * size;
      std::byte* to = s.rows[i].data();
      if (attrs.inner == 1) {
        std::memcpy(to, from, std::size_t(attrs.n) * size);
        continue;
      }
      for (std::int64_t j = 0; j < attrs.n; ++j) {
        std::memcpy(to + std::size_t(j) * size, from + std::size_t(j * attrs.inner) * size, size);
      }
    }
    if (sort_elements(attrs, &s, call.outputs[0] + std::size_t(first * attrs.bytes[0]))) continue;
    std::iota(s.index.begin(), s.index.end(), 0u);
    if (!attrs.order || !sort_by_keys(attrs, &s)) {
      std::iota(s.index.begin(), s.index.end(), 0u);
      sort_by_comparator(attrs, &s);
    }
    for (std::size_t i = 0; i < k; ++i) {
      const auto size = std::size_t(attrs.bytes[i]);
      pick(s.index, attrs.part, s.rows[i].data(), attrs.bytes[i], std::size_t(attrs.inner),
           call.outputs[i] + std::size_t(first) * size);
    }
  }
  // But not what is large: the pages are then the least of it.
  constexpr std::int64_t kMostKept = 4 << 20;
  if (attrs.n > kMostKept) s = Scratch();
}

/// Whether some slices are all that reads the value, in fusions or not; their limits, if so.
bool read_by_slices(const Instruction& value, std::size_t dim, SortedPart* part) {
  if (value.parent->root() == &value) return false;
  for (const Instruction* user : value.users()) {
    if (user->is(Opcode::fusion)) {
      for (std::size_t k = 0; k < user->operands().size(); ++k) {
        if (user->operand(k) != &value) continue;
        const Instruction* inside = user->called().front()->parameters().at(k);
        if (!read_by_slices(*inside, dim, part)) return false;
      }
      continue;
    }
    if (!user->is(Opcode::slice)) return false;
    const auto& slice = user->get<ir::SliceAttrs>();
    part->begin = std::min(part->begin, std::size_t(slice.starts[dim]));
    part->end = std::max(part->end, std::size_t(slice.limits[dim]));
  }
  return true;
}

/// The places of rows that are read of the results.
SortedPart part_read(const Instruction& sort, std::int64_t dim, std::int64_t n) {
  const SortedPart all{0, std::size_t(n)};
  SortedPart part{std::size_t(n), 0};
  if (sort.operands().size() == 1) {
    if (!read_by_slices(sort, std::size_t(dim), &part)) return all;
  } else {
    if (sort.parent->root() == &sort) return all;
    for (const Instruction* result : sort.users()) {
      if (!result->is(Opcode::get_tuple_element)) return all;
      if (!read_by_slices(*result, std::size_t(dim), &part)) return all;
    }
  }
  return part.begin < part.end ? part : SortedPart{};
}

struct SortOperation {
  bool has_loop = false;  ///< the comparator
  std::int64_t n = 1;     ///< elements of a row
  bool by_keys = false;   ///< it compares numbers that are computed of each element alone
};
enum class SortKernel : std::uint8_t { none, sort };
constexpr KernelLine<SortOperation, SortKernel> kSorts[] = {
    {kOnEvaluator,
     [](const SortOperation& s) { return !s.has_loop || s.n > std::int64_t(UINT32_MAX); },
     SortKernel::none},
    {{"sort/radix", "the comparator compares keys: these are sorted as integers"},
     [](const SortOperation& s) { return s.by_keys; },
     SortKernel::sort},
    {{"sort/merge", "any comparator: it is called for pairs"},
     always<SortOperation>,
     SortKernel::sort},
};

}  // namespace

KernelFamily sort_family() { return family_of("sort", kSorts); }

KernelDescriptor sort_kernel(const ir::Instruction& sort) {
  KernelDescriptor kernel;
  const Shape& first = sort.operand(0)->shape;
  const std::int64_t dim = sort.get<ir::SortAttrs>().dim;
  SortAttrs attrs;
  attrs.n = first.dim(dim);
  attrs.part = part_read(sort, dim, attrs.n);
  for (std::int64_t d = dim + 1; d < first.rank(); ++d) attrs.inner *= first.dim(d);
  for (const Instruction* o : sort.operands()) {
    attrs.bytes.push_back(std::int64_t(byte_size(o->shape.dtype)));
  }
  std::shared_ptr<const LoopExpr> comparator = program_of(*sort.called().at(0));
  attrs.order = order_of(*sort.called()[0]);
  const auto& line =
      choose(kSorts, SortOperation{comparator != nullptr, attrs.n, attrs.order.has_value()});
  if (line.how == SortKernel::none) return kernel;
  kernel.label = &line.label;
  // A row is read entirely before it is written.
  for (int k = 0; k < int(sort.operands().size()); ++k) kernel.reuse.push_back({k, k});
  // Partitions of the whole, of which only those that the part meets are sorted.
  const double n = double(std::max<std::int64_t>(2, attrs.n));
  const double part = double(std::max<std::size_t>(2, attrs.part.size()));
  const double levels = std::min(std::log2(n), 2 + std::log2(part) * part / n);
  kernel.units = attrs.n == 0 ? 0 : first.element_count() / attrs.n;
  kernel.nanoseconds =
      prices::call::kSort + double(first.element_count()) * (attrs.order ? levels : std::log2(n)) *
                                (attrs.order ? prices::other::kKeyCompared
                                             : prices::other::kCompared + comparator->nanoseconds);
  KeyWriter key("sort");
  key.add_all(attrs.n, attrs.inner, attrs.part.begin, attrs.part.end, attrs.bytes,
              comparator->key(), attrs.order.has_value());
  if (const auto& o = attrs.order) {
    key.add_all(o->keys.size(), o->places, o->place_type, o->limit);
    for (const SortKey& k : o->keys) {
      key.add_all(k.operand, k.type, k.expr ? k.expr->key() : std::string(), k.descending,
                  k.total_order);
    }
  }
  kernel.key = key.take();
  kernel.make = [attrs = std::move(attrs), comparator] {
    auto made = std::make_shared<SortAttrs>(attrs);
    made->comparator = make_loop(comparator);
    if (made->order) {
      for (SortKey& k : made->order->keys) k.program = make_loop(k.expr);
    }
    return runtime::Kernel{run_sort, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
