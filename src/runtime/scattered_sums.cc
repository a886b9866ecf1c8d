// SPDX-License-Identifier: Apache-2.0
// Finds who sums up what, and the places of what crosses processes.
#include "src/runtime/scattered_sums.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera::runtime {
namespace {

using Place = DirectExchange::Place;

constexpr std::int64_t kScatterFrom = std::int64_t(1) << 16;
constexpr std::int64_t kScatterOfTwoFrom = std::int64_t(1) << 17;
constexpr std::int64_t kScatterUntil = std::int64_t(1) << 22;
constexpr std::int64_t kStretch = 64;

/// The sum of the values of one or several groups, which are the same.
struct OrderedSum {
  std::vector<std::int32_t> terms;  ///< classes, in the order of the group
  std::set<std::int32_t> distinct;  ///< of these
  std::vector<int> processes;       ///< that need it, in order
  std::int32_t buffer = -1;         ///< of the result here
};

/// The part of the elements that one of several processes sums up.
struct Share {
  Share(std::int64_t elements, std::size_t processes, std::size_t place) {
    constexpr std::int64_t kTogether = 16;
    const auto n = std::int64_t(processes), k = std::int64_t(place);
    const std::int64_t units = (elements + kTogether - 1) / kTogether;
    const std::int64_t most = (units + n - 1) / n * kTogether;
    begin = std::min(elements, most * k);
    end = k + 1 == n ? elements : std::min(elements, most * (k + 1));
  }
  std::int64_t begin = 0, end = 0;
};

/// Finds the messages and pieces of one part of an exchange after another.
struct SumsDraft {
  const Plan& plan;
  const Exchange& exchange;
  const LocalPlan& local;
  ScatteredSums out;

