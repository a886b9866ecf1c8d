// SPDX-License-Identifier: Apache-2.0
// Rings of slots in a window of shared memory.
#include "src/engines/mpi/shared_rings.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tessera {
namespace {

/// What is longer is read where it is: to ask the system for that takes as long as to copy so much.
constexpr std::size_t kCopiedTwice = std::size_t(1) << 13;
/// So much of a message is read at a time: between, it is seen if something has gone wrong.
constexpr std::size_t kStretch = std::size_t(1) << 22;

/// The more processes there are on a machine the more rings, and the shorter the messages that they
/// hold: 128 KB between up to 5 of them, 64 KB up to 8, ... 1 KB up to 64.
std::size_t most_bytes(std::size_t processes, std::size_t slots, bool reads_memory) {
  constexpr std::size_t kMost = std::size_t(1) << 17, kLeast = std::size_t(1) << 10;
  constexpr std::size_t kWindow = std::size_t(16) << 20;
  std::size_t bytes = reads_memory ? kCopiedTwice : kMost;
  while (bytes >= kLeast && processes * processes * slots * bytes > kWindow) bytes /= 2;
  return processes < 2 || bytes < kLeast ? 0 : bytes;
}

}  // namespace

SharedRings::SharedRings(MPI_Comm all, bool single_copy) {
  int count = 0, here = 0, me = 0, my_place = 0;
  MPI_Comm_size(all, &count);
  MPI_Comm_rank(all, &me);
  rings_.resize(std::size_t(count));
  if (MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &machine_) != MPI_SUCCESS) {
    machine_ = MPI_COMM_NULL;
    return;
  }
  MPI_Comm_set_errhandler(machine_, MPI_ERRORS_RETURN);
  MPI_Comm_size(machine_, &here);
  MPI_Comm_rank(machine_, &my_place);
  memory_ = PeerMemory(machine_, single_copy && here > 1);
  most_ = most_bytes(std::size_t(here), kSlots, memory_.readable());
  if (most_ == 0) return;

  // Each process has the rings from all others.
  MPI_Info apart = MPI_INFO_NULL;
  MPI_Info_create(&apart);
  MPI_Info_set(apart, "alloc_shared_noncontig", "true");
  void* mine = nullptr;
  const std::size_t all_rings = ring_bytes() * std::size_t(here);
  int failed = MPI_Win_allocate_shared(MPI_Aint(all_rings + kLine), 1, apart, machine_, &mine,
                                       &window_) != MPI_SUCCESS;
  MPI_Info_free(&apart);
  // Windows begin anywhere; they do so at the same place of a page for all that have them.
  int shift = 0;
  if (failed == 0) {
    shift = int((kLine - std::uintptr_t(mine) % kLine) % kLine);
    std::memset(static_cast<std::byte*>(mine) + shift, 0, all_rings);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  }
  std::vector<int> shifts(std::size_t(here), 0);
  MPI_Allgather(&shift, 1, MPI_INT, shifts.data(), 1, MPI_INT, machine_);
  std::vector<int> process(std::size_t(here), 0);
  MPI_Allgather(&me, 1, MPI_INT, process.data(), 1, MPI_INT, machine_);
  std::vector<Ring> found(rings_.size());
  for (int place = 0; failed == 0 && place < here; ++place) {
    if (place == my_place) continue;
    MPI_Aint bytes = 0;
    int unit = 0;
    void* its = nullptr;
    failed = MPI_Win_shared_query(window_, place, &bytes, &unit, &its) != MPI_SUCCESS;
    if (failed != 0 || its == nullptr) break;
    std::byte* const theirs = static_cast<std::byte*>(its) + shifts[std::size_t(place)];
    failed = std::uintptr_t(theirs) % kLine != 0;
    Ring& ring = found[std::size_t(process[std::size_t(place)])];
    ring.to = theirs + ring_bytes() * std::size_t(my_place);
    ring.from = static_cast<std::byte*>(mine) + shift + ring_bytes() * std::size_t(place);
    ring.place = place;
  }
  // All or none; and nobody writes before all is zero.
  int any_failed = 0;
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, machine_);
  if (any_failed == 0) {
    rings_ = std::move(found);
  } else {
    window_ = MPI_WIN_NULL;  // to free it takes all
  }
}

void SharedRings::close() {
  if (window_ != MPI_WIN_NULL) {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  if (machine_ != MPI_COMM_NULL) MPI_Comm_free(&machine_);
}

bool SharedRings::send(int to, const Head& head, const std::byte* data) {
  Ring& r = rings_[std::size_t(to)];
  if (r.sent - r.known_received == kSlots) {
    r.known_received = counter(r.to).received.load(std::memory_order_acquire);
    if (r.sent - r.known_received == kSlots) return false;
  }
  Slot& into = slot(r.to, r.sent);
  into.head = head;
  if (lends(head.bytes)) {
    std::memcpy(into.data(), &data, sizeof data);
  } else {
    std::memcpy(into.data(), data, head.bytes);
  }
  into.written.store(++r.sent, std::memory_order_release);
  return true;
}

bool SharedRings::taken(int to, std::uint64_t count) {
  Ring& r = rings_[std::size_t(to)];
  if (r.known_taken < count) {
    r.known_taken = counter(r.to).taken.load(std::memory_order_acquire);
  }
  return r.known_taken >= count;
}

void SharedRings::withdraw(int to) {
  counter(ring(to).to).withdrawn.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the memory is used again
}

const SharedRings::Head* SharedRings::first(int from) const {
  const Ring& r = ring(from);
  if (r.from == nullptr) return nullptr;
  const Slot& next = slot(r.from, r.received);
  return next.written.load(std::memory_order_acquire) == r.received + 1 ? &next.head : nullptr;
}

SharedRings::Got SharedRings::receive(int from, std::byte* data, std::size_t* at) {
  Ring& r = rings_[std::size_t(from)];
  Slot& next = slot(r.from, r.received);
  const std::size_t bytes = next.head.bytes;
  if (!lends(bytes)) {
    std::memcpy(data, next.data(), bytes);
  } else {
    const std::byte* lent = nullptr;
    std::memcpy(&lent, next.data(), sizeof lent);
    const auto got = memory_.read(r.place, lent + *at, data + *at, std::min(kStretch, bytes - *at));
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (got == 0 || withdrawn(from)) return Got::gone;
    if (got < 0) return Got::failed;
    *at += std::size_t(got);
    if (*at < bytes) return Got::some;
  }
  counter(r.from).received.store(++r.received, std::memory_order_release);
  if (lends(bytes)) taken_all(&r);
  return Got::all;
}

const std::byte* SharedRings::borrow(int from) {
  Ring& r = rings_[std::size_t(from)];
  const std::byte* lent = nullptr;
  std::memcpy(&lent, slot(r.from, r.received).data(), sizeof lent);
  counter(r.from).received.store(++r.received, std::memory_order_release);
  ++r.borrowed;
  return lent;
}

bool SharedRings::give_back(int from) {
  Ring& r = rings_[std::size_t(from)];
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (withdrawn(from)) return false;
  --r.borrowed;
  taken_all(&r);
  return true;
}

void SharedRings::taken_all(Ring* r) {
  if (r->borrowed > 0) return;  // it says so once for all
  counter(r->from).taken.store(r->received, std::memory_order_release);
}

}  // namespace tessera
