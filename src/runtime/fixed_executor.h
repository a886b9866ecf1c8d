// SPDX-License-Identifier: Apache-2.0
// Runs a plan for one device on the calling thread, in memory that was taken before: a run asks the
// system for nothing, and takes no lock of its own.
// Also called: an ahead-of-time executor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/threads/run_memory.h"
#include "src/runtime/plan.h"

namespace tessera::runtime {

/// NotImplementedError that names the step for a plan of more than one device, with exchanges, or
/// with steps that have effects.
void check_fixed(const Plan& plan);

class FixedExecutor {
 public:
  /// Takes all memory: blocks for what is live at a time, of each size, and what kernels take while
  /// they run, which is seen by running each step once on zeros. The plan must outlive it.
  explicit FixedExecutor(const Plan& plan);
  ~FixedExecutor();
  FixedExecutor(const FixedExecutor&) = delete;
  FixedExecutor& operator=(const FixedExecutor&) = delete;

  /// Dense arrays in row-major order. Arguments that are aligned to 64 bytes are read in place, and
  /// none is written; results are written when all is done. For one thread at a time. RuntimeError
  /// if a kernel fails.
  void run(const void* const* arguments, void* const* results);
  /// Whether a result may be an argument as it was given, and memory of results overlaps that of
  /// arguments: results are written one after the other, so that it might be written over before.
  bool passes_overwritten(const void* const* arguments, void* const* results) const;
  /// Runs each step once on zeros, for what a thread takes when it runs a program first.
  void rehearse();
  /// Of all blocks and of what kernels take.
  std::int64_t bytes() const { return block_bytes_ + memory_.bytes(); }
  /// How often a run had to ask for more memory.
  std::int64_t misses() const { return memory_.misses(); }

 private:
  struct BlockOfMemory {
    std::byte* data = nullptr;
    std::int32_t holders = 0;
    std::int32_t size = -1;  ///< index of its size; -1: it isn't from here, and isn't written
    BlockOfMemory* next = nullptr;
  };
  using Held = BlockOfMemory*;

  /// Calls f with this one's memory as the thread's. bad_alloc, InternalError or RuntimeError if it
  /// throws.
  template <class F>
  void in_memory(bool rehearses, const F& f);
  void take_blocks();
  void hold(SlotId to, Held block);
  void drop(SlotId slot);
  void drop_all();
  void take(SlotId slot);
  void start(const void* const* arguments);
  void finish(void* const* results);
  void run_block(const Block& block);
  void run_step(const Step& step);
  void run_task(const KernelTask& task);
  void prepare(const KernelTask& task);
  void run_loop(const While& loop);
  void run_conditional(const Conditional& conditional);
  void run_branch(const Branch& branch);
  void move(const std::vector<Move>& moves, bool donates);
  void donate(const std::vector<Move>& moves);
  Held& held(SlotId slot) { return held_[std::size_t(slot)]; }
  std::int64_t bytes_of(SlotId slot) const { return plan_.slots[std::size_t(slot)].bytes; }

  struct FreeMemory {
    void operator()(std::byte* data) const;
  };

  const Plan& plan_;
  RunMemory memory_;
  std::vector<std::int32_t> size_of_;  ///< of each slot
  std::vector<Held> free_;             ///< of each size
  std::vector<BlockOfMemory> blocks_, arguments_, constants_;
  std::unique_ptr<std::byte[], FreeMemory> data_;
  std::int64_t block_bytes_ = 0;
  std::vector<std::byte*> copies_;  ///< of arguments, for those that aren't aligned
  std::vector<Held> held_;          ///< by each slot
  std::vector<Held> moved_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::array<char, 512> failure_{};
  bool rehearses_ = false;
  bool passes_ = false;  ///< a result may be an argument as it was given
};

}  // namespace tessera::runtime
