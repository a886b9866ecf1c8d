// SPDX-License-Identifier: Apache-2.0
// Sort kernel: recognises comparators by key, else a stable merge sort with the comparator.
#include "src/codegen/kernels/sorts/sort.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
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
#include "src/codegen/kernels/sorts/sort_words.h"
#include "src/codegen/kernels/sorts/vector_sort.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using ir::Instruction;
using ir::Opcode;
using runtime::KernelCall;

/// What is written of an operand: nothing, if nobody reads it; its elements; or the places that
/// they had, which are what an iota's elements are.
enum class SortedResult : std::uint8_t { none, elements, places };

struct SortAttrs {
  std::int64_t n = 1, inner = 1;  ///< elements of the sorted dim, and of those after it
  SortedPart part;                ///< of a row, what is read
  std::vector<std::int64_t> bytes;
  std::vector<SortedResult> results;  ///< of each operand
  std::optional<KeyOrder> order;
  std::shared_ptr<const FusedLoop> comparator;
};

/// Kept from run to run: the next one needs no new pages.
struct Scratch {
  std::vector<std::vector<std::byte>> copies;
  std::vector<const std::byte*> rows;  ///< of operands, one element after the other
  std::vector<std::byte> keys;
  std::vector<std::int32_t> short_words;
  std::vector<std::int64_t> words;
  std::vector<std::uint64_t> packed, other_packed;
  std::vector<std::uint32_t> index, merged;
  bool in_order = false;  ///< the index is 0, 1, 2, ...

  void begin_index() {
    std::iota(index.begin(), index.end(), 0u);
    in_order = true;
  }
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

/// A word and a place as one number: none are equal, so that any sort keeps the order of equal
/// words.
std::uint64_t pack(std::uint32_t word, std::size_t place) {
  return (std::uint64_t(word) << 32 | place) ^ kSign;
}
void sort_packed(SortedPart part, Scratch* s) {
  const std::size_t n = s->packed.size();
  if (instruction_set() == InstructionSet::baseline && part.size() == n) {
    radix_sort(&s->packed, &s->other_packed, 32, 64, [](std::uint64_t x) { return x ^ kSign; });
  } else {
    vector_sort(reinterpret_cast<std::int64_t*>(s->packed.data()), n, part);
  }
}

/// Puts the first of the index in the order of what is packed.
void take_order(Scratch* s) {
  const std::size_t n = s->packed.size();
  if (s->in_order) {
    for (std::size_t i = 0; i < n; ++i) s->index[i] = std::uint32_t(s->packed[i]);
    s->in_order = false;
    return;
  }
  s->merged.resize(s->index.size());
  for (std::size_t i = 0; i < n; ++i) s->merged[i] = s->index[std::uint32_t(s->packed[i])];
  std::copy(s->index.begin() + std::ptrdiff_t(n), s->index.end(),
            s->merged.begin() + std::ptrdiff_t(n));
  s->index.swap(s->merged);
}

/// Sorts the first `n` of the index by words, as far as the part wants it; equal ones stay in their
/// order.
void sort_by_short_words(std::size_t n, SortedPart part, Scratch* s) {
  s->packed.resize(n);
  const auto pack_all = [&](const auto& word) {
    std::uint64_t* const to = s->packed.data();
    for (std::size_t i = 0; i < n; ++i) to[i] = pack(std::uint32_t(word(i)) ^ (1u << 31), i);
  };
  const std::int32_t* const words = s->short_words.data();
  const std::uint32_t* const index = s->index.data();
  if (s->in_order) {
    pack_all([&](std::size_t i) { return words[i]; });
  } else {
    pack_all([&](std::size_t i) { return words[index[i]]; });
  }
  sort_packed(part, s);
  take_order(s);
}

/// Sorts runs of equal words by a second word of the place, as far as the part wants it.
template <class Word>
void sort_runs(std::size_t n, SortedPart part, const Word& word_of, Scratch* s) {
  std::uint64_t* const packed = s->packed.data();
  const auto is_in_run_of = [&](std::uint64_t x) {
    return [x](std::uint64_t y) { return x >> 32 == y >> 32; };
  };
  // Outside of the part nothing is in order: what belongs to its first and last run is put next to
  // it.
  std::uint64_t* begin =
      std::partition(packed, packed + part.begin, std::not_fn(is_in_run_of(packed[part.begin])));
  std::uint64_t* const last =
      std::partition(packed + part.end, packed + n, is_in_run_of(packed[part.end - 1]));
  while (begin != last) {
    std::uint64_t* const end = std::find_if_not(begin + 1, last, is_in_run_of(*begin));
    if (end - begin > 1) {
      for (std::uint64_t* x = begin; x != end; ++x) {
        const auto place = std::uint32_t(*x);
        *x = pack(word_of(place), place);
      }
      const auto first = std::size_t(begin - packed), size = std::size_t(end - begin);
      vector_sort(
          reinterpret_cast<std::int64_t*>(begin), size,
          SortedPart{std::max(part.begin, first) - first, std::min(part.end - first, size)});
    }
    begin = end;
  }
}

/// The same by words of 8 bytes: by their first 32 bits that differ, and where these are equal by
/// those behind.
void sort_by_words(std::size_t n, SortedPart part, Scratch* s) {
  part = part.within(n);
  if (part.size() == 0) return;
  const auto [low, high] = std::minmax_element(s->words.begin(), s->words.end());
  const std::uint64_t least = std::uint64_t(*low), range = std::uint64_t(*high) - least;
  const int behind = std::max(0, int(std::bit_width(range)) - 32);
  const auto from_least = [&](std::uint32_t at) { return std::uint64_t(s->words[at]) - least; };
  s->packed.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    s->packed[i] = pack(std::uint32_t(from_least(s->index[i]) >> behind), i);
  }
  sort_packed(part, s);
  if (behind > 0)
    sort_runs(
        n, part,
        [&](std::uint32_t place) {
          return std::uint32_t(from_least(s->index[place]) & ((std::uint64_t(1) << behind) - 1));
        },
        s);
  take_order(s);
}

