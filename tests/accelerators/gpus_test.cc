// SPDX-License-Identifier: Apache-2.0
// What plugins for GPUs get that JAX gives them: libraries of the packages beside them, options,
// and programs of several devices in one order.
#include <dlfcn.h>
#include <tessera/load.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

class Gpus : public FaultyPlugins {
 protected:
  using Values = std::map<std::string, PluginOption>;
  void TearDown() override {
    for (const char* name : kVariables) unsetenv(name);
    FaultyPlugins::TearDown();
  }
  static const std::vector<Device>& load_with(Values values, const std::string& fault = "gpu",
                                              const std::string& file = TESSERA_FAILING_PLUGIN) {
    static int count = 0;
    setenv("PJRT_TEST_FAULT", fault.c_str(), 1);
    return load_pjrt_plugin(
        file, {.platform = "gpus" + std::to_string(count++), .values = std::move(values)});
  }
  /// What the plugin's client was given then.
  static std::string options_of(Values values) {
    (void)load_with(std::move(values));
    return function<const char*()>("failing_plugin_options")();
  }
  template <class F>
  static F* function(const char* name) {
    static void* const plugin = dlopen(TESSERA_FAILING_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<F*>(dlsym(plugin, name));
  }
  static constexpr const char* kVariables[] = {
      "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_CLIENT_MEM_FRACTION",
      "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB"};
};

TEST_F(Gpus, TakeMemoryAsTheVariablesOfJaxSay) {
  EXPECT_EQ(options_of({}), "");
  setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "BFC", 1);
  setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false", 1);
  setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".25", 1);
  setenv("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "3", 1);
  EXPECT_EQ(options_of({}),
            "allocator=bfc collective_memory_size=i3145728 memory_fraction=f0.250000 "
            "preallocate=b0 ");
  setenv("XLA_CLIENT_MEM_FRACTION", "0.5", 1);
  setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true", 1);
  expect_has(options_of({}), {"memory_fraction=f0.500000 ", "preallocate=b1 "});
  // Options say more than variables, and integers stand for what XLA takes.
  EXPECT_EQ(options_of({{"allocator", "platform"},
                        {"memory_fraction", std::int64_t(1)},
                        {"preallocate", false},
                        {"collective_memory_size", std::int64_t(0)},
                        {"visible_devices", std::int64_t(2)}}),
            "allocator=platform collective_memory_size=i0 memory_fraction=f1.000000 "
            "preallocate=b0 visible_devices=,2 ");
  setenv("XLA_CLIENT_MEM_FRACTION", "half", 1);
  expect_has(message_of<RuntimeError>([] { (void)load_with({}); }),
             {"XLA_CLIENT_MEM_FRACTION is 'half'", "valid: a number"});
}

TEST_F(Gpus, OtherPluginsGetNothingOfThis) {
  setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false", 1);
  // One that isn't for GPUs refuses what it doesn't know.
  EXPECT_EQ(load_with({}, "").empty(), false);
}

TEST_F(Gpus, LibrariesOfPackagesAreLoadedBefore) {
  const fs::path site =
      fs::temp_directory_path() / ("tessera_site_packages" + std::to_string(getpid()));
  fs::remove_all(site);
  const auto copy_to = [&](const char* name) {
    fs::create_directories((site / name).parent_path());
    fs::copy_file(TESSERA_FAILING_PLUGIN, site / name);
    return (site / name).string();
  };
  const std::string plugin = copy_to("jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  const std::string runtime = copy_to("nvidia/cu13/lib/libcudart.so.13");
  const std::string nccl = copy_to("nvidia/nccl/lib/libnccl.so.2");
  const std::string older = copy_to("nvidia/cu12/lib/libcublas.so.12");
  const std::string of_parts = copy_to("nvidia/cuda_runtime/lib/libcudart.so.12");
  const std::string without_version = copy_to("nvidia/cu13/lib/libcufft.so");
  fs::create_directories(site / "nvidia/cudnn/lib");
  std::ofstream(site / "nvidia/cudnn/lib/libcudnn.so.9") << "no library";
  ASSERT_EQ(load_with({}, "gpu", plugin).empty(), false);
  const auto is_loaded = [](const std::string& file) {
    return dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr;
  };
  EXPECT_TRUE(is_loaded(runtime));
  EXPECT_TRUE(is_loaded(nccl));
  EXPECT_FALSE(is_loaded(older));
  EXPECT_FALSE(is_loaded(of_parts));
  EXPECT_FALSE(is_loaded(without_version));
  fs::remove_all(site);
}

TEST_F(Gpus, ProgramsOfSeveralDevicesStartInOneOrder) {
  if (plugin_file() != TESSERA_PJRT_LIBRARY) GTEST_SKIP() << "virtual CPUs of XLA share threads";
  const std::vector<Device>& all = load_with({{"cpu_device_count", std::int64_t(4)}});
  const NamedSharding rows(Mesh(all, {std::int64_t(all.size())}, {"x"}), P("x"));
  const auto total = jit([](Array a) { return sum(a); });
  const Array x = device_put(ones({std::int64_t(all.size()), 3}), rows);
  (void)total(x);
  std::vector<std::thread> threads;
  std::vector<float> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 10; ++k) sums[t] = total(x).item<float>();
    });
  }
  for (std::thread& t : threads) t.join();
  for (const float s : sums) EXPECT_EQ(s, 3 * float(all.size()));
  EXPECT_EQ(function<long(int)>("failing_plugin_alive")(4), 1);
}

TEST_F(Gpus, NobodyFeedsAProgram) {
  const std::string file =
      (fs::temp_directory_path() / ("tessera_infeed" + std::to_string(getpid()) + ".mlir"))
          .string();
  std::ofstream(file) << R"(func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %token = stablehlo.create_token : !stablehlo.token
  %got:2 = "stablehlo.infeed"(%token) {infeed_config = ""} : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
  %sum = stablehlo.add %a, %got#0 : tensor<3xf32>
  return %sum : tensor<3xf32>
})";
  const Array x = device_put(ones({3}), plugin_devices()[0]);
  expect_has(message_of<NotImplementedError>([&] { (void)load_stablehlo(file)({x}); }),
             {"infeed", "platform 'xpu'", "nobody would feed"});
  fs::remove(file);
}

}  // namespace
}  // namespace tessera::testing
