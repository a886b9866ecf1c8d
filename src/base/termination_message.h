// SPDX-License-Identifier: Apache-2.0
// What a process says that is ended (SIGTERM) while it waits for others: launchers end all
// processes when one has died, before those could find out by themselves.
#pragma once

#include <atomic>
#include <string>

namespace tessera {

class TerminationMessage {
 public:
  /// While one exists SIGTERM is noted, and `wanted` is true then, instead of ending the process at
  /// once. Whoever has it must ask soon. One thread at a time has one. If the program has a handler
  /// of its own, or ignores the signal, nothing is changed.
  class Waits {
   public:
    Waits() {
      [[maybe_unused]] static const bool once = install();
      waits_.store(true, std::memory_order_relaxed);
    }
    ~Waits() { waits_.store(false, std::memory_order_relaxed); }
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;
  };
  static bool wanted() { return wanted_.load(std::memory_order_relaxed); }
  /// Writes a line and ends the process, as the signal does.
  [[noreturn]] static void say_and_end(const std::string& text);

 private:
  static bool install();
  static void handle(int signal);
  static std::atomic<bool> waits_, wanted_;
};

}  // namespace tessera
