// SPDX-License-Identifier: Apache-2.0
// Partitions a program, and runs the device program and the original.
#include "tests/spmd/partitioner/partition_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/count.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {

namespace {

constexpr const char* kReducers = R"(
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
mul { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] multiply(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
argmax { va = f32[] parameter(0)
  ia = s32[] parameter(1)
  vb = f32[] parameter(2)
  ib = s32[] parameter(3)
  gt = pred[] compare(va, vb), direction=GT
  eq = pred[] compare(va, vb), direction=EQ
  lo = pred[] compare(ia, ib), direction=LT
  tie = pred[] and(eq, lo)
  left = pred[] or(gt, tie)
  v = f32[] select(left, va, vb)
  i = s32[] select(left, ia, ib)
  ROOT t = (f32[], s32[]) tuple(v, i) }
)";

}  // namespace

int PartitionCase::count(ir::Opcode op) const { return count_of(*device, op); }

int PartitionCase::collectives() const { return count_collectives(*device); }

double PartitionCase::bytes() const {
  double n = 0;
  for (const auto& r : report.records) n += r.bytes_received;
  return n;
}

bool PartitionCase::full_gather() const {
  for (const auto& r : report.records) {
    if (r.full_gather) return true;
  }
  return false;
}

std::unique_ptr<ir::Module> parse_entry(const std::string& entry_lines,
                                        const std::string& computations) {
  return ir::parse_hlo("HloModule m, num_partitions=8\n" + std::string(kReducers) + computations +
                       "\nENTRY e {\n" + entry_lines + "\n}\n");
}

namespace {

std::vector<Literal> arguments_for(const ir::Module& module, double tolerance) {
  Dice dice(7);
  return random_arguments(module, dice, tolerance == 0);
}

Literal on_one_device(const ir::Module& module, const std::vector<Literal>& arguments) {
  std::unique_ptr<ir::Module> single = module.clone();
  single->num_partitions = 1;
  return evaluator::evaluate(*single, arguments);
}

bool has(const ir::Module& module, std::initializer_list<ir::Opcode> opcodes) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (std::find(opcodes.begin(), opcodes.end(), i->opcode) != opcodes.end()) return true;
    }
  }
  return false;
}

/// With its reshards explicit the program is the same still, also as text.
void check_explicit(const ir::Module& module, const std::vector<Literal>& arguments,
                    const spmd::PartitionOptions& options, const PartitionCase& expected) {
  // These can't run on one device, be read from text, or give the same twice.
  if (has(module, {ir::Opcode::manual_computation, ir::Opcode::rng}) || spmd::calls_back(module)) {
    return;
  }
  spmd::ExplicitProgram program = spmd::insert_reshards(module, options);
  spmd::optimize_reshards(&program, options);
  ir::verify(*program.module);
  const std::string text = ir::to_string(*program.module);
  EXPECT_EQ(on_one_device(*program.module, arguments), on_one_device(module, arguments)) << text;
  const auto device = spmd::lower_reshards({ir::parse_hlo(text), {}}, options, nullptr);
  EXPECT_EQ(count_collectives(*device), expected.collectives()) << text << "\n--- lowered\n"
                                                                << ir::to_string(*device);
}

PartitionCase check_propagated(const ir::Module& module, const Literal& whole, double tolerance,
                               const std::vector<Literal>& arguments,
                               const spmd::PartitionOptions& options) {
  PartitionCase out;
  out.device = spmd::partition(module, options, &out.report);
  out.text = ir::to_string(*out.device);
  ir::verify(*out.device);
  const auto results =
      evaluator::evaluate_spmd(*out.device, shard_arguments(*out.device, arguments));
  const auto fault = difference(results, whole, module.entry()->root()->sharding, tolerance);
  EXPECT_FALSE(fault) << *fault << "\n--- propagated\n"
                      << ir::to_string(module) << "\n--- partitioned\n"
                      << out.text;
  // Each collective stands in the report, and nothing else does.
  EXPECT_EQ(std::size_t(out.collectives()), out.report.records.size()) << out.text;
  check_explicit(module, arguments, options, out);
  return out;
}

}  // namespace

PartitionCase check_partition(std::unique_ptr<ir::Module> module, double tolerance,
                              std::vector<Literal> arguments,
                              const spmd::PartitionOptions& options) {
  if (arguments.empty()) arguments = arguments_for(*module, tolerance);
  const Literal whole = on_one_device(*module, arguments);
  return check_against(std::move(module), whole, tolerance, std::move(arguments), options);
}

PartitionCase check_solved(std::unique_ptr<ir::Module> module, double tolerance,
                           const spmd::AutoShardingOptions& options) {
  const std::vector<Literal> arguments = arguments_for(*module, tolerance);
  const Literal whole = on_one_device(*module, arguments);
  const spmd::AutoSharding found = spmd::propagate_and_solve(std::move(module), options);
  return check_propagated(*found.module, whole, tolerance, arguments, {});
}

PartitionCase check_against(std::unique_ptr<ir::Module> module, const Literal& whole,
                            double tolerance, std::vector<Literal> arguments,
                            const spmd::PartitionOptions& options) {
  spmd::propagate(module.get());
  return check_propagated(*module, whole, tolerance, arguments, options);
}

PartitionCase check_partition(const std::string& entry_lines, double tolerance,
                              std::vector<Literal> arguments,
                              const spmd::PartitionOptions& options) {
  SCOPED_TRACE(entry_lines);
  return check_partition(parse_entry(entry_lines), tolerance, std::move(arguments), options);
}

}  // namespace tessera::testing
