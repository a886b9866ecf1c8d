// SPDX-License-Identifier: Apache-2.0
// Collectives among the devices of this process: memory operations on their buffers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/arrays/shape.h"
#include "src/base/threads/task_pool.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {
namespace {

using Kind = Exchange::Kind;

template <class T>
void copy_words(std::byte* to, std::int64_t to_stride, const std::byte* from,
                std::int64_t from_stride, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T v;
    std::memcpy(&v, from + r * from_stride, sizeof v);
    std::memcpy(to + r * to_stride, &v, sizeof v);
  }
}

void copy_rows(std::byte* to, std::int64_t to_stride, const std::byte* from,
               std::int64_t from_stride, std::int64_t bytes, std::int64_t rows) {
  if (bytes == to_stride && bytes == from_stride) {
    if (bytes * rows > 0) std::memcpy(to, from, std::size_t(bytes * rows));
  } else if (bytes == 4) {
    copy_words<std::uint32_t>(to, to_stride, from, from_stride, rows);
  } else if (bytes == 8) {
    copy_words<std::uint64_t>(to, to_stride, from, from_stride, rows);
  } else if (bytes > 0) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * to_stride, from + r * from_stride, std::size_t(bytes));
    }
  }
}

std::string list(const std::vector<std::int32_t>& devices) {
  std::string out = "{";
  for (const std::int32_t d : devices) out += (out.size() > 1 ? "," : "") + std::to_string(d);
  return out + "}";
}

std::string at(const Step& step) {
  return step.location.known() ? fmt::format("{} ({})", step.name, step.location.to_string())
                               : step.name;
}

}  // namespace

void PlanExecutor::check_groups(const Step& step, Exchange::Kind kind,
                                const std::vector<std::vector<std::int32_t>>& groups,
                                const ActiveSet& active) const {
  if (active.everything()) return;
  for (const auto& group : groups) {
    const auto there = std::count_if(group.begin(), group.end(),
                                     [&](std::int32_t d) { return active.contains(d); });
    if (there == 0 || there == std::int64_t(group.size())) continue;
    const std::int32_t missing = *std::find_if(group.begin(), group.end(),
                                               [&](std::int32_t d) { return !active.contains(d); });
    std::string why = "it does not run that part of the program";
    for (const ControlFrame& frame : frames_) {
      if (!frame.outside->contains(missing) || frame.inside->contains(missing)) continue;
      why = std::holds_alternative<While>(frame.step->what)
                ? "it has left the loop " + at(*frame.step)
                : "it took another branch of " + at(*frame.step);
    }
    throw RuntimeError(
        fmt::format("device {} does not take part in {} {} with its group {}: {}. All devices of "
                    "a group, or none, must reach a collective",
                    missing, runtime::name(kind), at(step), list(group), why),
        step.location);
  }
}

void PlanExecutor::run_exchange(const Step& step, const Exchange& exchange,
                                const ActiveSet& active) {
  for (const Exchange::Gather& gather : exchange.before) {
    check_groups(step, exchange.kind, gather.groups.lists(), active);
  }
  check_groups(step, exchange.kind, exchange.groups.lists(), active);
  const bool done = local_ != nullptr && cross(step, exchange, active);
  if (!exchange.before.empty()) {
    multi_axis_gather(exchange, active);
    return drop_fetched();
  }
  std::int64_t bytes = 0;
  for (const Exchange::Part& part : exchange.parts) {
    if (!done) exchange_part(exchange, part, active);
    const std::int64_t in = slot(part.input).bytes, out = slot(part.output).bytes;
    const auto n = exchange.groups.empty() ? 1 : std::int64_t(exchange.groups[0].size());
    switch (exchange.kind) {
      case Kind::all_gather:
        bytes += out * (n - 1) / n;
        break;
      case Kind::all_reduce:
        bytes += 2 * in * (n - 1) / n;
        break;
      case Kind::reduce_scatter:
        bytes += out * (n - 1);
        break;
      case Kind::all_to_all:
        bytes += in * (n - 1) / n;
        break;
      case Kind::all_to_all_tuple:
        bytes += &part == &exchange.parts[0] ? 0 : in;  // one of n parts stays local
        break;
      case Kind::collective_permute:
      case Kind::collective_broadcast:
        bytes += in;
        break;
    }
  }
  drop_fetched();
  if (counters_ != nullptr) {
    counters_->bytes[std::size_t(exchange.kind)] += bytes;
    counters_->count[std::size_t(exchange.kind)] += 1;
  }
}

