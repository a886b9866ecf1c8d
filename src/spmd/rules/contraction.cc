// SPDX-License-Identifier: Apache-2.0
// Rules of ops that sum over dims, or need some dims unsplit.
#include <algorithm>

#include "src/spmd/rules/rules.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::rules {
namespace {

bool trivial(const ir::WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 && w.lhs_dilation == 1 &&
         w.rhs_dilation == 1;
}

}  // namespace

std::optional<FactorRule> dot(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& attrs = instruction.get<ir::DotAttrs>();
  const Dims &lhs = rule.operand_dims(0), &rhs = rule.operand_dims(1);
  std::int64_t out = 0;
  for (std::size_t i = 0; i < attrs.lhs_batch.size(); ++i) {
    int f = rule.factor(lhs[std::size_t(attrs.lhs_batch[i])]);
    rule.operand(0, attrs.lhs_batch[i], f).operand(1, attrs.rhs_batch[i], f).result(0, out++, f);
  }
  for (std::int64_t d = 0; d < std::int64_t(lhs.size()); ++d) {
    if (contains(attrs.lhs_batch, d) || contains(attrs.lhs_contracting, d)) continue;
    int f = rule.factor(lhs[std::size_t(d)]);
    rule.operand(0, d, f).result(0, out++, f);
  }
  for (std::int64_t d = 0; d < std::int64_t(rhs.size()); ++d) {
    if (contains(attrs.rhs_batch, d) || contains(attrs.rhs_contracting, d)) continue;
    int f = rule.factor(rhs[std::size_t(d)]);
    rule.operand(1, d, f).result(0, out++, f);
  }
  for (std::size_t i = 0; i < attrs.lhs_contracting.size(); ++i) {
    int f = rule.factor(lhs[std::size_t(attrs.lhs_contracting[i])], FactorKind::reduction);
    rule.operand(0, attrs.lhs_contracting[i], f).operand(1, attrs.rhs_contracting[i], f);
  }
  return rule.finish();
}

std::optional<FactorRule> convolution(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& a = instruction.get<ir::ConvolutionAttrs>();
  const Dims &lhs = rule.operand_dims(0), &rhs = rule.operand_dims(1), &out = rule.result_dims(0);
  auto size = [](const Dims& dims, std::int64_t d) { return dims[std::size_t(d)]; };

  if (a.batch_group_count > 1) {
    int group = rule.factor(a.batch_group_count);
    rule.operand(0, a.input_batch, group)
        .operand(1, a.kernel_output_feature, group)
        .result(0, a.output_feature, group);
  }
  int batch = rule.factor(size(lhs, a.input_batch) / a.batch_group_count);
  rule.operand(0, a.input_batch, batch).result(0, a.output_batch, batch);

  if (a.feature_group_count > 1) {
    int group = rule.factor(a.feature_group_count);
    rule.operand(0, a.input_feature, group)
        .operand(1, a.kernel_output_feature, group)
        .result(0, a.output_feature, group);
  }
  int feature =
      rule.factor(size(lhs, a.input_feature) / a.feature_group_count, FactorKind::reduction);
  rule.operand(0, a.input_feature, feature).operand(1, a.kernel_input_feature, feature);
  int out_feature =
      rule.factor(size(rhs, a.kernel_output_feature) / a.feature_group_count / a.batch_group_count);
  rule.operand(1, a.kernel_output_feature, out_feature).result(0, a.output_feature, out_feature);

  for (std::size_t s = 0; s < a.input_spatial.size(); ++s) {
    std::int64_t in = a.input_spatial[s], kernel = a.kernel_spatial[s], to = a.output_spatial[s];
    if (size(rhs, kernel) <= size(out, to)) {
      // Windows glide over the input.
      FactorKind kind = trivial(a.window[s]) && !a.window[s].reversal ? FactorKind::pass_through
                                                                      : FactorKind::permutation;
      int f = rule.factor(std::max(size(lhs, in), size(out, to)), kind);
      rule.operand(0, in, f).result(0, to, f);
      rule.private_operand(1, kernel, FactorKind::need_replication);
    } else {
      // A window as large as the input, as in the gradient of a kernel: a sum over it.
      int f = rule.factor(size(rhs, kernel), FactorKind::reduction);
      rule.operand(0, in, f).operand(1, kernel, f);
      rule.private_result(0, to, FactorKind::need_replication);
    }
  }
  return rule.finish();
}

std::optional<FactorRule> reduce(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const Dims& reduced = instruction.get<ir::DimensionsAttrs>().dims;
  const int inputs = rule.operand_count() / 2;  // the other half are initial values
  const Dims& dims = rule.operand_dims(0);
  std::int64_t out = 0;
  for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
    bool sum = contains(reduced, d);
    int f =
        rule.factor(dims[std::size_t(d)], sum ? FactorKind::reduction : FactorKind::pass_through);
    for (int i = 0; i < inputs; ++i) rule.operand(i, d, f);
    if (!sum) rule.all_results(out++, f);
  }
  return rule.finish();
}

std::optional<FactorRule> reduce_window(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& window = instruction.get<ir::WindowAttrs>().dims;
  const int inputs = rule.operand_count() / 2;
  const Dims &from = rule.operand_dims(0), &to = rule.result_dims(0);
  for (std::size_t d = 0; d < from.size(); ++d) {
    int f = rule.factor(std::max(from[d], to[d]),
                        trivial(window[d]) ? FactorKind::pass_through : FactorKind::permutation);
    for (int i = 0; i < inputs; ++i) rule.operand(i, std::int64_t(d), f);
    rule.all_results(std::int64_t(d), f);
  }
  return rule.finish();
}

