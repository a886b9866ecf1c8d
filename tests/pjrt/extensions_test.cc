// SPDX-License-Identifier: Apache-2.0
// Extensions of the API, transfers in pieces, programs compiled without a client.
#include <gtest/gtest.h>

#include "tests/pjrt/ffi_client.h"

namespace tessera::pjrt_tests {
namespace {

const char* const kSum = R"(module @sum {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<3xf32>, tensor<8x3xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
    %y = stablehlo.add %x, %x : tensor<8x3xf32>
    return %sum, %y : tensor<3xf32>, tensor<8x3xf32>
  }
})";

template <class Extension>
const Extension* find(PJRT_Extension_Type type) {
  return reinterpret_cast<const Extension*>(find_extension(type));
}

template <class Args>
Answer call(void* function, Args* args) {
  return answer(reinterpret_cast<PJRT_Error* (*)(Args*)>(function)(args));
}

void expect_sums(const Client& client, const Loaded& sum) {
  std::vector<Buffer> parts;
  std::vector<std::vector<PJRT_Buffer*>> arguments;
  for (std::size_t d = 0; d < 4; ++d) {
    parts.push_back(client.put({float(d), 1, 2, 3, 4, 5}, {2, 3}, d));
    arguments.push_back({parts.back().get()});
  }
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(sum, arguments, 2, &out);
  ASSERT_TRUE(a.ok()) << a.message;
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(get(out[d][0]), (std::vector<float>{18, 20, 28}));
    EXPECT_EQ(get(out[d][1]), (std::vector<float>{float(2 * d), 2, 4, 6, 8, 10}));
  }
}

TEST(PjrtExtensions, VersionsOfProgramsFit) {
  const auto* versions = find<PJRT_AbiVersion_Extension>(PJRT_Extension_Type_AbiVersion);
  ASSERT_NE(versions, nullptr);
  const Client client(4);
  const Executable e = executable_of(client.compile(kSum, options_for(4)));
  auto of_program = make<PJRT_Executable_GetAbiVersion_Args>();
  of_program.executable = e.get();
  ASSERT_TRUE(answer(versions->executable_get_abi_version(&of_program)).ok());
  auto text = make<PJRT_RuntimeAbiVersion_ToProto_Args>();
  text.abi_version = of_program.abi_version;
  ASSERT_TRUE(answer(versions->executable_abi_version_to_proto(&text)).ok());
  const std::string proto(text.serialized_proto, text.serialized_proto_size);
  reinterpret_cast<void (*)(void*)>(text.serialized_proto_deleter)(text.serialized_proto_holder);
  const auto read = [&](const std::string& bytes) {
    auto args = make<PJRT_RuntimeAbiVersion_FromProto_Args>();
    args.serialized_proto = bytes.data();
    args.serialized_proto_size = bytes.size();
    EXPECT_TRUE(answer(versions->runtime_abi_version_from_proto(&args)).ok());
    return args.abi_version;
  };
  void* const same = read(proto);
  std::string changed = proto;
  changed.back() = '1';
  void* const other = read(changed);
  auto fits = make<PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args>();
  fits.executable_abi_version = of_program.abi_version;
  fits.abi_version = same;
  EXPECT_TRUE(answer(versions->runtime_abi_version_is_compatible_with_executable(&fits)).ok());
  fits.abi_version = other;
  EXPECT_EQ(answer(versions->runtime_abi_version_is_compatible_with_executable(&fits)).code,
            PJRT_Error_Code_FAILED_PRECONDITION);
  for (void* v : {same, other, of_program.abi_version}) {
    auto gone = make<PJRT_RuntimeAbiVersion_Destroy_Args>();
    gone.abi_version = v;
    EXPECT_TRUE(answer(versions->runtime_abi_version_destroy(&gone)).ok());
  }
}

TEST(PjrtExtensions, ProfilesTellOfKernels) {
  const auto* extension = find<PJRT_Profiler_Extension>(PJRT_Extension_Type_Profiler);
  ASSERT_NE(extension, nullptr);
  const auto& table = *static_cast<const PLUGIN_Profiler_Api*>(extension->profiler_api);
  const Client client(4);
  const Loaded sum = client.compile(kSum, options_for(4));
  auto create = make<PLUGIN_Profiler_Create_Args>();
  ASSERT_TRUE(call(table.create, &create).ok());
  auto start = make<PLUGIN_Profiler_Start_Args>();
  start.profiler = create.profiler;
  ASSERT_TRUE(call(table.start, &start).ok());
  expect_sums(client, sum);
  auto stop = make<PLUGIN_Profiler_Stop_Args>();
  stop.profiler = create.profiler;
  ASSERT_TRUE(call(table.stop, &stop).ok());
  auto data = make<PLUGIN_Profiler_CollectData_Args>();
  data.profiler = create.profiler;
  ASSERT_TRUE(call(table.collect_data, &data).ok());
  std::string bytes(data.buffer_size_in_bytes, ' ');
  data.buffer = bytes.data();
  ASSERT_TRUE(call(table.collect_data, &data).ok());
  EXPECT_NE(bytes.find("/device:CUSTOM:Tessera"), std::string::npos);
  EXPECT_NE(bytes.find("all-reduce"), std::string::npos);
  auto gone = make<PLUGIN_Profiler_Destroy_Args>();
  gone.profiler = create.profiler;
  EXPECT_TRUE(call(table.destroy, &gone).ok());
}

