// SPDX-License-Identifier: Apache-2.0
// Scores complete programs by bytes, work and memory relative to what was asked for.
#include "src/spmd/refine/score.h"

#include <algorithm>
#include <cmath>

namespace tessera::spmd {
namespace {

// Bytes received have a weight of one.
constexpr double kWork = 0.2, kHeld = 0.4, kPrice = 0.3;
/// Of what is above what was asked for, in addition: bytes, and the other two beyond some slack.
constexpr double kBytesAbove = 40, kAbove = 5;
constexpr double kMoreWork = 1.05, kMoreHeld = 1.1;

double more(double now, double asked) { return std::log((now + 1) / (asked + 1)); }
double beyond(double more, double slack) { return std::max(more - std::log(slack), 0.0); }

}  // namespace

Outcome least_of(const Outcome& a, const Outcome& b) {
  return {std::min(a.bytes, b.bytes), std::min(a.dot_flops, b.dot_flops), std::min(a.held, b.held)};
}

double score_of(const Outcome& o, double price, const Outcome& asked) {
  const double bytes = more(o.bytes, asked.bytes), work = more(o.dot_flops, asked.dot_flops),
               held = more(o.held, asked.held);
  const double above =
      kBytesAbove * beyond(bytes, 1) + kAbove * (beyond(work, kMoreWork) + beyond(held, kMoreHeld));
  return bytes + kWork * work + kHeld * held + kPrice * std::log(price + 1) + above;
}

}  // namespace tessera::spmd
