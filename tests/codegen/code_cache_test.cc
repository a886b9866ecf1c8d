// SPDX-License-Identifier: Apache-2.0
// The cache of compiled kernels: what is damaged, or another's, is not found.
#include "src/codegen/kernels/code/code_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace tessera::codegen {
namespace {

namespace fs = std::filesystem;

class CodeCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_cache_XXXXXX";
    folder_ = mkdtemp(name);
    if (const char* before = getenv("TESSERA_CACHE_DIR")) before_ = before;
    setenv("TESSERA_CACHE_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    if (before_) {
      setenv("TESSERA_CACHE_DIR", before_->c_str(), 1);
    } else {
      unsetenv("TESSERA_CACHE_DIR");
    }
    fs::remove_all(folder_);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& f : fs::recursive_directory_iterator(folder_)) {
      if (f.is_regular_file()) out.push_back(f.path());
    }
    return out;
  }

  fs::path folder_;
  std::optional<std::string> before_;
};

TEST_F(CodeCacheTest, FindsWhatWasAdded) {
  const CodeCache cache("a machine");
  EXPECT_EQ(cache.find("k"), std::nullopt);
  cache.add("k", std::string("code\0more", 9));
  EXPECT_EQ(cache.find("k"), std::string("code\0more", 9));
  EXPECT_EQ(cache.find("other"), std::nullopt);
  EXPECT_EQ(CodeCache("another machine").find("k"), std::nullopt);
  EXPECT_EQ(files().size(), 1u) << "nothing is left beside it";
}

TEST_F(CodeCacheTest, BelongsToItsOwnerAlone) {
  const mode_t before = umask(0);
  CodeCache("a machine").add("k", "code");
  umask(before);
  struct stat facts {};
  ASSERT_EQ(stat(files().at(0).parent_path().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u) << "others could put machine code there";
}

TEST_F(CodeCacheTest, DamagedFilesAreNotThere) {
  const CodeCache cache("a machine");
  const std::string code(300, 'c');
  cache.add("k", code);
  const fs::path file = files().at(0);
  std::ifstream in(file, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto write = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write(whole.substr(0, n));
    EXPECT_EQ(cache.find("k"), std::nullopt) << "cut after " << n << " bytes";
    std::string changed = whole;
    changed[n] = char(changed[n] ^ 0x10);
    write(changed);
    EXPECT_EQ(cache.find("k"), std::nullopt) << "byte " << n << " changed";
  }
  write(whole + "x");
  EXPECT_EQ(cache.find("k"), std::nullopt);
  cache.add("k", code);
  EXPECT_EQ(cache.find("k"), code) << "it is replaced";
}

TEST_F(CodeCacheTest, WhatIsNoFileIsNotThere) {
  const CodeCache cache("a machine");
  cache.add("k", "code");
  const fs::path file = files().at(0);
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_EQ(cache.find("k"), std::nullopt);
  cache.add("k", "code");
  EXPECT_EQ(cache.find("k"), std::nullopt);
  EXPECT_TRUE(files().empty()) << "nothing is left beside it";
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);  // reading it would wait for a writer
  EXPECT_EQ(cache.find("k"), std::nullopt);
}

TEST_F(CodeCacheTest, ManyWriters) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      const CodeCache cache("a machine");
      for (int n = 0; n < 50; ++n) {
        const std::string key = "k" + std::to_string(n % 5);
        cache.add(key, key + " code");
        const auto found = cache.find(key);
        EXPECT_EQ(found, key + " code");
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(files().size(), 5u);
}

TEST_F(CodeCacheTest, WhatIsUsedStaysWhenThereIsTooMuch) {
  constexpr std::uintmax_t kMax = 256 << 10;
  const CodeCache cache("a machine", kMax);
  const std::string code(100, 'c');
  const auto before = fs::file_time_type::clock::now() - std::chrono::hours(48);
  for (int n = 0; n < 4000; ++n) cache.add("first " + std::to_string(n), code);
  cache.add("used", "code");
  for (const fs::path& f : files()) fs::last_write_time(f, before);
  EXPECT_EQ(cache.find("used"), "code");  // no longer among the oldest
  for (int n = 0; n < 300; ++n) cache.add("then " + std::to_string(n), code);
  std::uintmax_t total = 0;
  for (const fs::path& f : files()) total += fs::file_size(f);
  EXPECT_LT(total, 2 * kMax) << "of " << 4300 * 150;
  EXPECT_GT(total, kMax / 2);
  EXPECT_EQ(cache.find("used"), "code");
}

TEST_F(CodeCacheTest, MayBeOff) {
  setenv("TESSERA_CACHE_DIR", "off", 1);
  const CodeCache cache("a machine");
  cache.add("k", "code");
  EXPECT_EQ(cache.find("k"), std::nullopt);
  setenv("TESSERA_CACHE_DIR", "/proc/no such folder", 1);
  const CodeCache nowhere("a machine");
  nowhere.add("k", "code");
  EXPECT_EQ(nowhere.find("k"), std::nullopt);
}

}  // namespace
}  // namespace tessera::codegen
