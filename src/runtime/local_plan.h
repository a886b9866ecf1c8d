// SPDX-License-Identifier: Apache-2.0
// What one of several processes runs of a plan: the steps of all for its own devices, and the parts
// of exchanges that cross processes.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/processes.h"
#include "src/runtime/active_set.h"
#include "src/runtime/plan.h"

namespace tessera::runtime {

/// Any of its functions is for one thread at a time. The plan must outlive it.
class LocalPlan {
 public:
  /// `process_of`: per logical device, the process that owns it.
  LocalPlan(const Plan& plan, std::vector<std::int32_t> process_of, Processes* processes,
            std::string name);

  Processes& processes() const { return *processes_; }
  const std::string& name() const { return name_; }
  const std::vector<std::uint8_t>& local() const { return local_; }
  bool is_local(std::int32_t device) const { return local_[std::size_t(device)] != 0; }
  std::int32_t process_of(std::int32_t device) const { return process_of_[std::size_t(device)]; }
  /// The processes that own a device of the plan, in order.
  const std::vector<int>& members() const { return members_; }
  bool takes_part() const { return takes_part_; }
  /// Whether any exchange has a group with devices of several processes.
  bool crosses() const { return crosses_; }
  bool crosses(const Exchange& exchange) const;
  /// A loop or conditional that contains an exchange across processes: all must know which devices
  /// go where.
  bool must_agree(const Step& step) const { return marks_.at(&step).agrees; }
  /// A kernel with effects on values that several processes have: one of them runs it.
  bool shares(const Step& step) const {
    const auto found = marks_.find(&step);
    return found != marks_.end() && found->second.shares;
  }
  /// By which messages of a step are told from others'.
  std::uint32_t tag(const Step& step) const { return marks_.at(&step).tag; }
  /// "all-reduce sum.3"
  static std::string title(const Step& step, const Exchange& exchange);
  Activity activity(const Step& step, std::string_view what) const {
    return {what, name_, step.location};
  }

  /// A slot's value in one class of devices, or a column of it (see Exchange::Part: the part of one
  /// place in the group, of an input with a part for each), for or from another process.
  struct Message {
    SlotId slot = -1;
    std::int32_t cls = 0;
    std::int64_t column = -1;  ///< -1: all of it
    int process = 0;
    std::size_t part = 0;
    friend auto operator<=>(const Message& a, const Message& b) = default;
  };
  struct Traffic {
    std::vector<Message> sends, receives;
    bool empty() const { return sends.empty() && receives.empty(); }
  };
  /// Each value that a process lacks goes there once, from one of those that have it. Of a pair of
  /// processes both list its messages in the same order.
  const Traffic& traffic(const Exchange& exchange, const ActiveSet& active);

  /// Per class with an active device: the processes that have one.
  std::vector<std::vector<int>> holders(ClassesId id, const ActiveSet& active) const;

  /// Compares, once, what all members run. RuntimeError, on all of them, if they run different
  /// programs. In a Turn.
  void check_same();

 private:
  struct Mark {
    std::uint32_t tag = 0;
    bool agrees = false, shares = false;
  };
  bool mark(const Block& block, std::uint32_t* next, std::string* text);
  Traffic find_traffic(const Exchange& exchange, const ActiveSet& active) const;

  const Plan& plan_;
  std::vector<std::int32_t> process_of_;
  Processes* processes_;
  std::string name_;
  std::vector<std::uint8_t> local_;
  std::vector<int> members_;
  bool takes_part_ = false, crosses_ = false, checked_ = false;
  std::string text_;  ///< its exchanges, one a line
  std::uint64_t hash_ = 0;
  // Looked up, never walked.
  std::unordered_map<const Step*, Mark> marks_;
  std::unordered_map<const Exchange*, Traffic> traffic_;
  Traffic partial_;  ///< of an exchange among some of the devices
};

}  // namespace tessera::runtime
