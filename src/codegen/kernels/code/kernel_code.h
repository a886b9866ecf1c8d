// SPDX-License-Identifier: Apache-2.0
// The code of a kernel that is in use, which may be replaced by faster code meanwhile.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "src/codegen/kernels/code/object_code.h"

namespace tessera::codegen {

class KernelCode {
 public:
  explicit KernelCode(std::shared_ptr<const MachineCode> code)
      : entry_(code->entry()), first_(std::move(code)) {}

  /// To be asked for at each call. Any thread may.
  void* entry() const { return entry_.load(std::memory_order_acquire); }

  /// Once, by one thread. Calls of what was there before may still run.
  void replace(std::shared_ptr<const MachineCode> better) {
    better_ = std::move(better);
    entry_.store(better_->entry(), std::memory_order_release);
  }

 private:
  std::atomic<void*> entry_;
  std::shared_ptr<const MachineCode> first_, better_;
};

}  // namespace tessera::codegen
