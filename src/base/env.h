// SPDX-License-Identifier: Apache-2.0
// The one table of TESSERA_* variables. A bad value is a ValueError that names variable, value and
// what is valid; an unknown TESSERA_* variable is warned about once, with the nearest name.
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
  std::int64_t least = 0, most = 0;  ///< of an integer
};

inline constexpr std::int64_t kMaxDevices = std::int64_t(1) << 20;
inline constexpr std::int64_t kMaxThreads = 4096;
inline constexpr std::int64_t kMaxBytes = std::int64_t(1) << 50;

const std::vector<EnvVariable>& env_table();
/// The variables are read at each call, so that tests can change them.
std::optional<std::int64_t> env_integer(const char* name, std::int64_t min, std::int64_t max);
bool env_flag(const char* name, bool fallback);
std::optional<std::string> env_text(const char* name);
/// One of the choices of the table's type.
std::optional<std::string> env_choice(const char* name);
/// Checks all TESSERA_* variables of the environment against the table.
void check_environment();

}  // namespace tessera
