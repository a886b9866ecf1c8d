// SPDX-License-Identifier: Apache-2.0
// Errors at the boundary of the plugin: no exception crosses it.
#pragma once

#include <exception>
#include <string>

#include "src/pjrt/abi/api.h"

/// What a function of the API returns when it fails. Its caller destroys it.
struct PJRT_Error {
  /// Clients look for functions of the object here; null: the API's own are all there are.
  const void* functions = nullptr;
  PJRT_Error_Code code = PJRT_Error_Code_UNKNOWN;
  std::string message;
};

namespace tessera::pjrt {

/// Thrown inside the plugin where the code matters to clients.
struct Failure final : std::exception {
  Failure(PJRT_Error_Code c, std::string text) : code(c), message(std::move(text)) {}
  const char* what() const noexcept override { return message.c_str(); }
  PJRT_Error_Code code;
  std::string message;
};

/// The error that stands for the exception: messages of tessera::Error with the user's line.
PJRT_Error* error_of(const std::exception_ptr& exception) noexcept;

/// Runs the body of a function of the API; null if it returns.
template <class F>
PJRT_Error* guarded(const F& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return error_of(std::current_exception());
  }
}

}  // namespace tessera::pjrt
