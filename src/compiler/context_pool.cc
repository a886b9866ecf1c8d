// SPDX-License-Identifier: Apache-2.0
// Contexts of compilations that wait for the next one.
#include "src/compiler/context_pool.h"

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera::compiler {
namespace {

/// As many as may well compile at once; what is more is thrown away.
constexpr std::size_t kMaxIdle = 8;

class ContextPool {
 public:
  std::unique_ptr<spmd::CompileContext> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<spmd::CompileContext>();
    std::unique_ptr<spmd::CompileContext> context = std::move(idle_.back());
    idle_.pop_back();
    return context;
  }

  void give_back(std::unique_ptr<spmd::CompileContext> context) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(context));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<spmd::CompileContext>> idle_;
};

}  // namespace

std::shared_ptr<spmd::CompileContext> take_context() {
  // A compilation may still run when the process ends.
  static ContextPool& pool = *new ContextPool;
  return {pool.take().release(), [](spmd::CompileContext* context) {
            pool.give_back(std::unique_ptr<spmd::CompileContext>(context));
          }};
}

}  // namespace tessera::compiler
