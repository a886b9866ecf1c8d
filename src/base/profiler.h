// SPDX-License-Identifier: Apache-2.0
// Records what runs, and how long, while somebody profiles.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/error.h>

namespace tessera::profiler {

enum class Kind : std::uint8_t {
  kernel,
  exchange,
  run,      ///< of a program, with all its kernels and exchanges
  compile,  ///< of a program, with all its stages
  stage,
};

struct Event {
  Kind kind = Kind::kernel;
  std::string op;    ///< its kind: "dot"
  std::string name;  ///< its own: "dot.12"
  Location location;
  /// Nanoseconds, as now() has them.
  std::int64_t begin = 0, end = 0;
  std::int64_t bytes = 0;
  /// The first device for which a kernel ran; negative: for all, or none.
  std::int32_t device = -1;
  /// Parts of one call of a kernel, which several threads run, have the same number; 0: no kernel.
  std::uint64_t call = 0;
  /// Of the thread, counted from 0 in the order in which they were first recorded; set by record().
  std::int32_t thread = 0;
  /// Which kernel ran, "dot/packed", and why that one. They live as long as the process.
  std::string_view kernel = {}, reason = {};
};

namespace internal {
extern std::atomic<int> sessions;
}

/// Whether anybody profiles: one relaxed load.
inline bool on() { return internal::sessions.load(std::memory_order_relaxed) > 0; }
inline std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
std::uint64_t next_call();
/// From any thread. Beyond the limit of all sessions events are counted only.
void record(Event event);

/// Records an event that lasts as long as this does.
class Span {
 public:
  /// The texts must live as long.
  Span(Kind kind, std::string_view op, std::string_view name, Location location = {})
      : begin_(on() ? now() : 0), kind_(kind), op_(op), name_(name), location_(location) {}
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (begin_ != 0) {
      record({kind_, std::string(op_), std::string(name_), location_, begin_, now()});
    }
  }

 private:
  std::int64_t begin_;
  Kind kind_;
  std::string_view op_, name_;
  Location location_;
};

/// From begin() to end() events are recorded; sessions may overlap.
class Session {
 public:
  explicit Session(std::int64_t max_events);
  ~Session() { end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Events that began since, ordered by time; of those that go on nothing.
  std::vector<Event> events() const;
  std::int64_t begin() const { return begin_; }
  std::int64_t dropped() const;
  /// Keeps what there is, and records no more.
  void end();

 private:
  std::int64_t begin_, max_events_;
  std::int64_t dropped_before_ = 0, dropped_ = 0;
  bool ended_ = false;
  std::vector<Event> kept_;
};

}  // namespace tessera::profiler
