// SPDX-License-Identifier: Apache-2.0
// Plans: division into segments between exchanges, and printing.
#include "src/runtime/plan.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <set>

#include "src/base/check.h"
#include "src/runtime/plan_walk.h"

namespace tessera::runtime {
namespace {

/// Groups that steps share are processed once.
class Members {
 public:
  explicit Members(std::int64_t devices) : devices_(devices) {}

  void enter(Exchange* exchange) {
    const bool pairs = exchange->kind == Exchange::Kind::collective_permute;
    exchange->memberships = of(exchange->groups, pairs);
    for (Exchange::Gather& gather : exchange->before) {
      gather.memberships = of(gather.groups, false);
    }
  }

 private:
  Exchange::Memberships of(const DeviceLists& groups, bool pairs) {
    Exchange::Memberships& known = known_[{&groups.lists(), pairs}];
    if (known) return known;
    std::vector<Exchange::Membership> members(static_cast<std::size_t>(devices_));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t place = pairs ? 1 : 0; place < groups[g].size(); ++place) {
        members.at(std::size_t(groups[g][place])) = {std::int32_t(g), std::int32_t(place)};
      }
    }
    known = std::make_shared<const std::vector<Exchange::Membership>>(std::move(members));
    return known;
  }

  std::int64_t devices_;
  // Only looked up, never iterated over.
  std::map<std::pair<const DeviceLists::Lists*, bool>, Exchange::Memberships> known_;
};

void cut(const Plan& plan, Members* members, Block* block) {
  block->segments.clear();
  const auto classes_of = [&](SlotId slot) { return plan.slots[std::size_t(slot)].classes; };
  for (std::size_t i = 0; i < block->steps.size(); ++i) {
    Step& step = block->steps[i];
    for_each_block(step, [&](Block& b) { cut(plan, members, &b); });
    if (auto* exchange = std::get_if<Exchange>(&step.what)) members->enter(exchange);
    const auto* task = std::get_if<KernelTask>(&step.what);
    const ClassesId classes = task ? classes_of(task->outputs.at(0)) : -1;
    if (task) {
      for (const SlotId s : task->outputs) {
        TESSERA_CHECK(classes_of(s) == classes, "outputs of unequal classes: " + step.name);
      }
      for (const SlotId s : task->inputs) {
        const ClassesId its = classes_of(s);
        TESSERA_CHECK(its == classes || plan.classes[std::size_t(classes)].refines(
                                            plan.classes[std::size_t(its)]),
                      "an input is finer than the output: " + step.name);
      }
    }
    const auto with_effects = [](const Step& s) {
      const auto* its = std::get_if<KernelTask>(&s.what);
      return its != nullptr && its->has_effects;
    };
    if (task && !block->segments.empty() && block->segments.back().classes == classes &&
        !with_effects(step) &&
        !with_effects(block->steps[std::size_t(block->segments.back().begin)])) {
      block->segments.back().end = std::int32_t(i + 1);
    } else {
      block->segments.push_back({std::int32_t(i), std::int32_t(i + 1), classes, 0, {}});
    }
    Segment& segment = block->segments.back();
    if (task != nullptr) {
      segment.nanoseconds += task->nanoseconds + 50;
      // A class may drop only buffers that no other class of the segment reads.
      std::vector<SlotId> own;
      for (const SlotId s : step.release) {
        (classes_of(s) == classes ? own : segment.release).push_back(s);
      }
      step.release = std::move(own);
    }
  }
}

/// What a step and those in it read and write; nothing if one exchanges or has effects.
std::set<SlotId> slots_apart(const Step& outer) {
  std::set<SlotId> slots;
  bool apart = true;
  const auto add = [&](SlotId s) { slots.insert(s); };
  for_each_step(outer, [&](const Step& step) {
    const KernelTask* task = task_of(step);
    apart = apart && !std::holds_alternative<Exchange>(step.what) &&
            (task == nullptr || !task->has_effects);
    for_each_read(step, add);
    for_each_write(step, add);
    // What stands behind the outer step is no part of it.
    if (&step != &outer) slots.insert(step.release.begin(), step.release.end());
    for_each_block(step, [&](const Block& block) {
      for (const Segment& segment : block.segments) {
        slots.insert(segment.release.begin(), segment.release.end());
      }
    });
  });
  if (!apart) slots.clear();
  return slots;
}

/// The slots of the outermost loops that groups of devices can run at their own pace.
void find_loops(Block* block) {
  for (Step& step : block->steps) {
    if (auto* loop = std::get_if<While>(&step.what)) {
      const std::set<SlotId> slots = slots_apart(step);
      loop->slots.assign(slots.begin(), slots.end());
      if (!slots.empty()) continue;
    }
    for_each_block(step, [](Block& b) { find_loops(&b); });
  }
}

