// SPDX-License-Identifier: Apache-2.0
// Reads from the memory of other processes of this machine, as far as the system lets it: what one
// of them sends is copied once then, instead of twice.
#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <cstddef>
#include <vector>

namespace tessera {

class PeerMemory {
 public:
  PeerMemory() = default;
  /// All processes of the communicator, which are on one machine, make one. They read from each
  /// other if all of them want that and may.
  PeerMemory(MPI_Comm machine, bool wanted);

  bool readable() const { return !process_.empty(); }
  /// How much of it was read, from the beginning; 0 if the process has ended, and -1 (see errno) if
  /// it can't be read.
  ssize_t read(int place, const std::byte* from, std::byte* to, std::size_t bytes) const;
  /// Whether the process isn't there any more, also if nobody has asked for its exit code yet.
  bool has_died(int place) const;

 private:
  std::vector<pid_t> process_;  ///< by place in the communicator; none if they don't read
};

}  // namespace tessera
