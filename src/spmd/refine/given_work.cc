// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/refine/given_work.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "src/spmd/collectives/count.h"
#include "src/spmd/partitioner/given_ways.h"

namespace tessera::spmd {
namespace {

using ir::Opcode;

double ways(const ir::Instruction& i) {
  const auto rule = rule_for(i);
  if (!rule || i.sharding.size() != 1) return 1;
  std::vector<const TensorSharding*> operands;
  for (const ir::Instruction* o : i.operands) {
    if (o->sharding.size() != 1) return 1;
    operands.push_back(&o->sharding[0]);
  }
  return ways_as_given(*rule, operands, {&i.sharding[0]});
}

}  // namespace

std::unordered_map<const ir::Computation*, double> executions(const ir::Module& module) {
  std::unordered_map<const ir::Computation*, double> times;
  times[module.entry()] = 1;
  const auto& all = module.computations();
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    const double here = times[c->get()];
    for (const auto& i : (*c)->instructions()) {
      double each = here;
      if (i->is(Opcode::while_)) {
        each *= double(i->get<ir::WhileAttrs>().known_trip_count.value_or(1));
      }
      for (const ir::Computation* callee : i->called) times[callee] += each;
    }
  }
  return times;
}

DotWork dot_work(const ir::Module& module) {
  const auto times = executions(module);
  const double devices = double(module.mesh ? module.mesh->num_devices() : module.num_partitions);
  DotWork work;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::dot) && !i->is(Opcode::convolution)) continue;
      const double flops = times.at(c.get()) * dot_flops(*i);
      work.as_given += flops / ways(*i);
      work.least += flops / devices;
    }
  }
  return work;
}

}  // namespace tessera::spmd
