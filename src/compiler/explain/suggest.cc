// SPDX-License-Identifier: Apache-2.0
// Which annotation would avoid a movement: candidates are tried by partitioning the program again.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "src/base/threads/task_pool.h"
#include "src/compiler/explain/explain.h"
#include "src/cost/collectives.h"
#include "src/cost/count.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/auto_sharding/argument_views.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/communication_report.h"
#include "src/spmd/propagation/meshes.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::compiler::explain {
namespace {

using ir::Instruction;
using Worthwhile = std::function<bool(double bytes)>;  ///< see Compilation

/// A sharding on one array of the program: in place of what is stated there, or new.
struct Edit {
  std::string computation, instruction;
  std::size_t leaf = 0;
  bool after = false;  ///< a new constraint on that instruction's result
  TensorSharding sharding;
  std::string target;  ///< what the user calls the place; empty: a new constraint

  std::string key() const {
    return computation + "/" + instruction + "/" + std::to_string(leaf) + (after ? "+" : "=") +
           sharding.to_string();
  }
};

/// Of what a program receives, what a better one has at most.
constexpr double kLess = 0.999;

/// What a device receives, computes and holds.
struct Figures {
  double bytes = 0, flops = 0, work = 0, held = 0;
  bool exact = true;  ///< `bytes` are whole numbers: their sum is the same in any order
  std::map<std::string, double> by_movement;  ///< bytes of each collective's record, see below
};

std::string movement_key(const std::string& op, const std::string& value, std::size_t leaf) {
  return op + "|" + value + "|" + std::to_string(leaf);
}

std::string path_of(const Instruction* i) {
  if (!i) return "";
  // A use of an argument in another sharding is the argument still.
  return i->parent->name() + "/" + (spmd::is_argument_view(*i) ? i->operand(0) : i)->name;
}

Instruction* find(ir::Module* module, const std::string& computation, const std::string& name) {
  for (const auto& c : module->computations()) {
    if (c->name() != computation) continue;
    for (const auto& i : c->instructions()) {
      if (i->name == name) return i.get();
    }
  }
  return nullptr;
}

/// Puts a sharding where the edit says. False if the program has no such place.
bool apply(ir::Module* module, const Edit& edit) {
  Instruction* i = find(module, edit.computation, edit.instruction);
  if (!i) return false;
  const std::size_t leaves = flatten(i->shape).size();
  if (edit.leaf >= leaves) return false;
  if (!edit.after) {
    while (i->sharding.size() < leaves) {
      const Shape leaf = flatten(i->shape)[i->sharding.size()];
      i->sharding.push_back(TensorSharding::open_on(module->mesh, leaf.rank()));
    }
    i->sharding[edit.leaf] = edit.sharding;
    return true;
  }
  if (!i->shape.is_array()) return false;
  ir::Computation* c = i->parent;
  ir::Builder b(c);
  b.metadata = i->metadata;
  Instruction* constraint =
      b.emit_shaped(ir::Opcode::sharding_constraint, i->shape, {i}, ir::ShardingConstraintAttrs{});
  constraint->sharding = {edit.sharding};
  i->replace_all_uses_with(constraint);
  constraint->set_operands({i});
  c->sort_topologically();
  return true;
}

Figures measure(const Run& run) {
  const ir::Module& device = *run.compilation.module;
  const cost::CommunicationCount count = cost::count_communication(device);
  Figures f;
  f.bytes = count.total_bytes;
  f.flops = count.dot_flops;
  for (const auto& c : device.computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->shape.is_array()) continue;
      f.work += double(i->shape.element_count());
      if (cost::communicates(*i)) {
        const double bytes = cost::received_bytes(*i, device.num_partitions);
        f.exact = f.exact && bytes == std::floor(bytes);
      }
      if (const spmd::CommunicationRecord* r = run.compilation.report.record_of(*i)) {
        f.by_movement[movement_key(path_of(r->op), path_of(r->value), r->leaf)] +=
            cost::received_bytes(*i, device.num_partitions);
      }
    }
  }
  for (const Instruction* p : device.entry()->parameters()) f.held += double(p->shape.byte_count());
  f.held += double(device.entry()->root()->shape.byte_count());
  return f;
}

std::optional<Figures> measure(std::unique_ptr<ir::Module> prepared, const Options& options,
                               const Purpose& purpose, const Worthwhile& is_worthwhile) {
  try {
    return measure(*run_prepared(std::move(prepared), options, purpose, is_worthwhile));
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    // A sharding that can't be used there is no suggestion.
    return std::nullopt;
  }
}

class Search {
 public:
  Search(const Run& run, const CauseChains& why, const Options& options, int most)
      : run_(run),
        why_(why),
        options_(options),
        left_(most),
        at_once_(!spmd::calls_back(*run.prepared)) {}

