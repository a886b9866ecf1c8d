// SPDX-License-Identifier: Apache-2.0
// Products, transforms, reductions, sorting, random bits.
#include <algorithm>

#include "src/text/read/reader.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;
using ir::WindowDim;

namespace {

struct Algorithm {
  std::string_view lhs, rhs, accumulation;
  std::int64_t components, operations;
  std::string_view name;
};

constexpr Algorithm kAlgorithms[] = {
    {"f16", "f16", "f16", 1, 1, "dot_f16_f16_f16"},
    {"f16", "f16", "f32", 1, 1, "dot_f16_f16_f32"},
    {"bf16", "bf16", "bf16", 1, 1, "dot_bf16_bf16_bf16"},
    {"bf16", "bf16", "f32", 1, 1, "dot_bf16_bf16_f32"},
    {"bf16", "bf16", "f32", 1, 3, "dot_bf16_bf16_f32_x3"},
    {"bf16", "bf16", "f32", 1, 6, "dot_bf16_bf16_f32_x6"},
    {"bf16", "bf16", "f32", 1, 9, "dot_bf16_bf16_f32_x9"},
    {"tf32", "tf32", "f32", 1, 1, "dot_tf32_tf32_f32"},
    {"tf32", "tf32", "f32", 1, 3, "dot_tf32_tf32_f32_x3"},
    {"f32", "f32", "f32", 1, 1, "dot_f32_f32_f32"},
    {"f64", "f64", "f64", 1, 1, "dot_f64_f64_f64"},
};

}  // namespace

void Reader::dot(Operation& op) {
  need_operands(op, 2, 2);
  ir::DotAttrs a;
  if (op.operands[0]->shape.dims.empty() || op.operands[1]->shape.dims.empty()) {
    fail(op, "takes arrays of rank 1 or 2");
  }
  a.lhs_contracting = {op.operands[0]->shape.rank() - 1};
  a.rhs_contracting = {0};
  a.operand_precision = precision(op);
  set(op, Opcode::dot, op.operands, std::move(a));
}

void Reader::dot_general(Operation& op) {
  need_operands(op, 2, 2);
  ir::DotAttrs a;
  Operation numbers;
  const Operation* from = &op;
  if (const Attribute* packed = op.find("dot_dimension_numbers")) {
    numbers.at = op.at;
    numbers.name = op.name;
    numbers.attributes = fields(*packed);
    from = &numbers;
  }
  a.lhs_batch = integers_or(*from, "lhs_batching_dimensions", {});
  a.rhs_batch = integers_or(*from, "rhs_batching_dimensions", {});
  a.lhs_contracting = integers_or(*from, "lhs_contracting_dimensions", {});
  a.rhs_contracting = integers_or(*from, "rhs_contracting_dimensions", {});
  a.operand_precision = precision(op);
  if (const Attribute* algorithm = op.find("algorithm")) {
    Operation parts;
    parts.at = op.at;
    parts.name = op.name;
    parts.attributes = fields(*algorithm);
    std::string_view lhs = keyword(parts, "lhs_precision_type"),
                     rhs = keyword(parts, "rhs_precision_type"),
                     sum = keyword(parts, "accumulation_type");
    std::int64_t components = integer_or(parts, "lhs_component_count", 1);
    std::int64_t operations = integer_or(parts, "num_primitive_operations", 1);
    if (lhs.substr(0, 2) == "f8" && rhs.substr(0, 2) == "f8") {
      a.algorithm = flag(parts, "allow_imprecise_accumulation", false)
                        ? "dot_any_f8_any_f8_f32_fast_accum"
                        : "dot_any_f8_any_f8_f32";
    } else {
      for (const Algorithm& known : kAlgorithms) {
        if (known.lhs == lhs && known.rhs == rhs && known.accumulation == sum &&
            known.operations == operations && known.components == components) {
          a.algorithm = std::string(known.name);
        }
      }
    }
    if (a.algorithm.empty()) {
      in_.not_supported_at(op.at,
                           "algorithm " + std::string(algorithm->value) + " of a dot is not known");
    }
  }
  set(op, Opcode::dot, op.operands, std::move(a));
}

