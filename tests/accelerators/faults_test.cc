// SPDX-License-Identifier: Apache-2.0
// Each function of a plugin that fails, or isn't there: an error names it, and nothing is left.
#include <dlfcn.h>

#include <iostream>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

long alive(int what) {
  static void* const plugin = dlopen(TESSERA_FAILING_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  static auto* const count = reinterpret_cast<long (*)(int)>(dlsym(plugin, "failing_plugin_alive"));
  return count(what);
}

enum class Use { run, move, copy, host, analysis, stats };

/// What calls the function, on two devices of a plugin of which it may fail.
void use(Use how, const std::vector<Device>& all) {
  const auto f = jit([](Array a) { return a * 3.0f; });
  if (how == Use::analysis) {
    (void)f.lower(device_put(counting({4, 2}), all[0])).compile().memory_analysis();
    return;
  }
  if (how == Use::stats) return (void)memory_stats(all[0]);
  Array y = f(device_put(counting({4, 2}), all[0]));
  if (how == Use::move) y = device_put(y, all[1]);
  if (how == Use::copy) y = copy(y);
  if (how == Use::host) {
    y = device_put(y, SingleDeviceSharding(all[0], "pinned_host"));
  }
  y.block_until_ready();
  EXPECT_TRUE(y.is_ready());
  EXPECT_EQ(floats(y)[5], 15);
}

struct Row {
  const char* function;
  Use how;
};
constexpr Row kNeeded[] = {
    {"PJRT_Client_BufferFromHostBuffer", Use::run},
    {"PJRT_Client_Compile", Use::run},
    {"PJRT_LoadedExecutable_Execute", Use::run},
    {"PJRT_Buffer_ReadyEvent", Use::run},
    {"PJRT_Event_OnReady", Use::run},
    {"PJRT_Event_Await", Use::run},
    {"PJRT_Buffer_ToHostBuffer", Use::run},
    {"PJRT_Buffer_Dimensions", Use::run},
    {"PJRT_Buffer_CopyToMemory", Use::host},
    {"PJRT_Buffer_Memory", Use::copy},
    {"PJRT_Buffer_ElementType", Use::copy},
    {"PJRT_LoadedExecutable_GetExecutable", Use::analysis},
};

class FunctionsThatFail : public FaultyPlugins {
 protected:
  /// The message of the Error by which the use ends; nothing else may be thrown.
  static std::string failure(const std::string& fault, Use how) {
    clear_caches();
    const long before[] = {alive(0), alive(1), alive(2), alive(3)};
    const std::vector<Device>& all = load(fault);
    std::string message;
    for (int k = 0; k < 3; ++k) message = message_of<Error>([&] { use(how, all); });
    clear_caches();
    const char* const what[] = {"buffers", "events", "programs", "errors"};
    for (int k = 0; k < 4; ++k) EXPECT_EQ(alive(k), before[k]) << what[k] << " are left";
    return message;
  }
};

TEST_F(FunctionsThatFail, AreNamedAndLeaveNothing) {
  for (const Row& row : kNeeded) {
    SCOPED_TRACE(row.function);
    const std::string message = failure(row.function, row.how);
    expect_has(message, {"platform 'failing", "PJRT_", "INTERNAL", "on purpose", row.function});
  }
  for (const auto& [function, how] : {Row{"PJRT_Executable_GetCompiledMemoryStats", Use::analysis},
                                      Row{"PJRT_Device_MemoryStats", Use::stats}}) {
    SCOPED_TRACE(function);
    expect_has(failure(function, how), {"platform 'failing", function, "on purpose"});
  }
}

TEST_F(FunctionsThatFail, OrAreNotThere) {
  for (const Row& row : kNeeded) {
    // Where there is no copy to memories there is one to devices.
    if (std::string(row.function) == "PJRT_Buffer_Memory") continue;
    SCOPED_TRACE(row.function);
    const std::string message = failure(std::string("no ") + row.function, row.how);
    expect_has(message, {"platform 'failing", row.function, "no such function"});
  }
}

// What is called when something is let go of has nobody to tell.
TEST_F(FunctionsThatFail, QuietlyWhereNothingElseDepends) {
  for (const char* function : {"PJRT_Buffer_Destroy", "PJRT_Event_Destroy",
                               "PJRT_LoadedExecutable_Destroy", "PJRT_Executable_Destroy"}) {
    SCOPED_TRACE(function);
    const long errors = alive(3);
    const std::vector<Device>& all = load(function);
    for (const Use how : {Use::run, Use::move, Use::copy, Use::analysis}) {
      EXPECT_NO_THROW(use(how, all));
    }
    clear_caches();
    EXPECT_EQ(alive(3), errors) << "errors are left";
  }
}

TEST_F(FunctionsThatFail, OrCanBeDoneWithout) {
  for (const char* function : {"PJRT_Plugin_Attributes", "PJRT_Device_AddressableMemories",
                               "PJRT_Device_DefaultMemory", "PJRT_Buffer_CopyToMemory"}) {
    SCOPED_TRACE(function);
    const std::vector<Device>& all = load(std::string("no ") + function);
    for (const Use how : {Use::run, Use::move, Use::copy}) EXPECT_NO_THROW(use(how, all));
  }
  for (const auto& [function, how] : {Row{"PJRT_Executable_GetCompiledMemoryStats", Use::analysis},
                                      Row{"PJRT_Device_MemoryStats", Use::stats}}) {
    SCOPED_TRACE(function);
    const std::vector<Device>& all = load(std::string("no ") + function);
    EXPECT_THROW(use(how, all), NotImplementedError);
  }
}

// XLA's plugins refuse arguments that are smaller than those of their own version.
TEST_F(FunctionsThatFail, NotForNewerVersionsWithLongerArguments) {
  for (const Use how : {Use::run, Use::move, Use::copy, Use::host, Use::analysis}) {
    EXPECT_EQ(failure("newer", how), "no error") << int(how);
  }
}

using EndsDeathTest = FaultyPlugins;

// A plugin's own static objects are gone before functions run that were registered earlier.
TEST_F(EndsDeathTest, AtTheEndOfTheProcessAPluginIsNotCalled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::atexit([] {
          const std::string message = message_of<RuntimeError>([] {
            const auto f = jit([](Array a) { return a - 2.0f; });
            (void)floats(f(device_put(counting({4}), devices("failing0")[0])));
          });
          std::cerr << message << std::endl;
        });
        static Array kept;
        kept = device_put(counting({4}), load("foreign")[0]) * 2.0f;
        std::cerr << floats(kept)[3] << std::endl;
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "the process is at its end");
}

}  // namespace
}  // namespace tessera::testing
