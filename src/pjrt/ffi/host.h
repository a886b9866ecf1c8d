// SPDX-License-Identifier: Apache-2.0
// The side of XLA's FFI that calls handlers: errors, states of calls, types, and the table of
// functions that handlers get.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "src/pjrt/ffi/user_data.h"
#include "src/pjrt/ffi/xla_ffi.h"

struct XLA_FFI_Error {
  std::string message;
  std::uint32_t code = 2;  ///< absl's
};

struct XLA_FFI_Future {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::unique_ptr<XLA_FFI_Error> error;
};

namespace tessera::pjrt::ffi {

/// An object that a handler keeps for later stages or calls; deleted by its type's function.
class State {
 public:
  State() = default;
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  bool set(std::int64_t type, void* object);
  bool is_set() const { return object_ != nullptr; }
  /// Null if it is of another type.
  void* get(std::int64_t type) const { return type == type_ ? object_ : nullptr; }

 private:
  std::int64_t type_ = 0;
  void* object_ = nullptr;
};

/// Registers a type, or finds it by its name: `*id` is its number, or 0 for any. False if it is
/// known by another number.
bool register_type(std::string_view name, std::int64_t* id, void (*deleter)(void*));

/// What handlers may call.
const XLA_FFI_Api& api();

}  // namespace tessera::pjrt::ffi

/// One call, at one of its stages.
struct XLA_FFI_ExecutionContext {
  /// Of stages before execution: instantiate's lives as long as the program.
  std::array<tessera::pjrt::ffi::State*, 3> states{};
  const tessera::pjrt::ffi::UserData* data = nullptr;
  std::int64_t run_id = 0;
  const XLA_FFI_Api* errors_of = nullptr;  ///< HandlerTraits::errors_of
};
