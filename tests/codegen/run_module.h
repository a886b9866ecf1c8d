// SPDX-License-Identifier: Apache-2.0
// Modules through the plan and the executor, on literals.
#pragma once

#include <memory>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/codegen/plan/liveness.h"
#include "src/codegen/plan/plan_builder.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/runtime/executor.h"
#include "src/runtime/verify_plan.h"
#include "tests/support/buffers.h"

namespace tessera::testing {

inline codegen::BuiltPlan plan_of(const ir::Module& module) {
  codegen::BuiltPlan built = codegen::build_plan(module);
  codegen::plan_memory(&built.plan);
  runtime::finalize(&built.plan);
  runtime::verify_plan(built.plan);
  return built;
}

/// args[device][leaf of the parameters] → results[device][leaf].
inline std::vector<std::vector<Literal>> run_plan(const ir::Module& module,
                                                  const runtime::Plan& plan,
                                                  const std::vector<std::vector<Literal>>& args,
                                                  runtime::RunCounters* counters = nullptr) {
  std::vector<std::vector<DeviceBuffer>> buffers(plan.parameters.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (const auto& device : args) buffers[i].push_back(to_buffer(device.at(i)));
  }
  const auto results = runtime::run(plan, std::move(buffers), {}, counters);
  const std::vector<Shape> shapes = flatten(module.entry()->root()->shape);
  std::vector<std::vector<Literal>> out(std::size_t(plan.num_devices));
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t d = 0; d < out.size(); ++d) {
      out[d].push_back(from_buffer(results[i][d], shapes[i]));
    }
  }
  return out;
}

/// On one device.
inline std::vector<Literal> run_module(const ir::Module& module, const std::vector<Literal>& args) {
  const codegen::BuiltPlan built = plan_of(module);
  return run_plan(module, built.plan, {args})[0];
}

}  // namespace tessera::testing
