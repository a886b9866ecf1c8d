// SPDX-License-Identifier: Apache-2.0
// Functions that handlers of XLA's FFI call.
#include "src/pjrt/ffi/host.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <new>

#include "src/base/threads/task_pool.h"
#include "src/pjrt/ffi/handlers.h"

namespace tessera::pjrt::ffi {
namespace {

enum Code : std::uint32_t {
  invalid_argument = 3,
  not_found = 5,
  already_exists = 6,
  out_of_memory = 8,
  failed_precondition = 9,
  unimplemented = 12,
  internal = 13,
};

XLA_FFI_Error* error(Code code, std::string message) {
  return new XLA_FFI_Error{std::move(message), code};
}

/// As the handler of that context takes them.
XLA_FFI_Error* error(const XLA_FFI_ExecutionContext& context, Code code, std::string message) {
  if (context.errors_of == nullptr) return error(code, std::move(message));
  XLA_FFI_Error_Create_Args args{sizeof args, nullptr, message.c_str(), code};
  return context.errors_of->error_create(&args);
}

/// Exceptions end here.
template <class F>
XLA_FFI_Error* guarded(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return error(out_of_memory, "out of memory");
  } catch (const std::exception& e) {
    return error(internal, e.what());
  }
}

struct Types {
  struct Type {
    std::int64_t id = 0;
    void (*deleter)(void*) = nullptr;
  };
  std::mutex mutex;
  std::map<std::string, Type, std::less<>> by_name;
  // Numbers of other instances of the interface, which come with user data, are small.
  std::int64_t next = std::int64_t(1) << 32;
};

Types& types() {
  static Types* const instance = new Types();  // programs may outlive static objects
  return *instance;
}

XLA_FFI_Error* error_create(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{args->message == nullptr ? "" : args->message, args->errc};
}
void error_get_message(XLA_FFI_Error_GetMessage_Args* args) {
  args->message = args->error->message.c_str();
}
void error_destroy(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

XLA_FFI_Error* handler_register(XLA_FFI_Handler_Register_Args* args) {
  return guarded([&]() -> XLA_FFI_Error* {
    register_handler({args->name.ptr, args->name.len}, {args->platform.ptr, args->platform.len},
                     args->bundle);
    return nullptr;
  });
}

/// XLA's words for it come first: programs look for them.
XLA_FFI_Error* stream_get(XLA_FFI_Stream_Get_Args* args) {
  return error(*args->ctx, unimplemented,
               "XLA FFI GPU context is not available: devices of Tessera have no streams");
}

XLA_FFI_Error* type_register(XLA_FFI_Type_Register_Args* args) {
  return guarded([&]() -> XLA_FFI_Error* {
    const std::string_view name(args->name.ptr, args->name.len);
    const bool has_info = args->struct_size >= sizeof(*args) && args->type_info != nullptr;
    if (register_type(name, &args->type_id->type_id,
                      has_info ? args->type_info->deleter : nullptr)) {
      return nullptr;
    }
    return error(already_exists,
                 "the type \"" + std::string(name) + "\" is registered with another number");
  });
}

XLA_FFI_Error* context_get(XLA_FFI_ExecutionContext_Get_Args* args) {
  const UserData* data = args->ctx->data;
  args->data = data == nullptr ? nullptr : find(*data, args->type_id->type_id);
  if (args->data != nullptr) return nullptr;
  return error(*args->ctx, not_found,
               "the run has no user data of the type with the number " +
                   std::to_string(args->type_id->type_id));
}

State* state_of(const XLA_FFI_State_Args& args) {
  return args.stage < args.ctx->states.size() ? args.ctx->states[args.stage] : nullptr;
}

XLA_FFI_Error* state_set(XLA_FFI_State_Args* args) {
  State* const state = state_of(*args);
  if (state == nullptr) {
    return error(*args->ctx, failed_precondition, "no state can be kept at this stage of a call");
  }
  if (state->set(args->type_id->type_id, args->state)) return nullptr;
  return error(*args->ctx, already_exists, "the state of this stage is set already");
}

XLA_FFI_Error* state_get(XLA_FFI_State_Args* args) {
  const State* const state = state_of(*args);
  if (state == nullptr || !state->is_set()) {
    return error(*args->ctx, not_found, "the handler has kept no state at that stage");
  }
  args->state = state->get(args->type_id->type_id);
  if (args->state != nullptr) return nullptr;
  return error(*args->ctx, invalid_argument, "the handler's state is of another type");
}

XLA_FFI_Error* allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  std::size_t alignment = std::max<std::size_t>(args->alignment, 64);
  if ((alignment & (alignment - 1)) != 0) {
    return error(invalid_argument,
                 "the alignment " + std::to_string(alignment) + " is no power of 2");
  }
  args->data = ::operator new(args->size, std::align_val_t(alignment), std::nothrow);
  if (args->data != nullptr) return nullptr;
  return error(out_of_memory, "no memory for " + std::to_string(args->size) + " bytes");
}
XLA_FFI_Error* free_memory(XLA_FFI_DeviceMemory_Free_Args* args) {
  // Which alignment it has doesn't matter to the allocators that there are.
  ::operator delete(args->data, std::align_val_t(64));
  return nullptr;
}

/// Runs it at once: workers of the pool are busy with the program that called.
XLA_FFI_Error* schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  args->task(args->data);
  return nullptr;
}
XLA_FFI_Error* num_threads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  *args->num_threads = worker_count();
  return nullptr;
}

