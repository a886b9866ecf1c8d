// SPDX-License-Identifier: Apache-2.0
// The logger: levels, the threshold of TESSERA_LOG, the sink.
#include "src/base/log.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "src/base/env.h"

namespace tessera {
namespace {

struct LogState {
  std::mutex mutex;
  std::function<void(LogLevel, const std::string&)> sink;
};
LogState& log_state() {
  static LogState& s = *new LogState;  // usable until the very end of the process
  return s;
}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "?";
}

/// The lowest level that is written. Read without the checks of env.h: logging must not throw, and
/// env.h itself logs.
int threshold() {
  const char* text = std::getenv("TESSERA_LOG");
  if (text == nullptr) return int(LogLevel::warning);
  const std::string t = text;
  for (LogLevel l : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error}) {
    if (t == name_of(l)) return int(l);
  }
  return t == "off" ? 1000 : int(LogLevel::warning);
}

}  // namespace

bool log_enabled(LogLevel level) { return int(level) >= threshold(); }

void log(LogLevel level, const std::string& message) {
  if (!log_enabled(level)) return;
  std::function<void(LogLevel, const std::string&)> sink;
  {
    std::lock_guard lock(log_state().mutex);
    sink = log_state().sink;
  }
  if (sink) {
    sink(level, message);
    return;
  }
  // One write per line, so that lines of different threads don't interleave.
  const std::string line = std::string("tessera ") + name_of(level) + ": " + message + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool explains_cache_misses() {
  return env_flag("TESSERA_EXPLAIN_CACHE_MISSES", false) || log_enabled(LogLevel::info);
}

void log_cache_miss(const std::string& message) {
  log(env_flag("TESSERA_EXPLAIN_CACHE_MISSES", false) ? LogLevel::warning : LogLevel::info,
      message);
}

void set_log_sink(std::function<void(LogLevel, const std::string&)> sink) {
  std::lock_guard lock(log_state().mutex);
  log_state().sink = std::move(sink);
}

}  // namespace tessera
