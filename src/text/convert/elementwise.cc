// SPDX-License-Identifier: Apache-2.0
// Operations on single elements, and constants.
#include <algorithm>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/enum_text.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

void Conversions::unsupported(Operation& op) { not_supported(op, "is not supported"); }

void Conversions::elementwise(Operation& op) {
  auto count = std::size_t(ir::info(op.info->opcode).operands);
  need_operands(op, count, count);
  Opcode opcode = op.info->opcode;
  if (is_complex(op.operands[0]->shape.dtype) &&
      (opcode == Opcode::cbrt || opcode == Opcode::atan2 || opcode == Opcode::maximum ||
       opcode == Opcode::minimum)) {
    complex_elementwise(op);
    return;
  }
  // On truth values a sum is an or, and a product an and.
  if (op.operands[0]->shape.dtype == DType::pred) {
    if (opcode == Opcode::add || opcode == Opcode::maximum) opcode = Opcode::or_;
    if (opcode == Opcode::multiply || opcode == Opcode::minimum) opcode = Opcode::and_;
  }
  set(op, opcode, op.operands);
}

void Conversions::identity(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  if (op.find("sdy.sharding") != nullptr || op.find("mhlo.sharding") != nullptr) {
    set(op, Opcode::copy, op.operands);
  } else {
    op.values = op.operands;
  }
}

void Conversions::convert(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  if (op.operands[0]->shape == *op.results[0]) {
    identity(op);
    return;
  }
  Instruction* x = op.operands[0];
  if (is_complex(x->shape.dtype) && !is_complex(op.results[0]->dtype)) {
    // Of complex numbers the real part counts.
    x = add(op, Opcode::real, Shape(real_type(x->shape.dtype), x->shape.dims), {x});
    if (x->shape == *op.results[0]) {
      op.values.push_back(x);
      return;
    }
  }
  set(op, Opcode::convert, {x});
}

void Conversions::bitcast_convert(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  Instruction* x = op.operands[0];
  const Shape from = x->shape, to = *op.results[0];
  bool from_bits = from.dtype == DType::pred;
  const Shape& wide = from_bits ? to : from;
  const Shape& bits = from_bits ? from : to;
  std::size_t width = 8 * byte_size(wide.dtype);
  if (from_bits == (to.dtype == DType::pred) || is_complex(wide.dtype) ||
      bits.rank() != wide.rank() + 1 || bits.dims.back() != std::int64_t(width)) {
    set(op, Opcode::bitcast_convert, op.operands);
    return;
  }
  // Truth values are single bits here and take a byte in HLO: bits are packed and unpacked.
  DType word = width == 8    ? DType::u8
               : width == 16 ? DType::u16
               : width == 32 ? DType::u32
                             : DType::u64;
  const Shape packed(word, wide.dims), spread(word, bits.dims);
  Instruction* places = add(op, Opcode::iota, spread, {}, ir::IotaAttrs{spread.rank() - 1});
  if (from_bits) {
    x = add(op, Opcode::convert, spread, {x});
    x = add(op, Opcode::shift_left, spread, {x, places});
    x = add(op, Opcode::reduce, packed, {x, scalar_constant(op, word, 0)},
            ir::DimensionsAttrs{{spread.rank() - 1}}, {binary_computation(Opcode::or_, word)});
    if (word != to.dtype) x = add(op, Opcode::bitcast_convert, to, {x});
  } else {
    if (word != from.dtype) x = add(op, Opcode::bitcast_convert, packed, {x});
    Dims kept;
    for (std::int64_t d = 0; d < packed.rank(); ++d) kept.push_back(d);
    x = add(op, Opcode::broadcast, spread, {x}, ir::DimensionsAttrs{std::move(kept)});
    x = add(op, Opcode::shift_right_logical, spread, {x, places});
    Instruction* one = splat(op, scalar_constant(op, word, 1), spread.dims);
    x = add(op, Opcode::and_, spread, {x, one});
    x = add(op, Opcode::convert, to, {x});
  }
  op.values.push_back(x);
}

void Conversions::complex_elementwise(Operation& op) {
  // What StableHLO defines on complex numbers and HLO does not.
  need_results(op, 1);
  const Shape shape = op.operands[0]->shape;
  const Shape real(real_type(shape.dtype), shape.dims), truth(DType::pred, shape.dims);
  auto complex_constant = [&](double re, double im) {
    auto part = [&](double v) { return splat(op, scalar_constant(op, real.dtype, v), shape.dims); };
    return add(op, Opcode::complex, shape, {part(re), part(im)});
  };
  Instruction* x = op.operands[0];
  Opcode opcode = op.info->opcode;
  if (opcode == Opcode::cbrt) {
    op.values.push_back(add(op, Opcode::power, shape, {x, complex_constant(1.0 / 3, 0)}));
    return;
  }
  Instruction* y = op.operands[1];
  if (opcode == Opcode::atan2) {
    // -i log((y + i x) / sqrt(x x + y y)) of atan2(x, y)
    Instruction* turned = add(op, Opcode::multiply, shape, {complex_constant(0, 1), x});
    Instruction* sum = add(op, Opcode::add, shape, {y, turned});
    Instruction* squares =
        add(op, Opcode::add, shape,
            {add(op, Opcode::multiply, shape, {x, x}), add(op, Opcode::multiply, shape, {y, y})});
    Instruction* length = add(op, Opcode::sqrt, shape, {squares});
    Instruction* ratio = add(op, Opcode::divide, shape, {sum, length});
    op.values.push_back(add(op, Opcode::multiply, shape,
                            {complex_constant(0, -1), add(op, Opcode::log, shape, {ratio})}));
    return;
  }
  // By the real part, then by the imaginary one.
  auto part = [&](Opcode which, Instruction* z) { return add(op, which, real, {z}); };
  auto compare = [&](ir::Direction d, Opcode which) {
    return add(op, Opcode::compare, truth, {part(which, x), part(which, y)},
               ir::CompareAttrs{d, ir::ComparisonType::by_dtype});
  };
  ir::Direction wins = opcode == Opcode::maximum ? ir::Direction::gt : ir::Direction::lt;
  Instruction* first = compare(wins, Opcode::real);
  Instruction* second =
      add(op, Opcode::and_, truth,
          {compare(ir::Direction::eq, Opcode::real), compare(wins, Opcode::imag)});
  op.values.push_back(
      add(op, Opcode::select, shape, {add(op, Opcode::or_, truth, {first, second}), x, y}));
}

