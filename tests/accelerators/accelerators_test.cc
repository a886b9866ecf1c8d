// SPDX-License-Identifier: Apache-2.0
// Arrays and programs on devices of PJRT plugins: our own, or the one that PJRT_TEST_PLUGIN
// names.
#include <tessera/precision.h>

#include <filesystem>
#include <fstream>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

TEST(Accelerators, APluginsDevicesAreAPlatform) {
  const std::vector<Device>& all = plugin_devices();
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(all[3].to_string(), "xpu:3");
  EXPECT_EQ(&devices("xpu"), &all);
  EXPECT_EQ(device_kind(all[0]), "cpu");
  EXPECT_EQ(all[1].default_memory().kind, "device");
  expect_has(
      message_of<ValueError>([] { (void)load_pjrt_plugin(plugin_file(), {.platform = "xpu"}); }),
      {"'xpu' already", "accelerators_test.cc"});
  expect_has(
      message_of<ValueError>([] { (void)load_pjrt_plugin(plugin_file(), {.platform = "cpu"}); }),
      {"'cpu' already"});
}

TEST(Accelerators, OneDeviceComputes) {
  const Device d = plugin_devices()[2];
  const Array x = device_put(counting({2, 3}), d);
  EXPECT_EQ(floats(x), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const auto f = jit([](Array a) { return a + 1.0f; });
  const Array y = f(x);
  EXPECT_EQ(y.sharding().device_list()[0], d);
  EXPECT_EQ(floats(y), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(to_string(y), to_string(f(counting({2, 3}))));
  // Without jit, and on another device.
  EXPECT_EQ(floats(device_put(y, plugin_devices()[5]) * 2.0f)[5], 12);
  EXPECT_EQ(floats(copy(y)), floats(y));
  EXPECT_EQ(floats(device_put(y, devices("cpu")[0])), floats(y));
}

TEST(Accelerators, ElementTypesAndEmptyArrays) {
  const Device d = plugin_devices()[0];
  for (const DType t : {pred, s8, s32, u16, u64, f16, bf16, f32, f64, c64, c128}) {
    const Array here = astype(arange(12.0f), t);
    const Array there = device_put(here, d);
    const auto f = jit([](Array a) { return concatenate({a, a}, 0); });
    EXPECT_EQ(to_string(f(there)), to_string(f(here))) << name(t);
  }
  const Array none = device_put(zeros({0, 3}), d);
  EXPECT_EQ(floats(none + 1.0f).size(), 0u);
}

TEST(Accelerators, ShardsAreOnTheirDevices) {
  const Mesh mesh(plugin_devices(), {2, 4}, {"x", "y"});
  const Array whole = counting({8, 12}, 0.1f);
  for (const P& spec : {P(), P("x"), P("x", "y"), P(nullptr, "y"), P(axes("y", "x"))}) {
    const Array there = device_put(whole, NamedSharding(mesh, spec));
    EXPECT_EQ(floats(there), floats(whole)) << spec.to_string();
    EXPECT_EQ(floats(copy(there)), floats(whole));
    EXPECT_EQ(floats(device_put(there, plugin_devices()[7])), floats(whole));
  }
}

TEST(Accelerators, PartitionedProgramsAgreeWithOneDevice) {
  const Mesh mesh(plugin_devices(), {2, 4}, {"x", "y"});
  const auto f = jit([](Array a, Array b) {
    const Array c = tanh(matmul(a, b));
    return std::pair(sum(c, 1), transpose(c));
  });
  const Array a = counting({8, 16}, 0.01f), b = counting({16, 8}, 0.02f);
  const auto [sum_here, here] = f(a, b);
  for (const auto& [sa, sb] : std::vector<std::pair<P, P>>{{P("x"), P()},
                                                           {P("x", "y"), P("y")},
                                                           {P(nullptr, "y"), P("y")},
                                                           {P("y"), P(nullptr, "x")}}) {
    const auto [sum_there, there] =
        f(device_put(a, NamedSharding(mesh, sa)), device_put(b, NamedSharding(mesh, sb)));
    expect_close(sum_there, sum_here);
    expect_close(there, here);
  }
  // Some of the devices, in another order.
  const Mesh some({plugin_devices()[6], plugin_devices()[1]}, {2}, {"z"});
  expect_close(f(device_put(a, NamedSharding(some, P("z"))), b).first, sum_here);
}

TEST(Accelerators, GradientsBatchesAndCodePerDevice) {
  const Mesh mesh(plugin_devices(), {8}, {"x"});
  const auto loss = [](Array w, Array x) { return mean(square(tanh(matmul(x, w)))); };
  const Array w = counting({4, 4}, 0.05f), x = counting({16, 4}, 0.03f);
  const auto g = jit(grad(loss));
  expect_close(
      g(device_put(w, NamedSharding(mesh, P())), device_put(x, NamedSharding(mesh, P("x")))),
      g(w, x));
  const auto rows = jit(vmap([](Array row) { return cumsum(row) / (1.0f + sum(row)); }));
  expect_close(rows(device_put(x, NamedSharding(mesh, P("x")))), rows(x));
  const auto local = jit(shard_map([](Array a) { return psum(sum(a, 0), "x"); },
                                   {.mesh = mesh, .in_specs = P("x"), .out_specs = P()}));
  expect_close(local(device_put(x, NamedSharding(mesh, P("x")))), sum(x, 0));
}

TEST(Accelerators, DonatedMemoryIsReused) {
  const Mesh mesh(plugin_devices(), {8}, {"x"});
  const Array x = device_put(counting({16, 4}), NamedSharding(mesh, P("x")));
  const Array kept = x;
  const auto f = jit([](Array a) { return a + 1.0f; }, {.donate_argnums = {0}});
  EXPECT_FLOAT_EQ(floats(f(x))[5], 6);
  expect_has(message_of<RuntimeError>([&] { (void)floats(kept); }), {"donated to"});
  Array y = device_put(counting({1024}), plugin_devices()[1]);
  for (int k = 0; k < 20; ++k) y = f(y);
  EXPECT_FLOAT_EQ(floats(y)[1], 21);
}

TEST(Accelerators, MemoryOfTheHost) {
  const Mesh mesh(plugin_devices(), {8}, {"x"});
  const NamedSharding device(mesh, P("x")), host(mesh, P("x"), "pinned_host");
  const Array x = counting({16, 4});
  const Array there = device_put(x, host);
  EXPECT_EQ(there.sharding().memory_kind(), "pinned_host");
  EXPECT_EQ(floats(there), floats(x));
  const Array back = device_put(there, device);
  EXPECT_EQ(floats(back), floats(x));
  EXPECT_EQ(floats(jit([](Array a) { return a * 2.0f; })(back))[3], 6);
}

TEST(Accelerators, ResultsHaveEvents) {
  const Array x = device_put(counting({512, 512}, 1e-4f), plugin_devices()[0]);
  const auto f = jit([](Array a) { return matmul(a, a) * 0.1f; });
  Array y = x;
  for (int k = 0; k < 8; ++k) y = f(y);
  EXPECT_EQ(&y.block_until_ready(), &y);
  EXPECT_TRUE(y.is_ready());
}

TEST(Precisions, OfProductsAreThoseInScope) {
  const auto f = jit([](Array a) { return matmul(a, a); });
  const Array a = counting({4, 4});
  const auto text = [&] { return f.lower(a).as_text(); };
  EXPECT_EQ(text().find("highest"), std::string::npos);
  (void)f(a);
  const std::int64_t programs = f.cache_size();
  {
    const PrecisionScope scope(Precision::highest);
    EXPECT_EQ(current_precision(), Precision::highest);
    EXPECT_NE(text().find("highest"), std::string::npos);
    expect_close(f(device_put(a, plugin_devices()[0])), f(a));
    EXPECT_GT(f.cache_size(), programs);
  }
  EXPECT_EQ(current_precision(), Precision::standard);
  EXPECT_EQ(text().find("highest"), std::string::npos);
}

TEST(Machines, AreKnownByNameAndByKind) {
  const Network h100 = machine_named("H100");
  EXPECT_DOUBLE_EQ(h100.flops_per_second, 989.4e12);
  EXPECT_EQ(machine_named("NVIDIA H100 80GB HBM3"), h100);
  EXPECT_DOUBLE_EQ(machine_named("NVIDIA H100 PCIe").memory_bytes_per_second, 2e12);
  EXPECT_DOUBLE_EQ(machine_named("tpu v5 lite").memory_bytes_per_second, 0.81e12);
  expect_has(message_of<ValueError>([] { (void)machine_named("abacus"); }), {"A100", "TPU v4"});
  EXPECT_NE(message_of<ValueError>([] { (void)machine_named("H1000"); }), "no error");
}

/// Of plugins that are no plugins, or fail.
using Faults = FaultyPlugins;

TEST_F(Faults, WhatIsNoPluginIsRefused) {
  const auto refused = [](const std::string& file) {
    return message_of<RuntimeError>([&] { (void)load_pjrt_plugin(file, {.platform = "none"}); });
  };
  expect_has(refused("/no/such/plugin.so"), {"/no/such/plugin.so", "dlopen"});
  expect_has(refused(TESSERA_ACCELERATORS_LIBRARY), {"GetPjrtApi", "no plugin"});
  const auto text = std::filesystem::temp_directory_path() / "tessera_no_plugin.so";
  std::ofstream(text) << "hello";
  expect_has(refused(text.string()), {text.string(), "dlopen"});
  std::filesystem::remove(text);
  const auto faulty = [&](const char* fault) {
    return message_of<RuntimeError>([&] { (void)load(fault); });
  };
  expect_has(faulty("no table"), {"GetPjrtApi"});
  expect_has(faulty("major version"), {"GetPjrtApi", "version 7.", "major version 0"});
  expect_has(faulty("small table"), {"GetPjrtApi", "64 bytes"});
  expect_has(faulty("no device"), {"no device"});
}

TEST_F(Faults, AFunctionThatFailsWhenAPluginIsLoadedIsNamed) {
  for (const char* function :
       {"PJRT_Plugin_Initialize", "PJRT_Plugin_Attributes", "PJRT_Client_Create",
        "PJRT_Client_PlatformName", "PJRT_Client_PlatformVersion", "PJRT_Client_AddressableDevices",
        "PJRT_Device_GetDescription", "PJRT_DeviceDescription_Id", "PJRT_DeviceDescription_Kind",
        "PJRT_Device_AddressableMemories", "PJRT_Device_DefaultMemory", "PJRT_Memory_Kind"}) {
    expect_has(message_of<RuntimeError>([&] { (void)load(function); }),
               {TESSERA_FAILING_PLUGIN, function, "on purpose"});
  }
}

TEST_F(Faults, WhatFailsLaterIsThrownAtTheFirstUse) {
  const std::vector<Device>& all = load("late");
  const auto f = jit([](Array a) { return a * 3.0f; });
  const Array y = f(device_put(counting({4}), all[0]));
  const std::string message = message_of<RuntimeError>([&] { (void)floats(y); });
  expect_has(message,
             {"program '", "failing", "PJRT_LoadedExecutable_Execute", "accelerators_test.cc"});
  EXPECT_THROW(y.block_until_ready(), RuntimeError);
}

TEST_F(Faults, TheEnvironmentNamesPlugins) {
  unsetenv("PJRT_TEST_FAULT");
  setenv("TESSERA_PJRT_PLUGINS",
         ("broken=/no/such.so,given=" + plugin_file() + "?cpu_device_count=3").c_str(), 1);
  expect_has(message_of<RuntimeError>([] { (void)devices("broken"); }), {"/no/such.so"});
  EXPECT_EQ(devices("given").size(), 3u);
  expect_has(message_of<ValueError>([] { (void)devices("abacus"); }), {"'broken'", "'given'"});
  setenv("TESSERA_PJRT_PLUGINS", "nonsense", 1);
  expect_has(message_of<ValueError>([] { (void)devices("abacus"); }),
             {"TESSERA_PJRT_PLUGINS", "'nonsense'", "NAME=/path"});
  unsetenv("TESSERA_PJRT_PLUGINS");
}

}  // namespace
}  // namespace tessera::testing
