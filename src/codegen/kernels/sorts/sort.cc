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
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/sorts/radix_sort.h"

namespace tessera::codegen {
namespace {

using ir::Instruction;
using ir::Opcode;
using runtime::KernelCall;

/// One key of an order: a function of the elements of one operand.
struct Key {
  int operand = 0;
  DType type = DType::f32;                   ///< of the keys
  std::shared_ptr<const LoopExpr> expr;      ///< key of an element; null: the element itself
  std::shared_ptr<const FusedLoop> program;  ///< made of it
  bool descending = false, total_order = false;
};

/// A comparator that compares by keys: where the first are equal by the next one, and so on.
struct KeyOrder {
  std::vector<Key> keys;
  int places = -1;  ///< the integer operand that tells equal keys apart, if any
  DType place_type = DType::s32;
  std::int64_t limit = -1;  ///< elements whose place isn't below it come last, if >= 0
};

struct SortAttrs {
  std::int64_t n = 1, inner = 1;  ///< elements of the sorted dim, and of those after it
  std::vector<std::int64_t> bytes;
  std::optional<KeyOrder> order;
  std::shared_ptr<const FusedLoop> comparator;
};

/// Equal expressions, where parameter `p` in one stands for parameter `q` in the other.
bool mirrors(const Instruction& a, const Instruction& b, std::int64_t p, std::int64_t q) {
  if (a.opcode != b.opcode || !(a.shape == b.shape)) return false;
  if (a.is(Opcode::parameter)) {
    return a.get<ir::ParameterAttrs>().number == p && b.get<ir::ParameterAttrs>().number == q;
  }
  if (!(a.attrs == b.attrs) || a.operands().size() != b.operands().size() || !a.called().empty()) {
    return false;
  }
  for (std::size_t k = 0; k < a.operands().size(); ++k) {
    if (!mirrors(*a.operands()[k], *b.operands()[k], p, q)) return false;
  }
  return true;
}

const Instruction* first_parameter(const Instruction& i) {
  if (i.is(Opcode::parameter)) return &i;
  for (const Instruction* o : i.operands()) {
    if (const Instruction* p = first_parameter(*o)) return p;
  }
  return nullptr;
}

std::optional<LoopBuilder::Value> key_value(LoopBuilder& builder, const Instruction& i,
                                            LoopBuilder::Value parameter) {
  if (i.is(Opcode::parameter)) return parameter;
  if (i.is(Opcode::constant)) return builder.constant(i.get<ir::ConstantAttrs>().value);
  std::vector<LoopBuilder::Value> operands;
  for (const Instruction* o : i.operands()) {
    const auto v = key_value(builder, *o, parameter);
    if (!v) return std::nullopt;
    operands.push_back(*v);
  }
  return builder.apply(i, operands);
}

/// The key that a comparison is about: `key(a) < key(b)`, or with > or ==.
std::optional<Key> compared_key(const Instruction& compare) {
  if (!compare.is(Opcode::compare)) return std::nullopt;
  const auto& attrs = compare.get<ir::CompareAttrs>();
  if (attrs.direction != ir::Direction::lt && attrs.direction != ir::Direction::gt &&
      attrs.direction != ir::Direction::eq) {
    return std::nullopt;
  }
  const Instruction *left = compare.operand(0), *right = compare.operand(1);
  const Instruction* p = first_parameter(*left);
  if (p == nullptr || is_complex(left->shape.dtype)) return std::nullopt;
  const std::int64_t number = p->get<ir::ParameterAttrs>().number;
  // Parameters 2k and 2k+1 are elements of operand k.
  const bool swapped = number % 2 == 1;
  if (!mirrors(*left, *right, number, number ^ 1)) return std::nullopt;
  Key key;
  key.operand = int(number / 2);
  key.type = left->shape.dtype;
  key.descending = (attrs.direction == ir::Direction::gt) != swapped;
  key.total_order = attrs.type == ir::ComparisonType::total_order;
  if (!left->is(Opcode::parameter)) {
    LoopBuilder builder;
    const auto v = key_value(builder, *left, builder.contiguous(p->shape.dtype));
    if (!v) return std::nullopt;
    builder.output(*v);
    key.expr = builder.finish();
  }
  return key;
}

bool is_equality(const Instruction& i) {
  return i.is(Opcode::compare) && i.get<ir::CompareAttrs>().direction == ir::Direction::eq;
}

/// The same function of the same operand, compared in the same way but for the direction.
bool same_key(const Key& a, const Key& b) {
  return a.operand == b.operand && a.type == b.type && a.total_order == b.total_order &&
         (a.expr ? a.expr->key() : std::string()) == (b.expr ? b.expr->key() : std::string());
}

/// The keys of `k1(a) < k1(b)` or of `k1(a) < k1(b) | (k1(a) == k1(b) & the same of the others)`.
std::optional<std::vector<Key>> keys_of(const Instruction& root) {
  if (root.is(Opcode::compare) && !is_equality(root)) {
    const std::optional<Key> key = compared_key(root);
    if (!key) return std::nullopt;
    return std::vector<Key>{*key};
  }
  if (!root.is(Opcode::or_)) return std::nullopt;
  const bool first = root.operand(0)->is(Opcode::compare);
  const Instruction &order = *root.operand(first ? 0 : 1), &tie = *root.operand(first ? 1 : 0);
  if (is_equality(order) || !tie.is(Opcode::and_)) return std::nullopt;
  const bool left = is_equality(*tie.operand(0));
  const Instruction &equal = *tie.operand(left ? 0 : 1), &others = *tie.operand(left ? 1 : 0);
  const std::optional<Key> key = compared_key(order), tied = compared_key(equal);
  if (!is_equality(equal) || !key || !tied || !same_key(*key, *tied)) return std::nullopt;
  std::optional<std::vector<Key>> keys = keys_of(others);
  if (keys) keys->insert(keys->begin(), *key);
  return keys;
}

/// The same keys, each in the opposite order: `b` is `a` of swapped elements.
bool opposite(const std::vector<Key>& a, const std::vector<Key>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Key& x, const Key& y) {
    return same_key(x, y) && x.descending != y.descending;
  });
}