TEST(PjrtExtensions, DevicesHaveKindsOfMemory) {
  const auto* kinds =
      find<PJRT_MemoryDescriptions_Extension>(PJRT_Extension_Type_MemoryDescriptions);
  ASSERT_NE(kinds, nullptr);
  const Client client(1);
  auto device = make<PJRT_Device_GetDescription_Args>();
  device.device = client.devices()[0];
  ASSERT_TRUE(answer(api().PJRT_Device_GetDescription(&device)).ok());
  auto all = make<PJRT_DeviceDescription_MemoryDescriptions_Args>();
  all.device_description = device.device_description;
  ASSERT_TRUE(call(kinds->PJRT_DeviceDescription_MemoryDescriptions, &all).ok());
  ASSERT_EQ(all.num_memory_descriptions, 3U);
  auto kind = make<PJRT_MemoryDescription_Kind_Args>();
  kind.memory_description = static_cast<void**>(all.memory_descriptions)[0];
  ASSERT_TRUE(call(kinds->PJRT_MemoryDescription_Kind, &kind).ok());
  EXPECT_EQ(std::string(kind.kind, kind.kind_size), "device");
}

class PjrtTransfers : public testing::Test {
 protected:
  void SetUp() override {
    auto spec = make<PJRT_ShapeSpec>();
    spec.dims = dims_.data();
    spec.num_dims = dims_.size();
    spec.element_type = PJRT_Buffer_Type_F32;
    auto args = make<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
    args.client = client_.get();
    args.shape_specs = &spec;
    args.num_shape_specs = 1;
    const Answer a = answer(api().PJRT_Client_CreateBuffersForAsyncHostToDevice(&args));
    ASSERT_TRUE(a.ok()) << a.message;
    manager_ = args.transfer_manager;
    auto retrieve = make<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
    retrieve.transfer_manager = manager_;
    ASSERT_TRUE(answer(api().PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&retrieve)).ok());
    buffer_ = Buffer(retrieve.buffer_out);
  }
  Answer send(const std::vector<float>& values, std::int64_t offset, bool last) {
    auto args = make<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
    args.transfer_manager = manager_;
    args.data = values.data();
    args.offset = offset;
    args.transfer_size = std::int64_t(values.size() * sizeof(float));
    args.is_last_transfer = last;
    const Answer a = answer(api().PJRT_AsyncHostToDeviceTransferManager_TransferData(&args));
    if (a.ok()) done(static_cast<PJRT_Event*>(args.done_with_h2d_transfer));
    return a;
  }
  void drop() {
    auto args = make<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>();
    args.transfer_manager = manager_;
    EXPECT_TRUE(answer(api().PJRT_AsyncHostToDeviceTransferManager_Destroy(&args)).ok());
  }

  std::vector<std::int64_t> dims_{2, 2};
  Client client_{1};
  PJRT_AsyncHostToDeviceTransferManager* manager_ = nullptr;
  Buffer buffer_;
};

TEST_F(PjrtTransfers, PiecesMakeABuffer) {
  EXPECT_TRUE(send({3, 4}, 8, false).ok());
  EXPECT_EQ(send({1}, 16, false).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(send({1}, -4, false).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_TRUE(send({1, 2}, 0, true).ok());
  EXPECT_EQ(send({1, 2}, 0, true).code, PJRT_Error_Code_FAILED_PRECONDITION);
  drop();
  EXPECT_EQ(get(buffer_), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(PjrtTransfers, TheRestMayNeverCome) {
  EXPECT_TRUE(send({3, 4}, 8, false).ok());
  drop();
  auto args = make<PJRT_Buffer_ReadyEvent_Args>();
  args.buffer = buffer_.get();
  ASSERT_TRUE(answer(api().PJRT_Buffer_ReadyEvent(&args)).ok());
  auto wait = make<PJRT_Event_Await_Args>();
  wait.event = args.event;
  EXPECT_EQ(answer(api().PJRT_Event_Await(&wait)).code, PJRT_Error_Code_CANCELLED);
  auto gone = make<PJRT_Event_Destroy_Args>();
  gone.event = args.event;
  api().PJRT_Event_Destroy(&gone);
}

TEST(PjrtCompile, NeedsNoClient) {
  std::string name = "cpu:4", code = kSum;
  auto topology = make<PJRT_TopologyDescription_Create_Args>();
  topology.topology_name = name.data();
  topology.topology_name_size = name.size();
  ASSERT_TRUE(answer(api().PJRT_TopologyDescription_Create(&topology)).ok());
  auto program = make<PJRT_Program>();
  program.code = code.data();
  program.code_size = code.size();
  program.format = "mlir";
  program.format_size = 4;
  const std::string options = options_for(4);
  auto args = make<PJRT_Compile_Args>();
  args.topology = topology.topology;
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  const Answer a = answer(api().PJRT_Compile(&args));
  ASSERT_TRUE(a.ok()) << a.message;
  auto gone = make<PJRT_TopologyDescription_Destroy_Args>();
  gone.topology = topology.topology;
  EXPECT_TRUE(answer(api().PJRT_TopologyDescription_Destroy(&gone)).ok());
  const std::string bytes = serialized(Executable(args.executable));
  const Client client(4);
  Answer loaded;
  const Loaded sum = client.load(bytes, &loaded);
  ASSERT_TRUE(loaded.ok()) << loaded.message;
  expect_sums(client, sum);
}

}  // namespace
}  // namespace tessera::pjrt_tests
