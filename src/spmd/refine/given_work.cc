// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/refine/given_work.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "src/spmd/collectives/count.h"
#include "src/spmd/factor_rule.h"

namespace tessera::spmd {
namespace {

using ir::Opcode;

/// The longest of the lists if it begins like the others, else what all begin with.
IndexList agreed(const std::vector<const IndexList*>& lists) {
  IndexList out;
  for (std::size_t n = 0;; ++n) {
    bool some = false, all = true;
    int axis = -1;
    for (const IndexList* list : lists) {
      if (list->size() <= n) continue;
      const int a = (*list)[n];
      if (some && a != axis) all = false;
      some = true;
      axis = a;
    }
    if (!some || !all) return out;
    out.push_back(axis);
  }
}

double ways_as_given(const ir::Instruction& i) {
  const auto rule = rule_for(i);
  if (!rule || i.sharding.size() != 1 || !i.sharding[0].mesh) return 1;
  // By factor: the axes of the result, and of the operands that have any.
  std::vector<const IndexList*> wanted(rule->factors.size(), nullptr);
  std::vector<std::vector<const IndexList*>> held(rule->factors.size());
  const auto each = [](const TensorFactors& factors, const std::vector<TensorSharding>& sharding,
                       auto&& use) {
    if (sharding.size() != 1 || sharding[0].dims.size() != factors.size()) return;
    for (std::size_t d = 0; d < factors.size(); ++d) {
      const IndexList& axes = sharding[0].dims[d].axes;
      if (factors[d].size() == 1 && !axes.empty()) use(std::size_t(factors[d][0]), &axes);
    }
  };
  each(rule->results[0], i.sharding,
       [&](std::size_t f, const IndexList* axes) { wanted[f] = axes; });
  for (std::size_t k = 0; k < i.operands.size(); ++k) {
    each(rule->operands[k], i.operand(k)->sharding,
         [&](std::size_t f, const IndexList* axes) { held[f].push_back(axes); });
  }
  double ways = 1;
  IndexList taken;
  const auto take = [&](const IndexList& axes) {
    for (const int a : axes) {
      if (std::find(taken.begin(), taken.end(), a) != taken.end()) break;
      taken.push_back(a);
      ways *= double(i.sharding[0].mesh->axes[std::size_t(a)].size);
    }
  };
  for (const bool reduction : {false, true}) {
    for (std::size_t f = 0; f < rule->factors.size(); ++f) {
      if ((rule->factors[f].kind == FactorKind::reduction) != reduction) continue;
      if (wanted[f]) {
        take(*wanted[f]);
      } else if (held[f].size() >= (reduction ? 2 : 1)) {
        take(agreed(held[f]));
      }
    }
  }
  return ways;
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

double dot_flops_as_given(const ir::Module& module) {
  const auto times = executions(module);
  double flops = 0;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::dot) && !i->is(Opcode::convolution)) continue;
      flops += times.at(c.get()) * dot_flops(*i) / ways_as_given(*i);
    }
  }
  return flops;
}

}  // namespace tessera::spmd
