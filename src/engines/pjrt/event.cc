// SPDX-License-Identifier: Apache-2.0
// Waiting for events of a plugin.
#include "src/engines/pjrt/event.h"

#include <utility>

namespace tessera::engines::pjrt {
namespace {

struct Waiting {
  const Api* api;
  PJRT_Event* event;
  const char* name;
  compiler::accelerators::Done done;
};

void happened(PJRT_Error* error, void* user_arg) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(user_arg));
  if (error == nullptr) {
    waiting->done(nullptr);
  } else {
    const PluginFailure failure = waiting->api->failure(error, waiting->name);
    waiting->done(&failure);
  }
  destroy(*waiting->api, waiting->event);
}

}  // namespace

void destroy(const Api& api, PJRT_Event* event) noexcept {
  if (event == nullptr) return;
  auto args = sized<PJRT_Event_Destroy_Args>();
  args.event = event;
  api.call_quietly(&PJRT_Api::PJRT_Event_Destroy, &args);
}

void wait_for(const Api& api, PJRT_Event* event, const char* name) {
  if (event == nullptr) return;
  auto args = sized<PJRT_Event_Await_Args>();
  args.event = event;
  try {
    // What the event is of is what fails, unless the plugin has no such function.
    const bool can_wait = api.has(&PJRT_Api::PJRT_Event_Await);
    api.call(&PJRT_Api::PJRT_Event_Await, &args, can_wait ? name : "PJRT_Event_Await");
  } catch (...) {
    destroy(api, event);
    throw;
  }
  destroy(api, event);
}

void when_done(const Api* api, PJRT_Event* event, const char* name,
               compiler::accelerators::Done done) {
  if (event == nullptr) return done(nullptr);
  auto waiting = std::make_unique<Waiting>(Waiting{api, event, name, std::move(done)});
  auto args = sized<PJRT_Event_OnReady_Args>();
  args.event = event;
  args.callback = reinterpret_cast<void*>(&happened);
  args.user_arg = waiting.get();
  try {
    TESSERA_PJRT_CALL(*api, PJRT_Event_OnReady, &args);
  } catch (const PluginFailure& failure) {
    waiting->done(&failure);
    destroy(*api, event);
    return;
  }
  (void)waiting.release();  // the callback's
}

}  // namespace tessera::engines::pjrt
