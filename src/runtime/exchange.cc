// SPDX-License-Identifier: Apache-2.0
// Collectives among the devices of this process: memory operations on their buffers.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/shape.h"
#include "src/base/task_pool.h"
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

/// A task of one exchange: rows [begin, end) of the result of one class.
struct Piece {
  std::size_t output;  ///< index into the list of active output classes
  std::int64_t begin, end;
};

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
  if (!exchange.before.empty()) return multi_axis_gather(exchange, active);
  std::int64_t bytes = 0;
  for (const Exchange::Part& part : exchange.parts) {
    exchange_part(exchange, part, active);
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
  if (counters_ != nullptr) {
    counters_->bytes[std::size_t(exchange.kind)] += bytes;
    counters_->count[std::size_t(exchange.kind)] += 1;
  }
}

void PlanExecutor::exchange_part(const Exchange& exchange, const Exchange::Part& part,
                                 const ActiveSet& active) {
  const Slot& output = slot(part.output);
  const ActiveSet::Classes who = active.of(output.classes);
  // For each receiving class: its group, and the position in it of the class's representative.
  std::vector<const std::vector<std::int32_t>*> group(who.size());
  std::vector<std::int64_t> place(who.size());
  for (std::size_t i = 0; i < who.size(); ++i) {
    const auto& member = (*exchange.memberships)[std::size_t(who.devices[i])];
    if (member.group < 0) continue;
    group[i] = &exchange.groups[std::size_t(member.group)];
    place[i] = member.place;
  }
  const auto zeros = [&] {
    BufferRef z = Storage::allocate(std::size_t(output.bytes));
    std::memset(z->data(), 0, z->bytes());
    return z;
  };

  // Data that is only handed on is not copied.
  if (exchange.kind == Kind::collective_permute || exchange.kind == Kind::collective_broadcast ||
      exchange.kind == Kind::all_to_all_tuple) {
    std::vector<BufferRef> taken(who.size());
    for (std::size_t i = 0; i < who.size(); ++i) {
      if (group[i] == nullptr) {
        taken[i] = zeros();
      } else if (exchange.kind != Kind::all_to_all_tuple) {
        taken[i] = buffer_of(part.input, (*group[i])[0]);
      } else {
        // Part `place` of member q becomes part q of the member at `place`.
        const auto q = std::size_t(&part - exchange.parts.data());
        taken[i] = buffer_of(exchange.parts[std::size_t(place[i])].input, (*group[i])[q]);
      }
    }
    for (std::size_t i = 0; i < who.size(); ++i) {
      buffer(part.output, who.classes[i]) = std::move(taken[i]);
    }
    return;
  }

  const std::int64_t outer = part.outer, chunk = part.chunk;
  const DeviceClasses& sources = classes(slot(part.input).classes);
  const auto source_class = [&](std::int32_t device) {
    return sources.class_of[std::size_t(device)];
  };
  std::vector<std::int32_t> readers;  // number per input class, where its memory might be reused
  if (exchange.kind == Kind::all_reduce && exchange.input_dies) {
    readers.resize(std::size_t(sources.count()));
    for (const auto* g : group) {
      if (g == nullptr) {
        throw RuntimeError("a device is in no group of an all-reduce; each must be in one");
      }
      for (const std::int32_t m : *g) ++readers[std::size_t(source_class(m))];
    }
  }
  std::vector<std::byte*> to(who.size());
  std::vector<std::uint8_t> in_place(who.size());
  for (std::size_t i = 0; i < who.size(); ++i) {
    if (group[i] == nullptr) {
      throw RuntimeError("a device is in no group of an exchange; each must be in one");
    }
    BufferRef& target = buffer(part.output, who.classes[i]);
    const std::int32_t first = (*group[i])[0];
    if (group[i]->size() == 1) {
      target = buffer_of(part.input, first);
      continue;
    }
    if (!readers.empty() && readers[std::size_t(source_class(first))] == 1) {
      BufferRef& source = buffer_of(part.input, first);
      if (sole_owner(source)) {
        target = source;  // both slots hold it until the input is released
        in_place[i] = 1;
      }
    }
    if (in_place[i] == 0) target = Storage::allocate(std::size_t(output.bytes));
    to[i] = target->data();
  }

  const bool reduces = exchange.kind == Kind::all_reduce || exchange.kind == Kind::reduce_scatter;
  // Tasks are split by rows: the outer dims, or the elements of a reduction without outer dims.
  const bool by_element = reduces && outer == 1;
  const std::int64_t rows = by_element ? chunk / exchange.element_bytes : outer;
  const std::int64_t row_bytes = by_element ? exchange.element_bytes : chunk;
  const auto work = [&](const Piece& p) {
    const auto& members = *group[p.output];
    const auto n = std::int64_t(members.size());
    std::byte* out = to[p.output];
    const std::int64_t count = p.end - p.begin, own = place[p.output];
    for (std::int64_t m = 0; m < n; ++m) {
      const std::byte* from = buffer_of(part.input, members[std::size_t(m)])->data();
      switch (exchange.kind) {
        case Kind::all_gather:
          copy_rows(out + (p.begin * n + m) * chunk, n * chunk, from + p.begin * chunk, chunk,
                    chunk, count);
          break;
        case Kind::all_to_all:
          copy_rows(out + (p.begin * n + m) * chunk, n * chunk, from + (p.begin * n + own) * chunk,
                    n * chunk, chunk, count);
          break;
        default: {
          const bool scatter = exchange.kind == Kind::reduce_scatter;
          const std::byte* base = from + (scatter ? own * chunk : 0);
          const std::int64_t from_stride = by_element ? row_bytes : (scatter ? n : 1) * chunk;
          if (m == 0) {
            if (in_place[p.output] != 0) break;
            copy_rows(out + p.begin * row_bytes, row_bytes, base + p.begin * from_stride,
                      from_stride, row_bytes, count);
          } else if (by_element) {
            exchange.combine(exchange.combine_attributes.get(), out + p.begin * row_bytes,
                             base + p.begin * row_bytes, count);
          } else {
            for (std::int64_t r = p.begin; r < p.end; ++r) {
              exchange.combine(exchange.combine_attributes.get(), out + r * chunk,
                               base + r * from_stride, chunk / exchange.element_bytes);
            }
          }
        }
      }
    }
  };

  std::vector<Piece> pieces;
  const double nanoseconds =
      double(who.size()) * double(output.bytes) * (reduces ? 0.3 : 0.1) *
      double(exchange.groups.empty() ? 1 : (reduces ? exchange.groups[0].size() : 1));
  const bool inline_ = workers_ == 1 || nanoseconds < kInlineNanoseconds;
  const auto tiles_per_class =
      inline_ ? 1 : std::max<std::int64_t>(1, 4 * workers_ / std::int64_t(who.size()));
  for (std::size_t i = 0; i < who.size(); ++i) {
    if (group[i]->size() == 1) continue;
    const std::int64_t tiles = std::max<std::int64_t>(1, std::min(tiles_per_class, rows));
    for (std::int64_t t = 0; t < tiles; ++t) {
      pieces.push_back({i, rows * t / tiles, rows * (t + 1) / tiles});
    }
  }
  if (inline_) {
    for (const Piece& p : pieces) work(p);
  } else {
    parallel_for(std::int64_t(pieces.size()),
                 [&](std::int64_t i) { work(pieces[std::size_t(i)]); });
  }
}

}  // namespace tessera::runtime
