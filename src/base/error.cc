// SPDX-License-Identifier: Apache-2.0
// Error messages with the user's file and line, and failed internal checks.
#include <tessera/error.h>

#include <mutex>
#include <set>

#include "src/base/check.h"

namespace tessera {

std::string Location::to_string() const {
  if (!known()) return "";
  return std::string(file) + ":" + std::to_string(line);
}

Location make_location(const std::string& file, unsigned line) {
  // Never destroyed: errors that name these files may be printed while the process exits.
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& names = *new std::set<std::string>;
  // Usually the same file as last time.
  static thread_local const std::string* last = nullptr;
  if (last == nullptr || *last != file) {
    std::lock_guard lock(mutex);
    last = &*names.insert(file).first;
  }
  return Location{last->c_str(), line};
}

namespace {
std::string with_location(const std::string& message, Location location) {
  return location.known() ? location.to_string() + ": " + message : message;
}
}  // namespace

Error::Error(const std::string& message, Location location)
    : std::runtime_error(with_location(message, location)),
      message_(message),
      location_(location) {}

namespace internal {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::string text = "internal error in Tessera: " + std::string(condition) + " does not hold";
  if (!detail.empty()) text += ": " + detail;
  throw InternalError(text, Location{file, unsigned(line)});
}

}  // namespace internal
}  // namespace tessera
