// SPDX-License-Identifier: Apache-2.0
// The plan: the program that all devices of this process run in lockstep. Plain data, made by
// codegen.
// Also called: thunk sequence with its buffer assignment; an exchange is a collective, a slot a
// logical buffer.
//
// A value lives in a slot. Each slot has an equivalence relation on devices, and one buffer of
// memory per class: a value is stored and computed once for all devices that are known to hold
// equal bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  MemoryKind memory = MemoryKind::device;
};

/// One call of a kernel: work units [begin, end) for one class.
struct KernelCall {
  const void* attributes;
  const std::byte* const* inputs;
  std::byte* const* outputs;
  std::int64_t begin, end;
  /// Whether large outputs may be written past the caches: nothing reads them soon.
  bool may_stream = true;
  /// What a caller of many parts keeps between them, for kernels that say of what type it is.
  void* kept = nullptr;
};
using KernelFunction = void (*)(const KernelCall&);

/// What a task runs. Equal tasks share one.
struct Kernel {
  KernelFunction function = nullptr;
  std::shared_ptr<const void> attributes;
};

/// Which kernel of those that could compute an operation was taken, and why. A constant.
struct KernelLabel {
  const char* name = "";
  const char* reason = "";
};

/// The outputs' classes are the join of the inputs'.
struct KernelTask {
  std::int32_t kernel = -1;            ///< index into Plan::kernels
  const KernelLabel* label = nullptr;  ///< for profiles; null: there is but one kernel
  std::vector<SlotId> inputs, outputs;
  /// Number of units of work, which may run at the same time on several workers.
  std::int64_t units = 1;
  /// Estimate for all units of one class.
  double nanoseconds = 0;
  /// `output` may be written into `input`'s memory if the input dies here and has no other handle.
  /// `copy`: the kernel writes only a part of the output, which must contain the input's bytes
  /// before.
  struct Reuse {
    int input = 0, output = 0;
    bool copy = false;
    bool dies = false;
  };
  std::vector<Reuse> reuse;
  /// It copies its input to memory of this kind. Unless this is set, outputs are where inputs are.
  std::optional<MemoryKind> transfers_to;
  /// It does more than make its outputs: of a class that several processes have, one runs it and
  /// tells the others what it made.
  bool has_effects = false;
};

/// into[i] = combine(into[i], value[i]).
using CombineFunction = void (*)(const void* attributes, std::byte* into, const std::byte* value,
                                 std::int64_t count);
struct Combiner {
  CombineFunction function = nullptr;
  std::shared_ptr<const void> attributes;
};

/// Lists of devices. Copies share them, as most exchanges of a program have the same groups.
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

/// A collective, as a memory operation among local buffers.
struct Exchange {
  enum class Kind : std::uint8_t {
    all_gather,
    all_reduce,
    reduce_scatter,
    all_to_all,
    all_to_all_tuple,  ///< part p is sent to, and received from, member p of the group
    collective_permute,
    collective_broadcast,  ///< from each group's first member; devices outside of groups get zeros
  };
  Kind kind = Kind::all_reduce;
  /// Disjoint lists of devices; for a permute, {source, target} pairs.
  DeviceLists groups;
  /// One array. Its bytes are [outer][dim][inner], and `chunk` is the number of bytes of one
  /// device's part of [dim][inner] (of the input of an all-gather, the output of a reduce-scatter,
  /// the part for one member of an all-to-all; for other kinds all bytes, with outer = 1).
  struct Part {
    SlotId input = -1, output = -1;
    std::int64_t outer = 1, chunk = 0;
  };
  std::vector<Part> parts;
  std::int32_t combiner = -1;  ///< for all-reduce and reduce-scatter: index into Plan::combiners
  std::int64_t element_bytes = 1;
  /// The output may take the memory of the group's first member (all-reduce whose input dies).
  bool input_dies = false;
  /// For each device, its group (-1: none; for a permute, the pair whose target it is) and its
  /// position in the group. Set by finalize.
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
  /// For an all-gather of one part; in the order in which they are done.
  std::vector<Gather> before;
};

/// Passes values on without copying. `donates`: `from` is not needed afterwards.
struct Move {
  SlotId from = -1, to = -1;
  bool donate = false;
};

struct Step;

/// Steps [begin, end): kernels with the same classes and no communication between them (a segment),
/// or a single other step.
struct Segment {
  std::int32_t begin = 0, end = 0;
  ClassesId classes = -1;  ///< of a segment; -1: a single other step
  double nanoseconds = 0;  ///< estimate for one class
  /// Slots with coarser classes that die within the segment: released when all classes are done.
  std::vector<SlotId> release;
};

struct Block {
  std::vector<Step> steps;
  std::vector<Segment> segments;  ///< set by finalize
};

/// How often a loop is taken to run where nothing is known of it.
inline constexpr double kUsualTrips = 64;

/// `init` fills the carried slots before the loop, `next` after each trip; in the end they hold the
/// results.
struct While {
  std::vector<Move> init;
  Block condition;
  SlotId predicate = -1;
  Block body;
  std::vector<Move> next;
  std::int64_t trips = 0;  ///< 0: unknown
  double likely_trips() const { return trips > 0 ? double(trips) : kUsualTrips; }
  /// All slots that it reads or writes, if it has no exchanges and no effects: then its devices can
  /// go through it apart from each other. Set by finalize.
  std::vector<SlotId> slots;
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
  std::string op;    ///< for profiles: which op it is, "dot"
  Location location;
  std::variant<KernelTask, Exchange, While, Conditional> what;
  /// Slots that nothing needs after this step.
  std::vector<SlotId> release;
};

struct Plan {
  std::int64_t num_devices = 1;
  std::vector<DeviceClasses> classes;
  std::vector<Slot> slots;
  /// Entry parameters, and leaves of the results (a slot may occur more than once).
  std::vector<SlotId> parameters, results;
  /// Constants: one storage per class.
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
  std::vector<std::int32_t> numbers;  ///< 0, 1, 2, ..., one per device; set by finalize
};

/// "all-gather", ...
const char* name(Exchange::Kind kind);
/// Numbers the buffers and cuts the blocks into segments. `release` must be set.
void finalize(Plan* plan);
/// For dumps and tests.
std::string to_string(const Plan& plan);

}  // namespace tessera::runtime
