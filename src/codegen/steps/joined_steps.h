// SPDX-License-Identifier: Apache-2.0
// Several steps of a block as one: where that one has what they read and make, what it may write
// over, and what stands in front of it and behind. All that joins steps uses these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/codegen/kernel_table.h"
#include "src/codegen/kernels/chains/links.h"
#include "src/codegen/steps/plan_readers.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Whether it may run as a part of another step: it can't fail, moves nothing to other memory, and
/// does nothing but make its results, in this memory.
bool may_be_joined(const runtime::KernelTask& task, const runtime::Plan& plan,
                   const KernelTable& kernels, MemoryKind memory = MemoryKind::device);
/// Whether a step may write its output number `o` over what it reads of `s`, and nowhere else does
/// it read that: all of it, or a part if it changes that part.
bool may_overwrite(const runtime::KernelTask& task, std::size_t o, runtime::SlotId s,
                   bool part = false);
/// Whether it writes a part of its result, which has to hold what it held before.
bool changes_a_part(const runtime::KernelTask& task);

/// The kernels that become one step, its links, in the order in which they run there.
class Links {
 public:
  using SlotId = runtime::SlotId;

  /// `numbers`: of steps of the block, all kernels. `readers`: of the plan.
  Links(const runtime::Block& block, std::vector<std::size_t> numbers, const PlanReaders& readers);

  std::size_t size() const { return numbers_.size(); }
  std::size_t number(std::size_t l) const { return numbers_[l]; }
  const runtime::Step& step(std::size_t l) const { return block_.steps[numbers_[l]]; }
  const runtime::KernelTask& task(std::size_t l) const { return *runtime::task_of(step(l)); }

  /// What becomes of them: it stands for the one that is last in the block. Profiles show the last
  /// ones' operations, "dot+add".
  runtime::Step joined(runtime::KernelTask task) const;

  bool is_read(SlotId s) const { return reads_.find(s) != nullptr; }
  /// The last link that reads it; one does.
  std::size_t last_read(SlotId s) const { return reads_.find(s)->last; }
  /// Read by links and by nothing else: nobody needs it where the plan has it.
  bool is_inside(SlotId s) const;

 private:
  const runtime::Block& block_;
  std::vector<std::size_t> numbers_;
  const PlanReaders& readers_;
  StepReads reads_;
};

/// Where a step that runs several kernels has their operands: its inputs, its outputs, and scratch
/// memory.
class OperandPlaces {
 public:
  using SlotId = runtime::SlotId;

  explicit OperandPlaces(const runtime::Plan& plan) : plan_(plan) {}

  /// Of what is read: where it was put, or else an input of the step.
  Place of(SlotId s);
  /// Null if it has none yet.
  const Place* find(SlotId s) const;
  Place put(SlotId s, Place place) { return places_[s] = place; }
  /// New ones. What is there has to be put there.
  Place output(SlotId s);
  Place scratch(std::int64_t bytes);
  /// Whether anything but `s` was put there.
  bool is_shared(const Place& place, SlotId s) const;

  const std::vector<std::int64_t>& scratch_sizes() const { return scratch_; }
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  std::vector<std::int64_t> input_sizes() const { return sizes(task_.inputs); }
  std::vector<std::int64_t> output_sizes() const { return sizes(task_.outputs); }

  /// A kernel as a link, which reads what it reads where that is.
  Link link(const KernelTable& kernels, const runtime::KernelTask& task);
  /// Results may be written over inputs of their size: those that only earlier links read, and
  /// those that the link which makes the result may overwrite. Of what changes a part of an input,
  /// that one alone will do. `may`: whether such a link may write over an input.
  void add_reuse(const Links& links, const std::function<bool(SlotId s, std::size_t l)>& may);

  runtime::KernelTask& task() { return task_; }
  /// The step, whose kernel is set later; or which runs that kernel.
  runtime::KernelTask take() { return std::move(task_); }
  runtime::KernelTask take(const KernelDescriptor& kernel, KernelTable* kernels);

 private:
  std::int64_t bytes(SlotId s) const { return plan_.slots[std::size_t(s)].bytes; }
  std::vector<std::int64_t> sizes(const std::vector<SlotId>& slots) const;

  const runtime::Plan& plan_;
  runtime::KernelTask task_;
  std::map<SlotId, Place> places_;
  std::vector<std::int64_t> scratch_;
  std::int64_t scratch_bytes_ = 0;
};

/// Steps [begin, end) of a block, of which some become others: by number, those that stand in front
/// of these, and those that stand behind.
struct Region {
  std::size_t begin = 0, end = 0;
  std::vector<std::size_t> before, behind;

  /// Those of `links`, in order, and what is between them: what isn't to stand behind stands in
  /// front.
  static Region of(const std::vector<std::size_t>& links, std::vector<std::size_t> behind);

  /// As the steps will stand.
  std::vector<const runtime::Step*> with(const runtime::Block& block,
                                         const std::vector<runtime::Step>& joined) const;
  /// Has them stand so. Returns the number of the first of those that came.
  std::size_t replace(runtime::Block* block, std::vector<runtime::Step> joined) const;
};

}  // namespace tessera::codegen
