// SPDX-License-Identifier: Apache-2.0
// Builds the report of tessera explain: the communication of a program and what it is for.
#include "src/compiler/explain/explain.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "src/cost/collectives.h"
#include "src/cost/executions.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/auto_sharding/argument_views.h"
#include "src/spmd/communication_report.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::compiler {
namespace explain {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Propagates by the rules, with a record, and makes the report speak of that module: names are the
/// same in both, but for uses of arguments that the compiler gave a sharding of their own.
void follow_rules(Run* run) {
  run->ruled = run->prepared->clone();
  spmd::propagate(run->ruled.get(), &run->provenance);
  std::unordered_map<std::string, const Instruction*> by_name;
  for (const auto& c : run->ruled->computations()) {
    for (const auto& i : c->instructions()) by_name.emplace(c->name() + "/" + i->name, i.get());
  }
  auto named = [&](const Instruction* i) -> const Instruction* {
    if (!i) return nullptr;
    if (auto it = by_name.find(i->parent->name() + "/" + i->name); it != by_name.end()) {
      return it->second->shape == i->shape ? it->second : nullptr;
    }
    if (!spmd::is_argument_view(*i)) return nullptr;
    auto it = by_name.find(i->parent->name() + "/" + i->operand(0)->name);
    return it == by_name.end() ? nullptr : it->second;
  };
  for (const auto& c : run->compilation.source->computations()) {
    for (const auto& i : c->instructions()) {
      const Instruction* known = named(i.get());
      if (known && known->name == i->name) run->final_of[known] = i.get();
    }
  }
  for (spmd::CommunicationRecord& r : run->compilation.report.records) {
    r.op = named(r.op);
    r.value = named(r.value);
  }
}

}  // namespace

std::unique_ptr<Run> run_stages_for(const ir::Module& module, const Options& options) {
  Compilation c;
  c.options = options;
  c.options.keep_stages = false;
  c.options.runs = false;
  c.module = module.clone();
  run_through(&c, Phase::prepare);
  std::unique_ptr<ir::Module> prepared = c.module->clone();
  double reshard_bytes = 0;
  const auto keep_bytes = [&](double bytes) {
    reshard_bytes = bytes;
    return true;
  };
  std::unique_ptr<Run> run = run_prepared(std::move(c.module), options, kExplaining, keep_bytes);
  run->prepared = std::move(prepared);
  run->reshard_bytes = reshard_bytes;
  if (run->compilation.source) follow_rules(run.get());
  return run;
}

std::unique_ptr<Run> run_prepared(std::unique_ptr<ir::Module> prepared, const Options& options,
                                  const Purpose& purpose,
                                  std::function<bool(double bytes)> is_worthwhile) {
  auto run = std::make_unique<Run>();
  Compilation& c = run->compilation;
  c.options = options;
  c.options.keep_stages = false;
  c.options.runs = false;
  c.module = std::move(prepared);
  c.purpose = purpose;
  c.is_worthwhile = std::move(is_worthwhile);
  c.next = Phase::partition;
  run_through(&c, Phase::select);
  return run;
}

std::vector<Found> find_entries(const Run& run, const CauseChains& why) {
  const ir::Module& device = *run.compilation.module;
  const std::int64_t devices =
      std::max<std::int64_t>(1, device.num_partitions * device.replica_count);
  const auto runs = cost::executions(device);
  using Key = std::tuple<const Instruction*, const Instruction*, std::size_t, std::string,
                         std::string, std::string>;
  std::map<Key, std::size_t> known;
  std::vector<Found> out;
  for (const auto& c : device.computations()) {
    auto r = runs.find(c.get());
    if (r == runs.end()) continue;
    for (const auto& i : c->instructions()) {
      if (!cost::communicates(*i)) continue;
      // A -done has its -start's bytes.
      if (std::string(ir::name(i->opcode)).ends_with("-done")) continue;
      ExplainCollective one;
      one.kind = cost::kind_of_collective(*i);
      one.instruction = i->name;
      one.computation = c->name();
      one.bytes = cost::received_bytes(*i, devices);
      one.counted = r->second.counted > 0;
      one.times = one.counted ? r->second.counted : r->second.times;
      one.trips_known = r->second.trips_known;
      const spmd::CommunicationRecord* record = run.compilation.report.record_of(*i);
      Key key =
          record ? Key{record->op,   record->value, record->leaf,
                       record->from, record->to,    record->reason + record->location.to_string()}
                 : Key{i.get(), nullptr, 0, "", "", ""};
      auto [it, fresh] = known.try_emplace(key, out.size());
      if (fresh) {
        Found f;
        f.record = record;
        ExplainEntry& e = f.entry;
        if (record) {
          e.op = record->op ? why.label(*record->op) : record->for_op;
          e.op_name = record->op ? record->op->metadata->op_name : "";
          e.location = location_text(record->location);
          e.from = record->from;
          e.to = record->to;
          e.reason = record->reason;
        } else {
          e.op = one.kind;
          e.op_name = i->metadata->op_name;
          e.location = location_text(i->location());
          e.reason = "written in the program";
        }
        out.push_back(std::move(f));
      }
      ExplainEntry& e = out[it->second].entry;
      if (record) e.full_gather = e.full_gather || record->full_gather;
      if (one.counted) e.bytes += one.bytes * one.times;
      e.collectives.push_back(std::move(one));
    }
  }
  for (Found& f : out) {
    if (f.record && f.record->op) {
      explain_entry(why, &f);
    } else if (f.record) {
      f.entry.conflicts.push_back("the compiler put this operation in itself");
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Found& a, const Found& b) { return a.entry.bytes > b.entry.bytes; });
  return out;
}

