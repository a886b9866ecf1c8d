// SPDX-License-Identifier: Apache-2.0
// Functions of the API that run programs.
#include <algorithm>
#include <string>
#include <utility>

#include "src/pjrt/ffi/user_data.h"
#include "src/pjrt/program.h"

namespace tessera::pjrt {
namespace {

/// Parameters that a run takes the memory of.
std::vector<bool> donated_by(const Program& p, const PJRT_ExecuteOptions* options) {
  std::vector<bool> out = p.donated;
  if (options == nullptr) return out;
  for (std::size_t i = 0; i < options->num_non_donatable_input_indices; ++i) {
    const std::int64_t k = options->non_donatable_input_indices[i];
    if (k >= 0 && std::size_t(k) < out.size()) out[std::size_t(k)] = false;
  }
  return out;
}

/// The argument's memory, a handle of the run's own.
DeviceBuffer argument(const Program& p, PJRT_Buffer* given, std::size_t i) {
  PJRT_Buffer& b = checked(given, "argument");
  const Shape& want = p.parameter_shards[i];
  // Clients have empty arrays for tokens.
  const bool token = want.dtype == DType::token && b.shape.byte_count() == 0;
  if (b.shape != want && !token) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "argument " + std::to_string(i) + " of " + p.name + " is " + b.shape.to_string() +
                      " on a device, and the program takes " + want.to_string());
  }
  const std::lock_guard hold(b.lock);
  if (!b.data) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "argument " + std::to_string(i) + " of " + p.name +
                      " has been deleted or donated: " + b.shape.to_string());
  }
  return b.data;
}

/// The client's handle is empty from now on.
void give_away(const Program& p, PJRT_Buffer& b, std::size_t i) {
  DeviceBuffer gone;
  const std::lock_guard hold(b.lock);
  gone = std::exchange(b.data, {});
  if (gone) return;
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                "argument " + std::to_string(i) + " of " + p.name +
                    " is donated twice, in this call or by another thread: " + b.shape.to_string());
}

compiler::DeviceArrays take_arguments(const Program& p,
                                      const PJRT_LoadedExecutable_Execute_Args& args,
                                      const std::vector<bool>& donated) {
  compiler::DeviceArrays out(args.num_args);
  for (std::size_t i = 0; i < args.num_args; ++i) {
    out[i].resize(p.devices.size());
    for (std::size_t d = 0; d < args.num_devices; ++d) {
      out[i][p.places[d]] = argument(p, args.argument_lists[d][i], i);
    }
  }
  // Not before all of them fit: a call that is refused takes nothing.
  for (std::size_t i = 0; i < args.num_args; ++i) {
    for (std::size_t d = 0; donated[i] && d < args.num_devices; ++d) {
      give_away(p, *args.argument_lists[d][i], i);
    }
  }
  return out;
}

PJRT_Memory* memory_of(const PJRT_Device& device, MemoryKind kind) {
  for (PJRT_Memory* m : device.memories) {
    if (m->kind == kind) return m;
  }
  return device.memories.front();
}

void check_call(const PJRT_LoadedExecutable_Execute_Args& args) {
  const PJRT_LoadedExecutable& loaded = checked(args.executable, "executable");
  const Program& p = *loaded.program;
  if (loaded.deleted) {
    throw Failure(PJRT_Error_Code_FAILED_PRECONDITION, p.name + " has been deleted");
  }
  if (args.num_devices != p.addressable.size()) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  p.name + " is for " + std::to_string(p.addressable.size()) +
                      " devices of this process, and " + std::to_string(args.num_devices) +
                      " lists of arguments were given");
  }
  // Where there is no list, there are no arguments that could be counted.
  if (args.num_devices > 0 && args.num_args != p.parameter_shards.size()) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  p.name + " takes " + std::to_string(p.parameter_shards.size()) +
                      " arguments, and " + std::to_string(args.num_args) + " were given");
  }
  if (args.execute_device != nullptr && p.devices.size() != 1) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "a program for " + std::to_string(p.devices.size()) +
                      " devices can't be run on one that the call names");
  }
}

/// Results that are an argument's memory get one of their own, as clients expect: programs that
/// copy an array compute nothing. `kept`: the memory of arguments that aren't donated.
void copy_shared(const Program& p, const std::vector<const DeviceMemory*>& kept,
                 compiler::DeviceArrays* results) {
  for (std::size_t r = 0; r < results->size(); ++r) {
    std::vector<DeviceBuffer>& result = (*results)[r];
    // Devices of other processes have none.
    const auto first =
        std::find_if(result.begin(), result.end(), [](const auto& b) { return bool(b); });
    if (first == result.end()) continue;
    long handles = 0;
    for (const DeviceBuffer& b : result) handles += b.memory == first->memory ? 1 : 0;
    // Nobody else has a handle: the usual case.
    if (first->memory.use_count() == handles) continue;
    const bool is_argument = std::any_of(result.begin(), result.end(), [&](const auto& b) {
      return b && std::find(kept.begin(), kept.end(), b.memory.get()) != kept.end();
    });
    if (is_argument) result = p.client->engine->copy(result, p.result_memory[r]);
  }
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  return guarded([&] {
    check_call(*args);
    const Program& p = *args->executable->program;
    if (p.addressable.empty()) return;  // it is for other processes
    const std::vector<bool> donated = donated_by(p, args->options);
    const PJRT_ExecuteContext* const context =
        args->options == nullptr ? nullptr : args->options->context;
    const ffi::ScopedRun run(context == nullptr ? nullptr : &context->user_data);
    compiler::DeviceArrays given = take_arguments(p, *args, donated);
    std::vector<const DeviceMemory*> kept;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (donated[i]) continue;
      for (const DeviceBuffer& b : given[i]) kept.push_back(b.memory.get());
    }
    compiler::DeviceArrays results = p.executable->run(std::move(given), donated);
    copy_shared(p, kept, &results);
    for (std::size_t d = 0; d < args->num_devices; ++d) {
      const PJRT_Device& device =
          args->execute_device != nullptr ? *args->execute_device : *p.addressable[d];
      for (std::size_t r = 0; r < results.size(); ++r) {
        args->output_lists[d][r] = make_buffer(results[r][p.places[d]], p.result_shards[r],
                                               memory_of(device, p.result_memory[r]));
      }
      if (args->device_complete_events != nullptr) {
        args->device_complete_events[d] = new PJRT_Event{};
      }
    }
  });
}

PJRT_Error* context_create(PJRT_ExecuteContext_Create_Args* args) {
  return guarded([&] { args->context = new PJRT_ExecuteContext(); });
}

PJRT_Error* context_destroy(PJRT_ExecuteContext_Destroy_Args* args) {
  delete args->context;
  return nullptr;
}

}  // namespace

void fill_execution(PJRT_Api& api) {
  api.PJRT_LoadedExecutable_Execute = execute;
  api.PJRT_ExecuteContext_Create = context_create;
  api.PJRT_ExecuteContext_Destroy = context_destroy;
}

}  // namespace tessera::pjrt
