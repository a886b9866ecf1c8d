// SPDX-License-Identifier: Apache-2.0
// Finds loops that can be one kernel, and where in it each of their values lives.
#include "src/codegen/steps/short_loops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/codegen/kernels/chains/step_program.h"
#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/loops/concatenation.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/steps/joined_steps.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

/// One loop as a program.
class LoopProgram {
 public:
  LoopProgram(const Plan& plan, const KernelTable& kernels, const PlanReaders& readers,
              const Step& loop)
      : plan_(plan),
        kernels_(kernels),
        loop_(std::get<While>(loop.what)),
        readers_(readers),
        own_readers_(plan, loop),
        places_(plan) {}

  /// False if it has to stay a loop.
  bool make() {
    if (!is_short() || !place_carried()) return false;
    if (!add(loop_.condition, &body_.condition)) return false;
    find_reads();
    if (!add(loop_.body, &body_.body)) return false;
    body_.predicate = places_.of(loop_.predicate);
    if (!pass_on()) return false;
    program_.steps.emplace_back().what = std::move(body_);
    return !places_.task().outputs.empty() && !is_full() && classes_agree();
  }

  KernelTask take(KernelTable* kernels) {
    program_.inputs = places_.input_sizes();
    program_.outputs = places_.output_sizes();
    program_.scratch = places_.scratch_sizes();
    return places_.take(
        step_program_kernel(std::move(program_), loop_.likely_trips() * (trip_ - less_)), kernels);
  }

 private:
  const Slot& slot(SlotId s) const { return plan_.slots[std::size_t(s)]; }
  bool is_read_behind(SlotId s) const { return readers_.of(s) > own_readers_.of(s); }
  bool is_full() const { return places_.scratch_bytes() > prices::short_steps::kMostScratch; }

  bool is_short() {
    trip_ = time_of(loop_.condition) + time_of(loop_.body);
    return trip_ <= prices::short_steps::kTrip;
  }

  /// More than is short if there are other steps in it than those that a program has.
  double time_of(const Block& block) {
    double sum = 0;
    for (const Step& step : block.steps) {
      if (const auto* conditional = std::get_if<Conditional>(&step.what)) {
        double longest = 0;
        const double less = less_;  // which branch is taken isn't known
        for (const Branch& b : conditional->branches) {
          longest = std::max(longest, time_of(b.block));
          for (const Move& m : b.parameters) made_.insert(m.to);
          for (const Move& m : b.results) made_.insert(m.to);
        }
        sum += longest;
        less_ = less;
        continue;
      }
      const KernelTask* task = task_of(step);
      if (task == nullptr || !may_be_joined(*task, plan_, kernels_)) {
        return 2 * prices::short_steps::kTrip;
      }
      const double started = std::max(1.0, task->nanoseconds - prices::short_steps::kStart);
      sum += started;
      less_ += std::max(0.0, started - time_in_code(*task, started));
      made_.insert(task->outputs.begin(), task->outputs.end());
    }
    return sum;
  }

  /// Of a loop's code among that of the others: it isn't interpreted, however short it is.
  double time_in_code(const KernelTask& task, double otherwise) const {
    const KernelBody& body = kernels_.at(task.kernel).body;
    const auto coded = [](const LoopExpr& program, std::int64_t elements) {
      return std::max(1.0, double(elements) * program.nanoseconds * time_of_code(true));
    };
    if (const auto* loop = body.as<KernelBody::Loop>()) {
      if (nest_of(*loop->program, /*periodic=*/true).any_made) return otherwise;
      return coded(*loop->program, task.units * loop->elements_per_unit);
    }
    const auto* made = body.as<KernelBody::Parts>();
    if (made == nullptr) return otherwise;
    double sum = 0;
    for (const ConcatenationPart& part : *made->parts) {
      if (nest_of(*part.program, /*periodic=*/true).any_made) return otherwise;
      sum += coded(*part.program, element_count(part.dims));
    }
    return sum;
  }

