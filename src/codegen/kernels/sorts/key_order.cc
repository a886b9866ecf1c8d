// SPDX-License-Identifier: Apache-2.0
// Recognises comparators by keys.
#include "src/codegen/kernels/sorts/key_order.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/base/arrays/literal_util.h"

namespace tessera::codegen {
namespace {

using ir::Instruction;
using ir::Opcode;

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

/// `select(x == 0, 0, rest)` or `select(x != x, nan, rest)` of a parameter x: sets which one it is,
/// and returns the rest; null if it is neither.
const Instruction* without_replacement(const Instruction& i, bool* zeros, bool* nans) {
  if (!i.is(Opcode::select) || !i.operand(0)->is(Opcode::compare) ||
      !i.operand(1)->is(Opcode::constant)) {
    return nullptr;
  }
  const Instruction& test = *i.operand(0);
  const Instruction &x = *test.operand(0), &other = *test.operand(1);
  const auto& attrs = test.get<ir::CompareAttrs>();
  const auto number = [](const Instruction& constant) {
    return to_vector<double>(constant.get<ir::ConstantAttrs>().value).at(0);
  };
  const double by = number(*i.operand(1));
  // Of the parameter, or of what the other replacement made of it, which is the same test.
  if ((!x.is(Opcode::parameter) && &x != i.operand(2)) ||
      attrs.type == ir::ComparisonType::total_order) {
    return nullptr;
  }
  if (attrs.direction == ir::Direction::ne && &other == &x && std::isnan(by) && !std::signbit(by)) {
    *nans = true;
    return i.operand(2);
  }
  if (attrs.direction == ir::Direction::eq && other.is(Opcode::constant) && number(other) == 0 &&
      by == 0 && !std::signbit(by)) {
    *zeros = true;
    return i.operand(2);
  }
  return nullptr;
}
/// Both of these, in either order.
bool is_canonical_float(const Instruction& key) {
  if (!is_floating(key.shape.dtype)) return false;
  bool zeros = false, nans = false;
  const Instruction* rest = without_replacement(key, &zeros, &nans);
  if (rest != nullptr) rest = without_replacement(*rest, &zeros, &nans);
  return zeros && nans && rest != nullptr && rest->is(Opcode::parameter);
}

/// The key that a comparison is about: `key(a) < key(b)`, or with > or ==.
std::optional<SortKey> compared_key(const Instruction& compare) {
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
  SortKey key;
  key.operand = int(number / 2);
  key.type = left->shape.dtype;
  key.descending = (attrs.direction == ir::Direction::gt) != swapped;
  key.total_order = attrs.type == ir::ComparisonType::total_order;
  key.canonical = key.total_order && is_canonical_float(*left);
  if (!left->is(Opcode::parameter) && !key.canonical) {
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
bool same_key(const SortKey& a, const SortKey& b) {
  return a.operand == b.operand && a.type == b.type && a.total_order == b.total_order &&
         a.canonical == b.canonical &&
         (a.expr ? a.expr->key() : std::string()) == (b.expr ? b.expr->key() : std::string());
}

/// The keys of `k1(a) < k1(b)` or of `k1(a) < k1(b) | (k1(a) == k1(b) & the same of the others)`.
std::optional<std::vector<SortKey>> keys_of(const Instruction& root) {
  if (root.is(Opcode::compare) && !is_equality(root)) {
    const std::optional<SortKey> key = compared_key(root);
    if (!key) return std::nullopt;
    return std::vector<SortKey>{*key};
  }
  if (!root.is(Opcode::or_)) return std::nullopt;
  const bool first = root.operand(0)->is(Opcode::compare);
  const Instruction &order = *root.operand(first ? 0 : 1), &tie = *root.operand(first ? 1 : 0);
  if (is_equality(order) || !tie.is(Opcode::and_)) return std::nullopt;
  const bool left = is_equality(*tie.operand(0));
  const Instruction &equal = *tie.operand(left ? 0 : 1), &others = *tie.operand(left ? 1 : 0);
  const std::optional<SortKey> key = compared_key(order), tied = compared_key(equal);
  if (!is_equality(equal) || !key || !tied || !same_key(*key, *tied)) return std::nullopt;
  std::optional<std::vector<SortKey>> keys = keys_of(others);
  if (keys) keys->insert(keys->begin(), *key);
  return keys;
}

/// The same keys, each in the opposite order: `b` is `a` of swapped elements.
bool opposite(const std::vector<SortKey>& a, const std::vector<SortKey>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const SortKey& x, const SortKey& y) {
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

}  // namespace

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
  std::optional<std::vector<SortKey>> keys = keys_of(*root->operand(0));
  if (!keys || !tie.is(Opcode::and_) || !tie.operand(0)->is(Opcode::not_)) return std::nullopt;
  const std::optional<int> places = place_order(*tie.operand(1));
  const std::optional<std::vector<SortKey>> back = keys_of(*tie.operand(0)->operand(0));
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

}  // namespace tessera::codegen
