// SPDX-License-Identifier: Apache-2.0
// Random arrays and programs of one operation, run by kernels and by the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "src/base/threads/background.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/rewrite/builder.h"
#include "tests/codegen/run_module.h"
#include "tests/codegen/stated_accesses.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/describe.h"
#include "tests/support/fixtures.h"
#include "tests/support/random_literal.h"
#include "tests/support/with_variable.h"

namespace tessera::testing {

using ir::Instruction;
using ir::Opcode;

inline const std::vector<DType> kTypes = {DType::pred, DType::s8,  DType::s16,  DType::s32,
                                          DType::s64,  DType::u8,  DType::u16,  DType::u32,
                                          DType::u64,  DType::f16, DType::bf16, DType::f32,
                                          DType::f64,  DType::c64, DType::c128};

struct Random {
  std::mt19937_64 engine;
  explicit Random(std::uint64_t seed) : engine(seed) {}
  std::int64_t below(std::int64_t n) { return std::int64_t(engine() % std::uint64_t(n)); }
  bool chance(double p) { return double(below(1 << 20)) < p * (1 << 20); }
  template <class T>
  const T& pick(const std::vector<T>& v) {
    return v[std::size_t(below(std::int64_t(v.size())))];
  }
  Dims dims(std::int64_t rank, std::int64_t most = 6) {
    Dims out;
    for (std::int64_t d = 0; d < rank; ++d) out.push_back(chance(0.04) ? 0 : 1 + below(most));
    return out;
  }
  Dims permutation(std::int64_t rank) {
    Dims out(static_cast<std::size_t>(rank));
    std::iota(out.begin(), out.end(), 0);
    std::shuffle(out.begin(), out.end(), engine);
    return out;
  }
  /// `special`: also extreme numbers, infinities and NaNs.
  Literal literal(DType t, const Dims& dims, bool special = false) {
    return random_literal(&engine, t, dims, special);
  }
  double number(DType t, bool special) { return random_number(&engine, t, special); }
};

/// What the type's precision leaves of results; sums of many elements more.
inline Tolerance tolerance_of(DType t, double more) {
  Tolerance out;
  const double eps = t == DType::bf16                      ? 8e-3
                     : t == DType::f16                     ? 1e-3
                     : t == DType::f32 || t == DType::c64  ? 1e-6
                     : t == DType::f64 || t == DType::c128 ? 1e-14
                                                           : 0;
  out.kind = eps == 0 ? Tolerance::Kind::exact : Tolerance::Kind::close;
  out.relative = eps * more;
  out.absolute = more > 1 ? eps * more : 0;
  return out;
}

/// Plans and runs a module, and expects these results, such as the evaluator's.
inline void expect_results(const ir::Module& module, const std::vector<Literal>& arguments,
                           const Literal& want, double more = 1) {
  const std::vector<Literal> leaves = leaves_of(want), got = run_module(module, arguments);
  ASSERT_EQ(got.size(), leaves.size());
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    EXPECT_EQ(difference(got[k], leaves[k], tolerance_of(leaves[k].dtype(), more)), "")
        << "result " << k;
  }
}

struct Program {
  ir::Module module{"m"};
  ir::Computation* entry = nullptr;
  std::vector<Literal> arguments;
  ir::Builder b{nullptr};

  Program() : entry(module.add_computation("main")), b(entry) { module.set_entry(entry); }
  Instruction* argument(Literal value) {
    arguments.push_back(std::move(value));
    return b.parameter(std::int64_t(arguments.size()) - 1, arguments.back().shape());
  }
  /// The type's precision leaves this; sums of many elements more.
  void check(Instruction* root, std::uint64_t seed, double more = 1) {
    entry->set_root(root);
    const DescribeFailure what(
        [&] { return "seed " + std::to_string(seed) + "\n" + ir::to_string(module); });
    try {
      expect_results(module, arguments, evaluator::evaluate(module, arguments), more);
      if (seed % 8 == 3) expect_equal_tiers();
      if (seed % 4 == 1) check_accesses(seed);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  /// Optimized code gives the bits of the quick code that it replaces.
  void expect_equal_tiers() const {
    const WithVariable cache("TESSERA_CACHE_DIR", "off"), jit("TESSERA_JIT", "always"),
        tiers("TESSERA_TIERED_COMPILATION", "on");
    const codegen::BuiltPlan built = plan_of(module);
    const auto quick = run_plan(module, built.plan, {arguments})[0];
    wait_for_background();
    const auto optimized = run_plan(module, built.plan, {arguments})[0];
    for (std::size_t i = 0; i < quick.size(); ++i) {
      EXPECT_TRUE(quick[i].byte_count() == optimized[i].byte_count() &&
                  std::memcmp(quick[i].bytes(), optimized[i].bytes(), quick[i].byte_count()) == 0)
          << "result " << i;
    }
  }
  /// Its kernels read and write what they state.
  void check_accesses(std::uint64_t seed) const {
    const codegen::PlannedProgram program = codegen::plan_program(module);
    std::int64_t element = 1;
    for (const auto& i : entry->instructions()) {
      if (i->shape.is_array()) element = std::max(element, std::int64_t(byte_size(i->shape.dtype)));
    }
    StatedAccesses check(program, element, seed);
    check.check(arguments);
    checked_accesses() += check.checked();
  }
  /// How many times some units of a kernel were checked.
  static int& checked_accesses() {
    static int count = 0;
    return count;
  }
  static Tolerance tolerance(DType t, double more) { return tolerance_of(t, more); }
};

constexpr std::uint64_t kPrograms = 400;

}  // namespace tessera::testing
