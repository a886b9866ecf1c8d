// SPDX-License-Identifier: Apache-2.0
// Compiled functions that are stored: their types, places and bits, in this process and another.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <tessera/tessera.h>

#include "tests/frontend/checkpoint/folder_test.h"
#include "tests/support/with_variable.h"

namespace tessera {
namespace {

struct State {
  Array w, b;
  std::vector<Array> moments;
};
TESSERA_TREE(State, w, b, moments)

State initial(const Mesh& mesh) {
  const Array w = sin(reshape(arange(64 * 32, f32), {64, 32}));
  State s{device_put(w, NamedSharding(mesh, P("data", "model"))),
          device_put(zeros({32}), NamedSharding(mesh, P("model"))),
          {}};
  s.moments = {device_put(zeros({64, 32}), NamedSharding(mesh, P("data", "model"))),
               device_put(zeros({32}), NamedSharding(mesh, P("model")))};
  return s;
}

std::pair<State, Array> step(State s, Array x) {
  const auto loss = [&](Array w, Array b) { return mean(square(tanh(matmul(x, w) + b))); };
  const Array value = loss(s.w, s.b);
  const Array dw = grad(loss)(s.w, s.b);
  s.moments[0] = 0.9f * s.moments[0] + dw;
  s.moments[1] = 0.9f * s.moments[1] + 0.1f;
  s.w = s.w - 0.01f * s.moments[0];
  s.b = s.b - 0.01f * s.moments[1];
  return {s, value};
}

Array batch(const Mesh& mesh) {
  return device_put(cos(reshape(arange(16 * 64, f32), {16, 64})), NamedSharding(mesh, P("data")));
}

using Step = std::pair<State, Array>(State, Array);

std::vector<float> all_of(const std::pair<State, Array>& r) {
  std::vector<float> out;
  for (const Array& a : tree_leaves(r)) {
    const std::vector<float> values = a.to_vector<float>();
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

class StoredProgram : public testing::FolderTest {};

std::pair<State, Array> like() { return {State{{}, {}, {Array(), Array()}}, Array()}; }

TEST_F(StoredProgram, AFunctionOnAMesh) {
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
  const auto compiled = jit(step).lower(initial(mesh), batch(mesh)).compile();
  const auto here = compiled(initial(mesh), batch(mesh));
  const std::string bytes = compiled.serialize();
  const auto loaded = deserialize<Step>(bytes, like());
  const auto there = loaded(initial(mesh), batch(mesh));
  EXPECT_EQ(all_of(here), all_of(there));
  for (std::size_t i = 0; i < tree_leaves(here).size(); ++i) {
    EXPECT_EQ(tree_leaves(here)[i].sharding(), tree_leaves(there)[i].sharding()) << i;
  }
  EXPECT_EQ(loaded.in_tree(), compiled.in_tree());
  EXPECT_EQ(loaded.input_shardings(), compiled.input_shardings());
  EXPECT_EQ(loaded.collectives().size(), compiled.collectives().size());
  EXPECT_EQ(loaded.args_info()[0].path, compiled.args_info()[0].path);
  // Misuse is told as of what was compiled here.
  EXPECT_THROW((void)loaded(initial(mesh), ones({16, 63})), TypeError);
  EXPECT_THROW((void)deserialize<Step>(bytes), TypeError);
  EXPECT_THROW((void)deserialize<Array(Array)>(bytes), TypeError);
  // And on other devices.
  std::vector<Device> reversed = devices();
  reversed.resize(8);
  std::reverse(reversed.begin(), reversed.end());
  const Compiled elsewhere = deserialize(bytes, reversed);
  const Mesh other(reversed, {2, 4}, {"data", "model"});
  std::vector<Array> arguments = tree_leaves(initial(other));
  arguments.push_back(batch(other));
  EXPECT_EQ(elsewhere.call_flat(arguments)[0].to_vector<float>(),
            tree_leaves(here)[0].to_vector<float>());
  EXPECT_THROW((void)deserialize(bytes, {reversed[0]}), ValueError);
}

TEST_F(StoredProgram, CapturesAndDonations) {
  const Array captured = arange(1000, f32);
  const auto compiled =
      jit([&](Array x) { return exp(x / 1000) + captured; }, {.donate_argnums = {0}})
          .lower(shape_dtype_struct({1000}, f32))
          .compile();
  compiled.save(path("captures.tsx"));
  const auto loaded = load_compiled<Array(Array)>(path("captures.tsx"));
  Array x = arange(1000, f32), y = arange(1000, f32);
  EXPECT_EQ(compiled(x).to_vector<float>(), loaded(y).to_vector<float>());
  EXPECT_TRUE(x.is_deleted());
  EXPECT_TRUE(y.is_deleted());
}

TEST_F(StoredProgram, WhatCantBeStored) {
  const auto f = jit([](Array x) {
    return pure_callback([](Array a) { return a + 1; }, shape_dtype_struct({4}, f32), x);
  });
  EXPECT_THROW((void)f.lower(ones({4})).compile().serialize(), NotImplementedError);
  EXPECT_THROW((void)jit([](Array x) { return x * 2; })
                   .lower(ones({4}))
                   .compile()
                   .serialize({.cpu = "i386"}),
               ValueError);
  EXPECT_THROW((void)deserialize("something else"), IoError);
  EXPECT_THROW((void)load_compiled(path("none.tsx")), IoError);
}

TEST_F(StoredProgram, BitFlipsAreRefused) {
  const std::string bytes =
      jit([](Array x) { return tanh(x) * 2; }).lower(ones({64})).compile().serialize();
  for (std::size_t n = 0; n < 2000; ++n) {
    std::string damaged = bytes;
    damaged[n * 7919 % bytes.size()] ^= char(1 << n % 8);
    EXPECT_THROW((void)deserialize(damaged), IoError) << n;
  }
}

/// What another process finds when it runs the stored step.
void run_in_another_process() {
  const char* folder = std::getenv("STORED_PROGRAM_FOLDER");
  const auto start = std::chrono::steady_clock::now();
  const auto loaded = load_compiled<Step>(std::string(folder) + "/step.tsx", like());
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
  std::ofstream out(std::string(folder) + "/result", std::ios::binary);
  // Arguments from the file, so that nothing is compiled for them.
  std::vector<float> numbers(1);
  std::ifstream in(std::string(folder) + "/arguments", std::ios::binary);
  std::vector<Array> leaves;
  for (const Array& aval : loaded.in_avals()) {
    std::vector<float> values(std::size_t(aval.size()));
    in.read(reinterpret_cast<char*>(values.data()), std::streamsize(4 * values.size()));
    leaves.push_back(
        device_put(array(values, aval.shape()), loaded.input_shardings()[leaves.size()]));
  }
  const auto placed = std::chrono::steady_clock::now();
  std::vector<float> results;
  for (const Array& a : loaded.call_flat(leaves)) {
    const std::vector<float> values = a.to_vector<float>();
    results.insert(results.end(), values.begin(), values.end());
  }
  const std::chrono::duration<double, std::milli> ran = std::chrono::steady_clock::now() - placed;
  const std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "load and first run: %.2f ms, of it the run %.2f ms\n", all.count(),
               ran.count());
  out.write(reinterpret_cast<const char*>(results.data()), std::streamsize(4 * results.size()));
  std::ifstream maps("/proc/self/maps");
  std::string line;
  bool compiler = false;
  while (std::getline(maps, line)) {
    compiler = compiler || line.find("libtessera-llvm") != std::string::npos ||
               line.find("libLLVM") != std::string::npos;
  }
  out << (compiler ? "LLVM" : "none");
}

TEST_F(StoredProgram, RunsInAnotherProcessWithoutACompiler) {
  if (std::getenv("STORED_PROGRAM_FOLDER") != nullptr) {
    run_in_another_process();
    return;
  }
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
  const auto compiled = jit(step).lower(initial(mesh), batch(mesh)).compile();
  compiled.save(path("step.tsx"));
  {
    std::ofstream out(path("arguments"), std::ios::binary);
    std::vector<Array> leaves = tree_leaves(initial(mesh));
    leaves.push_back(batch(mesh));
    for (const Array& a : leaves) {
      const std::vector<float> values = a.to_vector<float>();
      out.write(reinterpret_cast<const char*>(values.data()), std::streamsize(4 * values.size()));
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    ::setenv("STORED_PROGRAM_FOLDER", path("").c_str(), 1);
    // Nothing on disk helps.
    ::setenv("TESSERA_CACHE_DIR", "off", 1);
    const char* filter = "--gtest_filter=StoredProgram.RunsInAnotherProcessWithoutACompiler";
    ::execl("/proc/self/exe", "stored_program", filter, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::ifstream in(path("result"), std::ios::binary);
  const std::string result{std::istreambuf_iterator<char>(in), {}};
  const std::vector<float> expected = all_of(compiled(initial(mesh), batch(mesh)));
  ASSERT_EQ(result.size(), 4 * expected.size() + 4);
  EXPECT_EQ(std::memcmp(result.data(), expected.data(), 4 * expected.size()), 0);
  EXPECT_EQ(result.substr(4 * expected.size()), "none");
}

}  // namespace
}  // namespace tessera
