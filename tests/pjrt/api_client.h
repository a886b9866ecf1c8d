// SPDX-License-Identifier: Apache-2.0
// A small client of the plugin, over nothing but the C API.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/pjrt/abi/api.h"

namespace tessera::pjrt_tests {

/// Arguments of a function of the API.
template <class Args>
Args make() {
  Args out{};
  out.struct_size = sizeof(Args);
  return out;
}

inline const PJRT_Api& api() {
  static const PJRT_Api* const table = [] {
    void* const module = dlopen(TESSERA_PJRT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) throw std::runtime_error(dlerror());
    using Get = const PJRT_Api* (*)();
    return reinterpret_cast<Get>(dlsym(module, "GetPjrtApi"))();
  }();
  return *table;
}

/// What a call of the API answered.
struct Answer {
  PJRT_Error_Code code = PJRT_Error_Code_OK;
  std::string message;
  bool ok() const { return code == PJRT_Error_Code_OK; }
};

inline Answer answer(PJRT_Error* error) {
  Answer out;
  if (error == nullptr) return out;
  auto code = make<PJRT_Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(api().PJRT_Error_GetCode(&code), nullptr);
  out.code = PJRT_Error_Code(code.code);
  auto message = make<PJRT_Error_Message_Args>();
  message.error = error;
  api().PJRT_Error_Message(&message);
  out.message.assign(message.message, message.message_size);
  auto gone = make<PJRT_Error_Destroy_Args>();
  gone.error = error;
  api().PJRT_Error_Destroy(&gone);
  return out;
}

inline void done(PJRT_Event* event) {
  auto wait = make<PJRT_Event_Await_Args>();
  wait.event = event;
  EXPECT_TRUE(answer(api().PJRT_Event_Await(&wait)).ok());
  auto gone = make<PJRT_Event_Destroy_Args>();
  gone.event = event;
  api().PJRT_Event_Destroy(&gone);
}

/// A buffer with one owner.
struct DropBuffer {
  void operator()(PJRT_Buffer* b) const {
    auto args = make<PJRT_Buffer_Destroy_Args>();
    args.buffer = b;
    api().PJRT_Buffer_Destroy(&args);
  }
};
using Buffer = std::unique_ptr<PJRT_Buffer, DropBuffer>;

struct DropLoaded {
  void operator()(PJRT_LoadedExecutable* e) const {
    auto args = make<PJRT_LoadedExecutable_Destroy_Args>();
    args.executable = e;
    api().PJRT_LoadedExecutable_Destroy(&args);
  }
};
using Loaded = std::unique_ptr<PJRT_LoadedExecutable, DropLoaded>;

struct DropExecutable {
  void operator()(PJRT_Executable* e) const {
    auto args = make<PJRT_Executable_Destroy_Args>();
    args.executable = e;
    api().PJRT_Executable_Destroy(&args);
  }
};
using Executable = std::unique_ptr<PJRT_Executable, DropExecutable>;

class Client {
 public:
  explicit Client(std::int64_t devices) {
    static const std::string_view name = "cpu_device_count";
    auto option = make<PJRT_NamedValue>();
    option.name = name.data();
    option.name_size = name.size();
    option.type = PJRT_NamedValue_kInt64;
    option.int64_value = devices;
    option.value_size = 1;
    auto args = make<PJRT_Client_Create_Args>();
    args.create_options = &option;
    args.num_options = 1;
    const Answer a = answer(api().PJRT_Client_Create(&args));
    EXPECT_TRUE(a.ok()) << a.message;
    client_ = args.client;
    auto all = make<PJRT_Client_Devices_Args>();
    all.client = client_;
    EXPECT_TRUE(answer(api().PJRT_Client_Devices(&all)).ok());
    devices_.assign(all.devices, all.devices + all.num_devices);
  }
  ~Client() {
    auto args = make<PJRT_Client_Destroy_Args>();
    args.client = client_;
    answer(api().PJRT_Client_Destroy(&args));
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  PJRT_Client* get() const { return client_; }
  const std::vector<PJRT_Device*>& devices() const { return devices_; }

  Loaded compile(std::string code, const std::string& options, Answer* out = nullptr,
                 std::string_view format = "mlir") const {
    auto program = make<PJRT_Program>();
    program.code = code.data();
    program.code_size = code.size();
    program.format = format.data();
    program.format_size = format.size();
    auto args = make<PJRT_Client_Compile_Args>();
    args.client = client_;
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    const Answer a = answer(api().PJRT_Client_Compile(&args));
    if (out != nullptr) {
      *out = a;
    } else {
      EXPECT_TRUE(a.ok()) << a.message;
    }
    return Loaded(a.ok() ? args.executable : nullptr);
  }

  Loaded load(const std::string& bytes, Answer* out) const {
    auto args = make<PJRT_Executable_DeserializeAndLoad_Args>();
    args.client = client_;
    args.serialized_executable = bytes.data();
    args.serialized_executable_size = bytes.size();
    *out = answer(api().PJRT_Executable_DeserializeAndLoad(&args));
    return Loaded(out->ok() ? args.loaded_executable : nullptr);
  }

  Buffer put(const std::vector<float>& values, const std::vector<std::int64_t>& dims,
             std::size_t device = 0) const {
    auto args = make<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client_;
    args.data = values.data();
    args.type = PJRT_Buffer_Type_F32;
    args.dims = dims.data();
    args.num_dims = dims.size();
    args.device = devices_[device];
    const Answer a = answer(api().PJRT_Client_BufferFromHostBuffer(&args));
    EXPECT_TRUE(a.ok()) << a.message;
    done(args.done_with_host_buffer);
    return Buffer(args.buffer);
  }

 private:
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
};

/// In the layout of the buffer, unless there is one.
inline std::vector<float> get(const Buffer& buffer, PJRT_Buffer_MemoryLayout* layout = nullptr) {
  auto args = make<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer.get();
  args.host_layout = layout;
  EXPECT_TRUE(answer(api().PJRT_Buffer_ToHostBuffer(&args)).ok());
  std::vector<float> out(args.dst_size / sizeof(float));
  args.dst = out.data();
  const Answer a = answer(api().PJRT_Buffer_ToHostBuffer(&args));
  EXPECT_TRUE(a.ok()) << a.message;
  if (a.ok()) done(args.event);
  return out;
}

inline bool is_deleted(const Buffer& buffer) {
  auto args = make<PJRT_Buffer_IsDeleted_Args>();
  args.buffer = buffer.get();
  EXPECT_TRUE(answer(api().PJRT_Buffer_IsDeleted(&args)).ok());
  return args.is_deleted;
}

inline Executable executable_of(const Loaded& loaded) {
  auto args = make<PJRT_LoadedExecutable_GetExecutable_Args>();
  args.loaded_executable = loaded.get();
  EXPECT_TRUE(answer(api().PJRT_LoadedExecutable_GetExecutable(&args)).ok());
  return Executable(args.executable);
}

/// arguments[d][i]; the results likewise.
inline Answer run(const Loaded& loaded, const std::vector<std::vector<PJRT_Buffer*>>& arguments,
                  std::size_t results, std::vector<std::vector<Buffer>>* out,
                  const std::vector<std::int64_t>& keep = {}) {
  std::vector<PJRT_Buffer* const*> lists;
  for (const auto& a : arguments) lists.push_back(a.data());
  std::vector<std::vector<PJRT_Buffer*>> made(arguments.size(),
                                              std::vector<PJRT_Buffer*>(results, nullptr));
  std::vector<PJRT_Buffer**> outputs;
  for (auto& m : made) outputs.push_back(m.data());
  std::vector<PJRT_Event*> events(arguments.size());
  auto options = make<PJRT_ExecuteOptions>();
  options.non_donatable_input_indices = keep.data();
  options.num_non_donatable_input_indices = keep.size();
  auto args = make<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = loaded.get();
  args.options = &options;
  args.argument_lists = lists.data();
  args.num_devices = arguments.size();
  args.num_args = arguments.empty() ? 0 : arguments[0].size();
  args.output_lists = outputs.data();
  args.device_complete_events = events.data();
  Answer a = answer(api().PJRT_LoadedExecutable_Execute(&args));
  if (!a.ok()) return a;
  for (PJRT_Event* e : events) done(e);
  out->clear();
  for (const auto& m : made) {
    out->emplace_back();
    for (PJRT_Buffer* b : m) out->back().emplace_back(b);
  }
  return a;
}

inline std::string serialized(const Executable& e) {
  auto args = make<PJRT_Executable_Serialize_Args>();
  args.executable = e.get();
  EXPECT_TRUE(answer(api().PJRT_Executable_Serialize(&args)).ok());
  std::string out(args.serialized_bytes, args.serialized_bytes_size);
  using Deleter = void (*)(void*);
  reinterpret_cast<Deleter>(args.serialized_executable_deleter)(
      reinterpret_cast<void*>(args.serialized_executable));
  return out;
}

inline std::string serialized(const Loaded& loaded) { return serialized(executable_of(loaded)); }

/// CompileOptionsProto for that many partitions, whose results' shardings are free.
inline std::string options_for(int partitions, int replicas = 1) {
  const std::string build = {4 << 3, char(replicas), 5 << 3, char(partitions), 12 << 3, 1};
  return std::string{3 << 3 | 2, char(build.size())} + build;
}

}  // namespace tessera::pjrt_tests
