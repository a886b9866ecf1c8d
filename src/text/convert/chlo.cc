// SPDX-License-Identifier: Apache-2.0
// Operations of the chlo dialect: opcodes where HLO has them, else formulas.
#include <cmath>
#include <limits>

#include "src/base/arrays/literal_util.h"
#include "src/ir/formulas/special.h"
#include "src/text/convert/chlo_math.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;
namespace formulas = ir::formulas;

namespace {

// Functions that are computed in f32 at least.
DType working(DType t) { return is_floating(t) && t != DType::f64 ? DType::f32 : t; }

/// The next number after x in the direction of y.
Num next_after(Conversions& reader, const Operation& op, Num x, Num y) {
  ir::Formula& m = *x.m;
  DType integer = byte_size(m.dtype()) == 8   ? DType::s64
                  : byte_size(m.dtype()) == 4 ? DType::s32
                  : byte_size(m.dtype()) == 2 ? DType::s16
                                              : DType::s8;
  ChloMath ints(reader, op, integer, m.dims());
  Num from = ints(m.bits(x, integer).i);
  // Away from zero the bits rise, towards it they fall.
  Num away = choose(x > 0.0, y > x, y < x);
  Num step = ints.select(ints(away.i), ints.constant(1), ints.constant(-1));
  Num moved = from + step;
  Num least = ints.constant(1);
  Num sign = ints.constant(-std::ldexp(1.0, int(byte_size(m.dtype())) * 8 - 1));
  Num from_zero = ints.select(ints((y < 0.0).i), ints.binary(Opcode::or_, sign, least), least);
  Num chosen = ints.select(ints((x == 0.0).i), from_zero, moved);
  Num result = m(m.bits(chosen, m.dtype()).i);
  result = choose(x == y, y, result);
  return choose((x != x) | (y != y), m.constant(std::numeric_limits<double>::quiet_NaN()), result);
}

/// Where the product's real part would be the difference of two infinities, it is their product.
Instruction* complex_square(Conversions& reader, const Operation& op, Instruction* z) {
  ChloMath m(reader, op, real_type(z->shape.dtype), z->shape.dims);
  const Shape part(m.dtype(), m.dims());
  const Num x = m(m.make(Opcode::real, part, {z})), y = m(m.make(Opcode::imag, part, {z}));
  const Num none = (abs(x) == abs(y)) & (abs(x) < std::numeric_limits<double>::infinity());
  const Num re = choose(none, 0.0, (x - y) * (x + y)), im = 2.0 * (x * y);
  return m.make(Opcode::complex, z->shape, {re.i, im.i});
}

}  // namespace

void Conversions::chlo_unary(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  Instruction* x = op.operands[0];
  std::string_view name = op.name.substr(op.name.find('.') + 1);
  const Shape& shape = x->shape;
  const DType t = shape.dtype;
  auto finish = [&](Num v) { op.values.push_back(v.i); };
  if (name == "square") {
    if (is_complex(t)) {
      op.values.push_back(complex_square(*this, op, x));
    } else {
      set(op, Opcode::multiply, {x, x});
    }
    return;
  }
  ChloMath plain(*this, op, t, shape.dims);
  if (name == "conj") {
    if (!is_complex(t)) {
      identity(op);
      return;
    }
    Shape part(real_type(t), shape.dims);
    Instruction* real = add(op, Opcode::real, part, {x});
    Instruction* imag = add(op, Opcode::imag, part, {x});
    set(op, Opcode::complex, {real, add(op, Opcode::negate, part, {imag})});
    return;
  }
  if (name == "is_inf") {
    finish(abs(plain(x)) == std::numeric_limits<double>::infinity());
    return;
  }
  if (name == "is_pos_inf" || name == "is_neg_inf") {
    double infinity = std::numeric_limits<double>::infinity();
    finish(plain(x) == (name == "is_pos_inf" ? infinity : -infinity));
    return;
  }
  if (!is_floating(t)) {
    fail(op, "takes floating point numbers, not " + mlir_type(shape));
  }
  ChloMath m(*this, op, working(t), shape.dims);
  Num v = m.convert(m(x), m.dtype());
  if (name == "lgamma") {
    v = formulas::lgamma(v);
  } else if (name == "digamma") {
    v = formulas::digamma(v);
  } else if (name == "bessel_i1e") {
    v = formulas::bessel_i1e(v);
  } else if (name == "erfc") {
    v = formulas::erfc(v);
  } else if (name == "erf_inv") {
    v = formulas::erf_inv(v);
  } else {
    unsupported(op);
  }
  finish(m.convert(v, t));
}