  void run(std::vector<Found>* entries) {
    base_ = measure(run_);
    std::vector<Considered> all;
    for (Found& f : *entries) {
      if (f.entry.bytes <= 0 || !f.record || !f.record->op) continue;
      consider(&f, &all);
    }
    confirm_first(all);
    for (const Considered& c : all) settle(c);
  }

 private:
  /// What was found for an entry: the best that costs nothing, and the best that costs memory.
  struct Considered {
    Found* found = nullptr;
    std::string movement;
    double bytes = 0;  ///< of the movement
    std::optional<Edit> free, priced;
  };

  /// Whether a program has less to move, of that movement too, and no more to compute.
  bool is_better(const Figures& f, const std::string& movement, double bytes) const {
    if (f.bytes >= base_.bytes * kLess || f.flops > 1.05 * base_.flops) return false;
    const auto then = f.by_movement.find(movement);
    return then == f.by_movement.end() || then->second < bytes;
  }

  void consider(Found* found, std::vector<Considered>* to) {
    const spmd::CommunicationRecord& r = *found->record;
    const std::string movement = movement_key(path_of(r.op), path_of(r.value), r.leaf);
    const auto now = base_.by_movement.find(movement);
    if (now == base_.by_movement.end()) return;
    struct Best {
      const Edit* edit = nullptr;
      double bytes = 0;
    };
    Best free, priced;
    choose_freed(*found);
    const std::vector<Edit> edits = candidates(*found);
    try_out(edits);
    for (const Edit& edit : edits) {
      const auto tried = results_.find(edit.key());
      if (tried == results_.end()) continue;
      ++found->entry.tried;
      const std::optional<Figures>& f = tried->second;
      if (!f || !is_better(*f, movement, now->second) || f->work > 1.1 * base_.work) continue;
      Best& best = f->held > base_.held ? priced : free;
      if (!best.edit || f->bytes < best.bytes) best = {&edit, f->bytes};
    }
    Considered c{found, movement, now->second, {}, {}};
    if (free.edit) c.free = *free.edit;
    if (priced.edit) c.priced = *priced.edit;
    if (c.free || c.priced) to->push_back(std::move(c));
  }

  void settle(const Considered& c) {
    for (const std::optional<Edit>& edit : {c.free, c.priced}) {
      if (!edit || c.found->entry.suggestion) continue;
      const Figures* f = confirm(*edit);
      if (f && is_better(*f, c.movement, c.bytes)) {
        c.found->entry.suggestion = suggestion(*edit, *f);
      }
    }
  }

  /// What is tried is compiled by the rules alone, which is fast; what is named is compiled as the
  /// program itself is.
  const Figures* confirm(const Edit& edit) {
    auto [it, fresh] = confirmed_.try_emplace(edit.key());
    if (fresh && confirms_left_-- > 0) {
      const auto known = compiled_.find(edit.key());
      it->second = known != compiled_.end() ? known->second : compiled(edit);
    }
    return it->second ? &*it->second : nullptr;
  }

  std::optional<Figures> compiled(const Edit& edit) const {
    // In what order a device does its work makes no difference, but for how a sum is rounded.
    std::optional<Figures> f = measured(edit, options_, kMeasuring);
    if (f && !f->exact) f = measured(edit, options_, kComparing);
    return f;
  }

  /// Compiles at once what `settle` begins with: what comes second depends on what that finds.
  void confirm_first(const std::vector<Considered>& all) {
    if (!at_once_) return;
    std::vector<std::pair<const Edit*, std::optional<Figures>*>> fresh;
    for (const Considered& c : all) {
      if (int(fresh.size()) == confirms_left_) break;
      const Edit& first = c.free ? *c.free : *c.priced;
      const auto [it, is_new] = compiled_.try_emplace(first.key());
      if (is_new) fresh.emplace_back(&first, &it->second);
    }
    for_all(fresh.size(), [&](std::size_t k) { *fresh[k].second = compiled(*fresh[k].first); });
  }

  /// As the rules alone shard the program.
  std::optional<Figures> tried(const Edit& edit) const {
    // What the program says already.
    const Instruction* at = find(run_.prepared.get(), edit.computation, edit.instruction);
    if (!edit.after && at && edit.leaf < at->sharding.size() &&
        at->sharding[edit.leaf] == edit.sharding) {
      return std::nullopt;
    }
    Options options = options_;
    options.layouts = Layouts::propagated;
    // What ops move within themselves, and what is saved later, is about as much in all programs.
    const double slack = 2 * std::abs(base_.bytes - run_.reshard_bytes);
    const auto is_worthwhile = [&](double bytes) { return bytes - slack < kLess * base_.bytes; };
    try {
      return measured(edit, options, kEstimatingQuickly, is_worthwhile);
    } catch (const NotWorthwhile&) {
      return std::nullopt;
    } catch (const spmd::StepTakenBack&) {
      return measured(edit, options, kEstimating, is_worthwhile);
    }
  }

