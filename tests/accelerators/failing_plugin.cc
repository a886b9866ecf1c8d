// SPDX-License-Identifier: Apache-2.0
// A plugin that is another one, whose file PJRT_TEST_PLUGIN names, but for what
// PJRT_TEST_FAULT says when it is opened: the name of a function that fails, or
// "no table", "major version", "small table", "no device", "late" (results are errors).
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "src/pjrt/abi/api.h"

namespace {

struct OwnError {
  std::string message;
};

std::mutex mutex;
std::set<const void*> own_errors;
const PJRT_Api* real = nullptr;

PJRT_Error* made_error(const std::string& function) {
  auto* error = new OwnError{function + " fails on purpose"};
  const std::lock_guard lock(mutex);
  own_errors.insert(error);
  return reinterpret_cast<PJRT_Error*>(error);
}

const OwnError* own(const PJRT_Error* error) {
  const std::lock_guard lock(mutex);
  return own_errors.count(error) > 0 ? reinterpret_cast<const OwnError*>(error) : nullptr;
}

PJRT_Error* destroy(PJRT_Error_Destroy_Args* args) {
  if (const OwnError* error = own(args->error)) {
    {
      const std::lock_guard lock(mutex);
      own_errors.erase(error);
    }
    delete error;
    return nullptr;
  }
  return real->PJRT_Error_Destroy(args);
}
PJRT_Error* message(PJRT_Error_Message_Args* args) {
  const OwnError* error = own(args->error);
  if (error == nullptr) return real->PJRT_Error_Message(args);
  args->message = error->message.data();
  args->message_size = error->message.size();
  return nullptr;
}
PJRT_Error* code(PJRT_Error_GetCode_Args* args) {
  if (own(args->error) == nullptr) return real->PJRT_Error_GetCode(args);
  args->code = PJRT_Error_Code_INTERNAL;
  return nullptr;
}
PJRT_Error* no_devices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = nullptr;
  args->num_addressable_devices = 0;
  return nullptr;
}
PJRT_Error* late_ready(PJRT_Event_OnReady_Args* args) {
  auto* callback = reinterpret_cast<void (*)(PJRT_Error*, void*)>(args->callback);
  callback(made_error("the device"), args->user_arg);
  return nullptr;
}
PJRT_Error* late_read(PJRT_Buffer_ToHostBuffer_Args* args) {
  if (args->dst == nullptr) return real->PJRT_Buffer_ToHostBuffer(args);
  return made_error("the device");
}

void put_fault(PJRT_Api* table, const std::string& fault) {
#define FUNCTION(name)                                            \
  if (fault == "PJRT_" #name) {                                   \
    table->PJRT_##name = [](PJRT_##name##_Args*) -> PJRT_Error* { \
      return made_error("PJRT_" #name);                           \
    };                                                            \
  }
#define OPAQUE_FUNCTION(name)
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
  if (fault == "major version") table->pjrt_api_version.major_version = 7;
  if (fault == "small table") table->struct_size = 64;
  if (fault == "no extensions") table->extension_start = nullptr;
  if (fault == "no device") table->PJRT_Client_AddressableDevices = no_devices;
  if (fault == "late") {
    table->PJRT_Event_OnReady = late_ready;
    table->PJRT_Buffer_ToHostBuffer = late_read;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  const char* file = std::getenv("PJRT_TEST_PLUGIN");
  const char* fault = std::getenv("PJRT_TEST_FAULT");
  void* library = file == nullptr ? nullptr : dlopen(file, RTLD_NOW | RTLD_LOCAL);
  auto* get = library == nullptr
                  ? nullptr
                  : reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr || (fault != nullptr && std::strcmp(fault, "no table") == 0)) return nullptr;
  real = get();
  auto* table = new PJRT_Api(*real);  // clients keep it for ever
  table->PJRT_Error_Destroy = destroy;
  table->PJRT_Error_Message = message;
  table->PJRT_Error_GetCode = code;
  put_fault(table, fault == nullptr ? "" : fault);
  return table;
}
