// SPDX-License-Identifier: Apache-2.0
// Exchanges across processes of which all that is sent and received lies in one stretch of memory:
// which process sends what, and where it goes. Found once, so that a run only fills in addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "src/runtime/local_plan.h"

namespace tessera::runtime {

struct DirectExchange {
  static constexpr std::int32_t kExtra = -1, kStays = -2;
  /// Where a stretch begins: in one of the executor's buffers, or in memory for what is received
  /// and has no place of its own (kExtra), or in another process: it is the message of `receives`
  /// of number `offset`, which stays there (kStays).
  struct Place {
    std::int32_t buffer = kExtra;
    std::int64_t offset = 0;
    bool operator==(const Place&) const = default;
  };
  struct Result {
    SlotId slot = -1;
    std::int32_t buffer = -1;
    std::int32_t is = -1;      ///< not -1: it is this buffer, of an input or a result before it
    std::int32_t reuses = -1;  ///< not -1: it may take this buffer's memory, if nobody else has it
  };
  struct Message {
    int process = 0;
    Place at;
    std::int64_t bytes = 0;
  };
  /// A stretch of a result: the first of the terms, with which the others are combined one by one.
  struct Piece {
    Place to;
    std::int64_t bytes = 0;
    std::vector<Place> terms;
    bool waits = false;  ///< for what is received
  };
  std::vector<Result> results;
  std::vector<Message> sends, receives;
  std::vector<Piece> pieces;
  std::int64_t extra_bytes = 0;  ///< of what has no place of its own

  /// All-gathers, all-to-alls and reductions without outer dims.
  static bool fits(const Exchange& exchange);
  /// RuntimeError if a device is in no group.
  static DirectExchange of(const Plan& plan, const Exchange& exchange, const ActiveSet& active,
                           const LocalPlan::Traffic& traffic, const Processes& processes);
};

}  // namespace tessera::runtime
