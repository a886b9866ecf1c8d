// SPDX-License-Identifier: Apache-2.0
// Loss functions.
#pragma once

#include <cstdint>
#include <optional>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Losses, with the names and definitions of optax.losses. They aren't averaged: apply `mean`.
///
/// Operands are promoted, and broadcast unless stated otherwise; integers become f32. Where there
/// is a parameter `where`, it is an array that broadcasts to the others and says which elements
/// count.
/// @code
/// Array loss = mean(losses::softmax_cross_entropy_with_integer_labels(logits, labels));
/// @endcode
/// @throws ShapeError if shapes don't fit.
/// @throws DTypeError for complex numbers.
///
/// All messages name the caller's line.

namespace tessera::losses {

/// (predictions - targets)^2, of arrays of one shape; without targets predictions^2.
Array squared_error(Operand predictions, const std::optional<Array>& targets = {});
/// Half of `squared_error`.
Array l2_loss(Operand predictions, const std::optional<Array>& targets = {});
/// e^2 / 2 of the error e where |e| <= delta, beyond that delta * (|e| - delta / 2).
Array huber_loss(Operand predictions, const std::optional<Array>& targets = {}, double delta = 1.0);
/// log(cosh(predictions - targets)) without overflow.
Array log_cosh(Operand predictions, const std::optional<Array>& targets = {});
/// Cosine of the angle between vectors along `axes`. Squared lengths are at least `epsilon`; with 0
/// a vector of zeros gives NaN.
Array cosine_similarity(Operand predictions, Operand targets, double epsilon = 0, Axes axes = -1,
                        const std::optional<Array>& where = {});
/// 1 - cosine_similarity
Array cosine_distance(Operand predictions, Operand targets, double epsilon = 0, Axes axes = -1,
                      const std::optional<Array>& where = {});

/// -sum(labels * log_softmax(logits)) along `axes`.
/// @param logits  Unnormalised log-probabilities.
/// @param labels  Probabilities of the classes; broadcasts to the logits' shape.
/// @param axes  The axes of classes.
/// @param where  Classes that take part.
Array softmax_cross_entropy(Operand logits, Operand labels, Axes axes = -1,
                            const std::optional<Array>& where = {});
/// The same along the last axis where logits may be -infinity if the label there is 0.
Array safe_softmax_cross_entropy(Operand logits, Operand labels);
/// -log_softmax(logits)[label] along an axis: logits [.., C, ..], labels integers of that shape
/// without the axis. Negative labels count from the end, others out of range give NaN.
/// @throws DTypeError if labels aren't integers.
Array softmax_cross_entropy_with_integer_labels(Operand logits, Operand labels,
                                                std::int64_t axis = -1,
                                                const std::optional<Array>& where = {});
/// softmax_cross_entropy + epsilon * sum(labels * (1 - softmax(logits))).
Array poly_loss_cross_entropy(Operand logits, Operand labels, double epsilon = 2.0, Axes axes = -1,
                              const std::optional<Array>& where = {});
/// -labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)) without overflow.
Array sigmoid_binary_cross_entropy(Operand logits, Operand labels);
/// sigmoid_binary_cross_entropy * (1 - p)^gamma with the probability p of the label, so that what
/// is easy counts less (Lin et al., "Focal loss for dense object detection", 2017).
/// @param logits  Logits of independent binary decisions.
/// @param labels  0 or 1, or between.
/// @param alpha  Weight of label 1; 1 - alpha is that of label 0. Without it both are 1.
/// @param gamma  The exponent.
Array sigmoid_focal_loss(Operand logits, Operand labels, std::optional<double> alpha = {},
                         double gamma = 2.0);
/// max(0, 1 - predictions * targets) with targets -1 and 1.
Array hinge_loss(Operand predictions, Operand targets);
/// max(0, -predictions * targets) with targets -1 and 1, of arrays of one shape.
Array perceptron_loss(Operand predictions, Operand targets);
/// sparse_plus(-logits) where labels are nonzero, else sparse_plus(logits).
Array sparsemax_loss(Operand logits, Operand labels);
/// max(scores + 1 - one_hot(labels)) - scores[label] along the last axis: scores [.., C], labels
/// [..] integers.
/// @throws DTypeError if labels aren't integers.
Array multiclass_hinge_loss(Operand scores, Operand labels);
/// max(scores) - scores[label], as `multiclass_hinge_loss`.
Array multiclass_perceptron_loss(Operand scores, Operand labels);

/// sum(targets * (log(targets) - log_predictions)) along `axes`; targets of 0 add 0.
Array kl_divergence(Operand log_predictions, Operand targets, Axes axes = -1,
                    const std::optional<Array>& where = {});
/// The same with the logarithm of the targets.
Array kl_divergence_with_log_targets(Operand log_predictions, Operand log_targets, Axes axes = -1,
                                     const std::optional<Array>& where = {});
/// kl_divergence + sum(exp(log_predictions) - targets), for what doesn't add up to 1.
Array generalized_kl_divergence(Operand log_predictions, Operand targets, Axes axes = -1,
                                const std::optional<Array>& where = {});
/// (1 - alpha) * labels + alpha / C along the last axis of size C.
Array smooth_labels(Operand labels, Operand alpha);

}  // namespace tessera::losses
