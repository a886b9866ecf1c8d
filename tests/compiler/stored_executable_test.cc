// SPDX-License-Identifier: Apache-2.0
// Stored executables give the bits of those that were compiled in place, need no compiler, and are
// refused where they are damaged or not for here.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "src/codegen/kernels/code/code_identity.h"
#include "src/compiler/read_module.h"
#include "src/compiler/stored_executable.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"
#include "tests/support/with_variable.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using compiler::Executable;

std::vector<fs::path> corpus() {
  std::vector<fs::path> out;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(TESSERA_SOURCE_DIR) / "tests/corpus")) {
    if (entry.path().extension() == ".mlir") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::shared_ptr<const Executable> compiled(const ir::Module& module) {
  return compiler::compile(module.clone(), {});
}

/// Empty if both give the same bits for random arguments.
std::string compare(const Executable& a, const Executable& b, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<Literal> whole;
  for (const Shape& s : a.parameter_shapes()) whole.push_back(random_value(s, dice, false));
  compiler::DeviceArrays given;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<DeviceBuffer>& parts = given.emplace_back();
    for (std::int64_t d = 0; d < a.num_devices(); ++d) {
      parts.push_back(to_buffer(
          a.num_devices() == 1 ? whole[i] : shard_of(whole[i], a.parameter_shardings()[i], d)));
    }
  }
  const compiler::DeviceArrays first = a.run(given, {});
  const compiler::DeviceArrays second = b.run(given, {});
  if (first.size() != second.size()) return "another number of results";
  for (std::size_t i = 0; i < first.size(); ++i) {
    const Shape shape = flatten(a.partitioned().entry()->root()->shape)[i];
    for (std::size_t d = 0; d < first[i].size(); ++d) {
      const Literal x = from_buffer(first[i][d], shape), y = from_buffer(second[i][d], shape);
      if (std::memcmp(x.bytes(), y.bytes(), x.byte_count()) != 0) {
        return "result " + std::to_string(i) + " of device " + std::to_string(d);
      }
    }
  }
  return {};
}

TEST(StoredExecutable, GivesTheBitsOfTheCorpus) {
  double slowest = 0;
  for (const fs::path& file : corpus()) {
    SCOPED_TRACE(file.string());
    const auto module = compiler::read_module(compiler::read_file(file.string()), file.string());
    const auto here = compiled(*module);
    const std::string bytes = compiler::store_executable(*here);
    const auto start = std::chrono::steady_clock::now();
    const auto loaded = compiler::load_executable(bytes);
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    slowest = std::max(slowest, ms);
    EXPECT_EQ(compare(*here, *loaded, 1), "");
    EXPECT_EQ(loaded->num_devices(), here->num_devices());
    EXPECT_EQ(loaded->parameter_shardings(), here->parameter_shardings());
    EXPECT_EQ(loaded->result_shardings(), here->result_shardings());
    EXPECT_EQ(loaded->report().records.size(), here->report().records.size());
  }
  RecordProperty("slowest_ms", std::to_string(slowest));
  std::printf("slowest load: %.2f ms\n", slowest);
}

std::unique_ptr<ir::Module> small_module() {
  return ir::parse_hlo(R"(HloModule small

ENTRY main {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  p = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[40] constant({0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39})
  b = f32[64,40] broadcast(c), dimensions={1}
  e = f32[64,64] exponential(p)
  s = f32[64,40] slice(e), slice={[0:64], [0:40]}
  ROOT r = f32[64,40] add(s, b)
})");
}

/// Bytes with another body, whose checksum is right.
std::string with_body(std::string body) { return compiler::seal(body); }
std::string body_of(const std::string& bytes) {
  return std::string(compiler::unseal(bytes, "a test"));
}

TEST(StoredExecutable, RandomPrograms) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const auto module = random_program(seed).module;
    const auto here = compiled(*module);
    const auto loaded = compiler::load_executable(compiler::store_executable(*here));
    EXPECT_EQ(compare(*here, *loaded, seed), "");
  }
}

