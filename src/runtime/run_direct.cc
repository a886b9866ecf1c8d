// SPDX-License-Identifier: Apache-2.0
// Exchanges across processes in one step, without buffers in between: what others send is received
// where it belongs.
#include <algorithm>
#include <cstring>
#include <span>

#include "src/base/threads/task_pool.h"
#include "src/runtime/direct_exchange.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {
namespace {

/// Of a sum so much is made at a time, so that it stays in a core's cache while terms are added.
constexpr std::int64_t kTileBytes = std::int64_t(1) << 17;
/// So much is read at a time of what stays in another process.
constexpr std::int64_t kReadBytes = std::int64_t(1) << 16;
/// What has no place of its own, if it is no more than this.
constexpr std::int64_t kFewBytes = 4096;

/// Where a run has what its exchange names.
struct Places {
  std::span<std::shared_ptr<Storage>> buffers;
  std::byte* extra;

  static bool stays(const DirectExchange::Place& p) { return p.buffer == DirectExchange::kStays; }
  std::byte* operator()(const DirectExchange::Place& p) const {
    return (p.buffer < 0 ? extra : buffers[std::size_t(p.buffer)]->data()) + p.offset;
  }
};

/// Makes stretches of results.
struct PieceMaker {
  const Places& at;
  const Combiner* combiner;
  std::int64_t element_bytes;
  Processes& processes;
  Processes::Ticket& ticket;

  std::int64_t whole_elements(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, bytes / element_bytes) * element_bytes;
  }
  void make_part(const DirectExchange::Piece& piece, std::int64_t begin, std::int64_t end) const {
    alignas(64) std::byte read[kReadBytes];
    const auto bytes = std::size_t(end - begin);
    const auto term = [&](const DirectExchange::Place& p, std::byte* to) -> const std::byte* {
      if (!Places::stays(p)) return at(p) + begin;
      processes.read(ticket, std::size_t(p.offset), std::size_t(begin), to, bytes);
      return to;
    };
    std::byte* const to = at(piece.to) + begin;
    const std::byte* const first = term(piece.terms[0], to);
    if (to != first) std::memcpy(to, first, bytes);
    for (std::size_t k = 1; k < piece.terms.size(); ++k) {
      combiner->function(combiner->attributes.get(), to, term(piece.terms[k], read),
                         (end - begin) / element_bytes);
    }
  }
  void make(const DirectExchange::Piece& piece, std::int64_t begin, std::int64_t end) const {
    const bool reads = std::any_of(piece.terms.begin(), piece.terms.end(), Places::stays);
    const std::int64_t most = reads ? whole_elements(kReadBytes) : end - begin;
    for (; begin < end; begin += most) make_part(piece, begin, std::min(end, begin + most));
  }
};

}  // namespace

void PlanExecutor::run_direct(const Step& step, const LocalPlan::Mark& mark,
                              const Exchange& exchange, const DirectExchange& direct,
                              std::uint32_t tag) {
  for (const DirectExchange::Result& r : direct.results) {
    BufferRef& target = buffers_[std::size_t(r.buffer)];
    if (r.is >= 0) {
      target = buffers_[std::size_t(r.is)];
    } else if (r.reuses >= 0 && sole_owner(buffers_[std::size_t(r.reuses)])) {
      target = buffers_[std::size_t(r.reuses)];  // both hold it until the input is released
    } else {
      target = allocate(slot(r.slot));
    }
  }
  alignas(64) std::byte few[kFewBytes];
  BufferRef many;
  if (direct.extra_bytes > kFewBytes) many = Storage::allocate(std::size_t(direct.extra_bytes));
  std::byte* const extra = many ? many->data() : few;
  const Places at{buffers_, extra};
  auto& [outgoing, incoming] = local_->messages();
  outgoing.clear();
  incoming.clear();
  for (const auto& m : direct.sends) {
    outgoing.push_back({m.process, at(m.at), std::size_t(m.bytes)});
  }
  for (const auto& m : direct.receives) {
    incoming.push_back({m.process, Places::stays(m.at) ? nullptr : at(m.at), std::size_t(m.bytes),
                        Places::stays(m.at)});
  }

  const Combiner* combiner =
      exchange.combiner < 0 ? nullptr : &plan_.combiners[std::size_t(exchange.combiner)];
  Processes& processes = local_->processes();
  Processes::Ticket ticket;
  const PieceMaker maker{at, combiner, exchange.element_bytes, processes, ticket};
  const std::int64_t tile = maker.whole_elements(kTileBytes);
  const auto make_all = [&](bool of_others) {
    std::int64_t tiles = 0;
    for (const DirectExchange::Piece& p : direct.pieces) {
      if (p.waits == of_others) tiles += (p.bytes + tile - 1) / tile;
    }
    if (workers_ == 1 || tiles < 2) {
      for (const DirectExchange::Piece& p : direct.pieces) {
        if (p.waits != of_others) continue;
        for (std::int64_t b = 0; b < p.bytes; b += tile)
          maker.make(p, b, std::min(b + tile, p.bytes));
      }
      return;
    }
    std::vector<std::pair<const DirectExchange::Piece*, std::int64_t>> work;
    for (const DirectExchange::Piece& p : direct.pieces) {
      if (p.waits != of_others) continue;
      for (std::int64_t b = 0; b < p.bytes; b += tile) work.emplace_back(&p, b);
    }
    parallel_for(std::int64_t(work.size()), [&](std::int64_t k) {
      const auto& [p, b] = work[std::size_t(k)];
      maker.make(*p, b, std::min(b + tile, p->bytes));
    });
  };
  if (outgoing.empty() && incoming.empty()) return make_all(false), make_all(true);
  const Activity activity = local_->activity(step, mark.title);
  ticket = processes.start(outgoing, incoming, tag);
  make_all(false);  // meanwhile
  if (std::any_of(incoming.begin(), incoming.end(), [](const Incoming& m) { return m.stays; })) {
    processes.arrive(&ticket, activity);
    make_all(true);
    return processes.finish(&ticket, activity);
  }
  processes.finish(&ticket, activity);
  make_all(true);
}

}  // namespace tessera::runtime
