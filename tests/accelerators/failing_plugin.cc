// SPDX-License-Identifier: Apache-2.0
// A plugin that is another one, whose file PJRT_TEST_PLUGIN names, but for what
// PJRT_TEST_FAULT says when it is opened: the name of a function that fails, "no FUNCTION" if there
// is none, or "no table", "major version", "small table", "no device", "late" (results are errors),
// "foreign" (of another maker), "gpu" (it says that it is for GPUs, of a platform "gpu", and keeps
// what options it was given), "key values" (the same, and clients first check what processes tell
// each other), "newer" (of a later minor version, whose arguments are longer). It counts what was
// made and not destroyed.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

// What is alive. Functions that fail make nothing.
std::atomic<long> buffers, events, programs;
void count_event(PJRT_Event* event) {
  if (event != nullptr) ++events;
}
template <class Args>
using Function = PJRT_Error*(Args*);

bool is_newer = false;
/// Whether the arguments have so many more bytes, of zeros, as a later version's.
template <class Args>
bool are_longer(const Args* args) {
  constexpr std::size_t kMore = 16;
  if (args->struct_size < sizeof(Args) + kMore) return false;
  const auto* more = reinterpret_cast<const char*>(args) + sizeof(Args);
  return std::all_of(more, more + kMore, [](char c) { return c == 0; });
}

/// How many calls start programs of several devices at the same time, and at most.
std::atomic<long> starts, most_starts;
bool slowly = false;

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  if (is_newer && !are_longer(args->options)) return made_error("options that are too small");
  const bool counts = slowly && args->num_devices > 1;
  if (counts) {
    const long now = ++starts;
    if (now > most_starts) most_starts = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --starts;
  }
  PJRT_Error* const error = real->PJRT_LoadedExecutable_Execute(args);
  if (error != nullptr) return error;
  auto get = PJRT_LoadedExecutable_GetExecutable_Args();
  get.struct_size = sizeof get;
  get.loaded_executable = args->executable;
  real->PJRT_LoadedExecutable_GetExecutable(&get);
  auto outputs = PJRT_Executable_NumOutputs_Args();
  outputs.struct_size = sizeof outputs;
  outputs.executable = get.executable;
  real->PJRT_Executable_NumOutputs(&outputs);
  auto gone = PJRT_Executable_Destroy_Args();
  gone.struct_size = sizeof gone;
  gone.executable = get.executable;
  real->PJRT_Executable_Destroy(&gone);
  buffers += long(outputs.num_outputs * args->num_devices);
  for (std::size_t d = 0; args->device_complete_events != nullptr && d < args->num_devices; ++d) {
    count_event(args->device_complete_events[d]);
  }
  return nullptr;
}
PJRT_Error* from_host(PJRT_Client_BufferFromHostBuffer_Args* args) {
  PJRT_Error* const error = real->PJRT_Client_BufferFromHostBuffer(args);
  if (error != nullptr) return error;
  ++buffers;
  count_event(args->done_with_host_buffer);
  return nullptr;
}
PJRT_Error* to_host(PJRT_Buffer_ToHostBuffer_Args* args) {
  PJRT_Error* const error = real->PJRT_Buffer_ToHostBuffer(args);
  if (error == nullptr && args->dst != nullptr) count_event(args->event);
  return error;
}
PJRT_Error* ready_event(PJRT_Buffer_ReadyEvent_Args* args) {
  PJRT_Error* const error = real->PJRT_Buffer_ReadyEvent(args);
  if (error == nullptr) count_event(args->event);
  return error;
}
PJRT_Error* version(PJRT_Client_PlatformVersion_Args* args) {
  static constexpr char kVersion[] = "somebody else's";
  args->platform_version = kVersion;
  args->platform_version_size = sizeof kVersion - 1;
  return nullptr;
}

/// Counts what a function makes, or destroys.
#define COUNT(table, name, count, by)                                  \
  (table)->PJRT_##name = [](PJRT_##name##_Args* args) -> PJRT_Error* { \
    PJRT_Error* const error = real->PJRT_##name(args);                 \
    if (error == nullptr) (count) += (by);                             \
    return error;                                                      \
  }
void count_all(PJRT_Api* table) {
  table->PJRT_LoadedExecutable_Execute = execute;
  table->PJRT_Client_BufferFromHostBuffer = from_host;
  table->PJRT_Buffer_ToHostBuffer = to_host;
  table->PJRT_Buffer_ReadyEvent = ready_event;
  COUNT(table, Buffer_CopyToMemory, buffers, 1);
  COUNT(table, Buffer_CopyToDevice, buffers, 1);
  COUNT(table, Buffer_Destroy, buffers, -1);
  COUNT(table, Event_Destroy, events, -1);
  COUNT(table, Client_Compile, programs, 1);
  COUNT(table, LoadedExecutable_Destroy, programs, -1);
  COUNT(table, LoadedExecutable_GetExecutable, programs, 1);
  COUNT(table, Executable_Destroy, programs, -1);
}
#undef COUNT