  std::optional<Figures> measured(const Edit& edit, const Options& options, const Purpose& purpose,
                                  const Worthwhile& is_worthwhile = {}) const {
    std::unique_ptr<ir::Module> module = run_.prepared->clone();
    if (!apply(module.get(), edit)) return std::nullopt;
    return measure(std::move(module), options, purpose, is_worthwhile);
  }

  ExplainSuggestion suggestion(const Edit& edit, const Figures& then) const {
    ExplainSuggestion s;
    Instruction* i = find(run_.prepared.get(), edit.computation, edit.instruction);
    s.spec = edit.sharding.to_spec_string();
    if (edit.sharding.is_replicated()) s.spec = "P()";
    s.total_bytes = then.bytes;
    s.saved_bytes = base_.bytes - then.bytes;
    s.more_held_bytes = std::max(0.0, then.held - base_.held);
    s.location = i->location().known() ? i->location().to_string() : "";
    if (edit.after) {
      s.target = "a constraint on the result of " + why_.label(*i) + " (" + i->name + ")";
      return s;
    }
    s.target = edit.target;
    if (s.target.rfind("with_sharding_constraint", 0) != 0) s.location.clear();
    if (edit.leaf < i->sharding.size()) s.was = i->sharding[edit.leaf].to_spec_string();
    return s;
  }

  /// Measures the edits that weren't yet, as many as are left.
  void try_out(const std::vector<Edit>& edits) {
    std::vector<std::pair<const Edit*, std::optional<Figures>*>> fresh;
    for (const Edit& edit : edits) {
      if (left_ <= 0) break;
      const auto [it, is_new] = results_.try_emplace(edit.key());
      if (!is_new) continue;
      --left_;
      fresh.emplace_back(&edit, &it->second);
    }
    for_all(fresh.size(), [&](std::size_t k) { *fresh[k].second = tried(*fresh[k].first); });
  }

  /// Several at once; one after the other where the program calls functions of the user.
  template <class F>
  void for_all(std::size_t n, F f) const {
    if (at_once_) {
      parallel_for(std::int64_t(n), [&](std::int64_t k) { f(std::size_t(k)); });
      return;
    }
    for (std::size_t k = 0; k < n; ++k) f(k);
  }

  /// What the user could write: on the program's own axes, closed.
  TensorSharding writable(const TensorSharding& s) const {
    TensorSharding out = s.closed();
    out.unreduced.clear();
    out.replicated.clear();
    const MeshRef& mesh = run_.compilation.source->mesh;
    if (out.mesh && mesh && out.mesh != mesh && same_mesh(out.mesh, mesh)) {
      out = spmd::propagation::coarsened(out, mesh);
    }
    return out;
  }

  std::vector<Edit> candidates(const Found& found) {
    const spmd::CommunicationRecord& r = *found.record;
    std::vector<Edit> out;
    std::set<std::string> seen;
    auto add = [&](Edit e) {
      if (!e.sharding.manual.empty()) return;
      if (seen.insert(e.key()).second) out.push_back(std::move(e));
    };
    const bool plain = r.value && r.to_sharding && r.to_sharding->manual.empty() &&
                       r.to_sharding->mesh && !r.value->shape.is_tuple;
    std::optional<Edit> as_wanted;
    if (plain) {
      as_wanted =
          Edit{r.value->parent->name(), r.value->name, 0, true, writable(*r.to_sharding), ""};
    }
    for (const Annotation& a : found.annotations) {
      // The sharding without any statement, and that with the array as required.
      if (auto free = freed(a, nullptr)) add(std::move(*free));
      if (as_wanted) {
        if (auto free = freed(a, &*as_wanted)) add(std::move(*free));
      }
      if (plain && a.by == r.value && as_wanted->sharding.splits_evenly(r.value->shape.dims)) {
        Edit e = *as_wanted;
        e.after = false;
        e.target = why_.label(a);
        add(std::move(e));
      }
    }
    if (as_wanted && !r.value->is(ir::Opcode::parameter)) add(*as_wanted);
    // Partial sums may be scattered, each device keeping a part, rather than summed for all.
    for (std::int64_t d = 0; plain && d < r.value->shape.rank(); ++d) {
      Edit e = *as_wanted;
      for (int a : r.from_sharding->unreduced) {
        if (!r.to_sharding->uses_axis(a)) e.sharding = *r.to_sharding;
      }
      if (e.sharding.mesh != r.to_sharding->mesh) break;
      for (int a : r.from_sharding->unreduced) {
        if (!e.sharding.uses_axis(a)) e.sharding.dims[std::size_t(d)].axes.push_back(a);
      }
      e.sharding = writable(e.sharding);
      if (!e.sharding.splits_evenly(r.value->shape.dims) ||
          e.sharding.same_placement(as_wanted->sharding)) {
        continue;
      }
      for (const Annotation& a : found.annotations) {
        if (auto free = freed(a, &e)) add(std::move(*free));
      }
      add(std::move(e));
    }
    if (auto e = result_as_computed(r)) add(std::move(*e));
    return out;
  }

