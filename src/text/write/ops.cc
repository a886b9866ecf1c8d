// SPDX-License-Identifier: Apache-2.0
// Which form each opcode has; elementwise ops and moves of data.
#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "src/ir/hlo/enum_text.h"
#include "src/ir/hlo/text_out.h"
#include "src/ir/hooks.h"
#include "src/text/read/operation.h"
#include "src/text/write/function.h"
#include "src/text/write/text.h"

namespace tessera::text {

using ir::append_int;
using ir::Instruction;
using ir::Opcode;

namespace {

// Minor to major, as the shape says or row-major.
Dims layout_of(const Shape& s) {
  if (!s.layout.empty()) return s.layout;
  Dims out(s.dims.size());
  for (std::size_t n = 0; n < out.size(); ++n) out[n] = std::int64_t(out.size() - 1 - n);
  return out;
}

bool is_iota(const Dims& dims) {
  for (std::size_t n = 0; n < dims.size(); ++n) {
    if (dims[n] != std::int64_t(n)) return false;
  }
  return true;
}

// `dynamic_slice`; HLO and StableHLO mostly agree.
std::string short_name(Opcode op) {
  if (op == Opcode::broadcast) return "broadcast_in_dim";
  if (op == Opcode::dynamic_reshape) return "reshape";
  std::string out(ir::name(op));
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

}  // namespace

const Values& Writer::of(const Frame& f, const Instruction& i) const {
  if (f.started.count(&i) > 0) {
    throw NotImplementedError(
        i.describe() + ": StableHLO has no async ops; what was started can only be ended",
        i.location());
  }
  return f.values[std::size_t(i.index)];
}

Values Writer::operands(const Frame& f, const Instruction& i) const {
  if (i.operands().size() == 1) return of(f, *i.operands()[0]);
  Values out;
  for (const Instruction* x : i.operands()) {
    const Values& v = of(f, *x);
    out.insert(out.end(), v.begin(), v.end());
  }
  return out;
}

Values Writer::elementwise(const Instruction& i, const Values& xs) {
  const ir::Dialect dialect = ir::info(i.opcode).dialect;
  std::string name(dialect_prefix(dialect));
  name += ir::name(i.opcode);
  std::replace(name.begin(), name.end(), '-', '_');
  Op op{name, xs, "", {&i.shape}};
  if (dialect == ir::Dialect::chlo) {
    if (xs.size() == 1) op.form = Form::operand_types;
  } else {
    const bool one_type =
        std::all_of(xs.begin(), xs.end(), [&](const Value& x) { return *x.type == i.shape; });
    op.form = one_type ? Form::one_type : Form::signature;
  }
  return emit(i, std::move(op));
}

Values Writer::convert(const Instruction& i, const Value& x, DType to) {
  return step(i, "stablehlo.convert", x, own(Shape(to, x.type->dims)));
}

Values Writer::reshape(const Instruction& i, const Value& x, Dims dims) {
  return step(i, "stablehlo.reshape", x, own(Shape(x.type->dtype, std::move(dims))));
}

Values Writer::transpose(const Instruction& i, const Value& x, const Dims& permutation) {
  Dims dims;
  for (std::int64_t d : permutation) dims.push_back(x.type->dims[std::size_t(d)]);
  Op op{"stablehlo.transpose", {x}, "permutation = ", {own(Shape(x.type->dtype, std::move(dims)))}};
  append_i64_array(op.properties, permutation);
  op.form = Form::signature;
  op.tail = ", dims = ";
  append_list(op.tail, permutation);
  op.decorated = false;
  return emit(i, std::move(op));
}

Values Writer::slice(const Instruction& i, const Value& x, const Dims& starts, const Dims& limits,
                     const Dims& strides, bool decorated) {
  Dims dims;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    dims.push_back(ceil_div(limits[d] - starts[d], strides[d]));
  }
  Op op{"stablehlo.slice", {x}, "", {own(Shape(x.type->dtype, std::move(dims)))}};
  op.form = Form::signature;
  op.decorated = decorated;
  if (sink_.has_short_forms()) {
    op.tail = " [";
    for (std::size_t d = 0; d < starts.size(); ++d) {
      if (d > 0) op.tail += ", ";
      append_int(op.tail, starts[d]);
      op.tail += ':';
      append_int(op.tail, limits[d]);
      if (strides[d] == 1) continue;
      op.tail += ':';
      append_int(op.tail, strides[d]);
    }
    op.tail += ']';
  } else {
    op.properties = "limit_indices = ";
    append_i64_array(op.properties, limits);
    op.properties += ", start_indices = ";
    append_i64_array(op.properties, starts);
    op.properties += ", strides = ";
    append_i64_array(op.properties, strides);
  }
  return emit(i, std::move(op));
}

// The same bytes under another shape: elements in the operand's order in memory become the
// result's, in its order.
Values Writer::bitcast(const Instruction& i, const Value& x) {
  Value v = x;
  Dims to_memory = layout_of(i.operands()[0]->shape);  // a copy changes it and is not written
  std::reverse(to_memory.begin(), to_memory.end());
  if (!is_iota(to_memory)) v = transpose(i, v, to_memory)[0];
  Dims in_memory = layout_of(i.shape);
  std::reverse(in_memory.begin(), in_memory.end());
  Dims dims;
  for (std::int64_t d : in_memory) dims.push_back(i.shape.dims[std::size_t(d)]);
  if (v.type->dtype != i.shape.dtype) {
    const std::int64_t from = std::int64_t(byte_size(v.type->dtype));
    const std::int64_t to = std::int64_t(byte_size(i.shape.dtype));
    Dims cast = v.type->dims;
    if (from > to) {
      cast.push_back(from / to);
    } else if (from < to) {
      // The elements that make one new element stand in a last dim of their own.
      cast = dims;
      cast.push_back(to / from);
      v = reshape(i, v, cast)[0];
      cast.pop_back();
    }
    v = step(i, "stablehlo.bitcast_convert", v, own(Shape(i.shape.dtype, std::move(cast))))[0];
  }
  if (v.type->dims != dims) v = reshape(i, v, dims)[0];
  if (!is_iota(in_memory)) {
    Dims back(in_memory.size());
    for (std::size_t n = 0; n < back.size(); ++n) back[std::size_t(in_memory[n])] = std::int64_t(n);
    v = transpose(i, v, back)[0];
  }
  return {v};
}

// Positions as scalars of one type: HLO also takes a vector of them, and mixed types.
Values Writer::starts_of_slice(const Instruction& i, const Values& xs, std::size_t first,
                               std::size_t count) {
  Values out;
  if (xs.size() == first + 1 && xs[first].type->rank() == 1) {
    for (std::size_t n = 0; n < count; ++n) {
      Values one = slice(i, xs[first], {std::int64_t(n)}, {std::int64_t(n) + 1}, {1}, false);
      out.push_back(reshape(i, one[0], {})[0]);
    }
    return out;
  }
  out.assign(xs.begin() + std::ptrdiff_t(first), xs.end());
  const bool mixed = std::any_of(
      out.begin(), out.end(), [&](const Value& v) { return v.type->dtype != out[0].type->dtype; });
  if (mixed) {
    for (Value& v : out) v = convert(i, v, DType::s64)[0];
  }
  return out;
}

// What the text gives as operands, where that isn't what HLO gives.
Values Writer::written_operands(const Instruction& i, const Values& xs) {
  if (i.is(Opcode::dynamic_reshape)) return {xs[0]};
  if (!i.is(Opcode::dynamic_slice) && !i.is(Opcode::dynamic_update_slice)) return xs;
  const std::size_t first = i.is(Opcode::dynamic_slice) ? 1 : 2;
  const Values starts = starts_of_slice(i, xs, first, xs[0].type->dims.size());
  Values out(xs.begin(), xs.begin() + std::ptrdiff_t(first));
  out.insert(out.end(), starts.begin(), starts.end());
  return out;
}

// What stands behind the operands, and for iota in their place; or as properties.
void Writer::short_attributes(const Instruction& i, Op* op) {
  const bool brief = sink_.has_short_forms();
  std::string& out = brief ? op->tail : op->properties;
  const auto item = [&](const char* key, const char* full) {
    if (brief) {
      if (!op->operands.empty()) out += ", ";
    } else if (!out.empty()) {
      out += ", ";
    }
    out += brief ? key : full;
    out += " = ";
  };
  const auto list = [&](const char* key, const char* full, const Dims& dims) {
    item(key, full);
    brief ? append_list(out, dims) : append_i64_array(out, dims);
  };
  const auto number = [&](const char* key, const char* full, std::int64_t v) {
    item(key, full);
    append_int(out, v);
    if (!brief) out += " : i64";
  };
  switch (i.opcode) {
    case Opcode::broadcast:
      return list("dims", "broadcast_dimensions", i.get<ir::DimensionsAttrs>().dims);
    case Opcode::transpose:
      return list("dims", "permutation", i.get<ir::DimensionsAttrs>().dims);
    case Opcode::reverse:
      return list("dims", "dimensions", i.get<ir::DimensionsAttrs>().dims);
    case Opcode::concatenate:
    case Opcode::get_dimension_size:
      return number("dim", "dimension", i.get<ir::DimensionsAttrs>().dims.at(0));
    case Opcode::iota:
      return number("dim", "iota_dimension", i.get<ir::IotaAttrs>().dim);
    case Opcode::dynamic_slice:
      return list("sizes", "slice_sizes", i.get<ir::DynamicSliceAttrs>().sizes);
    case Opcode::pad: {
      Dims low, high, interior;
      for (const ir::PadDim& d : i.get<ir::PadAttrs>().dims) {
        low.push_back(d.low);
        high.push_back(d.high);
        interior.push_back(d.interior);
      }
      list("low", "edge_padding_low", low);
      list("high", "edge_padding_high", high);
      return list("interior", "interior_padding", interior);
    }
    case Opcode::fft: {
      const auto& a = i.get<ir::FftAttrs>();
      item("type", "fft_type");
      const std::string type(ir::kFftTypes[std::size_t(a.type)]);
      out += brief ? type : "#stablehlo<fft_type " + type + ">";
      return list("length", "fft_length", a.lengths);
    }
    case Opcode::reduce_precision: {
      const auto& a = i.get<ir::ReducePrecisionAttrs>();
      const std::string e = std::to_string(a.exponent_bits), m = std::to_string(a.mantissa_bits);
      out += brief ? ", format = e" + e + "m" + m
                   : "exponent_bits = " + e + " : i32, mantissa_bits = " + m + " : i32";
      return;
    }
    default:
      return;
  }
}

namespace {

Form short_form_of(Opcode op) {
  switch (op) {
    case Opcode::reverse:
    case Opcode::iota:
    case Opcode::complex:
    case Opcode::reduce_precision:
    case Opcode::partition_id:
    case Opcode::replica_id:
    case Opcode::after_all:
      return Form::one_type;
    case Opcode::select:
      return Form::select;
    default:
      return Form::signature;
  }
}

}  // namespace

// One op with a form of its own: `stablehlo.transpose %0, dims = [1, 0] : (...) -> ...`.
Values Writer::short_form(const Instruction& i, const Values& xs) {
  const std::string name = "stablehlo." + short_name(i.opcode);
  Op op{name, written_operands(i, xs), "", {&i.shape}};
  op.form = short_form_of(i.opcode);
  if (i.is(Opcode::compare)) {
    const auto& a = i.get<ir::CompareAttrs>();
    const ir::ComparisonType kind =
        a.type == ir::ComparisonType::by_dtype ? ir::default_comparison(xs[0].type->dtype) : a.type;
    comparison(ir::kDirections[std::size_t(a.direction)], ir::kComparisonTypes[std::size_t(kind)],
               &op);
  }
  short_attributes(i, &op);
  return emit(i, std::move(op));
}

void Writer::comparison(std::string_view direction, std::string_view kind, Op* op) const {
  const std::string d(direction), k(kind);
  if (sink_.has_short_forms()) {
    op->lead = d + ", ";
    op->tail = ", " + k;
  } else {
    op->properties = "compare_type = #stablehlo<comparison_type " + k +
                     ">, comparison_direction = #stablehlo<comparison_direction " + d + ">";
  }
}

Values Writer::instruction(Frame& f, const Instruction& i) {
  if (ir::info(i.opcode).dialect == ir::Dialect::none) {
    unsupported(i, std::string(ir::name(i.opcode)));
  }
  for (const Shape* leaf : leaves_of(i.shape)) {
    if (leaf->dtype == DType::s1 || leaf->dtype == DType::u1) {
      unsupported(i, "element type " + std::string(tessera::name(leaf->dtype)));
    }
  }
  switch (i.opcode) {
    case Opcode::tuple:
      return operands(f, i);
    case Opcode::get_tuple_element: {
      const Values& all = of(f, *i.operands()[0]);
      const auto index = std::size_t(i.get<ir::GetTupleElementAttrs>().index);
      std::size_t first = 0;
      for (std::size_t n = 0; n < index; ++n) {
        first += leaves_of(i.operands()[0]->shape.elements.at(n)).size();
      }
      const std::size_t count = leaves_of(i.shape).size();
      Values part(all.begin() + std::ptrdiff_t(first), all.begin() + std::ptrdiff_t(first + count));
      // Written already where the tuple was made, or with the results.
      const bool written = i.operands()[0]->has_sharding() || &i == module_.entry()->root();
      return written ? part : constrained(i, part);
    }
    case Opcode::copy:
    case Opcode::domain:
      return constrained(i, operands(f, i));
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::dynamic_reshape:
    case Opcode::transpose:
    case Opcode::reverse:
    case Opcode::concatenate:
    case Opcode::get_dimension_size:
    case Opcode::iota:
    case Opcode::dynamic_slice:
    case Opcode::dynamic_update_slice:
    case Opcode::complex:
    case Opcode::select:
    case Opcode::compare:
    case Opcode::convert:
    case Opcode::bitcast_convert:
    case Opcode::pad:
    case Opcode::fft:
    case Opcode::reduce_precision:
    case Opcode::partition_id:
    case Opcode::replica_id:
    case Opcode::after_all:
      return short_form(i, operands(f, i));
    case Opcode::slice: {
      const auto& a = i.get<ir::SliceAttrs>();
      const Dims strides = a.strides.empty() ? Dims(a.starts.size(), 1) : a.strides;
      return slice(i, operands(f, i)[0], a.starts, a.limits, strides, true);
    }
    case Opcode::bitcast:
      return constrained(i, bitcast(i, operands(f, i)[0]));
    case Opcode::constant: {
      const auto& a = i.get<ir::ConstantAttrs>();
      if (a.elided) {
        throw ValueError(
            i.describe() + ": the constant's value was elided as {...}; it can't be written",
            i.location());
      }
      return constant(i, a.value, true);
    }
    default:
      break;
  }
  if (i.is(Opcode::stochastic_convert)) {
    return emit(i, {"mhlo.stochastic_convert", operands(f, i), "", {&i.shape}});
  }
  if (ir::is_elementwise(i.opcode)) return elementwise(i, operands(f, i));
  return control(f, i);
}

}  // namespace tessera::text
