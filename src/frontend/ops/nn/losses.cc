// SPDX-License-Identifier: Apache-2.0
// Losses of regression and classification.
#include <tessera/losses.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/custom_derivative.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/nn.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/located.h"

namespace tessera::losses {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace {

/// Operands as real floats of one dtype, which broadcast.
class LossOperands {
 public:
  LossOperands(std::string op, const Operand& a, const std::optional<Array>& b)
      : op_(std::move(op)), location_(a.location) {
    arrays_.push_back(a.array);
    if (b) arrays_.push_back(*b);
    for (const Array& x : arrays_) {
      if (is_complex(internal::impl_of(x, location_).shape.dtype)) {
        throw DTypeError(op_ + " of complex numbers (" + x.type_string() + ")", location_);
      }
    }
    const Dims& first = shape_of(a).dims;
    dims_ = b ? frontend::broadcast_shapes(op_, first, b->shape(), location_) : first;
    dtype_ = frontend::to_inexact(frontend::promote(arrays_, location_).dtype);
  }
  LossOperands(const std::string& op, const Operand& a, const Operand& b)
      : LossOperands(op, a, std::optional<Array>(b.array)) {}

  const std::string& op() const { return op_; }
  Location location() const { return location_; }
  const Dims& dims() const { return dims_; }

  void need_one_shape() const {
    if (arrays_.size() < 2 || arrays_[0].shape() == arrays_[1].shape()) return;
    throw ShapeError(op_ + " of " + arrays_[0].type_string() + " and " + arrays_[1].type_string() +
                         ": both must have one shape",
                     location_);
  }
  /// Checks axes of the broadcast shape.
  void check_axes(const Axes& axes) const {
    (void)frontend::normalize_axes(op_, axes, std::int64_t(dims_.size()), location_);
  }
  void check_where(const std::optional<Array>& where) const {
    if (!where) return;
    const Dims& have = internal::impl_of(*where, location_).shape.dims;
    if (frontend::broadcast_shapes(op_, dims_, have, location_) != dims_) {
      throw ShapeError(op_ + " of shape " + to_string(dims_) + ": `where` is " +
                           where->type_string() + " and doesn't broadcast to it",
                       location_);
    }
  }

  Located a() const { return operand(0); }
  Located b() const { return operand(1); }
  /// a - b, or a alone.
  Located error() const { return arrays_.size() == 2 ? a() - b() : a(); }
  /// An operand of the broadcast shape.
  Located whole(const Located& x) const {
    return x.with(frontend::broadcasted(x.array, dims_, location_));
  }
  /// The sum along axes of what counts.
  Located total(const Located& x, const Axes& axes, const std::optional<Array>& where,
                bool keepdims = false) const {
    ReduceOptions options;
    options.keepdims = keepdims;
    const Located all = whole(x);
    if (!where) return all.with(sum(all, axes, options));
    const Located flags{*where, location_};
    const Located counts =
        flags.dtype() == DType::pred
            ? flags
            : flags != Located{frontend::program_constant(flags.dtype(), 0), location_};
    return all.with(sum(choose(counts, all, all.constant(0)), axes, options));
  }

 private:
  Located operand(std::size_t i) const {
    return {frontend::converted(arrays_[i], dtype_, location_), location_};
  }

