// SPDX-License-Identifier: Apache-2.0
// Checkpoints that several processes save and restore together.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <string>

#include "src/base/files/file_io.h"
#include "tests/support/process_cases.h"
#include "tests/support/refused.h"
#include "tests/support/shared_folder.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Tree = std::map<std::string, Array>;

Mesh line() { return Mesh(devices(), {device_count()}, {"x"}); }
Mesh grid() { return Mesh(devices(), {2, device_count() / 2}, {"x", "y"}); }

Array numbers(const std::vector<std::int64_t>& shape, float first) {
  const auto n = std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<>());
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), first);
  return array(values, shape);
}

Tree some_tree(float first) {
  const auto d = device_count();
  const NamedSharding rows(line(), P("x"));
  // Of the devices of the last process alone.
  const auto per = std::int64_t(local_devices().size());
  const std::vector<Device> last(devices().end() - per, devices().end());
  const NamedSharding there(Mesh(last, {per}, {"x"}), P("x"));
  const Array tied = device_put(numbers({2 * d}, first), rows);
  return {
      {"blocks", device_put(numbers({4 * d, d, 3}, first), NamedSharding(grid(), P("x", "y")))},
      {"columns", device_put(numbers({6, 2 * d}, first), NamedSharding(grid(), P(nullptr, "y")))},
      {"copies", device_put(numbers({5}, first), NamedSharding(line(), P()))},
      {"here", numbers({3}, first)},
      {"number", Array(first)},
      {"tied", tied},
      {"tied too", tied},
      {"there", make_array_from_callback(
                    {2 * per}, there,
                    [first](const Index& part) {
                      return numbers({2}, first + float(part[0].start.value_or(0)));
                    },
                    DType::f32)},
  };
}

/// Each process compares what its devices hold.
void expect_tree(const Tree& have, float first) {
  for (const auto& [name, want] : some_tree(first)) {
    SCOPED_TRACE(name);
    const Array& x = have.at(name);
    ASSERT_EQ(x.shape(), want.shape());
    for (const Shard& s : x.addressable_shards()) {
      std::vector<Index> all{s.index};
      const auto values = s.data.to_vector<float>();
      // Each element is its position in the whole, counted from `first`.
      const auto whole = x.shape();
      const auto part = s.data.shape();
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto rest = std::int64_t(i);
        std::int64_t at = 0, stride = 1;
        for (std::size_t k = whole.size(); k-- > 0;) {
          const std::int64_t begin = s.index[k].start.value_or(0);
          at += (begin + rest % part[k]) * stride;
          rest /= part[k];
          stride *= whole[k];
        }
        ASSERT_EQ(values[i], first + float(at)) << i;
      }
    }
  }
}

std::vector<std::string> files_in(const std::string& folder) {
  return folder_names(folder).value_or(std::vector<std::string>());
}

}  // namespace

void checkpoints_of_all_processes() {
  const SharedFolder folder("checkpoints");
  const std::string& run = folder.path();
  EXPECT_EQ(latest_step(run), std::nullopt);
  save_checkpoint(run, some_tree(7), 1);
  EXPECT_EQ(latest_step(run), std::optional<std::int64_t>(1));
  EXPECT_TRUE(verify_checkpoint(run).empty());
  // Each distinct part once, by its first holder.
  const auto d = device_count(), per = std::int64_t(local_devices().size());
  std::uint64_t bytes = 0;
  for (const std::string& name : files_in(run + "/step_00000001")) {
    if (name == "manifest.json") continue;
    std::ifstream in(run + "/step_00000001/" + name, std::ios::binary);
    std::uint64_t header = 0;
    in.read(reinterpret_cast<char*>(&header), 8);
    bytes += fs::file_size(run + "/step_00000001/" + name) - header - 8;
  }
  EXPECT_EQ(bytes, std::uint64_t(4 * (12 * d * d + 12 * d + 5 + 3 + 1 + 2 * d + 2 * per)));
  const auto last = std::to_string(process_count() - 1);
  EXPECT_TRUE(fs::exists(run + "/step_00000001/arrays-0-0.safetensors"));
  EXPECT_TRUE(fs::exists(run + "/step_00000001/arrays-" + last + "-0.safetensors"));

  const Tree again = restore_checkpoint(run, some_tree(0));
  expect_tree(again, 7);
  EXPECT_EQ(again.at("tied").impl(), again.at("tied too").impl());
  EXPECT_EQ(again.at("blocks").sharding(), some_tree(0).at("blocks").sharding());

  // On other meshes, and by each process on its own devices.
  std::vector<Device> reversed = devices();
  std::reverse(reversed.begin(), reversed.end());
  const NamedSharding back(Mesh(reversed, {d}, {"x"}), P(nullptr, "x"));
  const NamedSharding own(Mesh(local_devices(), {per}, {"x"}), P());
  Tree like{{"blocks", shape_dtype_struct({4 * d, d, 3}, f32)}};
  save_checkpoint(run, Tree{{"blocks", some_tree(3).at("blocks")}}, 2);
  for (const Sharding& to : {Sharding(back), Sharding(own)}) {
    const Tree moved = restore_checkpoint(run, like, {.sharding = to});
    EXPECT_EQ(moved.at("blocks").sharding(), to);
    Tree all = some_tree(3);
    all["blocks"] = moved.at("blocks");
    expect_tree(all, 3);
  }
  expect_tree(restore_checkpoint(run, some_tree(0), {.step = 1}), 7);
  EXPECT_EQ(restore_checkpoint_arrays(run, {.step = 1}).at("['here']").to_vector<float>()[1], 8);
}

