// SPDX-License-Identifier: Apache-2.0
// Finds short steps that can stand together, and joins them.
#include "src/codegen/short_steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/codegen/kernels/step_program.h"
#include "src/codegen/plan_readers.h"

namespace tessera::codegen {
namespace {

using namespace runtime;
using Place = TiledChain::Place;

/// Longer steps may be shared out among workers, and hide what it takes to start them.
constexpr double kShortNanoseconds = 5000;
/// Steps that are looked at behind the first one.
constexpr std::size_t kMostSteps = 256;

class Joiner {
 public:
  Joiner(Plan* plan, KernelTable* kernels) : plan_(*plan), kernels_(*kernels), readers_(*plan) {}

  void run(Block* block, bool in_loop) {
    for (Step& step : block->steps) {
      if (auto* loop = std::get_if<While>(&step.what)) {
        run(&loop->condition, true);
        run(&loop->body, true);
      } else if (auto* conditional = std::get_if<Conditional>(&step.what)) {
        for (Branch& b : conditional->branches) run(&b.block, in_loop);
      }
    }
    for (std::size_t n = 0; in_loop && n < block->steps.size(); ++n) n = join_from(block, n);
  }

 private:
  struct Chain {
    std::vector<std::size_t> links;
    std::set<SlotId> made, read;
    std::set<SlotId> overwritten;  ///< a link may write its result over these, but for a part
    std::int64_t scratch = 0;
  };

  static const KernelTask* task_of(const Step& step) { return std::get_if<KernelTask>(&step.what); }
  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }

  static bool changes_a_part(const KernelTask& task) {
    return std::any_of(task.reuse.begin(), task.reuse.end(), [](const auto& r) { return r.copy; });
  }

  bool add(const Block& block, std::size_t n, Chain* chain) const {
    const KernelTask* task = task_of(block.steps[n]);
    if (task == nullptr || task->has_effects || task->transfers_to || task->outputs.empty() ||
        task->nanoseconds > kShortNanoseconds) {
      return false;
    }
    const auto classes = [&](SlotId s) { return slot(s).classes; };
    if (!chain->links.empty() && classes(task->outputs[0]) != classes(*chain->made.begin())) {
      return false;
    }
    std::int64_t bytes = 0;
    for (const SlotId s : task->outputs) {
      if (slot(s).memory != MemoryKind::device) return false;
      bytes += slot(s).bytes;
    }
    for (const SlotId s : task->inputs) {
      if (chain->overwritten.count(s) != 0) return false;
    }
    std::set<SlotId> overwritten;
    for (const KernelTask::Reuse& r : task->reuse) {
      if (!r.copy) continue;
      // Such results aren't made in scratch memory: they are as large as what they change.
      const SlotId s = task->inputs[std::size_t(r.input)];
      if (chain->made.count(s) != 0 || chain->read.count(s) != 0 ||
          std::count(task->inputs.begin(), task->inputs.end(), s) != 1) {
        return false;
      }
      overwritten.insert(s);
    }
    if (overwritten.empty()) {
      if (chain->scratch + bytes > kMostStepScratch) return false;
      chain->scratch += bytes;
    }
    chain->links.push_back(n);
    chain->made.insert(task->outputs.begin(), task->outputs.end());
    chain->read.insert(task->inputs.begin(), task->inputs.end());
    chain->overwritten.insert(overwritten.begin(), overwritten.end());
    return true;
  }

  /// Joins what can stand with step `n`; returns the step to go on from.
  std::size_t join_from(Block* block, std::size_t n) {
    Chain chain;
    if (!add(*block, n, &chain)) return n;
    // What isn't joined stands in front, or behind if it needs what is made here.
    std::set<SlotId> late;
    std::vector<std::size_t> before, behind;
    const std::size_t end = std::min(block->steps.size(), n + kMostSteps);
    std::size_t k = n + 1;
    for (; k < end; ++k) {
      const KernelTask* task = task_of(block->steps[k]);
      if (task == nullptr || task->has_effects) break;
      const auto reads_any = [&](const std::set<SlotId>& slots) {
        return std::any_of(task->inputs.begin(), task->inputs.end(),
                           [&](SlotId s) { return slots.count(s) != 0; });
      };
      if (!reads_any(late)) {
        if (add(*block, k, &chain)) continue;
        if (!reads_any(chain.made)) {
          before.push_back(k);
          continue;
        }
      }
      late.insert(task->outputs.begin(), task->outputs.end());
      behind.push_back(k);
    }
    if (chain.links.size() < 2) return n;
    std::vector<Step> steps;
    for (const std::size_t b : before) steps.push_back(block->steps[b]);
    steps.push_back(joined(*block, chain));
    const std::size_t at = n + before.size();
    for (const std::size_t b : behind) steps.push_back(block->steps[b]);
    const auto place = block->steps.begin() + std::ptrdiff_t(n);
    std::move(steps.begin(), steps.end(), place);
    block->steps.erase(place + std::ptrdiff_t(steps.size()),
                       block->steps.begin() + std::ptrdiff_t(k));
    return at;
  }