  /// An annotation that is left open, alone or with another edit.
  struct Freed {
    Edit open;
    Shape shape;
    bool splits_evenly = false;  ///< nothing else may stand there
    std::optional<Edit> with;
    std::optional<Edit>* chosen = nullptr;  ///< where what propagation chooses is kept
  };

  /// Finds what propagation chooses for all annotations that `candidates` will leave open.
  void choose_freed(const Found& found) {
    std::vector<Freed> fresh;
    fresh_ = &fresh;
    candidates(found);
    fresh_ = nullptr;
    for_all(fresh.size(), [&](std::size_t k) { *fresh[k].chosen = choose(fresh[k]); });
  }

  /// The annotation as propagation would choose it, without it and with another edit.
  std::optional<Edit> freed(const Annotation& a, const Edit* with) {
    Edit open{a.by->parent->name(), a.by->name, a.leaf, false, {}, why_.label(a)};
    const Shape leaf = flatten(a.by->shape)[a.leaf];
    if (left_ <= 0 || leaf.rank() == 0) return std::nullopt;
    open.sharding = TensorSharding::open_on(run_.prepared->mesh, leaf.rank());
    const auto [it, is_new] = freed_.try_emplace(open.key() + (with ? with->key() : ""));
    if (is_new && fresh_) {
      fresh_->push_back({std::move(open), leaf, why_.at_boundary(a),
                         with ? std::optional(*with) : std::nullopt, &it->second});
    }
    return it->second;
  }

  std::optional<Edit> choose(const Freed& freed) const {
    Edit open = freed.open;
    std::unique_ptr<ir::Module> module = run_.prepared->clone();
    if (!apply(module.get(), open) || (freed.with && !apply(module.get(), *freed.with))) {
      return std::nullopt;
    }
    try {
      spmd::propagate(module.get());
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      return std::nullopt;
    }
    const Instruction* i = find(module.get(), open.computation, open.instruction);
    if (!i || i->sharding.size() <= open.leaf) return std::nullopt;
    open.sharding = writable(i->sharding[open.leaf]);
    if (freed.splits_evenly && !open.sharding.splits_evenly(freed.shape.dims)) return std::nullopt;
    return open;
  }

  /// The op's result left in the layout that its operand's sharding would give it.
  std::optional<Edit> result_as_computed(const spmd::CommunicationRecord& r) const {
    const spmd::propagation::Op* op = why_.op_of(r.op);
    if (!op || !r.value || !r.from_sharding || r.op->shape.is_tuple || r.op->shape.rank() == 0) {
      return std::nullopt;
    }
    const int value = why_.value_of({r.value, r.leaf});
    const auto at = std::find(op->operands.begin(), op->operands.end(), value);
    if (at == op->operands.end()) return std::nullopt;
    const auto& own = op->rule->operands[std::size_t(at - op->operands.begin())];
    Edit e{r.op->parent->name(),
           r.op->name,
           0,
           true,
           TensorSharding::replicated_on(r.from_sharding->mesh, r.op->shape.rank()),
           ""};
    e.sharding.manual = r.from_sharding->manual;
    const auto& result = op->rule->results[0];
    for (std::size_t d = 0; d < result.size(); ++d) {
      for (std::size_t o = 0; o < own.size(); ++o) {
        if (own[o] == result[d]) e.sharding.dims[d].axes = r.from_sharding->dims[o].axes;
      }
    }
    if (e.sharding.is_replicated()) return std::nullopt;
    e.sharding = writable(e.sharding);
    return e;
  }

  const Run& run_;
  const CauseChains& why_;
  Options options_;
  int left_;
  bool at_once_;
  Figures base_;
  std::map<std::string, std::optional<Figures>> results_, compiled_, confirmed_;
  int confirms_left_ = 24;
  std::map<std::string, std::optional<Edit>> freed_;
  std::vector<Freed>* fresh_ = nullptr;  ///< while annotations to be left open are gathered
};

}  // namespace

void suggest(const Run& run, const CauseChains& why, const Options& options,
             const ExplainOptions& what, std::vector<Found>* entries) {
  const auto size = std::int64_t(run.prepared->instruction_count());
  const std::int64_t by_size =
      std::clamp<std::int64_t>(100000 / std::max<std::int64_t>(size, 1), 6, 100);
  const int most = what.most_trials > 0 ? what.most_trials : int(by_size);
  Search(run, why, options, most).run(entries);
}

}  // namespace tessera::compiler::explain
