// SPDX-License-Identifier: Apache-2.0
// Callbacks of a plugin that connects its devices of several processes.
#include "src/engines/pjrt/key_values.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace tessera::engines::pjrt {
namespace {

using compiler::accelerators::KeyValues;

/// As the C API declares them.
using CallbackError = PJRT_Error*(int code, const char* message, std::size_t message_size);
enum : int { kDeadlineExceeded = 4, kNotFound = 5, kAlreadyExists = 6, kUnavailable = 14 };

template <class Args>
std::string key_of(const Args& args) {
  return {static_cast<const char*>(args.key), args.key_size};
}

template <class Args>
PJRT_Error* refuse(const Args& args, int code, const std::string& why) {
  auto* const make = reinterpret_cast<CallbackError*>(args.callback_error);
  return make == nullptr ? nullptr : make(code, why.data(), why.size());
}

void free_value(char* value) { delete[] value; }

template <class Args>
void give(const std::string& value, Args* args) {
  char* const copy = new char[value.size() + 1];
  std::memcpy(copy, value.c_str(), value.size() + 1);
  args->value = copy;
  args->value_size = value.size();
  args->value_deleter_callback = reinterpret_cast<void*>(&free_value);
}

PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args) {
  const std::string key = key_of(*args);
  const auto value = static_cast<KeyValues*>(args->user_arg)
                         ->get(key, std::chrono::milliseconds(std::max(0, args->timeout_in_ms)));
  if (!value) {
    return refuse(
        *args, kDeadlineExceeded,
        "no process has said '" + key + "' within " + std::to_string(args->timeout_in_ms) + " ms");
  }
  give(*value, args);
  return nullptr;
}

PJRT_Error* try_get(PJRT_KeyValueTryGetCallback_Args* args) {
  const std::string key = key_of(*args);
  const auto value = static_cast<KeyValues*>(args->user_arg)->try_get(key);
  if (!value) return refuse(*args, kNotFound, "no process has said '" + key + "' yet");
  give(*value, args);
  return nullptr;
}

PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args) {
  const std::string key = key_of(*args);
  const std::string value(static_cast<const char*>(args->value), args->value_size);
  switch (static_cast<KeyValues*>(args->user_arg)->put(key, value)) {
    case KeyValues::Put::done:
      return nullptr;
    case KeyValues::Put::taken:
      return refuse(*args, kAlreadyExists, "a process has said something else of '" + key + "'");
    case KeyValues::Put::undecided:
      break;
  }
  return refuse(*args, kUnavailable,
                "the first process, which decides what '" + key +
                    "' is, doesn't answer, or this one is at its end");
}

}  // namespace

void give_key_values(KeyValues* shared, PJRT_Client_Create_Args* args) {
  args->kv_get_callback = reinterpret_cast<void*>(&get);
  args->kv_get_user_arg = shared;
  args->kv_put_callback = reinterpret_cast<void*>(&put);
  args->kv_put_user_arg = shared;
  args->kv_try_get_callback = reinterpret_cast<void*>(&try_get);
  args->kv_try_get_user_arg = shared;
}

}  // namespace tessera::engines::pjrt
