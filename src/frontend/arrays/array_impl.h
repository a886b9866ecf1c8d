// SPDX-License-Identifier: Apache-2.0
// The implementation of Array, and the rules of access to its memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/array.h>

#include "src/base/arrays/device_buffer.h"
#include "src/base/arrays/literal.h"
#include "src/ir/module.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera::internal {

/// The memory of an array, in the order of its sharding's device_list(). Any thread may read while
/// another deletes or donates.
///
/// A reader first takes handles on the buffers, then reads through these: memory with handles
/// doesn't change, since a run writes into donated memory only if no other handle exists. Donation
/// drops the array's own handles, after which no more can be taken.
class ArrayMemory {
 public:
  using Buffers = std::vector<DeviceBuffer>;
  explicit ArrayMemory(Buffers buffers = {}) : buffers_(std::move(buffers)) {}
  /// Takes handles on the same memory; none if the other's have been dropped.
  ArrayMemory(const ArrayMemory& other);
  ArrayMemory& operator=(const ArrayMemory&) = delete;

  /// Handles to read from; nothing if the array's were dropped.
  std::optional<Buffers> share() const;
  bool given_up() const { return (readers_.load(std::memory_order_acquire) & kGivenUp) != 0; }

  /// Reads from one buffer without a handle on it, for as long as the object exists: the memory
  /// stays, and keeps the handle of its own, so that no run writes into it. The array must outlive
  /// the object.
  class Reader {
   public:
    Reader() = default;
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() {
      if (of_ != nullptr) of_->leave();
    }
    /// The buffer; null if there isn't just one. To be called once.
    const DeviceBuffer* read(const ArrayMemory& memory);

   private:
    const ArrayMemory* of_ = nullptr;
  };
  /// "donated to f (file:line)"; empty: delete_().
  std::string given_up_by() const;
  /// Does nothing if the handles have been dropped already.
  void give_up(const std::string& by);
  /// Drops the handles of all arrays in the list or, if one of them has lost its handles before, of
  /// none, and returns its position. An array may occur several times in the list.
  static std::optional<std::size_t> give_up_all(const std::vector<ArrayMemory*>& list,
                                                const std::string& by);

 private:
  static constexpr std::uint32_t kGivenUp = 1, kOneReader = 2;
  void leave() const;

  mutable std::mutex mutex_;
  mutable Buffers buffers_;  ///< changed only by who gives it up, or the last reader after that
  /// kOneReader for each, and kGivenUp.
  mutable std::atomic<std::uint32_t> readers_{0};
  std::string by_;
};

/// A number that no other value has.
std::uint64_t next_value_id();

/// The object that Array handles share. Apart from its memory it is constant once shared.
class ArrayImpl {
 public:
  enum class Kind : std::uint8_t {
    host_scalar,  ///< a plain scalar: `literal`; placed when first used
    device,       ///< `buffers` on the devices of `sharding`
    tracer,       ///< `instruction` of the trace `trace_id`
    abstract,     ///< shape and dtype only
  };

  ArrayImpl() = default;
  explicit ArrayImpl(ArrayMemory::Buffers buffers) : memory(std::move(buffers)) {}

  Kind kind = Kind::device;
  Shape shape;
  bool weak = false;

  std::optional<Literal> literal;
  /// For a weak float or complex scalar: its value in f64 or c128, for use with arrays of those
  /// types.
  std::optional<Literal> precise;

  Sharding sharding;
  /// For an abstract array with a spec but no mesh: the mesh in scope at its use applies.
  std::optional<PartitionSpec> spec;
  bool committed = false;
  /// The layout that its owner gave it; empty: row-major.
  std::optional<Layout> layout;
  ArrayMemory memory;

  std::uint64_t trace_id = 0;
  ir::Instruction* instruction = nullptr;
  Location created;
  /// Copies, which differ in the weak type, are the same value.
  std::uint64_t value_id = next_value_id();
};

using ArrayRef = std::shared_ptr<ArrayImpl>;

/// The kind of memory that it is in; `device` for what is nowhere yet.
inline MemoryKind memory_of(const ArrayImpl& impl) {
  return impl.sharding.valid() ? memory_of(impl.sharding) : MemoryKind::device;
}
/// The impl; ValueError if the handle is empty.
ArrayImpl& impl_of(const Array& array, Location location = {});
Array make_device_array(Shape shape, Sharding sharding, std::vector<DeviceBuffer> buffers,
                        bool committed, bool weak);
/// The array; if it has a spec without a mesh, with the sharding on the mesh in scope. TypeError
/// without a mesh, ValueError if the mesh lacks an axis; `who` begins the latter.
Array on_mesh_in_scope(const Array& array, Location location,
                       const std::string& who = "shape_dtype_struct");
/// RuntimeError if deleted or donated.
void check_alive(const ArrayImpl& impl, Location location);
/// The buffers of an array on devices, to read from; RuntimeError if deleted or donated.
ArrayMemory::Buffers shared_buffers(const ArrayImpl& impl, Location location);
/// Deletes arrays whose memory a call takes. If one of them has been deleted or donated, perhaps by
/// another thread, nothing is deleted and a RuntimeError is thrown. `by`: "donated to 'f'".
void donate(const std::vector<ArrayImpl*>& arrays, const std::string& by, Location location);

}  // namespace tessera::internal
