// SPDX-License-Identifier: Apache-2.0
// Replicas, aliases and calls of a program for a plugin.
#include "src/compiler/accelerators/device_program.h"

#include <algorithm>
#include <set>

#include "src/compiler/accelerators/host_calls.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::compiler::accelerators {
namespace {

using ir::Instruction;
using ir::Opcode;

void join_replicas(ir::Computation* c) {
  for (const auto& i : c->instructions()) {
    i->sharding.clear();
    if (i->attrs.get_if<ir::CollectiveAttrs>() != nullptr) {
      auto& attrs = i->edit<ir::CollectiveAttrs>();
      attrs.channel_id.reset();
      attrs.use_global_device_ids = false;
    } else if (i->attrs.get_if<ir::PermuteAttrs>() != nullptr) {
      i->edit<ir::PermuteAttrs>().channel_id.reset();
    }
  }
}

}  // namespace

MemoryKind memory_of_result(const Instruction& result) {
  const auto* placement = result.attrs.get_if<ir::DevicePlacementAttrs>();
  return placement == nullptr ? MemoryKind::device : placement->memory;
}

std::vector<const Instruction*> results_of(const ir::Computation& entry) {
  const Instruction* root = entry.root();
  if (!root->shape.is_tuple) return {root};
  if (!root->is(Opcode::tuple)) return {};
  return {root->operands().begin(), root->operands().end()};
}

void make_replicas(ir::Module* module) {
  module->replica_count = module->num_partitions;
  module->num_partitions = 1;
  module->mesh = nullptr;
  module->frontend_attributes.clear();
  for (const auto& c : module->computations()) join_replicas(c.get());
  static const auto& numbers =
      ir::keep(ir::PatternSet("make-replicas")
                   .add(Opcode::partition_id, [](const Instruction&, ir::Builder& b) {
                     return b.emit(Opcode::replica_id, {});
                   }));
  ir::walk_and_apply_patterns(module, numbers);
}

std::vector<bool> alias_donated(ir::Module* module) {
  const ir::Computation& entry = *module->entry();
  const Instruction& root = *entry.root();
  const std::vector<const Instruction*> results = results_of(entry);
  std::vector<bool> aliased(entry.parameters().size());
  std::set<std::size_t> taken;
  for (const ir::Alias& a : module->input_output_alias) {
    aliased[std::size_t(a.parameter)] = true;
    taken.insert(a.output.empty() ? 0 : std::size_t(a.output[0]));
  }
  for (const auto& [number, path] : module->buffer_donor) {
    const Instruction& p = *entry.parameter(std::size_t(number));
    if (!path.empty() || aliased[std::size_t(number)]) continue;
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (taken.count(r) > 0 || !(results[r]->shape == p.shape) ||
          memory_of_result(*results[r]) != ir::memory_of_parameter(p)) {
        continue;
      }
      const Dims output = root.shape.is_tuple ? Dims{std::int64_t(r)} : Dims();
      module->input_output_alias.push_back({output, number, {}, false});
      aliased[std::size_t(number)] = true;
      taken.insert(r);
      break;
    }
  }
  module->buffer_donor.clear();
  return aliased;
}

void check_calls(const ir::Module& module, const std::string& platform, std::size_t processes) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      const auto* call = i->attrs.get_if<ir::CustomCallAttrs>();
      if (call == nullptr || is_known_to_plugins(*i)) continue;
      throw NotImplementedError(i->describe() + ": platform '" + platform +
                                    "' has no form of the custom call \"" + call->target +
                                    "\", which the host computes where it can read the devices' "
                                    "memory alone" +
                                    (processes > 1 ? ", and that of all devices of a program: this "
                                                     "one is of several processes"
                                                   : "") +
                                    "; valid: compute this part on devices(\"cpu\")",
                                i->location());
    }
  }
}

void check_feeds(const ir::Module& module, const std::string& platform) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::infeed) && !i->is(Opcode::outfeed) && !i->is(Opcode::send) &&
          !i->is(Opcode::recv)) {
        continue;
      }
      throw NotImplementedError(i->describe() + ": on platform '" + platform +
                                    "' nobody would feed or answer the program, which would wait "
                                    "for ever; valid: parameters and results",
                                i->location());
    }
  }
}

}  // namespace tessera::compiler::accelerators
