// SPDX-License-Identifier: Apache-2.0
// Functions of the API that compile programs and say what they are.
#include <tessera/cost_analysis.h>

#include <cstring>
#include <string>

#include "src/compiler/read_module.h"
#include "src/pjrt/program.h"

namespace tessera::pjrt {
namespace {

Program& program_of(PJRT_Executable* e) { return *checked(e, "executable").program; }
Program& program_of(PJRT_LoadedExecutable* e) { return *checked(e, "executable").program; }

std::string_view code_of(const PJRT_Program* given) {
  const PJRT_Program& program = checked(given, "program");
  const std::string_view format = text_of(program.format, program.format_size, "a format");
  if (format != "mlir" && format != "hlo_text") {
    throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                  "programs of format '" + std::string(format) +
                      "'; there are 'mlir', StableHLO as text or bytecode, and 'hlo_text'");
  }
  return text_of(program.code, program.code_size, "the code of a program");
}

template <class Args>
std::string_view options_of(const Args& args) {
  return text_of(args.compile_options, args.compile_options_size, "compile options");
}

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  return guarded([&] {
    auto made = std::make_unique<PJRT_LoadedExecutable>();
    made->program =
        compile_program(checked(args->client, "client"), code_of(args->program), options_of(*args));
    args->executable = made.release();
  });
}

/// For devices that nobody has a client for: to be serialized.
PJRT_Error* compile_for_topology(PJRT_Compile_Args* args) {
  return guarded([&] {
    std::vector<Device> devices;
    for (const PJRT_DeviceDescription& d : checked(args->topology, "topology").devices) {
      devices.push_back(Device{.id = d.id, .process_index = d.process});
    }
    const std::shared_ptr<PJRT_Client> client = make_client(devices);
    auto made = std::make_unique<PJRT_Executable>();
    made->program = compile_program(*client, code_of(args->program), options_of(*args));
    made->program->own_client = client;
    args->executable = made.release();
  });
}

PJRT_Error* deserialize_and_load(PJRT_Executable_DeserializeAndLoad_Args* args) {
  return guarded([&] {
    auto made = std::make_unique<PJRT_LoadedExecutable>();
    made->program = deserialize(
        checked(args->client, "client"),
        text_of(args->serialized_executable, args->serialized_executable_size, "a stored program"));
    args->loaded_executable = made.release();
  });
}

PJRT_Error* executable_destroy(PJRT_Executable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

PJRT_Error* loaded_destroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  delete args->executable;
  return nullptr;
}

PJRT_Error* loaded_delete(PJRT_LoadedExecutable_Delete_Args* args) {
  return guarded([&] { checked(args->executable, "executable").deleted = true; });
}

PJRT_Error* loaded_is_deleted(PJRT_LoadedExecutable_IsDeleted_Args* args) {
  return guarded([&] { args->is_deleted = checked(args->executable, "executable").deleted; });
}

PJRT_Error* get_executable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  return guarded([&] {
    args->executable = new PJRT_Executable{checked(args->loaded_executable, "executable").program};
  });
}

PJRT_Error* name(PJRT_Executable_Name_Args* args) {
  return guarded([&] {
    const Program& p = program_of(args->executable);
    args->executable_name = p.name.data();
    args->executable_name_size = p.name.size();
  });
}

PJRT_Error* replicas(PJRT_Executable_NumReplicas_Args* args) {
  return guarded(
      [&] { args->num_replicas = std::size_t(program_of(args->executable).options.replicas); });
}

PJRT_Error* partitions(PJRT_Executable_NumPartitions_Args* args) {
  return guarded(
      [&] { args->num_partitions = std::size_t(program_of(args->executable).options.partitions); });
}

PJRT_Error* num_outputs(PJRT_Executable_NumOutputs_Args* args) {
  return guarded([&] { args->num_outputs = program_of(args->executable).result_shards.size(); });
}

PJRT_Error* output_types(PJRT_Executable_OutputElementTypes_Args* args) {
  return guarded([&] {
    Program& p = program_of(args->executable);
    args->output_types = p.result_types.data();
    args->num_output_types = p.result_types.size();
  });
}

PJRT_Error* output_dims(PJRT_Executable_OutputDimensions_Args* args) {
  return guarded([&] {
    Program& p = program_of(args->executable);
    args->num_outputs = p.result_ranks.size();
    args->dims = p.result_dims.data();
    args->dim_sizes = p.result_ranks.data();
  });
}

