// SPDX-License-Identifier: Apache-2.0
// Products, transforms, reductions, sorting, random bits.
#include <algorithm>

#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

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

void Conversions::dot(Operation& op) {
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

std::optional<Operation> Conversions::dot_algorithm(const Operation& op) {
  if (const Attribute* algorithm = op.find("algorithm")) return fields_of(op, *algorithm);
  if (op.flat && op.find("lhs_precision_type") != nullptr) return fields_or_own(op, "algorithm");
  return std::nullopt;
}

void Conversions::dot_general(Operation& op) {
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
  if (const std::optional<Operation> algorithm = dot_algorithm(op)) {
    const Operation& parts = *algorithm;
    std::string_view lhs = keyword(parts, "lhs_precision_type"),
                     rhs = keyword(parts, "rhs_precision_type"),
                     sum = keyword(parts, "accumulation_type");
    std::int64_t components = integer_or(parts, "lhs_component_count", 1);
    std::int64_t operations = integer_or(parts, "num_primitive_operations", 1);
    const bool imprecise = flag(parts, "allow_imprecise_accumulation", false);
    if (lhs.substr(0, 2) == "f8" && rhs.substr(0, 2) == "f8") {
      a.algorithm = imprecise ? "dot_any_f8_any_f8_f32_fast_accum" : "dot_any_f8_any_f8_f32";
    } else {
      for (const Algorithm& known : kAlgorithms) {
        if (known.lhs == lhs && known.rhs == rhs && known.accumulation == sum &&
            known.operations == operations && known.components == components &&
            components == integer_or(parts, "rhs_component_count", 1) && !imprecise) {
          a.algorithm = std::string(known.name);
        }
      }
    }
    if (a.algorithm.empty()) {
      std::string text;
      for (const Attribute& part : parts.attributes) {
        text +=
            (text.empty() ? "" : ", ") + std::string(part.key) + " = " + std::string(part.value);
      }
      in_.not_supported_at(op.at, "algorithm <" + text + "> of a dot is not known");
    }
  }
  set(op, Opcode::dot, op.operands, std::move(a));
}

void Conversions::fft(Operation& op) {
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

void Conversions::cholesky(Operation& op) {
  need_operands(op, 1, 1);
  set(op, Opcode::cholesky, op.operands, ir::CholeskyAttrs{flag(op, "lower", false)});
}

void Conversions::triangular_solve(Operation& op) {
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

void Conversions::batch_norm(Operation& op) {
  ir::BatchNormAttrs a;
  a.epsilon = float(real(op, "epsilon"));
  a.feature_index = integer(op, "feature_index");
  auto count = std::size_t(ir::info(op.info->opcode).operands);
  need_operands(op, count, count);
  set_results(op, op.info->opcode, op.operands, a);
}

void Conversions::rng(Operation& op) {
  need_operands(op, 3, 3);
  std::string_view word = keyword(op, "rng_distribution");
  if (word != "UNIFORM" && word != "NORMAL") {
    in_.fail_at(word.data(), "unknown distribution; valid: UNIFORM, NORMAL");
  }
  set(op, Opcode::rng, {op.operands[0], op.operands[1]},
      ir::RngAttrs{word == "UNIFORM" ? "rng_uniform" : "rng_normal"});
}

void Conversions::rng_bit_generator(Operation& op) {
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

void Conversions::rng_state(Operation& op) {
  ir::TextAttrs a;
  a.items.emplace_back("delta", std::to_string(integer(op, "delta")));
  set(op, Opcode::rng_get_and_update_state, op.operands, std::move(a));
}

}  // namespace tessera::text
