// SPDX-License-Identifier: Apache-2.0
// What a kernel family gives for one op: the function, its attributes, and how the work is cut.
#pragma once

#include <cstdint>
#include <memory>

#include "src/runtime/plan.h"

namespace tessera::codegen {

struct KernelSpec {
  runtime::KernelFunction function = nullptr;
  std::shared_ptr<const void> attributes;
  std::int64_t units = 1;
  double nanoseconds = 0;

  explicit operator bool() const { return function != nullptr; }
};

}  // namespace tessera::codegen
