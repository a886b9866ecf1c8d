// SPDX-License-Identifier: Apache-2.0
// Finds the places of what crosses processes.
#include "src/runtime/direct_exchange.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::runtime {
namespace {

using Kind = Exchange::Kind;
using Place = DirectExchange::Place;
/// Slot, class, column and part: what a message has.
using Source = std::tuple<SlotId, std::int32_t, std::int64_t, std::size_t>;

constexpr std::int64_t kApart = 64;

bool reduces(const Exchange& exchange) {
  return exchange.kind == Kind::all_reduce || exchange.kind == Kind::reduce_scatter;
}

/// A piece whose terms are not yet known by their places.
struct Open {
  std::size_t piece = 0;
  std::vector<Source> terms;
};

/// An exchange while its places are being found.
struct ExchangeDraft {
  const Plan& plan;
  const Exchange& exchange;
  DirectExchange out;
  std::vector<Open> open;
  std::map<Source, int> uses;        ///< how many results read each
  std::map<Source, Place> received;  ///< where what is received goes

  const Slot& slot(SlotId s) const { return plan.slots[std::size_t(s)]; }
  void add_results(std::size_t part, const ActiveSet& active);
  void place_messages(const LocalPlan::Traffic& traffic, const Processes& processes);
  void place_terms();
};

/// The results of a part, the pieces they are made of, and what each piece reads.
void ExchangeDraft::add_results(std::size_t i, const ActiveSet& active) {
  const bool columns = exchange.kind == Kind::all_to_all || exchange.kind == Kind::reduce_scatter;
  const Exchange::Part& part = exchange.parts[i];
  const DeviceClasses& inputs = plan.classes[std::size_t(slot(part.input).classes)];
  const auto input_buffer = [&](std::int32_t device) {
    return slot(part.input).first_buffer + inputs.class_of[std::size_t(device)];
  };
  const ActiveSet::Classes who = active.of(slot(part.output).classes);
  std::map<std::int32_t, int> readers;  // by buffer
  const std::size_t first_result = out.results.size();
  for (std::size_t k = 0; k < who.size(); ++k) {
    const auto& member = (*exchange.memberships)[std::size_t(who.devices[k])];
    if (member.group < 0) {
      throw RuntimeError("a device is in no group of an exchange; each must be in one");
    }
    const auto& group = exchange.groups[std::size_t(member.group)];
    DirectExchange::Result result{part.output, slot(part.output).first_buffer + who.classes[k], -1,
                                  -1};
    if (group.size() == 1) {
      result.is = input_buffer(group[0]);
      out.results.push_back(result);
      continue;
    }
    if (exchange.kind == Kind::all_reduce && exchange.input_dies) {
      result.reuses = input_buffer(group[0]);
    }
    for (const std::int32_t m : group) ++readers[input_buffer(m)];
    const auto source = [&](std::int32_t m) {
      return Source{part.input, inputs.class_of[std::size_t(m)], columns ? member.place : -1,
                    columns ? i : 0};
    };
    std::int64_t at = 0;
    if (reduces(exchange)) open.push_back({out.pieces.size(), {}});
    for (const std::int32_t m : group) {
      if (!reduces(exchange)) open.push_back({out.pieces.size(), {}});
      open.back().terms.push_back(source(m));
      ++uses[source(m)];
      if (reduces(exchange) && m != group.back()) continue;
      out.pieces.push_back({{result.buffer, at}, part.chunk, {}, false});
      at += part.chunk;
    }
    out.results.push_back(result);
  }
  for (std::size_t r = first_result; r < out.results.size(); ++r) {
    DirectExchange::Result& result = out.results[r];
    if (result.reuses >= 0 && readers[result.reuses] > 1) result.reuses = -1;
  }
}

// What is received goes where it is needed first, unless another term is needed there as well
// later on.
void ExchangeDraft::place_messages(const LocalPlan::Traffic& traffic, const Processes& processes) {
  const auto chunk_of = [&](const LocalPlan::Message& m) {
    return m.column < 0 ? slot(m.slot).bytes : exchange.parts[m.part].chunk;
  };
  const auto source_of = [](const LocalPlan::Message& m) {
    return Source{m.slot, m.cls, m.column, m.column < 0 ? 0 : m.part};
  };
  std::map<Source, Place> places;
  for (const Open& o : open) {
    if (!reduces(exchange) || uses[o.terms[0]] == 1) {
      places.try_emplace(o.terms[0], out.pieces[o.piece].to);
    }
  }
  for (const LocalPlan::Message& m : traffic.receives) {
    const std::int64_t bytes = chunk_of(m);
    const auto found = places.find(source_of(m));
    Place place;
    if (exchange.kind == Kind::reduce_scatter && uses[source_of(m)] == 1 &&
        processes.can_read(m.process, std::size_t(bytes))) {
      // Added up from where it is: no input's memory is written to that others may still read.
      place = {DirectExchange::kStays, std::int64_t(out.receives.size())};
    } else if (found != places.end()) {
      place = found->second;
    } else {
      place.offset = out.extra_bytes;
      out.extra_bytes += (bytes + kApart - 1) / kApart * kApart;
    }
    received[source_of(m)] = place;
    if (bytes > 0) out.receives.push_back({m.process, place, bytes});
  }
  for (const LocalPlan::Message& m : traffic.sends) {
    const std::int64_t bytes = chunk_of(m);
    const Place from{slot(m.slot).first_buffer + m.cls, m.column < 0 ? 0 : m.column * bytes};
    if (bytes > 0) out.sends.push_back({m.process, from, bytes});
  }
}

void ExchangeDraft::place_terms() {
  for (const Open& o : open) {
    DirectExchange::Piece& piece = out.pieces[o.piece];
    for (const Source& s : o.terms) {
      const auto& [from, cls, column, number] = s;
      const auto found = received.find(s);
      piece.waits = piece.waits || found != received.end();
      piece.terms.push_back(found != received.end()
                                ? found->second
                                : Place{slot(from).first_buffer + cls,
                                        column < 0 ? 0 : column * exchange.parts[number].chunk});
    }
  }
}

}  // namespace