/// The keys of all elements.
const std::byte* keys_of(const SortKey& key, std::size_t n, Scratch* s) {
  const std::byte* elements = s->rows[std::size_t(key.operand)];
  if (!key.program) return elements;
  s->keys.resize(n * byte_size(key.type));
  const std::byte* in[] = {elements};
  std::byte* out[] = {s->keys.data()};
  key.program->run(in, out, 0, std::int64_t(n));
  return s->keys.data();
}

/// False if some key has a NaN that has no place in the order: nothing else can tell then.
bool sort_by_keys(const SortAttrs& attrs, Scratch* s) {
  const KeyOrder& order = *attrs.order;
  const auto all = std::size_t(attrs.n);
  std::size_t n = all;
  if (order.places >= 0) {
    // From here on equal keys need only stay in their order; padding is at the end already.
    load_places(order, s->rows[std::size_t(order.places)], n, &s->words);
    const bool sorted = std::is_sorted(s->words.begin(), s->words.end());
    if (!sorted) sort_by_words(n, {0, n}, s);
    while (order.limit >= 0 && n > 0 && s->words[s->index[n - 1]] >= order.limit) --n;
  }
  // The key that counts least first: each sort keeps the order of what it finds equal. Only the
  // last one may leave out what isn't read.
  for (std::size_t k = order.keys.size(); k-- > 0;) {
    const SortKey& key = order.keys[k];
    const std::byte* keys = keys_of(key, all, s);
    const SortedPart part = k == 0 ? attrs.part.within(n) : SortedPart{0, n};
    if (has_short_words(key.type)) {
      s->short_words.resize(all);
      if (!make_words(key, keys, all, s->short_words.data()).ordered) return false;
      sort_by_short_words(n, part, s);
    } else {
      s->words.resize(all);
      if (!make_words(key, keys, all, s->words.data()).ordered) return false;
      sort_by_words(n, part, s);
    }
  }
  return true;
}

/// Sorts words of keys in their place as keys, the part that is read. False if some key isn't its
/// element.
template <class Word>
bool sort_words(const SortKey& key, const std::byte* keys, std::size_t n, SortedPart part,
                Word* words) {
  if (!make_words(key, keys, n, words).unchanged) return false;
  vector_sort(words, n, part);
  unmake_words(key, part.size(), words + part.begin);
  return true;
}

/// The only operand, if its elements are their own keys, as integers are, and floats without those
/// zeros and NaNs that comparators replace: words are sorted alone, and looked up by no index.
/// False if that isn't so.
bool sort_elements(const SortAttrs& attrs, Scratch* s, std::byte* to) {
  if (!attrs.order || attrs.order->places >= 0 || attrs.order->keys.size() != 1 ||
      attrs.bytes.size() != 1 || instruction_set() == InstructionSet::baseline) {
    return false;
  }
  const SortKey& key = attrs.order->keys[0];
  const auto n = std::size_t(attrs.n), size = std::size_t(attrs.bytes[0]);
  if (key.program || !words_are_whole(key)) return false;
  const auto sort_as = [&](auto word) {
    using Word = decltype(word);
    const std::byte* keys = s->rows[0];
    if (attrs.inner == 1) {
      return sort_words(key, keys, n, attrs.part, reinterpret_cast<Word*>(to));
    }
    s->words.resize(n);
    auto* words = reinterpret_cast<Word*>(s->words.data());
    if (!sort_words(key, keys, n, attrs.part, words)) return false;
    for (std::size_t i = attrs.part.begin; i < attrs.part.end; ++i) {
      std::memcpy(to + i * std::size_t(attrs.inner) * size, words + i, size);
    }
    return true;
  };
  return size == 4 ? sort_as(std::int32_t()) : sort_as(std::int64_t());
}

