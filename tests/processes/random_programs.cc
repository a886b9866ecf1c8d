// SPDX-License-Identifier: Apache-2.0
// Random programs on the devices of the processes that mpirun has started: each process compares
// what its devices hold with what one process, with all of the devices, computes.
// usage: random_programs COUNT [FIRST SEED]
#include <tessera/tessera.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "src/base/processes/processes.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

/// Empty if this process's devices get the bits that they get of one process.
std::string compare(const ir::Module& module, const std::vector<Literal>& arguments,
                    const Owners& owners, int me, const compiler::Options& options) {
  const auto alone = compiler::compile(module.clone(), options);
  const auto args = shard_arguments(alone->partitioned(), arguments);
  const auto expected = alone->run(to_device_arrays(args), {});
  compiler::Options shared = options;
  shared.process_of = owners;
  const auto together = compiler::compile(module.clone(), shared);
  // Once with buffers that the caller keeps, once with buffers that are given away.
  std::string fault;
  for (const bool donate : {false, true}) {
    auto placed = to_device_arrays(args);
    for (auto& devices : placed) {
      for (std::size_t d = 0; d < devices.size(); ++d) {
        if (owners[d] != me) devices[d] = {};
      }
    }
    const compiler::DeviceArrays kept = donate ? compiler::DeviceArrays() : placed;
    const std::vector<bool> donated(placed.size(), donate);
    const auto results = together->run(std::move(placed), donated);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      for (std::size_t d = 0; d < expected[i].size(); ++d) {
        const DeviceBuffer &have = results[i][d], &want = expected[i][d];
        const std::string where = "result " + std::to_string(i) + " on device " + std::to_string(d);
        if (bool(have) != (owners[d] == me)) {
          fault = where + " is where it isn't";
        } else if (have && std::memcmp(runtime::bytes_of(have), runtime::bytes_of(want),
                                       want.bytes()) != 0) {
          fault = where + " differs";
        }
      }
    }
  }
  return fault;
}

int run(std::int64_t count, std::int64_t first) {
  const int me = int(process_index()), processes = int(process_count());
  std::int64_t failures = 0;
  for (std::int64_t seed = first; seed < first + count && failures < 3; ++seed) {
    Dice dice(std::uint64_t(seed) + 77);
    RandomProgramOptions random;
    random.exact = dice.chance(0.5);
    RandomProgram program = random_program(std::uint64_t(seed), random);
    program.module->num_partitions = program.module->mesh->num_devices();
    compiler::Options options;
    options.layouts = dice.chance(0.5) ? Layouts::solved : Layouts::propagated;
    const Owners owners = owners_of(dice, program.module->num_partitions, processes);
    std::string fault;
    try {
      fault = compare(*program.module, program.arguments, owners, me, options);
    } catch (const std::exception& e) {
      fault = e.what();
    }
    if (fault.empty()) continue;
    ++failures;
    std::string dealt;
    for (const std::int32_t p : owners) dealt += std::to_string(p);
    std::fprintf(stderr, "[process %d] seed %lld, owners %s: %s\n%s\n", me,
                 static_cast<long long>(seed), dealt.c_str(), fault.c_str(),
                 ir::to_string(*program.module).c_str());
  }
  if (failures == 0 && me == 0) {
    std::printf("%lld programs have the bits of one process in %d\n", static_cast<long long>(count),
                processes);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    tessera::init_processes();
    return tessera::testing::run(std::atoll(argv[1]), argc > 2 ? std::atoll(argv[2]) : 1);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
