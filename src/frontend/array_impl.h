// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <tessera/array.h>

#include "src/base/literal.h"
#include "src/ir/module.h"
#include "src/runtime/buffer.h"

namespace tessera::internal {

/// What an Array handle points to.
class ArrayImpl {
 public:
  enum class Kind : std::uint8_t {
    host_scalar,  ///< a plain scalar: `literal`; placed when first used
    device,       ///< `buffers` on the devices of `sharding`
    tracer,       ///< `instruction` of the trace `trace_id`
    abstract,     ///< shape and dtype only
  };

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
  std::vector<runtime::Buffer> buffers;  ///< in the order of sharding.device_list()
  bool deleted = false;
  std::string deleted_by;  ///< "donated to f (file:line)"; empty: delete_()

  std::uint64_t trace_id = 0;
  ir::Instruction* instruction = nullptr;
  Location created;
};

using ArrayRef = std::shared_ptr<ArrayImpl>;

/// The impl; ValueError if the handle is empty.
ArrayImpl& impl_of(const Array& array, Location location = {});
Array make_device_array(Shape shape, Sharding sharding, std::vector<runtime::Buffer> buffers,
                        bool committed, bool weak);
/// The array itself; of one with a spec only, the same with its sharding on the mesh in scope:
/// TypeError without a mesh, ValueError if the mesh has other axes.
Array on_mesh_in_scope(const Array& array, Location location);
/// RuntimeError if deleted or donated.
void check_alive(const ArrayImpl& impl, Location location);

}  // namespace tessera::internal