std::string list(const Plan& plan, const std::vector<SlotId>& slots) {
  std::string out;
  for (const SlotId s : slots) {
    const Slot& slot = plan.slots[std::size_t(s)];
    out += fmt::format("{}%{}[{}B x{}{}]", out.empty() ? "" : ", ", s, slot.bytes,
                       plan.classes[std::size_t(slot.classes)].count(),
                       is_host(slot.memory) ? std::string(" ") + name(slot.memory) : "");
  }
  return out;
}

std::string list(const std::vector<Move>& moves) {
  std::string out;
  for (const Move& m : moves) {
    out += fmt::format("{}%{}{}%{}", out.empty() ? "" : ", ", m.to, m.donate ? "<<" : "<-", m.from);
  }
  return out;
}

void print(const Plan& plan, const Block& block, int indent, std::string* out) {
  const std::string pad(std::size_t(indent), ' ');
  for (const Segment& segment : block.segments) {
    if (segment.classes >= 0) *out += fmt::format("{}segment\n", pad);
    for (auto i = segment.begin; i < segment.end; ++i) {
      const Step& step = block.steps[std::size_t(i)];
      *out += pad + "  " + step.name;
      if (const auto* task = std::get_if<KernelTask>(&step.what)) {
        *out += fmt::format(": {} <- {}", list(plan, task->outputs), list(plan, task->inputs));
        for (const auto& r : task->reuse) {
          *out += fmt::format(" reuse {}<-{}{}", r.output, r.input, r.copy ? " (copy)" : "");
        }
      } else if (const auto* exchange = std::get_if<Exchange>(&step.what)) {
        *out += fmt::format(": {} in {} groups", runtime::name(exchange->kind),
                            exchange->groups.size());
        for (const auto& gather : exchange->before) {
          *out += fmt::format(" of all-gather in {} groups", gather.groups.size());
        }
        for (const auto& p : exchange->parts) {
          *out += fmt::format(" {} <- {}", list(plan, {p.output}), list(plan, {p.input}));
        }
        if (exchange->input_dies) *out += " in place";
      } else if (const auto* loop = std::get_if<While>(&step.what)) {
        *out += fmt::format(": while %{}; init {}\n", loop->predicate, list(loop->init));
        print(plan, loop->condition, indent + 4, out);
        *out += pad + "   do\n";
        print(plan, loop->body, indent + 4, out);
        *out += pad + "   next " + list(loop->next);
      } else {
        const auto& conditional = std::get<Conditional>(step.what);
        *out += fmt::format(": conditional %{}\n", conditional.selector);
        for (const Branch& branch : conditional.branches) {
          *out += pad + "   branch " + list(branch.parameters) + "\n";
          print(plan, branch.block, indent + 4, out);
          *out += pad + "   gives " + list(branch.results) + "\n";
        }
      }
      if (!step.release.empty()) *out += "; release " + list(plan, step.release);
      *out += '\n';
    }
    if (!segment.release.empty()) {
      *out += fmt::format("{}end; release {}\n", pad, list(plan, segment.release));
    }
  }
}

}  // namespace

const char* name(Exchange::Kind kind) {
  switch (kind) {
    case Exchange::Kind::all_gather:
      return "all-gather";
    case Exchange::Kind::all_reduce:
      return "all-reduce";
    case Exchange::Kind::reduce_scatter:
      return "reduce-scatter";
    case Exchange::Kind::all_to_all:
    case Exchange::Kind::all_to_all_tuple:
      return "all-to-all";
    case Exchange::Kind::collective_permute:
      return "collective-permute";
    case Exchange::Kind::collective_broadcast:
      return "collective-broadcast";
  }
  return "?";
}

void finalize(Plan* plan) {
  std::int32_t next = 0;
  for (Slot& slot : plan->slots) {
    slot.first_buffer = next;
    next += plan->classes.at(std::size_t(slot.classes)).count();
  }
  plan->num_buffers = next;
  plan->numbers.resize(std::size_t(plan->num_devices));
  std::iota(plan->numbers.begin(), plan->numbers.end(), 0);
  Members members(plan->num_devices);
  cut(*plan, &members, &plan->entry);
  find_loops(&plan->entry);
}

std::string to_string(const Plan& plan) {
  std::string out = fmt::format("plan for {} devices, {} slots, {} cells\n", plan.num_devices,
                                plan.slots.size(), plan.num_buffers);
  out += "parameters " + list(plan, plan.parameters) + "\n";
  for (const auto& c : plan.constants) out += "constant " + list(plan, {c.slot}) + "\n";
  print(plan, plan.entry, 0, &out);
  out += "results " + list(plan, plan.results) + "\n";
  return out;
}

}  // namespace tessera::runtime