void Conversions::chlo_binary(Operation& op) {
  need_operands(op, 2, 2);
  need_results(op, 1);
  std::string_view name = op.name.substr(op.name.find('.') + 1);
  if (name.substr(0, 10) == "broadcast_") name.remove_prefix(10);
  const Shape& shape = op.operands[0]->shape;
  if (!is_floating(shape.dtype)) {
    fail(op, "takes floating point numbers, not " + mlir_type(shape));
  }
  if (name == "next_after") {
    ChloMath m(*this, op, shape.dtype, shape.dims);
    op.values.push_back(next_after(*this, op, m(op.operands[0]), m(op.operands[1])).i);
    return;
  }
  ChloMath m(*this, op, working(shape.dtype), shape.dims);
  Num a = m.convert(m(op.operands[0]), m.dtype()), b = m.convert(m(op.operands[1]), m.dtype());
  Num v = name == "zeta" ? formulas::zeta(a, b) : formulas::polygamma(a, b);
  op.values.push_back(m.convert(v, shape.dtype).i);
}

void Conversions::chlo_broadcast(Operation& op) {
  // As NumPy: the last dims meet, and those of size 1 grow. Given dims place the smaller operand.
  need_operands(op, 2, 2);
  need_results(op, 1);
  const Shape& result = *op.results[0];
  for (Instruction*& x : op.operands) {
    Dims dims;
    std::int64_t rank = x->shape.rank();
    std::int64_t other = op.operands[x == op.operands[0] ? 1 : 0]->shape.rank();
    if (op.find("broadcast_dimensions") != nullptr && rank < other) {
      dims = integers(op, "broadcast_dimensions");
    } else {
      for (std::int64_t d = 0; d < rank; ++d) dims.push_back(result.rank() - rank + d);
    }
    x = broadcast_to(op, x, Shape(x->shape.dtype, result.dims), dims);
  }
  std::string_view name = op.name.substr(op.name.find('.') + 1);
  if (name == "broadcast_compare") {
    compare(op);
  } else if (name == "broadcast_zeta" || name == "broadcast_polygamma" ||
             name == "broadcast_next_after") {
    chlo_binary(op);
  } else {
    elementwise(op);
  }
}

void Conversions::chlo_broadcast_select(Operation& op) {
  need_operands(op, 3, 3);
  need_results(op, 1);
  const Shape& result = *op.results[0];
  for (Instruction*& x : op.operands) {
    Dims dims;
    std::int64_t rank = x->shape.rank();
    for (std::int64_t d = 0; d < rank; ++d) dims.push_back(result.rank() - rank + d);
    x = broadcast_to(op, x, Shape(x->shape.dtype, result.dims), dims);
  }
  set(op, Opcode::select, op.operands);
}

void Conversions::chlo_constant_like(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  const char* back = in_.position();
  in_.seek(need(op, "value").value.data());
  const Shape* type = nullptr;
  Literal value = literal(&type);
  in_.seek(back);
  if (!type->dims.empty()) fail(op, "needs a scalar value");
  Instruction* scalar = add(op, Opcode::constant, *type, {}, ir::ConstantAttrs{std::move(value)});
  op.values.push_back(splat(op, scalar, op.results[0]->dims));
}

void Conversions::top_k(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 2);
  set_results(op, Opcode::topk, op.operands,
              ir::TopKAttrs{integer(op, "k"), flag(op, "largest", true)});
}

void Conversions::ragged_dot(Operation& op) {
  need_operands(op, 3, 3);
  ir::TextAttrs a;
  const Operation numbers = fields_of(op, need(op, "ragged_dot_dimension_numbers"));
  for (auto [key, field] :
       {std::pair<const char*, const char*>{"lhs_batch_dims", "lhs_batching_dimensions"},
        {"lhs_contracting_dims", "lhs_contracting_dimensions"},
        {"rhs_batch_dims", "rhs_batching_dimensions"},
        {"rhs_contracting_dims", "rhs_contracting_dimensions"},
        {"lhs_ragged_dims", "lhs_ragged_dimensions"},
        {"rhs_group_dims", "rhs_group_dimensions"}}) {
    Dims dims = integers_or(numbers, field, {});
    a.items.emplace_back(key, "{" + join(dims) + "}");
  }
  std::vector<std::string> words = precision(op);
  if (!words.empty()) {
    std::string text = "{";
    for (const std::string& w : words) text += (text.size() > 1 ? "," : "") + w;
    a.items.emplace_back("operand_precision", text + "}");
  }
  set(op, Opcode::ragged_dot, op.operands, std::move(a));
}

}  // namespace tessera::text
