// SPDX-License-Identifier: Apache-2.0
// stablehlo.einsum: a dot of what its labels say, between sums and a transpose.
#include <algorithm>

#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

bool has_label(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }

}  // namespace

/// "ab,bc->ac".
struct Conversions::EinsumLabels {
  std::string lhs, rhs, out;  ///< of one operand: rhs is empty
};

Conversions::EinsumLabels Conversions::einsum_labels(const Operation& op) {
  const bool unary = op.operands.size() == 1;
  std::string config = text(op, "einsum_config");
  config.erase(std::remove(config.begin(), config.end(), ' '), config.end());
  const std::size_t arrow = config.find("->"), comma = config.find(',');
  if (arrow == std::string::npos || (comma == std::string::npos) != unary) {
    fail(op, "has config \"" + config + "\"; expected labels such as \"ab,bc->ac\"");
  }
  EinsumLabels labels{config.substr(0, unary ? arrow : comma),
                      unary ? "" : config.substr(comma + 1, arrow - comma - 1),
                      config.substr(arrow + 2)};
  check_labels(op, labels.lhs, op.operands[0]->shape);
  if (!unary) check_labels(op, labels.rhs, op.operands[1]->shape);
  check_labels(op, labels.out, *op.results[0]);
  return labels;
}

void Conversions::check_labels(const Operation& op, const std::string& labels, const Shape& shape) {
  const bool letters = std::all_of(labels.begin(), labels.end(), is_id_start);
  std::string sorted = labels;
  std::sort(sorted.begin(), sorted.end());
  if (!letters || std::unique(sorted.begin(), sorted.end()) != sorted.end()) {
    not_supported(op, "with labels \"" + labels + "\" (only different letters) is not supported");
  }
  if (labels.size() != shape.dims.size()) {
    fail(op, "has labels \"" + labels + "\" for " + mlir_type(shape));
  }
}

// Sums over the dims whose labels neither the other operand nor the result has.
Instruction* Conversions::sum_unshared(const Operation& op, Instruction* x, std::string* labels,
                                       const std::string& other, const std::string& out) {
  Dims dims, sizes;
  std::string kept;
  for (std::size_t n = 0; n < labels->size(); ++n) {
    const char label = (*labels)[n];
    if (has_label(other, label) || has_label(out, label)) {
      kept += label;
      sizes.push_back(x->shape.dims[n]);
    } else {
      dims.push_back(std::int64_t(n));
    }
  }
  *labels = kept;
  if (dims.empty()) return x;
  Instruction* zero = scalar_constant(op, x->shape.dtype, 0);
  return add(op, Opcode::reduce, Shape(x->shape.dtype, sizes), {x, zero}, ir::DimensionsAttrs{dims},
             {binary_computation(Opcode::add, x->shape.dtype)});
}

// Labels that both operands have are batch dims if the result has them, too. `order`: the labels of
// what comes out.
Instruction* Conversions::einsum_dot(const Operation& op, Instruction* x, Instruction* y,
                                     const EinsumLabels& labels, std::string* order) {
  const auto& [lhs, rhs, out] = labels;
  ir::DotAttrs a;
  std::string free_labels;
  Dims sizes, free_sizes;
  for (std::size_t n = 0; n < lhs.size(); ++n) {
    const std::size_t m = rhs.find(lhs[n]);
    if (m == std::string::npos) {
      free_labels += lhs[n];
      free_sizes.push_back(x->shape.dims[n]);
    } else if (has_label(out, lhs[n])) {
      a.lhs_batch.push_back(std::int64_t(n));
      a.rhs_batch.push_back(std::int64_t(m));
      *order += lhs[n];
      sizes.push_back(x->shape.dims[n]);
    } else {
      a.lhs_contracting.push_back(std::int64_t(n));
      a.rhs_contracting.push_back(std::int64_t(m));
    }
  }
  for (std::size_t m = 0; m < rhs.size(); ++m) {
    if (has_label(lhs, rhs[m])) continue;
    free_labels += rhs[m];
    free_sizes.push_back(y->shape.dims[m]);
  }
  *order += free_labels;
  sizes.insert(sizes.end(), free_sizes.begin(), free_sizes.end());
  return add(op, Opcode::dot, Shape(op.results[0]->dtype, sizes), {x, y}, std::move(a));
}

void Conversions::einsum(Operation& op) {
  need_operands(op, 1, 2);
  need_results(op, 1);
  EinsumLabels labels = einsum_labels(op);
  Instruction* x = sum_unshared(op, op.operands[0], &labels.lhs, labels.rhs, labels.out);
  std::string order;
  if (op.operands.size() == 1) {
    order = labels.lhs;
  } else {
    Instruction* y = sum_unshared(op, op.operands[1], &labels.rhs, labels.lhs, labels.out);
    x = einsum_dot(op, x, y, labels, &order);
  }
  Dims permutation;
  for (char c : labels.out) {
    if (!has_label(order, c)) {
      fail(op, "has a label '" + std::string(1, c) + "' in the result only");
    }
    permutation.push_back(std::int64_t(order.find(c)));
  }
  set(op, Opcode::transpose, {x}, ir::DimensionsAttrs{permutation});
}

}  // namespace tessera::text