/// Of `a < b` for two parameters of one integer operand: which one.
std::optional<int> place_order(const Instruction& i) {
  if (!i.is(Opcode::compare) || !i.operand(0)->is(Opcode::parameter) ||
      !i.operand(1)->is(Opcode::parameter) || !is_integer(i.operand(0)->shape.dtype)) {
    return std::nullopt;
  }
  const auto number = [&](std::size_t k) { return i.operand(k)->get<ir::ParameterAttrs>().number; };
  if (i.get<ir::CompareAttrs>().direction != ir::Direction::lt || number(0) % 2 != 0 ||
      number(1) != number(0) + 1 || i.operand(0)->shape.dtype == DType::u64) {
    return std::nullopt;
  }
  return int(number(0) / 2);
}

/// Both places are below a constant: `(a < limit) & (b < limit)`.
std::optional<std::int64_t> common_limit(const Instruction& i, int places) {
  if (!i.is(Opcode::and_)) return std::nullopt;
  std::optional<std::int64_t> limit;
  for (std::size_t k = 0; k < 2; ++k) {
    const Instruction& c = *i.operand(k);
    if (!c.is(Opcode::compare) || c.get<ir::CompareAttrs>().direction != ir::Direction::lt ||
        !c.operand(0)->is(Opcode::parameter) || !c.operand(1)->is(Opcode::constant) ||
        c.operand(0)->get<ir::ParameterAttrs>().number != 2 * places + std::int64_t(k)) {
      return std::nullopt;
    }
    const auto value = to_vector<std::int64_t>(c.operand(1)->get<ir::ConstantAttrs>().value).at(0);
    if (value < 0 || (limit && *limit != value)) return std::nullopt;
    limit = value;
  }
  return limit;
}

/// A comparator by keys, or by keys and then place: `k(a, b) | (!k(b, a) & a < b)`, of elements
/// whose places are below a limit if it has one: `select(both below, that, a < b)`.
std::optional<KeyOrder> order_of(const ir::Computation& comparator) {
  const Instruction* root = comparator.root();
  const Instruction *real = nullptr, *by_place = nullptr;
  if (root->is(Opcode::select)) {
    real = root->operand(0);
    by_place = root->operand(2);
    root = root->operand(1);
  }
  KeyOrder order;
  if (!real) {
    if (auto keys = keys_of(*root)) {
      order.keys = std::move(*keys);
      return order;
    }
  }
  if (!root->is(Opcode::or_)) return std::nullopt;
  const Instruction& tie = *root->operand(1);
  std::optional<std::vector<Key>> keys = keys_of(*root->operand(0));
  if (!keys || !tie.is(Opcode::and_) || !tie.operand(0)->is(Opcode::not_)) return std::nullopt;
  const std::optional<int> places = place_order(*tie.operand(1));
  const std::optional<std::vector<Key>> back = keys_of(*tie.operand(0)->operand(0));
  if (!places || !back || !opposite(*keys, *back)) return std::nullopt;
  order.keys = std::move(*keys);
  order.places = *places;
  order.place_type = tie.operand(1)->operand(0)->shape.dtype;
  if (!real) return order;
  const std::optional<std::int64_t> limit = common_limit(*real, *places);
  if (!limit || place_order(*by_place) != places) return std::nullopt;
  order.limit = *limit;
  return order;
}

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
bool integer_keys(const Key& order, const std::byte* keys, std::int64_t n,
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
  std::uint32_t index = 0;
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

/// Sorts the first `n` of the index by the integer keys; equal ones stay in their order.
void sort_integers(std::size_t n, Scratch* s) {
  if (n == 0) return;
  const auto [low, high] = std::minmax_element(s->integers.begin(), s->integers.end());
  const std::uint64_t least = std::uint64_t(*low), range = std::uint64_t(*high) - least;
  const auto bits = unsigned(std::bit_width(range));
  if (bits <= 32) {
    // Key and place in one word.
    s->packed.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t at = s->index[i];
      s->packed[i] = ((std::uint64_t(s->integers[at]) - least) << 32) | at;
    }
    radix_sort(&s->packed, &s->packed_scratch, 32, 32 + bits,
               [](std::uint64_t word) { return word; });
    for (std::size_t i = 0; i < n; ++i) s->index[i] = std::uint32_t(s->packed[i]);
    return;
  }
  s->wide.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t at = s->index[i];
    s->wide[i] = {std::uint64_t(s->integers[at]) - least, at};
  }
  radix_sort(&s->wide, &s->wide_scratch, 0, bits, [](const WideWord& word) { return word.key; });
  for (std::size_t i = 0; i < n; ++i) s->index[i] = s->wide[i].index;
}

