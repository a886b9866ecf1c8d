// SPDX-License-Identifier: Apache-2.0
// Bytes of collectives, and their time as stages, axis by axis.
#include "src/cost/collectives.h"

#include <algorithm>

namespace tessera::cost {

double received_bytes(const ir::Instruction& i, std::int64_t devices) {
  using ir::Opcode;
  if (i.is(Opcode::recv)) return double(i.shape.elements.at(0).byte_count());
  if (!ir::is_collective(i.opcode)) return 0;
  // Starts of these give (operand, result).
  const bool pair = i.is(Opcode::all_gather_start) || i.is(Opcode::collective_permute_start);
  const double bytes = double((pair ? i.shape.elements.at(1) : i.shape).byte_count());
  if (const auto* attrs = i.attrs.get_if<ir::PermuteAttrs>()) {
    return attrs->source_target_pairs.facts().moves ? bytes : 0;
  }
  const std::int64_t n = i.get<ir::CollectiveAttrs>().groups.group_size(devices);
  return received_bytes(i.opcode, bytes, double(std::max<std::int64_t>(1, n)));
}

bool communicates(const ir::Instruction& i) {
  return ir::is_collective(i.opcode) || i.is(ir::Opcode::recv);
}

std::string kind_of_collective(const ir::Instruction& i) {
  std::string kind(ir::name(i.opcode));
  if (kind.ends_with("-start")) kind.resize(kind.size() - 6);
  return kind;
}

namespace {

using Stages = SmallVector<Route::Stage, 4>;

/// Over the slowest link, with the steps of a ring of `devices`.
double direct_seconds(const Stages& stages, double bytes, double steps) {
  Network::Link worst = stages.front().link;
  for (const Route::Stage& s : stages) {
    worst.bytes_per_second = std::min(worst.bytes_per_second, s.link.bytes_per_second);
    worst.latency_seconds = std::max(worst.latency_seconds, s.link.latency_seconds);
  }
  return steps * worst.latency_seconds + bytes / worst.bytes_per_second;
}

double permute_seconds(const Stages& stages, double bytes) {
  double seconds = direct_seconds(stages, bytes, 0);
  for (const Route::Stage& s : stages) seconds += s.link.latency_seconds;
  return seconds;
}

/// A stage passes on what the stages before it have put together.
double gather_seconds(const Stages& given, double bytes, double devices, double rounds) {
  double seconds = 0;
  const bool alike = std::all_of(given.begin(), given.end(), [&](const Route::Stage& s) {
    return s.link == given.front().link;
  });
  if (alike) {
    for (const Route::Stage& s : given) seconds += s.devices - 1;
    return rounds * seconds * given.front().link.latency_seconds +
           bytes / given.front().link.bytes_per_second;
  }
  Stages stages = given;
  std::stable_sort(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
    return a.link.bytes_per_second < b.link.bytes_per_second;
  });
  double held = 1;
  for (const Route::Stage& s : stages) {
    // From each other device comes a part of 1/(n-1) of the bytes.
    const double part = bytes / (devices - 1) * held * (s.devices - 1);
    held *= s.devices;
    seconds += rounds * (s.devices - 1) * s.link.latency_seconds + part / s.link.bytes_per_second;
  }
  return seconds;
}

/// Axis by axis each stage moves all but what stays along its axis; directly, all goes once.
double exchange_seconds(const Stages& stages, double bytes, double devices) {
  const double direct = direct_seconds(stages, bytes, devices - 1);
  const double held = bytes * devices / (devices - 1);
  double by_axis = 0;
  for (const Route::Stage& s : stages) {
    by_axis += (s.devices - 1) * s.link.latency_seconds +
               held * (s.devices - 1) / s.devices / s.link.bytes_per_second;
  }
  return std::min(direct, by_axis);
}

}  // namespace

double collective_seconds(ir::Opcode kind, double bytes, const Route& route,
                          const Network& network) {
  using ir::Opcode;
  if (bytes <= 0) return 0;
  Stages stages = route.stages();
  if (stages.empty()) stages.push_back({network.other, 1, -1});
  double devices = std::max(2.0, route.devices());
  double seconds = network.start_seconds;
  switch (kind) {
    case Opcode::collective_permute:
    case Opcode::collective_permute_start:
    case Opcode::recv:
      return seconds + permute_seconds(stages, bytes);
    case Opcode::all_to_all:
      return seconds + exchange_seconds(stages, bytes, devices);
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
      return seconds + gather_seconds(stages, bytes, devices, 2);
    default:
      return seconds + gather_seconds(stages, bytes, devices, 1);
  }
}

}  // namespace tessera::cost
