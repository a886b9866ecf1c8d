// SPDX-License-Identifier: Apache-2.0
// The work of a module's dots, split as its shardings state.
#include "src/spmd/refine/given_work.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "src/spmd/collectives/count.h"
#include "src/spmd/partitioner/layout/given_ways.h"

namespace tessera::spmd {
namespace {

using ir::Opcode;

double ways(const ir::Instruction& i) {
  const auto rule = rule_for(i);
  if (!rule || i.sharding.size() != 1) return 1;
  std::vector<const TensorSharding*> operands;
  for (const ir::Instruction* o : i.operands()) {
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
      for (const ir::Computation* callee : i->called()) times[callee] += each;
    }
  }
  return times;
}

DotWork dot_work(const ir::Module& module) {
  const double devices = double(module.mesh ? module.mesh->num_devices() : module.num_partitions);
  std::unordered_map<const ir::Computation*, DotWork> of;
  for (const auto& c : module.computations()) {
    DotWork& work = of[c.get()];
    for (const auto& i : c->instructions()) {
      DotWork here;
      if (i->is(Opcode::dot) || i->is(Opcode::convolution)) {
        const double flops = dot_flops(*i);
        here = {flops / ways(*i), flops / devices};
      }
      for (const ir::Computation* callee : i->called()) {
        const DotWork& its = of[callee];
        if (!i->is(Opcode::conditional)) {
          here.as_given += its.as_given;
          here.least += its.least;
        } else {  // as it is counted: the most that a branch has
          here.as_given = std::max(here.as_given, its.as_given);
          here.least = std::max(here.least, its.least);
        }
      }
      const double times =
          i->is(Opcode::while_) ? double(i->get<ir::WhileAttrs>().known_trip_count.value_or(1)) : 1;
      work.as_given += times * here.as_given;
      work.least += times * here.least;
    }
  }
  return of[module.entry()];
}

}  // namespace tessera::spmd