PJRT_Error* output_kinds(PJRT_Executable_OutputMemoryKinds_Args* args) {
  return guarded([&] {
    Program& p = program_of(args->executable);
    args->num_outputs = p.result_kinds.size();
    args->memory_kinds = p.result_kinds.data();
    args->memory_kind_sizes = p.result_kind_sizes.data();
  });
}

PJRT_Error* parameter_kinds(PJRT_Executable_ParameterMemoryKinds_Args* args) {
  return guarded([&] {
    Program& p = program_of(args->executable);
    args->num_parameters = p.parameter_kinds.size();
    args->memory_kinds = p.parameter_kinds.data();
    args->memory_kind_sizes = p.parameter_kind_sizes.data();
  });
}

/// Its code isn't the program's alone: equal kernels of several programs are one.
PJRT_Error* code_size(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args) {
  return guarded([&] {
    program_of(args->executable);
    args->size_in_bytes = 0;
  });
}

PJRT_Error* fingerprint(PJRT_Executable_Fingerprint_Args* args) {
  return guarded([&] {
    const Program& p = program_of(args->executable);
    args->executable_fingerprint = p.fingerprint.data();
    args->executable_fingerprint_size = p.fingerprint.size();
  });
}

PJRT_Error* loaded_fingerprint(PJRT_LoadedExecutable_Fingerprint_Args* args) {
  return guarded([&] {
    const Program& p = program_of(args->executable);
    args->executable_fingerprint = p.fingerprint.data();
    args->executable_fingerprint_size = p.fingerprint.size();
  });
}

/// Called twice: for the size, then with memory for the text.
PJRT_Error* optimized_program(PJRT_Executable_OptimizedProgram_Args* args) {
  return guarded([&] {
    Program& p = program_of(args->executable);
    const std::lock_guard hold(p.lock);
    if (p.optimized.empty()) {
      p.optimized =
          compiler::write_module(p.executable->partitioned(), compiler::TextForm::stablehlo);
    }
    auto& out = const_cast<PJRT_Program&>(checked(args->program, "program"));
    out.format = "mlir";
    out.format_size = 4;
    if (out.code != nullptr) {
      if (out.code_size < p.optimized.size()) {
        throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                      "there are " + std::to_string(out.code_size) + " bytes for a program of " +
                          std::to_string(p.optimized.size()));
      }
      std::memcpy(out.code, p.optimized.data(), p.optimized.size());
    }
    out.code_size = p.optimized.size();
  });
}

PJRT_Error* memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  return guarded([&] {
    const MemoryAnalysis m = program_of(args->executable).executable->memory_analysis();
    args->generated_code_size_in_bytes = 0;
    args->argument_size_in_bytes = m.argument_bytes;
    args->output_size_in_bytes = m.output_bytes;
    args->alias_size_in_bytes = m.alias_bytes;
    args->temp_size_in_bytes = m.temp_bytes;
    args->host_generated_code_size_in_bytes = 0;
    args->host_argument_size_in_bytes = m.host_argument_bytes;
    args->host_output_size_in_bytes = m.host_output_bytes;
    args->host_alias_size_in_bytes = m.host_alias_bytes;
    args->host_temp_size_in_bytes = m.host_temp_bytes;
    args->peak_memory_in_bytes = m.peak_bytes_per_device;
    const auto since = [&](std::size_t offset) { return args->struct_size > offset; };
    if (since(offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, total_size_in_bytes))) {
      args->total_size_in_bytes = m.peak_bytes_per_device;
    }
  });
}

PJRT_NamedValue cost(const char* name, double value) {
  PJRT_NamedValue out{};
  out.struct_size = sizeof out;
  out.name = name;
  out.name_size = std::strlen(name);
  out.type = PJRT_NamedValue_kFloat;
  out.float_value = float(value);
  out.value_size = 1;
  return out;
}

PJRT_Error* cost_analysis(PJRT_Executable_GetCostAnalysis_Args* args) {
  return guarded([&] {
    Program& p = program_of(args->executable);
    const std::lock_guard hold(p.lock);
    if (p.costs.empty()) {
      const CostAnalysis c = p.executable->cost_analysis();
      p.costs = {cost("flops", c.flops), cost("transcendentals", c.transcendentals),
                 cost("bytes accessed", c.bytes_accessed),
                 cost("bytes received", c.bytes_received)};
    }
    args->properties = p.costs.data();
    args->num_properties = p.costs.size();
  });
}

