// SPDX-License-Identifier: Apache-2.0
// Sums and products of small floats are accumulated in f64. They are rounded once at the end where
// the operation leaves the order open (reductions, windows), and after each step otherwise
// (scatters). Small integers wrap: what a byte keeps of a sum has all that fewer bits keep of it.
#include "src/passes/widen_small_types.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/arrays/bit_width.h"
#include "src/base/arrays/small_floats.h"
#include "src/ir/cloner.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

bool is_narrow(DType t) { return few_bits(t) > 0 || is_small_float(t); }
bool has_narrow(const Shape& s) {
  if (s.is_tuple) return std::any_of(s.elements.begin(), s.elements.end(), has_narrow);
  return is_narrow(s.dtype);
}

/// `sums`: rounded once.
DType wide(DType t, bool sums = false) {
  if (few_bits(t) > 0) return byte_of(t);
  if (is_small_float(t)) return sums ? DType::f64 : DType::f32;
  return t;
}

std::vector<Instruction*> widened(ir::Builder& b, const Instruction& i, bool sums = false) {
  std::vector<Instruction*> out;
  for (Instruction* o : i.operands()) out.push_back(b.convert(o, wide(o->shape.dtype, sums)));
  return out;
}

/// With the types of `shape`.
Instruction* narrowed_to(ir::Builder& b, Instruction* x, const Shape& shape) {
  if (!shape.is_tuple) return b.convert(x, shape.dtype);
  std::vector<Instruction*> parts;
  for (std::size_t k = 0; k < shape.elements.size(); ++k) {
    Instruction* part =
        x->is(Opcode::tuple) ? x->operand(k) : b.get_tuple_element(x, std::int64_t(k));
    parts.push_back(b.convert(part, shape.elements[k].dtype));
  }
  return b.tuple(std::move(parts));
}

Shape wide_shape(const Shape& shape) {
  if (!shape.is_tuple) return Shape(wide(shape.dtype), shape.dims);
  Shape out = shape;
  for (Shape& s : out.elements) s = wide_shape(s);
  return out;
}

/// What the computation does, on and to wide numbers: as these stand for narrow ones, each step is
/// what it was.
Computation* around(const Computation& c, ir::Module* module) {
  Computation* out = module->add_computation(c.name() + ".wide");
  ir::Builder b(out);
  std::vector<Instruction*> arguments;
  for (const Instruction* p : c.parameters()) {
    const Shape& shape = p->shape;
    Instruction* own = b.parameter(std::int64_t(arguments.size()), wide_shape(shape));
    arguments.push_back(b.convert(own, shape.dtype));
  }
  Instruction* root = ir::inline_computation(out, c, arguments);
  out->set_root(narrowed_to(b, root, wide_shape(root->shape)));
  return out;
}

bool rounds(Opcode op) { return op == Opcode::add || op == Opcode::multiply; }

/// reduce and reduce-window: one operation is rounded at the end only.
Instruction* reduced(const Instruction& i, ir::Builder& b) {
  if (!has_narrow(i.shape) || !i.control_predecessors().empty()) return nullptr;
  const Computation& c = *i.called(0);
  const std::optional<Opcode> op =
      i.operands().size() == 2 ? ir::as_binary_reducer(c) : std::nullopt;
  const bool sums = op && rounds(*op);
  if (i.operand(0)->shape.dtype != i.shape.dtype && op) return nullptr;
  Computation* reducer = op ? ir::scalar_computation(b.module(), *op, wide(i.shape.dtype, sums))
                            : around(c, b.module());
  Instruction* out = b.emit(i.opcode, widened(b, i, sums), i.attrs, {reducer});
  return narrowed_to(b, out, i.shape);
}

/// One update after the other.
Instruction* scattered(const Instruction& i, ir::Builder& b) {
  if (!has_narrow(i.shape) || !i.control_predecessors().empty()) return nullptr;
  const Computation& c = *i.called(0);
  // Moves elements only.
  if (c.root() == c.parameters().back() && c.parameters().size() == 2) return nullptr;
  const std::optional<Opcode> op =
      i.operands().size() == 3 ? ir::as_binary_reducer(c) : std::nullopt;
  const bool exact = op && (!rounds(*op) || few_bits(i.shape.dtype) > 0);
  Computation* combiner =
      exact ? ir::scalar_computation(b.module(), *op, wide(i.shape.dtype)) : around(c, b.module());
  return narrowed_to(b, b.emit(i.opcode, widened(b, i), i.attrs, {combiner}), i.shape);
}

/// The comparison of two parameters, of wider ones; null if the computation is another one.
Computation* wide_comparison(const Computation& c, ir::Module* module) {
  const Instruction& root = *c.root();
  if (!root.is(Opcode::compare) || !root.operand(0)->is(Opcode::parameter) ||
      !root.operand(1)->is(Opcode::parameter)) {
    return nullptr;
  }
  Computation* out = module->add_computation(c.name() + ".wide");
  ir::Builder b(out);
  std::vector<Instruction*> own;
  for (const Instruction* p : c.parameters()) {
    own.push_back(b.parameter(std::int64_t(own.size()), wide_shape(p->shape)));
  }
  const auto at = [&](std::size_t k) {
    return own[std::size_t(root.operand(k)->get<ir::ParameterAttrs>().number)];
  };
  out->set_root(b.emit(Opcode::compare, {at(0), at(1)}, root.attrs));
  return out;
}

Instruction* sorted(const Instruction& i, ir::Builder& b) {
  if (!has_narrow(i.shape) || !i.control_predecessors().empty()) return nullptr;
  Computation* comparator = wide_comparison(*i.called(0), b.module());
  if (comparator == nullptr) comparator = around(*i.called(0), b.module());
  return narrowed_to(b, b.emit(i.opcode, widened(b, i), i.attrs, {comparator}), i.shape);
}

