// SPDX-License-Identifier: Apache-2.0
// What stands behind an Array, and who may touch its memory when.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/array.h>

#include "src/base/device_buffer.h"
#include "src/base/literal.h"
#include "src/ir/module.h"

namespace tessera::internal {

/// The memory of an array, in the order of its sharding's device_list(). Any thread may read while
/// another deletes or donates.
///
/// Who reads takes handles of his own first, and reads those: what he holds stays as it is, since
/// a run writes into donated memory only where nobody else has a handle. Who donates gives the
/// array's handles up, after which nobody can take more of them.
class ArrayMemory {
 public:
  using Buffers = std::vector<DeviceBuffer>;
  explicit ArrayMemory(Buffers buffers = {}) : buffers_(std::move(buffers)) {}
  /// Handles of its own on the same memory; given up, if the other's are.
  ArrayMemory(const ArrayMemory& other);
  ArrayMemory& operator=(const ArrayMemory&) = delete;

  /// Handles to read from; none if they were given up.
  std::optional<Buffers> share() const;
  bool given_up() const;
  /// "donated to f (file:line)"; empty: delete_().
  std::string given_up_by() const;
  /// Nothing happens the second time.
  void give_up(const std::string& by);
  /// All of them, or none: the place in the list of one that was given up before. One may stand
  /// several times in the list.
  static std::optional<std::size_t> give_up_all(const std::vector<ArrayMemory*>& list,
                                                const std::string& by);

 private:
  mutable std::mutex mutex_;
  Buffers buffers_;
  bool given_up_ = false;
  std::string by_;
};

/// What an Array handle points to. Constant once others see it, but for its memory.
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
  /// Of a weak float or complex scalar: the number as given, in f64 or c128, for use with arrays of
  /// those types.
  std::optional<Literal> precise;

  Sharding sharding;
  /// Of an abstract array that got a spec without a mesh: the mesh in scope when it is asked for.
  std::optional<PartitionSpec> spec;
  bool committed = false;
  ArrayMemory memory;

  std::uint64_t trace_id = 0;
  ir::Instruction* instruction = nullptr;
  Location created;
};

using ArrayRef = std::shared_ptr<ArrayImpl>;

/// The impl; ValueError if the handle is empty.
ArrayImpl& impl_of(const Array& array, Location location = {});
Array make_device_array(Shape shape, Sharding sharding, std::vector<DeviceBuffer> buffers,
                        bool committed, bool weak);
/// The array itself; of one with a spec only, the same with its sharding on the mesh in scope:
/// TypeError without a mesh, ValueError if the mesh has other axes.
/// `who` begins the latter.
Array on_mesh_in_scope(const Array& array, Location location,
                       const std::string& who = "shape_dtype_struct");
/// RuntimeError if deleted or donated.
void check_alive(const ArrayImpl& impl, Location location);
/// The buffers of an array on devices, to read from; RuntimeError if deleted or donated.
ArrayMemory::Buffers shared_buffers(const ArrayImpl& impl, Location location);
/// Deletes arrays whose memory a call takes; RuntimeError, and nothing is deleted, if one of them
/// has been deleted or donated, by another thread perhaps. `by`: "donated to 'f'".
void donate(const std::vector<ArrayImpl*>& arrays, const std::string& by, Location location);

}  // namespace tessera::internal
