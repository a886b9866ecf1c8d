// SPDX-License-Identifier: Apache-2.0
// Algebraic simplification of ops that do nothing or what others do in less time, and dead code
// elimination.
#include "src/passes/simplify.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "src/ir/constraint.h"
#include "src/ir/rewrite/builder.h"

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

/// The constant that all elements are, or null.
const Literal* splat_constant(const Instruction* x) {
  while (x->is(Opcode::broadcast) || x->is(Opcode::reshape) || x->is(Opcode::copy)) {
    x = x->operand(0);
  }
  if (!x->is(Opcode::constant) || !x->shape.is_scalar() || x->get<ir::ConstantAttrs>().elided) {
    return nullptr;
  }
  return &x->get<ir::ConstantAttrs>().value;
}

/// Whether all elements are this truth value.
bool is_splat(const Instruction& x, bool value) {
  const Literal* c = x.shape.dtype == DType::pred ? splat_constant(&x) : nullptr;
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

class Simplifier {
 public:
  explicit Simplifier(ir::Computation* c) : c_(c), builder_(c) {}

  std::size_t run() {
    std::unordered_map<Instruction*, Instruction*> replaced;
    const std::size_t n = c_->instructions().size();
    std::size_t added_from = n;
    for (std::size_t k = 0; k < n; ++k) {
      Instruction* i = c_->instructions()[k].get();
      // Operands that were just replaced are looked through.
      for (std::size_t o = 0; o < i->operands().size(); ++o) {
        for (auto it = replaced.find(i->operand(o)); it != replaced.end();
             it = replaced.find(i->operand(o))) {
          i->set_operand(o, it->second);
        }
      }
      builder_.metadata = i->metadata;
      Instruction* to = visit(i);
      if (to == nullptr || to == i) continue;
      if (to->sharding.empty()) to->sharding = i->sharding;
      replaced[i] = to;
    }
    if (replaced.empty()) return 0;
    c_->replace_all_uses(replaced);
    if (c_->instructions().size() != added_from) c_->sort_topologically();
    c_->remove_dead();
    return replaced.size();
  }

 private:
  /// What stands for it, or null.
  Instruction* visit(Instruction* i) {
    switch (i->opcode) {
      case Opcode::copy:
      case Opcode::domain:
        return i->operand(0);
      case Opcode::convert:
        return same_type(*i, *i->operand(0)) ? i->operand(0) : splat(i);
      case Opcode::bitcast_convert:
        return same_type(*i, *i->operand(0)) ? i->operand(0) : nullptr;
      case Opcode::bitcast:
        return i->shape.dtype == i->operand(0)->shape.dtype && i->shape.layout.empty()
                   ? builder_.reshape(i->operand(0), i->shape.dims)
                   : nullptr;
      case Opcode::reshape:
        return reshape(i);
      case Opcode::transpose:
        return transpose(i);
      case Opcode::broadcast:
        return broadcast(i);
      case Opcode::slice:
        return is_whole_slice(*i) ? i->operand(0) : nullptr;
      case Opcode::reverse:
        for (const std::int64_t d : i->get<ir::DimensionsAttrs>().dims) {
          if (i->shape.dim(d) > 1) return nullptr;
        }
        return i->operand(0);
      case Opcode::pad:
        for (const ir::PadDim& d : i->get<ir::PadAttrs>().dims) {
          if (d.low != 0 || d.high != 0 || d.interior != 0) return nullptr;
        }
        return i->operand(0);
      case Opcode::concatenate:
        return concatenate(i);
      case Opcode::dynamic_slice:
        return same_type(*i, *i->operand(0)) ? i->operand(0) : nullptr;
      case Opcode::dynamic_update_slice:
        return same_type(*i, *i->operand(1)) ? i->operand(1) : nullptr;
      case Opcode::get_tuple_element:
        return i->operand(0)->is(Opcode::tuple)
                   ? i->operand(0)->operand(std::size_t(i->get<ir::GetTupleElementAttrs>().index))
                   : nullptr;
      case Opcode::tuple:
        return tuple(i);
      case Opcode::select:
        return select(i);
      case Opcode::compare:
        if (Instruction* known = compare(i)) return known;
        return splat(i);
      case Opcode::and_:
      case Opcode::or_:
        if (Instruction* one = either(i)) return one;
        return splat(i);
      case Opcode::sharding_constraint:
      case Opcode::pvary:
        return i->operand(0);
      case Opcode::divide:
        if (Instruction* product = divide(i)) return product;
        return splat(i);
      default:
        return ir::is_elementwise(i->opcode) ? splat(i) : nullptr;
    }
  }

  /// One element computed for all, where all operands are one element each.
  Instruction* splat(Instruction* i) {
    if (!i->shape.is_array() || i->shape.is_scalar() || i->operands().empty()) return nullptr;
    if (!i->called().empty()) return nullptr;
    std::vector<Instruction*> scalars;
    for (Instruction* o : i->operands()) {
      if (o->is(Opcode::broadcast)) o = o->operand(0);
      if (!o->shape.is_array() || !o->shape.is_scalar()) return nullptr;
      scalars.push_back(o);
    }
    Instruction* one =
        builder_.emit_shaped(i->opcode, Shape(i->shape.dtype, {}), std::move(scalars), i->attrs);
    return builder_.broadcast(one, i->shape.dims, {});
  }

  /// Without the parts that have no rows, as of a roll by nothing.
  Instruction* concatenate(Instruction* i) {
    const std::int64_t dim = i->get<ir::DimensionsAttrs>().dims.at(0);
    std::vector<Instruction*> parts;
    for (Instruction* o : i->operands()) {
      if (o->shape.dim(dim) > 0) parts.push_back(o);
    }
    if (parts.empty()) parts.push_back(i->operand(0));
    if (parts.size() == 1) return parts.front();
    return parts.size() < i->operands().size() ? builder_.concatenate(std::move(parts), dim)
                                               : nullptr;
  }

  Instruction* select(Instruction* i) {
    const auto is_whole = [&](std::size_t k) { return same_type(*i, *i->operand(k)); };
    if (i->operand(1) == i->operand(2) && is_whole(1)) return i->operand(1);
    // True where the predicate is.
    if (is_whole(0) && is_splat(*i->operand(1), true) && is_splat(*i->operand(2), false)) {
      return i->operand(0);
    }
    if (const Literal* chosen = splat_constant(i->operand(0))) {
      const std::size_t k = chosen->data<bool>()[0] ? 1 : 2;
      return is_whole(k) ? i->operand(k) : nullptr;
    }
    return nullptr;
  }

  Instruction* all_are(bool value, const Shape& shape) {
    Instruction* one = builder_.scalar(DType::pred, value);
    return shape.is_scalar() ? one : builder_.broadcast(one, shape.dims, {});
  }

  /// Nothing unsigned is below zero; what is not false is true.
  Instruction* compare(Instruction* i) {
    const Instruction& x = *i->operand(0);
    const DType t = x.shape.dtype;
    const Literal* to = splat_constant(i->operand(1));
    if (to == nullptr || !x.shape.is_array()) return nullptr;
    const ir::Direction direction = i->get<ir::CompareAttrs>().direction;
    if (t == DType::pred) {
      const bool same = direction == (to->data<bool>()[0] ? ir::Direction::eq : ir::Direction::ne);
      return same ? i->operand(0) : nullptr;
    }
    const bool is_zero = std::all_of(to->bytes(), to->bytes() + to->byte_count(),
                                     [](std::byte b) { return b == std::byte(0); });
    if (!is_unsigned_integer(t) || !is_zero) return nullptr;
    if (direction == ir::Direction::lt) return all_are(false, i->shape);
    return direction == ir::Direction::ge ? all_are(true, i->shape) : nullptr;
  }

  /// Of a truth and one that is known.
  Instruction* either(Instruction* i) {
    if (i->shape.dtype != DType::pred || i->operands().size() != 2) return nullptr;
    for (std::size_t k = 0; k < 2; ++k) {
      const Literal* known = splat_constant(i->operand(k));
      if (known == nullptr) continue;
      const bool decides = known->data<bool>()[0] == i->is(Opcode::or_);
      return i->operand(decides ? k : 1 - k);
    }
    return nullptr;
  }

  /// A product in place of a quotient by a power of two: the same numbers, in less time.
  Instruction* divide(Instruction* i) {
    const DType t = i->shape.dtype;
    if (t != DType::f32 && t != DType::f64) return nullptr;
    const Literal* by = splat_constant(i->operand(1));
    if (!by) return nullptr;
    const auto factor =
        t == DType::f32 ? exact_reciprocal<float>(*by) : exact_reciprocal<double>(*by);
    if (!factor) return nullptr;
    Instruction* all = builder_.scalar(t, *factor);
    if (!i->shape.is_scalar()) all = builder_.broadcast(all, i->shape.dims, {});
    return builder_.binary(Opcode::multiply, i->operand(0), all);
  }

  Instruction* reshape(Instruction* i) {
    Instruction* x = i->operand(0);
    if (same_type(*i, *x)) return x;
    if (x->is(Opcode::reshape)) return builder_.reshape(x->operand(0), i->shape.dims);
    // A splat of other dims.
    if (x->is(Opcode::broadcast) && x->operand(0)->shape.is_scalar()) {
      return builder_.broadcast(x->operand(0), i->shape.dims, {});
    }
    return nullptr;
  }

  Instruction* transpose(Instruction* i) {
    Instruction* x = i->operand(0);
    const Dims& perm = i->get<ir::DimensionsAttrs>().dims;
    if (std::is_sorted(perm.begin(), perm.end())) return x;
    if (moves_nothing(x->shape, perm)) return builder_.reshape(x, i->shape.dims);
    if (x->is(Opcode::broadcast) && x->operand(0)->shape.is_scalar()) {
      return builder_.broadcast(x->operand(0), i->shape.dims, {});
    }
    if (x->is(Opcode::concatenate)) return transpose_of_parts(*x, perm);
    if (!x->is(Opcode::transpose)) return nullptr;
    const Dims& inner = x->get<ir::DimensionsAttrs>().dims;
    Dims both;
    for (const std::int64_t d : perm) both.push_back(inner[std::size_t(d)]);
    if (std::is_sorted(both.begin(), both.end())) return x->operand(0);
    return builder_.transpose(x->operand(0), both);
  }

  /// Rows that are stacked and then turned to columns are put side by side.
  Instruction* transpose_of_parts(const Instruction& concatenate, const Dims& perm) {
    if (concatenate.users().size() != 1) return nullptr;
    std::vector<Instruction*> parts;
    for (Instruction* o : concatenate.operands()) {
      if (!moves_nothing(o->shape, perm)) return nullptr;
      Dims dims;
      for (const std::int64_t d : perm) dims.push_back(o->shape.dim(d));
      parts.push_back(builder_.reshape(o, dims));
    }
    const std::int64_t dim = concatenate.get<ir::DimensionsAttrs>().dims.at(0);
    return builder_.concatenate(std::move(parts),
                                std::find(perm.begin(), perm.end(), dim) - perm.begin());
  }

  Instruction* broadcast(Instruction* i) {
    Instruction* x = i->operand(0);
    const Dims& dims = i->get<ir::DimensionsAttrs>().dims;
    if (same_type(*i, *x) && std::is_sorted(dims.begin(), dims.end())) return x;
    if (!x->is(Opcode::broadcast)) return nullptr;
    Dims both;
    for (const std::int64_t d : x->get<ir::DimensionsAttrs>().dims) {
      both.push_back(dims[std::size_t(d)]);
    }
    return builder_.broadcast(x->operand(0), i->shape.dims, both);
  }

  /// (x.0, x.1, ..., x.n) is x.
  Instruction* tuple(Instruction* i) {
    if (i->operands().empty() || i == c_->root()) return nullptr;
    Instruction* whole = nullptr;
    for (std::size_t k = 0; k < i->operands().size(); ++k) {
      const Instruction* o = i->operand(k);
      if (!o->is(Opcode::get_tuple_element) ||
          o->get<ir::GetTupleElementAttrs>().index != std::int64_t(k) ||
          (whole != nullptr && o->operand(0) != whole)) {
        return nullptr;
      }
      whole = o->operand(0);
    }
    return whole->shape == i->shape ? whole : nullptr;
  }

  ir::Computation* c_;
  ir::Builder builder_;
};

}  // namespace

std::size_t simplify(ir::Module* module) {
  std::size_t count = 0;
  for (const auto& c : module->computations()) count += Simplifier(c.get()).run();
  return count;
}

std::size_t eliminate_dead(ir::Module* module) {
  std::size_t count = 0;
  module->remove_dead_computations();
  for (const auto& c : module->computations()) count += c->remove_dead();
  module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