TEST(StoredExecutable, LevelsOfProcessors) {
  const auto here = compiled(*small_module());
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    const std::string bytes = compiler::store_executable(*here, {.cpu = cpu});
    const int needs = cpu[8] - '0';
    if (codegen::machine_level() < needs) {
      EXPECT_THROW((void)compiler::load_executable(bytes), compiler::IncompatibleExecutable);
      continue;
    }
    const auto loaded = compiler::load_executable(bytes);
    EXPECT_EQ(compare(*here, *loaded, 3), "") << cpu;
  }
  try {
    (void)compiler::store_executable(*here, {.cpu = "pentium"});
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_NE(e.message().find("valid: native, x86-64-v3, x86-64-v4"), std::string::npos);
  }
}

/// What stands in the head of the body, in place of what does.
std::string refused_with(const std::string& bytes, const std::string& was, const std::string& is) {
  std::string body = body_of(bytes);
  const std::size_t at = body.find(was);
  EXPECT_NE(at, std::string::npos);
  body.replace(at, is.size(), is);
  try {
    (void)compiler::load_executable(with_body(std::move(body)));
  } catch (const compiler::IncompatibleExecutable& e) {
    return e.message();
  }
  return "loaded";
}

TEST(StoredExecutable, IsRefusedElsewhere) {
  const std::string bytes = compiler::store_executable(*compiled(*small_module()));
  const std::string body = body_of(bytes);
  // The build id is the first text.
  const std::string build = body.substr(8, 12);
  EXPECT_NE(refused_with(bytes, build, "0123456789ab").find("of another build of Tessera"),
            std::string::npos);
  EXPECT_NE(refused_with(bytes, codegen::machine_identity(), "ffff")
                .find("is for the processor on which it was made"),
            std::string::npos);
  std::string other = bytes;
  other[compiler::kStoredMagic.size()] = '9';
  try {
    (void)compiler::load_executable(other);
    FAIL();
  } catch (const IoError& e) {
    EXPECT_NE(e.message().find("another version"), std::string::npos);
  }
}

TEST(StoredExecutable, DamageIsRefused) {
  const std::string bytes = compiler::store_executable(*compiled(*small_module()));
  Dice dice(5);
  for (int n = 0; n < 3000; ++n) {
    std::string damaged = bytes;
    if (dice.chance(0.2)) {
      damaged.resize(std::size_t(dice.below(std::int64_t(bytes.size()))));
    } else {
      damaged[std::size_t(dice.below(std::int64_t(bytes.size())))] ^= char(1 << dice.below(8));
    }
    EXPECT_THROW((void)compiler::load_executable(damaged), IoError) << n;
  }
}

/// Where the checksum is right, what is read is checked: of the head and the record, as code is
/// taken as it is.
TEST(StoredExecutable, WhatIsReadIsChecked) {
  const std::string bytes = compiler::store_executable(*compiled(*small_module()), {.code = false});
  const std::string body = body_of(bytes);
  Dice dice(6);
  int refused = 0;
  for (int n = 0; n < 3000; ++n) {
    std::string damaged = body;
    if (dice.chance(0.1)) {
      damaged.resize(std::size_t(dice.below(std::int64_t(body.size()))));
    } else {
      damaged[std::size_t(dice.below(std::int64_t(body.size())))] ^= char(1 << dice.below(8));
    }
    try {
      (void)compiler::load_executable(with_body(std::move(damaged)));
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

TEST(StoredExecutable, NeedsACompilerNoMore) {
  const auto here = compiled(*small_module());
  const std::string bytes = compiler::store_executable(*here);
  // Kernels that weren't stored would be interpreted, with other bits.
  const WithVariable off("TESSERA_JIT", "off");
  const auto loaded = compiler::load_executable(bytes);
  EXPECT_EQ(compare(*here, *loaded, 7), "");
}

TEST(StoredExecutable, OnlyOfProgramsThatRun) {
  compiler::Options options;
  options.runs = false;
  const auto looked_at = compiler::compile(small_module(), options);
  EXPECT_THROW((void)compiler::store_executable(*looked_at), NotImplementedError);
}

}  // namespace
}  // namespace tessera::testing
