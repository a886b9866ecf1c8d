// SPDX-License-Identifier: Apache-2.0
// Products, windows, gathers and other ops on arrays.
#include <algorithm>
#include <charconv>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/attribute_text.h"
#include "src/ir/hlo/enum_text.h"
#include "src/ir/hlo/hlo_lexer.h"
#include "src/ir/hlo/text_out.h"
#include "src/text/write/function.h"
#include "src/text/write/text.h"

namespace tessera::text {

using ir::append_int;
using ir::Instruction;
using ir::Opcode;

namespace {

/// ` key = [0, 1]` if there are any.
void listed(std::string& out, std::string_view key, const Dims& values) {
  if (values.empty()) return;
  if (out.back() != '<') out += ", ";
  out += key;
  out += " = ";
  append_list(out, values);
}

void append_number(std::string& out, std::string_view key, std::int64_t value,
                   std::string_view type) {
  if (!out.empty()) out += ", ";
  out += key;
  out += " = ";
  append_int(out, value);
  out += " : ";
  out += type;
}

void flag(std::string& out, std::string_view key, bool value) {
  if (!out.empty()) out += ", ";
  out += key;
  out += value ? " = true" : " = false";
}

template <class F>
Dims each(const std::vector<ir::WindowDim>& window, F&& f) {
  Dims out;
  for (const ir::WindowDim& d : window) out.push_back(f(d));
  return out;
}

std::string padding(const std::vector<ir::WindowDim>& window) {
  std::vector<Dims> rows;
  for (const ir::WindowDim& d : window) rows.push_back({d.pad_low, d.pad_high});
  std::string out = "padding = ";
  append_matrix(out, rows, 2);
  return out;
}

void array(std::string& out, std::string_view key, const Dims& values) {
  if (!out.empty()) out += ", ";
  out += key;
  out += " = ";
  append_i64_array(out, values);
}

std::string_view item(const ir::TextAttrs& a, std::string_view key) {
  for (const auto& [k, v] : a.items) {
    if (k == key) return v;
  }
  return {};
}

/// HLO's `{0,1}`.
Dims braced(std::string_view text) {
  if (text.empty()) return {};
  ir::HloLexer lexer(text, "<attribute>");
  return lexer.braced_integers("an attribute");
}

/// HLO's names of algorithms, `dot_bf16_bf16_f32_x3`, as StableHLO's structure.
std::string algorithm_text(const Instruction& i, std::string name, const Values& xs) {
  if (name.rfind("dot_", 0) == 0) name = name.substr(4);
  std::vector<std::string> words;
  for (std::size_t p = 0; p <= name.size();) {
    const std::size_t end = std::min(name.find('_', p), name.size());
    words.push_back(name.substr(p, end - p));
    p = end + 1;
  }
  std::string lhs, rhs, sum;
  std::int64_t operations = 1;
  bool fast = false;
  const std::string any_f8 = "any_f8_any_f8_";
  if (name.rfind(any_f8, 0) == 0) {
    // The operands may be wider, and say nothing of the kind of f8 then; any stands for all.
    const auto f8_of = [&](std::size_t k) {
      const std::string_view type = element_type(xs[k].type->dtype);
      return type.substr(0, 2) == "f8" ? std::string(type) : "f8E5M2";
    };
    lhs = f8_of(0);
    rhs = f8_of(1);
    const std::string rest = name.substr(any_f8.size());
    fast = rest == "f32_fast_accum";
    sum = rest == "any" ? std::string(element_type(i.shape.dtype)) : "f32";
  } else if (words.size() >= 3) {
    lhs = words[0];
    rhs = words[1];
    sum = words[2];
    if (words.size() > 3 && words[3].size() == 2 && words[3][0] == 'x') {
      operations = words[3][1] - '0';
    }
  }
  for (const std::string& t : {lhs, rhs, sum}) {
    if (t.empty() || (t != "tf32" && t[0] != 'f' && t != "bf16")) {
      throw NotImplementedError(i.describe() + ": StableHLO has no dot algorithm " + name,
                                i.location());
    }
  }
  const std::string n = std::to_string(operations);
  return "<lhs_precision_type = " + lhs + ", rhs_precision_type = " + rhs +
         ", accumulation_type = " + sum +
         ", lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = " + n +
         ", allow_imprecise_accumulation = " + (fast ? "true>" : "false>");
}

}  // namespace

Values Writer::dot(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::DotAttrs>();
  Op op{"stablehlo.dot_general", xs, "", {&i.shape}};
  op.form = Form::signature;
  const bool chosen = !a.algorithm.empty() && a.algorithm != "dot_unset";
  if (!sink_.has_short_forms()) {
    if (chosen) {
      op.properties =
          "algorithm = #stablehlo.dot_algorithm" + algorithm_text(i, a.algorithm, xs) + ", ";
    }
    op.properties += "dot_dimension_numbers = #stablehlo.dot<";
    listed(op.properties, "lhs_batching_dimensions", a.lhs_batch);
    listed(op.properties, "rhs_batching_dimensions", a.rhs_batch);
    listed(op.properties, "lhs_contracting_dimensions", a.lhs_contracting);
    listed(op.properties, "rhs_contracting_dimensions", a.rhs_contracting);
    op.properties += ">, " + precision_config(a.operand_precision);
    return emit(i, std::move(op));
  }
  auto pair = [&](std::string_view key, const Dims& lhs, const Dims& rhs) {
    op.tail += ", ";
    op.tail += key;
    op.tail += " = ";
    append_list(op.tail, lhs);
    op.tail += " x ";
    append_list(op.tail, rhs);
  };
  if (!a.lhs_batch.empty()) pair("batching_dims", a.lhs_batch, a.rhs_batch);
  pair("contracting_dims", a.lhs_contracting, a.rhs_contracting);
  op.tail += ", precision = " + precision(a.operand_precision);
  if (chosen) op.tail += ", algorithm = " + algorithm_text(i, a.algorithm, xs);
  return emit(i, std::move(op));
}

Values Writer::ragged_dot(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::TextAttrs>();
  std::string numbers = "#chlo.ragged_dot<";
  for (const char* key : {"lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting",
                          "lhs_ragged", "rhs_group"}) {
    const std::string k = key;
    const bool batch = k.find("batch") != std::string::npos;
    listed(numbers, k + (batch ? "ing_dimensions" : "_dimensions"), braced(item(a, k + "_dims")));
  }
  std::string properties =
      "precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], "
      "ragged_dot_dimension_numbers = " +
      numbers + ">";
  return emit(i, {"chlo.ragged_dot", xs, properties, {&i.shape}});
}

Values Writer::convolution(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::ConvolutionAttrs>();
  auto labels = [&](std::int64_t first, char first_label, std::int64_t second, char second_label,
                    const Dims& spatial) {
    std::vector<std::string> list(spatial.size() + 2);
    list.at(std::size_t(first)) = first_label;
    list.at(std::size_t(second)) = second_label;
    for (std::size_t n = 0; n < spatial.size(); ++n) {
      list.at(std::size_t(spatial[n])) = std::to_string(n);
    }
    std::string text;
    for (const std::string& l : list) text += (text.empty() ? "[" : ", ") + l;
    return text + "]";
  };
  std::string p;
  append_number(p, "batch_group_count", a.batch_group_count, "i64");
  p += ", dimension_numbers = #stablehlo.conv<" +
       labels(a.input_batch, 'b', a.input_feature, 'f', a.input_spatial) + "x" +
       labels(a.kernel_input_feature, 'i', a.kernel_output_feature, 'o', a.kernel_spatial) + "->" +
       labels(a.output_batch, 'b', a.output_feature, 'f', a.output_spatial) + ">";
  append_number(p, "feature_group_count", a.feature_group_count, "i64");
  array(p, "lhs_dilation", each(a.window, [](auto& d) { return d.lhs_dilation; }));
  p += ", " + padding(a.window) + ", " + precision_config(a.operand_precision);
  array(p, "rhs_dilation", each(a.window, [](auto& d) { return d.rhs_dilation; }));
  p += ", window_reversal = array<i1";
  for (std::size_t n = 0; n < a.window.size(); ++n) {
    p += n > 0 ? ", " : ": ";
    p += a.window[n].reversal ? "true" : "false";
  }
  p += '>';
  array(p, "window_strides", each(a.window, [](auto& d) { return d.stride; }));
  return emit(i, {"stablehlo.convolution", xs, p, {&i.shape}});
}

Values Writer::gather(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::GatherAttrs>();
  std::string p = "dimension_numbers = #stablehlo.gather<";
  listed(p, "offset_dims", a.offset_dims);
  listed(p, "collapsed_slice_dims", a.collapsed_slice_dims);
  listed(p, "operand_batching_dims", a.operand_batching_dims);
  listed(p, "start_indices_batching_dims", a.start_indices_batching_dims);
  listed(p, "start_index_map", a.start_index_map);
  if (p.back() != '<') p += ", ";
  p += "index_vector_dim = ";
  append_int(p, a.index_vector_dim);
  p += '>';
  flag(p, "indices_are_sorted", a.indices_are_sorted);
  array(p, "slice_sizes", a.slice_sizes);
  return emit(i, {"stablehlo.gather", xs, p, {&i.shape}});
}

Values Writer::scatter(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::ScatterAttrs>();
  std::string p;
  flag(p, "indices_are_sorted", a.indices_are_sorted);
  p += ", scatter_dimension_numbers = #stablehlo.scatter<";
  listed(p, "update_window_dims", a.update_window_dims);
  listed(p, "inserted_window_dims", a.inserted_window_dims);
  listed(p, "input_batching_dims", a.input_batching_dims);
  listed(p, "scatter_indices_batching_dims", a.scatter_indices_batching_dims);
  listed(p, "scatter_dims_to_operand_dims", a.scatter_dims_to_operand_dims);
  if (p.back() != '<') p += ", ";
  p += "index_vector_dim = ";
  append_int(p, a.index_vector_dim);
  p += '>';
  flag(p, "unique_indices", a.unique_indices);
  return emit(
      i, {"stablehlo.scatter", xs, p, leaves_of(i.shape), [&] { region(i, *i.called().at(0)); }});
}

Values Writer::window(const Instruction& i, const Values& xs) {
  const auto& w = i.get<ir::WindowAttrs>().dims;
  const bool selects = i.is(Opcode::select_and_scatter);
  for (const ir::WindowDim& d : w) {
    if (d.reversal || (selects && (d.lhs_dilation != 1 || d.rhs_dilation != 1))) {
      unsupported(i, "a window with reversal or dilation");
    }
  }
  std::string p;
  if (!selects) array(p, "base_dilations", each(w, [](auto& d) { return d.lhs_dilation; }));
  p += (p.empty() ? "" : ", ") + padding(w);
  if (!selects) array(p, "window_dilations", each(w, [](auto& d) { return d.rhs_dilation; }));
  array(p, "window_dimensions", each(w, [](auto& d) { return d.size; }));
  array(p, "window_strides", each(w, [](auto& d) { return d.stride; }));
  return emit(i, {selects ? "stablehlo.select_and_scatter" : "stablehlo.reduce_window", xs, p,
                  leaves_of(i.shape), [&] {
                    region(i, *i.called().at(0));
                    if (selects) region(i, *i.called().at(1));
                  }});
}

Values Writer::random(const Instruction& i, const Values& xs) {
  if (i.is(Opcode::rng_get_and_update_state)) {
    const std::string_view delta = item(i.get<ir::TextAttrs>(), "delta");
    return emit(i, {"mhlo.xla.rng_get_and_update_state",
                    xs,
                    "delta = " + std::string(delta) + " : i64",
                    {&i.shape}});
  }
  const std::string& kind = i.get<ir::RngAttrs>().kind;
  if (i.is(Opcode::rng)) {
    Literal dims(Shape(DType::s64, {i.shape.rank()}));
    std::copy(i.shape.dims.begin(), i.shape.dims.end(), dims.mutable_data<std::int64_t>().begin());
    Values all = xs;
    all.push_back(constant(i, dims, false)[0]);
    const std::string name = kind == "rng_uniform"  ? "UNIFORM"
                             : kind == "rng_normal" ? "NORMAL"
                                                    : "";
    if (name.empty()) unsupported(i, "the distribution " + kind);
    return emit(i, {"stablehlo.rng",
                    all,
                    "rng_distribution = #stablehlo<rng_distribution " + name + ">",
                    {&i.shape}});
  }
  const std::string name = kind == "rng_default"     ? "DEFAULT"
                           : kind == "rng_three_fry" ? "THREE_FRY"
                           : kind == "rng_philox"    ? "PHILOX"
                                                     : "";
  if (name.empty()) unsupported(i, "the algorithm " + kind);
  const std::string p = "rng_algorithm = #stablehlo<rng_algorithm " + name + ">";
  if (i.shape.is_tuple) {
    return emit(i, {"stablehlo.rng_bit_generator", xs, p, leaves_of(i.shape)});
  }
  // HLO's form without the new state.
  Values both =
      emit(i, {"stablehlo.rng_bit_generator", xs, p, {xs[0].type, &i.shape}, nullptr, false});
  return constrained(i, {both[1]});
}

Values Writer::top_k(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::TopKAttrs>();
  std::string p;
  append_number(p, "k", a.k, "i64");
  if (a.largest) return emit(i, {"chlo.top_k", xs, p, leaves_of(i.shape)});
  // The smallest: in order, with their positions, and the first k of them.
  const Shape& x = *xs[0].type;
  const std::int64_t last = x.rank() - 1;
  const Shape* positions = own(Shape(leaves_of(i.shape).at(1)->dtype, x.dims));
  Values both = xs;
  Op iota{"stablehlo.iota", {}, "iota_dimension = " + std::to_string(last) + " : i64", {positions}};
  iota.form = Form::one_type;
  iota.tail = "dim = " + std::to_string(last);
  iota.decorated = false;
  both.push_back(emit(i, std::move(iota))[0]);
  const Shape* value_type = own(Shape(x.dtype, {}));
  const Shape* position_type = own(Shape(positions->dtype, {}));
  const Shape* yes_or_no = own(Shape(DType::pred, {}));
  const std::string_view kind =
      is_floating(x.dtype) ? "TOTALORDER"
                           : ir::kComparisonTypes[std::size_t(ir::default_comparison(x.dtype))];
  p = "dimension = " + std::to_string(last) + " : i64, is_stable = true";
  both = emit(
      i,
      {"stablehlo.sort",
       both,
       p,
       {xs[0].type, positions},
       [&] {
         const Values pair = sink_.region({value_type, value_type, position_type, position_type});
         Op less{"stablehlo.compare", {pair[0], pair[1]}, "", {yes_or_no}};
         less.form = Form::signature;
         less.decorated = false;
         comparison("LT", kind, &less);
         sink_.end_region("stablehlo.return", emit(i, std::move(less)));
       },
       false});
  Dims limits = x.dims;
  limits[std::size_t(last)] = a.k;
  Values out;
  for (const Value& v : both) {
    out.push_back(slice(i, v, Dims(limits.size(), 0), limits, Dims(limits.size(), 1), false)[0]);
  }
  return constrained(i, out);
}

Values Writer::arrays(const Instruction& i, const Values& xs) {
  std::string p;
  switch (i.opcode) {
    case Opcode::dot:
      return dot(i, xs);
    case Opcode::ragged_dot:
      return ragged_dot(i, xs);
    case Opcode::convolution:
      return convolution(i, xs);
    case Opcode::gather:
      return gather(i, xs);
    case Opcode::scatter:
      return scatter(i, xs);
    case Opcode::reduce_window:
    case Opcode::select_and_scatter:
      return window(i, xs);
    case Opcode::rng:
    case Opcode::rng_bit_generator:
    case Opcode::rng_get_and_update_state:
      return random(i, xs);
    case Opcode::topk:
      return top_k(i, xs);
    case Opcode::cholesky:
      flag(p, "lower", i.get<ir::CholeskyAttrs>().lower);
      return emit(i, {"stablehlo.cholesky", xs, p, {&i.shape}});
    case Opcode::triangular_solve: {
      const auto& a = i.get<ir::TriangularSolveAttrs>();
      flag(p, "left_side", a.left_side);
      flag(p, "lower", a.lower);
      p += ", transpose_a = #stablehlo<transpose ";
      p += ir::kTransposes[std::size_t(a.transpose_a)];
      p += '>';
      flag(p, "unit_diagonal", a.unit_diagonal);
      return emit(i, {"stablehlo.triangular_solve", xs, p, {&i.shape}});
    }
    case Opcode::batch_norm_training:
    case Opcode::batch_norm_inference:
    case Opcode::batch_norm_grad: {
      const auto& a = i.get<ir::BatchNormAttrs>();
      std::string name = "stablehlo." + std::string(ir::name(i.opcode));
      std::replace(name.begin(), name.end(), '-', '_');
      std::string epsilon;
      append_dense(epsilon, Literal::scalar(DType::f32, a.epsilon));  // dense<1.0e-3>
      p = "epsilon = " + epsilon.substr(6, epsilon.size() - 7) + " : f32";
      append_number(p, "feature_index", a.feature_index, "i64");
      return emit(i, {name, xs, p, leaves_of(i.shape)});
    }
    default:
      unsupported(i, std::string(ir::name(i.opcode)));
  }
}

}  // namespace tessera::text
