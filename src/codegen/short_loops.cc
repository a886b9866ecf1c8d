// SPDX-License-Identifier: Apache-2.0
// Finds loops that can be one kernel, and where in it each of their values lives.
#include "src/codegen/short_loops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/codegen/kernels/step_program.h"
#include "src/codegen/plan_readers.h"

namespace tessera::codegen {
namespace {

using namespace runtime;
using Place = StepProgram::Place;

/// Longer trips may be shared out among workers, and hide what it takes to start their steps.
constexpr double kShortTrip = 20000;
/// Of what is copied in a trip: lockstep passes such values on.
constexpr std::int64_t kMostCopied = std::int64_t(4) << 10;
/// A start of a kernel, which estimates have in them and code in one function doesn't take.
constexpr double kStart = 15;
constexpr double kUsualTrips = 64;

/// One loop as a program.
class LoopProgram {
 public:
  LoopProgram(const Plan& plan, const KernelTable& kernels, const PlanReaders& readers,
              const While& loop)
      : plan_(plan), kernels_(kernels), loop_(loop), readers_(readers), own_readers_(plan, loop) {}

  /// False if it has to stay a loop.
  bool make() {
    if (!is_short() || !place_carried()) return false;
    if (!add(loop_.condition, &body_.condition)) return false;
    find_last_reads();
    if (!add(loop_.body, &body_.body)) return false;
    body_.predicate = place(loop_.predicate);
    if (!pass_on()) return false;
    program_.steps.emplace_back().what = std::move(body_);
    return !task_.outputs.empty() && scratch_ <= kMostStepScratch && classes_agree();
  }

  KernelTask take(KernelTable* kernels) {
    const double trips = loop_.trips > 0 ? double(loop_.trips) : kUsualTrips;
    const KernelDescriptor kernel = step_program_kernel(std::move(program_), trips * trip_);
    task_.kernel = kernels->add(kernel);
    task_.units = kernel.units;
    task_.nanoseconds = kernel.nanoseconds;
    return std::move(task_);
  }

 private:
  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }
  bool is_read_behind(SlotId s) const { return readers_.of(s) > own_readers_.of(s); }

  bool is_short() {
    trip_ = time_of(loop_.condition) + time_of(loop_.body);
    return trip_ <= kShortTrip;
  }

  /// More than is short if there are other steps in it than those that a program has.
  double time_of(const Block& block) {
    double sum = 0;
    for (const Step& step : block.steps) {
      if (const auto* conditional = std::get_if<Conditional>(&step.what)) {
        double longest = 0;
        for (const Branch& b : conditional->branches) {
          longest = std::max(longest, time_of(b.block));
          for (const Move& m : b.parameters) made_.insert(m.to);
          for (const Move& m : b.results) made_.insert(m.to);
        }
        sum += longest;
        continue;
      }
      const auto* task = std::get_if<KernelTask>(&step.what);
      if (task == nullptr || task->has_effects || task->transfers_to || task->outputs.empty()) {
        return 2 * kShortTrip;
      }
      sum += std::max(1.0, task->nanoseconds - kStart);
      made_.insert(task->outputs.begin(), task->outputs.end());
    }
    return sum;
  }

  Place input(SlotId s) {
    const auto [it, added] =
        inputs_.try_emplace(s, Place{Place::Kind::input, int(task_.inputs.size())});
    if (added) {
      task_.inputs.push_back(s);
      program_.inputs.push_back(slot(s).bytes);
    }
    return it->second;
  }
  Place output(SlotId s) {
    task_.outputs.push_back(s);
    program_.outputs.push_back(slot(s).bytes);
    return {Place::Kind::output, int(task_.outputs.size()) - 1};
  }
  Place scratch(std::int64_t bytes) {
    scratch_ += bytes;
    program_.scratch.push_back(bytes);
    return {Place::Kind::scratch, int(program_.scratch.size()) - 1};
  }
  /// Of what is read.
  Place place(SlotId s) {
    const auto it = places_.find(s);
    return it == places_.end() ? input(s) : it->second;
  }
  void copy(const Place& from, const Place& to, std::int64_t bytes, StepProgram::Block* steps) {
    steps->emplace_back().what = StepProgram::Copy{from, to, bytes};
  }

