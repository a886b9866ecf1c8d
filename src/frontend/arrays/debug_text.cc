// SPDX-License-Identifier: Apache-2.0
// What debuggers show of an object: packaging/gdb/tessera_printers.py calls this in the program
// that is debugged, as optimised builds have no debug information of the library's types.
#include <string>
#include <string_view>

#include "src/frontend/arrays/array_impl.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::internal {

namespace {

std::string of_array(const Array& array) {
  if (!array.valid()) return "empty array";
  const ArrayImpl& impl = *array.impl();
  std::string text = impl.shape.to_string();
  if (impl.weak) text += " (weak)";
  switch (impl.kind) {
    case ArrayImpl::Kind::host_scalar:
      return text + ", plain number";
    case ArrayImpl::Kind::abstract:
      return text + ", abstract";
    case ArrayImpl::Kind::tracer:
      return text +
             ", tracer: " + (impl.instruction == nullptr ? "?" : impl.instruction->describe());
    case ArrayImpl::Kind::device:
      break;
  }
  // Without the locks of its memory: the thread that holds them may be stopped.
  return text + ", " + impl.sharding.to_string();
}

std::string of_module(const ir::Module& m) {
  return "module " + m.name + ": " + std::to_string(m.instruction_count()) + " instructions, " +
         std::to_string(m.computations().size()) + " computations, " +
         std::to_string(m.num_partitions) + " partitions, " + std::to_string(m.replica_count) +
         " replicas";
}

template <class T>
const T& as(const void* object) {
  return *static_cast<const T*>(object);
}

std::string text_of(std::string_view kind, const void* object) {
  if (kind == "array") return of_array(as<Array>(object));
  if (kind == "values") return to_string(as<Array>(object));
  if (kind == "sharding") return as<Sharding>(object).to_string();
  if (kind == "spec") return as<PartitionSpec>(object).to_string();
  if (kind == "mesh") return as<Mesh>(object).to_string();
  if (kind == "shape") return as<Shape>(object).to_string_with_layout();
  if (kind == "tensor_sharding") return as<TensorSharding>(object).to_string();
  if (kind == "instruction") return ir::to_string(as<ir::Instruction>(object));
  if (kind == "computation") return ir::to_string(as<ir::Computation>(object));
  if (kind == "module") return of_module(as<ir::Module>(object));
  if (kind == "module_text") return ir::to_string(as<ir::Module>(object));
  return "no such kind of object: " + std::string(kind);
}

}  // namespace

}  // namespace tessera::internal

/// For debuggers: the text of an object of that kind. The caller copies it: the next call on the
/// thread overwrites it. What it throws, gdb takes for the end of the call.
extern "C" __attribute__((visibility("default"), used)) const char* tessera_debug_text(
    const char* kind, const void* object) {
  static thread_local std::string text;
  text = tessera::internal::text_of(kind, object);
  return text.c_str();
}
