// SPDX-License-Identifier: Apache-2.0
// What the search compares: programs as they come out of partitioning, before they are compiled.
#pragma once

#include "src/spmd/collectives/count.h"
#include "src/spmd/cost.h"

namespace tessera::spmd {

struct Price {
  double cost = 0, bytes = 0, dot_flops = 0, elements = 0;
};

/// What a search measures others against.
struct Given {
  Price propagated;          ///< before anything was tried
  double dot_flops = 0;      ///< what a device multiplies as the shardings stand
  double least_flops = 0;    ///< and where devices share all of it
  bool states_dots = false;  ///< the program says of each dot how its operands and its result lie
};

Price price_of(const CommunicationCount& count, const CostModel& model, const Given& given);

/// Less for the price, and no more bytes or work but for what each is worth of the other.
bool improves(const Price& price, const Price& best, const Given& given);

/// Whether dots that are laid out at a higher price, `dear`, save work that is worth their bytes.
bool worth_its_bytes(const Price& dear, const Price& now, const Given& given, double latency_bytes);
/// Of the work that dearer dots save, this much may be done again.
double kept_of(const Price& dear);

/// Where dots are most of what a program costs, there is little to be won.
bool bytes_matter(const Price& price);

}  // namespace tessera::spmd
