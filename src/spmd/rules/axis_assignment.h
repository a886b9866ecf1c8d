// SPDX-License-Identifier: Apache-2.0
// All ways to put mesh axes on the factors of an op, or on the dims of an array.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/small_vector.h"

namespace tessera::spmd {

/// Goes through all assignments of groups of axes to slots. Slots are filled in order, the list of
/// each one group at a time, so that each assignment is met once; groups may be left out. Those
/// with groups on the first slots alone come first: parts of an array's first dims are contiguous,
/// so among equals such a layout is to be found first.
template <class Fits, class Visit>
class AxisAssignments {
 public:
  /// `placed`: by group, whether it isn't to be put anywhere. `fits(slot, axes)`: whether a slot
  /// can have these axes, major to minor; if not, it can't have more. `visit(lists)` gets the axes
  /// of all slots, and returns false to end.
  AxisAssignments(const std::vector<IndexList>& groups, std::vector<char> placed, Fits fits,
                  Visit visit)
      : groups_(groups),
        placed_(std::move(placed)),
        fits_(std::move(fits)),
        visit_(std::move(visit)) {}

  /// `lists`: the axes that slots have from the start.
  void run(std::vector<IndexList> lists) {
    lists_ = std::move(lists);
    fill(lists_.size());
  }

 private:
  /// The slots before `end`.
  bool fill(std::size_t end) {
    if (end == 0) return visit_(std::as_const(lists_));
    return fill(end - 1) && extend(end - 1);
  }

  bool extend(std::size_t slot) {
    IndexList& list = lists_[slot];
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (placed_[g]) continue;
      list.insert(list.end(), groups_[g].begin(), groups_[g].end());
      if (fits_(slot, std::as_const(list))) {
        placed_[g] = 1;
        if (!fill(slot) || !extend(slot)) return false;
        placed_[g] = 0;
      }
      list.resize(list.size() - groups_[g].size());
    }
    return true;
  }

  const std::vector<IndexList>& groups_;
  std::vector<char> placed_;
  Fits fits_;
  Visit visit_;
  std::vector<IndexList> lists_;
};

}  // namespace tessera::spmd
