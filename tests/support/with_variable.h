// SPDX-License-Identifier: Apache-2.0
// Environment variables of tests.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tessera::testing {

/// Sets a variable for as long as it lives.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~WithVariable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace tessera::testing
