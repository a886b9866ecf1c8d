// SPDX-License-Identifier: Apache-2.0
// Random programs through all stages and the executor on eight devices, and on one, against the
// evaluator. SOAK_PROGRAMS of them (2000 if unset), from seed SOAK_SEED.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

std::int64_t number_from_environment(const char* name, std::int64_t fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoll(text, nullptr, 10) : fallback;
}

::testing::AssertionResult agrees(std::uint64_t seed, bool exact, Layouts layouts) {
  RandomProgramOptions options;
  options.exact = exact;
  RandomProgram program = random_program(seed, options);
  const std::string text = ir::to_string(*program.module);
  const double tolerance = exact ? 0 : 1e-4;
  std::string device_text;
  compiler::Options compile;
  compile.layouts = layouts;
  const auto failed = [&](const std::string& why) {
    return ::testing::AssertionFailure()
           << "seed " << seed << (exact ? " (exact): " : " (floats): ") << why << "\n--- program\n"
           << text << "\n--- one device's\n"
           << device_text;
  };
  try {
    const Literal whole = evaluator::evaluate(*program.module, program.arguments);
    program.module->num_partitions = program.module->mesh->num_devices();
    std::unique_ptr<ir::Module> alone = program.module->clone();
    alone->num_partitions = 1;
    for (std::unique_ptr<ir::Module>* module : {&program.module, &alone}) {
      const auto executable = compiler::compile(std::move(*module), compile);
      device_text = ir::to_string(executable->partitioned());
      std::vector<std::vector<Literal>> args{program.arguments};
      if (executable->num_devices() > 1) {
        args = shard_arguments(executable->partitioned(), program.arguments);
      }
      // Once with buffers that the caller keeps, once with buffers that are given away.
      for (const bool donate : {false, true}) {
        compiler::DeviceArrays buffers = to_device_arrays(args);
        const compiler::DeviceArrays kept = donate ? compiler::DeviceArrays() : buffers;
        const std::vector<bool> donated(buffers.size(), donate);
        const auto results = executable->run(std::move(buffers), donated);
        const auto fault = difference(to_literals(*executable, results), whole,
                                      executable->result_shardings(), tolerance);
        if (fault) {
          return failed(*fault + " on " + std::to_string(executable->num_devices()) + " devices");
        }
        if (!donate) {
          for (std::size_t d = 0; d < args.size(); ++d) {
            for (std::size_t i = 0; i < args[d].size(); ++i) {
              if (std::memcmp(runtime::bytes_of(kept[i][d]), args[d][i].bytes(),
                              args[d][i].byte_count()) != 0) {
                return failed("argument " + std::to_string(i) + " was overwritten");
              }
            }
          }
        }
      }
    }
  } catch (const std::exception& e) {
    return failed(e.what());
  }
  return ::testing::AssertionSuccess();
}

void run(bool exact, std::int64_t count, Layouts layouts = Layouts::solved) {
  const std::int64_t first = number_from_environment("SOAK_SEED", 1);
  int failures = 0;
  for (std::int64_t i = 0; i < count && failures < 3; ++i) {
    const ::testing::AssertionResult result = agrees(std::uint64_t(first + i), exact, layouts);
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

TEST(Differential, AsPropagated) {
  const std::int64_t all = number_from_environment("SOAK_PROGRAMS", 2000) / 4;
  run(true, all * 3 / 4, Layouts::propagated);
  run(false, all - all * 3 / 4, Layouts::propagated);
}

}  // namespace
}  // namespace tessera::testing
