// SPDX-License-Identifier: Apache-2.0
// Loading object code: what is damaged is refused, and never read beyond its end.
#include "src/codegen/kernels/code/object_code.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace tessera::codegen {
namespace {

/// What the C++ compiler makes of `source`; empty without one.
std::string object_of(const std::string& source, const std::string& flags = "-O1 -fPIC") {
  static int number = 0;
  const std::filesystem::path base =
      std::filesystem::path(::testing::TempDir()) / ("object_code_" + std::to_string(++number));
  std::ofstream(base.string() + ".c") << source;
  const std::string command = "cc " + flags +
                              " -fno-asynchronous-unwind-tables -fcf-protection=none -c " +
                              base.string() + ".c -o " + base.string() + ".o 2>/dev/null";
  if (std::system(command.c_str()) != 0) return {};
  std::ifstream in(base.string() + ".o", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

constexpr const char* kSource = R"(
double exp(double);
static const double table[4] = {1, 2, 3, 4};
__attribute__((noinline)) static double at(int k) { return table[k & 3]; }
double run(double x, int k) { return exp(x) + at(k); }
)";

class ObjectCode : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "objects are loaded for x86-64 alone";
#endif
    object_ = object_of(kSource);
    if (object_.empty()) GTEST_SKIP() << "no C compiler";
  }
  std::string refused(const std::string& object, const char* entry = "run") {
    std::string error;
    EXPECT_EQ(load_object(object, entry, &error), nullptr);
    return error;
  }
  std::string object_;
};

TEST_F(ObjectCode, RunsWithConstantsAndCallsOut) {
  std::string error;
  const auto code = load_object(object_, "run", &error);
  ASSERT_NE(code, nullptr) << error;
  const auto run = reinterpret_cast<double (*)(double, int)>(code->entry());
  EXPECT_EQ(run(0, 0), 2);
  EXPECT_EQ(run(0, 3), 5);
}

TEST_F(ObjectCode, SaysWhatIsMissing) {
  EXPECT_EQ(refused(object_, "walk"), "it has no function walk");
  EXPECT_EQ(refused(object_of("void nowhere(void); void run(void) { nowhere(); nowhere(); }")),
            "nothing is named nowhere");
  EXPECT_EQ(refused(object_of("int n; int run(void) { return ++n; }")),
            "it refers to what isn't loaded");
  EXPECT_EQ(refused(object_of("static int n = 3; int run(void) { return ++n; }")),
            "it has variables");
  EXPECT_EQ(refused(""), "it is cut off");
  EXPECT_EQ(refused(std::string(4096, 'x')), "it is no relocatable object for x86-64");
}

TEST_F(ObjectCode, RefusesCutObjects) {
  for (std::size_t n = 0; n < object_.size(); n += 7) {
    std::string error;
    // The names of sections may be cut: nothing needs them.
    load_object(object_.substr(0, n), "run", &error);
  }
  EXPECT_EQ(refused(object_.substr(0, object_.size() / 2)), "it is cut off");
}

/// It may load what is damaged; what it reads and writes stays within the object.
TEST_F(ObjectCode, SurvivesDamage) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string damaged = object_;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = char(random());
    std::string error;
    load_object(damaged, "run", &error);
  }
}

}  // namespace
}  // namespace tessera::codegen