Instruction* largest(const Instruction& i, ir::Builder& b) {
  if (!has_narrow(i.shape) || !i.control_predecessors().empty()) return nullptr;
  return narrowed_to(b, b.emit(i.opcode, widened(b, i), i.attrs), i.shape);
}

/// Dots and convolutions. Those of floats of 8 bits with wider results have kernels.
Instruction* product(const Instruction& i, ir::Builder& b) {
  const bool of_integers =
      few_bits(i.operand(0)->shape.dtype) > 0 || few_bits(i.operand(1)->shape.dtype) > 0;
  const bool to_small = i.is(Opcode::dot) && is_small_float(i.shape.dtype);
  if ((!of_integers && !to_small) || !i.control_predecessors().empty()) return nullptr;
  Instruction* out = b.emit_shaped(i.opcode, wide_shape(i.shape), widened(b, i), i.attrs);
  return narrowed_to(b, out, i.shape);
}

/// Cholesky factors and triangular solves of halves.
Instruction* factored(const Instruction& i, ir::Builder& b) {
  const DType t = i.shape.dtype;
  if ((t != DType::f16 && t != DType::bf16) || !i.control_predecessors().empty()) return nullptr;
  std::vector<Instruction*> operands;
  for (Instruction* o : i.operands()) operands.push_back(b.convert(o, DType::f64));
  return b.convert(b.emit(i.opcode, std::move(operands), i.attrs), t);
}

/// To small floats from what they have no conversions of.
Instruction* converted(const Instruction& i, ir::Builder& b) {
  const DType from = i.operand(0)->shape.dtype;
  if (!is_small_float(i.shape.dtype)) return nullptr;
  const bool is_long = from == DType::s64 || from == DType::u64;
  if (!is_long && from != DType::pred) return nullptr;
  Instruction* x = b.convert(i.operand(0), is_long ? DType::f64 : DType::s8);
  // As f32 rounds it, like all numbers that become powers of two.
  if (is_long && i.shape.dtype == DType::f8e8m0fnu) x = b.convert(x, DType::f32);
  return b.convert(x, i.shape.dtype);
}

Instruction* clamped(const Instruction& i, ir::Builder& b) {
  if (i.shape.dtype != DType::pred) return nullptr;
  const auto bound = [&](std::size_t k) { return b.splat(i.operand(k), i.shape.dims); };
  Instruction* out = b.binary(Opcode::maximum, i.operand(1), bound(0));
  return b.binary(Opcode::minimum, out, bound(2));
}

Instruction* imaginary(const Instruction& i, ir::Builder& b) {
  if (is_complex(i.operand(0)->shape.dtype)) return nullptr;
  return b.splat(b.zero(i.shape.dtype), i.shape.dims);
}

/// Elements of fewer bits than a byte, of bytes and wider ones: the first has the lowest bits.
Instruction* cut(const Instruction& i, ir::Builder& b) {
  Instruction* x = i.operand(0);
  const int bits = few_bits(i.shape.dtype);
  const DType from = x->shape.dtype;
  if (bits == 0 || few_bits(from) > 0 || is_complex(from) || from == DType::pred) return nullptr;
  Dims dims = x->shape.dims;
  const Dims none;
  if (byte_size(from) > 1) dims.push_back(std::int64_t(byte_size(from)));
  if (from != DType::u8) x = b.emit_shaped(Opcode::bitcast_convert, Shape(DType::u8, dims), {x});
  Dims places(dims.size());
  for (std::size_t d = 0; d < places.size(); ++d) places[d] = std::int64_t(d);
  dims.push_back(8 / bits);
  x = b.broadcast(x, dims, places);
  Instruction* at = b.iota(Shape(DType::u8, dims), std::int64_t(dims.size()) - 1);
  at = b.binary(Opcode::multiply, at, b.splat(b.scalar(DType::u8, bits), dims));
  x = b.binary(Opcode::shift_right_logical, x, at);
  return b.reshape(b.convert(x, i.shape.dtype), i.shape.dims);
}

bool is_rare(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::cholesky:
    case Opcode::triangular_solve:
      return true;
    case Opcode::imag:
      return !is_complex(i.operand(0)->shape.dtype);
    case Opcode::clamp:
      return i.shape.dtype == DType::pred;
    default:
      return has_narrow(i.shape);
  }
}

bool may_widen(const Instruction& i) {
  if (i.is(Opcode::parameter)) return false;
  if (is_rare(i)) return true;
  return (i.is(Opcode::dot) || i.is(Opcode::convolution)) && has_narrow(i.operand(0)->shape);
}

}  // namespace

std::size_t widen_small_types(ir::Module* module) {
  bool any = false;
  for (const auto& c : module->computations()) {
    const auto& all = c->instructions();
    any = any || std::any_of(all.begin(), all.end(), [](const auto& i) { return may_widen(*i); });
  }
  if (!any) return 0;
  static const auto& patterns =
      ir::keep(ir::PatternSet("widen-small-types")
                   .add({Opcode::reduce, Opcode::reduce_window}, reduced)
                   .add(Opcode::scatter, scattered)
                   .add(Opcode::sort, sorted)
                   .add(Opcode::topk, largest)
                   .add({Opcode::dot, Opcode::convolution}, product)
                   .add({Opcode::cholesky, Opcode::triangular_solve}, factored)
                   .add(Opcode::convert, converted)
                   .add(Opcode::clamp, clamped)
                   .add(Opcode::imag, imaginary)
                   .add(Opcode::bitcast_convert, cut));
  const std::size_t count = ir::walk_and_apply_patterns(module, patterns);
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
