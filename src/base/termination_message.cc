// SPDX-License-Identifier: Apache-2.0
// A handler of SIGTERM.
#include "src/base/termination_message.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace tessera {

std::atomic<bool> TerminationMessage::waits_ = false, TerminationMessage::wanted_ = false;

void TerminationMessage::handle(int signal) {
  if (waits_.load()) {
    wanted_.store(true);
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

bool TerminationMessage::install() {
  struct sigaction now {};
  if (sigaction(SIGTERM, nullptr, &now) != 0) return false;
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return false;
  struct sigaction ours {};
  ours.sa_handler = handle;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  return sigaction(SIGTERM, &ours, nullptr) == 0;
}

void TerminationMessage::say_and_end(const std::string& text) {
  const std::string line = "tessera: " + text + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
  std::_Exit(128 + SIGTERM);  // where the signal is blocked
}

}  // namespace tessera
