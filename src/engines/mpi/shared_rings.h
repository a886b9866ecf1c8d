// SPDX-License-Identifier: Apache-2.0
// Messages between processes of one machine, through memory that they share: a ring of slots for
// each pair and direction, in a window of MPI's. A slot is written by one process and read by the
// other, without a call of MPI. Where processes read each other's memory, the slot of a long
// message says where that lies.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/engines/mpi/peer_memory.h"

namespace tessera {

class SharedRings {
 public:
  /// All processes of the communicator make one. There are no rings if the memory can't be had, or
  /// where too many processes are on this machine. With `single_copy` they read each other's
  /// memory, if all say so and the system lets them.
  SharedRings(MPI_Comm all, bool single_copy);
  SharedRings(const SharedRings&) = delete;
  SharedRings& operator=(const SharedRings&) = delete;
  /// Gives the memory back; all processes of this machine call it.
  void close();

  /// Whether messages of so many bytes go this way; both sides must find the same.
  bool takes(int peer, std::size_t bytes) const {
    return (bytes <= most_ || memory_.readable()) && ring(peer).to != nullptr;
  }
  /// Whether the receiver of one reads it where it is: it must stay there until it is taken.
  bool lends(std::size_t bytes) const { return bytes > most_; }

  /// What a message says of itself.
  struct Head {
    std::uint64_t number = 0;  ///< as the sender counts all of its messages to this process
    std::uint64_t bytes = 0;
    std::uint32_t tag = 0;
  };
  /// False, and nothing happens, while the ring is full.
  bool send(int to, const Head& head, const std::byte* data);
  /// How many have been sent to that process, and whether it has received the first `count` of
  /// them.
  std::uint64_t sent(int to) const { return ring(to).sent; }
  bool taken(int to, std::uint64_t count);
  /// What was lent to that process and isn't taken yet, must not be used any more.
  void withdraw(int to);
  /// The first message of a process that hasn't been received; null if there is none.
  const Head* first(int from) const;
  enum class Got { all, some, gone, failed };
  /// Goes on to copy its bytes, of which `at` are there, and makes room for another one at the end.
  /// `gone`: its sender has ended, or given up, as it will be known to have. `failed`: see errno.
  Got receive(int from, std::byte* data, std::size_t* at);
  /// Instead: where what is lent by that process is, until it is given back. False if it has been
  /// withdrawn meanwhile.
  const std::byte* borrow(int from);
  bool give_back(int from);
  bool withdrawn(int from) const { return counter(ring(from).from).withdrawn.load() != 0; }
  /// Of what is borrowed; as PeerMemory::read. Any thread may.
  ssize_t read(int from, const std::byte* what, std::byte* to, std::size_t bytes) const {
    return memory_.read(ring(from).place, what, to, bytes);
  }
  /// Whether it was on this machine, and isn't any more. False if that can't be found out.
  bool has_died(int process) const {
    return ring(process).to != nullptr && memory_.readable() &&
           memory_.has_died(ring(process).place);
  }
  /// How many have been received from that process.
  std::uint64_t received(int from) const { return ring(from).received; }

 private:
  static constexpr std::size_t kSlots = 4, kLine = 64;

  /// In shared memory. The sender writes the slots and `withdrawn`, the receiver the others.
  struct alignas(kLine) Slot {
    std::atomic<std::uint64_t> written;  ///< how many messages were sent when it was filled
    Head head;
    /// `most_` bytes follow, or the address of what is lent.
    std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  struct Counter {
    alignas(kLine) std::atomic<std::uint64_t> received;
    std::atomic<std::uint64_t> taken;  ///< of these, until the last message that was lent
    alignas(kLine) std::atomic<std::uint64_t> withdrawn;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  /// With one other process.
  struct Ring {
    std::byte* to = nullptr;  ///< null: it is on another machine
    std::byte* from = nullptr;
    int place = 0;  ///< among the processes of this machine
    std::uint64_t sent = 0, received = 0;
    std::uint64_t known_received = 0, known_taken = 0;  ///< of what was sent, as last looked at
    std::uint64_t borrowed = 0;
  };
  const Ring& ring(int peer) const { return rings_[std::size_t(peer)]; }

  std::size_t slot_bytes() const { return sizeof(Slot) + most_; }
  std::size_t ring_bytes() const { return sizeof(Counter) + kSlots * slot_bytes(); }
  Slot& slot(std::byte* ring, std::uint64_t message) const {
    return *reinterpret_cast<Slot*>(ring + sizeof(Counter) + message % kSlots * slot_bytes());
  }
  void taken_all(Ring* r);
  static Counter& counter(std::byte* ring) { return *reinterpret_cast<Counter*>(ring); }

  std::size_t most_ = 0;
  std::vector<Ring> rings_;  ///< by process
  PeerMemory memory_;
  MPI_Comm machine_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace tessera
