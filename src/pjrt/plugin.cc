// SPDX-License-Identifier: Apache-2.0
// The one function that the plugin exports.
#include <string>

#include "src/base/arrays/subnormals.h"
#include "src/pjrt/abi/version.h"
#include "src/pjrt/entry.h"
#include "src/pjrt/objects.h"

namespace tessera::pjrt {
namespace {

PJRT_Error* unimplemented(const char* name) {
  return guarded([&] {
    throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                  "PJRT_" + std::string(name) + " is not implemented by Tessera");
  });
}

/// Every function that nothing else fills in says its own name.
void fill_unimplemented(PJRT_Api& api) {
#define FUNCTION(name) api.PJRT_##name = [](PJRT_##name##_Args*) { return unimplemented(#name); };
#define OPAQUE_FUNCTION(name) api.PJRT_##name = [](void*) { return unimplemented(#name); };
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
}

/// The functions themselves.
PJRT_Api make_functions() {
  PJRT_Api api{};
  fill_unimplemented(api);
  fill_errors_and_events(api);
  fill_client(api);
  fill_devices(api);
  fill_topologies(api);
  fill_buffers(api);
  fill_transfers(api);
  fill_executables(api);
  fill_execution(api);
  return api;
}

const PJRT_Api& functions() {
  static const PJRT_Api table = make_functions();
  return table;
}

PJRT_Error* without_error(PJRT_Error* error) {
  if (error != nullptr) {
    PJRT_Error_Destroy_Args args{sizeof args, nullptr, error};
    functions().PJRT_Error_Destroy(&args);
  }
  return nullptr;
}

/// What clients see: the functions behind checks of what they are called with.
PJRT_Api make_api() {
  flush_subnormals_by_default();  // as XLA's programs on CPUs do, which clients expect
  PJRT_Api api = functions();
  api.struct_size = sizeof(PJRT_Api);
  api.extension_start = extensions();
  api.pjrt_api_version.struct_size = sizeof(PJRT_Api_Version);
  api.pjrt_api_version.major_version = kPjrtMajorVersion;
  api.pjrt_api_version.minor_version = kPjrtMinorVersion;
#define FUNCTION(name)                                       \
  api.PJRT_##name = [](PJRT_##name##_Args* args) {           \
    return call_entry(functions().PJRT_##name, #name, args); \
  };
#define OPAQUE_FUNCTION(name)
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
  // Clients take no errors from these two.
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) {
    return without_error(call_entry(functions().PJRT_Error_Destroy, "Error_Destroy", args));
  };
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    return without_error(call_entry(functions().PJRT_Error_Message, "Error_Message", args));
  };
  return api;
}

}  // namespace
}  // namespace tessera::pjrt

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = tessera::pjrt::make_api();
  return &api;
}
