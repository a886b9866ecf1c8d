// SPDX-License-Identifier: Apache-2.0
// Runs a pass on a device program, and the program before and after it.
#include "tests/spmd/collective_case.h"

#include <gtest/gtest.h>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/count.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

constexpr const char* kHead = R"(HloModule m, num_partitions=8
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
addi { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b) }
)";

}  // namespace

int CollectiveCase::count(ir::Opcode op) const { return count_of(*after, op); }

int CollectiveCase::collectives() const { return count_collectives(*after); }

namespace {

CollectiveCase check(const std::string& text,
                     const std::function<std::size_t(std::unique_ptr<ir::Module>*)>& pass,
                     double tolerance) {
  CollectiveCase out;
  const bool whole_module = text.rfind("HloModule", 0) == 0;
  out.before = ir::parse_hlo(whole_module ? text : kHead + text);
  out.after = out.before->clone();
  out.changed = pass(&out.after);
  ir::verify(*out.after);
  out.text = ir::to_string(*out.after);
  // What is printed is the program.
  EXPECT_EQ(ir::to_string(*ir::parse_hlo(out.text)), out.text);
  out.was = cost::count_communication(*out.before);
  out.is = cost::count_communication(*out.after);
  Dice dice(11);
  const auto arguments = random_arguments_of_devices(*out.before, 8, dice, tolerance == 0);
  const auto wanted = evaluator::evaluate_spmd(*out.before, arguments);
  const auto got = evaluator::evaluate_spmd(*out.after, arguments);
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    std::vector<TensorSharding> shardings;
    for (const Shape& leaf : flatten(wanted[d].shape())) {
      shardings.push_back(
          TensorSharding::replicated_on(make_logical_mesh({{"x", 1}}), leaf.rank()));
    }
    const auto fault = difference({got[d]}, wanted[d], shardings, tolerance);
    EXPECT_FALSE(fault) << "device " << d << ": " << *fault << "\n" << out.text;
    if (fault) break;
  }
  return out;
}

}  // namespace

CollectiveCase check_collectives(const std::string& text,
                                 const std::function<std::size_t(ir::Module*)>& pass,
                                 double tolerance) {
  return check(
      text, [&](std::unique_ptr<ir::Module>* m) { return pass(m->get()); }, tolerance);
}

CollectiveCase check_optimized(const std::string& text, double tolerance,
                               const spmd::CollectiveOptions& options) {
  const auto pass = [&](std::unique_ptr<ir::Module>* m) {
    spmd::optimize_collectives(m, options);
    return std::size_t(0);
  };
  return check(text, pass, tolerance);
}

}  // namespace tessera::testing
