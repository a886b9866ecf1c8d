// SPDX-License-Identifier: Apache-2.0
// Functions of the API that run programs.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/base/processes/processes.h"
#include "src/pjrt/ffi/python_lock.h"
#include "src/pjrt/ffi/user_data.h"
#include "src/pjrt/program.h"

namespace tessera::pjrt {
namespace {

/// Parameters that a run takes the memory of.
std::vector<bool> donated_by(const Program& p, const PJRT_ExecuteOptions* options) {
  std::vector<bool> out = p.donated;
  if (options == nullptr) return out;
  check_list(options->non_donatable_input_indices, options->num_non_donatable_input_indices,
             "arguments that aren't donated");
  for (std::size_t i = 0; i < options->num_non_donatable_input_indices; ++i) {
    const std::int64_t k = options->non_donatable_input_indices[i];
    if (k >= 0 && std::size_t(k) < out.size()) out[std::size_t(k)] = false;
  }
  return out;
}

/// What a run is given. Arguments that an earlier run makes still come when that is done.
struct Given {
  struct Late {
    std::size_t parameter, place;
    std::shared_ptr<Pending> value;
  };
  compiler::DeviceArrays arrays;
  std::vector<Late> late;

  bool is_there() const {
    return std::all_of(late.begin(), late.end(),
                       [](const Late& l) { return l.value->done->is_complete(); });
  }
};

/// The argument's memory, a handle of the run's own.
void take(const Program& p, PJRT_Buffer* given, std::size_t i, std::size_t place, Given* to) {
  PJRT_Buffer& b = checked(given, "argument");
  const Shape& want = p.parameter_shards[i];
  // Clients have empty arrays for tokens.
  const bool token = want.dtype == DType::token && b.shape.byte_count() == 0;
  if (b.shape != want && !token) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "argument " + std::to_string(i) + " of " + p.name + " is " + b.shape.to_string() +
                      " on a device, and the program takes " + want.to_string());
  }
  if (!token && !same_layout(b.shape, want)) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "argument " + std::to_string(i) + " of " + p.name + " has the layout " +
                      memory_layout(b.shape).text + ", and the program takes " + want.to_string() +
                      memory_layout(want).text);
  }
  const std::lock_guard hold(b.lock);
  if (b.data) {
    to->arrays[i][place] = b.data;
  } else if (b.pending) {
    to->late.push_back({i, place, b.pending});
  } else {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "argument " + std::to_string(i) + " of " + p.name +
                      " has been deleted or donated: " + b.shape.to_string());
  }
}

/// The client's handle is empty from now on.
void give_away(const Program& p, PJRT_Buffer& b, std::size_t i) {
  DeviceBuffer gone;
  std::shared_ptr<Pending> pending;
  const std::lock_guard hold(b.lock);
  gone = std::exchange(b.data, {});
  pending = std::exchange(b.pending, {});
  if (gone || pending) return;
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                "argument " + std::to_string(i) + " of " + p.name +
                    " is donated twice, in this call or by another thread: " + b.shape.to_string());
}

/// An array that a call both takes the memory of and reads as another argument has no contents.
void check_donations(const Program& p, PJRT_Buffer* const* arguments,
                     const std::vector<bool>& donated) {
  std::vector<const PJRT_Buffer*> given;
  for (std::size_t i = 0; i < donated.size(); ++i) {
    if (donated[i]) given.push_back(arguments[i]);
  }
  if (given.empty()) return;
  std::sort(given.begin(), given.end());
  for (std::size_t i = 0; i < donated.size(); ++i) {
    if (donated[i] || !std::binary_search(given.begin(), given.end(), arguments[i])) continue;
    throw Failure(
        PJRT_Error_Code_INVALID_ARGUMENT,
        "argument " + std::to_string(i) + " of " + p.name +
            " is the same array as one that is donated: " + arguments[i]->shape.to_string());
  }
}

