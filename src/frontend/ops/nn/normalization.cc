// SPDX-License-Identifier: Apache-2.0
// Normalisation layers: statistics along some dims, and what is made of them.
#include <tessera/ops/normalization.h>

#include <algorithm>

#include <tessera/collectives.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/located.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace {

struct Statistics {
  Located mean, variance;  ///< with reduced dims of size 1
};

struct StatisticsPlan {
  Dims dims;
  bool centred = true;  ///< else the mean is 0
  VarianceAlgorithm algorithm = VarianceAlgorithm::fast;
  std::vector<std::string> axis_names;
};

/// The mean along dims of elements where the mask, of x's shape, is 1.
Located mean_along(const Located& x, const Dims& dims, const std::optional<Located>& mask) {
  ReduceOptions keep;
  keep.keepdims = true;
  if (!mask) return x.with(mean(x, Axes(dims), keep));
  const Located total = x.with(sum(choose(*mask, x, x.constant(0)), Axes(dims), keep));
  return total / x.with(sum(frontend::as_type(*mask, x.dtype()), Axes(dims), keep));
}

/// Averages over named axes too, in one exchange.
std::vector<Located> over_axes(std::vector<Located> means, const std::vector<std::string>& names) {
  if (names.empty()) return means;
  const Location l = means[0].location;
  std::vector<Array> parts;
  for (const Located& m : means) parts.push_back(m.array);
  const Array all = pmean({stack(parts, 0, l), l}, AxisNames(names));
  for (std::size_t i = 0; i < means.size(); ++i) {
    means[i].array = index({all, l}, {std::int64_t(i)});
  }
  return means;
}

Statistics statistics(const Located& x, const StatisticsPlan& plan,
                      const std::optional<Located>& mask) {
  const auto along = [&](const Located& v) { return mean_along(v, plan.dims, mask); };
  if (!plan.centred) {
    const Located square = over_axes({along(x * x)}, plan.axis_names)[0];
    return {square.constant(0), square};
  }
  if (plan.algorithm == VarianceAlgorithm::stable) {
    const Located centre = over_axes({along(x)}, plan.axis_names)[0];
    const Located d = x - centre;
    return {centre, over_axes({along(d * d)}, plan.axis_names)[0]};
  }
  const std::vector<Located> both = over_axes({along(x), along(x * x)}, plan.axis_names);
  // Rounding may make the difference negative.
  const Located difference = both[1] - both[0] * both[0];
  return {both[0], x.with(maximum(difference, difference.constant(0)))};
}

/// What the functions share: checks, dtypes and the last step.
class Normalizer {
 public:
  Normalizer(std::string op, const Operand& x, const std::optional<Array>& scale,
             const std::optional<Array>& bias)
      : op_(std::move(op)), x_(x), scale_(scale), bias_(bias), location_(x.location) {
    if (is_complex(shape_of(x).dtype)) {
      throw DTypeError(op_ + " of complex numbers (" + x.array.type_string() + ")", location_);
    }
    std::vector<Array> all{x.array};
    for (const auto* p : {&scale, &bias}) {
      if (!*p) continue;
      if (is_complex(internal::impl_of(**p, location_).shape.dtype)) {
        throw DTypeError(op_ + " with complex parameters", location_);
      }
      all.push_back(**p);
    }
    dtype_ = frontend::to_inexact(frontend::promote(all, location_).dtype);
  }

  const Shape& shape() const { return shape_of(x_); }
  Location location() const { return location_; }
  const std::string& op() const { return op_; }
  /// The dtype of statistics.
  DType work() const { return byte_size(dtype_) < 4 ? f32 : dtype_; }

