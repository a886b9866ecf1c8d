// SPDX-License-Identifier: Apache-2.0
// Operations on single elements, and constants.
#include <algorithm>

#include "src/base/literal_util.h"
#include "src/ir/enum_text.h"
#include "src/text/reader.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

void Reader::unsupported(Operation& op) { not_supported(op, "is not supported"); }

void Reader::elementwise(Operation& op) {
  auto count = std::size_t(ir::info(op.info->opcode).operands);
  need_operands(op, count, count);
  Opcode opcode = op.info->opcode;
  // On truth values a sum is an or, and a product an and.
  if (op.operands[0]->shape.dtype == DType::pred) {
    if (opcode == Opcode::add || opcode == Opcode::maximum) opcode = Opcode::or_;
    if (opcode == Opcode::multiply || opcode == Opcode::minimum) opcode = Opcode::and_;
  }
  set(op, opcode, op.operands);
}

void Reader::identity(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  if (op.find("sdy.sharding") != nullptr || op.find("mhlo.sharding") != nullptr) {
    set(op, Opcode::copy, op.operands);
  } else {
    op.values = op.operands;
  }
}

void Reader::convert(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  if (op.operands[0]->shape == *op.results[0]) {
    identity(op);
    return;
  }
  set(op, Opcode::convert, op.operands);
}

void Reader::compare(Operation& op) {
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

void Reader::select(Operation& op) {
  need_operands(op, 3, 3);
  need_results(op, 1);
  Instruction* pred =
      splat(op, op.operands[0],
            op.operands[0]->shape.dims.empty() ? op.results[0]->dims : op.operands[0]->shape.dims);
  set(op, Opcode::select, {pred, op.operands[1], op.operands[2]});
}

void Reader::clamp(Operation& op) {
  need_operands(op, 3, 3);
  need_results(op, 1);
  std::vector<Instruction*> operands = op.operands;
  for (std::size_t n : {0, 2}) {
    if (operands[n]->shape.dims.empty()) operands[n] = splat(op, operands[n], op.results[0]->dims);
  }
  set(op, Opcode::clamp, std::move(operands));
}

void Reader::reduce_precision(Operation& op) {
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

void Reader::constant(Operation& op) {
  need_operands(op, 0, 0);
  need_results(op, 1);
  Literal value;
  if (has_literal_) {
    value = std::move(literal_);
    has_literal_ = false;
  } else {
    const char* back = in_.position();
    in_.seek(need(op, "value").value.data());
    const Shape* type = nullptr;
    value = literal(&type);
    in_.seek(back);
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
