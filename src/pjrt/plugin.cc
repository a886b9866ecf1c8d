// SPDX-License-Identifier: Apache-2.0
// The one function that the plugin exports.
#include <string>

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

PJRT_Api make_api() {
  PJRT_Api api{};
  api.struct_size = sizeof(PJRT_Api);
  api.extension_start = extensions();
  api.pjrt_api_version.struct_size = sizeof(PJRT_Api_Version);
  api.pjrt_api_version.major_version = 0;
  api.pjrt_api_version.minor_version = 114;
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

}  // namespace
}  // namespace tessera::pjrt

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = tessera::pjrt::make_api();
  return &api;
}