  std::string op_;
  Location location_;
  std::vector<Array> arrays_;
  Dims dims_;
  DType dtype_ = f32;
};

/// Stages a function of checked operands.
template <class F>
Array loss(const LossOperands& o, F f) {
  return composed(o.op(), o.location(), [&] { return Located(f()).array; });
}

Located squared(const Located& x) { return x * x; }

/// The scores of integer labels along an axis, without it.
Located at_labels(const Located& scores, const Array& labels, std::int64_t axis) {
  const Located places{expand_dims({labels, scores.location}, axis), scores.location};
  const Array taken = take_along_axis(scores, places, axis);
  return scores.with(squeeze({taken, scores.location}, axis));
}

/// Checks integer labels of the scores' shape without an axis.
void check_labels(const std::string& op, const Operand& scores, const Array& labels,
                  std::int64_t axis) {
  const Shape &have = shape_of(scores), given = internal::impl_of(labels, scores.location).shape;
  if (is_complex(have.dtype)) {
    throw DTypeError(op + " of complex numbers (" + have.to_string() + ")", scores.location);
  }
  if (!is_integer(given.dtype)) {
    throw DTypeError(op + ": labels must be integers, not " + given.to_string(), scores.location);
  }
  Dims want = have.dims;
  want.erase(want.begin() + axis);
  if (given.dims != want) {
    throw ShapeError(op + " of " + have.to_string() + ": labels are " + given.to_string() +
                         " and must have shape " + to_string(want) + ", that without axis " +
                         std::to_string(axis),
                     scores.location);
  }
}

Located float_scores(const Operand& scores) {
  const DType t = frontend::to_inexact(shape_of(scores).dtype);
  return {frontend::converted(scores.array, t, scores.location), scores.location};
}

}  // namespace

Array squared_error(Operand predictions, const std::optional<Array>& targets) {
  const LossOperands o("squared_error", predictions, targets);
  o.need_one_shape();
  return loss(o, [&] { return squared(o.error()); });
}

Array l2_loss(Operand predictions, const std::optional<Array>& targets) {
  const LossOperands o("l2_loss", predictions, targets);
  o.need_one_shape();
  return loss(o, [&] { return 0.5 * squared(o.error()); });
}

Array huber_loss(Operand predictions, const std::optional<Array>& targets, double delta) {
  const LossOperands o("huber_loss", predictions, targets);
  return loss(o, [&] {
    const Located e = o.error(), size = e.with(abs(e));
    const Located inner = size.with(minimum(size, size.constant(delta)));
    return 0.5 * squared(inner) + delta * (size - inner);
  });
}

Array log_cosh(Operand predictions, const std::optional<Array>& targets) {
  const LossOperands o("log_cosh", predictions, targets);
  return loss(o, [&] {
    const Located e = o.error();
    return e.with(logaddexp(e, -e)) - std::numbers::ln2;
  });
}

namespace {

Located cosine(const LossOperands& o, double epsilon, const Axes& axes,
               const std::optional<Array>& where) {
  const auto unit = [&](const Located& x) {
    const Located length = o.total(squared(x), axes, where, true);
    return x / x.with(sqrt(x.with(maximum(length, length.constant(epsilon)))));
  };
  return o.total(unit(o.whole(o.a())) * unit(o.whole(o.b())), axes, where);
}

}  // namespace

Array cosine_similarity(Operand predictions, Operand targets, double epsilon, Axes axes,
                        const std::optional<Array>& where) {
  const LossOperands o("cosine_similarity", predictions, targets);
  o.check_axes(axes);
  o.check_where(where);
  return loss(o, [&] { return cosine(o, epsilon, axes, where); });
}

Array cosine_distance(Operand predictions, Operand targets, double epsilon, Axes axes,
                      const std::optional<Array>& where) {
  const LossOperands o("cosine_distance", predictions, targets);
  o.check_axes(axes);
  o.check_where(where);
  return loss(o, [&] { return 1.0 - cosine(o, epsilon, axes, where); });
}

Array softmax_cross_entropy(Operand logits, Operand labels, Axes axes,
                            const std::optional<Array>& where) {
  const LossOperands o("softmax_cross_entropy", logits, labels);
  o.check_axes(axes);
  o.check_where(where);
  return loss(o, [&] {
    const Located x = o.whole(o.a());
    return -o.total(o.b() * x.with(log_softmax(x, axes, where)), axes, where);
  });
}

Array safe_softmax_cross_entropy(Operand logits, Operand labels) {
  const LossOperands o("safe_softmax_cross_entropy", logits, labels);
  o.check_axes(-1);
  return loss(o, [&] {
    const Located x = o.whole(o.a()), p = o.whole(o.b());
    // Neither the value nor the derivative sees logits whose label is 0, except in the sum.
    const Located total{logsumexp(x, -1, true), x.location};
    const Located counts = p != 0.0;
    const Located terms = p * (choose(counts, x, x.constant(0)) - total);
    return -o.total(choose(counts, terms, terms.constant(0)), -1, {});
  });
}

Array softmax_cross_entropy_with_integer_labels(Operand logits, Operand labels, std::int64_t axis,
                                                const std::optional<Array>& where) {
  const std::string op = "softmax_cross_entropy_with_integer_labels";
  const Shape& shape = shape_of(logits);
  axis = frontend::normalize_axis(op, axis, shape.rank(), logits.location);
  check_labels(op, logits, labels.array, axis);
  const LossOperands o(op, logits, std::nullopt);
  o.check_where(where);
  return loss(o, [&] {
    const Located x = float_scores(logits);
    const Located chosen = at_labels(x, labels.array, axis);
    if (!where) return x.with(logsumexp(x, axis)) - chosen;
    const Array mask = frontend::broadcasted(*where, shape.dims, logits.location);
    const Located counts = mask.dtype() == DType::pred
                               ? x.with(mask)
                               : x.with(not_equal({mask, x.location}, {Array(0), x.location}));
    const Located any_counts = x.with(any(counts, axis));
    const Located least = x.constant(-std::numeric_limits<double>::infinity());
    // A row that nothing counts of must not give NaN in derivatives.
    const Located whole = x.with(
        frontend::broadcasted(x.with(any(counts, axis, true)).array, shape.dims, x.location));
    const Located taken = choose(counts, x, choose(whole, least, x.constant(0)));
    const Located out = x.with(logsumexp(taken, axis)) - chosen;
    return choose(any_counts, out, out.constant(0));
  });
}

Array poly_loss_cross_entropy(Operand logits, Operand labels, double epsilon, Axes axes,
                              const std::optional<Array>& where) {
  const LossOperands o("poly_loss_cross_entropy", logits, labels);
  o.check_axes(axes);
  o.check_where(where);
  return loss(o, [&] {
    const Located x = o.whole(o.a()), p = o.b();
    const Located others = o.total(p * (1.0 - x.with(softmax(x, axes, where))), axes, where);
    const Located cross = -o.total(p * x.with(log_softmax(x, axes, where)), axes, where);
    return cross + epsilon * others;
  });
}

namespace {

Located binary_cross_entropy(const Located& x, const Located& p) {
  return -p * x.with(log_sigmoid(x)) - (1.0 - p) * x.with(log_sigmoid(-x));
}

}  // namespace

Array sigmoid_binary_cross_entropy(Operand logits, Operand labels) {
  const LossOperands o("sigmoid_binary_cross_entropy", logits, labels);
  return loss(o, [&] { return binary_cross_entropy(o.a(), o.b()); });
}

Array sigmoid_focal_loss(Operand logits, Operand labels, std::optional<double> alpha,
                         double gamma) {
  const LossOperands o("sigmoid_focal_loss", logits, labels);
  return loss(o, [&] {
    const Located x = o.a(), p = o.b();
    const Located yes = x.with(log_sigmoid(x)), no = x.with(log_sigmoid(-x));
    // log((1 - p) sigmoid(x) + p sigmoid(-x)), relative to the larger term: what has no weight is
    // no term, however large.
    const Located q = 1.0 - p, none = x.constant(-std::numeric_limits<double>::infinity());
    const Located a = choose(q != 0.0, yes, none), b = choose(p != 0.0, no, none);
    const Located high = x.with(stop_gradient({maximum(a, b), x.location}));
    const Located wrong = q * x.with(exp(a - high)) + p * x.with(exp(b - high));
    const Located easy = x.with(exp(gamma * (x.with(log(wrong)) + high)));
    const Located out = binary_cross_entropy(x, p) * easy;
    if (!alpha) return out;
    return (*alpha * p + (1 - *alpha) * (1.0 - p)) * out;
  });
}

Array hinge_loss(Operand predictions, Operand targets) {
  const LossOperands o("hinge_loss", predictions, targets);
  return loss(o, [&] {
    const Located short_by = 1.0 - o.a() * o.b();
    return short_by.with(maximum(short_by.constant(0), short_by));
  });
}

Array perceptron_loss(Operand predictions, Operand targets) {
  const LossOperands o("perceptron_loss", predictions, targets);
  o.need_one_shape();
  return loss(o, [&] {
    const Located wrong_by = -o.a() * o.b();
    return wrong_by.with(maximum(wrong_by.constant(0), wrong_by));
  });
}

Array sparsemax_loss(Operand logits, Operand labels) {
  const LossOperands o("sparsemax_loss", logits, labels);
  return loss(o, [&] {
    const Located x = o.a();
    return x.with(sparse_plus(choose(o.b() != 0.0, -x, x)));
  });
}

namespace {

/// The largest score, to which `margin` is added except for the label's, minus the label's.
Array margin_loss(const std::string& op, const Operand& scores, const Operand& labels,
                  double margin) {
  const Shape& shape = shape_of(scores);
  const std::int64_t last = frontend::normalize_axis(op, -1, shape.rank(), scores.location);
  check_labels(op, scores, labels.array, last);
  return composed(op, scores.location, [&] {
    const Located x = float_scores(scores);
    const Located is_label{one_hot({labels.array, x.location}, shape.dims.back(), x.dtype()),
                           x.location};
    const Located raised = margin == 0 ? x : x + margin * (1.0 - is_label);
    return (x.with(max(raised, -1)) - x.with(sum(x * is_label, -1))).array;
  });
}

}  // namespace

Array multiclass_hinge_loss(Operand scores, Operand labels) {
  return margin_loss("multiclass_hinge_loss", scores, labels, 1);
}
Array multiclass_perceptron_loss(Operand scores, Operand labels) {
  return margin_loss("multiclass_perceptron_loss", scores, labels, 0);
}

namespace {

Located divergence(const LossOperands& o, const Axes& axes, const std::optional<Array>& where) {
  const Located p = o.b();
  const Located none = p == 0.0;
  // The logarithm of 0 has no finite derivative.
  const Located safe = choose(none, p.constant(1), p);
  const Located log_p = choose(none, p.constant(0), p.with(log(safe)));
  return o.total(p * (log_p - o.a()), axes, where);
}

}  // namespace

Array kl_divergence(Operand log_predictions, Operand targets, Axes axes,
                    const std::optional<Array>& where) {
  const LossOperands o("kl_divergence", log_predictions, targets);
  o.check_axes(axes);
  o.check_where(where);
  return loss(o, [&] { return divergence(o, axes, where); });
}

Array kl_divergence_with_log_targets(Operand log_predictions, Operand log_targets, Axes axes,
                                     const std::optional<Array>& where) {
  const LossOperands o("kl_divergence_with_log_targets", log_predictions, log_targets);
  o.check_axes(axes);
  o.check_where(where);
  return loss(o, [&] {
    const Located q = o.b();
    return o.total(q.with(exp(q)) * (q - o.a()), axes, where);
  });
}

Array generalized_kl_divergence(Operand log_predictions, Operand targets, Axes axes,
                                const std::optional<Array>& where) {
  const LossOperands o("generalized_kl_divergence", log_predictions, targets);
  o.check_axes(axes);
  o.check_where(where);
  return loss(o, [&] {
    const Located x = o.a();
    return divergence(o, axes, where) + o.total(x.with(exp(x)) - o.b(), axes, where);
  });
}

Array smooth_labels(Operand labels, Operand alpha) {
  const LossOperands o("smooth_labels", labels, alpha);
  const Shape& shape = shape_of(labels);
  if (shape.rank() < 1 || o.dims() != shape.dims) {
    throw ShapeError("smooth_labels of " + shape.to_string() + " by " + alpha.array.type_string() +
                         "; labels are [.., classes], and alpha must broadcast to them",
                     o.location());
  }
  return loss(o, [&] {
    const Located share = o.b();
    return (1.0 - share) * o.a() + share / double(std::max<std::int64_t>(shape.dims.back(), 1));
  });
}

}  // namespace tessera::losses