std::vector<ExplainValue> list_values(const Run& run, const CauseChains& why) {
  std::vector<ExplainValue> out;
  const auto& graph = why.provenance().graph;
  std::map<const Instruction*, std::int64_t> index;
  for (const ir::Computation* c : graph.computations) {
    for (const auto& i : c->instructions()) index.emplace(i.get(), std::int64_t(index.size()));
  }
  for (const ir::Computation* c : graph.computations) {
    for (const auto& i : c->instructions()) {
      ExplainValue v;
      v.name = i->name;
      // The tuple of all results has the name of none of them.
      const bool results = i.get() == why.module().entry()->root() && i->is(ir::Opcode::tuple) &&
                           i->operands().size() > 1;
      v.op = results ? "results" : why.label(*i);
      v.op_name = i->metadata->op_name;
      v.location = location_text(i->location());
      v.type = i->shape.to_string();
      v.computation = c->name();
      const auto at = run.final_of.find(i.get());
      for (const TensorSharding& s : (at == run.final_of.end() ? i.get() : at->second)->sharding) {
        v.spec += (v.spec.empty() ? "" : ", ") + s.to_spec_string();
      }
      if (i->shape.is_tuple) v.spec = "(" + v.spec + ")";
      for (const Instruction* o : i->operands()) v.operands.push_back(index.at(o));
      const int value = i->shape.is_tuple ? -1 : why.value_of({i.get(), 0});
      if (value >= 0) {
        for (const auto& cause : why.provenance().causes[std::size_t(value)]) {
          ExplainCause e;
          e.dim = cause.dim;
          e.axes = CauseChains::axis_names(*why.provenance().mesh, cause.axes);
          // One step of the chain, in the same words.
          const ExplainStep s = why.step(value, &cause);
          e.op = s.op;
          e.location = s.location;
          e.how = s.how;
          using Kind = spmd::propagation::Cause::Kind;
          if (cause.kind == Kind::rule && cause.from >= 0) {
            e.from = index.at(why.tensor_of(cause.from).instruction);
          }
          v.causes.push_back(std::move(e));
        }
      }
      out.push_back(std::move(v));
    }
  }
  return out;
}

}  // namespace explain

Explanation explain_module(const ir::Module& module, const Options& options,
                           const ExplainOptions& what, explain::Names names) {
  using namespace explain;
  const std::unique_ptr<Run> run = run_stages_for(module, options);
  const ir::Module& propagated = run->ruled ? *run->ruled : *run->compilation.module;
  const CauseChains why(run->provenance, propagated, std::move(names), run->final_of);
  std::vector<Found> found = find_entries(*run, why);
  if (what.suggest && run->compilation.source) suggest(*run, why, options, what, &found);
  Explanation::Parts parts;
  parts.module = module.name;
  parts.devices = propagated.num_partitions;
  parts.layouts = options.layouts;
  if (module.mesh) {
    for (const MeshAxis& axis : module.mesh->axes) {
      parts.mesh +=
          (parts.mesh.empty() ? "" : ", ") + axis.to_string() + "=" + std::to_string(axis.size);
    }
  }
  parts.values = list_values(*run, why);
  add_choices(*run, &parts.values);
  std::map<const ir::Instruction*, std::size_t> index;
  for (const ir::Computation* c : run->provenance.graph.computations) {
    for (const auto& i : c->instructions()) index.emplace(i.get(), index.size());
  }
  for (std::size_t k = 0; k < found.size(); ++k) {
    Found& f = found[k];
    parts.total_bytes += f.entry.bytes;
    auto it = f.record ? index.find(f.record->op) : index.end();
    if (it != index.end()) {
      parts.values[it->second].entries.push_back(std::int64_t(k));
      parts.values[it->second].bytes += f.entry.bytes;
    }
    parts.entries.push_back(std::move(f.entry));
  }
  return Explanation(std::move(parts));
}

}  // namespace tessera::compiler
