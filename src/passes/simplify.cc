// SPDX-License-Identifier: Apache-2.0
// Algebraic simplification of ops that do nothing or what others do in less time, and dead code
// elimination.
#include "src/passes/simplify.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "src/evaluator/evaluator.h"
#include "src/ir/analysis/splat_constants.h"
#include "src/ir/constraint.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

bool same_type(const Instruction& a, const Instruction& b) { return a.shape == b.shape; }

bool all_of(const Dims& dims, std::int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d == value; });
}

bool is_whole_slice(const Instruction& i) {
  const auto& a = i.get<ir::SliceAttrs>();
  return same_type(i, *i.operand(0)) && all_of(a.starts, 0) && all_of(a.strides, 1);
}

/// Dims that are not of size 1 stay in order: the bytes stay where they are.
bool moves_nothing(const Shape& from, const Dims& perm) {
  std::int64_t last = -1;
  for (const std::int64_t d : perm) {
    if (from.dim(d) == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

/// Whether all elements are this truth value.
bool is_splat(const Instruction& x, bool value) {
  const Literal* c = x.shape.dtype == DType::pred ? ir::splat_constant(x) : nullptr;
  return c != nullptr && (c->bytes()[0] != std::byte{0}) == value;
}

/// 1 / c, if products with it are the same bits as quotients by c: c is a power of two.
template <class T>
std::optional<double> exact_reciprocal(const Literal& c) {
  const T value = c.data<T>()[0], reciprocal = 1 / value;
  int exponent = 0;
  const bool power = std::abs(std::frexp(value, &exponent)) == T(0.5);
  if (!power || !std::isnormal(value) || !std::isnormal(reciprocal)) return std::nullopt;
  return double(reciprocal);
}

Instruction* operand(const Instruction& i, ir::Builder&) { return i.operand(0); }

/// An op that leaves its operand as it is, where the types say so.
Instruction* of_same_type(const Instruction& i, ir::Builder&) {
  return same_type(i, *i.operand(0)) ? i.operand(0) : nullptr;
}

Instruction* bitcast(const Instruction& i, ir::Builder& b) {
  return i.shape.dtype == i.operand(0)->shape.dtype && i.shape.layout.empty()
             ? b.reshape(i.operand(0), i.shape.dims)
             : nullptr;
}

/// What is cut out of one of several arrays that were put side by side.
Instruction* slice_of_part(const Instruction& i, ir::Builder& b) {
  const Instruction& whole = *i.operand(0);
  ir::SliceAttrs a = i.get<ir::SliceAttrs>();
  const auto dim = std::size_t(whole.get<ir::DimensionsAttrs>().dims.at(0));
  std::int64_t begin = 0;
  for (Instruction* part : whole.operands()) {
    const std::int64_t end = begin + part->shape.dims[dim];
    if (a.starts[dim] >= begin && a.limits[dim] <= end && a.starts[dim] < a.limits[dim]) {
      a.starts[dim] -= begin;
      a.limits[dim] -= begin;
      return b.slice(part, a.starts, a.limits, a.strides);
    }
    begin = end;
  }
  return nullptr;
}

Instruction* slice(const Instruction& i, ir::Builder& b) {
  if (is_whole_slice(i)) return i.operand(0);
  return i.operand(0)->is(Opcode::concatenate) ? slice_of_part(i, b) : nullptr;
}

/// Whether each value of a type is one of the other, which is another type.
bool holds_all(DType wide, DType narrow) {
  if (is_floating(wide) && is_floating(narrow)) {
    if (wide == DType::f64) return narrow != DType::f64;
    return wide == DType::f32 && byte_size(narrow) < 4;
  }
  const bool is_wider = byte_size(wide) > byte_size(narrow);
  if (!is_integer(wide) || !is_integer(narrow) || !is_wider) return false;
  return is_signed_integer(wide) || is_unsigned_integer(narrow);
}

/// A conversion of what was converted to a type that holds all its values.
Instruction* convert(const Instruction& i, ir::Builder& b) {
  const Instruction& x = *i.operand(0);
  if (!x.is(Opcode::convert) || !x.control_predecessors().empty()) return nullptr;
  Instruction* from = x.operand(0);
  return holds_all(x.shape.dtype, from->shape.dtype) ? b.convert(from, i.shape.dtype) : nullptr;
}

/// A dim that is set to the size that it has.
Instruction* set_dimension_size(const Instruction& i, ir::Builder&) {
  const Literal* size = ir::splat_constant(*i.operand(1));
  const std::int64_t dim = i.get<ir::DimensionsAttrs>().dims.at(0);
  return size != nullptr && size->data<std::int32_t>()[0] == i.operand(0)->shape.dim(dim)
             ? i.operand(0)
             : nullptr;
}

/// Sizes are known, so they are constants.
Instruction* get_dimension_size(const Instruction& i, ir::Builder& b) {
  const std::int64_t dim = i.get<ir::DimensionsAttrs>().dims.at(0);
  return b.constant(Literal::scalar(i.shape.dtype, i.operand(0)->shape.dim(dim)));
}

/// A product of bytes that were made 32-bit numbers: there are instructions for bytes.
Instruction* dot(const Instruction& i, ir::Builder& b) {
  if (i.shape.dtype != DType::s32) return nullptr;
  std::vector<Instruction*> sides;
  for (Instruction* o : i.operands()) {
    if (!o->is(Opcode::convert) || !o->control_predecessors().empty()) return nullptr;
    sides.push_back(o->operand(0));
    const DType t = sides.back()->shape.dtype;
    if (t != DType::s8 && t != DType::u8) return nullptr;
  }
  return b.emit_shaped(Opcode::dot, i.shape, std::move(sides), i.attrs);
}

Instruction* reverse(const Instruction& i, ir::Builder&) {
  for (const std::int64_t d : i.get<ir::DimensionsAttrs>().dims) {
    if (i.shape.dim(d) > 1) return nullptr;
  }
  return i.operand(0);
}

Instruction* pad(const Instruction& i, ir::Builder&) {
  for (const ir::PadDim& d : i.get<ir::PadAttrs>().dims) {
    if (d.low != 0 || d.high != 0 || d.interior != 0) return nullptr;
  }
  return i.operand(0);
}

Instruction* dynamic_update_slice(const Instruction& i, ir::Builder&) {
  return same_type(i, *i.operand(1)) ? i.operand(1) : nullptr;
}

Instruction* get_tuple_element(const Instruction& i, ir::Builder&) {
  return i.operand(0)->is(Opcode::tuple)
             ? i.operand(0)->operand(std::size_t(i.get<ir::GetTupleElementAttrs>().index))
             : nullptr;
}

/// One element computed for all, where all operands are one element each.
Instruction* splat(const Instruction& i, ir::Builder& b) {
  if (!i.shape.is_array() || i.shape.is_scalar() || i.operands().empty()) return nullptr;
  if (!i.called().empty()) return nullptr;
  std::vector<Instruction*> scalars;
  for (Instruction* o : i.operands()) {
    if (o->is(Opcode::broadcast)) o = o->operand(0);
    if (!o->shape.is_array() || !o->shape.is_scalar()) return nullptr;
    scalars.push_back(o);
  }
  Instruction* one = b.emit_shaped(i.opcode, Shape(i.shape.dtype, {}), std::move(scalars), i.attrs);
  return b.broadcast(one, i.shape.dims, {});
}

/// A number of known ones.
Instruction* known_number(const Instruction& i, ir::Builder& b) {
  if (!i.shape.is_array() || !i.shape.is_scalar() || i.operands().empty()) return nullptr;
  if (!i.called().empty()) return nullptr;
  std::vector<Literal> operands;
  for (const Instruction* o : i.operands()) {
    const Literal* known = o->shape.is_array() ? ir::splat_constant(*o) : nullptr;
    if (known == nullptr) return nullptr;
    operands.push_back(*known);
  }
  try {
    return b.constant(evaluator::evaluate_instruction(i, operands));
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return nullptr;  // running it will say what is wrong
  }
}

/// Of a number and one that changes none.
Instruction* by_neutral(const Instruction& i, ir::Builder&) {
  const bool turns = i.is(Opcode::multiply) || i.is(Opcode::add);
  double neutral = i.is(Opcode::multiply) || i.is(Opcode::divide) ? 1 : 0;
  // Of floats, -0 + 0 is 0.
  if (i.is(Opcode::add) && is_floating(i.shape.dtype)) neutral = -0.0;
  for (std::size_t k : {1, 0}) {
    if (k == 0 && !turns) break;
    if (ir::is_splat_of(*i.operand(k), neutral) && same_type(i, *i.operand(1 - k))) {
      return i.operand(1 - k);
    }
  }
  return nullptr;
}

/// Without the parts that have no rows, as of a roll by nothing, and with the parts of a part.
Instruction* concatenate(const Instruction& i, ir::Builder& b) {
  const std::int64_t dim = i.get<ir::DimensionsAttrs>().dims.at(0);
  std::vector<Instruction*> parts;
  for (Instruction* o : i.operands()) {
    const bool has_parts = o->is(Opcode::concatenate) && o->use_count() == 1 &&
                           o->get<ir::DimensionsAttrs>().dims.at(0) == dim &&
                           o->control_predecessors().empty();
    if (has_parts) {
      const auto& inner = o->operands();
      parts.insert(parts.end(), inner.begin(), inner.end());
    } else if (o->shape.dim(dim) > 0) {
      parts.push_back(o);
    }
  }
  if (parts.empty()) parts.push_back(i.operand(0));
  if (parts.size() == 1) return parts.front();
  return parts.size() != i.operands().size() ? b.concatenate(std::move(parts), dim) : nullptr;
}

Instruction* select(const Instruction& i, ir::Builder&) {
  const auto is_whole = [&](std::size_t k) { return same_type(i, *i.operand(k)); };
  if (i.operand(1) == i.operand(2) && is_whole(1)) return i.operand(1);
  // True where the predicate is.
  if (is_whole(0) && is_splat(*i.operand(1), true) && is_splat(*i.operand(2), false)) {
    return i.operand(0);
  }
  if (const Literal* chosen = ir::splat_constant(*i.operand(0))) {
    const std::size_t k = chosen->data<bool>()[0] ? 1 : 2;
    return is_whole(k) ? i.operand(k) : nullptr;
  }
  return nullptr;
}

Instruction* all_are(ir::Builder& b, bool value, const Shape& shape) {
  Instruction* one = b.scalar(DType::pred, value);
  return shape.is_scalar() ? one : b.broadcast(one, shape.dims, {});
}

/// Nothing unsigned is below zero; what is not false is true.
Instruction* compare(const Instruction& i, ir::Builder& b) {
  const Instruction& x = *i.operand(0);
  const DType t = x.shape.dtype;
  const Literal* to = ir::splat_constant(*i.operand(1));
  if (to == nullptr || !x.shape.is_array()) return nullptr;
  const ir::Direction direction = i.get<ir::CompareAttrs>().direction;
  if (t == DType::pred) {
    const bool same = direction == (to->data<bool>()[0] ? ir::Direction::eq : ir::Direction::ne);
    return same ? i.operand(0) : nullptr;
  }
  const bool is_zero = std::all_of(to->bytes(), to->bytes() + to->byte_count(),
                                   [](std::byte x) { return x == std::byte(0); });
  if (!is_unsigned_integer(t) || !is_zero) return nullptr;
  if (direction == ir::Direction::lt) return all_are(b, false, i.shape);
  return direction == ir::Direction::ge ? all_are(b, true, i.shape) : nullptr;
}

/// Of a truth and one that is known.
Instruction* either(const Instruction& i, ir::Builder&) {
  if (i.shape.dtype != DType::pred || i.operands().size() != 2) return nullptr;
  for (std::size_t k = 0; k < 2; ++k) {
    const Literal* known = ir::splat_constant(*i.operand(k));
    if (known == nullptr) continue;
    const bool decides = known->data<bool>()[0] == i.is(Opcode::or_);
    return i.operand(decides ? k : 1 - k);
  }
  return nullptr;
}

/// A product in place of a quotient by a power of two: the same numbers, in less time.
Instruction* divide(const Instruction& i, ir::Builder& b) {
  const DType t = i.shape.dtype;
  if (t != DType::f32 && t != DType::f64) return nullptr;
  const Literal* by = ir::splat_constant(*i.operand(1));
  if (!by) return nullptr;
  const auto factor =
      t == DType::f32 ? exact_reciprocal<float>(*by) : exact_reciprocal<double>(*by);
  if (!factor) return nullptr;
  Instruction* all = b.scalar(t, *factor);
  if (!i.shape.is_scalar()) all = b.broadcast(all, i.shape.dims, {});
  return b.binary(Opcode::multiply, i.operand(0), all);
}

Instruction* reshape(const Instruction& i, ir::Builder& b) {
  Instruction* x = i.operand(0);
  if (same_type(i, *x)) return x;
  if (x->is(Opcode::reshape)) return b.reshape(x->operand(0), i.shape.dims);
  // A splat of other dims.
  if (x->is(Opcode::broadcast) && x->operand(0)->shape.is_scalar()) {
    return b.broadcast(x->operand(0), i.shape.dims, {});
  }
  return nullptr;
}

/// Rows that are stacked and then turned to columns are put side by side.
Instruction* transpose_of_parts(const Instruction& concatenate, const Dims& perm, ir::Builder& b) {
  if (concatenate.users().size() != 1) return nullptr;
  std::vector<Instruction*> parts;
  for (Instruction* o : concatenate.operands()) {
    if (!moves_nothing(o->shape, perm)) return nullptr;
    Dims dims;
    for (const std::int64_t d : perm) dims.push_back(o->shape.dim(d));
    parts.push_back(b.reshape(o, dims));
  }
  const std::int64_t dim = concatenate.get<ir::DimensionsAttrs>().dims.at(0);
  return b.concatenate(std::move(parts), std::find(perm.begin(), perm.end(), dim) - perm.begin());
}

Instruction* transpose(const Instruction& i, ir::Builder& b) {
  Instruction* x = i.operand(0);
  const Dims& perm = i.get<ir::DimensionsAttrs>().dims;
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  if (moves_nothing(x->shape, perm)) return b.reshape(x, i.shape.dims);
  if (x->is(Opcode::broadcast) && x->operand(0)->shape.is_scalar()) {
    return b.broadcast(x->operand(0), i.shape.dims, {});
  }
  if (x->is(Opcode::concatenate)) return transpose_of_parts(*x, perm, b);
  if (!x->is(Opcode::transpose)) return nullptr;
  const Dims& inner = x->get<ir::DimensionsAttrs>().dims;
  Dims both;
  for (const std::int64_t d : perm) both.push_back(inner[std::size_t(d)]);
  if (std::is_sorted(both.begin(), both.end())) return x->operand(0);
  return b.transpose(x->operand(0), both);
}

Instruction* broadcast(const Instruction& i, ir::Builder& b) {
  Instruction* x = i.operand(0);
  const Dims& dims = i.get<ir::DimensionsAttrs>().dims;
  if (same_type(i, *x) && std::is_sorted(dims.begin(), dims.end())) return x;
  if (!x->is(Opcode::broadcast)) return nullptr;
  Dims both;
  for (const std::int64_t d : x->get<ir::DimensionsAttrs>().dims) {
    both.push_back(dims[std::size_t(d)]);
  }
  return b.broadcast(x->operand(0), i.shape.dims, both);
}

/// (x.0, x.1, ..., x.n) is x.
Instruction* tuple(const Instruction& i, ir::Builder&) {
  if (i.operands().empty() || i.parent->root() == &i) return nullptr;
  Instruction* whole = nullptr;
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    const Instruction* o = i.operand(k);
    if (!o->is(Opcode::get_tuple_element) ||
        o->get<ir::GetTupleElementAttrs>().index != std::int64_t(k) ||
        (whole != nullptr && o->operand(0) != whole)) {
      return nullptr;
    }
    whole = o->operand(0);
  }
  return whole->shape == i.shape ? whole : nullptr;
}

/// Whether one element may be computed for all; choices between two arrays have rules of their own.
bool may_be_splat(Opcode op) {
  switch (op) {
    case Opcode::copy:
    case Opcode::domain:
    case Opcode::bitcast_convert:
    case Opcode::bitcast:
    case Opcode::select:
    case Opcode::sharding_constraint:
    case Opcode::pvary:
      return false;
    default:
      return ir::is_elementwise(op);
  }
}

ir::PatternSet simplifications() {
  constexpr int kFirst = 2;
  ir::PatternSet out("simplify");
  out.add({Opcode::copy, Opcode::domain, Opcode::sharding_constraint, Opcode::pvary}, operand);
  out.add({Opcode::convert, Opcode::bitcast_convert, Opcode::dynamic_slice}, of_same_type, kFirst);
  out.add(Opcode::convert, convert);
  out.add(Opcode::bitcast, bitcast);
  out.add(Opcode::dot, dot);
  out.add(Opcode::set_dimension_size, set_dimension_size);
  out.add(Opcode::get_dimension_size, get_dimension_size);
  out.add(Opcode::reshape, reshape);
  out.add(Opcode::transpose, transpose);
  out.add(Opcode::broadcast, broadcast);
  out.add(Opcode::slice, slice);
  out.add(Opcode::reverse, reverse);
  out.add(Opcode::pad, pad);
  out.add(Opcode::concatenate, concatenate);
  out.add(Opcode::dynamic_update_slice, dynamic_update_slice);
  out.add(Opcode::get_tuple_element, get_tuple_element);
  out.add(Opcode::tuple, tuple);
  out.add(Opcode::select, select);
  out.add(Opcode::compare, compare, kFirst);
  out.add({Opcode::and_, Opcode::or_}, either, kFirst);
  out.add({Opcode::multiply, Opcode::divide, Opcode::add, Opcode::subtract}, by_neutral, kFirst);
  out.add(Opcode::divide, divide, kFirst);
  out.add_if(may_be_splat, known_number, kFirst);
  out.add_if(may_be_splat, splat);
  return out;
}

}  // namespace

std::size_t simplify(ir::Module* module) {
  static const ir::PatternSet& patterns = ir::keep(simplifications());
  return ir::walk_and_apply_patterns(module, patterns);
}

std::size_t eliminate_dead(ir::Module* module) {
  std::size_t count = 0;
  module->remove_dead_computations();
  for (const auto& c : module->computations()) count += c->remove_dead();
  module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
