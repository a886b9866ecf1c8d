// SPDX-License-Identifier: Apache-2.0
// Each process finds what all of them need of each other, and sends and receives its share.
#include "src/frontend/run/move_across.h"

#include <algorithm>
#include <set>

#include "src/base/processes/processes.h"

namespace tessera::frontend {

std::vector<compiler::Engine::Piece> pieces_from_others(const PartsOfDevices& from,
                                                        const PartsOfDevices& to,
                                                        const std::map<Box, DeviceBuffer>& held,
                                                        DType dtype, const compiler::Engine& engine,
                                                        Location location) {
  std::map<Box, std::set<int>> holders;
  for (const auto& [device, box] : from) holders[box].insert(int(device.process_index));
  std::set<std::pair<int, Box>> wanted;
  for (const auto& [device, box] : to) wanted.emplace(int(device.process_index), box);
  const int me = int(process_index());

  struct Message {
    int process;
    Box piece;
    std::vector<std::byte> bytes;
  };
  std::vector<Message> sent, received;
  for (const auto& [process, target] : wanted) {
    for (const auto& [source, owners] : holders) {
      if (owners.count(process) > 0) continue;
      const Box piece = common(source, target);
      if (piece.element_count() == 0) continue;
      // Several that have it share the work.
      const int sender =
          *std::next(owners.begin(), std::ptrdiff_t(std::size_t(process) % owners.size()));
      std::vector<std::byte> bytes;
      if (sender == me || process == me) {
        bytes.resize(std::size_t(piece.element_count()) * byte_size(dtype));
      }
      if (sender == me) {
        engine.copy_out(held.at(source), source, bytes.data(), {dtype, piece});
        sent.push_back({process, piece, std::move(bytes)});
      } else if (process == me) {
        received.push_back({sender, piece, std::move(bytes)});
      }
    }
  }
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (const Message& m : sent) outgoing.push_back({m.process, m.bytes.data(), m.bytes.size()});
  for (Message& m : received) incoming.push_back({m.process, m.bytes.data(), m.bytes.size()});
  const Activity activity{"device_put", "", location};
  const Processes::Turn turn(processes(), activity);
  processes()->exchange(outgoing, incoming, 5, activity);
  std::vector<compiler::Engine::Piece> out;
  const Device& here = default_device();
  for (const Message& m : received) {
    out.push_back({m.piece, engine.copy_in(m.bytes.data(), {dtype, m.piece}, m.piece, {&here, 1},
                                           MemoryKind::device)[0]});
  }
  return out;
}

}  // namespace tessera::frontend
