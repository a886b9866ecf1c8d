// SPDX-License-Identifier: Apache-2.0
// What HLO text says about shardings by means of custom calls.
#include <cstdlib>

#include "src/ir/constraint.h"
#include "src/ir/custom_call_targets.h"
#include "src/ir/hooks.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {
namespace {

/// `xla.sdy.sharding_group_id="3 : i64"`
int group_of(const ir::Instruction& i) {
  auto it = i.frontend_attributes->find("xla.sdy.sharding_group_id");
  const char* text = it == i.frontend_attributes->end() ? "" : it->second.c_str();
  char* end = nullptr;
  const long long id = std::strtoll(text, &end, 10);
  if (end == text || id < 0 || id > 1 << 30) {
    throw ValueError("the sharding group " + i.name + " has no number in xla.sdy.sharding_group_id",
                     i.location());
  }
  return int(id);
}

void join_group(ir::Instruction* i) {
  ir::Instruction* x = i->operands().size() == 1 ? i->operands()[0] : nullptr;
  if (!x || !x->shape.is_array()) {
    throw ValueError("the sharding group " + i->name + " takes one array", i->location());
  }
  if (x->sharding.empty()) {
    TensorSharding s;
    s.kind = TensorSharding::Kind::unknown;
    x->sharding.push_back(std::move(s));
  }
  x->sharding.front().shard_group = group_of(*i);
}

bool states_result(const ir::Instruction& i) {
  const auto* constraint = i.attrs.get_if<ir::ShardingConstraintAttrs>();
  return constraint && constraint->kind == ir::ShardingConstraintAttrs::Kind::result;
}

/// A constraint that states a result's sharding states it of the result itself, as attributes of
/// functions do.
void read_results(ir::Computation* entry) {
  ir::Instruction* root = entry->root();
  const bool element = root->is(ir::Opcode::get_tuple_element);
  ir::Instruction* all = element ? root->operands()[0] : root;
  if (!all->is(ir::Opcode::tuple)) return;
  bool any = false;
  for (std::size_t k = 0; k < all->operands().size(); ++k) {
    const ir::Instruction& x = *all->operands()[k];
    if (!x.shape.is_array()) return;
    if (!states_result(x)) continue;
    if (element && root->get<ir::GetTupleElementAttrs>().index != std::int64_t(k)) continue;
    const std::size_t leaf = element ? 0 : k, leaves = element ? 1 : all->operands().size();
    if (root->sharding.size() != leaves || x.sharding.size() != 1 ||
        !root->sharding[leaf].same_placement(x.sharding[0])) {
      continue;
    }
    root->sharding[leaf] = x.sharding[0];
    all->set_operand(k, x.operands()[0]);
    any = true;
  }
  if (!any) return;
  for (const auto& i : entry->instructions()) {
    if (states_result(*i)) i->drop_side_effect();
  }
  entry->remove_dead();
}

}  // namespace

void normalize_custom_calls(ir::Module* module) {
  read_results(module->entry());
  for (const auto& c : module->computations()) {
    bool groups = false;
    for (const auto& i : c->instructions()) {
      if (const auto* constraint = i->attrs.get_if<ir::ShardingConstraintAttrs>()) {
        if (ir::is_reshard(*i)) {
          for (TensorSharding& s : i->sharding) s = s.closed();
        }
        for (std::int64_t d : constraint->unspecified_dims) {
          for (TensorSharding& s : i->sharding) {
            if (d < s.rank()) s.dims[std::size_t(d)].open = true;
          }
        }
      } else if (i->is(ir::Opcode::custom_call) &&
                 i->get<ir::CustomCallAttrs>().target == ir::kShardingGroupTarget) {
        join_group(i.get());
        i->drop_side_effect();
        groups = true;
      }
    }
    if (groups) c->remove_dead();
  }
}

}  // namespace tessera::spmd::propagation
