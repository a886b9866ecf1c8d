// SPDX-License-Identifier: Apache-2.0
// Makes top-ks of sorts of which the first elements alone are read.
#include "src/passes/reductions/sorts_as_topk.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of longer results a sort is as fast.
constexpr std::int64_t kShareRead = 4;

/// Whether the greatest come first, of a comparator of the first operand's elements, in the order
/// that a top-k has: floats by their bits, so that elements that are equal are the same.
std::optional<bool> greatest_first(const ir::Computation& comparator) {
  const Instruction& root = *comparator.root();
  if (!root.is(Opcode::compare)) return std::nullopt;
  const Instruction &left = *root.operand(0), &right = *root.operand(1);
  if (!left.is(Opcode::parameter) || !right.is(Opcode::parameter)) return std::nullopt;
  const auto first = left.get<ir::ParameterAttrs>().number;
  const auto second = right.get<ir::ParameterAttrs>().number;
  if (std::min(first, second) != 0 || std::max(first, second) != 1) return std::nullopt;
  const auto& attrs = root.get<ir::CompareAttrs>();
  const DType t = left.shape.dtype;
  const bool by_bits =
      is_floating(t) && byte_size(t) > 1 && attrs.type == ir::ComparisonType::total_order;
  if (!is_integer(t) && !by_bits) return std::nullopt;
  const bool greater = attrs.direction == ir::Direction::gt;
  if (!greater && attrs.direction != ir::Direction::lt) return std::nullopt;
  return greater == (first == 0);
}

/// Slices of what is sorted, and which of its results they read.
struct FirstSlice {
  Instruction* slice;
  std::int64_t result;
};

/// All that reads `sorted`, result `result` of a sort; false if something reads more than slices of
/// the first elements.
bool add_slices(const Instruction& sorted, std::int64_t result, std::vector<FirstSlice>* slices) {
  if (sorted.parent->root() == &sorted) return false;
  for (Instruction* user : sorted.users()) {
    if (!user->is(Opcode::slice) || !user->control_predecessors().empty()) return false;
    const auto& a = user->get<ir::SliceAttrs>();
    if (a.starts.back() != 0 || a.strides.back() != 1) return false;
    slices->push_back({user, result});
  }
  return true;
}

/// Whether the second operand, if there is one, counts along the dim, and equal elements stay in
/// that order.
bool sorts_places(const Instruction& sort) {
  if (sort.operands().size() == 1) return true;
  const Instruction& places = *sort.operand(1);
  const auto& attrs = sort.get<ir::SortAttrs>();
  return sort.operands().size() == 2 && attrs.is_stable && places.is(Opcode::iota) &&
         places.shape.dtype == DType::s32 && places.get<ir::IotaAttrs>().dim == attrs.dim;
}

bool as_topk(Instruction& sort, ir::PatternRewriter& r) {
  const Shape& x = sort.operand(0)->shape;
  if (sort.get<ir::SortAttrs>().dim != x.rank() - 1 || !sorts_places(sort)) return false;
  if (!sort.control_predecessors().empty() || sort.parent->root() == &sort) return false;
  const std::optional<bool> largest = greatest_first(*sort.called().at(0));
  if (!largest) return false;
  std::vector<FirstSlice> slices;
  if (sort.shape.is_tuple) {
    for (Instruction* user : sort.users()) {
      if (!user->is(Opcode::get_tuple_element) || !user->control_predecessors().empty() ||
          !add_slices(*user, user->get<ir::GetTupleElementAttrs>().index, &slices)) {
        return false;
      }
    }
  } else if (!add_slices(sort, 0, &slices)) {
    return false;
  }
  std::int64_t k = 0;
  for (const FirstSlice& read : slices) {
    k = std::max(k, read.slice->get<ir::SliceAttrs>().limits.back());
  }
  if (slices.empty() || k * kShareRead > x.dims.back()) return false;
  Instruction* topk =
      r.builder(&sort).emit(Opcode::topk, {sort.operand(0)}, ir::TopKAttrs{k, *largest});
  for (const FirstSlice& read : slices) {
    const auto& a = read.slice->get<ir::SliceAttrs>();
    ir::Builder& b = r.builder(read.slice);
    Instruction* first = b.get_tuple_element(topk, read.result);
    r.replace(read.slice, b.slice(first, a.starts, a.limits, a.strides));
  }
  return true;
}

}  // namespace

std::size_t sorts_as_topk(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("sorts-as-top-k").add(Opcode::sort, as_topk));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
