// SPDX-License-Identifier: Apache-2.0
// The plan: what all devices of this process run in lockstep. Plain data, made by codegen.
//
// A value lives in a slot. Each slot has an equivalence relation on devices, and one buffer of
// memory per class: a value is stored and computed once for all devices that surely hold equal
// bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <tessera/error.h>

#include "src/base/device_classes.h"
#include "src/runtime/buffer.h"

namespace tessera::runtime {

using SlotId = std::int32_t;
using ClassesId = std::int32_t;  ///< index into Plan::classes

struct Slot {
  std::int64_t bytes = 0;
  ClassesId classes = 0;
  std::int32_t first_buffer = 0;  ///< set by finalize
};

/// One call of a kernel: part [begin, end) of the units of its work, for one class.
struct KernelCall {
  const void* attributes;
  const std::byte* const* inputs;
  std::byte* const* outputs;
  std::int64_t begin, end;
};
using KernelFunction = void (*)(const KernelCall&);

/// What a task runs. Equal tasks share one.
struct Kernel {
  KernelFunction function = nullptr;
  std::shared_ptr<const void> attributes;
};

/// The outputs' classes are the join of the inputs'.
struct KernelTask {
  std::int32_t kernel = -1;  ///< index into Plan::kernels
  std::vector<SlotId> inputs, outputs;
  /// Parts of the work that may run at the same time, on several workers.
  std::int64_t units = 1;
  /// Estimate for all units of one class.
  double nanoseconds = 0;
  /// `output` may be written into `input`'s memory if the input dies here and no other handle needs
  /// it. `copy`: the kernel writes only a part of the output, which must hold the input's bytes
  /// before.
  struct Reuse {
    int input = 0, output = 0;
    bool copy = false;
    bool dies = false;
  };
  std::vector<Reuse> reuse;
};

/// into[i] = combine(into[i], value[i]).
using CombineFunction = void (*)(const void* attributes, std::byte* into, const std::byte* value,
                                 std::int64_t count);
struct Combiner {
  CombineFunction function = nullptr;
  std::shared_ptr<const void> attributes;
};

/// Lists of devices, which copies share: programs exchange among the same groups over and over.
class DeviceLists {
 public:
  using Lists = std::vector<std::vector<std::int32_t>>;
  DeviceLists() : DeviceLists(Lists()) {}
  DeviceLists(Lists lists) : lists_(std::make_shared<const Lists>(std::move(lists))) {}

  const Lists& lists() const { return *lists_; }
  bool empty() const { return lists_->empty(); }
  std::size_t size() const { return lists_->size(); }
  const std::vector<std::int32_t>& operator[](std::size_t i) const { return (*lists_)[i]; }
  const std::vector<std::int32_t>& at(std::size_t i) const { return lists_->at(i); }

 private:
  std::shared_ptr<const Lists> lists_;
};

/// A collective, as a plain memory operation among the local buffers.
struct Exchange {
  enum class Kind : std::uint8_t {
    all_gather,
    all_reduce,
    reduce_scatter,
    all_to_all,
    all_to_all_tuple,  ///< part p goes to, and comes from, the group's member p
    collective_permute,
    collective_broadcast,  ///< of each group's first member; others get zeros
  };
  Kind kind = Kind::all_reduce;
  /// Disjoint lists of devices. Of a permute: {source, target} pairs.
  DeviceLists groups;
  /// One array. Its bytes are [outer][dim][inner] with `chunk` = bytes of one device's part of
  /// [dim][inner] (of the input for all-gather, of the output for reduce-scatter, of what goes to
  /// one member for all-to-all; else everything with outer = 1).
  struct Part {
    SlotId input = -1, output = -1;
    std::int64_t outer = 1, chunk = 0;
  };
  std::vector<Part> parts;
  std::int32_t combiner = -1;  ///< of all-reduce and reduce-scatter: index into Plan::combiners
  std::int64_t element_bytes = 1;
  /// The output may take the memory of the group's first member (all-reduce whose input dies).
  bool input_dies = false;
  /// Of each device, its group (-1: none; of a permute, the pair that it is the target of) and its
  /// place there. Set by finalize.
  struct Membership {
    std::int32_t group = -1, place = 0;
  };
  using Memberships = std::shared_ptr<const std::vector<Membership>>;
  Memberships memberships;

  /// A gather done before this one in the same step, so that what is in between is never held.
  struct Gather {
    DeviceLists groups;
    std::int64_t outer = 1, chunk = 0;  ///< as in Part
    Memberships memberships;            ///< set by finalize
  };
  /// Of an all-gather of one part: the first one done comes first.
  std::vector<Gather> before;
};

/// Hands values on without copying. `donates`: `from` is not needed afterwards.
struct Move {
  SlotId from = -1, to = -1;
  bool donate = false;
};

struct Step;

/// Steps [begin, end): kernels of one relation without communication between (a segment), or one
/// other step.
struct Segment {
  std::int32_t begin = 0, end = 0;
  ClassesId classes = -1;  ///< of a segment; -1: another step
  double nanoseconds = 0;  ///< of one class
  /// Slots of coarser relations that die within: released when all classes are done.
  std::vector<SlotId> release;
};

struct Block {
  std::vector<Step> steps;
  std::vector<Segment> segments;  ///< set by finalize
};

/// `init` fills the carried slots, `next` does so after each trip; afterwards they are the results.
struct While {
  std::vector<Move> init;
  Block condition;
  SlotId predicate = -1;
  Block body;
  std::vector<Move> next;
};

struct Branch {
  std::vector<Move> parameters;
  Block block;
  std::vector<Move> results;
};
struct Conditional {
  SlotId selector = -1;
  bool boolean = true;  ///< pred: true is branch 0; else an s32 index, clamped to the last
  std::vector<Branch> branches;
};

struct Step {
  std::string name;  ///< for messages: the op's name
  Location location;
  std::variant<KernelTask, Exchange, While, Conditional> what;
  /// Slots that nothing needs after this step.
  std::vector<SlotId> release;
};

struct Plan {
  std::int64_t num_devices = 1;
  std::vector<DeviceClasses> classes;
  std::vector<Slot> slots;
  /// Entry parameters, and result leaves (a slot may stand more than once).
  std::vector<SlotId> parameters, results;
  /// Values that are known: one storage per class.
  struct Constant {
    SlotId slot = -1;
    std::vector<std::shared_ptr<Storage>> values;
  };
  std::vector<Constant> constants;
  /// What steps run. A plan that is only measured has none.
  std::vector<Kernel> kernels;
  std::vector<Combiner> combiners;
  Block entry;
  std::int32_t num_buffers = 0;       ///< set by finalize
  std::vector<std::int32_t> numbers;  ///< 0, 1, 2, ...: as many as devices; set by finalize
};

/// "all-gather", ...
const char* name(Exchange::Kind kind);
/// Numbers the buffers and cuts the blocks into segments. `release` must be set.
void finalize(Plan* plan);
/// For dumps and tests.
std::string to_string(const Plan& plan);

}  // namespace tessera::runtime
