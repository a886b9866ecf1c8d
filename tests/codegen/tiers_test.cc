// SPDX-License-Identifier: Apache-2.0
// Quick code, and the optimized code that replaces it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>

#include "src/base/threads/background.h"
#include "src/codegen/kernels/code/kernel_compiler.h"
#include "tests/codegen/program_of_op.h"
#include "tests/support/with_variable.h"

namespace tessera::codegen {
namespace {

namespace fs = std::filesystem;
using testing::WithVariable;

class Tiers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_compiler() == nullptr) GTEST_SKIP() << "without a compiler of kernels";
    folder_ = mkdtemp(name_);
    cache_.emplace("TESSERA_CACHE_DIR", name_);
  }
  void TearDown() override {
    wait_for_background();
    cache_.reset();
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  /// x + y
  std::shared_ptr<const KernelCode> code() const {
    const BlockOp add{.kind = BlockOp::Kind::binary, .opcode = ir::Opcode::add, .type = DType::f32};
    const auto program = std::make_shared<const LoopExpr>(
        program_of_op(add, {DType::f32, DType::f32}, 0, byte_size(DType::f32)));
    return code_of(LoopSource{program, nest_of(*program)}, "x + y");
  }
  static void expect_adds(const KernelCode& code) {
    float x[100], y[100], out[100];
    for (int i = 0; i < 100; ++i) x[i] = float(i), y[i] = float(i * i);
    const std::byte* in[] = {reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(y)};
    std::byte* to[] = {reinterpret_cast<std::byte*>(out)};
    reinterpret_cast<LoopFunction>(code.entry())(in, to, nullptr, 0, 100, 0, 0);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(out[i], x[i] + y[i]);
  }
  std::size_t files() const {
    const fs::recursive_directory_iterator all(folder_);
    return std::size_t(
        std::count_if(begin(all), end(all), [](const auto& f) { return f.is_regular_file(); }));
  }

  char name_[30] = "/tmp/tessera_tiers_XXXXXX";
  fs::path folder_;
  std::optional<WithVariable> cache_;
};

TEST_F(Tiers, OptimizedCodeReplacesQuickCode) {
  const WithVariable on("TESSERA_TIERED_COMPILATION", "on");
  const auto kernel = code();
  ASSERT_TRUE(kernel);
  void* const first = kernel->entry();
  expect_adds(*kernel);
  EXPECT_EQ(files(), 1u) << "quick code is kept, too";
  wait_for_background();
  EXPECT_NE(kernel->entry(), first);
  expect_adds(*kernel);
  EXPECT_EQ(files(), 2u);
}

TEST_F(Tiers, OptimizedCodeIsFoundAtOnce) {
  const WithVariable on("TESSERA_TIERED_COMPILATION", "on");
  {
    const auto kernel = code();
    wait_for_background();
  }
  const auto again = code();
  void* const first = again->entry();
  wait_for_background();
  EXPECT_EQ(again->entry(), first);
  EXPECT_EQ(files(), 2u);
}

TEST_F(Tiers, QuickCodeOfAnEarlierProcessIsReplaced) {
  {
    const WithVariable quick("TESSERA_TIERED_COMPILATION", "quick");
    const auto kernel = code();
    void* const first = kernel->entry();
    wait_for_background();
    EXPECT_EQ(kernel->entry(), first) << "it stays";
    EXPECT_EQ(files(), 1u);
  }
  const WithVariable on("TESSERA_TIERED_COMPILATION", "on");
  const auto kernel = code();
  void* const first = kernel->entry();
  wait_for_background();
  EXPECT_NE(kernel->entry(), first);
  EXPECT_EQ(files(), 2u);
}

TEST_F(Tiers, CodeIsOptimizedAtOnceOnRequest) {
  const WithVariable off("TESSERA_TIERED_COMPILATION", "off");
  const auto kernel = code();
  void* const first = kernel->entry();
  expect_adds(*kernel);
  wait_for_background();
  EXPECT_EQ(kernel->entry(), first);
  EXPECT_EQ(files(), 1u);
}

TEST_F(Tiers, WhatNobodyHoldsIsNotCompiledAgain) {
  const WithVariable on("TESSERA_TIERED_COMPILATION", "on");
  EXPECT_TRUE(code());
  wait_for_background();
  EXPECT_EQ(files(), 1u);
}

TEST_F(Tiers, CodeIsReplacedWhileItRuns) {
  const WithVariable on("TESSERA_TIERED_COMPILATION", "on");
  const auto kernel = code();
  std::atomic<bool> done = false;
  std::thread caller([&] {
    while (!done) expect_adds(*kernel);
  });
  wait_for_background();
  done = true;
  caller.join();
  expect_adds(*kernel);
}

/// vpgatherdd or vgatherdps in a register of 64 bytes.
bool has_gather(const std::string& object) {
  for (std::size_t i = 0; i + 5 < object.size(); ++i) {
    const auto at = [&](std::size_t k) { return std::uint8_t(object[i + k]); };
    if (at(0) == 0x62 && (at(1) & 7) == 2 && at(2) == 0x7d && (at(3) & 0xe0) == 0x40 &&
        (at(4) == 0x90 || at(4) == 0x92)) {
      return true;
    }
  }
  return false;
}

TEST_F(Tiers, OptimizedCodeGathersWhereQuickCodeDoes) {
  LoopBuilder builder;
  const auto at = builder.contiguous(DType::s32);
  builder.output(builder.take(DType::f32, at, 1000));
  const auto program = builder.finish();
  const LoopSource source{program, nest_of(*program)};
  const std::string quick = kernel_compiler()->compile(source, CodeTier::quick);
  const std::string optimized = kernel_compiler()->compile(source, CodeTier::optimized);
  ASSERT_FALSE(quick.empty() || optimized.empty());
  // Whether the machine has any, and they are fast, is known to both.
  EXPECT_EQ(has_gather(optimized), has_gather(quick));
}

}  // namespace
}  // namespace tessera::codegen
