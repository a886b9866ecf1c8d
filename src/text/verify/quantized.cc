// SPDX-License-Identifier: Apache-2.0
// Rules of quantized types.
#include <algorithm>
#include <limits>

#include "src/base/contains.h"
#include "src/text/verify/verifier.h"

namespace tessera::text {
namespace {

// Where one scale for each index of a dim is defined; elsewhere one scale holds for all.
constexpr std::string_view kPerAxis[] = {"stablehlo.add",
                                         "stablehlo.bitcast_convert",
                                         "stablehlo.infeed",
                                         "stablehlo.outfeed",
                                         "stablehlo.send",
                                         "stablehlo.recv",
                                         "stablehlo.if",
                                         "stablehlo.case",
                                         "stablehlo.while",
                                         "stablehlo.tuple",
                                         "stablehlo.get_tuple_element",
                                         "stablehlo.broadcast_in_dim",
                                         "stablehlo.dynamic_broadcast_in_dim",
                                         "stablehlo.composite",
                                         "stablehlo.convolution",
                                         "stablehlo.dynamic_conv",
                                         "stablehlo.dot_general",
                                         "stablehlo.dot",
                                         "stablehlo.broadcast",
                                         "stablehlo.get_dimension_size",
                                         "stablehlo.reshape",
                                         "stablehlo.dynamic_reshape",
                                         "stablehlo.transpose",
                                         "stablehlo.uniform_quantize",
                                         "stablehlo.uniform_dequantize",
                                         "stablehlo.constant",
                                         "stablehlo.return",
                                         "stablehlo.custom_call"};

double least_scale(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-24;
    case DType::bf16:
      return 0x1p-133;
    case DType::f32:
      return 0x1p-149;
    default:
      return std::numeric_limits<double>::denorm_min();
  }
}

double largest_scale(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.FEp127;
    case DType::f32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

bool per_axis(const Quantized* q) { return q != nullptr && q->axis.has_value(); }

}  // namespace

const Quantized* Verifier::operand_quantized(std::size_t n) const {
  return n < op_.operand_types.size() ? r_.types_.quantized(op_.operand_types[n]) : nullptr;
}

const Quantized* Verifier::result_quantized() const {
  return op_.results.empty() ? nullptr : r_.types_.quantized(op_.results[0]);
}

void Verifier::quantized_types() {
  const std::string_view name = op_.info->name;
  const bool defined =
      name.substr(0, 10) != "stablehlo." ||
      std::find(std::begin(kPerAxis), std::end(kPerAxis), name) != std::end(kPerAxis);
  bool any = false;
  for (const std::vector<const Shape*>* list : {&op_.operand_types, &op_.results}) {
    for (const Shape* type : *list) {
      const Quantized* q = r_.types_.quantized(type);
      if (q == nullptr) continue;
      any = true;
      if (q->axis && !defined) {
        fail("has " + Reader::type_text(*type, q) +
             "; valid: plain numbers or a quantized type of one scale");
      }
      for (double scale : q->scales) {
        if (scale >= least_scale(q->expressed) && scale <= largest_scale(q->expressed)) continue;
        fail("has " + Reader::type_text(*type, q) + ", whose scale is not in the range of " +
             mlir_type(Shape(q->expressed, {})));
      }
    }
  }
  const bool each =
      op_.info->convert == &Reader::elementwise || op_.info->convert == &Reader::chlo_broadcast;
  if (any && each) same_storage();
}

void Verifier::same_storage() {
  const Quantized* first = nullptr;
  for (const std::vector<const Shape*>* list : {&op_.operand_types, &op_.results}) {
    for (const Shape* type : *list) {
      const Quantized* q = r_.types_.quantized(type);
      if (q == nullptr) continue;
      if (first == nullptr) first = q;
      if (q->storage == first->storage && q->expressed == first->expressed) continue;
      fail("has both " + first->to_string() + " and " + q->to_string() +
           "; valid: equal storage and expressed types");
    }
  }
}

void Verifier::axis_of_sum() {
  const Quantized* result = result_quantized();
  for (std::size_t n = 0; n < op_.operand_types.size(); ++n) {
    const Quantized* q = operand_quantized(n);
    if (!per_axis(q) || (per_axis(result) && *q->axis == *result->axis)) continue;
    fail("has " + q->to_string() + " as operand " + std::to_string(n) + " and a result " +
         Reader::type_text(*op_.results[0], result) + "; valid: scales along the same dim");
  }
  if (!per_axis(result) || per_axis(operand_quantized(0)) || per_axis(operand_quantized(1))) return;
  fail("has a result " + Reader::type_text(*op_.results[0], result) +
       " with scales along a dim, and no operand with such; valid: one scale");
}

void Verifier::axis_of_broadcast() {
  const Quantized *q = operand_quantized(0), *result = result_quantized();
  if (!per_axis(q) && !per_axis(result)) return;
  const Dims dims = r_.integers(op_, "broadcast_dimensions");
  bool valid = per_axis(q) && per_axis(result) && *q->axis < std::int64_t(dims.size()) &&
               dims[std::size_t(*q->axis)] == *result->axis;
  if (valid && q->scales.size() == 1) {
    for (double scale : result->scales) valid &= scale == q->scales[0];
    for (std::int64_t zero : result->zero_points) valid &= zero == q->zero_points[0];
  } else if (valid) {
    valid = q->scales == result->scales && q->zero_points == result->zero_points;
  }
  if (valid) return;
  fail("takes " + Reader::type_text(*op_.operand_types[0], q) + " and gives " +
       Reader::type_text(*op_.results[0], result) +
       "; valid: the operand's scales, along the dim that its dim becomes");
}

void Verifier::axis_of_transpose() {
  const Quantized *q = operand_quantized(0), *result = result_quantized();
  if (!per_axis(q) && !per_axis(result)) return;
  const Dims dims = r_.integers(op_, "permutation");
  if (per_axis(q) && per_axis(result) && q->same_numbers(*result) &&
      *result->axis < std::int64_t(dims.size()) && dims[std::size_t(*result->axis)] == *q->axis) {
    return;
  }
  fail("takes " + Reader::type_text(*op_.operand_types[0], q) + " and gives " +
       Reader::type_text(*op_.results[0], result) +
       "; valid: the operand's scales, along the dim that its dim becomes");
}

void Verifier::axis_of_reshape() {
  const Quantized *q = operand_quantized(0), *result = result_quantized();
  if (!per_axis(q) && !per_axis(result)) return;
  auto before = [](const Shape& shape, std::int64_t axis) {
    std::int64_t product = 1;
    for (std::int64_t d = 0; d < axis; ++d) product *= shape.dim(d);
    return product;
  };
  if (per_axis(q) && per_axis(result) && q->same_numbers(*result)) {
    const Shape &from = *op_.operand_types[0], &to = *op_.results[0];
    if (*q->axis < from.rank() && *result->axis < to.rank() &&
        from.dim(*q->axis) == to.dim(*result->axis) &&
        before(from, *q->axis) == before(to, *result->axis)) {
      return;
    }
  }
  fail("takes " + Reader::type_text(*op_.operand_types[0], q) + " and gives " +
       Reader::type_text(*op_.results[0], result) +
       "; valid: the operand's scales, along a dim with as many elements and as many before it");
}

bool Verifier::quantized_product() {
  if (op_.operand_types.size() < 2 || op_.results.empty()) return false;
  const Quantized *x = operand_quantized(0), *y = operand_quantized(1), *out = result_quantized();
  if (x == nullptr && y == nullptr && out == nullptr) return false;
  if (y == nullptr || (x == nullptr) != (out == nullptr)) {
    fail("has quantized types for some of operands and result; valid: all, or operand 1 alone");
  }
  if (x == nullptr) {
    if (y->expressed != op_.operand_types[0]->dtype || y->expressed != op_.results[0]->dtype) {
      fail("takes " + mlir_type(*op_.operand_types[0]) + " and " + y->to_string() + " and gives " +
           mlir_type(*op_.results[0]) + "; valid: the type that operand 1 stands for");
    }
    return true;
  }
  if (x->storage != y->storage) {
    fail("takes " + x->to_string() + " and " + y->to_string() + "; valid: equal storage types");
  }
  if (x->expressed != y->expressed || x->expressed != out->expressed) {
    fail("has types that stand for different floats; valid: equal expressed types");
  }
  if (!y->axis && out->axis) {
    fail("has one scale for operand 1 and several for the result; valid: one for both");
  }
  return true;
}

void Verifier::quantized_convolution() {
  if (!quantized_product()) return;
  ir::ConvolutionAttrs a;
  r_.convolution_numbers(op_, &a);
  const Quantized *y = operand_quantized(1), *out = result_quantized();
  if (y->axis && *y->axis != a.kernel_output_feature) {
    fail("has scales along dim " + std::to_string(*y->axis) + " of the kernel; valid: dim " +
         std::to_string(a.kernel_output_feature) + ", its output features");
  }
  if (per_axis(out) && *out->axis != a.output_feature) {
    fail("has scales along dim " + std::to_string(*out->axis) + " of the result; valid: dim " +
         std::to_string(a.output_feature) + ", its features");
  }
}

void Verifier::quantized_dot() {
  if (!quantized_product()) return;
  const Quantized* y = operand_quantized(1);
  if (y->any_zero_point()) fail("has a zero point in operand 1 other than 0; valid: 0");
  if (!y->axis) return;
  const Attribute* packed = op_.find("dot_dimension_numbers");
  const Dims dims = packed != nullptr ? r_.integers_or(r_.fields_of(op_, *packed),
                                                       "rhs_contracting_dimensions", {})
                                      : r_.integers_or(op_, "rhs_contracting_dimensions", {});
  if (std::find(dims.begin(), dims.end(), *y->axis) == dims.end()) return;
  fail("has scales along dim " + std::to_string(*y->axis) +
       " of operand 1, which is contracted; valid: another dim");
}

}  // namespace tessera::text
