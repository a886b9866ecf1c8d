// SPDX-License-Identifier: Apache-2.0
// Large all-reduces across processes. The elements go through the processes in the order of the
// group, each of which adds its own, and the sums come back the same way: so results have the bits
// that one process gives, and each process sends and receives what it holds once each way, however
// many devices it has. Both ways are taken by segments at a time, which follow one another.
#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/threads/task_pool.h"
#include "src/runtime/local_plan.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {
namespace {

/// The more hops there are the more segments, so that most of them are on their way at a time; but
/// none so small that waiting for each other takes longer than sending it.
constexpr std::int64_t kSegmentBytes = std::int64_t(1) << 19;
constexpr std::int64_t kSegmentsPerHop = 4;
/// Less is sent by everyone to everyone, which takes one step instead of many.
constexpr std::int64_t kChainFrom = std::int64_t(1) << 16;
/// Between two devices that is no more bytes, so that only the overlap of sums with sending counts.
constexpr std::int64_t kChainOfTwoFrom = std::int64_t(1) << 19;

/// Members of a group that follow one another and whose values one process has.
struct Run {
  int process = 0;
  std::vector<std::int32_t> members;
};

/// The sum of one group's values.
struct Sum {
  std::size_t part = 0;
  std::vector<Run> runs;
  std::vector<int>
      back;  ///< the last process, then those to which the sums go from one to the next
  std::shared_ptr<Storage> result;
  std::int64_t elements = 0;
  std::int64_t per_segment = 1;  ///< elements

  std::size_t segments() const { return std::size_t((elements + per_segment - 1) / per_segment); }
  bool is_made_by(int process) const {
    return std::find(back.begin(), back.end(), process) != back.end() ||
           std::any_of(runs.begin(), runs.end(),
                       [&](const Run& run) { return run.process == process; });
  }
  /// A message per hop and segment: first from run to run, then back.
  std::size_t hops() const { return runs.size() - 1 + back.size() - 1; }
  std::pair<int, int> ends(std::size_t hop) const {
    if (hop + 1 < runs.size()) return {runs[hop].process, runs[hop + 1].process};
    const std::size_t k = hop + 1 - runs.size();
    return {back[k], back[k + 1]};
  }
};

/// The sums of an exchange, and which of them each group has.
struct Chain {
  std::vector<Sum> sums;
  std::vector<std::vector<std::size_t>> sum_of;  ///< by part and group
};

/// The processes to which a sum goes for one group: those nearest to the end of the chain first, as
/// there and back are mirror images.
void add_receivers(Sum* sum, std::span<const std::int32_t> group, const LocalPlan& local) {
  const auto add = [&](int process) {
    if (std::find(sum->back.begin(), sum->back.end(), process) == sum->back.end()) {
      sum->back.push_back(process);
    }
  };
  add(sum->runs.back().process);
  for (std::size_t r = sum->runs.size(); r-- > 0;) {
    const int process = sum->runs[r].process;
    const bool receives = std::any_of(
        group.begin(), group.end(), [&](std::int32_t m) { return local.process_of(m) == process; });
    if (receives) add(process);
  }
  for (const std::int32_t m : group) add(local.process_of(m));
}

Chain chain_of(const Plan& plan, const Exchange& exchange, const LocalPlan& local,
               const ActiveSet& active) {
  const int me = local.processes().index();
  Chain chain;
  chain.sum_of.resize(exchange.parts.size());
  // By part and the classes of the group's members: equal ones have equal sums.
  std::map<std::pair<std::size_t, std::vector<std::int32_t>>, std::size_t> known;
  for (std::size_t i = 0; i < exchange.parts.size(); ++i) {
    const Slot& input = plan.slots[std::size_t(exchange.parts[i].input)];
    const DeviceClasses& inputs = plan.classes[std::size_t(input.classes)];
    const auto have = local.holders(input.classes, active);
    const auto holds = [&](int process, std::int32_t member) {
      const auto& list = have[std::size_t(inputs.class_of[std::size_t(member)])];
      return std::binary_search(list.begin(), list.end(), process);
    };
    for (std::size_t g = 0; g < exchange.groups.size(); ++g) {
      const auto& group = exchange.groups[g];
      chain.sum_of[i].push_back(0);
      if (group.empty() || !active.contains(group[0])) continue;
      std::vector<std::int32_t> key;
      for (const std::int32_t m : group) key.push_back(inputs.class_of[std::size_t(m)]);
      const auto [found, added] = known.try_emplace({i, std::move(key)}, chain.sums.size());
      chain.sum_of[i][g] = found->second;
      if (added) {
        Sum sum;
        sum.part = i;
        sum.elements = input.bytes / exchange.element_bytes;
        for (const std::int32_t m : group) {
          if (sum.runs.empty() || !holds(sum.runs.back().process, m)) {
            sum.runs.push_back({local.process_of(m), {}});
          }
          sum.runs.back().members.push_back(m);
        }
        chain.sums.push_back(std::move(sum));
      }
      Sum& sum = chain.sums[found->second];
      add_receivers(&sum, group, local);
      // Where each has all values, each makes the sum.
      const bool complete = std::all_of(sum.back.begin(), sum.back.end(), [&](int process) {
        return std::all_of(group.begin(), group.end(),
                           [&](std::int32_t m) { return holds(process, m); });
      });
      if (complete && std::find(sum.back.begin(), sum.back.end(), me) != sum.back.end()) {
        sum.back = {me};
        sum.runs = {{me, group}};
      }
    }
  }
  for (Sum& sum : chain.sums) {
    const std::int64_t most = kSegmentsPerHop * std::max<std::int64_t>(1, std::int64_t(sum.hops()));
    const std::int64_t least = std::max<std::int64_t>(1, kSegmentBytes / exchange.element_bytes);
    sum.per_segment = std::max(least, (sum.elements + most - 1) / most);
  }
  return chain;
}

/// What process `me` sends and receives in a step: segment s makes hop h in step s + h.
void messages_of(const Chain& chain, std::size_t step, int me, std::int64_t element_bytes,
                 std::vector<Outgoing>* outgoing, std::vector<Incoming>* incoming) {
  outgoing->clear();
  incoming->clear();
  for (const Sum& sum : chain.sums) {
    for (std::size_t h = 0; h < sum.hops() && h <= step; ++h) {
      const std::size_t segment = step - h;
      if (segment >= sum.segments()) continue;
      const auto [from, to] = sum.ends(h);
      if (from == to || (from != me && to != me)) continue;
      const std::int64_t first = std::int64_t(segment) * sum.per_segment;
      const auto bytes =
          std::size_t(std::min(sum.per_segment, sum.elements - first) * element_bytes);
      std::byte* at = sum.result->data() + first * element_bytes;
      if (from == me) {
        outgoing->push_back({to, at, bytes});
      } else {
        incoming->push_back({from, at, bytes});
      }
    }
  }
}

}  // namespace