  /// What is carried has its place for the whole loop, and starts there with its first value.
  bool place_carried() {
    std::map<SlotId, int> starts;  // how many begin with a value
    for (const Move& m : loop_.init) ++starts[m.from];
    for (std::size_t k = 0; k < loop_.init.size(); ++k) {
      const auto [first, carried, donate] = loop_.init[k];
      if (loop_.next[k].to != carried) return false;
      const std::int64_t bytes = slot(carried).bytes;
      carried_.insert(carried);
      const bool stays = loop_.next[k].from == carried;
      if (stays && !is_read_behind(carried)) {
        places_[carried] = input(first);
        continue;
      }
      if (!is_read_behind(carried) && bytes <= kMostCopied) {
        places_[carried] = scratch(bytes);
        copy(input(first), places_[carried], bytes, &program_.steps);
        continue;
      }
      places_[carried] = output(carried);
      const Place from = input(first);
      // In place, unless something else is to be seen there.
      if (starts[first] == 1 && own_readers_.of(first) == 1) {
        task_.reuse.push_back({from.number, places_[carried].number, true, false});
      } else {
        copy(from, places_[carried], bytes, &program_.steps);
      }
    }
    return true;
  }

  void find_last_reads() {
    for (std::size_t n = 0; n < loop_.body.steps.size(); ++n) read(loop_.body.steps[n], n);
    for (const Move& m : loop_.next) ++passed_on_[m.from];
  }

  /// By step n of the body, of which this one is a part.
  void read(const Step& step, std::size_t n) {
    if (const auto* task = std::get_if<KernelTask>(&step.what)) {
      for (const SlotId s : task->inputs) last_read_[s] = n;
      return;
    }
    const auto& conditional = std::get<Conditional>(step.what);
    last_read_[conditional.selector] = n;
    for (const Branch& b : conditional.branches) {
      for (const Move& m : b.parameters) last_read_[m.from] = n;
      for (const Step& inner : b.block.steps) read(inner, n);
      for (const Move& m : b.results) last_read_[m.from] = n;
    }
  }

  bool is_read_after(SlotId s, std::size_t n) const {
    const auto it = last_read_.find(s);
    return it != last_read_.end() && it->second > n;
  }

  bool add(const Block& block, StepProgram::Block* steps) {
    const bool in_body = &block == &loop_.body;
    for (std::size_t n = 0; n < block.steps.size(); ++n) {
      if (const auto* conditional = std::get_if<Conditional>(&block.steps[n].what)) {
        if (!add(*conditional, steps)) return false;
        continue;
      }
      const auto& task = std::get<KernelTask>(block.steps[n].what);
      StepProgram::Link link{kernels_.at(task.kernel), task.units, task.nanoseconds, {}, {}};
      for (const SlotId s : task.inputs) link.inputs.push_back(place(s));
      for (std::size_t o = 0; o < task.outputs.size(); ++o) {
        const auto changed = std::find_if(task.reuse.begin(), task.reuse.end(), [&](const auto& r) {
          return std::size_t(r.output) == o && r.copy;
        });
        const SlotId made = task.outputs[o];
        if (changed != task.reuse.end()) {
          const SlotId from = task.inputs[std::size_t(changed->input)];
          places_[made] = changed_place(task, n, from, in_body, steps);
          if (too_large_) return false;
        } else if (places_.count(made) == 0) {
          const std::optional<Place> next = in_body ? next_place(task, o, n) : std::nullopt;
          places_[made] = next ? *next : scratch(slot(made).bytes);
        }
        link.outputs.push_back(places_[made]);
      }
      if (link.kernel.steps) {
        add_steps(*link.kernel.steps, link, steps);
      } else {
        steps->emplace_back().what = std::move(link);
      }
      if (scratch_ > kMostStepScratch) return false;
    }
    return true;
  }

