// SPDX-License-Identifier: Apache-2.0
// The processes that run this program together, and what they tell each other. All run the same
// program, so that what one sends is what another expects next; if that turns out to be otherwise,
// or takes too long, all of them end with an error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tessera/device.h>
#include <tessera/error.h>

#include "src/base/processes/transport.h"

namespace tessera {

/// What a process does that exchanges something with others, for messages.
struct Activity {
  std::string_view what;     ///< "all-reduce sum.3"
  std::string_view program;  ///< "f"; empty outside of programs
  Location location;
  std::string to_string() const;
};

class Processes {
 public:
  Processes(std::shared_ptr<Transport> transport, std::chrono::milliseconds timeout);
  ~Processes();

  int index() const { return index_; }
  int count() const { return count_; }
  /// A number that no other object of this class has.
  std::uint64_t id() const { return id_; }
  /// How long a process waits for another one.
  std::chrono::milliseconds timeout() const { return timeout_; }

  /// Processes that do things together, of which the others need not know: each group counts its
  /// own turns.
  class Group {
   public:
    /// In order.
    const std::vector<int>& members() const { return members_; }
    bool contains(int process) const;
    /// Whether the members have found that they all have this: they know it or not alike.
    bool agreed_on(std::uint64_t what) const;
    void agree_on(std::uint64_t what);

   private:
    friend class Processes;
    std::vector<int> members_;
    std::uint32_t mark_ = 0;  ///< in the tags of its messages
    std::int64_t turns_ = 0;  ///< begun, which the lock of turns guards
    mutable std::mutex mutex_;
    std::set<std::uint64_t> agreed_;
  };
  /// Stays. Members are in order, and of one list there is one group.
  Group* group(const std::vector<int>& members);

  /// Held by a thread for as long as what it exchanges must not mix with what others do. Turns nest
  /// within a thread: inner ones are part of the outermost.
  class Turn {
   public:
    /// Of a group, of all processes if it is null. RuntimeError if the processes have failed
    /// before. The activity's texts must stay.
    Turn(Processes* processes, const Activity& activity, Group* group = nullptr);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// The error by which the turn is about to end, for those that wait for this process.
    void fails_by(const std::string& error) { error_ = error; }

   private:
    Processes* processes_;
    int uncaught_;
    Activity activity_;
    std::string error_;
  };

  class Ticket {
   public:
    Ticket() = default;

   private:
    friend class Processes;
    Transport::TransferPtr transfer_;
  };
  /// In a Turn: starts to move messages (see Transport::start), and waits until they are moved.
  /// RuntimeError, on all processes, if that takes longer than the timeout, a process has ended or
  /// failed, or exchanges something else.
  Ticket start(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
               std::uint32_t tag);
  void finish(Ticket* ticket, const Activity& activity);
  /// Before that: waits until what stays where it is can be read.
  void arrive(Ticket* ticket, const Activity& activity);
  /// See Transport::can_read and read.
  bool can_read(int process, std::size_t bytes) const {
    return transport_->can_read(process, bytes);
  }
  void read(const Ticket& ticket, std::size_t incoming, std::size_t offset, std::byte* to,
            std::size_t bytes) {
    transport_->read(ticket.transfer_.get(), incoming, offset, to, bytes);
  }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                std::uint32_t tag, const Activity& activity);
  /// In a Turn: what each member says, in the order of `members`, of which this process is one.
  std::vector<std::string> gather(std::span<const int> members, const std::string& mine,
                                  const Activity& activity);

  /// Ends the connections.
  void close();

 private:
  friend class Mailbox;
  using Clock = std::chrono::steady_clock;

  using Progress = bool (Transport::*)(Transport::Transfer*, std::string*);
  void wait_until(Progress done, Ticket* ticket, const Activity& activity);
  void take_notes();
  /// Sends and receives mail, unless another thread has the turn: that one does it then.
  void move_mail();
  void post_mail();
  void take_mail(int from, const std::string& note);
  struct Failure {
    std::int64_t turn = 0;  ///< of those with this process
    std::string text;
    bool alone = false;  ///< not because of an exchange, in which others have a part
  };
  /// By which this turn can't go on; null if there is none.
  const Failure* failure_of_others() const;
  /// Why a message was another one than is expected: its sender may have failed before.
  std::string reason_of(const std::string& error);
  /// After SIGTERM: says what this process waited for, and ends it.
  [[noreturn]] void end_here(const Ticket& ticket, const Activity& activity);
  /// Throws, and makes all others that wait do so.
  [[noreturn]] void fail(const std::string& why, const Activity& activity);
  void tell_failure(const std::string& text, bool alone);
  std::string where_others_are(Clock::time_point since);
  std::string state() const;

  std::shared_ptr<Transport> transport_;
  const int index_, count_;
  const std::uint64_t id_;
  const std::chrono::milliseconds timeout_;
  const bool yields_;

  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  int depth_ = 0;
  Group* group_ = nullptr;                ///< whose turn it is
  std::vector<std::int64_t> turns_with_;  ///< number of turns begun that each process has a part in
  std::mutex groups_mutex_;
  std::map<std::vector<int>, std::unique_ptr<Group>> groups_;
  Group* everybody_ = nullptr;
  std::string failed_;  ///< why nothing can be exchanged any more

  // What this process waits for.
  const Activity* waiting_ = nullptr;
  int waits_for_ = -1;
  Clock::time_point since_;
  // From notes, by process.
  std::map<int, std::string> states_, ended_;
  std::map<int, Failure> failures_;
  std::atomic<bool> closed_ = false;

  // Mail, which has a lock of its own: who writes or reads some never waits for a turn.
  struct Mail;
  std::unique_ptr<Mail> mail_;
};

/// The processes of this program; null if it runs in one. They are found at the first call, by the
/// environment and TESSERA_ENGINE: see docs/several-processes.md. RuntimeError if they can't be
/// connected.
Processes* processes();
/// Whether a device belongs to this process.
bool is_local(const Device& device);
/// The first device of this process: that of arrays which are on no certain one.
const Device& default_device();

/// Makes this thread a process of its own while it exists, with connections by `transport`, and
/// `devices_per_process` devices in each process: so that several processes can be tested in one.
class SimulatedProcess {
 public:
  SimulatedProcess(std::shared_ptr<Transport> transport, std::int64_t devices_per_process,
                   std::chrono::milliseconds timeout);
  ~SimulatedProcess();
  SimulatedProcess(const SimulatedProcess&) = delete;
  SimulatedProcess& operator=(const SimulatedProcess&) = delete;
};

/// Which process a thread is of, for work that it gives to others.
class ProcessOfThread {
 public:
  ProcessOfThread();
  /// Makes this thread one of that process while it exists.
  class Use {
   public:
    explicit Use(const ProcessOfThread& process);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    void* before_;
  };

 private:
  void* context_;  ///< null: there is no simulated one
};

}  // namespace tessera
