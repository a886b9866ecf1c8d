// SPDX-License-Identifier: Apache-2.0
// The line, which a thread of its own writes.
#include "src/base/progress.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "src/base/env.h"
#include "src/base/processes/processes.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kFirst{2000}, kEach{500};

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && std::getenv("CI") == nullptr && term != nullptr &&
         std::strcmp(term, "dumb") != 0;
}

bool is_told() {
  const std::string choice = env_choice("TESSERA_PROGRESS").value_or("auto");
  if (choice == "off") return false;
  if (const Processes* all = processes(); all != nullptr && all->index() != 0) return false;
  return choice == "on" || is_terminal();
}

std::atomic<bool> in_use{false};

}  // namespace

struct Progress::Line {
  Line(std::string what, std::function<std::string()> how_far)
      : what_(std::move(what)), how_far_(std::move(how_far)), thread_([this] { write(); }) {}
  ~Line() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
    in_use = false;
  }

 private:
  void write() {
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return ended_; };
    if (changed_.wait_for(lock, kFirst, ended)) return;
    std::size_t shown = 0;
    do {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_);
      const std::string line =
          what_ + ": " + how_far_() + ", " + std::to_string(seconds.count()) + " s";
      const std::size_t longer = shown > line.size() ? shown - line.size() : 0;
      std::fprintf(stderr, "\r%s%s", line.c_str(), std::string(longer, ' ').c_str());
      std::fflush(stderr);
      shown = line.size();
    } while (!changed_.wait_for(lock, kEach, ended));
    std::fprintf(stderr, "\r%s\r", std::string(shown, ' ').c_str());
    std::fflush(stderr);
  }

  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const std::function<std::string()> how_far_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  ///< the last member: it uses the others
};

Progress::Progress(std::string what, std::function<std::string()> how_far) {
  if (!is_told() || in_use.exchange(true)) return;
  line_ = std::make_unique<Line>(std::move(what), std::move(how_far));
}
Progress::~Progress() = default;

}  // namespace tessera
