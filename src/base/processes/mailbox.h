// SPDX-License-Identifier: Apache-2.0
// Messages between processes besides the exchanges of their programs: for threads that go on while
// others run programs, and never wait for those.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/base/processes/processes.h"

namespace tessera {

/// The kind of note that carries a piece of mail.
inline constexpr char kMailNote = 'm';

/// A box that each process has, to which all others can write. They are told apart by their order:
/// all processes must make theirs in the same one.
class Mailbox {
 public:
  /// `who`: for others, of what this process waits for in it; empty if it never does.
  Mailbox(Processes* processes, std::string who);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  Processes& processes() const { return *processes_; }
  /// Returns at once; `text` may be of any length.
  void send(int to, const std::string& text);
  struct Letter {
    int from = 0;
    std::string text;
  };
  /// The next one, if one arrives before the time is over. Those of a process keep their order.
  std::optional<Letter> next(std::chrono::milliseconds time);
  /// True if a process has ended, and all that it wrote has been read.
  bool has_left(int process) const;

 private:
  Processes* processes_;
  std::string who_;
  std::int64_t number_;
};

struct Processes::Mail {
  std::mutex mutex;
  std::int64_t boxes = 0;     ///< how many there have been
  std::atomic<int> open = 0;  ///< how many there are
  std::atomic<bool> unsent = false;
  std::deque<std::pair<int, std::string>> outgoing;             ///< notes
  std::map<std::pair<std::int64_t, int>, std::string> begun;    ///< letters without their ends
  std::map<std::int64_t, std::deque<Mailbox::Letter>> letters;  ///< by box
  std::deque<std::int64_t> closed;                              ///< the last boxes
  std::set<int> left;                                           ///< processes that have ended
  std::string waits;
};

}  // namespace tessera
