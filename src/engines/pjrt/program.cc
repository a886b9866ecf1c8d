// SPDX-License-Identifier: Apache-2.0
// Compiles and executes programs of a plugin.
#include "src/engines/pjrt/program.h"

#include <utility>

#include "src/base/small_vector.h"
#include "src/engines/pjrt/event.h"
#include "src/pjrt/abi/messages.h"

namespace tessera::engines::pjrt {
namespace {

class Program final : public ClientProgram {
 public:
  Program(const Api* api, PJRT_Client* client, const std::vector<ClientDevice>* devices,
          std::vector<std::size_t> runs_on, PJRT_LoadedExecutable* handle, bool calls_host,
          Turns turns)
      : api_(api),
        client_(client),
        devices_(devices),
        runs_on_(std::move(runs_on)),
        handle_(handle),
        calls_host_(calls_host),
        turns_(turns) {}
  ~Program() override {
    auto args = sized<PJRT_LoadedExecutable_Destroy_Args>();
    args.executable = handle_;
    api_->call_quietly(&PJRT_Api::PJRT_LoadedExecutable_Destroy, &args);
  }

  void execute(std::span<const ClientBuffer* const> arguments, std::size_t devices,
               std::span<const std::int64_t> kept,
               std::span<std::unique_ptr<ClientBuffer>> results) const override {
    const std::size_t count = devices == 0 ? 0 : arguments.size() / devices;
    const std::size_t made = devices == 0 ? 0 : results.size() / devices;
    SmallVector<PJRT_Buffer*, 16> inputs, outputs(results.size());
    for (const ClientBuffer* b : arguments) {
      inputs.push_back(static_cast<const Buffer*>(b)->handle());
    }
    SmallVector<PJRT_Buffer* const*, 8> input_lists;
    SmallVector<PJRT_Buffer**, 8> output_lists;
    for (std::size_t d = 0; d < devices; ++d) {
      input_lists.push_back(inputs.data() + d * count);
      output_lists.push_back(outputs.data() + d * made);
    }
    auto options = sized<PJRT_ExecuteOptions>();
    api_->fit(&options);
    options.non_donatable_input_indices = kept.data();
    options.num_non_donatable_input_indices = kept.size();
    auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = handle_;
    args.options = &options;
    args.argument_lists = input_lists.data();
    args.num_devices = devices;
    args.num_args = count;
    args.output_lists = output_lists.data();
    const bool waits = turns_.until_over || calls_host_;
    std::vector<PJRT_Event*> ends(waits ? devices : 0);
    if (waits) args.device_complete_events = ends.data();
    std::optional<PluginFailure> failure;
    {
      auto turn = turns_.mutex != nullptr ? std::unique_lock(*turns_.mutex)
                                          : std::unique_lock<std::mutex>();
      TESSERA_PJRT_CALL(*api_, PJRT_LoadedExecutable_Execute, &args);
      if (!turns_.until_over && turn.owns_lock()) turn.unlock();
      for (PJRT_Event* e : ends) wait_until_over(e, &failure);
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      results[k] = std::make_unique<Buffer>(api_, client_, devices_, runs_on_[k / made], outputs[k],
                                            "PJRT_LoadedExecutable_Execute");
    }
    if (calls_host_ && failure) throw *failure;
  }

  std::optional<Memory> memory() const override {
    if (!api_->has(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats)) return std::nullopt;
    auto get = sized<PJRT_LoadedExecutable_GetExecutable_Args>();
    get.loaded_executable = handle_;
    TESSERA_PJRT_CALL(*api_, PJRT_LoadedExecutable_GetExecutable, &get);
    auto args = sized<PJRT_Executable_GetCompiledMemoryStats_Args>();
    args.executable = get.executable;
    std::optional<Memory> out;
    try {
      TESSERA_PJRT_CALL(*api_, PJRT_Executable_GetCompiledMemoryStats, &args);
      out = Memory{args.argument_size_in_bytes,    args.output_size_in_bytes,
                   args.alias_size_in_bytes,       args.temp_size_in_bytes,
                   args.peak_memory_in_bytes,      args.host_argument_size_in_bytes,
                   args.host_output_size_in_bytes, args.host_alias_size_in_bytes,
                   args.host_temp_size_in_bytes};
    } catch (const PluginFailure& failure) {
      if (failure.code != PluginFailure::kUnimplemented) {
        destroy_executable(get.executable);
        throw;
      }
    }
    destroy_executable(get.executable);
    return out;
  }

 private:
  /// Errors are those of the results, too.
  void wait_until_over(PJRT_Event* run, std::optional<PluginFailure>* first) const {
    try {
      wait_for(*api_, run, "PJRT_LoadedExecutable_Execute");
    } catch (const PluginFailure& failure) {
      if (!*first) first->emplace(failure);
    }
  }

  void destroy_executable(PJRT_Executable* executable) const noexcept {
    auto args = sized<PJRT_Executable_Destroy_Args>();
    args.executable = executable;
    api_->call_quietly(&PJRT_Api::PJRT_Executable_Destroy, &args);
  }

  const Api* api_;
  PJRT_Client* client_;
  const std::vector<ClientDevice>* devices_;
  std::vector<std::size_t> runs_on_;
  PJRT_LoadedExecutable* handle_;
  bool calls_host_;
  Turns turns_;
};

}  // namespace

std::string compile_options(const std::vector<std::int64_t>& device_ids) {
  using namespace tessera::pjrt;
  ProtoWriter devices, assignment, build, out;
  devices.numbers(kReplicaDevices, device_ids);
  assignment.number(kReplicaCount, std::int64_t(device_ids.size()));
  assignment.number(kComputationCount, 1);
  assignment.message(kComputationDevices, devices.bytes());
  build.number(kDeviceOrdinal, -1);
  build.number(kReplicas, std::int64_t(device_ids.size()));
  build.number(kPartitions, 1);
  build.message(kDeviceAssignment, assignment.bytes());
  out.message(kBuildOptions, build.bytes());
  return out.bytes();
}

std::unique_ptr<ClientProgram> compile_program(const Api* api, PJRT_Client* client,
                                               const std::vector<ClientDevice>* devices,
                                               const std::vector<std::int64_t>& device_ids,
                                               const ProgramText& text, Turns turns) {
  const std::string options = compile_options(device_ids);
  std::string code = text.code;  // the API wants to be able to write there
  auto program = sized<PJRT_Program>();
  api->fit(&program);
  program.code = code.data();
  program.code_size = code.size();
  program.format = text.format.data();
  program.format_size = text.format.size();
  auto args = sized<PJRT_Client_Compile_Args>();
  args.client = client;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  TESSERA_PJRT_CALL(*api, PJRT_Client_Compile, &args);
  // Those of this process, in their order.
  std::vector<std::size_t> runs_on;
  for (const std::size_t d : text.devices) {
    if (devices->at(d).is_local) runs_on.push_back(d);
  }
  return std::make_unique<Program>(api, client, devices, std::move(runs_on), args.executable,
                                   text.calls_host, text.devices.size() > 1 ? turns : Turns());
}

}  // namespace tessera::engines::pjrt