bool LocalPlan::chains(const Exchange& exchange) const {
  if (exchange.kind != Exchange::Kind::all_reduce) return false;
  std::int64_t bytes = 0;
  for (const Exchange::Part& p : exchange.parts) bytes += plan_.slots[std::size_t(p.input)].bytes;
  const bool pairs = std::all_of(exchange.groups.lists().begin(), exchange.groups.lists().end(),
                                 [](const auto& group) { return group.size() <= 2; });
  return bytes >= (pairs ? kChainOfTwoFrom : kChainFrom);
}

void PlanExecutor::chain_reduce(const Step& step, const Exchange& exchange,
                                const ActiveSet& active) {
  const int me = local_->processes().index();
  Chain chain = chain_of(plan_, exchange, *local_, active);
  for (Sum& sum : chain.sums) {
    if (sum.is_made_by(me)) sum.result = allocate(slot(exchange.parts[sum.part].output));
  }
  const Combiner& combiner = plan_.combiners[std::size_t(exchange.combiner)];
  // What this process has for a segment is added to what has come.
  const auto add_run = [&](const Sum& sum, std::size_t r, std::size_t segment) {
    const std::int64_t first = std::int64_t(segment) * sum.per_segment;
    const std::int64_t count = std::min(sum.per_segment, sum.elements - first);
    const std::int64_t tiles =
        std::clamp<std::int64_t>(count * exchange.element_bytes / (1 << 16), 1, workers_);
    const auto tile = [&](std::int64_t t) {
      const std::int64_t begin = first + count * t / tiles, end = first + count * (t + 1) / tiles;
      const std::int64_t at = begin * exchange.element_bytes;
      std::byte* into = sum.result->data() + at;
      bool there = r > 0;
      for (const std::int32_t m : sum.runs[r].members) {
        const std::byte* from = buffer_of(exchange.parts[sum.part].input, m)->data() + at;
        if (!there) {
          std::memcpy(into, from, std::size_t((end - begin) * exchange.element_bytes));
        } else {
          combiner.function(combiner.attributes.get(), into, from, end - begin);
        }
        there = true;
      }
    };
    if (tiles == 1) return tile(0);
    parallel_for(tiles, tile);
  };

  std::size_t steps = 0;
  for (const Sum& sum : chain.sums) steps = std::max(steps, sum.segments() + sum.hops());
  const Activity activity = local_->activity(step, local_->mark(step).title);
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (std::size_t now = 0; now < steps; ++now) {
    // What a hop needs came in the step before.
    for (const Sum& sum : chain.sums) {
      if (now < sum.segments() && sum.runs[0].process == me) add_run(sum, 0, now);
    }
    messages_of(chain, now, me, exchange.element_bytes, &outgoing, &incoming);
    if (!outgoing.empty() || !incoming.empty()) {
      local_->processes().exchange(outgoing, incoming, local_->tag(step) + 3 + std::uint32_t(now),
                                   activity);
    }
    for (const Sum& sum : chain.sums) {
      for (std::size_t h = 0; h + 1 < sum.runs.size() && h <= now; ++h) {
        if (sum.runs[h + 1].process == me && now - h < sum.segments()) {
          add_run(sum, h + 1, now - h);
        }
      }
    }
  }

  for (std::size_t i = 0; i < exchange.parts.size(); ++i) {
    const ActiveSet::Classes who = active.of(slot(exchange.parts[i].output).classes);
    for (std::size_t k = 0; k < who.size(); ++k) {
      const auto& member = (*exchange.memberships)[std::size_t(who.devices[k])];
      if (member.group < 0) {
        throw RuntimeError("a device is in no group of an all-reduce; each must be in one");
      }
      buffer(exchange.parts[i].output, who.classes[k]) =
          chain.sums[chain.sum_of[i][std::size_t(member.group)]].result;
    }
  }
}

}  // namespace tessera::runtime