void Reader::einsum(Operation& op) {
  // "ab,bc->ac": labels that both operands have are batch dims if the result has them too.
  bool unary = op.operands.size() == 1;
  need_operands(op, 1, 2);
  need_results(op, 1);
  std::string config = text(op, "einsum_config");
  config.erase(std::remove(config.begin(), config.end(), ' '), config.end());
  std::size_t arrow = config.find("->"), comma = config.find(',');
  if (arrow == std::string::npos || (comma == std::string::npos) != unary) {
    fail(op, "has config \"" + config + "\"; expected labels such as \"ab,bc->ac\"");
  }
  std::string lhs = config.substr(0, unary ? arrow : comma);
  std::string rhs = unary ? "" : config.substr(comma + 1, arrow - comma - 1);
  std::string out = config.substr(arrow + 2);
  auto check = [&](const std::string& labels, const Shape& shape) {
    bool letters = std::all_of(labels.begin(), labels.end(), is_id_start);
    std::string sorted = labels;
    std::sort(sorted.begin(), sorted.end());
    if (!letters || std::unique(sorted.begin(), sorted.end()) != sorted.end()) {
      not_supported(op, "with labels \"" + labels + "\" (only different letters) is not supported");
    }
    if (labels.size() != shape.dims.size()) {
      fail(op, "has labels \"" + labels + "\" for " + mlir_type(shape));
    }
  };
  check(lhs, op.operands[0]->shape);
  if (!unary) check(rhs, op.operands[1]->shape);
  check(out, *op.results[0]);
  auto has = [](const std::string& s, char c) { return s.find(c) != std::string::npos; };
  // What only one operand has and the result lacks is summed first.
  DType dtype = op.results[0]->dtype;
  auto reduce = [&](Instruction* x, std::string& labels, const std::string& other) {
    Dims dims, sizes;
    std::string kept;
    for (std::size_t n = 0; n < labels.size(); ++n) {
      if (has(other, labels[n]) || has(out, labels[n])) {
        kept += labels[n];
        sizes.push_back(x->shape.dims[n]);
      } else {
        dims.push_back(std::int64_t(n));
      }
    }
    labels = kept;
    if (dims.empty()) return x;
    Instruction* zero = scalar_constant(op, x->shape.dtype, 0);
    return add(op, Opcode::reduce, Shape(x->shape.dtype, sizes), {x, zero},
               ir::DimensionsAttrs{dims}, {binary_computation(Opcode::add, x->shape.dtype)});
  };
  Instruction* x = reduce(op.operands[0], lhs, rhs);
  std::string order;
  if (unary) {
    order = lhs;
  } else {
    Instruction* y = reduce(op.operands[1], rhs, lhs);
    ir::DotAttrs a;
    std::string rest;
    Dims batch_sizes, sizes;
    for (std::size_t n = 0; n < lhs.size(); ++n) {
      std::size_t m = rhs.find(lhs[n]);
      if (m == std::string::npos) {
        rest += lhs[n];
        sizes.push_back(x->shape.dims[n]);
      } else if (has(out, lhs[n])) {
        a.lhs_batch.push_back(std::int64_t(n));
        a.rhs_batch.push_back(std::int64_t(m));
        order += lhs[n];
        batch_sizes.push_back(x->shape.dims[n]);
      } else {
        a.lhs_contracting.push_back(std::int64_t(n));
        a.rhs_contracting.push_back(std::int64_t(m));
      }
    }
    for (std::size_t m = 0; m < rhs.size(); ++m) {
      if (has(lhs, rhs[m])) continue;
      rest += rhs[m];
      sizes.push_back(y->shape.dims[m]);
    }
    order += rest;
    batch_sizes.insert(batch_sizes.end(), sizes.begin(), sizes.end());
    x = add(op, Opcode::dot, Shape(dtype, batch_sizes), {x, y}, std::move(a));
  }
  Dims permutation;
  for (char c : out) {
    if (!has(order, c)) fail(op, "has a label '" + std::string(1, c) + "' in the result only");
    permutation.push_back(std::int64_t(order.find(c)));
  }
  set(op, Opcode::transpose, {x}, ir::DimensionsAttrs{permutation});
}

