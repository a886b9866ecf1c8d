// SPDX-License-Identifier: Apache-2.0
// The state of one run of a plan. Private to the runtime.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/runtime/active_set.h"
#include "src/runtime/executor.h"
#include "src/runtime/local_plan.h"
#include "src/runtime/plan.h"

namespace tessera::runtime {

/// Less work than this is done by the calling thread: waking a worker costs a few microseconds.
inline constexpr double kInlineNanoseconds = 20000;

class PlanExecutor {
 public:
  /// `local`: what this process runs; null: all of it.
  PlanExecutor(const Plan& plan, LocalPlan* local, RunCounters* counters);
  /// For one device, with arguments that the caller keeps.
  PlanExecutor(const Plan& plan, std::span<const DeviceBuffer* const> args);
  /// For a part of another one's devices: with none of its buffers.
  PlanExecutor(const PlanExecutor& whole, std::nullptr_t);
  PlanExecutor(const PlanExecutor&) = delete;
  PlanExecutor& operator=(const PlanExecutor&) = delete;

  /// Takes the buffers, and leaves empty lists.
  void load(std::vector<std::vector<DeviceBuffer>>& args, bool check_replicas);
  void run() { run_block(plan_.entry, all_); }
  /// In `lists`, whose memory is used again.
  std::vector<std::vector<DeviceBuffer>> results(std::vector<std::vector<DeviceBuffer>> lists);

  /// Of one that was given these arguments.
  void results(std::span<const DeviceBuffer* const> args, std::span<DeviceBuffer> out);

 private:
  using BufferRef = std::shared_ptr<Storage>;
  /// A control step that is running, for messages about devices that are inactive.
  struct ControlFrame {
    const Step* step;
    const ActiveSet* outside;
    const ActiveSet* inside;
  };

  const Slot& slot(SlotId id) const { return plan_.slots[std::size_t(id)]; }
  const DeviceClasses& classes(ClassesId id) const { return plan_.classes[std::size_t(id)]; }
  BufferRef& buffer(SlotId id, std::int32_t cls) {
    return buffers_[std::size_t(slot(id).first_buffer + cls)];
  }
  static BufferRef allocate(const Slot& slot) {
    return Storage::allocate(std::size_t(slot.bytes), slot.memory);
  }
  /// The buffer that a device reads.
  BufferRef& buffer_of(SlotId id, std::int32_t device) {
    const Slot& s = slot(id);
    return buffers_[std::size_t(s.first_buffer + classes(s.classes).class_of[std::size_t(device)])];
  }

  void make_buffers();
  void run_block(const Block& block, const ActiveSet& active);
  void run_segment(const Block& block, const Segment& segment, const ActiveSet& active);
  bool moves_more(const KernelTask& task, std::int64_t n, double nanoseconds) const;
  void run_tiled(const Step& step, const ActiveSet::Classes& who);
  /// Runs one step for one class.
  void run_class(const Step& step, std::int32_t cls, std::int32_t device);
  /// Fills the pointers: inputs first, then outputs, which are allocated or taken over.
  void prepare(const KernelTask& task, std::int32_t cls, std::int32_t device,
               const std::byte** inputs, std::byte** outputs);
  void release(const std::vector<SlotId>& slots, const ActiveSet& active);
  /// Tells the profiler of a kernel that began at `begin`, or of tile `tile` of `tiles` of it.
  void record_kernel(const Step& step, std::int32_t device, std::int64_t begin, std::uint64_t call,
                     std::int64_t tile = 0, std::int64_t tiles = 1) const;
  /// Runs it and tells the profiler.
  void run_profiled(const Step& step, const Exchange& exchange, const ActiveSet& active);
  void run_while(const Step& step, const While& loop, const ActiveSet& active);
  // loops_apart.cc
  /// Runs a loop on groups of devices, each on a worker of its own; false if that wouldn't pay.
  bool run_apart(const Step& step, const While& loop, const ActiveSet& active);
  void run_conditional(const Step& step, const Conditional& conditional, const ActiveSet& active);
  void move(const std::vector<Move>& moves, const ActiveSet& active);
  void donate(const std::vector<Move>& moves, const ActiveSet& active);

