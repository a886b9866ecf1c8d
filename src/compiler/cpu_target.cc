// SPDX-License-Identifier: Apache-2.0
// The target of virtual devices: passes for CPUs, prices from plans, and plans that run.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "src/codegen/custom_calls/custom_calls.h"
#include "src/codegen/plan/liveness.h"
#include "src/codegen/plan/plan_builder.h"
#include "src/compiler/pipeline.h"
#include "src/compiler/planned_executable.h"
#include "src/cost/peak_memory.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/limits.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/runtime/verify_plan.h"

namespace tessera::compiler {
namespace {

constexpr PassStage kSimplification[] = {
    {"simplify", "cpu-simplify"},
    {"common", "common"},
    {"stencils", "cpu-stencils"},
};
constexpr PassStage kSelection[] = {
    {"loop-invariants", "move-invariants-out-of-loops?(simplify<1>,common)"},
    {"elementwise", "cpu-elementwise"},
    {"split-reductions", "split-reductions"},
};

// The plan of a program that isn't run tells no more devices than these apart.
constexpr std::int64_t kToldApart = 64;

/// TESSERA_EVALUATOR_OPS=error.
void refuse_evaluator_ops(const codegen::BuiltPlan& built) {
  constexpr std::size_t kNamed = 8;
  std::string names;
  for (std::size_t k = 0; k < std::min(kNamed, built.evaluator_ops.size()); ++k) {
    names += "\n  " + built.evaluator_ops[k];
  }
  const std::size_t more =
      built.evaluator_ops.size() - std::min(kNamed, built.evaluator_ops.size());
  if (more > 0) names += "\n  and " + std::to_string(more) + " more";
  throw CompileError("operations without a kernel would run on the reference evaluator:" + names +
                         "\n(because of TESSERA_EVALUATOR_OPS=error; allow runs them, slowly)",
                     Location{});
}

class CpuTarget final : public Target {
 public:
  CpuTarget() { codegen::register_builtin_custom_calls(); }
  std::string name() const override { return "cpu"; }
  std::span<const PassStage> simplification() const override { return kSimplification; }
  std::span<const PassStage> selection() const override { return kSelection; }

  /// As a plan of the program would hold them: the first one, without the others that it is
  /// compared with at the end. Of a large program, or one that calls what isn't known here and so
  /// has no plan, about.
  ///
  /// Without a plan it is no use: Target::peak_bytes knows of no fusion, and by it 40 of the 90
  /// programs of tests/corpus get other collectives or another order, whose plans hold up to 1.5
  /// times as much. By the first plan two do (of 187, with others), which hold as much, or less.
  double peak_bytes(const ir::Module& module, bool runs) const override {
    if (module.instruction_count() > ir::kMostTried) {
      return Target::peak_bytes(module, runs);
    }
    try {
      const bool all = runs || module.num_partitions <= kToldApart;
      const std::int64_t devices = all ? module.num_partitions : 1;
      runtime::Plan plan = codegen::first_plan(module, devices);
      return double(codegen::settle_memory(&plan));
    } catch (const NotImplementedError&) {
      return Target::peak_bytes(module, runs);
    }
  }

  // Uniformity and fusion are decided while the plan is built, from the module as it is now, which
  // stays.
  std::shared_ptr<const Executable> load(Compilation c, StageRecorder* stages) const override {
    codegen::BuiltPlan built;
    std::function<std::unique_ptr<ir::Module>()> fused;
    stages->run("build-plan",
                [&] {
                  const bool runs = c.options.runs;
                  codegen::PlannedProgram planned =
                      codegen::plan_program(*c.module, runs ? c.module->num_partitions : 1);
                  fused = std::move(planned.fused);
                  built =
                      runs ? codegen::materialize(std::move(planned)) : std::move(planned.built);
                },
                {[&] { return ir::to_string(*fused()); }, [&] { ir::verify(*fused()); }});
    if (c.options.refuse_evaluator_ops && !built.evaluator_ops.empty()) {
      refuse_evaluator_ops(built);
    }
    stages->run("memory", [&] { codegen::plan_memory(&built.plan); }, {});
    stages->run("plan", [&] { runtime::finalize(&built.plan); },
                {[&] { return runtime::to_string(built.plan); },
                 [&] { runtime::verify_plan(built.plan); }});
    return planned_executable(std::move(c), std::move(built));
  }
};

}  // namespace

double Target::peak_bytes(const ir::Module& module, bool) const {
  return double(cost::estimated_peak_bytes(module));
}

const Target& cpu_target() {
  static const auto& target = *new CpuTarget;
  return target;
}

}  // namespace tessera::compiler