void Conversions::compare(Operation& op) {
  need_operands(op, 2, 2);
  ir::CompareAttrs a;
  std::string_view word = keyword(op, "comparison_direction");
  auto it = std::find(ir::kDirections.begin(), ir::kDirections.end(), word);
  if (it == ir::kDirections.end()) {
    in_.fail_at(word.data(),
                "unknown direction '" + std::string(word) + "'; valid: EQ, NE, GE, GT, LE, LT");
  }
  a.direction = ir::Direction(it - ir::kDirections.begin());
  if (op.find("compare_type") != nullptr) {
    word = keyword(op, "compare_type");
    auto type = std::find(ir::kComparisonTypes.begin() + 1, ir::kComparisonTypes.end(), word);
    if (type == ir::kComparisonTypes.end() && word != "NOTYPE") {
      in_.fail_at(word.data(), "unknown comparison '" + std::string(word) +
                                   "'; valid: FLOAT, TOTALORDER, SIGNED, UNSIGNED");
    }
    if (type != ir::kComparisonTypes.end()) {
      a.type = ir::ComparisonType(type - ir::kComparisonTypes.begin());
      if (a.type == ir::default_comparison(op.operands[0]->shape.dtype)) {
        a.type = ir::ComparisonType::by_dtype;
      }
    }
  }
  set(op, Opcode::compare, op.operands, a);
}

void Conversions::select(Operation& op) {
  need_operands(op, 3, 3);
  need_results(op, 1);
  Instruction* pred =
      splat(op, op.operands[0],
            op.operands[0]->shape.dims.empty() ? op.results[0]->dims : op.operands[0]->shape.dims);
  set(op, Opcode::select, {pred, op.operands[1], op.operands[2]});
}

void Conversions::clamp(Operation& op) {
  need_operands(op, 3, 3);
  need_results(op, 1);
  std::vector<Instruction*> operands = op.operands;
  for (std::size_t n : {0, 2}) {
    if (operands[n]->shape.dims.empty()) operands[n] = splat(op, operands[n], op.results[0]->dims);
  }
  set(op, Opcode::clamp, std::move(operands));
}

void Conversions::reduce_precision(Operation& op) {
  need_operands(op, 1, 1);
  ir::ReducePrecisionAttrs a;
  if (const Attribute* format = op.find("format")) {
    const char* back = in_.position();
    std::string_view value = format->value;
    std::size_t m = value.find('m');
    if (value.size() < 4 || value[0] != 'e' || m == std::string_view::npos) {
      in_.fail_at(value.data(), "expected a format such as e5m10");
    }
    in_.seek(value.data() + 1);
    a.exponent_bits = in_.integer("the bits of the exponent");
    in_.seek(value.data() + m + 1);
    a.mantissa_bits = in_.integer("the bits of the mantissa");
    in_.seek(back);
  } else {
    a.exponent_bits = integer(op, "exponent_bits");
    a.mantissa_bits = integer(op, "mantissa_bits");
  }
  set(op, Opcode::reduce_precision, op.operands, a);
}

Literal Conversions::constant_value(std::string_view text, const Shape** type) {
  if (const auto known = constants_read_.find(text.data()); known != constants_read_.end()) {
    *type = known->second.second;
    return known->second.first;
  }
  Literal value;
  at_value(text, [&] { value = literal(type); });
  if (shared_texts()) constants_read_.emplace(text.data(), std::pair(value, *type));
  return value;
}

void Conversions::constant(Operation& op) {
  need_operands(op, 0, 0);
  need_results(op, 1);
  Literal value;
  if (has_literal_) {
    value = std::move(literal_);
    has_literal_ = false;
  } else {
    const Shape* type = nullptr;
    value = constant_value(need(op, "value").value, &type);
    if (!(*type == *op.results[0])) {
      fail(op, "has a value " + mlir_type(*type) + " and a result " + mlir_type(*op.results[0]));
    }
  }
  const Shape& shape = *op.results[0];
  bool is_splat = value.dims().empty() && !shape.dims.empty();
  if (is_splat && shape.element_count() == 1) {
    value = value.reshaped(shape.dims);
    is_splat = false;
  }
  Shape own = value.shape();
  Instruction* i =
      add(op, Opcode::constant, std::move(own), {}, ir::ConstantAttrs{std::move(value)});
  // One number for many elements stays one number.
  op.values.push_back(is_splat ? splat(op, i, shape.dims) : i);
}

}  // namespace tessera::text
