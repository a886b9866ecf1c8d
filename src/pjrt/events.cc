// SPDX-License-Identifier: Apache-2.0
// Functions of the API on errors and events.
#include "src/pjrt/ffi/python_lock.h"
#include "src/pjrt/objects.h"

namespace tessera::pjrt {
namespace {

using OnReady = void (*)(PJRT_Error* error, void* user_arg);

Failure failure_of(const PJRT_Event_Set_Args& args) {
  return Failure(PJRT_Error_Code(args.error_code),
                 std::string(text_of(args.error_message, args.error_message_size, "a message")));
}

PJRT_Error* error_destroy(PJRT_Error_Destroy_Args* args) {
  // The one without a message stands for memory that ran out; it isn't on the heap.
  if (args->error != nullptr && !args->error->message.empty()) {
    delete const_cast<PJRT_Error*>(args->error);
  }
  return nullptr;
}

PJRT_Error* error_message(PJRT_Error_Message_Args* args) {
  static const std::string none;
  const std::string& text = args->error == nullptr ? none : args->error->message;
  args->message = text.data();
  args->message_size = text.size();
  return nullptr;
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  return guarded([&] { args->code = checked(args->error, "error").code; });
}

/// Errors carry no payloads.
PJRT_Error* error_payloads(PJRT_Error_ForEachPayload_Args* args) {
  return guarded([&] { checked(args->error, "error"); });
}

PJRT_Error* event_create(PJRT_Event_Create_Args* args) {
  return guarded([&] { args->event = new PJRT_Event{std::make_shared<Event>()}; });
}

PJRT_Error* event_set(PJRT_Event_Set_Args* args) {
  return guarded([&] {
    const std::shared_ptr<Event>& event = checked(args->event, "event").event;
    if (event == nullptr || event->is_complete()) {
      throw Failure(PJRT_Error_Code_FAILED_PRECONDITION, "the event is complete already");
    }
    if (args->error_code == PJRT_Error_Code_OK) {
      event->complete();
    } else {
      event->fail(std::make_exception_ptr(failure_of(*args)));
    }
  });
}

PJRT_Error* event_destroy(PJRT_Event_Destroy_Args* args) {
  delete args->event;
  return nullptr;
}

PJRT_Error* event_is_ready(PJRT_Event_IsReady_Args* args) {
  return guarded([&] {
    const std::shared_ptr<Event>& event = checked(args->event, "event").event;
    args->is_ready = event == nullptr || event->is_complete();
  });
}

PJRT_Error* event_await(PJRT_Event_Await_Args* args) {
  return guarded([&] {
    const std::shared_ptr<Event> event = checked(args->event, "event").event;
    if (event == nullptr) return;
    if (event->is_complete()) return event->wait();
    const ffi::WithoutPythonLock without;
    event->wait();
  });
}

/// The error of an event that is complete.
PJRT_Error* event_error(PJRT_Event_Error_Args* args) {
  return guarded([&] {
    const std::shared_ptr<Event>& event = checked(args->event, "event").event;
    if (event != nullptr && event->is_complete()) event->wait();
  });
}

PJRT_Error* event_on_ready(PJRT_Event_OnReady_Args* args) {
  return guarded([&] {
    const auto callback =
        reinterpret_cast<OnReady>(&checked(static_cast<char*>(args->callback), "callback"));
    void* const user = args->user_arg;
    const std::shared_ptr<Event>& event = checked(args->event, "event").event;
    if (event == nullptr) {
      callback(nullptr, user);
      return;
    }
    event->when_complete([callback, user](const std::exception_ptr& error) {
      callback(error ? error_of(error) : nullptr, user);
    });
  });
}

}  // namespace

void fill_errors_and_events(PJRT_Api& api) {
  api.PJRT_Error_Destroy = error_destroy;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  api.PJRT_Error_ForEachPayload = error_payloads;
  api.PJRT_Event_Create = event_create;
  api.PJRT_Event_Set = event_set;
  api.PJRT_Event_Destroy = event_destroy;
  api.PJRT_Event_IsReady = event_is_ready;
  api.PJRT_Event_Await = event_await;
  api.PJRT_Event_Error = event_error;
  api.PJRT_Event_OnReady = event_on_ready;
}

}  // namespace tessera::pjrt
