// SPDX-License-Identifier: Apache-2.0
// The FFI extension of PJRT, and a function for handlers of several stages.
#include "src/pjrt/ffi/extension.h"

#include <string>
#include <string_view>

#include "src/pjrt/entry.h"
#include "src/pjrt/ffi/handlers.h"
#include "src/pjrt/ffi/host.h"
#include "src/pjrt/objects.h"
#include "src/pjrt/status.h"

namespace tessera::pjrt::ffi {
namespace {

template <class F>
F function_of(void* pointer) {
  return reinterpret_cast<F>(pointer);
}

PJRT_Error* type_register(PJRT_FFI_Type_Register_Args* args) {
  return guarded([&] {
    void (*deleter)(void*) = nullptr;
    if (args->struct_size >= sizeof(*args) && args->type_info != nullptr) {
      deleter = function_of<void (*)(void*)>(
          static_cast<const PJRT_FFI_Type_Info*>(args->type_info)->deleter);
    }
    const std::string_view name = text_of(args->type_name, args->type_name_size, "a name");
    if (!register_type(name, &args->type_id, deleter)) {
      throw Failure(PJRT_Error_Code_ALREADY_EXISTS,
                    "the type \"" + std::string(name) + "\" is registered with another number");
    }
  });
}

PJRT_Error* user_data_add(PJRT_FFI_UserData_Add_Args* args) {
  return guarded([&] {
    UserData& data = checked(args->context, "context").user_data;
    if (find(data, args->user_data.type_id) != nullptr) {
      throw Failure(PJRT_Error_Code_ALREADY_EXISTS,
                    "the context has user data of the type with the number " +
                        std::to_string(args->user_data.type_id) + " already");
    }
    data.emplace_back(args->user_data.type_id, const_cast<void*>(args->user_data.data));
  });
}

PJRT_Error* handler_register(PJRT_FFI_Register_Handler_Args* args) {
  return guarded([&] {
    checked(static_cast<char*>(args->handler), "handler");
    register_handler(text_of(args->target_name, args->target_name_size, "a name"),
                     text_of(args->platform_name, args->platform_name_size, "a platform"),
                     {nullptr, nullptr, nullptr, function_of<XLA_FFI_Handler*>(args->handler)});
  });
}

PJRT_FFI_Extension make_extension() {
  PJRT_FFI_Extension e{};
  e.base.struct_size = sizeof(PJRT_FFI_Extension);
  e.base.type = PJRT_Extension_Type_FFI;
  e.type_register = reinterpret_cast<void*>(entry<type_register>);
  e.user_data_add = reinterpret_cast<void*>(entry<user_data_add>);
  e.register_handler = reinterpret_cast<void*>(entry<handler_register>);
  return e;
}

}  // namespace

PJRT_FFI_Extension* extension() {
  static PJRT_FFI_Extension table = make_extension();
  return &table;
}

}  // namespace tessera::pjrt::ffi

/// Registers a handler with functions for several stages (null: none), which the extension can't.
/// Returns null, or a text that stays until the thread's next call.
extern "C" __attribute__((visibility("default"))) const char* TesseraRegisterHandler(
    const char* name, void* instantiate, void* prepare, void* initialize, void* execute) {
  using tessera::pjrt::ffi::function_of;
  static thread_local std::string failure;
  try {
    tessera::pjrt::ffi::register_handler(
        name, "Host",
        {function_of<XLA_FFI_Handler*>(instantiate), function_of<XLA_FFI_Handler*>(prepare),
         function_of<XLA_FFI_Handler*>(initialize), function_of<XLA_FFI_Handler*>(execute)});
    return nullptr;
  } catch (const std::exception& e) {
    failure = e.what();
    return failure.c_str();
  }
}

/// The same for a type: `id` (an XLA_FFI_TypeId) is given its number unless it has one.
extern "C" __attribute__((visibility("default"))) const char* TesseraRegisterType(
    const char* name, void* id, const void* info) {
  static thread_local std::string failure;
  try {
    const auto* const of_type = static_cast<const XLA_FFI_TypeInfo*>(info);
    if (tessera::pjrt::ffi::register_type(name, &static_cast<XLA_FFI_TypeId*>(id)->type_id,
                                          of_type == nullptr ? nullptr : of_type->deleter)) {
      return nullptr;
    }
    failure = std::string("the type \"") + name + "\" is registered with another number";
  } catch (const std::exception& e) {
    failure = e.what();
  }
  return failure.c_str();
}
