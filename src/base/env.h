// SPDX-License-Identifier: Apache-2.0
// The table of all TESSERA_* variables. An invalid value is a ValueError that names the variable,
// the value and the valid ones; an unknown TESSERA_* variable is warned about once, with the
// closest known name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct EnvVariable {
  const char* name;
  const char* type;  ///< "integer", "flag", "path", "choice:a|b"
  const char* default_text;
  const char* help;
  std::int64_t least = 0, most = 0;  ///< bounds of an integer
};

inline constexpr std::int64_t kMaxDevices = std::int64_t(1) << 20;
inline constexpr std::int64_t kMaxThreads = 4096;
inline constexpr std::int64_t kMaxTimeout = 1000000;
inline constexpr std::int64_t kMaxBytes = std::int64_t(1) << 50;

const std::vector<EnvVariable>& env_table();
/// The variables are read at each call, so that tests can change them.
std::optional<std::int64_t> env_integer(const char* name, std::int64_t min, std::int64_t max);
bool env_flag(const char* name, bool fallback);
std::optional<std::string> env_text(const char* name);
/// The variable's value, one of the choices that its type in the table lists.
std::optional<std::string> env_choice(const char* name);
/// Checks all TESSERA_* variables of the environment against the table.
void check_environment();

}  // namespace tessera
