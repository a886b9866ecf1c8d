// SPDX-License-Identifier: Apache-2.0
// Operands, memory and order of steps that become one.
#include "src/codegen/steps/joined_steps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/contains.h"

namespace tessera::codegen {

using namespace runtime;

bool may_be_joined(const KernelTask& task, const Plan& plan, const KernelTable& kernels,
                   MemoryKind memory) {
  return !task.has_effects && !task.transfers_to && !task.outputs.empty() &&
         !kernels.at(task.kernel).may_throw &&
         std::all_of(task.outputs.begin(), task.outputs.end(),
                     [&](SlotId s) { return plan.slots[std::size_t(s)].memory == memory; });
}

bool may_overwrite(const KernelTask& task, std::size_t o, SlotId s, bool part) {
  return std::count(task.inputs.begin(), task.inputs.end(), s) == 1 &&
         std::any_of(task.reuse.begin(), task.reuse.end(), [&](const KernelTask::Reuse& r) {
           return r.copy == part && std::size_t(r.output) == o &&
                  task.inputs[std::size_t(r.input)] == s;
         });
}

bool changes_a_part(const KernelTask& task) {
  return std::any_of(task.reuse.begin(), task.reuse.end(), [](const auto& r) { return r.copy; });
}

Links::Links(const Block& block, std::vector<std::size_t> numbers, const PlanReaders& readers)
    : block_(block), numbers_(std::move(numbers)), readers_(readers) {
  for (std::size_t l = 0; l < size(); ++l) reads_.add(step(l), l);
}

Step Links::joined(KernelTask task) const {
  constexpr std::size_t kMostOps = 4;
  const Step& last = block_.steps[*std::max_element(numbers_.begin(), numbers_.end())];
  const std::size_t first = size() > kMostOps ? size() - kMostOps : 0;
  std::string ops = first > 0 ? "..." : "";
  for (std::size_t l = first; l < size(); ++l) {
    if (!ops.empty()) ops += '+';
    ops += step(l).op;
  }
  return {last.name, std::move(ops), last.location, std::move(task), {}};
}

bool Links::is_inside(SlotId s) const {
  const StepReads::Reads* reads = reads_.find(s);
  return reads != nullptr && reads->count == readers_.of(s);
}

Place OperandPlaces::of(SlotId s) {
  const auto [it, added] =
      places_.try_emplace(s, Place{Place::Kind::input, int(task_.inputs.size())});
  if (added) task_.inputs.push_back(s);
  return it->second;
}

const Place* OperandPlaces::find(SlotId s) const {
  const auto it = places_.find(s);
  return it == places_.end() ? nullptr : &it->second;
}

Place OperandPlaces::output(SlotId s) {
  task_.outputs.push_back(s);
  return {Place::Kind::output, int(task_.outputs.size()) - 1};
}

Place OperandPlaces::scratch(std::int64_t bytes) {
  scratch_bytes_ += bytes;
  scratch_.push_back(bytes);
  return {Place::Kind::scratch, int(scratch_.size()) - 1};
}

bool OperandPlaces::is_shared(const Place& place, SlotId s) const {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const auto& p) { return p.first != s && p.second == place; });
}

std::vector<std::int64_t> OperandPlaces::sizes(const std::vector<SlotId>& slots) const {
  std::vector<std::int64_t> out;
  for (const SlotId s : slots) out.push_back(bytes(s));
  return out;
}

Link OperandPlaces::link(const KernelTable& kernels, const KernelTask& task) {
  Link out{kernels.at(task.kernel), {}, {}};
  // Others run the same kernel on more elements, or fewer.
  out.kernel.units = task.units;
  out.kernel.nanoseconds = task.nanoseconds;
  for (const SlotId s : task.inputs) out.inputs.push_back(of(s));
  return out;
}

void OperandPlaces::add_reuse(const Links& links,
                              const std::function<bool(SlotId, std::size_t)>& may) {
  for (std::size_t l = 0; l < links.size(); ++l) {
    const KernelTask& t = links.task(l);
    for (std::size_t o = 0; o < t.outputs.size(); ++o) {
      const Place& to = places_.at(t.outputs[o]);
      if (to.kind != Place::Kind::output) continue;
      for (std::size_t k = 0; k < task_.inputs.size(); ++k) {
        const SlotId s = task_.inputs[k];
        const std::size_t read = links.last_read(s);
        if (read > l || !may(s, l)) continue;
        if (changes_a_part(t)) {
          // The rest of it has to be there: no other memory will do.
          const bool its = read == l && may_overwrite(t, o, s, /*part=*/true);
          if (its) task_.reuse.push_back({int(k), to.number, true, false});
        } else if (bytes(s) == bytes(t.outputs[o]) && (read < l || may_overwrite(t, o, s))) {
          task_.reuse.push_back({int(k), to.number, false, false});
        }
      }
    }
  }
}

KernelTask OperandPlaces::take(const KernelDescriptor& kernel, KernelTable* kernels) {
  kernels->set(&task_, kernel);
  return std::move(task_);
}

Region Region::of(const std::vector<std::size_t>& links, std::vector<std::size_t> behind) {
  Region out{links.front(), links.back() + 1, {}, std::move(behind)};
  for (std::size_t n = out.begin; n < out.end; ++n) {
    if (!contains(links, n) && !contains(out.behind, n)) out.before.push_back(n);
  }
  return out;
}

std::vector<const Step*> Region::with(const Block& block, const std::vector<Step>& joined) const {
  std::vector<const Step*> out;
  for (const std::size_t n : before) out.push_back(&block.steps[n]);
  for (const Step& step : joined) out.push_back(&step);
  for (const std::size_t n : behind) out.push_back(&block.steps[n]);
  return out;
}

std::size_t Region::replace(Block* block, std::vector<Step> joined) const {
  std::vector<Step> steps;
  const auto move_all = [&](const std::vector<std::size_t>& numbers) {
    for (const std::size_t n : numbers) steps.push_back(std::move(block->steps[n]));
  };
  move_all(before);
  std::move(joined.begin(), joined.end(), std::back_inserter(steps));
  move_all(behind);
  const auto place = block->steps.begin() + std::ptrdiff_t(begin);
  std::move(steps.begin(), steps.end(), place);
  block->steps.erase(place + std::ptrdiff_t(steps.size()),
                     block->steps.begin() + std::ptrdiff_t(end));
  return begin + before.size();
}

}  // namespace tessera::codegen
