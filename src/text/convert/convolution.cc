// SPDX-License-Identifier: Apache-2.0
// Windows, and convolutions with their dimension numbers.
#include <algorithm>

#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Opcode;
using ir::WindowDim;

std::vector<WindowDim> Conversions::window(const Operation& op, std::size_t rank) {
  std::vector<WindowDim> dims(rank);
  auto each = [&](std::string_view key, auto&& put) {
    if (op.find(key) == nullptr) return;
    Dims values = integers(op, key);
    if (values.size() != rank) {
      fail(op, "has " + std::to_string(values.size()) + " values of " + std::string(key) + " for " +
                   std::to_string(rank) + " dims");
    }
    for (std::size_t n = 0; n < rank; ++n) put(dims[n], values[n]);
  };
  each("window_dimensions", [](WindowDim& d, std::int64_t v) { d.size = v; });
  each("window_strides", [](WindowDim& d, std::int64_t v) { d.stride = v; });
  each("base_dilations", [](WindowDim& d, std::int64_t v) { d.lhs_dilation = v; });
  each("window_dilations", [](WindowDim& d, std::int64_t v) { d.rhs_dilation = v; });
  each("lhs_dilation", [](WindowDim& d, std::int64_t v) { d.lhs_dilation = v; });
  each("rhs_dilation", [](WindowDim& d, std::int64_t v) { d.rhs_dilation = v; });
  each("window_reversal", [](WindowDim& d, std::int64_t v) { d.reversal = v != 0; });
  if (op.find("padding") != nullptr) {
    std::vector<Dims> rows = integer_rows(op, "padding");
    if (rows.size() != rank ||
        std::any_of(rows.begin(), rows.end(), [](const Dims& r) { return r.size() != 2; })) {
      fail(op, "needs a low and a high padding for each of " + std::to_string(rank) + " dims");
    }
    for (std::size_t n = 0; n < rank; ++n) {
      dims[n].pad_low = rows[n][0];
      dims[n].pad_high = rows[n][1];
    }
  }
  return dims;
}

// `[b, 0, 1, f]`: which dim has each of two roles, and which ones are spatial.
void Conversions::convolution_dims(const char* first_role, std::int64_t* first,
                                   const char* second_role, std::int64_t* second, Dims* spatial) {
  in_.skip();
  const char* at = in_.position();
  in_.expect('[', "before the dims");
  *first = *second = -1;
  std::vector<std::pair<std::int64_t, std::int64_t>> numbered;
  std::int64_t n = 0;
  do {
    if (in_.accept_word(first_role)) {
      *first = n;
    } else if (in_.accept_word(second_role)) {
      *second = n;
    } else if (in_.peek() == '?') {
      in_.not_supported_at(in_.position(), "dims without a role ('?') are not supported");
    } else {
      numbered.emplace_back(in_.integer("b, f, i, o or the number of a spatial dim"), n);
    }
    ++n;
  } while (in_.accept(','));
  in_.expect(']', "after the dims");
  std::sort(numbered.begin(), numbered.end());
  for (std::size_t k = 0; k < numbered.size(); ++k) {
    if (numbered[k].first != std::int64_t(k)) {
      in_.fail_at(at, "the spatial dims must be numbered from 0, each once");
    }
    spatial->push_back(numbered[k].second);
  }
  if (*first < 0 || *second < 0) {
    in_.fail_at(
        at, std::string("expected '") + first_role + "' and '" + second_role + "' among the dims");
  }
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], in #stablehlo.conv<...> or bare; or field by field, in
// #stablehlo.conv<raw ...>.
void Conversions::convolution_numbers(const Operation& op, ir::ConvolutionAttrs* a) {
  std::string_view value;
  std::size_t open = 0;
  if (!op.flat) {
    value = expanded(need(op, "dimension_numbers").value);
    open = value.find('[');
    if (open == std::string_view::npos) in_.fail_at(value.data(), "expected [b, 0, 1, f]x[...]");
  }
  if (op.flat || value.substr(0, open).find('=') != std::string_view::npos) {
    const Operation raw = fields_or_own(op, "dimension_numbers");
    a->input_batch = integer(raw, "input_batch_dimension");
    a->input_feature = integer(raw, "input_feature_dimension");
    a->input_spatial = integers(raw, "input_spatial_dimensions");
    a->kernel_input_feature = integer(raw, "kernel_input_feature_dimension");
    a->kernel_output_feature = integer(raw, "kernel_output_feature_dimension");
    a->kernel_spatial = integers(raw, "kernel_spatial_dimensions");
    a->output_batch = integer(raw, "output_batch_dimension");
    a->output_feature = integer(raw, "output_feature_dimension");
    a->output_spatial = integers(raw, "output_spatial_dimensions");
    return;
  }
  at_value(value.substr(open), [&] {
    convolution_dims("b", &a->input_batch, "f", &a->input_feature, &a->input_spatial);
    in_.expect('x', "between the dims of the operands");
    convolution_dims("i", &a->kernel_input_feature, "o", &a->kernel_output_feature,
                     &a->kernel_spatial);
    in_.expect_text("->", "and the dims of the result");
    convolution_dims("b", &a->output_batch, "f", &a->output_feature, &a->output_spatial);
  });
}

// The padding of a dynamic_conv, which is an operand.
void Conversions::pad_by_operand(const Operation& op, std::size_t operand,
                                 std::vector<WindowDim>* window) {
  const Dims padding = constant_integers(op, operand);
  const Shape& shape = op.operands[operand]->shape;
  if (padding.size() != 2 * window->size() || shape.rank() != 2 || shape.dim(1) != 2 ||
      op.find("padding") != nullptr) {
    fail(op, "needs a low and a high padding for each of " + std::to_string(window->size()) +
                 " dims as operand " + std::to_string(operand));
  }
  for (std::size_t n = 0; n < window->size(); ++n) {
    (*window)[n].pad_low = padding[2 * n];
    (*window)[n].pad_high = padding[2 * n + 1];
  }
}

void Conversions::convolution(Operation& op) {
  const bool padding_given = op.info->name == "stablehlo.dynamic_conv";
  need_operands(op, padding_given ? 3 : 2, padding_given ? 3 : 2);
  ir::ConvolutionAttrs a;
  convolution_numbers(op, &a);
  a.window = window(op, a.input_spatial.size());
  if (padding_given) pad_by_operand(op, 2, &a.window);
  const Shape& kernel = op.operands[1]->shape;
  for (std::size_t n = 0; n < a.window.size() && n < a.kernel_spatial.size(); ++n) {
    std::int64_t d = a.kernel_spatial[n];
    if (d < 0 || d >= kernel.rank()) fail(op, "names a dim of the kernel that it lacks");
    a.window[n].size = kernel.dim(d);
  }
  a.feature_group_count = integer_or(op, "feature_group_count", 1);
  a.batch_group_count = integer_or(op, "batch_group_count", 1);
  a.operand_precision = precision(op);
  set(op, Opcode::convolution, {op.operands[0], op.operands[1]}, std::move(a));
}

}  // namespace tessera::text
