// SPDX-License-Identifier: Apache-2.0
// All-gathers across processes whose parts lie one after the other in the result: what other
// processes send is received where it belongs, and isn't held anywhere else.
#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/task_pool.h"
#include "src/runtime/local_plan.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {

bool PlanExecutor::gathers_in_place(const Exchange& exchange) const {
  return local_ != nullptr && exchange.kind == Exchange::Kind::all_gather &&
         exchange.before.empty() && local_->crosses(exchange) &&
         std::all_of(exchange.parts.begin(), exchange.parts.end(),
                     [](const Exchange::Part& p) { return p.outer == 1; });
}

void PlanExecutor::gather_in_place(const Step& step, const Exchange& exchange,
                                   const ActiveSet& active) {
  struct Copy {
    std::byte* to;
    SlotId slot;
    std::int32_t cls;
    std::int64_t bytes;
  };
  std::vector<Copy> copies;  // all places of all results
  std::map<std::pair<SlotId, std::int32_t>, std::byte*> first;
  for (const Exchange::Part& part : exchange.parts) {
    Receivers r = receivers_of(exchange, part, active);
    if (r.who.size() == 0) continue;
    allocate_results(exchange, part, &r);
    const DeviceClasses& inputs = classes(slot(part.input).classes);
    for (std::size_t i = 0; i < r.who.size(); ++i) {
      if (r.group[i]->size() == 1) continue;  // its result is its input
      std::byte* at = r.to[i];
      for (const std::int32_t m : *r.group[i]) {
        const std::int32_t cls = inputs.class_of[std::size_t(m)];
        first.try_emplace({part.input, cls}, at);
        copies.push_back({at, part.input, cls, part.chunk});
        at += part.chunk;
      }
    }
  }
  const LocalPlan::Traffic& traffic = local_->traffic(exchange, active);
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (const LocalPlan::Message& m : traffic.sends) {
    const BufferRef& from = buffer(m.slot, m.cls);
    if (from->bytes() > 0) outgoing.push_back({m.process, from->data(), from->bytes()});
  }
  std::map<std::pair<SlotId, std::int32_t>, const std::byte*> received;
  std::vector<BufferRef> unused;
  for (const LocalPlan::Message& m : traffic.receives) {
    const auto bytes = std::size_t(slot(m.slot).bytes);
    const auto place = first.find({m.slot, m.cls});
    // Of devices whose results are known to be equal one stands for all, and what only the others
    // would read is of no use.
    if (place == first.end()) unused.push_back(Storage::allocate(bytes));
    std::byte* to = place == first.end() ? unused.back()->data() : place->second;
    received[{m.slot, m.cls}] = to;
    if (bytes > 0) incoming.push_back({m.process, to, bytes});
  }
  const std::string what = LocalPlan::title(step, exchange);
  const Activity activity = local_->activity(step, what);
  Processes::Ticket ticket = local_->processes().start(outgoing, incoming, local_->tag(step));
  const auto copy = [&](const Copy& c, bool of_others) {
    const auto found = received.find({c.slot, c.cls});
    if ((found != received.end()) != of_others || c.bytes == 0) return;
    const std::byte* from = of_others ? found->second : buffer(c.slot, c.cls)->data();
    if (from != c.to) std::memcpy(c.to, from, std::size_t(c.bytes));
  };
  const auto copy_all = [&](bool of_others) {
    if (workers_ == 1) {
      for (const Copy& c : copies) copy(c, of_others);
    } else {
      parallel_for(std::int64_t(copies.size()),
                   [&](std::int64_t k) { copy(copies[std::size_t(k)], of_others); });
    }
  };
  copy_all(false);  // meanwhile
  local_->processes().finish(&ticket, activity);
  copy_all(true);
}

}  // namespace tessera::runtime
