// SPDX-License-Identifier: Apache-2.0
// Opens plugins, and checks what they are.
#include "src/engines/pjrt/api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <set>

namespace tessera::engines::pjrt {
namespace {

/// Up to the functions that no client can do without (Buffer_ToHostBuffer and those before it).
constexpr std::size_t kLeastTable = offsetof(PJRT_Api, PJRT_Buffer_IsOnCpu);

/// Closes what turned out to be no plugin. One that has begun to work is never closed.
struct Closer {
  void operator()(void* library) const { dlclose(library); }
};

std::string code_name(int code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  const bool known = code >= 0 && code < int(std::size(kNames));
  return known ? kNames[code] : "code " + std::to_string(code);
}

}  // namespace

const Api* Api::open(const std::string& file) {
  const auto refuse = [](const char* function, const std::string& why) {
    return PluginFailure(function, PluginFailure::kInvalidArgument, why);
  };
  // A plugin's symbols are nobody else's: it may be another copy of what this process has.
  std::unique_ptr<void, Closer> library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    const char* why = dlerror();
    throw refuse("dlopen", why == nullptr ? "it can't be loaded" : why);
  }
  auto* get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library.get(), "GetPjrtApi"));
  if (get == nullptr) throw refuse("GetPjrtApi", "the file has no such function: it is no plugin");
  const PJRT_Api* table = get();
  if (table == nullptr) throw refuse("GetPjrtApi", "it gave no table of functions");
  const PJRT_Api_Version& version = table->pjrt_api_version;
  if (table->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy)) {
    throw refuse("GetPjrtApi", "the table of functions has only " +
                                   std::to_string(table->struct_size) + " bytes");
  }
  if (version.major_version != kPjrtMajorVersion) {
    throw refuse("GetPjrtApi", "the plugin is of version " + std::to_string(version.major_version) +
                                   "." + std::to_string(version.minor_version) +
                                   " of the PJRT API; valid are those " + "of major version " +
                                   std::to_string(kPjrtMajorVersion));
  }
  if (table->struct_size < kLeastTable) {
    throw refuse("GetPjrtApi", "the table of functions has " + std::to_string(table->struct_size) +
                                   " bytes; " + std::to_string(kLeastTable) +
                                   " or more are needed");
  }
  const Api* api(new Api(table));
  (void)library.release();
  auto args = sized<PJRT_Plugin_Initialize_Args>();
  TESSERA_PJRT_CALL(*api, PJRT_Plugin_Initialize, &args);
  return api;
}

void Api::end_with_process() const {
  // Every plugin stays, and so does its Api: one list for the function at the end.
  struct Ends {
    std::mutex mutex;
    std::set<const Api*> all;
  };
  static Ends& ends = *new Ends;
  static const int registered = std::atexit([] {
    const std::lock_guard lock(ends.mutex);
    for (const Api* api : ends.all) api->is_over_ = true;
  });
  (void)registered;
  const std::lock_guard lock(ends.mutex);
  ends.all.insert(this);
}

PluginFailure Api::at_the_end(const char* name) {
  return {name, PluginFailure::kFailedPrecondition,
          "the process is at its end, and the plugin has taken itself apart; what was registered "
          "by std::atexit before the plugin was loaded runs after that; valid: to register it "
          "after devices(NAME) or load_pjrt_plugin"};
}

void Api::destroy(PJRT_Error* error) const noexcept {
  if (!has(&PJRT_Api::PJRT_Error_Destroy)) return;
  auto args = sized<PJRT_Error_Destroy_Args>();
  fit(&args);
  args.error = error;
  (void)table_->PJRT_Error_Destroy(&args);
}

PluginFailure Api::failure(PJRT_Error* error, const char* name) const {
  int code = PluginFailure::kUnknown;
  std::string message;
  if (has(&PJRT_Api::PJRT_Error_GetCode)) {
    auto args = sized<PJRT_Error_GetCode_Args>();
    fit(&args);
    args.error = error;
    if (PJRT_Error* second = table_->PJRT_Error_GetCode(&args)) {
      destroy(second);
    } else {
      code = int(args.code);
    }
  }
  if (has(&PJRT_Api::PJRT_Error_Message)) {
    auto args = sized<PJRT_Error_Message_Args>();
    fit(&args);
    args.error = error;
    (void)table_->PJRT_Error_Message(&args);
    if (args.message != nullptr) message.assign(args.message, args.message_size);
  }
  destroy(error);
  return {name, code, code_name(code) + (message.empty() ? "" : ": " + message)};
}

}  // namespace tessera::engines::pjrt
