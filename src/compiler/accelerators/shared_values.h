// SPDX-License-Identifier: Apache-2.0
// What the processes of a program have told each other for a plugin.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/processes/mailbox.h"
#include "src/compiler/accelerators/client.h"

namespace tessera::compiler::accelerators {

/// Each process knows all that was said. The first process decides which value of a key came first,
/// and tells all others, so that no key has two.
class SharedKeyValues final : public KeyValues {
 public:
  explicit SharedKeyValues(Processes* all);
  ~SharedKeyValues() override { end(); }
  SharedKeyValues(const SharedKeyValues&) = delete;
  SharedKeyValues& operator=(const SharedKeyValues&) = delete;

  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds time) override;
  std::optional<std::string> try_get(const std::string& key) override;
  Put put(const std::string& key, const std::string& value) override;

  /// Before the connections end: its thread ends, and whoever still asks gets nothing.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  bool decides() const { return index_ == 0; }
  std::optional<std::string> find(const std::string& key) const;
  void tell_all(const std::string& letter);
  void read();
  void note(const std::string& letter);

  Processes* const all_;
  const int index_;
  std::unique_ptr<Mailbox> mail_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> known_;
  std::vector<std::string> to_tell_;  ///< what the reader has decided
  int waiting_ = 0;                   ///< threads that use `mail_`, or wait
  bool ends_ = false;
  bool is_closed_ = false;  ///< nothing is decided any more
  Clock::time_point busy_until_;
  std::thread reader_;  // last: it uses all others
};

}  // namespace tessera::compiler::accelerators
