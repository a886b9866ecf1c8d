// SPDX-License-Identifier: Apache-2.0
// Which ops partial sums, maxima and minima may go through.
#include "src/frontend/explicit/partial_sums.h"

#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/rewrite/builder.h"
#include "src/transforms/utils/tangent.h"

namespace tessera::frontend {

using ir::Opcode;
using AxisList = ShardingType::AxisList;

namespace {

std::string set_text(const AxisList& axes) {
  std::string out;
  for (const std::string& a : axes) out += (out.empty() ? "'" : ", '") + a + "'";
  return "{" + out + "}";
}

/// Whether a conversion of terms adds up to that of the sum: none that rounds to whole numbers
/// does, or that only tells zeros from others.
bool adds_up(DType from, DType to) {
  const auto rank = [](DType t) {
    return is_complex(t) ? 3 : is_floating(t) ? 2 : t == DType::pred ? 0 : 1;
  };
  return rank(from) > 0 && rank(to) >= rank(from);
}

/// Whether the other factors of a product are the same on all devices that have a term, and say so:
/// then each device multiplies its term.
bool scales_terms(const TypedOp& op, std::size_t partial) {
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (k == partial) continue;
    if (!op.stated(k) || op.type(k).reduced != op.type(partial).unreduced) return false;
  }
  return true;
}

/// Whether a sum of the values of these operands is the op of the sums: of all that are partial
/// sums at once. Of products it must be said: a factor is reduced over the axes of the sum.
/// Otherwise scaling before or after the sum is the user's choice.
bool adds_up(const TypedOp& op, const std::vector<std::size_t>& partial) {
  const ir::Instruction& i = op.op;
  if (i.is(Opcode::multiply)) return partial.size() == 1 && scales_terms(op, partial[0]);
  if (i.is(Opcode::dot) || i.is(Opcode::convolution)) return false;
  if (i.is(Opcode::convert)) return adds_up(op.shape(0).dtype, i.shape.dtype);
  if (i.is(Opcode::reduce)) {
    const ir::Instruction* root = i.called()[0]->root();
    return i.operands().size() == 2 && root->is(Opcode::add);
  }
  const ir::Linearity& linear = ir::info(i.opcode).linear;
  if (linear.kind == ir::Linearity::Kind::none) return false;
  if (linear.kind == ir::Linearity::Kind::each && partial.size() > 1) return false;
  return std::all_of(partial.begin(), partial.end(),
                     [&](std::size_t k) { return linear.in(k) || linear.operands == 0; });
}

/// Whether a conversion keeps the order of numbers, so that the largest one stays it.
bool keeps_order(DType from, DType to) {
  if (from == to || (from == DType::pred && !is_complex(to))) return true;
  if (is_complex(from) || is_complex(to) || to == DType::pred) return false;
  // Floats of a byte turn numbers beyond their range into NaN, integers wrap.
  if (is_floating(to)) return byte_size(to) > 1;
  if (is_floating(from) || (is_signed_integer(from) && is_unsigned_integer(to))) return false;
  const bool same_sign = is_signed_integer(from) == is_signed_integer(to);
  return byte_size(to) > byte_size(from) ||
         (same_sign && byte_size(to) == byte_size(from) && byte_size(to) > 1);
}

/// Only moves or repeats elements of the operands in which it is linear.
bool moves_elements(Opcode op) {
  switch (op) {
    case Opcode::add_dependency:
    case Opcode::broadcast:
    case Opcode::concatenate:
    case Opcode::copy:
    case Opcode::device_placement:
    case Opcode::dynamic_slice:
    case Opcode::dynamic_update_slice:
    case Opcode::gather:
    case Opcode::get_tuple_element:
    case Opcode::opt_barrier:
    case Opcode::pad:
    case Opcode::propagation_barrier:
    case Opcode::reshape:
    case Opcode::reverse:
    case Opcode::select:
    case Opcode::slice:
    case Opcode::transpose:
    case Opcode::tuple:
      return true;
    default:
      return false;
  }
}

/// Whether the maximum (or minimum) of the values of these operands is the op of the maxima. What
/// other operands there are is the same on all devices, and no larger for being met several times.
bool joins(const TypedOp& op, const std::vector<std::size_t>& partial, UnreducedKind kind) {
  const ir::Instruction& i = op.op;
  const Opcode by = kind == UnreducedKind::max ? Opcode::maximum : Opcode::minimum;
  if (i.is(by)) return true;
  if (i.is(Opcode::convert)) return keeps_order(op.shape(0).dtype, i.shape.dtype);
  if (i.is(Opcode::reduce) || i.is(Opcode::reduce_window)) {
    return i.operands().size() == 2 && ir::as_binary_reducer(*i.called()[0]) == by;
  }
  if (!moves_elements(i.opcode)) return false;
  const ir::Linearity& linear = ir::info(i.opcode).linear;
  return std::all_of(partial.begin(), partial.end(),
                     [&](std::size_t k) { return linear.in(k) || linear.operands == 0; });
}

std::vector<std::size_t> partial_operands(const TypedOp& op) {
  std::vector<std::size_t> out;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (op.stated(k) && !op.type(k).unreduced.empty()) out.push_back(k);
  }
  return out;
}

std::string whole_text(UnreducedKind kind) {
  return std::string("reshard() of it to a spec without unreduced axes, which ") +
         joins_text(kind) + " the parts";
}

/// "operand 0 is a partial sum over {'x'}"
std::string operand_text(const TypedOp& op, std::size_t k) {
  const ShardingType& t = op.type(k);
  return "operand " + std::to_string(k) + " is " + partial_text(t.kind) + " over " +
         set_text(t.unreduced);
}

