// SPDX-License-Identifier: Apache-2.0
// The stages of the partitioner: reshards as instructions, then one device's program.
#include "src/spmd/partitioner/partition.h"

#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/module_partitioner.h"
#include "src/spmd/partitioner/stencils/stencils.h"

namespace tessera::spmd {

ExplicitProgram insert_reshards(const ir::Module& module, const PartitionOptions& options) {
  ExplicitProgram out;
  if (!may_have_stencils(module)) {
    out.module = ModulePartitioner(module, options, &out.origins).run();
    return out;
  }
  const std::unique_ptr<ir::Module> expanded = module.clone();
  Origins sources;
  for (std::size_t k = 0; k < module.computations().size(); ++k) {
    const auto& from = module.computations()[k]->instructions();
    const auto& to = expanded->computations()[k]->instructions();
    for (std::size_t i = 0; i < from.size(); ++i) sources[to[i].get()] = from[i].get();
  }
  expand_stencils(expanded.get(), options, &sources);
  out.module = ModulePartitioner(*expanded, options, &out.origins).run();
  for (auto& [instruction, origin] : out.origins) origin = sources.at(origin);
  return out;
}

std::unique_ptr<ir::Module> lower_reshards(const ExplicitProgram& program,
                                           const PartitionOptions& options,
                                           PartitionReport* report) {
  return ModulePartitioner(*program.module, options, program.origins, report).run();
}

std::unique_ptr<ir::Module> partition(const ir::Module& module, const PartitionOptions& options,
                                      PartitionReport* report) {
  CompileContext context;
  PartitionOptions shared = options;
  if (!shared.context) shared.context = &context;
  ExplicitProgram program = insert_reshards(module, shared);
  optimize_reshards(&program, shared);
  return lower_reshards(program, shared, report);
}

}  // namespace tessera::spmd