  static void copy(const Place& from, const Place& to, std::int64_t bytes,
                   StepProgram::Block* steps) {
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
        places_.put(carried, places_.of(first));
        continue;
      }
      if (!is_read_behind(carried) && bytes <= prices::short_steps::kMostCopied) {
        const Place to = places_.put(carried, places_.scratch(bytes));
        copy(places_.of(first), to, bytes, &program_.steps);
        continue;
      }
      const Place to = places_.put(carried, places_.output(carried));
      const Place from = places_.of(first);
      // In place, unless something else is to be seen there.
      if (starts[first] == 1 && own_readers_.of(first) == 1) {
        places_.task().reuse.push_back({from.number, to.number, true, false});
      } else {
        copy(from, to, bytes, &program_.steps);
      }
    }
    return true;
  }

  void find_reads() {
    for (std::size_t n = 0; n < loop_.body.steps.size(); ++n) reads_.add(loop_.body.steps[n], n);
    for (const Move& m : loop_.next) ++passed_on_[m.from];
  }

  bool is_read_after(SlotId s, std::size_t n) const {
    const StepReads::Reads* reads = reads_.find(s);
    return reads != nullptr && reads->last > n;
  }

  bool add(const Block& block, StepProgram::Block* steps) {
    const bool in_body = &block == &loop_.body;
    for (std::size_t n = 0; n < block.steps.size(); ++n) {
      if (const auto* conditional = std::get_if<Conditional>(&block.steps[n].what)) {
        if (!add(*conditional, steps)) return false;
        continue;
      }
      const auto& task = std::get<KernelTask>(block.steps[n].what);
      StepProgram::Link link{places_.link(kernels_, task)};
      for (std::size_t o = 0; o < task.outputs.size(); ++o) {
        const auto changed = std::find_if(task.reuse.begin(), task.reuse.end(), [&](const auto& r) {
          return std::size_t(r.output) == o && r.copy;
        });
        const SlotId made = task.outputs[o];
        if (changed != task.reuse.end()) {
          const SlotId from = task.inputs[std::size_t(changed->input)];
          places_.put(made, changed_place(task, n, from, in_body, steps));
          if (too_large_) return false;
        } else if (places_.find(made) == nullptr) {
          const std::optional<Place> next = in_body ? next_place(task, o, n) : std::nullopt;
          places_.put(made, next ? *next : places_.scratch(slot(made).bytes));
        }
        link.outputs.push_back(places_.of(made));
      }
      if (const auto* inner = link.kernel.body.as<KernelBody::Steps>()) {
        add_steps(*inner->program, link, steps);
      } else {
        steps->emplace_back().what = std::move(link);
      }
      if (is_full()) return false;
    }
    return true;
  }

  /// Those of a loop in this one, instead of a call of it.
  void add_steps(const StepProgram& program, const StepProgram::Link& link,
                 StepProgram::Block* steps) {
    std::vector<Place> places;
    for (const std::int64_t bytes : program.scratch) places.push_back(places_.scratch(bytes));
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
    branches.selector = places_.of(conditional.selector);
    branches.boolean = conditional.boolean;
    for (const Branch& b : conditional.branches) {
      for (const Move& m : b.parameters) {
        places_.put(m.to, places_.of(m.from));
        taken_over_.insert(m.to);
      }
      for (const Move& m : b.results) {
        if (places_.find(m.to) == nullptr) places_.put(m.to, places_.scratch(slot(m.to).bytes));
        const bool once = std::count_if(b.results.begin(), b.results.end(),
                                        [&](const Move& r) { return r.from == m.from; }) == 1;
        // Made there, unless it is something of which a part is changed.
        if (once && places_.find(m.from) == nullptr && is_made_whole(b.block, m.from)) {
          places_.put(m.from, places_.of(m.to));
        }
      }
      StepProgram::Block block;
      if (!add(b.block, &block)) return false;
      for (const Move& m : b.results) {
        const Place from = places_.of(m.from), to = places_.of(m.to);
        if (from == to) continue;
        if (slot(m.to).bytes > prices::short_steps::kMostCopied) return false;
        copy(from, to, slot(m.to).bytes, &block);
      }
      branches.blocks.push_back(std::move(block));
    }
    steps->emplace_back().what = std::move(branches);
    return true;
  }

  static bool is_made_whole(const Block& block, SlotId s) {
    return std::any_of(block.steps.begin(), block.steps.end(), [&](const Step& step) {
      const KernelTask* task = task_of(step);
      return task != nullptr && std::count(task->outputs.begin(), task->outputs.end(), s) != 0 &&
             !changes_a_part(*task);
    });
  }

  /// Where a step changes a part of `from`: there, if nobody needs it as it was.
  Place changed_place(const KernelTask& task, std::size_t n, SlotId from, bool in_body,
                      StepProgram::Block* steps) {
    const Place at = places_.of(from);
    const bool own = at.kind != Place::Kind::input && taken_over_.count(from) == 0 &&
                     (carried_.count(from) != 0 || made_.count(from) != 0);
    const bool last = in_body && !is_read_after(from, n) && passed_on_.count(from) == 0 &&
                      from != loop_.predicate &&
                      std::count(task.inputs.begin(), task.inputs.end(), from) == 1;
    if (own && last) return at;
    const std::int64_t bytes = slot(from).bytes;
    too_large_ = bytes > prices::short_steps::kMostCopied;
    const Place to = places_.scratch(bytes);
    copy(at, to, bytes, steps);
    return to;
  }

  /// What a step makes may be made where the next trip finds it, if what is there is done with.
  std::optional<Place> next_place(const KernelTask& task, std::size_t o, std::size_t n) {
    const SlotId made = task.outputs[o];
    for (const Move& m : loop_.next) {
      if (m.from != made || m.from == m.to) continue;
      const Place at = places_.of(m.to);
      if (at.kind == Place::Kind::input || taken_.count(m.to) != 0) continue;
      if (is_read_after(m.to, n) || passed_on_.count(m.to) != 0 || m.to == loop_.predicate)
        continue;
      if (contains(task.inputs, m.to) && !may_overwrite(task, o, m.to)) continue;
      // An earlier step may have changed a part of what was there, and others read that.
      if (places_.is_shared(at, m.to)) continue;
      taken_.insert(m.to);
      return at;
    }
    return std::nullopt;
  }

  /// What the body made, to where the next trip finds it.
  bool pass_on() {
    std::vector<StepProgram::Copy> moves;
    std::set<Place> written;
    for (const Move& m : loop_.next) {
      const Place from = places_.of(m.from), to = places_.of(m.to);
      if (from == to) continue;
      if (slot(m.to).bytes > prices::short_steps::kMostCopied || to.kind == Place::Kind::input)
        return false;
      moves.push_back({from, to, slot(m.to).bytes});
      written.insert(to);
    }
    for (StepProgram::Copy& m : moves) {
      if (written.count(m.from) == 0) continue;
      const Place aside = places_.scratch(m.bytes);
      copy(m.from, aside, m.bytes, &body_.body);
      m.from = aside;
    }
    for (const StepProgram::Copy& m : moves) copy(m.from, m.to, m.bytes, &body_.body);
    return true;
  }

  /// Devices for which the results are one have all else in common, too.
  bool classes_agree() {
    const KernelTask& task = places_.task();
    const ClassesId of = slot(task.outputs[0]).classes;
    const auto agrees = [&](SlotId s) {
      const ClassesId its = slot(s).classes;
      return slot(s).memory == MemoryKind::device &&
             (its == of || plan_.classes[std::size_t(of)].refines(plan_.classes[std::size_t(its)]));
    };
    const auto all_agree = [&](const auto& slots) {
      return std::all_of(slots.begin(), slots.end(), agrees);
    };
    return std::all_of(task.outputs.begin(), task.outputs.end(),
                       [&](SlotId s) { return slot(s).classes == of; }) &&
           all_agree(task.inputs) && all_agree(task.outputs) && all_agree(made_) &&
           all_agree(carried_);
  }

  const Plan& plan_;
  const KernelTable& kernels_;
  const While& loop_;
  const PlanReaders& readers_;
  const PlanReaders own_readers_;
  OperandPlaces places_;
  StepProgram program_;
  StepProgram::Loop body_;
  double trip_ = 0;
  double less_ = 0;  ///< time that code doesn't take
  bool too_large_ = false;
  std::set<SlotId> carried_, made_, taken_;
  std::set<SlotId> taken_over_;  ///< by branches: other names of what is used elsewhere
  StepReads reads_;              ///< by steps of the body
  std::map<SlotId, int> passed_on_;
};

class Compiler {
 public:
  Compiler(Plan* plan, KernelTable* kernels) : plan_(*plan), kernels_(*kernels) {}

  void run(Block* block) {
    for (Step& step : block->steps) {
      if (!is_loop(step)) continue;
      if (!readers_) readers_.emplace(plan_);
      LoopProgram program(plan_, kernels_, *readers_, step);
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
  Compiler compiler(plan, kernels);
  for_each_inner_block(plan->entry, [&](Block& block, bool) { compiler.run(&block); });
}

}  // namespace tessera::codegen