std::optional<FactorRule> select_and_scatter(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& window = instruction.get<ir::WindowAttrs>().dims;
  for (std::size_t u = 0; u < window.size(); ++u) {
    auto d = std::int64_t(u);
    const std::int64_t size = std::max(rule.operand_dims(0)[u], rule.operand_dims(1)[u]);
    int f =
        rule.factor(size, trivial(window[u]) ? FactorKind::pass_through : FactorKind::permutation);
    rule.operand(0, d, f).operand(1, d, f).result(0, d, f);
  }
  return rule.finish();
}

std::optional<FactorRule> sort(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const std::int64_t along = instruction.get<ir::SortAttrs>().dim;
  const Dims& dims = rule.operand_dims(0);
  bool alone = true;  // no other dim could take the axes
  for (std::size_t d = 0; d < dims.size(); ++d) alone &= std::int64_t(d) == along || dims[d] == 1;
  for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
    int f = d == along ? rule.factor(dims[std::size_t(d)], FactorKind::need_replication, alone)
                       : rule.factor(dims[std::size_t(d)]);
    rule.all_operands(d, f).all_results(d, f);
  }
  return rule.finish();
}

std::optional<FactorRule> top_k(const ir::Instruction& instruction) {
  const std::int64_t dim = instruction.operand(0)->shape.rank() - 1;
  RuleBuilder rule(instruction);
  for (std::int64_t d = 0; d < std::int64_t(rule.operand_dims(0).size()); ++d) {
    if (d == dim) {
      rule.private_operand(0, d, FactorKind::need_replication, true);
      int f = rule.factor(rule.result_dims(0)[std::size_t(d)], FactorKind::need_replication, true);
      rule.all_results(d, f);
    } else {
      int f = rule.factor(rule.operand_dims(0)[std::size_t(d)]);
      rule.operand(0, d, f).all_results(d, f);
    }
  }
  return rule.finish();
}

std::optional<FactorRule> fft(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& attrs = instruction.get<ir::FftAttrs>();
  const auto rank = std::int64_t(rule.operand_dims(0).size());
  const auto batch = rank - std::int64_t(attrs.lengths.size());
  bool resizes = attrs.type == ir::FftType::rfft || attrs.type == ir::FftType::irfft;
  for (std::int64_t d = 0; d < rank; ++d) {
    FactorKind kind = d < batch ? FactorKind::pass_through : FactorKind::need_replication;
    if (d == rank - 1 && resizes) {
      rule.private_operand(0, d, kind, true).private_result(0, d, kind, true);
      continue;
    }
    rule.shared(d, rule.operand_dims(0)[std::size_t(d)], kind);
  }
  return rule.finish();
}

std::optional<FactorRule> cholesky(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto rank = std::int64_t(rule.operand_dims(0).size());
  for (std::int64_t d = 0; d < rank; ++d) {
    rule.shared(d, rule.operand_dims(0)[std::size_t(d)],
                d < rank - 2 ? FactorKind::pass_through : FactorKind::need_replication);
  }
  return rule.finish();
}

std::optional<FactorRule> triangular_solve(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const auto& attrs = instruction.get<ir::TriangularSolveAttrs>();
  const auto rank = std::int64_t(rule.operand_dims(1).size());
  for (std::int64_t d = 0; d < rank - 2; ++d) {
    int f = rule.factor(rule.operand_dims(1)[std::size_t(d)]);
    rule.operand(0, d, f).operand(1, d, f).result(0, d, f);
  }
  rule.private_operand(0, rank - 2, FactorKind::need_replication);
  rule.private_operand(0, rank - 1, FactorKind::need_replication);
  // Right-hand sides are solved one by one.
  std::int64_t free = attrs.left_side ? rank - 1 : rank - 2;
  std::int64_t solved = attrs.left_side ? rank - 2 : rank - 1;
  int f = rule.factor(rule.operand_dims(1)[std::size_t(free)]);
  rule.operand(1, free, f).result(0, free, f);
  int g = rule.factor(rule.operand_dims(1)[std::size_t(solved)], FactorKind::need_replication);
  rule.operand(1, solved, g).result(0, solved, g);
  return rule.finish();
}

std::optional<FactorRule> batch_norm(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  const std::int64_t feature = instruction.get<ir::BatchNormAttrs>().feature_index;
  const Dims& dims = rule.operand_dims(0);
  bool inference = instruction.is(ir::Opcode::batch_norm_inference);
  for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
    // Training takes means over all dims but the features'.
    int f =
        rule.factor(dims[std::size_t(d)], d == feature || inference ? FactorKind::pass_through
                                                                    : FactorKind::need_replication);
    auto is_full = [&](const Dims& other) { return other.size() == dims.size(); };
    for (int i = 0; i < rule.operand_count(); ++i) {
      if (is_full(rule.operand_dims(i)) && (dims.size() > 1 || i == 0)) {
        rule.operand(i, d, f);
      } else if (d == feature) {
        rule.operand(i, 0, f);
      }
    }
    for (int i = 0; i < rule.result_count(); ++i) {
      if (is_full(rule.result_dims(i)) && (dims.size() > 1 || i == 0)) {
        rule.result(i, d, f);
      } else if (d == feature) {
        rule.result(i, 0, f);
      }
    }
  }
  return rule.finish();
}

std::optional<FactorRule> rng_bit_generator(const ir::Instruction& instruction) {
  RuleBuilder rule(instruction);
  // The state is needed in full, and advances the same on all devices.
  for (std::size_t d = 0; d < rule.operand_dims(0).size(); ++d) {
    int f = rule.factor(rule.operand_dims(0)[d], FactorKind::need_replication, true);
    rule.operand(0, std::int64_t(d), f);
    if (rule.result_count() > 1) rule.result(0, std::int64_t(d), f);
  }
  return rule.finish();
}

}  // namespace tessera::spmd::rules
