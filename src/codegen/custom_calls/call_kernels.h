// SPDX-License-Identifier: Apache-2.0
// Kernels of custom calls, by target: what computes a call on buffers. The IR knows targets' rules
// and bodies only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <tessera/custom/buffer_view.h>

#include "src/codegen/kernels/access.h"
#include "src/ir/custom_calls/custom_call.h"

namespace tessera::codegen {

/// One call, looked at once and ready to run on any buffers of its shapes. Operands and results are
/// flat arrays, row-major whatever layouts the text gives.
struct PreparedCall {
  /// Computes parts [begin, end) of the units. Safe to call from several threads.
  std::function<void(std::span<const BufferView> operands,
                     std::span<const MutableBufferView> results, std::int64_t begin,
                     std::int64_t end)>
      run;
  /// Whether `run` may throw.
  bool may_throw = true;
  /// Parts of the work that don't depend on each other: batches.
  std::int64_t units = 1;
  /// Estimate for all units.
  double nanoseconds = 10000;
  /// What units read and write, of the leaves of operands and results, so that chains can take the
  /// call in. It is believed.
  Accesses access = {};
};

class CallKernel {
 public:
  virtual ~CallKernel() = default;
  /// Checks and decodes operands, results and attributes: an Error with the call's line.
  virtual PreparedCall prepare(const ir::Instruction& call) const = 0;
};

/// Registers a target with what computes it; without a kernel it stands for a program. ValueError
/// if the name is taken.
void register_custom_call(const std::string& name,
                          std::shared_ptr<const ir::CustomCallTarget> target,
                          std::shared_ptr<const CallKernel> kernel, Location location = {});

/// NotImplementedError if the target isn't known, or stands for a program.
PreparedCall prepare_call(const ir::Instruction& call);

}  // namespace tessera::codegen
