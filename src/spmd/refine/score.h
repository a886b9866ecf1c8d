// SPDX-License-Identifier: Apache-2.0
// Which of several programs for the same is the best.
#pragma once

namespace tessera::spmd {

/// What one device does and holds once a program is compiled.
struct Outcome {
  double bytes = 0;      ///< received
  double dot_flops = 0;  ///< of its dots and convolutions
  double held = 0;       ///< bytes, at most
};
/// Of each the less.
Outcome least_of(const Outcome& a, const Outcome& b);

/// The less, the better: the logarithms of the bytes received, the work and the bytes held, each
/// against what the program asks for as it is propagated, and of the price. What is above that
/// counts several times, so that nothing is won at the cost of another. The weights are those with
/// which the fewest of a thousand programs are above XLA's in anything; they hardly matter within a
/// factor of two.
double score_of(const Outcome& outcome, double price, const Outcome& asked);

}  // namespace tessera::spmd
