// SPDX-License-Identifier: Apache-2.0
// tessera compile, and what it stores under tessera run: programs of the corpus give the bits of
// the module.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/frontend/checkpoint/folder_test.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

class CompileCommand : public FolderTest {
 protected:
  /// Of a run, in one text.
  std::string outputs(const std::string& module, const std::string& inputs, std::size_t count) {
    const Ran ran =
        run_tool({"run", module, "--inputs", inputs, "--output-dir", path("out"), "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::string all;
    for (std::size_t i = 0; i < count; ++i) {
      all += contents(path("out/out" + std::to_string(i) + ".npy"));
    }
    return all;
  }
};

TEST_F(CompileCommand, StoresProgramsOfTheCorpus) {
  for (const char* program : {"mlp_train_step/plain", "mlp_train_step/s0", "transformer_block/s1",
                              "sort_argsort_topk/plain", "fft_batch/s0", "rnn_scan_grad/s0"}) {
    SCOPED_TRACE(program);
    const fs::path file = corpus_dir() / (std::string(program) + ".mlir");
    if (!fs::exists(file)) continue;
    const Ran made = run_tool({"compile", file.string(), "-o", path("program.tsx"), "--json"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.json()["bytes"].get<std::size_t>(), fs::file_size(path("program.tsx")));
    std::size_t count = 0;
    const std::string folder = file.parent_path().string();
    while (fs::exists(folder + "/out" + std::to_string(count) + ".npy")) ++count;
    EXPECT_GT(count, 0u);
    EXPECT_EQ(outputs(file.string(), folder, count), outputs(path("program.tsx"), folder, count));
    const Ran checked = run_tool({"run", path("program.tsx"), "--inputs", folder, "--expect",
                                  folder, "--tol", "2e-3", "--json"});
    EXPECT_EQ(checked.code, 0) << checked.err;
    EXPECT_EQ(checked.json()["form"].get<std::string>(), "stored");
  }
}

TEST_F(CompileCommand, Refuses) {
  const std::string module = (corpus_dir() / "mlp_forward/plain.mlir").string();
  EXPECT_EQ(run_tool({"compile", module, "-o", path("p"), "--cpu", "i386"}).code, 2);
  EXPECT_EQ(run_tool({"compile", module}).code, 2);
  ASSERT_EQ(run_tool({"compile", module, "-o", path("p.tsx"), "--cpu", "x86-64-v3"}).code, 0);
  const Ran placed = run_tool({"run", path("p.tsx"), "--mesh", "x=2"});
  EXPECT_EQ(placed.code, 2);
  EXPECT_NE(placed.err.find("is placed already"), std::string::npos) << placed.err;
  std::string bytes = contents(path("p.tsx"));
  bytes[bytes.size() / 2] ^= 4;
  write(path("damaged.tsx"), bytes);
  const Ran damaged = run_tool({"run", path("damaged.tsx")});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.err.find("is damaged"), std::string::npos) << damaged.err;
}

}  // namespace
}  // namespace tessera::testing
