// SPDX-License-Identifier: Apache-2.0
// Random array programs with random shardings, for differential tests. A seed gives the same
// program on each machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"

namespace tessera::testing {

struct RandomProgramOptions {
  /// Small integers in floats, whose results don't depend on the order of sums: compared bit for
  /// bit. Otherwise real floats, without ops that jump.
  bool exact = true;
  int min_ops = 3, max_ops = 12;
  bool control_flow = true;
};

struct RandomProgram {
  std::uint64_t seed = 0;
  bool exact = true;
  std::unique_ptr<ir::Module> module;  ///< with shardings on parameters, root and constraints
  std::vector<Literal> arguments;
};

RandomProgram random_program(std::uint64_t seed, const RandomProgramOptions& options = {});

/// Numbers that are the same everywhere for the same seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed)
      : state_(seed * 0x9E3779B97F4A7C15ull + 0x632BE59BD9B4E019ull) {}
  std::uint64_t next();
  /// 0 <= result < n
  std::int64_t below(std::int64_t n) { return std::int64_t(next() % std::uint64_t(n)); }
  std::int64_t between(std::int64_t lo, std::int64_t hi) { return lo + below(hi - lo + 1); }
  bool chance(double p) { return double(next() >> 11) * 0x1p-53 < p; }
  double unit() { return double(next() >> 11) * 0x1p-53; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[std::size_t(below(std::int64_t(from.size())))];
  }

 private:
  std::uint64_t state_;
};

/// A closed sharding with some of the mesh's axes on some dims, in any order.
TensorSharding random_sharding(Dice& dice, const MeshRef& mesh, const Dims& dims,
                               bool may_be_uneven);
/// Instead of propagation: a random closed sharding for each instruction, loops' carries and
/// branches' results in agreement.
void shard_randomly(Dice& dice, ir::Module* module);
Literal random_literal(Dice& dice, DType dtype, const Dims& dims, bool exact);

/// By device, the process that has it.
using Owners = std::vector<std::int32_t>;
/// How the devices are dealt out: in blocks, in turns, or anyhow.
Owners owners_of(Dice& dice, std::int64_t devices, int processes);

}  // namespace tessera::testing