  /// Checks that an array broadcasts to x; `what` names it.
  void check_broadcasts(const char* what, const std::optional<Array>& a) const {
    if (!a) return;
    const Dims& have = internal::impl_of(*a, location_).shape.dims;
    if (frontend::broadcast_shapes(op_, shape().dims, have, location_) != shape().dims) {
      refuse(what, *a, "an array that broadcasts to it");
    }
  }
  void check_parameters() const {
    check_broadcasts("scale", scale_);
    check_broadcasts("bias", bias_);
  }
  /// Checks that an array has an entry per feature.
  void check_feature(const char* what, const std::optional<Array>& a, std::int64_t axis) const {
    if (!a) return;
    if (internal::impl_of(*a, location_).shape.dims != Dims{shape().dim(axis)}) {
      refuse(what, *a, "[" + std::to_string(shape().dim(axis)) + "]");
    }
  }
  void check_feature_parameters(std::int64_t axis) const {
    check_feature("scale", scale_, axis);
    check_feature("bias", bias_, axis);
  }

  Located values() const { return {frontend::converted(x_.array, work(), location_), location_}; }
  /// As an array of x's shape, or none.
  std::optional<Located> mask(const std::optional<Array>& where) const {
    if (!where) return std::nullopt;
    const Located given{*where, location_};
    const Located flags =
        given.dtype() == DType::pred
            ? given
            : given != Located{frontend::program_constant(given.dtype(), 0), location_};
    return flags.with(frontend::broadcasted(flags.array, shape().dims, location_));
  }
  /// A parameter per feature, so that it broadcasts to x.
  Located along_axis(const Array& p, std::int64_t axis) const {
    Dims dims(shape().dims.size(), 1);
    dims[std::size_t(axis)] = shape().dim(axis);
    return {frontend::reshaped(frontend::converted(p, work(), location_), dims, location_),
            location_};
  }
  /// (x - mean) / sqrt(variance + epsilon) * scale + bias. `axis`: of parameters per feature.
  Array normalized(const Statistics& s, double epsilon,
                   std::optional<std::int64_t> axis = {}) const {
    const Located x = values();
    const auto parameter = [&](const Array& p) {
      return axis ? along_axis(p, *axis)
                  : Located{frontend::converted(p, work(), location_), location_};
    };
    Located factor = x.with(rsqrt(s.variance + epsilon));
    if (scale_) factor = factor * parameter(*scale_);
    Located out = (x - s.mean) * factor;
    if (bias_) out = out + parameter(*bias_);
    return frontend::as_type(out, dtype_).array;
  }

 private:
  [[noreturn]] void refuse(const char* what, const Array& a, const std::string& valid) const {
    throw ShapeError(op_ + " of " + shape().to_string() + ": " + what + " is " + a.type_string() +
                         "; give " + valid,
                     location_);
  }

  std::string op_;
  Operand x_;
  std::optional<Array> scale_, bias_;
  Location location_;
  DType dtype_ = f32;
};

Array normalized_along(const Normalizer& n, const NormOptions& options, bool centred) {
  n.check_parameters();
  n.check_broadcasts("where", options.where);
  const Dims dims = frontend::normalize_axes(n.op(), options.axes, n.shape().rank(), n.location());
  return composed(n.op(), n.location(), [&] {
    const StatisticsPlan plan{dims, centred, options.algorithm, {}};
    return n.normalized(statistics(n.values(), plan, n.mask(options.where)), options.epsilon);
  });
}

void check_has_features(const Normalizer& n) {
  if (n.shape().rank() >= 2) return;
  throw ValueError(n.op() + " of " + n.shape().to_string() + "; the array is [batch, .., features]",
                   n.location());
}

}  // namespace

Array layer_norm(Operand x, const std::optional<Array>& scale, const std::optional<Array>& bias,
                 const NormOptions& options) {
  return normalized_along(Normalizer("layer_norm", x, scale, bias), options, true);
}

Array rms_norm(Operand x, const std::optional<Array>& scale, const NormOptions& options) {
  return normalized_along(Normalizer("rms_norm", x, scale, {}), options, false);
}

Array instance_norm(Operand x, const std::optional<Array>& scale, const std::optional<Array>& bias,
                    const NormOptions& options) {
  const Normalizer n("instance_norm", x, scale, bias);
  check_has_features(n);
  const std::int64_t last = n.shape().rank() - 1;
  n.check_feature_parameters(last);
  n.check_broadcasts("where", options.where);
  return composed(n.op(), n.location(), [&] {
    StatisticsPlan plan{{}, true, options.algorithm, {}};
    for (std::int64_t d = 1; d < last; ++d) plan.dims.push_back(d);
    return n.normalized(statistics(n.values(), plan, n.mask(options.where)), options.epsilon, last);
  });
}

