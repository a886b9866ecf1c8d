// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: equal dims in, the same dims out.
#include <algorithm>

#include "src/base/arrays/bit_width.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir::inference {
namespace {

unsigned class_of(DType t) {
  if (t == DType::pred) return types::pred;
  if (is_signed_integer(t)) return types::signed_integer;
  if (is_unsigned_integer(t)) return types::unsigned_integer;
  if (is_floating(t)) return types::floating;
  if (is_complex(t)) return types::complex;
  return 0;
}

std::string classes_text(unsigned classes) {
  std::string out;
  auto say = [&](unsigned bits, const char* word) {
    if ((classes & bits) != bits) return;
    classes &= ~bits;
    if (!out.empty()) out += ", ";
    out += word;
  };
  say(types::pred, "pred");
  say(types::integer, "integer");
  say(types::signed_integer, "signed integer");
  say(types::unsigned_integer, "unsigned integer");
  say(types::floating, "floating point");
  say(types::complex, "complex");
  return out;
}

void check_class(const Site& site, std::size_t i) {
  unsigned allowed = info(site.op).types;
  DType t = site.array(i).dtype;
  if ((class_of(t) & allowed) == 0) {
    site.dtype_error("operand " + std::to_string(i) + " has element type " + std::string(name(t)) +
                     "; valid: " + classes_text(allowed));
  }
}

void check_comparison_type(const Site& site) {
  const auto& attrs = site.get<CompareAttrs>();
  DType t = site.shape(0).dtype;
  const char* requested = nullptr;
  switch (attrs.type) {
    case ComparisonType::by_dtype:
      break;
    case ComparisonType::float_:
      if (!is_floating(t) && !is_complex(t)) requested = "FLOAT";
      break;
    case ComparisonType::total_order:
      if (!is_floating(t)) requested = "TOTALORDER";
      break;
    case ComparisonType::signed_:
      if (!is_signed_integer(t)) requested = "SIGNED";
      break;
    case ComparisonType::unsigned_:
      if (!is_unsigned_integer(t) && t != DType::pred) requested = "UNSIGNED";
      break;
  }
  if (requested != nullptr) {
    site.dtype_error(std::string("comparison type ") + requested + " doesn't fit element type " +
                     std::string(name(t)));
  }
  if (is_complex(t) && attrs.direction != Direction::eq && attrs.direction != Direction::ne) {
    site.dtype_error("complex numbers have no order; valid directions: EQ, NE");
  }
}

Shape infer_bitcast_convert(const Site& site) {
  const Shape& in = site.array(0);
  const Shape& out = site.need_declared();
  if (!out.is_array()) site.dtype_error("the result must be an array, not " + out.to_string());
  if ((in.dtype == DType::pred) != (out.dtype == DType::pred)) {
    site.dtype_error("pred has no bits to convert to " + std::string(name(out.dtype)));
  }
  if (is_complex(in.dtype) != is_complex(out.dtype)) {
    site.dtype_error("can't reinterpret between real and complex types (" +
                     std::string(name(in.dtype)) + " and " + std::string(name(out.dtype)) + ")");
  }
  std::int64_t from = bit_width(in.dtype), to = bit_width(out.dtype);
  if (std::max(from, to) % std::min(from, to) != 0) {
    site.dtype_error("can't reinterpret elements of " + std::to_string(from) + " bits as ones of " +
                     std::to_string(to) + " (" + std::string(name(in.dtype)) + " and " +
                     std::string(name(out.dtype)) + "); valid: one is a multiple of the other");
  }
  Dims dims = in.dims;
  if (from > to) {
    dims.push_back(from / to);
  } else if (from < to) {
    if (dims.empty() || dims.back() != to / from) {
      site.shape_error("to " + std::string(name(out.dtype)) + " the last dim must be " +
                       std::to_string(to / from) + ", the number of parts of one element");
    }
    dims.pop_back();
  }
  return Shape(out.dtype, std::move(dims));
}

Shape infer_unary(const Site& site) {
  const Shape& x = site.shape(0);
  switch (site.op) {
    case Opcode::copy:
      return x;
    case Opcode::bitcast_convert:
      return infer_bitcast_convert(site);
    case Opcode::convert: {
      const Shape& out = site.need_declared();
      site.array(0);
      if (!out.is_array()) site.dtype_error("the result must be an array, not " + out.to_string());
      if (is_complex(x.dtype) && !is_complex(out.dtype)) {
        site.dtype_error("a complex number can't be converted to " + std::string(name(out.dtype)) +
                         "; take its real part first");
      }
      return Shape(out.dtype, x.dims);
    }
    case Opcode::is_finite:
      check_class(site, 0);
      return Shape(DType::pred, x.dims);
    case Opcode::abs:
    case Opcode::real:
    case Opcode::imag:
      check_class(site, 0);
      return Shape(real_type(x.dtype), x.dims);
    case Opcode::reduce_precision: {
      check_class(site, 0);
      const auto& attrs = site.get<ReducePrecisionAttrs>();
      if (attrs.exponent_bits < 1 || attrs.mantissa_bits < 0) {
        site.shape_error("exponent_bits=" + std::to_string(attrs.exponent_bits) +
                         ", mantissa_bits=" + std::to_string(attrs.mantissa_bits) +
                         "; valid: at least 1 and 0");
      }
      return Shape(x.dtype, x.dims);
    }
    default:
      check_class(site, 0);
      return Shape(x.dtype, x.dims);
  }
}

}  // namespace

Shape infer_elementwise(const Site& site) {
  switch (site.op) {
    case Opcode::select: {
      const Shape& pred = site.array(0);
      if (pred.dtype != DType::pred) {
        site.dtype_error("operand 0 chooses and must be pred, not " +
                         std::string(name(pred.dtype)));
      }
      site.same_dtype(1, 2);
      site.same_dims(1, 2);
      if (!pred.dims.empty()) site.same_dims(0, 1);
      return Shape(site.shape(1).dtype, site.shape(1).dims);
    }
    case Opcode::clamp: {
      check_class(site, 1);
      for (std::size_t bound : {std::size_t(0), std::size_t(2)}) {
        site.same_dtype(bound, 1);
        if (!site.shape(bound).dims.empty()) site.same_dims(bound, 1);
      }
      return Shape(site.shape(1).dtype, site.shape(1).dims);
    }
    case Opcode::stochastic_convert: {
      const Shape& out = site.need_declared();
      check_class(site, 0);
      site.same_dims(0, 1);
      if (!is_unsigned_integer(site.shape(1).dtype)) {
        site.dtype_error("operand 1 holds random bits and must be unsigned");
      }
      return Shape(out.dtype, site.shape(0).dims);
    }
    default:
      break;
  }
  if (site.operands.size() == 1) return infer_unary(site);
  check_class(site, 0);
  check_class(site, 1);
  site.same_dtype(0, 1);
  site.same_dims(0, 1);
  const Shape& x = site.shape(0);
  if (site.op == Opcode::compare) {
    check_comparison_type(site);
    return Shape(DType::pred, x.dims);
  }
  if (site.op == Opcode::complex) {
    if (x.dtype != DType::f32 && x.dtype != DType::f64) {
      site.dtype_error("the parts of a complex number must be f32 or f64, not " +
                       std::string(name(x.dtype)));
    }
    return Shape(x.dtype == DType::f32 ? DType::c64 : DType::c128, x.dims);
  }
  return Shape(x.dtype, x.dims);
}

}  // namespace tessera::ir::inference
