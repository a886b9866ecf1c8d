// SPDX-License-Identifier: Apache-2.0
// What planning knows of a kernel: what it computes, what it costs, and how it is made. The kernel
// itself is made when the plan is settled, once for all steps that have equal keys.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/codegen/kernels/access.h"
#include "src/codegen/kernels/kernel_body.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

struct RowSums;

struct KernelDescriptor {
  /// What the kernel computes, completely (see KeyWriter). It does not depend on addresses.
  std::string key;
  /// Makes the function and its attributes. Owns what it reads: the module may be gone by then.
  std::function<runtime::Kernel()> make;
  const runtime::KernelLabel* label = nullptr;  ///< its line in the table of its family
  std::int64_t units = 1;
  double nanoseconds = 0;
  Accesses access;           ///< what its units read and write
  bool has_effects = false;  ///< as KernelTask has it
  /// Results that may be written over operands, where it takes these as they stand.
  std::vector<runtime::KernelTask::Reuse> reuse;
  /// It may throw: nothing unwinds compiled code, so that it isn't called from there.
  bool may_throw = false;
  KernelBody body;  ///< what of it others can take in
  /// The same, added up while rows of both inputs are made. Null if it is no such sum.
  std::shared_ptr<const RowSums> row_sums;

  explicit operator bool() const { return make != nullptr; }
};

/// For kernels whose attributes are plain numbers.
template <class Attributes>
std::function<runtime::Kernel()> kernel_maker(runtime::KernelFunction function,
                                              Attributes attributes) {
  return [function, attributes = std::move(attributes)] {
    return runtime::Kernel{function, std::make_shared<const Attributes>(attributes)};
  };
}

}  // namespace tessera::codegen
