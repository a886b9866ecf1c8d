// SPDX-License-Identifier: Apache-2.0
// Random programs on the devices of several processes, which are threads that exchange through
// memory: all results have the bits that one process gives.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <span>

#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/memory_transport.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

std::shared_ptr<const compiler::Executable> compiled(const ir::Module& module, Owners owners) {
  compiler::Options options;
  options.process_of = std::move(owners);
  return compiler::compile(module.clone(), options);
}

compiler::DeviceArrays local_part(const compiler::DeviceArrays& all, const Owners& owners,
                                  int process) {
  compiler::DeviceArrays out = all;
  for (auto& devices : out) {
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (owners[d] != process) devices[d] = {};
    }
  }
  return out;
}

std::string text_of(const Owners& owners) {
  std::string out;
  for (const std::int32_t p : owners) out += std::to_string(p);
  return out;
}

/// Empty if all processes get what one gets.
std::string compare(const ir::Module& module, const std::vector<std::vector<Literal>>& args,
                    const Owners& owners, int processes) {
  const auto alone = compiled(module, {});
  const auto expected = alone->run(to_device_arrays(args), {});
  const auto executable = compiled(module, owners);
  const auto placed = to_device_arrays(args);
  std::vector<compiler::DeviceArrays> results(static_cast<std::size_t>(processes));
  const auto errors = run_processes(processes, 1, [&](int p) {
    // The second run is by the same plan.
    for (int run = 0; run < 2; ++run) {
      results[std::size_t(p)] = executable->run(local_part(placed, owners, p), {});
    }
  });
  for (int p = 0; p < processes; ++p) {
    if (!errors[std::size_t(p)].empty()) {
      return "process " + std::to_string(p) + ": " + errors[std::size_t(p)];
    }
    const compiler::DeviceArrays& mine = results[std::size_t(p)];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      for (std::size_t d = 0; d < expected[i].size(); ++d) {
        const std::string where = "result " + std::to_string(i) + " on device " + std::to_string(d);
        if (bool(mine[i][d]) != (owners[d] == p)) return where + " is where it isn't";
        if (!mine[i][d]) continue;
        if (std::memcmp(runtime::bytes_of(mine[i][d]), runtime::bytes_of(expected[i][d]),
                        mine[i][d].bytes()) != 0) {
          return where + " differs";
        }
      }
    }
  }
  return "";
}

TEST(SeveralProcesses, OneOfThemMayCompileAProgramAgain) {
  const auto module = [](const char* line) {
    return ir::parse_hlo(std::string(R"(HloModule sums, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  zero = f32[] constant(0)
  ROOT sum = f32[] reduce(x, zero), dimensions={0}, to_apply=add, sharding={replicated}, metadata={source_file="m.py" source_line=)") +
                         line + "}\n}\n");
  };
  const Owners owners{0, 1};
  const auto first = compiled(*module("7"), owners);
  const auto again = compiled(*module("9"), owners);
  const std::vector<float> values{1, 2};
  const Literal half(Shape(DType::f32, {2}), std::as_bytes(std::span(values)));
  const auto placed = to_device_arrays({{half}, {half}});
  const auto errors = run_processes(2, 1, [&](int p) {
    for (const auto& e : {first, first, p == 0 ? first : again, again}) {
      const auto results = e->run(local_part(placed, owners, p), {});
      float sum = 0;
      std::memcpy(&sum, runtime::bytes_of(results[0][std::size_t(p)]), sizeof sum);
      EXPECT_EQ(sum, 6);
    }
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(SeveralProcesses, RandomProgramsHaveTheBitsOfOneProcess) {
  const char* text = std::getenv("SOAK_PROGRAMS");
  const std::int64_t count = text && *text ? std::strtoll(text, nullptr, 10) : 300;
  int failures = 0;
  for (std::int64_t seed = 1; seed <= count && failures < 3; ++seed) {
    Dice dice(std::uint64_t(seed) + 77);
    RandomProgramOptions options;
    options.exact = dice.chance(0.5);
    RandomProgram program = random_program(std::uint64_t(seed), options);
    program.module->num_partitions = program.module->mesh->num_devices();
    const int processes = int(dice.between(2, 4));
    const Owners owners = owners_of(dice, program.module->num_partitions, processes);
    std::string fault;
    try {
      const auto partitioned = compiled(*program.module, {});
      fault =
          compare(*program.module, shard_arguments(partitioned->partitioned(), program.arguments),
                  owners, processes);
    } catch (const std::exception& e) {
      fault = e.what();
    }
    if (fault.empty()) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << ", owners " << text_of(owners) << ": " << fault << "\n"
                  << ir::to_string(*program.module);
  }
}

}  // namespace
}  // namespace tessera::testing