/// Integers of the order of `key` of all elements. False if there is a NaN without a place in it.
bool load_keys(const Key& key, std::int64_t n, Scratch* s) {
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
    if (!sorted) sort_integers(n, s);
    while (order.limit >= 0 && n > 0 && s->integers[s->index[n - 1]] >= order.limit) --n;
  }
  // The key that counts least first: each sort keeps the order of what it finds equal.
  for (auto key = order.keys.rbegin(); key != order.keys.rend(); ++key) {
    if (!load_keys(*key, attrs.n, s)) return false;
    sort_integers(n, s);
  }
  return true;
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
void pick(const std::vector<std::uint32_t>& index, const std::byte* from, std::size_t step,
          std::byte* to) {
  for (const std::uint32_t j : index) {
    std::memcpy(to, from + j * kBytes, kBytes);
    to += step * kBytes;
  }
}
/// Elements of `from`, in the order of the index; each `step` elements behind the last one.
void pick(const std::vector<std::uint32_t>& index, const std::byte* from, std::int64_t bytes,
          std::size_t step, std::byte* to) {
  switch (bytes) {
    case 1:
      return pick<1>(index, from, step, to);
    case 2:
      return pick<2>(index, from, step, to);
    case 4:
      return pick<4>(index, from, step, to);
    case 8:
      return pick<8>(index, from, step, to);
    default:
      return pick<16>(index, from, step, to);
  }
}

/// What a sort may need, whatever its keys are.
void take_all(std::size_t n, Scratch* s) {
  s->integers.resize(n);
  s->packed.resize(n);
  s->packed_scratch.resize(n);
  s->wide.resize(n);
  s->wide_scratch.resize(n);
  s->merged.resize(n);
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
    std::iota(s.index.begin(), s.index.end(), 0u);
    if (!attrs.order || !sort_by_keys(attrs, &s)) {
      std::iota(s.index.begin(), s.index.end(), 0u);
      sort_by_comparator(attrs, &s);
    }
    for (std::size_t i = 0; i < k; ++i) {
      const auto size = std::size_t(attrs.bytes[i]);
      pick(s.index, s.rows[i].data(), attrs.bytes[i], std::size_t(attrs.inner),
           call.outputs[i] + std::size_t(first) * size);
    }
  }
  // But not what is large: the pages are then the least of it.
  constexpr std::int64_t kMostKept = 4 << 20;
  if (attrs.n > kMostKept) s = Scratch();
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
    {{"sort/radix", "the comparator compares keys: these are sorted as integers, digit by digit"},
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
  const double n = double(std::max<std::int64_t>(2, attrs.n));
  kernel.units = attrs.n == 0 ? 0 : first.element_count() / attrs.n;
  kernel.nanoseconds =
      prices::call::kSort + double(first.element_count()) * std::log2(n) *
                                (attrs.order ? prices::other::kKeyCompared
                                             : prices::other::kCompared + comparator->nanoseconds);
  KeyWriter key("sort");
  key.add_all(attrs.n, attrs.inner, attrs.bytes, comparator->key(), attrs.order.has_value());
  if (const auto& o = attrs.order) {
    key.add_all(o->keys.size(), o->places, o->place_type, o->limit);
    for (const Key& k : o->keys) {
      key.add_all(k.operand, k.type, k.expr ? k.expr->key() : std::string(), k.descending,
                  k.total_order);
    }
  }
  kernel.key = key.take();
  kernel.make = [attrs = std::move(attrs), comparator] {
    auto made = std::make_shared<SortAttrs>(attrs);
    made->comparator = make_loop(comparator);
    if (made->order) {
      for (Key& k : made->order->keys) k.program = make_loop(k.expr);
    }
    return runtime::Kernel{run_sort, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
