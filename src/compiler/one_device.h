// SPDX-License-Identifier: Apache-2.0
// What an executable for one device may have besides: runs without lists of lists.
#pragma once

#include <span>

#include "src/base/arrays/device_buffer.h"

namespace tessera::compiler {

class OneDeviceProgram {
 public:
  virtual ~OneDeviceProgram() = default;
  /// Whether run_on_one may be called.
  virtual bool runs_on_one() const = 0;
  /// As Executable::run of arguments that the caller keeps, with handles of its own, until it
  /// returns: one buffer for each parameter and result, whose lists have those numbers.
  virtual void run_on_one(std::span<const DeviceBuffer* const> arguments,
                          std::span<DeviceBuffer> results) const = 0;
};

}  // namespace tessera::compiler