Given take_arguments(const Program& p, const PJRT_LoadedExecutable_Execute_Args& args,
                     const std::vector<bool>& donated) {
  Given out;
  out.arrays.resize(args.num_args);
  for (std::size_t i = 0; i < args.num_args; ++i) {
    out.arrays[i].resize(p.devices.size());
    for (std::size_t d = 0; d < args.num_devices; ++d) {
      take(p, args.argument_lists[d][i], i, p.places[d], &out);
    }
  }
  for (std::size_t d = 0; d < args.num_devices; ++d) {
    check_donations(p, args.argument_lists[d], donated);
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
  check_list(args.argument_lists, args.num_args == 0 ? 0 : args.num_devices, "lists of arguments");
  check_list(args.output_lists, p.result_shards.empty() ? 0 : args.num_devices, "lists of results");
  for (std::size_t d = 0; d < args.num_devices; ++d) {
    if (args.num_args > 0) check_list(args.argument_lists[d], args.num_args, "arguments");
    if (!p.result_shards.empty()) {
      check_list(args.output_lists[d], p.result_shards.size(), "room for results");
    }
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

/// Waits for arguments that earlier runs make. Throws what happened if one of those failed.
void settle(const Program& p, Given* given) {
  try {
    for (Given::Late& l : given->late) {
      l.value->done->wait();
      // The last handle is passed on, so that it can be donated.
      given->arrays[l.parameter][l.place] =
          l.value.use_count() == 1 ? std::move(l.value->data) : l.value->data;
      l.value.reset();
    }
  } catch (const std::exception& e) {
    if (p.addressable.size() == p.devices.size()) throw;
    // The other processes wait for this one's part: they fail with it.
    std::set<int> members;
    for (const PJRT_Device* d : p.devices) members.insert(int(d->device.process_index));
    Processes::Turn turn(processes(), {"run", p.name, {}},
                         processes()->group({members.begin(), members.end()}));
    turn.fails_by(e.what());
    throw;
  }
  given->late.clear();
}

/// `given`: settled.
compiler::DeviceArrays run(const Program& p, Given given, const std::vector<bool>& donated) {
  std::vector<const DeviceMemory*> kept;
  for (std::size_t i = 0; i < given.arrays.size(); ++i) {
    if (donated[i]) continue;
    for (const DeviceBuffer& b : given.arrays[i]) kept.push_back(b.memory.get());
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  compiler::DeviceArrays results = p.executable->run(std::move(given.arrays), donated);
  copy_shared(p, kept, &results);
  // The shortest run counts most: others waited for processors, or were the first ones.
  const float took = std::chrono::duration<float>(Clock::now() - begin).count();
  const float before = p.seconds.load(std::memory_order_relaxed);
  p.seconds.store(took < before ? took : before + (took - before) / 8, std::memory_order_relaxed);
  return results;
}

/// A run that waits for its turn, and the results that it will have.
struct QueuedRun {
  std::shared_ptr<Program> program;
  ffi::UserData user_data;
  Given given;
  std::vector<bool> donated;
  /// By device of the call, then number.
  std::vector<std::vector<std::shared_ptr<Pending>>> results;
  std::shared_ptr<Event> done;

  void operator()(ffi::HostCallObserver* observer) noexcept {
    std::exception_ptr error;
    try {
      const ffi::ScopedRun scope(&user_data, observer);
      settle(*program, &given);
      compiler::DeviceArrays made = run(*program, std::move(given), donated);
      for (std::size_t d = 0; d < results.size(); ++d) {
        for (std::size_t r = 0; r < made.size(); ++r) {
          results[d][r]->data = std::move(made[r][program->places[d]]);
        }
      }
    } catch (...) {
      error = std::current_exception();
    }
    // No handle is left here when clients hear of it.
    given = {};
    results.clear();
    program.reset();
    error ? done->fail(error) : done->complete();
  }
};

const PJRT_Device& device_of(const Program& p, const PJRT_LoadedExecutable_Execute_Args& args,
                             std::size_t d) {
  return args.execute_device != nullptr ? *args.execute_device : *p.addressable[d];
}

/// Tells the call when its run has ended.
void tell_end(const PJRT_LoadedExecutable_Execute_Args& args, const std::shared_ptr<Event>& end) {
  for (std::size_t d = 0; args.device_complete_events != nullptr && d < args.num_devices; ++d) {
    args.device_complete_events[d] = new PJRT_Event{end};
  }
}

/// Gives the call results that come when the event happens. `to`, if any, holds them, too.
void promise(const Program& p, const PJRT_LoadedExecutable_Execute_Args& args,
             const std::shared_ptr<Event>& done,
             std::vector<std::vector<std::shared_ptr<Pending>>>* to) {
  for (std::size_t d = 0; d < args.num_devices; ++d) {
    if (to != nullptr) to->emplace_back();
    for (std::size_t r = 0; r < p.result_shards.size(); ++r) {
      const auto pending = std::make_shared<Pending>(Pending{done, {}});
      args.output_lists[d][r] = make_buffer(pending, p.result_shards[r],
                                            memory_of(device_of(p, args, d), p.result_memory[r]));
      if (to != nullptr) to->back().push_back(pending);
    }
  }
}

/// Where a thread of the queue takes over from the caller, and the caller from it: about what that
/// costs together.
constexpr float kSmallSeconds = 50e-6F;

/// Whether a run that has nothing to wait for is done within the call. What functions of the host
/// take isn't known; where XLA's client calls them within the call, clients rely on their errors
/// coming from it, and elsewhere on functions being free to wait for the caller.
bool runs_in_call(const Program& p) {
  if (!p.calls_host) return p.seconds.load(std::memory_order_relaxed) <= kSmallSeconds;
  return p.devices.size() == 1 && (p.calls_python || p.few_flops);
}

/// Runs the program. Its errors are the call's; those of arguments pass on to the results.
void run_at_once(const Program& p, const PJRT_LoadedExecutable_Execute_Args& args, Given given,
                 const std::vector<bool>& donated, const std::vector<std::size_t>& lines,
                 const ffi::UserData* user_data) {
  try {
    settle(p, &given);
  } catch (...) {
    const auto failed = std::make_shared<Event>();
    failed->fail(std::current_exception());
    promise(p, args, failed, nullptr);
    return tell_end(args, failed);
  }
  compiler::DeviceArrays results;
  {
    std::optional<ffi::WithoutPythonLock> without;
    if (p.calls_host) without.emplace();
    const ffi::ScopedRun scope(user_data);
    results = run(p, std::move(given), donated);
  }
  for (std::size_t d = 0; d < args.num_devices; ++d) {
    for (std::size_t r = 0; r < results.size(); ++r) {
      args.output_lists[d][r] = make_buffer(results[r][p.places[d]], p.result_shards[r],
                                            memory_of(device_of(p, args, d), p.result_memory[r]));
    }
  }
  // A function that waits for what it runs doesn't wait for itself.
  const bool may_follow = p.calls_host && !ffi::is_in_run();
  tell_end(args, may_follow ? p.client->runs->end_of_host_run(lines, nullptr) : nullptr);
}

/// Clients of older versions have none.
const PJRT_ExecuteContext* context_of(const PJRT_ExecuteOptions* options) {
  constexpr std::size_t kEnd = offsetof(PJRT_ExecuteOptions, context) + sizeof(void*);
  return options != nullptr && options->struct_size >= kEnd ? options->context : nullptr;
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  return guarded([&] {
    check_call(*args);
    const std::shared_ptr<Program>& program = args->executable->program;
    const Program& p = *program;
    if (p.addressable.empty()) return;  // it is for other processes
    RunQueue& queue = *p.client->runs;
    const std::vector<bool> donated = donated_by(p, args->options);
    const PJRT_ExecuteContext* const context = context_of(args->options);
    const std::vector<std::size_t> one =
        args->execute_device == nullptr
            ? std::vector<std::size_t>()
            : std::vector<std::size_t>{std::size_t(args->execute_device->device.id)};
    const std::vector<std::size_t>& lines = one.empty() ? p.lines : one;
    // A function that a run calls can't wait for what may wait for that run.
    const bool at_once = !p.client->asynchronous || ffi::is_in_run();
    if (!at_once) queue.wait_for_room(lines);
    Given given = take_arguments(p, *args, donated);
    const ffi::UserData* const user_data = context == nullptr ? nullptr : &context->user_data;
    if (at_once || (runs_in_call(p) && queue.is_free(lines) && given.is_there())) {
      return run_at_once(p, *args, std::move(given), donated, lines, user_data);
    }
    auto queued = std::make_shared<QueuedRun>();
    queued->program = program;
    if (user_data != nullptr) queued->user_data = *user_data;
    queued->donated = donated;
    queued->done = std::make_shared<Event>();
    promise(p, *args, queued->done, &queued->results);
    tell_end(*args, p.calls_host ? queue.end_of_host_run(lines, queued->done) : queued->done);
    std::vector<std::shared_ptr<Event>> after;
    for (const Given::Late& l : given.late) {
      if (!l.value->done->is_complete()) after.push_back(l.value->done);
    }
    queued->given = std::move(given);
    queue.add(lines, after, [queued](ffi::HostCallObserver* observer) { (*queued)(observer); });
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