  const Slot& slot(SlotId s) const { return plan.slots[std::size_t(s)]; }
  void add_part(const Exchange::Part& part);
  void share_out(const OrderedSum& sum, const Exchange::Part& part,
                 const std::vector<std::vector<int>>& have);
};

void SumsDraft::add_part(const Exchange::Part& part) {
  const DeviceClasses& inputs = plan.classes[std::size_t(slot(part.input).classes)];
  const auto have = local.holders(slot(part.input).classes, local.everything());
  // By the classes of its terms.
  std::map<std::vector<std::int32_t>, OrderedSum> sums;
  std::vector<OrderedSum*> sum_of;  // by group
  for (const std::vector<std::int32_t>& group : exchange.groups.lists()) {
    std::vector<std::int32_t> terms;
    for (const std::int32_t d : group) terms.push_back(inputs.class_of[std::size_t(d)]);
    OrderedSum& sum = sums[terms];
    sum.distinct.insert(terms.begin(), terms.end());
    sum.terms = std::move(terms);
    for (const std::int32_t d : group) {
      const int process = local.process_of(d);
      const auto at = std::lower_bound(sum.processes.begin(), sum.processes.end(), process);
      if (at == sum.processes.end() || *at != process) sum.processes.insert(at, process);
    }
    sum_of.push_back(&sum);
  }
  const ActiveSet::Classes who = local.everything().of(slot(part.output).classes);
  for (std::size_t k = 0; k < who.size(); ++k) {
    const auto& member = (*exchange.memberships)[std::size_t(who.devices[k])];
    if (member.group < 0) {
      throw RuntimeError("a device is in no group of an all-reduce; each must be in one");
    }
    OrderedSum& sum = *sum_of[std::size_t(member.group)];
    const std::int32_t buffer = slot(part.output).first_buffer + who.classes[k];
    const bool alone = sum.terms.size() == 1;
    out.scatter.results.push_back(
        {part.output, buffer, alone ? slot(part.input).first_buffer + sum.terms[0] : sum.buffer,
         -1});
    if (sum.buffer < 0) sum.buffer = buffer;
  }
  for (const auto& [key, sum] : sums) {
    if (sum.terms.size() > 1) share_out(sum, part, have);
  }
}

/// Who makes which elements of a sum, `have` being the processes that have each class.
void SumsDraft::share_out(const OrderedSum& sum, const Exchange::Part& part,
                          const std::vector<std::vector<int>>& have) {
  DirectExchange& scatter = out.scatter;
  const int me = local.processes().index();
  const auto holds = [&](int process, std::int32_t cls) {
    const std::vector<int>& list = have[std::size_t(cls)];
    return std::binary_search(list.begin(), list.end(), process);
  };
  const std::int64_t elements = slot(part.input).bytes / exchange.element_bytes;
  const auto place_in = [&](std::int32_t cls, std::int64_t element) {
    return Place{slot(part.input).first_buffer + cls, element * exchange.element_bytes};
  };
  const bool complete = std::all_of(sum.processes.begin(), sum.processes.end(), [&](int p) {
    return std::all_of(sum.terms.begin(), sum.terms.end(),
                       [&](std::int32_t cls) { return holds(p, cls); });
  });
  for (std::size_t q = 0; q < sum.processes.size(); ++q) {
    const int process = sum.processes[q];
    // Where each has all terms, each makes the whole sum.
    const Share share = complete ? Share(elements, 1, 0) : Share(elements, sum.processes.size(), q);
    const std::int64_t bytes = (share.end - share.begin) * exchange.element_bytes;
    if (bytes == 0) continue;
    std::map<std::int32_t, Place> received;
    for (const std::int32_t cls : sum.distinct) {
      if (holds(process, cls)) continue;
      const std::vector<int>& from = have[std::size_t(cls)];
      const int sender = from[std::size_t(process) % from.size()];
      if (sender == me) {
        scatter.sends.push_back({process, place_in(cls, share.begin), bytes});
      } else if (process == me) {
        Place place{DirectExchange::kStays, std::int64_t(scatter.receives.size())};
        if (!local.processes().can_read(sender, std::size_t(bytes))) {
          place = {DirectExchange::kExtra, scatter.extra_bytes};
          scatter.extra_bytes += (bytes + kStretch - 1) / kStretch * kStretch;
        }
        scatter.receives.push_back({sender, place, bytes});
        received[cls] = place;
      }
    }
    const Place made{sum.buffer, share.begin * exchange.element_bytes};
    if (process == me) {
      DirectExchange::Piece piece{made, bytes, {}, !received.empty()};
      for (const std::int32_t cls : sum.terms) {
        const auto found = received.find(cls);
        piece.terms.push_back(found != received.end() ? found->second : place_in(cls, share.begin));
      }
      scatter.pieces.push_back(std::move(piece));
    }
    if (complete || sum.buffer < 0) continue;
    if (process != me) {
      out.gather.receives.push_back({process, made, bytes});
      continue;
    }
    for (const int other : sum.processes) {
      if (other != me) out.gather.sends.push_back({other, made, bytes});
    }
  }
}

}  // namespace

bool ScatteredSums::fits(const Plan& plan, const Exchange& exchange,
                         const std::vector<std::int32_t>& process_of) {
  if (exchange.kind != Exchange::Kind::all_reduce) return false;
  std::int64_t bytes = 0;
  for (const Exchange::Part& p : exchange.parts) bytes += plan.slots[std::size_t(p.input)].bytes;
  const bool pairs = std::all_of(exchange.groups.lists().begin(), exchange.groups.lists().end(),
                                 [](const auto& group) { return group.size() <= 2; });
  if (bytes < (pairs ? kScatterOfTwoFrom : kScatterFrom) || bytes >= kScatterUntil) return false;
  return std::all_of(exchange.groups.lists().begin(), exchange.groups.lists().end(),
                     [&](const std::vector<std::int32_t>& group) {
                       std::set<std::int32_t> processes;
                       for (const std::int32_t d : group) {
                         processes.insert(process_of[std::size_t(d)]);
                       }
                       return group.size() <= 2 * processes.size();
                     });
}

ScatteredSums ScatteredSums::of(const Plan& plan, const Exchange& exchange,
                                const LocalPlan& local) {
  SumsDraft draft{plan, exchange, local, {}};
  for (const Exchange::Part& part : exchange.parts) draft.add_part(part);
  return std::move(draft.out);
}

}  // namespace tessera::runtime