// Texts that the client lets go of when it has read them.
void delete_text(void* text) { delete static_cast<std::string*>(text); }

template <class Args, class Object, class Deleter>
void hand_out(Args* args, std::string text, Object Args::*object, Deleter Args::*deleter) {
  auto* const kept = new std::string(std::move(text));
  args->serialized_bytes = kept->data();
  args->serialized_bytes_size = kept->size();
  args->*object = reinterpret_cast<Object>(kept);
  args->*deleter = reinterpret_cast<Deleter>(+delete_text);
}

PJRT_Error* serialize_program(PJRT_Executable_Serialize_Args* args) {
  return guarded([&] {
    hand_out(args, serialize(program_of(args->executable)),
             &PJRT_Executable_Serialize_Args::serialized_executable,
             &PJRT_Executable_Serialize_Args::serialized_executable_deleter);
  });
}

PJRT_Error* compile_options(PJRT_Executable_GetCompileOptions_Args* args) {
  return guarded([&] {
    hand_out(args, program_of(args->executable).option_bytes,
             &PJRT_Executable_GetCompileOptions_Args::serialized_compile_options,
             &PJRT_Executable_GetCompileOptions_Args::serialized_compile_options_deleter);
  });
}

PJRT_Error* device_assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args* args) {
  return guarded([&] {
    const CompileOptions& o = program_of(args->executable).options;
    hand_out(args, write_device_assignment(o.replicas, o.partitions, o.devices),
             &PJRT_LoadedExecutable_GetDeviceAssignment_Args::serialized_device_assignment,
             &PJRT_LoadedExecutable_GetDeviceAssignment_Args::serialized_device_assignment_deleter);
  });
}

PJRT_Error* addressable_devices(PJRT_LoadedExecutable_AddressableDevices_Args* args) {
  return guarded([&] {
    const Program& p = program_of(args->executable);
    args->addressable_devices = p.addressable.data();
    args->num_addressable_devices = p.addressable.size();
  });
}

PJRT_Error* logical_ids(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args* args) {
  return guarded([&] {
    Program& p = program_of(args->executable);
    args->addressable_device_logical_ids = p.logical_ids.data();
    args->num_addressable_device_logical_ids = p.logical_ids.size();
  });
}

}  // namespace

void fill_executables(PJRT_Api& api) {
  api.PJRT_Client_Compile = compile;
  api.PJRT_Compile = compile_for_topology;
  api.PJRT_Executable_DeserializeAndLoad = deserialize_and_load;
  api.PJRT_Executable_Destroy = executable_destroy;
  api.PJRT_LoadedExecutable_Destroy = loaded_destroy;
  api.PJRT_LoadedExecutable_Delete = loaded_delete;
  api.PJRT_LoadedExecutable_IsDeleted = loaded_is_deleted;
  api.PJRT_LoadedExecutable_GetExecutable = get_executable;
  api.PJRT_Executable_Name = name;
  api.PJRT_Executable_NumReplicas = replicas;
  api.PJRT_Executable_NumPartitions = partitions;
  api.PJRT_Executable_NumOutputs = num_outputs;
  api.PJRT_Executable_OutputElementTypes = output_types;
  api.PJRT_Executable_OutputDimensions = output_dims;
  api.PJRT_Executable_OutputMemoryKinds = output_kinds;
  api.PJRT_Executable_ParameterMemoryKinds = parameter_kinds;
  api.PJRT_Executable_SizeOfGeneratedCodeInBytes = code_size;
  api.PJRT_Executable_Fingerprint = fingerprint;
  api.PJRT_LoadedExecutable_Fingerprint = loaded_fingerprint;
  api.PJRT_Executable_OptimizedProgram = optimized_program;
  api.PJRT_Executable_GetCompiledMemoryStats = memory_stats;
  api.PJRT_Executable_GetCostAnalysis = cost_analysis;
  api.PJRT_Executable_Serialize = serialize_program;
  api.PJRT_Executable_GetCompileOptions = compile_options;
  api.PJRT_LoadedExecutable_GetDeviceAssignment = device_assignment;
  api.PJRT_LoadedExecutable_AddressableDevices = addressable_devices;
  api.PJRT_LoadedExecutable_AddressableDeviceLogicalIds = logical_ids;
}

}  // namespace tessera::pjrt
