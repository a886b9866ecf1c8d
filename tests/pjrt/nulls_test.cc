// SPDX-License-Identifier: Apache-2.0
// Every function of the table, called with nothing, with structs that are too short, and with
// handles but nothing else: errors, and never a crash.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/pjrt/ffi_client.h"

namespace tessera::pjrt_tests {
namespace {

/// Nothing to do with null is no error: these let go of what they are given, or make something new.
const std::set<std::string> kNothingWrong = {
    "Error_Destroy",
    "Error_Message",
    "Plugin_Initialize",
    "Plugin_Attributes",
    "Event_Destroy",
    "Client_Create",
    "Client_Destroy",
    "Executable_Destroy",
    "LoadedExecutable_Destroy",
    "Buffer_Destroy",
    "TopologyDescription_Destroy",
    "ExecuteContext_Create",
    "ExecuteContext_Destroy",
    "AsyncHostToDeviceTransferManager_Destroy",
    "Event_Create",
};

/// What a call made is let go of.
template <class Args>
void drop_results(const Args& args) {
  if constexpr (std::is_same_v<Args, PJRT_Client_Create_Args>) {
    auto gone = make<PJRT_Client_Destroy_Args>();
    gone.client = args.client;
    answer(api().PJRT_Client_Destroy(&gone));
  } else if constexpr (std::is_same_v<Args, PJRT_ExecuteContext_Create_Args>) {
    auto gone = make<PJRT_ExecuteContext_Destroy_Args>();
    gone.context = args.context;
    answer(api().PJRT_ExecuteContext_Destroy(&gone));
  } else if constexpr (std::is_same_v<Args, PJRT_Event_Create_Args>) {
    auto gone = make<PJRT_Event_Destroy_Args>();
    gone.event = args.event;
    answer(api().PJRT_Event_Destroy(&gone));
  }
}

template <class Args>
void expect_refused(PJRT_Error* (*function)(Args*), const std::string& name) {
  const bool void_result = name == "Error_Destroy" || name == "Error_Message";
  const auto expect_invalid = [&](const Answer& a, const std::string& what) {
    if (void_result) {
      EXPECT_TRUE(a.ok()) << name << " of " << what;
      return;
    }
    EXPECT_TRUE(a.code == PJRT_Error_Code_INVALID_ARGUMENT ||
                a.code == PJRT_Error_Code_UNIMPLEMENTED)
        << name << " of " << what << " answers " << a.code << " " << a.message;
    EXPECT_NE(a.message, "");
  };
  expect_invalid(answer(function(nullptr)), "no arguments");
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}}) {
    Args args{};
    args.struct_size = size;
    expect_invalid(answer(function(&args)), "arguments without a size");
  }
  auto args = make<Args>();
  const Answer a = answer(function(&args));
  if (kNothingWrong.count(name) == 0) {
    expect_invalid(a, "null handles");
  } else {
    EXPECT_TRUE(a.ok()) << name << ": " << a.message;
    drop_results(args);
  }
}

TEST(PjrtNulls, AreErrors) {
#define FUNCTION(name) expect_refused<PJRT_##name##_Args>(api().PJRT_##name, #name);
#define OPAQUE_FUNCTION(name) \
  EXPECT_EQ(answer(api().PJRT_##name(nullptr)).code, PJRT_Error_Code_UNIMPLEMENTED) << #name;
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
}

const char* const kDouble = R"(module @twice {
  func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %y = stablehlo.add %x, %x : tensor<2x3xf32>
    return %y : tensor<2x3xf32>
  }
})";

/// One of each, to be given to all functions in turn.
struct Handles {
  Client client{1};
  PJRT_Device* device = client.devices()[0];
  Loaded loaded = client.compile(kDouble, options_for(1));
  Executable executable = executable_of(loaded);
  Buffer buffer = client.put({1, 2, 3, 4, 5, 6}, {2, 3});
  PJRT_DeviceDescription* description = nullptr;
  PJRT_Memory* memory = nullptr;
  PJRT_TopologyDescription* topology = nullptr;
  PJRT_Event* event = nullptr;

