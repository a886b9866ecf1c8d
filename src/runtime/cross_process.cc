// SPDX-License-Identifier: Apache-2.0
// The parts of exchanges that cross processes, and choices on which processes agree.
#include <algorithm>
#include <cstring>

#include "src/runtime/direct_exchange.h"
#include "src/runtime/local_plan.h"
#include "src/runtime/plan_executor.h"
#include "src/runtime/scattered_sums.h"

namespace tessera::runtime {

bool PlanExecutor::cross(const Step& step, const Exchange& exchange, const ActiveSet& active) {
  const LocalPlan::Mark& mark = local_->mark(step);
  if (!mark.crosses) return false;
  if (mark.scatters && active.everything()) {
    const ScatteredSums& sums = local_->scattered(mark, exchange);
    run_direct(step, mark, exchange, sums.scatter, mark.tag);
    run_direct(step, mark, exchange, sums.gather, mark.tag + 1);
    return true;
  }
  if (mark.chains) {
    chain_reduce(step, exchange, active);
    return true;
  }
  if (mark.fits) {
    run_direct(step, mark, exchange, local_->direct(mark, exchange, active), mark.tag);
    return true;
  }
  fetch(step, exchange, active);
  return false;
}

void PlanExecutor::fetch(const Step& step, const Exchange& exchange, const ActiveSet& active) {
  const LocalPlan::Traffic& traffic = local_->traffic(exchange, active);
  if (traffic.empty()) return;
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  std::vector<BufferRef> packed;
  for (const LocalPlan::Message& m : traffic.sends) {
    const BufferRef& from = buffer(m.slot, m.cls);
    if (m.column < 0) {
      outgoing.push_back({m.process, from->data(), from->bytes()});
      continue;
    }
    const Exchange::Part& part = exchange.parts[m.part];
    const std::int64_t chunk = part.chunk, bytes = part.outer * chunk;
    if (bytes == 0) continue;
    const std::byte* first = from->data() + m.column * chunk;
    if (part.outer == 1) {
      outgoing.push_back({m.process, first, std::size_t(bytes)});
      continue;
    }
    const std::int64_t stride = std::int64_t(from->bytes()) / part.outer;
    packed.push_back(Storage::allocate(std::size_t(bytes), slot(m.slot).memory));
    for (std::int64_t row = 0; row < part.outer; ++row) {
      std::memcpy(packed.back()->data() + row * chunk, first + row * stride, std::size_t(chunk));
    }
    outgoing.push_back({m.process, packed.back()->data(), packed.back()->bytes()});
  }
  for (const LocalPlan::Message& m : traffic.receives) {
    BufferRef to;
    if (m.column < 0) {
      to = buffer(m.slot, m.cls) = allocate(slot(m.slot));
      fetched_.push_back({m.slot, m.cls});
    } else {
      const Exchange::Part& part = exchange.parts[m.part];
      to = Storage::allocate(std::size_t(part.outer * part.chunk), slot(m.slot).memory);
      columns_[{std::int64_t(m.part), m.cls, m.column}] = to;
    }
    if (to->bytes() > 0) incoming.push_back({m.process, to->data(), to->bytes()});
  }
  local_->processes().exchange(outgoing, incoming, local_->tag(step),
                               local_->activity(step, local_->mark(step).title));
}

void PlanExecutor::drop_fetched() {
  for (const auto& [id, cls] : fetched_) buffer(id, cls).reset();
  fetched_.clear();
  columns_.clear();
}

PlanExecutor::Column PlanExecutor::column_of(const Exchange& exchange, const Exchange::Part& part,
                                             std::int32_t device, std::int64_t column,
                                             std::int64_t n) {
  if (!columns_.empty()) {
    const std::int32_t cls = classes(slot(part.input).classes).class_of[std::size_t(device)];
    const auto found = columns_.find({&part - exchange.parts.data(), cls, column});
    if (found != columns_.end()) return {found->second->data(), part.chunk};
  }
  return {buffer_of(part.input, device)->data() + column * part.chunk, n * part.chunk};
}

void PlanExecutor::run_effects(const Step& step, const ActiveSet& active) {
  const auto& task = std::get<KernelTask>(step.what);
  const ClassesId id = slot(task.outputs[0]).classes;
  const auto holders = local_->holders(id, active);
  const int me = local_->processes().index();
  const ActiveSet::Classes who = active.of(id);
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (std::size_t i = 0; i < who.size(); ++i) {
    const std::vector<int>& have = holders[std::size_t(who.classes[i])];
    if (have[0] == me) run_class(step, who.classes[i], who.devices[i]);
    for (const SlotId s : task.outputs) {
      if (std::find(step.release.begin(), step.release.end(), s) != step.release.end()) continue;
      BufferRef& made = buffer(s, who.classes[i]);
      if (have[0] != me) {
        made = allocate(slot(s));
        if (made->bytes() > 0) incoming.push_back({have[0], made->data(), made->bytes()});
        continue;
      }
      for (const int p : have) {
        if (p != me && made->bytes() > 0) outgoing.push_back({p, made->data(), made->bytes()});
      }
    }
    if (have[0] == me) continue;
    for (const SlotId s : step.release) buffer(s, who.classes[i]).reset();
  }
  if (outgoing.empty() && incoming.empty()) return;
  const std::string what = "the call " + step.name;
  local_->processes().exchange(outgoing, incoming, local_->tag(step), local_->activity(step, what));
}

std::vector<std::int32_t> PlanExecutor::agree(
    const Step& step, ClassesId id, const ActiveSet& active,
    const std::function<std::int32_t(std::int32_t cls)>& mine) {
  const auto holders = local_->holders(id, active);
  const int me = local_->processes().index();
  std::vector<std::int32_t> out(holders.size(), -1);
  for (const std::int32_t c : active.of(id).classes) out[std::size_t(c)] = mine(c);
  const auto lacks = [](const std::vector<int>& have, int process) {
    return !std::binary_search(have.begin(), have.end(), process);
  };
  // Of each class its first holder tells those that have no device of it.
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (std::size_t c = 0; c < holders.size(); ++c) {
    if (holders[c].empty()) continue;
    auto* value = reinterpret_cast<std::byte*>(&out[c]);
    if (lacks(holders[c], me)) {
      incoming.push_back({holders[c][0], value, sizeof out[c]});
    } else if (holders[c][0] == me) {
      for (const int p : local_->members()) {
        if (lacks(holders[c], p)) outgoing.push_back({p, value, sizeof out[c]});
      }
    }
  }
  if (outgoing.empty() && incoming.empty()) return out;
  const std::string what = "the choice of " + step.name;
  local_->processes().exchange(outgoing, incoming, local_->tag(step) + 1,
                               local_->activity(step, what));
  return out;
}

}  // namespace tessera::runtime
