// SPDX-License-Identifier: Apache-2.0
// Prices a partitioned program and decides whether one price improves on another.
#include "src/spmd/refine/price.h"

#include <algorithm>
#include <cmath>

namespace tessera::spmd {
namespace {

/// Bytes-equivalent of a dot's flop: more than where one op is laid out, since a program that
/// repeats work does so on every run; and of one beyond what the shardings as they stand share out.
constexpr double kBytesPerDotFlop = 0.02, kBytesPerRepeatedFlop = 0.5;
/// For half the work a program may receive half again the bytes; where that is less than the
/// shardings as they stand ask for, a seventh, and half again while that is less than what starting
/// one collective costs, but nothing for less than a sixth of the work.
constexpr double kBytesForWork = 0.6, kBytesForLessThanGiven = 0.2, kFewBytes = 0.5;
constexpr double kWorthBytes = 1.2;
/// Other work may grow so much with it, and what was won of the dots' be lost again up to this.
constexpr double kElementsForWork = 1.1, kWorkKept = 1.3;
/// Work other than dots may grow by so much over the program as propagated.
constexpr double kMoreElements = 1.4;
/// A program may do so much more if each flop saves so many bytes.
constexpr double kMoreFlops = 1.1, kBytesForMore = 2;

}  // namespace

Price price_of(const CommunicationCount& c, const CostModel& model, const Given& given) {
  return {c.total_bytes + model.transfer.latency_bytes * c.executed +
              kBytesPerDotFlop * c.dot_flops +
              kBytesPerRepeatedFlop * std::max(0.0, c.dot_flops - given.dot_flops) +
              model.bytes_per_flop * c.elements,
          c.total_bytes, c.dot_flops, c.elements};
}

bool improves(const Price& price, const Price& best, const Given& given) {
  const bool more_bytes = price.bytes > best.bytes * 1.001;
  // Fewer flops pay for bytes only where work is repeated, or the program as propagated has them.
  const bool less_work = price.dot_flops < best.dot_flops * 0.999 &&
                         (best.dot_flops > given.dot_flops * 1.001 ||
                          (!given.states_dots && price.bytes <= given.propagated.bytes));
  return price.cost < best.cost * 0.999 && (!more_bytes || less_work) &&
         price.elements <=
             std::max(best.elements * 1.02, given.propagated.elements * kMoreElements) &&
         (price.dot_flops <= best.dot_flops * 1.001 || price.dot_flops <= given.dot_flops * 1.001 ||
          (price.dot_flops <= best.dot_flops * kMoreFlops &&
           (price.dot_flops - best.dot_flops) * kBytesForMore < best.bytes - price.bytes));
}

bool worth_its_bytes(const Price& dear, const Price& now, const Given& given,
                     double latency_bytes) {
  const double work = now.dot_flops / std::max(dear.dot_flops, 1.0);
  if (work < 1.001 || dear.elements > now.elements * kElementsForWork) return false;
  const bool repeated = now.dot_flops > given.dot_flops * 1.001;
  const bool pays = repeated || (!given.states_dots && work > kWorthBytes);
  const double for_work = repeated ? kBytesForWork : pays ? kBytesForLessThanGiven : 0;
  const double few = pays ? std::min(latency_bytes, kFewBytes * now.bytes) : 0;
  // What the search has won of what the program as propagated receives may be spent on less work.
  const bool won = !given.states_dots && dear.bytes <= given.propagated.bytes &&
                   dear.bytes <= now.bytes * std::pow(work, kBytesForWork);
  return won || dear.bytes <= now.bytes * std::pow(work, for_work) + few ||
         improves(dear, now, given);
}

double kept_of(const Price& dear) { return kWorkKept * dear.dot_flops; }

bool bytes_matter(const Price& price) { return price.bytes > kBytesPerDotFlop * price.dot_flops; }

}  // namespace tessera::spmd