// What processes tell each other. The callbacks' types are those of the C API.
PJRT_Error* callback_error(int code, const char* text, std::size_t size) {
  return made_error("code " + std::to_string(code) + ": " + std::string(text, size));
}
template <class Args>
void set_key(const std::string& key, void* user_arg, Args* args) {
  args->struct_size = sizeof *args;
  args->key = const_cast<char*>(key.data());
  args->key_size = key.size();
  args->callback_error = reinterpret_cast<void*>(&callback_error);
  args->user_arg = user_arg;
}
/// The value, or what the error says.
template <class Args>
std::string call(void* callback, Args* args) {
  if (PJRT_Error* error = reinterpret_cast<Function<Args>*>(callback)(args)) {
    std::string text = own(error)->message;
    PJRT_Error_Destroy_Args gone{sizeof gone, nullptr, error};
    destroy(&gone);
    return text;
  }
  return "";
}
template <class Args>
std::string value_of(void* callback, Args* args) {
  const std::string error = call(callback, args);
  if (!error.empty()) return error;
  std::string out(static_cast<const char*>(args->value), args->value_size);
  reinterpret_cast<void (*)(char*)>(args->value_deleter_callback)(static_cast<char*>(args->value));
  return out;
}
/// Longer than a note between processes, and no text.
std::string said_by(long process) {
  return std::string("value\0of ", 9) + std::to_string(process) + std::string(9000, 'x');
}
std::string key_of(long process) { return "key of:" + std::to_string(process); }

/// What a client was given. Values have their types: "preallocate=b0 memory_fraction=f0.5 ".
std::string given_options;
std::string text_of(const PJRT_NamedValue& v) {
  std::string out(v.name, v.name_size);
  switch (v.type) {
    case PJRT_NamedValue_kBool:
      return out + "=b" + std::to_string(int(v.bool_value)) + " ";
    case PJRT_NamedValue_kInt64:
      return out + "=i" + std::to_string(v.int64_value) + " ";
    case PJRT_NamedValue_kFloat:
      return out + "=f" + std::to_string(v.float_value) + " ";
    case PJRT_NamedValue_kString:
      return out + "=" + std::string(v.string_value, v.value_size) + " ";
    default:
      out += "=";
      for (std::size_t k = 0; k < v.value_size; ++k) {
        out += "," + std::to_string(v.int64_array_value[k]);
      }
      return out + " ";
  }
}

/// As a plugin for GPUs takes them; the one behind knows none of these.
PJRT_Error* create_of_gpus(PJRT_Client_Create_Args* args) {
  std::vector<PJRT_NamedValue> passed;
  given_options.clear();
  for (std::size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& v = args->create_options[i];
    given_options += text_of(v);
    const std::string name(v.name, v.name_size);
    if (name == "node_id" || name == "num_nodes" || name == "cpu_device_count") passed.push_back(v);
  }
  PJRT_Client_Create_Args other = *args;
  other.create_options = passed.data();
  other.num_options = passed.size();
  PJRT_Error* const error = real->PJRT_Client_Create(&other);
  args->client = other.client;
  return error;
}
PJRT_Error* gpu_platform(PJRT_Client_PlatformName_Args* args) {
  static constexpr char kName[] = "gpu";
  args->platform_name = kName;
  args->platform_name_size = sizeof kName - 1;
  return nullptr;
}
void be_for_gpus(PJRT_Api* table) {
  static PJRT_Extension_Base extension{sizeof extension, PJRT_Extension_Type_Gpu_Custom_Call,
                                       nullptr};
  extension.next = table->extension_start;
  table->extension_start = &extension;
  table->PJRT_Client_Create = create_of_gpus;
}

struct Talk {
  const PJRT_Client_Create_Args& args;
  long process = -1, count = 0;

  /// What it fails of; empty if it doesn't.
  std::string put(const std::string& key, std::string value) const {
    PJRT_KeyValuePutCallback_Args put{};
    set_key(key, args.kv_put_user_arg, &put);
    put.value = value.data();
    put.value_size = value.size();
    return call(args.kv_put_callback, &put);
  }
  std::string get(const std::string& key, int milliseconds) const {
    PJRT_KeyValueGetCallback_Args get{};
    set_key(key, args.kv_get_user_arg, &get);
    get.timeout_in_ms = milliseconds;
    return value_of(args.kv_get_callback, &get);
  }
  std::string try_get(const std::string& key) const {
    PJRT_KeyValueTryGetCallback_Args get{};
    set_key(key, args.kv_try_get_user_arg, &get);
    return value_of(args.kv_try_get_callback, &get);
  }

  /// All put something else under one key: one of these counts, for all.
  std::string race(const std::string& key) const {
    const std::string mine = "of " + std::to_string(process);
    const std::string error = put(key, mine), won = get(key, 30000);
    if ((won == mine) != error.empty()) return key + ": " + won + ", and put: " + error;
    if (!error.empty() && error.find("code 6: ") != 0) return "put: " + error;
    (void)put(key + " " + mine, won);
    for (long p = 0; p < count; ++p) {
      const std::string theirs = get(key + " of " + std::to_string(p), 30000);
      if (theirs != won) return key + " is " + won + ", and " + theirs;
    }
    return "";
  }