void sort_by_comparator(const SortAttrs& attrs, Scratch* s) {
  const std::size_t k = attrs.bytes.size();
  std::vector<const std::byte*> in(2 * k);
  merge_sort(s, std::size_t(attrs.n), [&](std::uint32_t a, std::uint32_t b) {
    for (std::size_t i = 0; i < k; ++i) {
      in[2 * i] = s->rows[i] + a * std::size_t(attrs.bytes[i]);
      in[2 * i + 1] = s->rows[i] + b * std::size_t(attrs.bytes[i]);
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
  s->short_words.resize(n);
  s->words.resize(n);
  s->packed.resize(n);
  s->other_packed.resize(n);
  s->merged.resize(n);
}

/// Rows of all operands: their own memory, unless elements are apart, or a result takes its place.
void load_rows(const SortAttrs& attrs, const KernelCall& call, std::int64_t first, Scratch* s) {
  const std::size_t k = attrs.bytes.size();
  const auto n = std::size_t(attrs.n), inner = std::size_t(attrs.inner);
  const std::byte* const* const inputs = call.inputs;
  const bool copied = inner > 1 || std::find_first_of(inputs, inputs + k, call.outputs,
                                                      call.outputs + k) != inputs + k;
  s->copies.resize(std::max(k, s->copies.size()));
  s->rows.resize(k);
  for (std::size_t i = 0; i < k; ++i) {
    const auto size = std::size_t(attrs.bytes[i]);
    const std::byte* from = inputs[i] + std::size_t(first) * size;
    s->rows[i] = from;
    if (!copied) continue;
    s->copies[i].resize(n * size);
    std::byte* to = s->copies[i].data();
    s->rows[i] = to;
    if (inner == 1) {
      std::memcpy(to, from, n * size);
    } else {
      for (std::size_t j = 0; j < n; ++j) std::memcpy(to + j * size, from + j * inner * size, size);
    }
  }
}

void run_sort(const KernelCall& call) {
  const auto& attrs = *static_cast<const SortAttrs*>(call.attributes);
  auto& s = thread_scratch<Scratch>();
  if (RunMemory::rehearses()) take_all(std::size_t(attrs.n), &s);
  s.index.resize(std::size_t(attrs.n));
  for (std::int64_t r = call.begin; r < call.end; ++r) {
    const std::int64_t first = r / attrs.inner * attrs.n * attrs.inner + r % attrs.inner;
    load_rows(attrs, call, first, &s);
    if (sort_elements(attrs, &s, call.outputs[0] + std::size_t(first * attrs.bytes[0]))) continue;
    s.begin_index();
    if (!attrs.order || !sort_by_keys(attrs, &s)) {
      s.begin_index();
      sort_by_comparator(attrs, &s);
    }
    for (std::size_t i = 0; i < attrs.bytes.size(); ++i) {
      if (attrs.results[i] == SortedResult::none) continue;
      if (attrs.results[i] == SortedResult::places && attrs.inner == 1) {
        std::memcpy(call.outputs[i] + (std::size_t(first) + attrs.part.begin) * sizeof s.index[0],
                    s.index.data() + attrs.part.begin, attrs.part.size() * sizeof s.index[0]);
        continue;
      }
      pick(s.index, attrs.part, s.rows[i], attrs.bytes[i], std::size_t(attrs.inner),
           call.outputs[i] + std::size_t(first * attrs.bytes[i]));
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

SortedResult result_of(const Instruction& sort, std::int64_t k) {
  const Instruction& operand = *sort.operand(std::size_t(k));
  if (sort.operands().size() > 1 && sort.parent->root() != &sort) {
    const auto& users = sort.users();
    const bool is_read = std::any_of(users.begin(), users.end(), [&](const Instruction* u) {
      return !u->is(Opcode::get_tuple_element) || u->get<ir::GetTupleElementAttrs>().index == k;
    });
    if (!is_read) return SortedResult::none;
  }
  const bool counts = operand.is(Opcode::iota) && byte_size(operand.shape.dtype) == 4 &&
                      is_integer(operand.shape.dtype) &&
                      operand.get<ir::IotaAttrs>().dim == sort.get<ir::SortAttrs>().dim;
  return counts ? SortedResult::places : SortedResult::elements;
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
    {{"sort/keys", "the comparator compares keys: these are sorted as integers"},
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
    attrs.results.push_back(result_of(sort, std::int64_t(attrs.results.size())));
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
  key.add_all(attrs.n, attrs.inner, attrs.part.begin, attrs.part.end, attrs.bytes);
  for (const SortedResult result : attrs.results) key.add_all(int(result));
  key.add_all(comparator->key(), attrs.order.has_value());
  if (const auto& o = attrs.order) {
    key.add_all(o->keys.size(), o->places, o->place_type, o->limit);
    for (const SortKey& k : o->keys) {
      key.add_all(k.operand, k.type, k.expr ? k.expr->key() : std::string(), k.descending,
                  k.total_order, k.canonical);
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
