// SPDX-License-Identifier: Apache-2.0
// A plugin's table of functions, and calls of them: errors become PluginFailure.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "src/compiler/accelerators/client.h"
#include "src/pjrt/abi/api.h"
#include "src/pjrt/abi/version.h"

namespace tessera::engines::pjrt {

using compiler::accelerators::PluginFailure;
using compiler::accelerators::Value;
using compiler::accelerators::Values;

/// Arguments of a function, with their size, which says to plugins of other minor versions which
/// members there are; and room behind them. XLA's plugins refuse arguments that are smaller than
/// their own version's: newer ones find zeros there, which say that nothing is given.
template <class Args>
struct Sized : Args {
  static constexpr std::size_t kRoom = 64;
  std::byte room[kRoom];
};
template <class Args>
Sized<Args> sized() {
  static_assert(sizeof(Sized<Args>) == sizeof(Args) + Sized<Args>::kRoom);
  static_assert(std::is_trivially_copyable_v<Args>);
  Sized<Args> args;
  std::memset(static_cast<void*>(&args), 0, sizeof args);
  args.struct_size = sizeof(Args);
  return args;
}

/// A plugin that is loaded. It stays so for the life of the process, as its threads do, and so does
/// this object.
class Api {
 public:
  /// Throws PluginFailure if there is no such file, it is no plugin, or of another major version.
  static const Api* open(const std::string& file);

  int major() const { return table_->pjrt_api_version.major_version; }
  int minor() const { return table_->pjrt_api_version.minor_version; }
  /// The chain of the plugin's extensions; null if it has none.
  const PJRT_Extension_Base* extensions() const { return table_->extension_start; }

  /// Whether the plugin has the function: its table may be older, or leave it out.
  template <class Args>
  bool has(PJRT_Error* (*PJRT_Api::*function)(Args*)) const {
    const auto* at = reinterpret_cast<const std::byte*>(&(table_->*function));
    const auto end =
        std::size_t(at - reinterpret_cast<const std::byte*>(table_)) + sizeof(table_->*function);
    return end <= table_->struct_size && table_->*function != nullptr;
  }

  /// `name`: of the function, for messages.
  template <class Args>
  void call(PJRT_Error* (*PJRT_Api::*function)(Args*), Sized<Args>* args, const char* name) const {
    fit(args);
    if (is_over_.load(std::memory_order_relaxed)) throw at_the_end(name);
    if (!has(function)) {
      throw PluginFailure(name, PluginFailure::kUnimplemented,
                          "the plugin has no such function (its API is of version " +
                              std::to_string(major()) + "." + std::to_string(minor()) + ")");
    }
    if (PJRT_Error* error = (table_->*function)(args)) throw failure(error, name);
  }
  /// For what can't be reported: destroying things.
  template <class Args>
  void call_quietly(PJRT_Error* (*PJRT_Api::*function)(Args*), Sized<Args>* args) const noexcept {
    fit(args);
    if (!has(function) || is_over_.load(std::memory_order_relaxed)) return;
    if (PJRT_Error* error = (table_->*function)(args)) destroy(error);
  }

  /// Done by the calls; for what arguments refer to.
  template <class Args>
  void fit(Sized<Args>* args) const {
    if (minor() > kPjrtMinorVersion) args->struct_size = sizeof(*args);
  }

  /// Calls none of its functions any more once the process is at its end, where the plugin's own
  /// static objects are gone before functions run that were registered before it was loaded.
  void end_with_process() const;

  /// Takes the error, which isn't null.
  PluginFailure failure(PJRT_Error* error, const char* name) const;

 private:
  explicit Api(const PJRT_Api* table) : table_(table) {}
  void destroy(PJRT_Error* error) const noexcept;
  static PluginFailure at_the_end(const char* name);
  const PJRT_Api* table_;
  mutable std::atomic<bool> is_over_ = false;
};

/// Calls a function by the name that the table has for it.
#define TESSERA_PJRT_CALL(api, function, args) (api).call(&PJRT_Api::function, args, #function)

}  // namespace tessera::engines::pjrt