  /// What goes wrong; empty if nothing does.
  std::string run() const {
    if (try_get("nobody's").find("code 5: ") != 0) return "no NOT_FOUND";
    if (get("nobody's", 50).find("code 4: ") != 0) return "no DEADLINE_EXCEEDED";
    for (const char* last : {"", "", "!"}) {
      const std::string error = put(key_of(process), said_by(process) + last);
      if (*last == 0 ? !error.empty() : error.find("code 6: ") != 0) return "put: " + error;
    }
    for (long p = 0; p < count; ++p) {
      const std::string got = get(key_of(p), 30000);
      if (got != said_by(p)) return "process " + std::to_string(p) + " said: " + got.substr(0, 80);
      if (try_get(key_of(p)) != said_by(p)) return "gone after a while";
    }
    for (int k = 0; k < 20; ++k) {
      const std::string wrong = race("race " + std::to_string(k));
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
};

std::string talk(const PJRT_Client_Create_Args& args) {
  Talk all{args};
  std::string given;
  for (std::size_t i = 0; i < args.num_options; ++i) {
    const std::string name(args.create_options[i].name, args.create_options[i].name_size);
    if (name == "node_id") all.process = long(args.create_options[i].int64_value);
    if (name == "num_nodes") all.count = long(args.create_options[i].int64_value);
    given += text_of(args.create_options[i]);
  }
  if (all.process < 0 || all.count < 2) return "no node_id and num_nodes";
  // The processes of the tests are on one machine.
  if (given.find("visible_devices=," + std::to_string(all.process) + " ") == std::string::npos) {
    return "options: " + given;
  }
  if (args.kv_get_callback == nullptr || args.kv_put_callback == nullptr ||
      args.kv_try_get_callback == nullptr) {
    return "no callbacks";
  }
  return all.run();
}
PJRT_Error* create_after_talk(PJRT_Client_Create_Args* args) {
  const std::string wrong = talk(*args);
  return wrong.empty() ? create_of_gpus(args) : made_error("talk: " + wrong);
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

/// As XLA's plugins: arguments that are smaller than their own are refused.
void be_newer(PJRT_Api* table) {
  table->pjrt_api_version.minor_version = 1000;
#define FUNCTION(name)                                                                           \
  {                                                                                              \
    static PJRT_Error* (*behind)(PJRT_##name##_Args*) = nullptr;                                 \
    behind = table->PJRT_##name;                                                                 \
    if (behind != nullptr) {                                                                     \
      table->PJRT_##name = [](PJRT_##name##_Args* args) -> PJRT_Error* {                         \
        return are_longer(args) ? behind(args) : made_error("PJRT_" #name ", too small, which"); \
      };                                                                                         \
    }                                                                                            \
  }
#define OPAQUE_FUNCTION(name)
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
}

void put_fault(PJRT_Api* table, const std::string& fault) {
  count_all(table);
#define FUNCTION(name)                                            \
  if (fault == "no PJRT_" #name) table->PJRT_##name = nullptr;    \
  if (fault == "PJRT_" #name) {                                   \
    table->PJRT_##name = [](PJRT_##name##_Args*) -> PJRT_Error* { \
      return made_error("PJRT_" #name);                           \
    };                                                            \
  }
#define OPAQUE_FUNCTION(name)
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
  is_newer = fault == "newer";
  if (is_newer) be_newer(table);
  if (fault == "major version") table->pjrt_api_version.major_version = 7;
  if (fault == "small table") table->struct_size = 64;
  if (fault == "no extensions") table->extension_start = nullptr;
  if (fault == "foreign") table->PJRT_Client_PlatformVersion = version;
  if (fault == "gpu") {
    be_for_gpus(table);
    table->PJRT_Client_PlatformName = gpu_platform;
  }
  slowly = fault == "gpu";
  if (fault == "key values") {
    be_for_gpus(table);
    table->PJRT_Client_Create = create_after_talk;
  }
  if (fault == "no device") table->PJRT_Client_AddressableDevices = no_devices;
  if (fault == "late") {
    table->PJRT_Event_OnReady = late_ready;
    table->PJRT_Buffer_ToHostBuffer = late_read;
  }
}

}  // namespace

/// How many are alive of what: buffers, events, programs, errors; 4: how many programs of several
/// devices were started at the same time, at most.
extern "C" __attribute__((visibility("default"))) long failing_plugin_alive(int what) {
  const std::lock_guard lock(mutex);
  const long all[] = {buffers, events, programs, long(own_errors.size()), most_starts};
  return all[what];
}

/// What the last client was given.
extern "C" __attribute__((visibility("default"))) const char* failing_plugin_options() {
  return given_options.c_str();
}

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