  Step joined(const Block& block, const Chain& chain) {
    std::map<SlotId, int> reads;
    for (const std::size_t n : chain.links) {
      for (const SlotId s : task_of(block.steps[n])->inputs) ++reads[s];
    }
    StepProgram steps;
    double nanoseconds = 0;
    KernelTask task;
    std::map<SlotId, Place> places;
    std::map<SlotId, std::size_t> last_read;  // of inputs of the chain
    std::vector<const Step*> named;
    for (std::size_t l = 0; l < chain.links.size(); ++l) {
      const Step& step = block.steps[chain.links[l]];
      const KernelTask& t = *task_of(step);
      named.push_back(&step);
      TiledChain::Link link{kernels_.at(t.kernel), t.units, t.nanoseconds, {}, {}};
      for (const SlotId s : t.inputs) {
        auto it = places.find(s);
        if (it == places.end()) {
          it = places.emplace(s, Place{Place::Kind::input, int(task.inputs.size())}).first;
          task.inputs.push_back(s);
          steps.inputs.push_back(slot(s).bytes);
        }
        last_read[s] = l;
        link.inputs.push_back(it->second);
      }
      for (const SlotId s : t.outputs) {
        const auto it = reads.find(s);
        const bool inside = !changes_a_part(t) && it != reads.end() && it->second == readers_.of(s);
        if (inside) {
          places[s] = {Place::Kind::scratch, int(steps.scratch.size())};
          steps.scratch.push_back(slot(s).bytes);
        } else {
          places[s] = {Place::Kind::output, int(task.outputs.size())};
          task.outputs.push_back(s);
          steps.outputs.push_back(slot(s).bytes);
        }
        link.outputs.push_back(places[s]);
      }
      nanoseconds += link.nanoseconds;
      steps.steps.emplace_back().what = std::move(link);
    }
    add_reuse(block, chain, places, last_read, &task);
    KernelDescriptor kernel = step_program_kernel(std::move(steps), nanoseconds);
    task.kernel = kernels_.add(kernel);
    task.units = kernel.units;
    task.nanoseconds = kernel.nanoseconds;
    Step out;
    out.name = named.back()->name;
    out.location = named.back()->location;
    out.op = ops_of(named);
    out.what = std::move(task);
    return out;
  }

  /// Results may be written over inputs as in the single steps, and over those that no later link
  /// reads.
  void add_reuse(const Block& block, const Chain& chain, const std::map<SlotId, Place>& places,
                 const std::map<SlotId, std::size_t>& last_read, KernelTask* task) const {
    for (std::size_t l = 0; l < chain.links.size(); ++l) {
      const KernelTask& t = *task_of(block.steps[chain.links[l]]);
      for (std::size_t o = 0; o < t.outputs.size(); ++o) {
        const Place& to = places.at(t.outputs[o]);
        if (to.kind != Place::Kind::output) continue;
        for (std::size_t k = 0; k < task->inputs.size(); ++k) {
          const SlotId s = task->inputs[k];
          const std::size_t read = last_read.at(s);
          const auto own = std::find_if(t.reuse.begin(), t.reuse.end(), [&](const auto& r) {
            return std::size_t(r.output) == o && t.inputs[std::size_t(r.input)] == s &&
                   std::count(t.inputs.begin(), t.inputs.end(), s) == 1;
          });
          const bool by_itself = own != t.reuse.end() && read == l;
          if (changes_a_part(t)) {
            // The rest of it has to be there: no other memory will do.
            if (by_itself && own->copy) task->reuse.push_back({int(k), to.number, true, false});
          } else if (slot(s).bytes == slot(t.outputs[o]).bytes && (by_itself || read < l)) {
            task->reuse.push_back({int(k), to.number, false, false});
          }
        }
      }
    }
  }

  static std::string ops_of(const std::vector<const Step*>& steps) {
    constexpr std::size_t kMostOps = 4;
    std::string out;
    const std::size_t first = steps.size() > kMostOps ? steps.size() - kMostOps : 0;
    if (first > 0) out = "...";
    for (std::size_t k = first; k < steps.size(); ++k) {
      if (!out.empty()) out += '+';
      out += steps[k]->op;
    }
    return out;
  }

  Plan& plan_;
  KernelTable& kernels_;
  const PlanReaders readers_;
};

}  // namespace

void join_short_steps(Plan* plan, KernelTable* kernels) {
  Joiner(plan, kernels).run(&plan->entry, false);
}

}  // namespace tessera::codegen
