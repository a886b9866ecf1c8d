// SPDX-License-Identifier: Apache-2.0
// Random programs, propagated and partitioned, against the same programs on one device. The number
// of programs is SOAK_PROGRAMS (2000 if unset), the first seed SOAK_SEED.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
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

/// What isn't drawn is not tested: each operation with a form of its own must come up often.
TEST(Differential, ProgramsHaveAllOperations) {
  using ir::Opcode;
  std::map<Opcode, int> programs;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    testing::RandomProgramOptions options;
    options.exact = seed % 2 == 0;
    std::set<Opcode> here;
    const testing::RandomProgram program = testing::random_program(seed, options);
    for (const auto& c : program.module->computations()) {
      for (const auto& i : c->instructions()) here.insert(i->opcode);
    }
    for (Opcode op : here) ++programs[op];
  }
  for (Opcode op : {Opcode::broadcast,
                    Opcode::reshape,
                    Opcode::transpose,
                    Opcode::reduce,
                    Opcode::dot,
                    Opcode::convolution,
                    Opcode::iota,
                    Opcode::concatenate,
                    Opcode::slice,
                    Opcode::pad,
                    Opcode::reverse,
                    Opcode::dynamic_slice,
                    Opcode::sort,
                    Opcode::dynamic_update_slice,
                    Opcode::topk,
                    Opcode::fft,
                    Opcode::gather,
                    Opcode::scatter,
                    Opcode::reduce_window,
                    Opcode::select_and_scatter,
                    Opcode::cholesky,
                    Opcode::triangular_solve,
                    Opcode::map,
                    Opcode::rng_bit_generator,
                    Opcode::while_,
                    Opcode::conditional,
                    Opcode::call,
                    Opcode::sharding_constraint,
                    Opcode::bitcast_convert,
                    Opcode::compare,
                    Opcode::select,
                    Opcode::clamp,
                    Opcode::convert,
                    Opcode::batch_norm_training,
                    Opcode::batch_norm_grad,
                    Opcode::batch_norm_inference,
                    Opcode::popcnt,
                    Opcode::complex,
                    Opcode::constant,
                    Opcode::count_leading_zeros}) {
    EXPECT_GE(programs[op], 5) << ir::name(op);
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