  /// Those of a loop in this one, instead of a call of it.
  void add_steps(const StepProgram& program, const StepProgram::Link& link,
                 StepProgram::Block* steps) {
    std::vector<Place> places;
    for (const std::int64_t bytes : program.scratch) places.push_back(scratch(bytes));
    const StepProgram::Block moved = with_places(program.steps, [&](const Place& p) {
      const auto n = std::size_t(p.number);
      return p.kind == Place::Kind::input    ? link.inputs.at(n)
             : p.kind == Place::Kind::output ? link.outputs.at(n)
                                             : places.at(n);
    });
    steps->insert(steps->end(), moved.begin(), moved.end());
  }

  /// What a branch takes is where it is; what it makes has one place for all of them.
  bool add(const Conditional& conditional, StepProgram::Block* steps) {
    StepProgram::Branches branches;
    branches.selector = place(conditional.selector);
    branches.boolean = conditional.boolean;
    for (const Branch& b : conditional.branches) {
      for (const Move& m : b.parameters) {
        places_[m.to] = place(m.from);
        taken_over_.insert(m.to);
      }
      for (const Move& m : b.results) {
        if (places_.count(m.to) == 0) places_[m.to] = scratch(slot(m.to).bytes);
        const bool once = std::count_if(b.results.begin(), b.results.end(),
                                        [&](const Move& r) { return r.from == m.from; }) == 1;
        // Made there, unless it is something of which a part is changed.
        if (once && places_.count(m.from) == 0 && is_made_whole(b.block, m.from)) {
          places_[m.from] = places_[m.to];
        }
      }
      StepProgram::Block block;
      if (!add(b.block, &block)) return false;
      for (const Move& m : b.results) {
        const Place from = place(m.from), to = places_[m.to];
        if (from.kind == to.kind && from.number == to.number) continue;
        if (slot(m.to).bytes > kMostCopied) return false;
        copy(from, to, slot(m.to).bytes, &block);
      }
      branches.blocks.push_back(std::move(block));
    }
    steps->emplace_back().what = std::move(branches);
    return true;
  }

  static bool is_made_whole(const Block& block, SlotId s) {
    return std::any_of(block.steps.begin(), block.steps.end(), [&](const Step& step) {
      const auto* task = std::get_if<KernelTask>(&step.what);
      return task != nullptr && std::count(task->outputs.begin(), task->outputs.end(), s) != 0 &&
             std::none_of(task->reuse.begin(), task->reuse.end(),
                          [](const auto& r) { return r.copy; });
    });
  }

  /// Where a step changes a part of `from`: there, if nobody needs it as it was.
  Place changed_place(const KernelTask& task, std::size_t n, SlotId from, bool in_body,
                      StepProgram::Block* steps) {
    const Place at = place(from);
    const bool own = at.kind != Place::Kind::input && taken_over_.count(from) == 0 &&
                     (carried_.count(from) != 0 || made_.count(from) != 0);
    const bool last = in_body && !is_read_after(from, n) && passed_on_.count(from) == 0 &&
                      from != loop_.predicate &&
                      std::count(task.inputs.begin(), task.inputs.end(), from) == 1;
    if (own && last) return at;
    const std::int64_t bytes = slot(from).bytes;
    too_large_ = bytes > kMostCopied;
    const Place to = scratch(bytes);
    copy(at, to, bytes, steps);
    return to;
  }

  /// What a step makes may be made where the next trip finds it, if what is there is done with.
  std::optional<Place> next_place(const KernelTask& task, std::size_t o, std::size_t n) {
    const SlotId made = task.outputs[o];
    for (const Move& m : loop_.next) {
      if (m.from != made || m.from == m.to) continue;
      const Place at = places_.at(m.to);
      if (at.kind == Place::Kind::input || taken_.count(m.to) != 0) continue;
      if (is_read_after(m.to, n) || passed_on_.count(m.to) != 0 || m.to == loop_.predicate)
        continue;
      const auto reads = std::count(task.inputs.begin(), task.inputs.end(), m.to);
      const bool over = std::any_of(task.reuse.begin(), task.reuse.end(), [&](const auto& r) {
        return std::size_t(r.output) == o && !r.copy && task.inputs[std::size_t(r.input)] == m.to;
      });
      if (reads > 1 || (reads == 1 && !over)) continue;
      // An earlier step may have changed a part of what was there, and others read that.
      const bool shared = std::any_of(places_.begin(), places_.end(), [&](const auto& p) {
        return p.first != m.to && p.second.kind == at.kind && p.second.number == at.number;
      });
      if (shared) continue;
      taken_.insert(m.to);
      return at;
    }
    return std::nullopt;
  }

