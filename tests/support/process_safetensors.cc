// SPDX-License-Identifier: Apache-2.0
// Files of arrays that several processes have: safetensors and .npy.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/files/file_io.h"
#include "tests/support/process_cases.h"
#include "tests/support/refused.h"
#include "tests/support/shared_folder.h"

namespace tessera::testing {
namespace {

using Tree = std::map<std::string, Array>;

Array counted(const std::vector<std::int64_t>& shape) {
  const auto n = std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<>());
  return reshape(arange(n).astype(f32), shape);
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace

void safetensors_of_all_processes() {
  const SharedFolder folder("safetensors");
  if (process_index() == 0) make_folders(folder.path());
  const std::string file = folder.path() + "/all.safetensors";
  const auto d = device_count(), per = std::int64_t(local_devices().size());
  const Mesh line(devices(), {d}, {"x"}), grid(devices(), {2, d / 2}, {"x", "y"});
  const std::vector<Device> last(devices().end() - per, devices().end());
  const NamedSharding there(Mesh(last, {per}, {"x"}), P("x"));
  // The first one is written in several runs, each with parts of all devices.
  const Tree whole{{"columns", counted({1024, 512 * d})},
                   {"blocks", counted({4 * d, d, 3}).astype(bf16)},
                   {"copies", counted({5})},
                   {"here", counted({3})},
                   {"number", Array(2.5f)},
                   {"there", counted({2 * per})},
                   {"tied", counted({2 * d})},
                   {"tied too", counted({2 * d})}};
  Tree tree = whole;
  const auto put = [&](const char* name, const Sharding& sharding) {
    tree[name] = device_put(whole.at(name), sharding);
  };
  put("columns", NamedSharding(line, P(nullptr, "x")));
  put("blocks", NamedSharding(grid, P("y", "x")));
  put("copies", NamedSharding(line, P()));
  put("tied", NamedSharding(line, P("x")));
  tree["tied too"] = tree["tied"];
  tree["there"] = make_array_from_callback(
      {2 * per}, there,
      [](const Index& part) { return counted({2}) + float(part[0].start.value_or(0)); }, f32);
  const SaveSafetensorsOptions options{.metadata = {{"step", "7"}}};
  save_safetensors(file, tree, options);
  if (process_index() == 0) {
    // The same bytes as of values that one process has.
    const std::string alone = folder.path() + "/alone.safetensors";
    save_safetensors(alone, whole, options);
    EXPECT_TRUE(contents(file) == contents(alone));
  }
  sync_processes("written");
  const Tree back = load_safetensors(file, tree);
  for (const auto& [name, x] : tree) {
    if (!x.committed()) continue;
    EXPECT_EQ(back.at(name).sharding(), x.sharding());
    const auto want = x.addressable_shards(), have = back.at(name).addressable_shards();
    ASSERT_EQ(want.size(), have.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(have[i].data.astype(f32).to_vector<float>(),
                want[i].data.astype(f32).to_vector<float>());
    }
  }
}

void npy_files_of_all_processes() {
  const SharedFolder folder("npy");
  if (process_index() == 0) make_folders(folder.path());
  const auto d = device_count(), per = std::int64_t(local_devices().size());
  const Mesh line(devices(), {d}, {"x"}), grid(devices(), {2, d / 2}, {"x", "y"});
  const auto file = [&](const std::string& name) { return folder.path() + "/" + name + ".npy"; };
  // The first one in several runs; of all but `copies` no process has all elements.
  const std::vector<std::tuple<std::string, Array, Sharding>> arrays{
      {"columns", counted({1024, 512 * d}), NamedSharding(line, P(nullptr, "x"))},
      {"blocks", counted({4 * d, d, 3}).astype(bf16), NamedSharding(grid, P("y", "x"))},
      {"none", zeros({d, 0}), NamedSharding(line, P("x"))},
      {"copies", counted({5}), NamedSharding(line, P())}};
  for (const auto& [name, whole, sharding] : arrays) {
    const Array x = device_put(whole, sharding);
    save_npy(file(name), x);
    sync_processes("written");
    if (process_index() == 0) {
      save_npy(file("alone"), whole);
      EXPECT_TRUE(contents(file(name)) == contents(file("alone"))) << name;
    }
    const Array back = load_npy(file(name), {.sharding = sharding});
    for (std::size_t i = 0; i < x.addressable_shards().size(); ++i) {
      EXPECT_EQ(back.addressable_data(i).astype(f32).to_vector<float>(),
                x.addressable_data(i).astype(f32).to_vector<float>())
          << name;
    }
  }
  // What each has a copy of can be written by one of them.
  const Array copies = device_put(counted({5}), NamedSharding(line, P()));
  if (process_index() == 1) save_npy(file("one"), copies);
  sync_processes("one");
  EXPECT_TRUE(contents(file("one")) == contents(file("copies")));

  const Array x = device_put(counted({2 * d}), NamedSharding(line, P("x")));
  const std::string mine = file("of" + std::to_string(process_index()));
  refused<ValueError>([&] { save_npy(mine, x); }, {"must save the same", "of0.npy", "of1.npy"});
  refused<IoError>([&] { save_npy(folder.path() + "/no/x.npy", x); },
                   {"No such file or directory"});
  Array gone = device_put(x, x.sharding());
  gone.delete_();
  refused<RuntimeError>([&] { save_npy(file("gone"), gone); }, {"deleted"});
  EXPECT_FALSE(path_exists(file("gone")));
  // Of the last process alone: it writes, and nobody else can.
  const std::vector<Device> last(devices().end() - per, devices().end());
  const Array its = make_array_from_callback(
      {per}, NamedSharding(Mesh(last, {per}, {"x"}), P("x")),
      [](const Index&) { return ones({1}); }, f32);
  if (process_index() == process_count() - 1) {
    save_npy(file("its"), its);
  } else {
    refused<Error>([&] { save_npy(file("its"), its); }, {"process"});
  }
}

void safetensors_that_are_refused() {
  const SharedFolder folder("no_safetensors");
  if (process_index() == 0) make_folders(folder.path());
  const std::string file = folder.path() + "/w.safetensors";
  const auto d = device_count(), per = std::int64_t(local_devices().size());
  const Mesh line(devices(), {d}, {"x"});
  const Array x = device_put(counted({2 * d}), NamedSharding(line, P("x")));
  const float me = float(process_index());
  save_safetensors(file, x);
  refused<ValueError>(
      [&] {
        save_safetensors(file, Tree{{"x", x}, {"rank", Array(me)}});
      },
      {"['rank'] (f32[]) is a value of each process", "process 1 differ"});
  refused<ValueError>([&] { save_safetensors(file + std::to_string(int(me)), x); },
                      {"must save the same", "w.safetensors0", "w.safetensors1"});
  refused<RuntimeError>(
      [&] {
        if (process_index() == 1) {
          save_checkpoint(folder.path() + "/run", x, 1);
        } else {
          save_safetensors(file, x);
        }
      },
      {process_index() == 0 ? "process 1 calls save_checkpoint" : "calls save_checkpoint"});

  // The first process can't write, and all learn why.
  class Full : public FileFaults {
    int before(std::string_view call, const std::string& path, std::size_t*) override {
      return call == "write" && path.find("w.safetensors") != std::string::npos ? ENOSPC : 0;
    }
  };
  static Full full;
  sync_processes("before the disk is full");
  set_file_faults(&full);
  sync_processes("the disk is full");
  refused<IoError>([&] { save_safetensors(file, x); }, {"No space left on device"});
  sync_processes("the disk was full");
  set_file_faults(nullptr);
  sync_processes("after the disk was full");
  const auto kept = load_safetensors(file, x).addressable_shards();
  for (const Shard& s : kept) {
    EXPECT_EQ(s.data.to_vector<float>()[1], float(s.index[0].start.value_or(0) + 1));
  }

  // Of one process alone: it writes without the others.
  const std::vector<Device> last(devices().end() - per, devices().end());
  const NamedSharding there(Mesh(last, {per}, {"x"}), P("x"));
  const Array its = make_array_from_callback(
      {per}, there, [](const Index&) { return ones({1}); }, f32);
  if (process_index() == process_count() - 1) {
    save_safetensors(folder.path() + "/its.safetensors", its);
  } else {
    refused<ValueError>([&] { save_safetensors(folder.path() + "/its.safetensors", its); },
                        {"is on devices of process " + std::to_string(process_count() - 1)});
  }
}

}  // namespace tessera::testing
