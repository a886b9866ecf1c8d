// SPDX-License-Identifier: Apache-2.0
// The Layouts extension: which layouts buffers, arguments and results of programs have.
#include "src/pjrt/entry.h"
#include "src/pjrt/extensions.h"
#include "src/pjrt/program.h"

namespace tessera::pjrt {
namespace {

/// They stay: there is one of each.
PJRT_Error* destroy(PJRT_Layouts_MemoryLayout_Destroy_Args*) { return nullptr; }

PJRT_Error* write(PJRT_Layouts_MemoryLayout_Serialize_Args* args) {
  return guarded([&] {
    const std::string& text = checked(args->layout, "layout").text;
    args->serialized_bytes = text.data();
    args->serialized_bytes_size = text.size();
    args->serialized_layout = args->layout;
    args->serialized_layout_deleter = reinterpret_cast<void*>(+[](void*) {});
  });
}

PJRT_Error* of_buffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args) {
  return guarded([&] { args->layout = &memory_layout(checked(args->buffer, "buffer").shape); });
}

template <class Args>
void default_layout(Args* args) {
  check_list(args->dims, args->num_dims, "dims");
  args->layout = &row_major_layout(args->num_dims);
}

PJRT_Error* of_client(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args) {
  return guarded([&] {
    checked(args->client, "client");
    default_layout(args);
  });
}

PJRT_Error* of_topology(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args) {
  return guarded([&] {
    checked(args->topology_description, "topology");
    default_layout(args);
  });
}

PJRT_Error* of_outputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args) {
  return guarded([&] {
    const Program& p = *checked(args->executable, "executable").program;
    args->num_outputs = p.result_layouts.size();
    args->layouts = p.result_layouts.data();
  });
}

PJRT_Error* of_parameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args* args) {
  return guarded([&] {
    const Program& p = *checked(args->executable, "executable").program;
    args->num_parameters = p.parameter_layouts.size();
    args->layouts = p.parameter_layouts.data();
  });
}

}  // namespace

PJRT_Extension_Base* layouts_extension() {
  static PJRT_Layouts_Extension table{
      {sizeof(PJRT_Layouts_Extension), PJRT_Extension_Type_Layouts, nullptr},
      entry<destroy>,
      entry<write>,
      entry<of_client>,
      entry<of_buffer>,
      entry<of_topology>,
      entry<of_outputs>,
      entry<of_parameters>};
  return &table.base;
}

}  // namespace tessera::pjrt