void checkpoints_while_programs_run() {
  const SharedFolder folder("asynchronous");
  const auto d = device_count();
  const NamedSharding rows(line(), P("x"));
  const auto step = jit([](Array x) { return x + sum(x) * 0 + 1; }, {.donate_argnums = {0}});
  Array x = device_put(zeros({d * 1024}), rows);
  CheckpointSave saving;
  for (int i = 1; i <= 8; ++i) {
    x = step(x);
    saving = save_checkpoint_async(folder.path(), x, i, {.keep = 2});
    // Some wait for the save, and others for those, in a program.
    if (process_index() % 2 == i % 2) saving.wait();
    for (int k = 0; k < 20; ++k) {
      EXPECT_EQ(jit([](Array v) { return max(v); })(x).item<float>(), float(i));
    }
  }
  saving.wait();
  EXPECT_EQ(saving.progress().bytes_done, saving.progress().bytes_total);
  EXPECT_EQ(all_steps(folder.path()), (std::vector<std::int64_t>{7, 8}));
  const Array back = restore_checkpoint(folder.path(), x);
  for (const Shard& s : back.addressable_shards()) EXPECT_EQ(s.data.to_vector<float>()[1], 8);
}

void checkpoints_that_fail() {
  const SharedFolder folder("failing");
  const std::string& run = folder.path();
  save_checkpoint(run, some_tree(1), 1);
  const Tree next = some_tree(2);
  const float me = float(process_index());
  refused<ValueError>([&] { save_checkpoint(run, next, 1); }, {"there is a checkpoint of step 1"});
  refused<ValueError>([&] { save_checkpoint(run, next, 2 + process_index()); },
                      {"must save the same", "process 0 has step 2, and process 1 has step 3"});
  refused<ValueError>(
      [&] {
        save_checkpoint(run, Tree{{"rank", Array(me)}}, 2);
      },
      {"['rank'] (f32[]) is a value of each process", "process 1 differ"});
  refused<ValueError>(
      [&] {
        save_checkpoint(run, Tree{{"own", device_put(ones({2}), local_devices()[0])}}, 2);
      },
      {"must save the same", "on devices 0, and process 1 has"});
  refused<ValueError>([&] { (void)restore_checkpoint(run, next, {.step = 1 + int(me)}); },
                      {"must restore the same step", "step 1", "step 2"});
  refused<IoError>([&] { (void)restore_checkpoint(run, next, {.step = 5}); },
                   {"no checkpoint of step 5", "there are steps 1"});
  refused<RuntimeError>(
      [&] {
        if (process_index() == 1) {
          (void)latest_step(run);
        } else {
          save_checkpoint(run, next, 2);
        }
      },
      {"process 1 calls"});

  // One process can't write; all fail with its reason, and what was there is there.
  class Full : public FileFaults {
    int before(std::string_view call, const std::string& path, std::size_t*) override {
      return call == "write" && path.find("arrays-1-") != std::string::npos ? ENOSPC : 0;
    }
  };
  static Full full;
  sync_processes("before the disk is full");
  set_file_faults(&full);
  sync_processes("the disk is full");
  refused<IoError>([&] { save_checkpoint(run, next, 2); },
                   {"No space left on device", "arrays-1-0.safetensors"});
  auto saving = save_checkpoint_async(run, next, 2);
  refused<IoError>([&] { saving.wait(); }, {"No space left on device"});
  sync_processes("the disk was full");
  set_file_faults(nullptr);
  sync_processes("after the disk was full");
  EXPECT_EQ(all_steps(run), std::vector<std::int64_t>{1});
  save_checkpoint(run, some_tree(3), 3);
  sync_processes("saved");
  EXPECT_EQ(files_in(run), (std::vector<std::string>{"step_00000001", "step_00000003"}));

  // A part that one process reads is damaged.
  if (process_index() == 0) {
    const std::string file = run + "/step_00000003/arrays-1-0.safetensors";
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(-2, std::ios::end);
    f.put('\x55');
  }
  sync_processes("damaged");
  refused<IoError>([&] { (void)restore_checkpoint(run, next); },
                   {"arrays-1-0.safetensors is damaged", "steps 1"});
  expect_tree(restore_checkpoint(run, some_tree(0), {.step = 1}), 1);
}

}  // namespace tessera::testing