XLA_FFI_Error* future_create(XLA_FFI_Future_Create_Args* args) {
  args->future = new XLA_FFI_Future();
  return nullptr;
}
XLA_FFI_Error* finish(XLA_FFI_Future* future, XLA_FFI_Error* failure) {
  // Under the lock: who waits deletes it.
  const std::lock_guard lock(future->mutex);
  future->error.reset(failure);
  future->done = true;
  future->changed.notify_all();
  return nullptr;
}
XLA_FFI_Error* future_set_available(XLA_FFI_Future_SetAvailable_Args* args) {
  return finish(args->future, nullptr);
}
XLA_FFI_Error* future_set_error(XLA_FFI_Future_SetError_Args* args) {
  return finish(args->future, args->error);
}

XLA_FFI_Error* run_id_get(XLA_FFI_RunId_Get_Args* args) {
  args->run_id = args->ctx->run_id;
  return nullptr;
}
/// A call stands for all devices that hold the same: it is of none in particular.
XLA_FFI_Error* device_ordinal_get(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  args->device_ordinal = 0;
  return nullptr;
}

XLA_FFI_Api make_api() {
  XLA_FFI_Api a{};
  a.struct_size = sizeof(XLA_FFI_Api);
  a.api_version.struct_size = sizeof(XLA_FFI_Api_Version);
  a.api_version.major_version = 0;
  a.api_version.minor_version = 3;
  a.error_create = error_create;
  a.error_get_message = error_get_message;
  a.error_destroy = error_destroy;
  a.handler_register = handler_register;
  a.stream_get = stream_get;
  a.type_register = type_register;
  a.execution_context_get = context_get;
  a.state_set = state_set;
  a.state_get = state_get;
  a.device_memory_allocate = allocate;
  a.device_memory_free = free_memory;
  a.thread_pool_schedule = schedule;
  a.thread_pool_num_threads = num_threads;
  a.future_create = future_create;
  a.future_set_available = future_set_available;
  a.future_set_error = future_set_error;
  a.run_id_get = run_id_get;
  a.device_ordinal_get = device_ordinal_get;
  return a;
}

}  // namespace

bool State::set(std::int64_t type, void* object) {
  if (object_ != nullptr) return false;
  type_ = type;
  object_ = object;
  return true;
}

State::~State() {
  if (object_ == nullptr) return;
  void (*deleter)(void*) = nullptr;
  {
    Types& t = types();
    const std::lock_guard lock(t.mutex);
    for (const auto& [name, type] : t.by_name) {
      if (type.id == type_) deleter = type.deleter;
    }
  }
  if (deleter != nullptr) deleter(object_);
}

bool register_type(std::string_view name, std::int64_t* id, void (*deleter)(void*)) {
  Types& t = types();
  const std::lock_guard lock(t.mutex);
  const auto found = t.by_name.find(name);
  if (found == t.by_name.end()) {
    if (*id == 0) *id = t.next++;
    t.by_name.emplace(name, Types::Type{*id, deleter});
    return true;
  }
  if (*id != 0 && *id != found->second.id) return false;
  *id = found->second.id;
  if (found->second.deleter == nullptr) found->second.deleter = deleter;
  return true;
}

const XLA_FFI_Api& api() {
  static const XLA_FFI_Api table = make_api();
  return table;
}

void* find(const UserData& data, std::int64_t type_id) {
  for (const auto& [id, value] : data) {
    if (id == type_id) return value;
  }
  return nullptr;
}

ScopedRun::ScopedRun(const UserData* data, HostCallObserver* observer) {
  static std::atomic<std::int64_t> runs{0};
  run_ = {data, ++runs, observer};
}

const UserData* user_data_of_run() {
  const auto* run = static_cast<const ScopedRun::Run*>(run_context());
  return run == nullptr ? nullptr : run->data;
}
std::int64_t id_of_run() {
  const auto* run = static_cast<const ScopedRun::Run*>(run_context());
  return run == nullptr ? 0 : run->id;
}
void tell_of_host_call() {
  const auto* run = static_cast<const ScopedRun::Run*>(run_context());
  if (run != nullptr && run->observer != nullptr) run->observer->calls_host();
}

}  // namespace tessera::pjrt::ffi
