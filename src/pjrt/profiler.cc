// SPDX-License-Identifier: Apache-2.0
// The Profiler extension: kernels, exchanges and programs as lines of an XSpace, as jax.profiler
// collects it.
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "src/base/profiler.h"
#include "src/pjrt/entry.h"
#include "src/pjrt/extensions.h"
#include "src/pjrt/objects.h"
#include "src/pjrt/proto.h"

namespace tessera::pjrt {
namespace {

/// PLUGIN_Profiler
struct Profiler {
  std::unique_ptr<profiler::Session> session;
  std::string bytes;
};

/// More events would be a file that no viewer shows.
constexpr std::int64_t kMostEvents = 1'000'000;

std::string map_entry(std::int64_t key, const std::string& value) {
  ProtoWriter out;
  out.number(1, key);
  out.message(2, value);
  return out.bytes();
}

/// tensorflow.profiler.XSpace of one plane, with a line for each thread. Times in it are those of
/// the clock that tells the time of day.
std::string write_space(const profiler::Session& session) {
  using WallClock = std::chrono::system_clock;
  const std::int64_t to_wall =
      std::chrono::duration_cast<std::chrono::nanoseconds>(WallClock::now().time_since_epoch())
          .count() -
      profiler::now();
  std::map<std::string, std::int64_t> names;
  std::map<std::int32_t, ProtoWriter> lines;
  for (const profiler::Event& e : session.events()) {
    const std::string& name = e.name.empty() ? e.op : e.name;
    const auto id = names.emplace(name, std::int64_t(names.size()) + 1).first->second;
    ProtoWriter event;
    event.number(1, id);
    event.number(2, (e.begin - session.begin()) * 1000);
    event.number(3, (e.end - e.begin) * 1000);
    lines[e.thread].message(4, event.bytes());
  }
  ProtoWriter plane;
  plane.number(1, 1);
  plane.text(2, "/device:CUSTOM:Tessera");
  for (const auto& [thread, events] : lines) {
    ProtoWriter line;
    line.number(1, thread + 1);
    line.text(2, "thread " + std::to_string(thread));
    line.number(3, session.begin() + to_wall);
    plane.message(3, line.bytes() + events.bytes());
  }
  for (const auto& [name, id] : names) {
    ProtoWriter metadata;
    metadata.number(1, id);
    metadata.text(2, name);
    plane.message(4, map_entry(id, metadata.bytes()));
  }
  ProtoWriter space;
  space.message(1, plane.bytes());
  return space.bytes();
}

Profiler& profiler_of(void* given) { return checked(static_cast<Profiler*>(given), "profiler"); }

// Errors are those of the API, under another name.
void* error_destroy(PLUGIN_Profiler_Error_Destroy_Args* args) {
  auto* const error = static_cast<PJRT_Error*>(args == nullptr ? nullptr : args->error);
  if (error != nullptr && !error->message.empty()) delete error;
  return nullptr;
}

void* error_message(PLUGIN_Profiler_Error_Message_Args* args) {
  const auto* const error = static_cast<const PJRT_Error*>(args == nullptr ? nullptr : args->error);
  if (error == nullptr) return nullptr;
  args->message = error->message.data();
  args->message_size = error->message.size();
  return nullptr;
}

PJRT_Error* error_code(PLUGIN_Profiler_Error_GetCode_Args* args) {
  return guarded(
      [&] { args->code = checked(static_cast<const PJRT_Error*>(args->error), "error").code; });
}

PJRT_Error* create(PLUGIN_Profiler_Create_Args* args) {
  return guarded([&] { args->profiler = new Profiler(); });
}

PJRT_Error* destroy(PLUGIN_Profiler_Destroy_Args* args) {
  delete static_cast<Profiler*>(args->profiler);
  return nullptr;
}

PJRT_Error* start(PLUGIN_Profiler_Start_Args* args) {
  return guarded([&] {
    Profiler& p = profiler_of(args->profiler);
    p.bytes.clear();
    p.session = std::make_unique<profiler::Session>(kMostEvents);
  });
}

PJRT_Error* stop(PLUGIN_Profiler_Stop_Args* args) {
  return guarded([&] {
    Profiler& p = profiler_of(args->profiler);
    if (p.session == nullptr) return;
    p.session->end();
    p.bytes = write_space(*p.session);
    p.session.reset();
  });
}

/// Without memory of the client's, the profiler's own: some clients read that.
PJRT_Error* collect(PLUGIN_Profiler_CollectData_Args* args) {
  return guarded([&] {
    Profiler& p = profiler_of(args->profiler);
    if (args->buffer == nullptr) {
      args->buffer = p.bytes.data();
    } else {
      std::memcpy(args->buffer, p.bytes.data(),
                  std::min(args->buffer_size_in_bytes, p.bytes.size()));
    }
    args->buffer_size_in_bytes = p.bytes.size();
  });
}

PLUGIN_Profiler_Api make_table() {
  PLUGIN_Profiler_Api out{};
  // What comes behind it isn't there.
  out.struct_size = offsetof(PLUGIN_Profiler_Api, consume);
  out.error_destroy = reinterpret_cast<void*>(error_destroy);
  out.error_message = reinterpret_cast<void*>(error_message);
  out.error_get_code = reinterpret_cast<void*>(unsized_entry<error_code>);
  out.create = reinterpret_cast<void*>(unsized_entry<create>);
  out.destroy = reinterpret_cast<void*>(unsized_entry<destroy>);
  out.start = reinterpret_cast<void*>(unsized_entry<start>);
  out.stop = reinterpret_cast<void*>(unsized_entry<stop>);
  out.collect_data = reinterpret_cast<void*>(unsized_entry<collect>);
  return out;
}

}  // namespace

PJRT_Extension_Base* profiler_extension() {
  static PLUGIN_Profiler_Api table = make_table();
  static PJRT_Profiler_Extension extension{
      {sizeof(PJRT_Profiler_Extension), PJRT_Extension_Type_Profiler, nullptr}, &table, 0};
  return &extension.base;
}

}  // namespace tessera::pjrt