PlanExecutor::Receivers PlanExecutor::receivers_of(const Exchange& exchange,
                                                   const Exchange::Part& part,
                                                   const ActiveSet& active) const {
  Receivers out;
  out.who = active.of(slot(part.output).classes);
  out.group.resize(out.who.size());
  out.place.resize(out.who.size());
  for (std::size_t i = 0; i < out.who.size(); ++i) {
    const auto& member = (*exchange.memberships)[std::size_t(out.who.devices[i])];
    if (member.group < 0) continue;
    out.group[i] = &exchange.groups[std::size_t(member.group)];
    out.place[i] = member.place;
  }
  return out;
}

void PlanExecutor::pass_on(const Exchange& exchange, const Exchange::Part& part,
                           const Receivers& r) {
  std::vector<BufferRef> taken(r.who.size());
  for (std::size_t i = 0; i < r.who.size(); ++i) {
    if (r.group[i] == nullptr) {
      taken[i] = allocate(slot(part.output));
      std::memset(taken[i]->data(), 0, taken[i]->bytes());
    } else if (exchange.kind != Kind::all_to_all_tuple) {
      taken[i] = buffer_of(part.input, (*r.group[i])[0]);
    } else {
      // Member q's part `place` comes to the member at `place` as its part q.
      const auto q = std::size_t(&part - exchange.parts.data());
      taken[i] = buffer_of(exchange.parts[std::size_t(r.place[i])].input, (*r.group[i])[q]);
    }
  }
  for (std::size_t i = 0; i < r.who.size(); ++i) {
    buffer(part.output, r.who.classes[i]) = std::move(taken[i]);
  }
}

void PlanExecutor::allocate_results(const Exchange& exchange, const Exchange::Part& part,
                                    Receivers* r) {
  const DeviceClasses& sources = classes(slot(part.input).classes);
  const auto source_class = [&](std::int32_t device) {
    return sources.class_of[std::size_t(device)];
  };
  std::vector<std::int32_t> readers;  // number per input class, where its memory might be reused
  if (exchange.kind == Kind::all_reduce && exchange.input_dies) {
    readers.resize(std::size_t(sources.count()));
    for (const auto* g : r->group) {
      if (g == nullptr) {
        throw RuntimeError("a device is in no group of an all-reduce; each must be in one");
      }
      for (const std::int32_t m : *g) ++readers[std::size_t(source_class(m))];
    }
  }
  r->to.resize(r->who.size());
  r->in_place.resize(r->who.size());
  for (std::size_t i = 0; i < r->who.size(); ++i) {
    if (r->group[i] == nullptr) {
      throw RuntimeError("a device is in no group of an exchange; each must be in one");
    }
    BufferRef& target = buffer(part.output, r->who.classes[i]);
    const std::int32_t first = (*r->group[i])[0];
    if (r->group[i]->size() == 1) {
      target = buffer_of(part.input, first);
      continue;
    }
    if (!readers.empty() && readers[std::size_t(source_class(first))] == 1) {
      BufferRef& source = buffer_of(part.input, first);
      if (sole_owner(source)) {
        target = source;  // both slots hold it until the input is released
        r->in_place[i] = 1;
      }
    }
    if (r->in_place[i] == 0) {
      target = allocate(slot(part.output));
    }
    r->to[i] = target->data();
  }
}

void PlanExecutor::gather_rows(const Exchange::Part& part, const Receivers& r, const Piece& p) {
  const std::vector<std::int32_t>& members = *r.group[p.receiver];
  const auto n = std::int64_t(members.size());
  const std::int64_t chunk = part.chunk;
  for (std::int64_t m = 0; m < n; ++m) {
    const std::byte* from = buffer_of(part.input, members[std::size_t(m)])->data();
    copy_rows(r.to[p.receiver] + (p.begin * n + m) * chunk, n * chunk, from + p.begin * chunk,
              chunk, chunk, p.end - p.begin);
  }
}

