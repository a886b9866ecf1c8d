// SPDX-License-Identifier: Apache-2.0
// Programs on batches through all stages: LAPACK's calls take the batch, and random programs give
// on eight devices what a loop over the entries gives.
#include "src/transforms/vmap.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/codegen/custom_calls/custom_calls.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/count.h"
#include "tests/support/fixtures.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

/// Arrays along a new dim 0.
Literal along_batch(const std::vector<Literal>& entries) {
  if (entries[0].is_tuple()) {
    std::vector<Literal> elements;
    for (std::size_t k = 0; k < entries[0].elements().size(); ++k) {
      std::vector<Literal> each;
      for (const Literal& entry : entries) each.push_back(entry.elements()[k]);
      elements.push_back(along_batch(each));
    }
    return Literal::tuple(std::move(elements));
  }
  Dims dims = entries[0].dims();
  dims.insert(dims.begin(), std::int64_t(entries.size()));
  Literal out(Shape(entries[0].dtype(), dims));
  std::byte* to = out.mutable_bytes();
  for (const Literal& entry : entries) {
    std::memcpy(to, entry.bytes(), entry.byte_count());
    to += entry.byte_count();
  }
  return out;
}

/// What a compiled program gives is `whole`.
void expect_runs(std::unique_ptr<ir::Module> module, const std::vector<Literal>& arguments,
                 const Literal& whole, double tolerance) {
  const std::string text = ir::to_string(*module);
  const auto executable = compiler::compile(std::move(module));
  std::vector<std::vector<Literal>> args{arguments};
  if (executable->num_devices() > 1) {
    args = shard_arguments(executable->partitioned(), arguments);
  }
  const auto results = executable->run(to_device_arrays(args), {});
  const auto fault = difference(to_literals(*executable, results), whole,
                                executable->result_shardings(), tolerance);
  EXPECT_FALSE(fault.has_value()) << *fault << text;
}

TEST(VmapCompiled, LinearAlgebraTakesTheBatch) {
  codegen::register_builtin_custom_calls();
  for (const FixtureCase& c : read_fixtures("linalg/linalg.txt")) {
    SCOPED_TRACE(c.name);
    const auto module = ir::parse_hlo(c.hlo, c.name);
    // The first argument differs between entries, if there is one.
    const std::vector<Literal> own = c.arrays();
    if (own.empty()) continue;
    Dims axes(own.size(), -1);
    axes[0] = 0;
    try {
      auto batched = transforms::vmap(*module, axes, 2);
      ir::verify(*batched);
      EXPECT_EQ(count_of(*batched, ir::Opcode::scan), count_of(*module, ir::Opcode::scan));
      std::vector<Literal> args = own;
      args[0] = along_batch({own[0], own[0]});
      const Literal entry = evaluator::evaluate(*module, own);
      expect_runs(std::move(batched), args, along_batch({entry, entry}), 1e-4);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(VmapCompiled, RandomProgramsOnEightDevices) {
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProgram program = random_program(seed);
    Dice dice(seed);
    const std::int64_t size = dice.between(1, 4);
    Dims axes;
    std::vector<Literal> args;
    std::vector<std::vector<Literal>> entries{std::size_t(size)};
    for (const ir::Instruction* p : program.module->entry()->parameters()) {
      const bool batched = dice.chance(0.7);
      axes.push_back(batched ? 0 : -1);
      std::vector<Literal> each;
      for (std::vector<Literal>& entry : entries) {
        if (each.empty() || batched) {
          each.push_back(random_literal(dice, p->shape.dtype, p->shape.dims, true));
        }
        entry.push_back(each.back());
      }
      args.push_back(batched ? along_batch(each) : each[0]);
    }
    try {
      std::vector<Literal> wanted;
      for (const auto& entry : entries) {
        wanted.push_back(evaluator::evaluate(*program.module, entry));
      }
      expect_runs(transforms::vmap(*program.module, axes, size), args, along_batch(wanted), 0);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

}  // namespace
}  // namespace tessera::testing
