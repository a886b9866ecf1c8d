// SPDX-License-Identifier: Apache-2.0
// The stages of the partitioner: reshards as instructions, then one device's program.
#include "src/spmd/partitioner/partition.h"

#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/module_partitioner.h"

namespace tessera::spmd {

ExplicitProgram insert_reshards(const ir::Module& module, const PartitionOptions& options) {
  ExplicitProgram out;
  out.module = ModulePartitioner(module, options, &out.origins).run();
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
