// SPDX-License-Identifier: Apache-2.0
// Each process sends what it has of a run of the array, and process 0 puts the run together.
#include "src/frontend/checkpoint/gather_stream.h"

#include <deque>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/frontend/checkpoint/runs_of_box.h"

namespace tessera::frontend {

void gather_stream(const SavedArray& array, Processes* processes, const Activity& activity,
                   const std::function<void(std::span<const std::byte>)>& write) {
  const std::size_t element = byte_size(array.shape.dtype);
  const int me = processes->index();
  std::vector<std::byte> whole;
  std::uint32_t tag = 0;
  for_each_run(Box::entire(array.shape.dims), std::int64_t(kStreamed / element),
               [&](const Box& run) {
                 ++tag;
                 std::vector<Outgoing> outgoing;
                 std::vector<Incoming> incoming;
                 std::deque<std::pair<Box, std::vector<std::byte>>> parts;
                 for (const ShardPiece& piece : array.pieces) {
                   // Between process 0 and another one.
                   if (piece.process == 0 || (me != 0 && piece.process != me)) continue;
                   const Box box = common(piece.box, run);
                   if (box.element_count() == 0) continue;
                   std::vector<std::byte>& part =
                       parts.emplace_back(box, std::size_t(box.element_count()) * element).second;
                   if (me == 0) {
                     incoming.push_back({int(piece.process), part.data(), part.size()});
                   } else {
                     array.read(piece, box, part.data());
                     outgoing.push_back({0, part.data(), part.size()});
                   }
                 }
                 if (!parts.empty()) processes->exchange(outgoing, incoming, tag, activity);
                 if (me != 0) return;
                 whole.resize(std::size_t(run.element_count()) * element);
                 for (const ShardPiece& piece : array.pieces) {
                   if (piece.process == 0) array.read(piece, run, whole.data());
                 }
                 for (const auto& [box, part] : parts) {
                   copy_common(part.data(), box, whole.data(), run, element);
                 }
                 write(whole);
               });
}

}  // namespace tessera::frontend
