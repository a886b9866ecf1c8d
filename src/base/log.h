// SPDX-License-Identifier: Apache-2.0
// Logging to stderr by level.
#pragma once

#include <functional>
#include <string>

namespace tessera {

enum class LogLevel { debug, info, warning, error };

/// Writes one line to stderr if `TESSERA_LOG` (debug, info, warning (default), error, off) allows.
void log(LogLevel level, const std::string& message);
inline void log_warning(const std::string& m) { log(LogLevel::warning, m); }
inline void log_info(const std::string& m) { log(LogLevel::info, m); }

/// Whether lines of this level are written: for messages that are expensive to make.
bool log_enabled(LogLevel level);

/// Whether it is to be said why caches of programs are missed: TESSERA_EXPLAIN_CACHE_MISSES, or a
/// level that writes info.
bool explains_cache_misses();
/// Says so; as a warning if the former asks for it.
void log_cache_miss(const std::string& message);

/// Replaces the sink (tests); an empty function restores stderr.
void set_log_sink(std::function<void(LogLevel, const std::string&)> sink);

}  // namespace tessera