bool DirectExchange::fits(const Exchange& exchange) {
  switch (exchange.kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::all_reduce:
    case Kind::reduce_scatter:
      return exchange.before.empty() &&
             std::all_of(exchange.parts.begin(), exchange.parts.end(),
                         [](const Exchange::Part& p) { return p.outer == 1; });
    default:
      return false;
  }
}

DirectExchange DirectExchange::of(const Plan& plan, const Exchange& exchange,
                                  const ActiveSet& active, const LocalPlan::Traffic& traffic,
                                  const Processes& processes) {
  ExchangeDraft draft{plan, exchange, {}, {}, {}, {}};
  for (std::size_t i = 0; i < exchange.parts.size(); ++i) draft.add_results(i, active);
  draft.place_messages(traffic, processes);
  draft.place_terms();
  DirectExchange& out = draft.out;
  // What doesn't wait for others is made while messages are on their way, which may have been read
  // then or not.
  for (Result& result : out.results) {
    const auto sent = [&](const Message& m) { return m.at.buffer == result.reuses; };
    const auto early = [&](const Piece& p) { return p.to.buffer == result.buffer && !p.waits; };
    if (result.reuses >= 0 && std::any_of(out.sends.begin(), out.sends.end(), sent) &&
        std::any_of(out.pieces.begin(), out.pieces.end(), early)) {
      result.reuses = -1;
    }
  }
  // Nothing is left to do for what is received in its place.
  std::erase_if(out.pieces, [](const Piece& p) {
    return p.bytes == 0 || (p.terms.size() == 1 && p.terms[0] == p.to);
  });
  return std::move(out);
}

}  // namespace tessera::runtime
