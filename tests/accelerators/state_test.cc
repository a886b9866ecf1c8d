// SPDX-License-Identifier: Apache-2.0
// The state of a training: saved on a plugin's devices, and loaded elsewhere.
#include <unistd.h>

#include <filesystem>
#include <map>

#include "tests/accelerators/plugin_testing.h"

namespace tessera::testing {
namespace {

struct Training {
  Array w, moment, key;
  int epoch = 0;
};

}  // namespace
}  // namespace tessera::testing

TESSERA_TREE(tessera::testing::Training, w, moment, key, epoch)

namespace tessera::testing {
namespace {

class State : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() /
               ("tessera_accelerators_state" + std::to_string(getpid())))
                  .string();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Training fresh(const Mesh& mesh) {
    return {device_put(counting({16, 8}, 0.1f), NamedSharding(mesh, P("x", "y"))),
            device_put(zeros({16, 8}), NamedSharding(mesh, P("y"), "pinned_host")),
            device_put(random::key(7), NamedSharding(mesh, P())), 0};
  }
  static Training step(const Training& before) {
    static const auto f = jit([](Training s) {
      const Array noise = random::normal(s.key, {16, 8}) * 0.01f;
      const Array m = device_put(s.moment, TransferToMemoryKind{"device"}) * 0.9f + s.w * 0.1f;
      return Training{s.w - m * 0.1f + noise, device_put(m, TransferToMemoryKind{"pinned_host"}),
                      index(random::split(s.key), {0}), s.epoch};
    });
    return f(before);
  }
  static void expect_same(const Training& a, const Training& b) {
    EXPECT_EQ(floats(a.w), floats(b.w));
    EXPECT_EQ(floats(a.moment), floats(b.moment));
    EXPECT_EQ(a.key.to_vector<std::uint32_t>(), b.key.to_vector<std::uint32_t>());
    EXPECT_EQ(a.epoch, b.epoch);
  }
  std::string folder_;
};

TEST_F(State, GoesOnWhereItWasSaved) {
  const Mesh mesh(plugin_devices(), {2, 4}, {"x", "y"});
  Training now = fresh(mesh);
  CheckpointSave saving;
  for (int k = 1; k <= 3; ++k) {
    now = step(now);
    now.epoch = k;
    saving = save_checkpoint_async(folder_, now, k, {.keep = 2});
  }
  saving.wait();
  EXPECT_EQ(all_steps(folder_), (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(verify_checkpoint(folder_).empty());
  const Training again = restore_checkpoint(folder_, fresh(mesh));
  expect_same(again, now);
  EXPECT_EQ(again.w.sharding(), fresh(mesh).w.sharding());
  EXPECT_EQ(again.moment.sharding().memory_kind(), "pinned_host");
  expect_same(step(again), step(now));
}

TEST_F(State, MovesToOtherMeshesAndPlatforms) {
  const Mesh mesh(plugin_devices(), {2, 4}, {"x", "y"});
  Training now = step(fresh(mesh));
  save_checkpoint(folder_, now, 1);
  const Mesh turned(plugin_devices(), {4, 2}, {"x", "y"});
  const Mesh few({plugin_devices()[6], plugin_devices()[1]}, {1, 2}, {"x", "y"});
  const Mesh here(devices("cpu"), {2, 4}, {"x", "y"});
  const Training there = step(now);
  for (const Mesh& other : {turned, few, here}) {
    const Training loaded = restore_checkpoint(folder_, fresh(other));
    expect_same(loaded, now);
    EXPECT_EQ(loaded.w.sharding().device_list().size(), other.devices().size());
    EXPECT_EQ(loaded.w.sharding().device_list()[0], other.devices()[0]);
    expect_close(step(loaded).w, there.w);
  }
  // Back from the host's devices.
  std::filesystem::remove_all(folder_);
  now = fresh(here);
  save_checkpoint(folder_, now, 1);
  expect_same(restore_checkpoint(folder_, fresh(mesh)), now);
}

TEST_F(State, Files) {
  const Mesh mesh(plugin_devices(), {8}, {"x"});
  const NamedSharding rows(mesh, P("x"));
  std::filesystem::create_directories(folder_);
  const Array x = device_put(counting({16, 4}), rows);
  save_npy(folder_ + "/x.npy", x);
  EXPECT_EQ(floats(load_npy(folder_ + "/x.npy", {.sharding = rows})), floats(x));
  const Array half = astype(x, bf16);
  using Named = std::map<std::string, Array>;
  const Named both{{"x", x}, {"half", half}};
  save_safetensors(folder_ + "/x.safetensors", both);
  const Named loaded = load_safetensors(folder_ + "/x.safetensors", both);
  EXPECT_EQ(floats(loaded.at("x")), floats(x));
  EXPECT_EQ(to_string(loaded.at("half")), to_string(half));
}

}  // namespace
}  // namespace tessera::testing