  // exchange.cc
  void run_exchange(const Step& step, const Exchange& exchange, const ActiveSet& active);
  void check_groups(const Step& step, Exchange::Kind kind,
                    const std::vector<std::vector<std::int32_t>>& groups,
                    const ActiveSet& active) const;
  /// Per class that receives a part: its group, and the place of the device that stands for it
  /// there.
  struct Receivers {
    ActiveSet::Classes who;
    std::vector<const std::vector<std::int32_t>*> group;
    std::vector<std::int64_t> place;
    std::vector<std::byte*> to;          ///< the result's memory
    std::vector<std::uint8_t> in_place;  ///< whether that is the first member's
  };
  /// Rows [begin, end) of what one class receives.
  struct Piece {
    std::size_t receiver;
    std::int64_t begin, end;
  };
  Receivers receivers_of(const Exchange& exchange, const Exchange::Part& part,
                         const ActiveSet& active) const;
  void exchange_part(const Exchange& exchange, const Exchange::Part& part, const ActiveSet& active);
  /// Permutes, broadcasts and all-to-alls of tuples: what only changes hands is not copied.
  void pass_on(const Exchange& exchange, const Exchange::Part& part, const Receivers& receivers);
  void allocate_results(const Exchange& exchange, const Exchange::Part& part, Receivers* receivers);
  void gather_rows(const Exchange::Part& part, const Receivers& receivers, const Piece& piece);
  void transpose_rows(const Exchange& exchange, const Exchange::Part& part,
                      const Receivers& receivers, const Piece& piece);
  void reduce_rows(const Exchange& exchange, const Exchange::Part& part, const Receivers& receivers,
                   const Piece& piece);
  // cross_process.cc
  /// Does what of an exchange crosses processes. False: the rest of it is left to do in memory.
  bool cross(const Step& step, const Exchange& exchange, const ActiveSet& active);
  /// Receives what this process lacks of what the exchange reads: entire values in their places, as
  /// if their classes had devices here, parts of others in columns_.
  void fetch(const Step& step, const Exchange& exchange, const ActiveSet& active);
  void drop_fetched();
  /// Where the part for one place begins in a device's input, with a part for each of n places, and
  /// from row to row.
  struct Column {
    const std::byte* first;
    std::int64_t stride;
  };
  Column column_of(const Exchange& exchange, const Exchange::Part& part, std::int32_t device,
                   std::int64_t column, std::int64_t n);
  /// Per class, of all processes, what `mine` says of those of this one; -1: it has no active
  /// device.
  std::vector<std::int32_t> agree(const Step& step, ClassesId id, const ActiveSet& active,
                                  const std::function<std::int32_t(std::int32_t cls)>& mine);
  /// A step with effects: of each class one process runs it, and sends the outputs to the others.
  void run_effects(const Step& step, const ActiveSet& active);
  bool must_agree(const Step& step) const { return local_ != nullptr && local_->mark(step).agrees; }
  bool is_local(std::int32_t device) const { return local_ == nullptr || local_->is_local(device); }
  // run_direct.cc
  void run_direct(const Step& step, const LocalPlan::Mark& mark, const Exchange& exchange,
                  const DirectExchange& direct, std::uint32_t tag);
  // chain_reduce.cc
  void chain_reduce(const Step& step, const Exchange& exchange, const ActiveSet& active);
  // multi_axis_gather.cc
  void multi_axis_gather(const Exchange& exchange, const ActiveSet& active);

  const Plan& plan_;
  LocalPlan* local_;
  RunCounters* counters_;
  /// Of the thread that runs it: kernels may call functions of the host, which ask for theirs.
  const ProcessOfThread process_;
  std::optional<ActiveSet> own_;
  const ActiveSet& all_;
  /// Of small programs here, so that their calls needn't ask for memory.
  std::array<BufferRef, 16> few_buffers_;
  std::vector<BufferRef> many_buffers_;
  std::span<BufferRef> buffers_;
  std::vector<ControlFrame> frames_;
  /// Of an exchange that is running: values of other processes' classes, and parts of such; the key
  /// is the exchange's part, class and column.
  std::vector<std::pair<SlotId, std::int32_t>> fetched_;
  std::map<std::tuple<std::int64_t, std::int32_t, std::int64_t>, BufferRef> columns_;
  int workers_;
  const bool profiled_;
};

/// True if this is the only handle. Writes by threads that dropped their handles are then visible.
bool sole_owner(const std::shared_ptr<Storage>& storage);

}  // namespace tessera::runtime
