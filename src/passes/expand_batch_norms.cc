// SPDX-License-Identifier: Apache-2.0
// Variances are means of squared differences from the mean: sums of squares less the squared mean
// would lose what they have in common.
#include "src/passes/expand_batch_norms.h"

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// The arrays of a norm without dims of one, as producers write layer norms: [1, rows, features],
/// of which rows are the "features". Norms of inference are of images, one of which keeps its dims,
/// as the convolutions around have them.
class Norm {
 public:
  Norm(const Instruction& norm, ir::Builder& b)
      : norm_(norm), b_(b), attrs_(norm.get<ir::BatchNormAttrs>()) {
    const Shape& x = norm.operand(0)->shape;
    const bool is_small = is_floating(x.dtype) && byte_size(x.dtype) < 4;
    type_ = is_small ? DType::f32 : x.dtype;
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      if (d == attrs_.feature_index) {
        feature_ = std::int64_t(dims_.size());
      } else if (x.dim(d) == 1 && !norm.is(Opcode::batch_norm_inference)) {
        continue;
      } else {
        others_.push_back(std::int64_t(dims_.size()));
        per_feature_ *= x.dim(d);
      }
      dims_.push_back(x.dim(d));
    }
  }

  /// An operand of all elements, or of one for each feature.
  Instruction* array(std::size_t k) { return b_.reshape(vector(k), dims_); }
  Instruction* vector(std::size_t k) { return b_.convert(norm_.operand(k), type_); }

  /// A result as the op has it.
  Instruction* result(Instruction* x, std::size_t k) {
    const Shape& shape = norm_.shape.is_tuple ? norm_.shape.elements[k] : norm_.shape;
    return b_.convert(b_.reshape(x, shape.dims), shape.dtype);
  }

  /// One number for each feature, or one for all, at all elements.
  Instruction* along(Instruction* x) { return b_.broadcast(x, dims_, {feature_}); }
  Instruction* number(double value) {
    return b_.splat(b_.scalar(type_, value), {dims_[std::size_t(feature_)]});
  }
  Instruction* sum(Instruction* x) {
    if (others_.empty()) return x;
    return b_.reduce(x, b_.zero(type_), others_,
                     ir::scalar_computation(b_.module(), Opcode::add, type_));
  }
  Instruction* mean(Instruction* x) { return divide(sum(x), number(double(per_feature_))); }
  Instruction* count() { return number(double(per_feature_)); }

  Instruction* add(Instruction* x, Instruction* y) { return b_.binary(Opcode::add, x, y); }
  Instruction* subtract(Instruction* x, Instruction* y) {
    return b_.binary(Opcode::subtract, x, y);
  }
  Instruction* multiply(Instruction* x, Instruction* y) {
    return b_.binary(Opcode::multiply, x, y);
  }
  Instruction* divide(Instruction* x, Instruction* y) { return b_.binary(Opcode::divide, x, y); }

  /// The variance, and what keeps it from zero.
  Instruction* spread(Instruction* variance) {
    return add(variance, number(double(attrs_.epsilon)));
  }
  Instruction* root(Instruction* x) { return b_.unary(Opcode::sqrt, x); }

  /// (x - mean) scale / sqrt(variance + epsilon) + offset, of the differences.
  Instruction* normalized(Instruction* differences, Instruction* scale, Instruction* offset,
                          Instruction* variance) {
    Instruction* factor = divide(scale, root(spread(variance)));
    return add(multiply(differences, along(factor)), along(offset));
  }

 private:
  const Instruction& norm_;
  ir::Builder& b_;
  const ir::BatchNormAttrs& attrs_;
  DType type_ = DType::f32;
  Dims dims_, others_;  ///< dims that sums are taken over
  std::int64_t feature_ = 0, per_feature_ = 1;
};

Instruction* inference_norm(const Instruction& i, ir::Builder& b) {
  if (!i.control_predecessors().empty()) return nullptr;
  Norm n(i, b);
  Instruction* differences = n.subtract(n.array(0), n.along(n.vector(3)));
  return n.result(n.normalized(differences, n.vector(1), n.vector(2), n.vector(4)), 0);
}

Instruction* training_norm(const Instruction& i, ir::Builder& b) {
  if (!i.control_predecessors().empty()) return nullptr;
  Norm n(i, b);
  Instruction* x = n.array(0);
  Instruction* mean = n.mean(x);
  Instruction* differences = n.subtract(x, n.along(mean));
  Instruction* variance = n.mean(n.multiply(differences, differences));
  Instruction* y = n.normalized(differences, n.vector(1), n.vector(2), variance);
  return b.tuple({n.result(y, 0), n.result(mean, 1), n.result(variance, 2)});
}

Instruction* gradient_norm(const Instruction& i, ir::Builder& b) {
  if (!i.control_predecessors().empty()) return nullptr;
  Norm n(i, b);
  Instruction* of_result = n.array(4);
  Instruction* differences = n.subtract(n.array(0), n.along(n.vector(2)));
  Instruction* spread = n.spread(n.vector(3));
  Instruction* root = n.root(spread);
  Instruction* of_offset = n.sum(of_result);
  Instruction* moment = n.sum(n.multiply(of_result, differences));
  Instruction* of_scale = n.divide(moment, root);
  // What the mean and the variance depend on.
  Instruction* shift = n.divide(of_offset, n.count());
  Instruction* slope = n.divide(n.divide(moment, n.count()), spread);
  Instruction* rest =
      n.subtract(n.subtract(of_result, n.along(shift)), n.multiply(differences, n.along(slope)));
  Instruction* of_x = n.multiply(rest, n.along(n.divide(n.vector(1), root)));
  return b.tuple({n.result(of_x, 0), n.result(of_scale, 1), n.result(of_offset, 2)});
}

}  // namespace

std::size_t expand_batch_norms(ir::Module* module) {
  static const auto& patterns = ir::keep(ir::PatternSet("expand-batch-norms")
                                             .add(Opcode::batch_norm_inference, inference_norm)
                                             .add(Opcode::batch_norm_training, training_norm)
                                             .add(Opcode::batch_norm_grad, gradient_norm));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
