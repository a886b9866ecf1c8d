// SPDX-License-Identifier: Apache-2.0
// Operations of the chlo dialect: opcodes where HLO has them, else formulas.
#include <bit>
#include <limits>

#include "src/base/literal_util.h"
#include "src/text/convert/chlo_math.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

Num ChloMath::constant(double v) {
  Instruction*& i = numbers_[{dtype_, std::bit_cast<std::uint64_t>(v)}];
  if (i == nullptr) i = reader_.splat(op_, reader_.scalar_constant(op_, dtype_, v), dims_);
  return {this, i};
}

Instruction* ChloMath::make(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                            ir::Attributes attributes, std::vector<ir::Computation*> called) {
  return reader_.add(op_, opcode, std::move(shape), std::move(operands), std::move(attributes),
                     std::move(called));
}

Num ChloMath::unary(Opcode opcode, Num x) { return {this, make(opcode, x.i->shape, {x.i})}; }

Num ChloMath::binary(Opcode opcode, Num a, Num b) {
  return {this, make(opcode, a.i->shape, {a.i, b.i})};
}

Num ChloMath::compare(ir::Direction direction, Num a, Num b) {
  return {this, make(Opcode::compare, Shape(DType::pred, dims_), {a.i, b.i},
                     ir::CompareAttrs{direction, ir::ComparisonType::by_dtype})};
}

Num ChloMath::select(Num pred, Num a, Num b) {
  return {this, make(Opcode::select, a.i->shape, {pred.i, a.i, b.i})};
}

Num ChloMath::convert(Num x, DType dtype) {
  if (x.i->shape.dtype == dtype) return x;
  return {this, make(Opcode::convert, Shape(dtype, dims_), {x.i})};
}

Num ChloMath::bits(Num x, DType dtype) {
  return {this, make(Opcode::bitcast_convert, Shape(dtype, dims_), {x.i})};
}

Num ChloMath::polynomial(Num x, std::span<const double> coefficients) {
  Num p = constant(coefficients[0]);
  for (double c : coefficients.subspan(1)) p = p * x + c;
  return p;
}

namespace {

// Functions that are computed in f32 at least.
DType working(DType t) { return is_floating(t) && t != DType::f64 ? DType::f32 : t; }

}  // namespace

void Reader::chlo_unary(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  Instruction* x = op.operands[0];
  std::string_view name = op.name.substr(op.name.find('.') + 1);
  const Shape& shape = x->shape;
  const DType t = shape.dtype;
  auto finish = [&](Num v) { op.values.push_back(v.i); };
  if (name == "square") {
    set(op, Opcode::multiply, {x, x});
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
    v = m.lgamma(v);
  } else if (name == "digamma") {
    v = m.digamma(v);
  } else if (name == "bessel_i1e") {
    v = m.bessel_i1e(v);
  } else if (name == "erfc") {
    v = m.erfc(v);
  } else if (name == "erf_inv") {
    v = m.erf_inv(v);
  } else {
    unsupported(op);
  }
  finish(m.convert(v, t));
}

void Reader::chlo_binary(Operation& op) {
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
    op.values.push_back(m.next_after(m(op.operands[0]), m(op.operands[1])).i);
    return;
  }
  ChloMath m(*this, op, working(shape.dtype), shape.dims);
  Num a = m.convert(m(op.operands[0]), m.dtype()), b = m.convert(m(op.operands[1]), m.dtype());
  Num v = name == "zeta" ? m.zeta(a, b) : m.polygamma(a, b);
  op.values.push_back(m.convert(v, shape.dtype).i);
}

void Reader::chlo_broadcast(Operation& op) {
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

void Reader::chlo_broadcast_select(Operation& op) {
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

void Reader::chlo_constant_like(Operation& op) {
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

void Reader::top_k(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 2);
  set_results(op, Opcode::topk, op.operands,
              ir::TopKAttrs{integer(op, "k"), flag(op, "largest", true)});
}

void Reader::ragged_dot(Operation& op) {
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
