// SPDX-License-Identifier: Apache-2.0
// Cross-memory attach: whether it is permitted is found out by trying.
#include "src/engines/mpi/peer_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

namespace tessera {
namespace {

ssize_t read_from(pid_t process, const void* from, void* to, std::size_t bytes) {
  const iovec here{to, bytes}, there{const_cast<void*>(from), bytes};
  return process_vm_readv(process, &here, 1, &there, 1, 0);
}

}  // namespace

PeerMemory::PeerMemory(MPI_Comm machine, bool wanted) {
  int here = 0, me = 0;
  MPI_Comm_size(machine, &here);
  MPI_Comm_rank(machine, &me);
  // By its number here another process may be meant, if they are in containers of their own: only
  // the right one has this value there.
  volatile std::uint64_t secret =
      std::uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()) *
          0x9e3779b97f4a7c15ULL +
      std::uint64_t(getpid()) * 4096 + std::uint64_t(me);
  struct Card {
    std::uint64_t process, address, secret;
  };
  const Card mine{std::uint64_t(getpid()), std::uint64_t(reinterpret_cast<std::uintptr_t>(&secret)),
                  secret};
  std::vector<Card> cards(static_cast<std::size_t>(here));
  MPI_Allgather(&mine, int(sizeof mine), MPI_BYTE, cards.data(), int(sizeof mine), MPI_BYTE,
                machine);
  int can = wanted ? 1 : 0, all_can = 0;
  for (const Card& card : cards) {
    if (can == 0) break;
    std::uint64_t found = 0;
    can = read_from(pid_t(card.process), reinterpret_cast<const void*>(card.address), &found,
                    sizeof found) == ssize_t(sizeof found) &&
          found == card.secret;
  }
  MPI_Allreduce(&can, &all_can, 1, MPI_INT, MPI_MIN, machine);
  if (all_can == 0) return;
  for (const Card& card : cards) process_.push_back(pid_t(card.process));
}

ssize_t PeerMemory::read(int place, const std::byte* from, std::byte* to, std::size_t bytes) const {
  const ssize_t got = read_from(process_[std::size_t(place)], from, to, bytes);
  return got < 0 && errno == ESRCH ? 0 : got;
}

bool PeerMemory::has_died(int place) const {
  // Nothing is there, in whichever process: the answer is another one if there is no process.
  std::byte nothing{};
  return read_from(process_[std::size_t(place)], nullptr, &nothing, 1) < 0 && errno == ESRCH;
}

}  // namespace tessera
