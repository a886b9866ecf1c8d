// SPDX-License-Identifier: Apache-2.0
// Evaluates batch-norm-training, -inference and -grad.
#include <cmath>

#include "src/evaluator/ops.h"
#include "src/evaluator/wide.h"

namespace tessera::evaluator {
namespace {

/// Calls f(i, feature) for each element of an array.
class Features {
 public:
  Features(const Dims& dims, std::int64_t feature_dim) : count(dims[std::size_t(feature_dim)]) {
    for (std::size_t d = std::size_t(feature_dim) + 1; d < dims.size(); ++d) inner_ *= dims[d];
    total_ = element_count(dims);
  }

  template <class F>
  void each(F f) const {
    for (std::int64_t i = 0; i < total_; ++i) {
      f(std::size_t(i), std::size_t(i / inner_ % count));
    }
  }
  /// Sum of f(i, feature) for each feature.
  template <class F>
  std::vector<double> sum(F f) const {
    std::vector<double> out(std::size_t(count), 0.0);
    each([&](std::size_t i, std::size_t c) { out[c] += f(i, c); });
    return out;
  }
  double per_feature() const { return count == 0 ? 0 : double(total_ / count); }

  std::int64_t count;

 private:
  std::int64_t inner_ = 1, total_ = 0;
};

std::vector<double> divided(std::vector<double> v, double by) {
  for (double& x : v) x /= by;
  return v;
}

std::vector<double> normalized(const Features& features, const std::vector<double>& x,
                               const std::vector<double>& scale, const std::vector<double>& offset,
                               const std::vector<double>& mean, const std::vector<double>& variance,
                               double epsilon) {
  std::vector<double> out(x.size());
  features.each([&](std::size_t i, std::size_t c) {
    out[i] = (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + offset[c];
  });
  return out;
}

}  // namespace

Literal eval_batch_norm_training(const ir::Instruction& in, Operands xs) {
  const auto& attrs = in.get<ir::BatchNormAttrs>();
  const Features features(xs[0]->dims(), attrs.feature_index);
  const auto x = load_all<double>(*xs[0]);
  const double n = features.per_feature();
  const auto mean = divided(features.sum([&](std::size_t i, std::size_t) { return x[i]; }), n);
  const auto variance = divided(features.sum([&](std::size_t i, std::size_t c) {
    return (x[i] - mean[c]) * (x[i] - mean[c]);
  }),
                                n);
  const auto y = normalized(features, x, load_all<double>(*xs[1]), load_all<double>(*xs[2]), mean,
                            variance, attrs.epsilon);
  const Shape per_feature(xs[0]->dtype(), {features.count});
  return Literal::tuple({store_all(xs[0]->shape(), y), store_all(per_feature, mean),
                         store_all(per_feature, variance)});
}

Literal eval_batch_norm_inference(const ir::Instruction& in, Operands xs) {
  const auto& attrs = in.get<ir::BatchNormAttrs>();
  const Features features(xs[0]->dims(), attrs.feature_index);
  return store_all(xs[0]->shape(),
                   normalized(features, load_all<double>(*xs[0]), load_all<double>(*xs[1]),
                              load_all<double>(*xs[2]), load_all<double>(*xs[3]),
                              load_all<double>(*xs[4]), attrs.epsilon));
}

Literal eval_batch_norm_grad(const ir::Instruction& in, Operands xs) {
  const auto& attrs = in.get<ir::BatchNormAttrs>();
  const Features features(xs[0]->dims(), attrs.feature_index);
  const auto x = load_all<double>(*xs[0]), scale = load_all<double>(*xs[1]),
             mean = load_all<double>(*xs[2]), variance = load_all<double>(*xs[3]),
             grad = load_all<double>(*xs[4]);
  const double n = features.per_feature();
  const auto grad_offset = features.sum([&](std::size_t i, std::size_t) { return grad[i]; });
  const auto moment =
      features.sum([&](std::size_t i, std::size_t c) { return grad[i] * (x[i] - mean[c]); });
  std::vector<double> grad_scale(moment.size()), grad_x(x.size());
  for (std::size_t c = 0; c < moment.size(); ++c) {
    grad_scale[c] = moment[c] / std::sqrt(variance[c] + attrs.epsilon);
  }
  features.each([&](std::size_t i, std::size_t c) {
    const double spread = variance[c] + attrs.epsilon;
    grad_x[i] = scale[c] / std::sqrt(spread) *
                (grad[i] - grad_offset[c] / n - (x[i] - mean[c]) * (moment[c] / n) / spread);
  });
  const Shape per_feature(xs[0]->dtype(), {features.count});
  return Literal::tuple({store_all(xs[0]->shape(), grad_x), store_all(per_feature, grad_scale),
                         store_all(per_feature, grad_offset)});
}

}  // namespace tessera::evaluator