  Handles() {
    auto described = make<PJRT_Device_GetDescription_Args>();
    described.device = device;
    EXPECT_TRUE(answer(api().PJRT_Device_GetDescription(&described)).ok());
    description = described.device_description;
    auto main = make<PJRT_Device_DefaultMemory_Args>();
    main.device = device;
    EXPECT_TRUE(answer(api().PJRT_Device_DefaultMemory(&main)).ok());
    memory = main.memory;
    auto all = make<PJRT_Client_TopologyDescription_Args>();
    all.client = client.get();
    EXPECT_TRUE(answer(api().PJRT_Client_TopologyDescription(&all)).ok());
    topology = all.topology;
    auto made = make<PJRT_Event_Create_Args>();
    EXPECT_TRUE(answer(api().PJRT_Event_Create(&made)).ok());
    event = made.event;
  }
  ~Handles() {
    auto gone = make<PJRT_Event_Destroy_Args>();
    gone.event = event;
    answer(api().PJRT_Event_Destroy(&gone));
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  template <class Args>
  void give(Args* args) const {
    if constexpr (requires { args->client = client.get(); }) args->client = client.get();
    if constexpr (requires { args->device = device; }) args->device = device;
    if constexpr (requires { args->memory = memory; }) args->memory = memory;
    if constexpr (requires { args->buffer = buffer.get(); }) args->buffer = buffer.get();
    if constexpr (std::is_same_v<Args, PJRT_Buffer_ToHostBuffer_Args>) args->src = buffer.get();
    if constexpr (requires { args->event = event; }) args->event = event;
    if constexpr (requires { args->topology = topology; }) args->topology = topology;
    if constexpr (requires { args->executable = executable.get(); }) {
      args->executable = executable.get();
    }
    if constexpr (requires { args->executable = loaded.get(); }) args->executable = loaded.get();
    if constexpr (requires { args->loaded_executable = loaded.get(); }) {
      args->loaded_executable = loaded.get();
    }
    if constexpr (requires { args->device_description = description; }) {
      args->device_description = description;
    }
  }
};

/// Lists and texts that are said to have three members, at null.
template <class Args>
void count(Args* args) {
#define COUNT(member) \
  if constexpr (requires { args->member = 3; }) args->member = 3;
  COUNT(num_devices)
  COUNT(num_args)
  COUNT(num_options)
  COUNT(num_dims)
  COUNT(shape_num_dims)
  COUNT(num_byte_strides)
  COUNT(num_shape_specs)
  COUNT(num_device_layouts)
  COUNT(num_metadata)
  COUNT(num_process_infos)
  COUNT(compile_options_size)
  COUNT(serialized_executable_size)
  COUNT(serialized_topology_size)
  COUNT(topology_name_size)
  COUNT(error_message_size)
  COUNT(description_size)
  COUNT(transfer_size)
  COUNT(default_assignment_size)
  COUNT(dst_size)
#undef COUNT
  if constexpr (requires { args->num_replicas = 1; }) args->num_replicas = 1;
  if constexpr (std::is_same_v<Args, PJRT_Client_DefaultDeviceAssignment_Args>) {
    args->num_partitions = 1;
  }
}

/// They would take a handle that others need, or make one that nobody drops.
bool takes_handle(const std::string& name) {
  return name.find("Destroy") != std::string::npos || name.find("Create") == 0 ||
         name == "Buffer_Delete" || name == "LoadedExecutable_Delete" || name == "Event_Await" ||
         name == "Event_Create" || name == "ExecuteContext_Create";
}

TEST(PjrtNulls, BesideHandlesAreErrors) {
  const Handles handles;
#define FUNCTION(name)                                                                         \
  if (!takes_handle(#name)) {                                                                  \
    auto args = make<PJRT_##name##_Args>();                                                    \
    handles.give(&args);                                                                       \
    count(&args);                                                                              \
    const Answer a = answer(api().PJRT_##name(&args));                                         \
    EXPECT_TRUE(a.ok() || !a.message.empty()) << #name;                                        \
    EXPECT_NE(a.code, PJRT_Error_Code_INTERNAL) << #name << ": " << a.message;                 \
    refused +=                                                                                 \
        a.code == PJRT_Error_Code_INVALID_ARGUMENT ? std::string(#name) + " " : std::string(); \
  }
#define OPAQUE_FUNCTION(name)
  std::string refused;
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
  for (const char* name :
       {"Client_Compile", "Client_BufferFromHostBuffer", "LoadedExecutable_Execute", "Compile",
        "Executable_DeserializeAndLoad", "Client_CreateBuffersForAsyncHostToDevice",
        "Client_CreateViewOfDeviceBuffer", "Client_CreateUninitializedBuffer",
        "Client_DefaultDeviceAssignment", "Event_OnReady", "Buffer_CopyRawToHost",
        "Buffer_CopyToDevice", "Buffer_CopyToMemory", "Executable_OptimizedProgram",
        "TopologyDescription_Deserialize"}) {
    EXPECT_NE((" " + refused).find(" " + std::string(name) + " "), std::string::npos) << name;
  }
  EXPECT_EQ(get(handles.buffer), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(PjrtNulls, ListsOfArgumentsAreChecked) {
  const Handles handles;
  PJRT_Buffer* const argument = handles.buffer.get();
  PJRT_Buffer* const* const arguments[] = {&argument};
  PJRT_Buffer* const* const none[] = {nullptr};
  PJRT_Buffer* result = nullptr;
  PJRT_Buffer** results[] = {&result};
  PJRT_Buffer** no_results[] = {nullptr};
  auto options = make<PJRT_ExecuteOptions>();
  const auto run_with = [&](PJRT_Buffer* const* const* in, PJRT_Buffer** const* out) {
    auto args = make<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = handles.loaded.get();
    args.options = &options;
    args.num_devices = args.num_args = 1;
    args.argument_lists = in;
    args.output_lists = out;
    return answer(api().PJRT_LoadedExecutable_Execute(&args));
  };
  EXPECT_EQ(run_with(nullptr, results).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(run_with(none, results).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(run_with(arguments, nullptr).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(run_with(arguments, no_results).code, PJRT_Error_Code_INVALID_ARGUMENT);
  options.num_non_donatable_input_indices = 2;
  EXPECT_EQ(run_with(arguments, results).code, PJRT_Error_Code_INVALID_ARGUMENT);
  options.num_non_donatable_input_indices = 0;
  // A client of before there were contexts: what stands there isn't one.
  options.struct_size = offsetof(PJRT_ExecuteOptions, context);
  options.context = reinterpret_cast<PJRT_ExecuteContext*>(std::uintptr_t{0x10});
  const Answer a = run_with(arguments, results);
  ASSERT_TRUE(a.ok()) << a.message;
  EXPECT_EQ(get(Buffer(result)), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

/// Arguments as a client has them whose version knows the first members alone. Behind them stands
/// what is the client's own.
template <class Args>
void call_short(PJRT_Error* (*function)(Args*), const Handles& handles, std::size_t size,
                const std::string& name) {
  auto whole = make<Args>();
  handles.give(&whole);
  whole.struct_size = size;
  std::vector<unsigned char> memory(sizeof(Args), 0xa5);
  std::memcpy(memory.data(), &whole, size);
  alignas(Args) unsigned char bytes[sizeof(Args)];
  std::memcpy(bytes, memory.data(), sizeof(Args));
  const Answer a = answer(function(reinterpret_cast<Args*>(bytes)));
  EXPECT_NE(a.code, PJRT_Error_Code_INTERNAL) << name << " of " << size << " bytes: " << a.message;
  for (std::size_t k = size; k < sizeof(Args); ++k) {
    ASSERT_EQ(bytes[k], 0xa5) << name << " of " << size << " bytes wrote to byte " << k;
  }
}

/// What it makes would be in a part that these clients don't have.
template <class Args>
constexpr bool makes_objects() {
  return requires(Args a) { a.dst_buffer; }
  || requires(Args a) { a.buffer_out; }
  || requires(Args a) { a.out_buffer; }
  || requires(Args a) { a.loaded_executable; }
  || requires(Args a) { a.serialized_bytes; }
  || std::is_same_v<Args, PJRT_Buffer_ReadyEvent_Args> || requires(Args a) { a.context; }
  || requires(Args a) { a.create_options; }
  || requires(Args a) { a.topology_name; }
  || requires(Args a) { a.done_with_host_buffer; }
  || requires(Args a) { a.transfer_manager; }
  || requires(Args a) { a.shape_dims; }
  || requires(Args a) { a.device_buffer_ptr; };
}

TEST(PjrtNulls, ShorterStructsAreReadAndWrittenAsFarAsTheyGo) {
  const Handles handles;
#define FUNCTION(name)                                                                     \
  if constexpr (!makes_objects<PJRT_##name##_Args>()) {                                    \
    for (std::size_t size = 16; !takes_handle(#name) && size < sizeof(PJRT_##name##_Args); \
         size += 8) {                                                                      \
      call_short<PJRT_##name##_Args>(api().PJRT_##name, handles, size, #name);             \
    }                                                                                      \
  }
#define OPAQUE_FUNCTION(name)
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
}

/// A function of an extension, whose type the struct doesn't say.
template <class Args>
void expect_extension_refuses(void* function, const char* name, bool takes_null = false) {
  const auto call = reinterpret_cast<PJRT_Error* (*)(Args*)>(function);
  ASSERT_NE(call, nullptr) << name;
  EXPECT_EQ(answer(call(nullptr)).code, PJRT_Error_Code_INVALID_ARGUMENT) << name;
  Args args{};
  EXPECT_EQ(answer(call(&args)).code, PJRT_Error_Code_INVALID_ARGUMENT) << name;
  args = make<Args>();
  EXPECT_EQ(answer(call(&args)).ok(), takes_null) << name;
}
template <class Args>
void expect_extension_refuses(PJRT_Error* (*function)(Args*), const char* name,
                              bool takes_null = false) {
  expect_extension_refuses<Args>(reinterpret_cast<void*>(function), name, takes_null);
}

template <class Extension>
const Extension& extension(PJRT_Extension_Type type) {
  return *reinterpret_cast<const Extension*>(find_extension(type));
}

TEST(PjrtNulls, AreErrorsOfExtensions) {
  const auto& shardings = extension<PJRT_Shardings_Extension>(PJRT_Extension_Type_Shardings);
  expect_extension_refuses(shardings.PJRT_Shardings_PJRT_Executable_ParameterShardings,
                           "parameters");
  expect_extension_refuses(shardings.PJRT_Shardings_PJRT_Executable_OutputShardings, "outputs");
  const auto& ffi = extension<PJRT_FFI_Extension>(PJRT_Extension_Type_FFI);
  expect_extension_refuses<PJRT_FFI_UserData_Add_Args>(ffi.user_data_add, "user data");
  expect_extension_refuses<PJRT_FFI_Register_Handler_Args>(ffi.register_handler, "handler");
  const auto& partitioner =
      extension<PJRT_Custom_Partitioner_Extension>(PJRT_Extension_Type_Custom_Partitioner);
  expect_extension_refuses<PJRT_Register_Custom_Partitioner_Args>(
      partitioner.register_custom_partitioner, "partitioner");
  const auto& memories =
      extension<PJRT_MemoryDescriptions_Extension>(PJRT_Extension_Type_MemoryDescriptions);
  expect_extension_refuses<PJRT_DeviceDescription_MemoryDescriptions_Args>(
      memories.PJRT_DeviceDescription_MemoryDescriptions, "memories");
  expect_extension_refuses<PJRT_MemoryDescription_Kind_Args>(memories.PJRT_MemoryDescription_Kind,
                                                             "kind");
  const auto& versions = extension<PJRT_AbiVersion_Extension>(PJRT_Extension_Type_AbiVersion);
  expect_extension_refuses(versions.client_runtime_abi_version, "of a client");
  expect_extension_refuses(versions.executable_get_abi_version, "of a program");
  expect_extension_refuses(versions.runtime_abi_version_destroy, "destroy", true);
  expect_extension_refuses(versions.runtime_abi_version_is_compatible_with_runtime, "fits runtime");
  expect_extension_refuses(versions.runtime_abi_version_is_compatible_with_executable, "fits");
  expect_extension_refuses(versions.runtime_abi_version_to_proto, "to proto");
  expect_extension_refuses(versions.runtime_abi_version_platform_id, "platform");
  const auto& profiler = extension<PJRT_Profiler_Extension>(PJRT_Extension_Type_Profiler);
  const auto& table = *static_cast<const PLUGIN_Profiler_Api*>(profiler.profiler_api);
  // XLA's client leaves struct_size of these unset.
  PLUGIN_Profiler_Create_Args created{};
  created.struct_size = 1;
  using Create = PJRT_Error* (*)(PLUGIN_Profiler_Create_Args*);
  EXPECT_TRUE(answer(reinterpret_cast<Create>(table.create)(&created)).ok());
  PLUGIN_Profiler_Destroy_Args gone{};
  gone.struct_size = 1;
  gone.profiler = created.profiler;
  using Destroy = PJRT_Error* (*)(PLUGIN_Profiler_Destroy_Args*);
  EXPECT_TRUE(answer(reinterpret_cast<Destroy>(table.destroy)(&gone)).ok());
  expect_extension_refuses<PLUGIN_Profiler_Error_GetCode_Args>(table.error_get_code, "code");
  expect_extension_refuses<PLUGIN_Profiler_Start_Args>(table.start, "start");
  expect_extension_refuses<PLUGIN_Profiler_Stop_Args>(table.stop, "stop");
  expect_extension_refuses<PLUGIN_Profiler_CollectData_Args>(table.collect_data, "collect");
}

}  // namespace
}  // namespace tessera::pjrt_tests
