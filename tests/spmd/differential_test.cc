// SPDX-License-Identifier: Apache-2.0
// Random programs, propagated and partitioned, against the same programs on one device. The number
// of programs is SOAK_PROGRAMS (2000 if unset), the first seed SOAK_SEED.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo_text.h"
#include "src/ir/shape_inference.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera {
namespace {

std::int64_t number_from_environment(const char* name, std::int64_t fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoll(text, nullptr, 10) : fallback;
}

/// Partitions and runs one program; returns false and says why if anything is wrong.
::testing::AssertionResult agrees(std::uint64_t seed, bool exact, bool anyhow) {
  testing::RandomProgramOptions options;
  options.exact = exact;
  testing::RandomProgram program = testing::random_program(seed, options);
  std::string before = ir::to_string(*program.module), after;
  auto failed = [&](const std::string& why) {
    return ::testing::AssertionFailure()
           << "seed " << seed << (exact ? " (exact" : " (floats")
           << (anyhow ? ", random layouts): " : "): ") << why << "\n--- program\n"
           << before << "\n--- partitioned\n"
           << after;
  };
  try {
    const Literal whole = evaluator::evaluate(*program.module, program.arguments);
    if (anyhow) {
      testing::Dice dice(seed);
      testing::shard_randomly(dice, program.module.get());
    } else {
      spmd::propagate(program.module.get());
    }
    before = ir::to_string(*program.module);
    std::unique_ptr<ir::Module> device = spmd::partition(*program.module, {}, nullptr);
    after = ir::to_string(*device);
    ir::verify(*device);
    const auto results =
        evaluator::evaluate_spmd(*device, testing::shard_arguments(*device, program.arguments));
    const auto fault = testing::difference(
        results, whole, program.module->entry()->root()->sharding, exact ? 0 : 1e-4);
    if (fault) return failed(*fault);
  } catch (const std::exception& e) {
    return failed(e.what());
  }
  return ::testing::AssertionSuccess();
}

void run(bool exact, std::int64_t count, bool anyhow = false) {
  const std::int64_t first = number_from_environment("SOAK_SEED", 1);
  int failures = 0;
  for (std::int64_t i = 0; i < count && failures < 3; ++i) {
    ::testing::AssertionResult result = agrees(std::uint64_t(first + i), exact, anyhow);
    EXPECT_TRUE(result);
    if (!result) ++failures;
  }
}

TEST(Differential, SmallIntegersBitForBit) {
  run(true, number_from_environment("SOAK_PROGRAMS", 2000) * 3 / 4);
}

TEST(Differential, FloatsWithinTolerance) {
  const std::int64_t all = number_from_environment("SOAK_PROGRAMS", 2000);
  run(false, all - all * 3 / 4);
}

/// Layouts that propagation would not choose.
TEST(Differential, AnyLayouts) {
  const std::int64_t all = number_from_environment("SOAK_PROGRAMS", 2000);
  run(true, all, true);
  run(false, all / 2, true);
}

}  // namespace
}  // namespace tessera