Array group_norm(Operand x, std::int64_t groups, const std::optional<Array>& scale,
                 const std::optional<Array>& bias, const NormOptions& options) {
  const Normalizer n("group_norm", x, scale, bias);
  check_has_features(n);
  const Dims dims = n.shape().dims;
  const auto last = std::int64_t(dims.size()) - 1;
  if (groups < 1 || dims.back() % groups != 0) {
    throw ValueError("group_norm of " + n.shape().to_string() + " with " + std::to_string(groups) +
                         " groups; the number of features, " + std::to_string(dims.back()) +
                         ", must be a multiple of the number of groups",
                     n.location());
  }
  n.check_feature_parameters(last);
  n.check_broadcasts("where", options.where);
  return composed(n.op(), n.location(), [&] {
    Dims grouped = dims;
    grouped.back() = groups;
    grouped.push_back(dims.back() / groups);
    const auto split = [&](const Located& v) {
      return v.with(frontend::reshaped(v.array, grouped, n.location()));
    };
    StatisticsPlan plan{{}, true, options.algorithm, {}};
    for (std::int64_t d = 1; d < last; ++d) plan.dims.push_back(d);
    plan.dims.push_back(last + 1);
    std::optional<Located> mask = n.mask(options.where);
    if (mask) mask = split(*mask);
    const Statistics of_groups = statistics(split(n.values()), plan, mask);
    // To each feature that of its group.
    Dims repeated(dims.size() + 1, 1), flat(dims.size(), 1);
    repeated[0] = flat[0] = dims[0];
    repeated[std::size_t(last)] = groups;
    repeated.back() = dims.back() / groups;
    flat.back() = dims.back();
    const auto spread = [&](const Located& s) {
      const Array whole = frontend::broadcasted(s.array, repeated, n.location());
      return s.with(frontend::reshaped(whole, flat, n.location()));
    };
    return n.normalized({spread(of_groups.mean), spread(of_groups.variance)}, options.epsilon,
                        last);
  });
}

BatchNormResult batch_norm(Operand x, const Array& mean, const Array& variance,
                           const std::optional<Array>& scale, const std::optional<Array>& bias,
                           const BatchNormOptions& options) {
  const Normalizer n("batch_norm", x, scale, bias);
  const std::int64_t axis =
      frontend::normalize_axis(n.op(), options.axis, n.shape().rank(), n.location());
  n.check_feature_parameters(axis);
  for (const Array* running : {&mean, &variance}) {
    if (!is_floating(internal::impl_of(*running, n.location()).shape.dtype)) {
      throw DTypeError(
          "batch_norm: running statistics must be floats, not " + running->type_string(),
          n.location());
    }
  }
  n.check_feature("the running mean", mean, axis);
  n.check_feature("the running variance", variance, axis);
  n.check_broadcasts("where", options.where);
  const std::vector<Array> out = frontend::as_one_program(n.op(), n.location(), [&] {
    if (!options.training) {
      const Statistics given{n.along_axis(mean, axis), n.along_axis(variance, axis)};
      return std::vector<Array>{n.normalized(given, options.epsilon, axis), mean, variance};
    }
    StatisticsPlan plan{{}, true, options.algorithm, options.axis_names};
    for (std::int64_t d = 0; d < n.shape().rank(); ++d) {
      if (d != axis) plan.dims.push_back(d);
    }
    const Statistics now = statistics(n.values(), plan, n.mask(options.where));
    const auto updated = [&](const Array& old, const Located& batch) {
      const Located kept{old, n.location()};
      const Located flat = frontend::as_type(
          batch.with(frontend::reshaped(batch.array, old.shape(), n.location())), old.dtype());
      return (kept * options.momentum + flat * (1 - options.momentum)).array;
    };
    return std::vector<Array>{n.normalized(now, options.epsilon, axis), updated(mean, now.mean),
                              updated(variance, now.variance)};
  });
  return {out[0], out[1], out[2]};
}

}  // namespace tessera