  /// What the body made, to where the next trip finds it.
  bool pass_on() {
    const auto key = [](const Place& p) { return std::pair(p.kind, p.number); };
    std::vector<StepProgram::Copy> moves;
    std::set<std::pair<Place::Kind, int>> written;
    for (const Move& m : loop_.next) {
      const Place from = place(m.from), to = places_.at(m.to);
      if (key(from) == key(to)) continue;
      if (slot(m.to).bytes > kMostCopied || to.kind == Place::Kind::input) return false;
      moves.push_back({from, to, slot(m.to).bytes});
      written.insert(key(to));
    }
    for (StepProgram::Copy& m : moves) {
      if (written.count(key(m.from)) == 0) continue;
      const Place aside = scratch(m.bytes);
      copy(m.from, aside, m.bytes, &body_.body);
      m.from = aside;
    }
    for (const StepProgram::Copy& m : moves) copy(m.from, m.to, m.bytes, &body_.body);
    return true;
  }

  /// Devices for which the results are one have all else in common, too.
  bool classes_agree() const {
    const ClassesId of = slot(task_.outputs[0]).classes;
    const auto agrees = [&](SlotId s) {
      const ClassesId its = slot(s).classes;
      return slot(s).memory == MemoryKind::device &&
             (its == of || plan_.classes[std::size_t(of)].refines(plan_.classes[std::size_t(its)]));
    };
    const auto all_agree = [&](const auto& slots) {
      return std::all_of(slots.begin(), slots.end(), agrees);
    };
    return std::all_of(task_.outputs.begin(), task_.outputs.end(),
                       [&](SlotId s) { return slot(s).classes == of; }) &&
           all_agree(task_.inputs) && all_agree(task_.outputs) && all_agree(made_) &&
           all_agree(carried_);
  }

  const Plan& plan_;
  const KernelTable& kernels_;
  const While& loop_;
  const PlanReaders& readers_;
  const PlanReaders own_readers_;
  StepProgram program_;
  StepProgram::Loop body_;
  KernelTask task_;
  double trip_ = 0;
  std::int64_t scratch_ = 0;
  bool too_large_ = false;
  std::set<SlotId> carried_, made_, taken_;
  std::set<SlotId> taken_over_;  ///< by branches: other names of what is used elsewhere
  std::map<SlotId, Place> inputs_, places_;
  std::map<SlotId, std::size_t> last_read_;  // step of the body
  std::map<SlotId, int> passed_on_;
};

class Compiler {
 public:
  Compiler(Plan* plan, KernelTable* kernels) : plan_(*plan), kernels_(*kernels) {}

  void run(Block* block) {
    for (Step& step : block->steps) {
      if (auto* conditional = std::get_if<Conditional>(&step.what)) {
        for (Branch& b : conditional->branches) run(&b.block);
      }
      auto* loop = std::get_if<While>(&step.what);
      if (loop == nullptr) continue;
      run(&loop->condition);
      run(&loop->body);
      if (!readers_) readers_.emplace(plan_);
      LoopProgram program(plan_, kernels_, *readers_, *loop);
      if (!program.make()) continue;
      step.what = program.take(&kernels_);
      readers_.reset();
    }
  }

 private:
  Plan& plan_;
  KernelTable& kernels_;
  std::optional<PlanReaders> readers_;  ///< as long as the plan stays as it is
};

}  // namespace

void compile_short_loops(Plan* plan, KernelTable* kernels) {
  Compiler(plan, kernels).run(&plan->entry);
}

}  // namespace tessera::codegen
