// SPDX-License-Identifier: Apache-2.0
// Prices on a described machine.
#include "src/cost/machine.h"

#include <algorithm>

namespace tessera::cost {

Network assumed_network() {
  Network n;
  // The scale: a link as Network has it by default.
  n.other = {100e9, 0};
  n.start_seconds = 256 / n.other.bytes_per_second;
  n.flops_per_second = n.other.bytes_per_second / 0.003;
  // A byte stored costs 0.02 of a byte received.
  n.memory_bytes_per_second = n.other.bytes_per_second / 0.02;
  return n;
}

Machine::Machine(Network network) : network_(std::move(network)) {
  uniform_ = network_.axes.empty() && network_.other.latency_seconds == 0;
  start_ = network_.start_seconds;
  per_byte_ = 1 / network_.other.bytes_per_second;
  fastest_ = per_byte_;
  for (const auto& [name, link] : network_.axes) {
    fastest_ = std::min(fastest_, 1 / link.bytes_per_second);
  }
  per_flop_ = 1 / network_.flops_per_second;
  per_memory_byte_ = 1 / network_.memory_bytes_per_second;
}

void Machine::extend(Route* route, const LogicalMesh& mesh, int axis) const {
  const MeshAxis& a = mesh.axes[std::size_t(axis)];
  // Pieces of one axis stand together.
  int first = axis;
  while (first > 0 && mesh.axes[std::size_t(first - 1)].name == a.name) --first;
  route->add(network_.link(a.name), double(a.size), first);
}

Route Machine::route(const LogicalMesh& mesh, const IndexList& axes) const {
  Route route;
  if (uniform_) return route;
  for (const int axis : axes) extend(&route, mesh, axis);
  return route;
}

double Machine::permutes(double bytes, int count, const Route& route) const {
  double start = start_, per_byte = per_byte_;
  if (!uniform_ && !route.stages().empty()) per_byte = 0;
  for (const Route::Stage& s : route.stages()) {
    start += s.link.latency_seconds;
    per_byte = std::max(per_byte, 1 / s.link.bytes_per_second);
  }
  return count * start + bytes * per_byte;
}

void add_transfers_to_key(KeyWriter& key, const Machine& machine, const LogicalMesh& mesh) {
  const Network& n = machine.network();
  key.add_all(n.start_seconds, n.memory_bytes_per_second);
  key.add_all(n.other.bytes_per_second, n.other.latency_seconds);
  if (n.axes.empty()) return;
  for (const MeshAxis& axis : mesh.axes) {
    const Network::Link& link = n.link(axis.name);
    key.add_all(link.bytes_per_second, link.latency_seconds);
  }
}

}  // namespace tessera::cost
