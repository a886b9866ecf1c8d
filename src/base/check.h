// SPDX-License-Identifier: Apache-2.0
// TESSERA_CHECK: assertions of internal invariants, on in all builds.
#pragma once

#include <string>

#include <tessera/error.h>

namespace tessera::internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);
}

/// Checks an internal invariant, in all builds; throws InternalError. The detail is evaluated only
/// on failure.
#define TESSERA_CHECK(condition, detail) \
  (static_cast<bool>(condition)          \
       ? void(0)                         \
       : ::tessera::internal::check_failed(__FILE__, __LINE__, #condition, (detail)))
