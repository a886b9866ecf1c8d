// SPDX-License-Identifier: Apache-2.0
// What one of several processes runs of a plan: the steps of all for its own devices, and the parts
// of exchanges that cross processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/processes/processes.h"
#include "src/runtime/active_set.h"
#include "src/runtime/plan.h"

namespace tessera::runtime {

struct DirectExchange;
struct ScatteredSums;

/// `traffic`, `direct`, `scattered`, `messages` and `check_same` are for one thread at a time, in a
/// turn. The plan must outlive it.
class LocalPlan {
 public:
  /// `process_of`: per logical device, the process that owns it. `combiners`: by which operations
  /// it combines what devices have, as text: the processes compare it.
  LocalPlan(const Plan& plan, std::vector<std::int32_t> process_of, Processes* processes,
            std::string name, const std::string& combiners = {});
  ~LocalPlan();

  Processes& processes() const { return *processes_; }
  bool is_of(const Processes& processes) const { return processes_id_ == processes.id(); }
  const std::string& name() const { return name_; }
  /// All devices, of which those of this process are listed.
  const ActiveSet& everything() const { return *everything_; }
  bool is_local(std::int32_t device) const { return local_[std::size_t(device)] != 0; }
  std::int32_t process_of(std::int32_t device) const { return process_of_[std::size_t(device)]; }
  /// The processes that own a device of the plan, in order.
  const std::vector<int>& members() const { return members_; }
  Processes::Group* group() const { return group_; }
  bool takes_part() const { return takes_part_; }
  /// Whether it takes messages to run: for exchanges with groups that have devices of several
  /// processes, and for calls of functions of the host that several processes make.
  bool crosses() const { return crosses_; }
  /// Whether a run that begins must be in a turn: if the plan crosses processes, or is to be
  /// compared, as before the first run of what it exchanges. Otherwise there is nothing whose order
  /// counts.
  bool takes_turn();
  bool crosses(const Exchange& exchange) const;

  /// What is known of a step; of kernels only if they have effects.
  struct Mark {
    /// By which its messages are told from others'.
    std::uint32_t tag = 0;
    /// A loop or conditional that contains an exchange across processes: all must know which
    /// devices go where.
    bool agrees = false;
    /// A kernel with effects on values that several processes have: one of them runs it.
    bool shares = false;
    /// An exchange with a group that has devices of several processes.
    bool crosses = false;
    bool chains = false;    ///< as chains() says
    bool fits = false;      ///< whether it can be done in one step
    bool scatters = false;  ///< whether all devices do it in two
    /// Once they are found: how all devices do it in one step, and in two.
    mutable const DirectExchange* direct = nullptr;
    mutable const ScatteredSums* scattered = nullptr;
    std::string title;  ///< of an exchange
  };
  const Mark& mark(const Step& step) const { return marks_.at(&step); }
  bool shares(const Step& step) const {
    if (!any_shares_) return false;
    const auto found = marks_.find(&step);
    return found != marks_.end() && found->second.shares;
  }
  std::uint32_t tag(const Step& step) const { return mark(step).tag; }
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
  /// How it is done in one step, if it fits.
  const DirectExchange& direct(const Mark& mark, const Exchange& exchange, const ActiveSet& active);
  /// How all devices do it in two steps, if it is one of those.
  const ScatteredSums& scattered(const Mark& mark, const Exchange& exchange);
  /// Whether it is an all-reduce that goes through the processes one after the other.
  bool chains(const Exchange& exchange) const;
  /// The most that any exchange holds here of what it receives, and of what it packs to send,
  /// besides results. Any thread may ask.
  std::int64_t exchange_bytes() const { return exchange_bytes(plan_.entry); }
  /// Memory for the lists of what an exchange sends and receives.
  std::pair<std::vector<Outgoing>, std::vector<Incoming>>& messages() { return messages_; }

  /// Per class with an active device: the processes that have one.
  std::vector<std::vector<int>> holders(ClassesId id, const ActiveSet& active) const;

  /// Compares what all members run, unless they have done so: another plan with the same exchanges
  /// is as good, so that a process may make a plan anew. RuntimeError, on all of them, if they run
  /// different programs. In a Turn.
  void check_same();

 private:
  std::int64_t exchange_bytes(const Block& block) const;
  bool mark_all(const Block& block, std::uint32_t* next);
  /// Adds a line to what is compared.
  void list(const std::string& line, const Location& location = {});
  Traffic find_traffic(const Exchange& exchange, const ActiveSet& active) const;

  const Plan& plan_;
  std::vector<std::int32_t> process_of_;
  Processes* processes_;
  std::uint64_t processes_id_;
  std::string name_;
  std::vector<std::uint8_t> local_;
  std::optional<ActiveSet> everything_;
  std::vector<int> members_;
  Processes::Group* group_ = nullptr;
  bool takes_part_ = false, crosses_ = false, checked_ = false, any_shares_ = false;
  std::atomic<bool> ran_ = false;
  std::string text_;  ///< its exchanges, one a line
  std::uint64_t hash_ = 0;
  // Looked up, never walked.
  std::unordered_map<const Step*, Mark> marks_;
  std::unordered_map<const Exchange*, Traffic> traffic_;
  // Of all devices, as marks have them.
  std::vector<std::unique_ptr<DirectExchange>> direct_;
  std::vector<std::unique_ptr<ScatteredSums>> scattered_;
  // Of an exchange among some of the devices.
  Traffic partial_;
  std::unique_ptr<DirectExchange> partial_direct_;
  std::pair<std::vector<Outgoing>, std::vector<Incoming>> messages_;
};

}  // namespace tessera::runtime