void PlanExecutor::transpose_rows(const Exchange& exchange, const Exchange::Part& part,
                                  const Receivers& r, const Piece& p) {
  const std::vector<std::int32_t>& members = *r.group[p.receiver];
  const auto n = std::int64_t(members.size());
  const std::int64_t chunk = part.chunk, own = r.place[p.receiver];
  for (std::int64_t m = 0; m < n; ++m) {
    const Column from = column_of(exchange, part, members[std::size_t(m)], own, n);
    copy_rows(r.to[p.receiver] + (p.begin * n + m) * chunk, n * chunk,
              from.first + p.begin * from.stride, from.stride, chunk, p.end - p.begin);
  }
}

namespace {

/// Rows of the pieces of a reduction: its elements if there are no outer dims, else those.
bool goes_by_element(const Exchange::Part& part) { return part.outer == 1; }

}  // namespace

void PlanExecutor::reduce_rows(const Exchange& exchange, const Exchange::Part& part,
                               const Receivers& r, const Piece& p) {
  const std::vector<std::int32_t>& members = *r.group[p.receiver];
  const auto n = std::int64_t(members.size());
  const bool by_element = goes_by_element(part), scatter = exchange.kind == Kind::reduce_scatter;
  const std::int64_t chunk = part.chunk, count = p.end - p.begin;
  const std::int64_t row_bytes = by_element ? exchange.element_bytes : chunk;
  const Combiner& combiner = plan_.combiners[std::size_t(exchange.combiner)];
  std::byte* out = r.to[p.receiver];
  for (std::int64_t m = 0; m < n; ++m) {
    const Column from = column_of(exchange, part, members[std::size_t(m)],
                                  scatter ? r.place[p.receiver] : 0, scatter ? n : 1);
    const std::byte* base = from.first;
    const std::int64_t from_stride = by_element ? row_bytes : from.stride;
    if (m == 0) {
      if (r.in_place[p.receiver] != 0) continue;
      copy_rows(out + p.begin * row_bytes, row_bytes, base + p.begin * from_stride, from_stride,
                row_bytes, count);
    } else if (by_element) {
      combiner.function(combiner.attributes.get(), out + p.begin * row_bytes,
                        base + p.begin * row_bytes, count);
    } else {
      for (std::int64_t row = p.begin; row < p.end; ++row) {
        combiner.function(combiner.attributes.get(), out + row * chunk, base + row * from_stride,
                          chunk / exchange.element_bytes);
      }
    }
  }
}

void PlanExecutor::exchange_part(const Exchange& exchange, const Exchange::Part& part,
                                 const ActiveSet& active) {
  Receivers r = receivers_of(exchange, part, active);
  if (exchange.kind == Kind::collective_permute || exchange.kind == Kind::collective_broadcast ||
      exchange.kind == Kind::all_to_all_tuple) {
    return pass_on(exchange, part, r);
  }
  if (r.who.size() == 0) return;
  allocate_results(exchange, part, &r);
  const bool reduces = exchange.kind == Kind::all_reduce || exchange.kind == Kind::reduce_scatter;
  const auto run = [&](const Piece& p) {
    if (reduces) return reduce_rows(exchange, part, r, p);
    if (exchange.kind == Kind::all_gather) return gather_rows(part, r, p);
    transpose_rows(exchange, part, r, p);
  };
  const std::int64_t rows =
      reduces && goes_by_element(part) ? part.chunk / exchange.element_bytes : part.outer;
  const double nanoseconds =
      double(r.who.size()) * double(slot(part.output).bytes) * (reduces ? 0.3 : 0.1) *
      double(exchange.groups.empty() ? 1 : (reduces ? exchange.groups[0].size() : 1));
  const bool is_inline = workers_ == 1 || nanoseconds < kInlineNanoseconds;
  const auto preferred =
      is_inline ? 1 : std::max<std::int64_t>(1, 4 * workers_ / std::int64_t(r.who.size()));
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < r.who.size(); ++i) {
    if (r.group[i]->size() == 1) continue;
    const std::int64_t tiles = std::max<std::int64_t>(1, std::min(preferred, rows));
    for (std::int64_t t = 0; t < tiles; ++t) {
      pieces.push_back({i, rows * t / tiles, rows * (t + 1) / tiles});
    }
  }
  if (is_inline) {
    for (const Piece& p : pieces) run(p);
  } else {
    parallel_for(std::int64_t(pieces.size()), [&](std::int64_t i) { run(pieces[std::size_t(i)]); });
  }
}

}  // namespace tessera::runtime
