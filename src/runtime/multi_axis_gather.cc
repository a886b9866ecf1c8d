// SPDX-License-Identifier: Apache-2.0
// Several all-gathers in sequence, done as one: each source is copied directly to its places in the
// final result.
#include <algorithm>
#include <cstring>

#include "src/base/threads/task_pool.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {
namespace {

/// The data movement of one gather of the sequence: chunk c of member m goes to place c * n + m.
struct Level {
  const std::vector<std::vector<std::int32_t>>* groups;
  const std::vector<Exchange::Membership>* memberships;
  std::int64_t chunk, n;
};

/// One device's part as one class receives it: `places[k]` is its place in gather k.
struct Transfer {
  std::size_t output;
  std::int32_t source;
  std::vector<std::int64_t> places;
};

void add_transfers(const std::vector<Level>& levels, std::size_t left, std::int32_t device,
                   Transfer* transfer, std::vector<Transfer>* transfers) {
  if (left == 0) {
    transfer->source = device;
    transfers->push_back(*transfer);
    return;
  }
  const Level& level = levels[left - 1];
  const auto& member = (*level.memberships)[std::size_t(device)];
  if (member.group < 0) {
    throw RuntimeError("a device is in no group of an all-gather; each must be in one");
  }
  const auto& group = (*level.groups)[std::size_t(member.group)];
  for (std::size_t m = 0; m < group.size(); ++m) {
    transfer->places[left - 1] = std::int64_t(m);
    add_transfers(levels, left - 1, group[m], transfer, transfers);
  }
}

void copy_along(const std::vector<Level>& levels, const Transfer& transfer, const std::byte* from,
                std::int64_t bytes, std::byte* to) {
  for (std::int64_t at = 0; at < bytes;) {
    std::int64_t place = at, run = bytes - at;
    for (std::size_t k = 0; k < levels.size(); ++k) {
      const std::int64_t chunk = levels[k].chunk, part = place / chunk, rest = place % chunk;
      run = std::min(run, chunk - rest);
      place = (part * levels[k].n + transfer.places[k]) * chunk + rest;
    }
    std::memcpy(to + place, from + at, std::size_t(run));
    at += run;
  }
}

}  // namespace

void PlanExecutor::multi_axis_gather(const Exchange& exchange, const ActiveSet& active) {
  const Exchange::Part& part = exchange.parts[0];
  std::vector<Level> levels;
  for (const Exchange::Gather& g : exchange.before) {
    levels.push_back(
        {&g.groups.lists(), g.memberships.get(), g.chunk, std::int64_t(g.groups.at(0).size())});
  }
  levels.push_back({&exchange.groups.lists(), exchange.memberships.get(), part.chunk,
                    std::int64_t(exchange.groups.at(0).size())});
  const Slot& output = slot(part.output);
  const ActiveSet::Classes who = active.of(output.classes);
  std::vector<std::byte*> to;
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < who.size(); ++i) {
    BufferRef& target = buffer(part.output, who.classes[i]);
    target = allocate(output);
    to.push_back(target->data());
    Transfer transfer{i, 0, std::vector<std::int64_t>(levels.size())};
    add_transfers(levels, levels.size(), who.devices[i], &transfer, &transfers);
  }
  const std::int64_t bytes = slot(part.input).bytes;
  const auto work = [&](std::int64_t w) {
    const Transfer& transfer = transfers[std::size_t(w)];
    copy_along(levels, transfer, buffer_of(part.input, transfer.source)->data(), bytes,
               to[transfer.output]);
  };
  if (workers_ == 1 || double(bytes) * double(transfers.size()) * 0.1 < kInlineNanoseconds) {
    for (std::int64_t w = 0; w < std::int64_t(transfers.size()); ++w) work(w);
  } else {
    parallel_for(std::int64_t(transfers.size()), work);
  }

  if (counters_ == nullptr) return;
  std::int64_t held = bytes;
  for (const Level& level : levels) {
    counters_->bytes[std::size_t(exchange.kind)] += held * (level.n - 1);
    counters_->count[std::size_t(exchange.kind)] += 1;
    held *= level.n;
  }
}

}  // namespace tessera::runtime