std::vector<WindowDim> Reader::window(const Operation& op, std::size_t rank) {
  std::vector<WindowDim> dims(rank);
  auto each = [&](std::string_view key, auto&& put) {
    if (op.find(key) == nullptr) return;
    Dims values = integers(op, key);
    if (values.size() == 1 && rank != 1) values.assign(rank, values[0]);
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

void Reader::convolution(Operation& op) {
  bool padding_given = op.info->name == "stablehlo.dynamic_conv";
  need_operands(op, padding_given ? 3 : 2, padding_given ? 3 : 2);
  ir::ConvolutionAttrs a;
  const Attribute& numbers = need(op, "dimension_numbers");
  std::string_view value = expanded(numbers.value);
  const char* back = in_.position();
  // [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], in #stablehlo.conv<...> or bare
  std::size_t open = value.find('[');
  if (open == std::string_view::npos) in_.fail_at(value.data(), "expected [b, 0, 1, f]x[...]");
  if (value.substr(0, open).find("raw") != std::string_view::npos) {
    Operation raw;
    raw.at = op.at;
    raw.name = op.name;
    raw.attributes = fields(numbers);
    a.input_batch = integer(raw, "input_batch_dimension");
    a.input_feature = integer(raw, "input_feature_dimension");
    a.input_spatial = integers(raw, "input_spatial_dimensions");
    a.kernel_input_feature = integer(raw, "kernel_input_feature_dimension");
    a.kernel_output_feature = integer(raw, "kernel_output_feature_dimension");
    a.kernel_spatial = integers(raw, "kernel_spatial_dimensions");
    a.output_batch = integer(raw, "output_batch_dimension");
    a.output_feature = integer(raw, "output_feature_dimension");
    a.output_spatial = integers(raw, "output_spatial_dimensions");
  } else {
    in_.seek(value.data() + open);
    auto part = [&](std::string_view one, std::int64_t* first, std::string_view two,
                    std::int64_t* second, Dims* spatial) {
      in_.skip();
      const char* at = in_.position();
      in_.expect('[', "before the dims");
      *first = *second = -1;
      std::vector<std::pair<std::int64_t, std::int64_t>> numbered;
      std::int64_t n = 0;
      do {
        if (in_.accept_word(one)) {
          *first = n;
        } else if (in_.accept_word(two)) {
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
        in_.fail_at(at, "expected '" + std::string(one) + "' and '" + std::string(two) +
                            "' among the dims");
      }
    };
    part("b", &a.input_batch, "f", &a.input_feature, &a.input_spatial);
    in_.expect('x', "between the dims of the operands");
    part("i", &a.kernel_input_feature, "o", &a.kernel_output_feature, &a.kernel_spatial);
    in_.expect_text("->", "and the dims of the result");
    part("b", &a.output_batch, "f", &a.output_feature, &a.output_spatial);
  }
  in_.seek(back);
  a.window = window(op, a.input_spatial.size());
  if (padding_given) {
    Dims padding = constant_integers(op, 2);
    if (padding.size() != 2 * a.window.size() || op.operands[2]->shape.rank() != 2 ||
        op.operands[2]->shape.dim(1) != 2 || op.find("padding") != nullptr) {
      fail(op, "needs a low and a high padding for each of " + std::to_string(a.window.size()) +
                   " dims as operand 2");
    }
    for (std::size_t n = 0; n < a.window.size(); ++n) {
      a.window[n].pad_low = padding[2 * n];
      a.window[n].pad_high = padding[2 * n + 1];
    }
  }
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

void Reader::fft(Operation& op) {
  need_operands(op, 1, 1);
  std::string_view word = keyword(op, "fft_type");
  ir::FftAttrs a;
  if (word == "FFT") {
    a.type = ir::FftType::fft;
  } else if (word == "IFFT") {
    a.type = ir::FftType::ifft;
  } else if (word == "RFFT") {
    a.type = ir::FftType::rfft;
  } else if (word == "IRFFT") {
    a.type = ir::FftType::irfft;
  } else {
    in_.fail_at(word.data(), "unknown transform; valid: FFT, IFFT, RFFT, IRFFT");
  }
  a.lengths = integers(op, "fft_length");
  set(op, Opcode::fft, op.operands, std::move(a));
}

void Reader::cholesky(Operation& op) {
  need_operands(op, 1, 1);
  set(op, Opcode::cholesky, op.operands, ir::CholeskyAttrs{flag(op, "lower", false)});
}

void Reader::triangular_solve(Operation& op) {
  need_operands(op, 2, 2);
  ir::TriangularSolveAttrs a;
  a.left_side = flag(op, "left_side", false);
  a.lower = flag(op, "lower", false);
  a.unit_diagonal = flag(op, "unit_diagonal", false);
  std::string_view word = keyword(op, "transpose_a");
  if (word == "TRANSPOSE") {
    a.transpose_a = ir::TriangularSolveAttrs::Transpose::transpose;
  } else if (word == "ADJOINT") {
    a.transpose_a = ir::TriangularSolveAttrs::Transpose::adjoint;
  } else if (word != "NO_TRANSPOSE") {
    in_.fail_at(word.data(), "unknown transpose_a; valid: NO_TRANSPOSE, TRANSPOSE, ADJOINT");
  }
  set(op, Opcode::triangular_solve, op.operands, a);
}

void Reader::batch_norm(Operation& op) {
  ir::BatchNormAttrs a;
  a.epsilon = float(real(op, "epsilon"));
  a.feature_index = integer(op, "feature_index");
  auto count = std::size_t(ir::info(op.info->opcode).operands);
  need_operands(op, count, count);
  set_results(op, op.info->opcode, op.operands, a);
}

void Reader::rng(Operation& op) {
  need_operands(op, 3, 3);
  std::string_view word = keyword(op, "rng_distribution");
  if (word != "UNIFORM" && word != "NORMAL") {
    in_.fail_at(word.data(), "unknown distribution; valid: UNIFORM, NORMAL");
  }
  set(op, Opcode::rng, {op.operands[0], op.operands[1]},
      ir::RngAttrs{word == "UNIFORM" ? "rng_uniform" : "rng_normal"});
}

void Reader::rng_bit_generator(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 2);
  std::string_view word = keyword(op, "rng_algorithm");
  if (word != "DEFAULT" && word != "THREE_FRY" && word != "PHILOX") {
    in_.fail_at(word.data(), "unknown algorithm; valid: DEFAULT, THREE_FRY, PHILOX");
  }
  set_results(op, Opcode::rng_bit_generator, op.operands,
              ir::RngAttrs{word == "DEFAULT"     ? "rng_default"
                           : word == "THREE_FRY" ? "rng_three_fry"
                                                 : "rng_philox"});
}

void Reader::rng_state(Operation& op) {
  ir::TextAttrs a;
  a.items.emplace_back("delta", std::to_string(integer(op, "delta")));
  set(op, Opcode::rng_get_and_update_state, op.operands, std::move(a));
}

}  // namespace tessera::text