/// All partial operands are of one kind, over the same axes.
void check_alike(const TypedOp& op, const std::vector<std::size_t>& partial) {
  const ShardingType& first = op.type(partial[0]);
  for (const std::size_t k : partial) {
    const ShardingType& t = op.type(k);
    if (t.kind != first.kind) {
      op.refuse(operand_text(op, partial[0]) + ", and " + operand_text(op, k),
                whole_text(first.kind));
    }
    if (t.unreduced == first.unreduced) continue;
    const std::string what = t.kind == UnreducedKind::sum   ? "sums"
                             : t.kind == UnreducedKind::max ? "maxima"
                                                            : "minima";
    op.refuse("operands are partial " + what + " over different axes, " +
                  set_text(first.unreduced) + " and " + set_text(t.unreduced),
              whole_text(t.kind));
  }
}

void check_sums(const TypedOp& op, const std::vector<std::size_t>& partial) {
  const AxisList& axes = op.type(partial[0]).unreduced;
  const std::string sum = whole_text(UnreducedKind::sum);
  if (!adds_up(op, partial)) {
    const bool factor = op.op.is(Opcode::multiply) && partial.size() == 1;
    op.refuse(operand_text(op, partial[0]) + ", and a sum of results is not the result of the sum",
              sum + (factor ? ", or a factor with reduced=" + set_text(axes) +
                                  ", by which each device multiplies its part"
                            : ""));
  }
  // One that isn't would be counted once for each part, unless it is a zero.
  const bool jointly = ir::info(op.op.opcode).linear.kind == ir::Linearity::Kind::jointly ||
                       op.op.is(Opcode::concatenate);
  for (std::size_t k = 0; jointly && k < op.operands.size(); ++k) {
    if (contains(partial, k) || !ir::info(op.op.opcode).linear.in(k)) continue;
    if (!op.stated(k) && transforms::is_zero(*op.op.operand(k))) continue;
    op.refuse(operand_text(op, partial[0]) + ", and operand " + std::to_string(k) + " is not",
              sum + ", or of operand " + std::to_string(k) + " to one with them");
  }
}

void set_unreduced(const TypedOp& op, ShardingType* result) {
  const std::vector<std::size_t> partial = partial_operands(op);
  *result = result->whole();
  if (partial.empty()) return;
  const ShardingType& type = op.type(partial[0]);
  if (type.kind == UnreducedKind::sum) {
    check_alike(op, partial);
    check_sums(op, partial);
  } else {
    check_extrema(op);
  }
  for (const AxisList& d : result->dims) {
    for (const std::string& a : d) {
      if (contains(type.unreduced, a)) {
        op.refuse("the result would be split by '" + a + "', over which an operand is " +
                      partial_text(type.kind),
                  whole_text(type.kind));
      }
    }
  }
  result->unreduced = type.unreduced;
  result->kind = type.kind;
}

void set_reduced(const TypedOp& op, ShardingType* result) {
  result->reduced.clear();
  std::size_t from = op.operands.size();
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (!op.stated(k) || op.type(k).reduced.empty()) continue;
    if (from == op.operands.size()) from = k;
    if (op.type(k).reduced == op.type(from).reduced) continue;
    op.refuse("operands are reduced over different axes, " + set_text(op.type(from).reduced) +
                  " and " + set_text(op.type(k).reduced),
              "operands that are reduced over the same axes");
  }
  if (from == op.operands.size()) return;
  const AxisList& axes = op.type(from).reduced;
  const bool elementwise = ir::is_elementwise(op.op.opcode);
  for (std::size_t k = 0; elementwise && k < op.operands.size(); ++k) {
    if (!op.stated(k) || !op.type(k).reduced.empty()) continue;
    for (const std::string& a : axes) {
      // A partial sum of which each device has its own term.
      if (contains(op.type(k).unreduced, a)) continue;
      const bool split = std::any_of(op.type(k).dims.begin(), op.type(k).dims.end(),
                                     [&](const AxisList& d) { return contains(d, a); });
      const std::string both = "operand " + std::to_string(from) + " is reduced over '" + a +
                               "', and operand " + std::to_string(k);
      if (split) {
        op.refuse(both + " is split by it",
                  "reshard() of the former to a spec that is split by '" + a + "'");
      }
      op.refuse(both + " is replicated over it",
                "reshard() of the latter to a spec with reduced={'" + a + "'}");
    }
  }
  // Contractions end it: what is summed over its axes has a gradient of its own.
  if (op.op.is(Opcode::dot)) return;
  for (const std::string& a : axes) {
    if (!contains(result->unreduced, a)) result->reduced.push_back(a);
  }
}

}  // namespace

void check_extrema(const TypedOp& op) {
  const std::vector<std::size_t> partial = partial_operands(op);
  const auto extremum = std::find_if(partial.begin(), partial.end(),
                                     [&](std::size_t k) { return op.type(k).is_extremum(); });
  if (extremum == partial.end()) return;
  check_alike(op, partial);
  const UnreducedKind kind = op.type(*extremum).kind;
  if (joins(op, partial, kind)) return;
  const std::string what = kind == UnreducedKind::max ? "maximum" : "minimum";
  op.refuse(operand_text(op, *extremum) + ", and a " + what +
                " of results is not the result of the " + what,
            whole_text(kind));
}

void set_partial_sums(const TypedOp& op, ShardingType* result) {
  set_unreduced(op, result);
  set_reduced(op, result);
}

}  // namespace tessera::frontend
