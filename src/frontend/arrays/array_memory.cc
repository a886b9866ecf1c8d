// SPDX-License-Identifier: Apache-2.0
// Reading, deleting and donating the memory of arrays, from any thread.
#include <algorithm>
#include <atomic>
#include <functional>

#include "src/frontend/arrays/array_impl.h"

namespace tessera::internal {

std::uint64_t next_value_id() {
  // Each thread takes many at a time: it doesn't wait for others whenever it makes an array.
  constexpr std::uint64_t kAtATime = 1024;
  static std::atomic<std::uint64_t> counter{1};
  thread_local std::uint64_t next = 0, end = 0;
  if (next == end) {
    next = counter.fetch_add(kAtATime, std::memory_order_relaxed);
    end = next + kAtATime;
  }
  return next++;
}

ArrayMemory::ArrayMemory(const ArrayMemory& other) {
  const std::lock_guard lock(other.mutex_);
  if (other.given_up()) {
    readers_.store(kGivenUp, std::memory_order_relaxed);
  } else {
    buffers_ = other.buffers_;
  }
  by_ = other.by_;
}

std::optional<ArrayMemory::Buffers> ArrayMemory::share() const {
  const std::lock_guard lock(mutex_);
  if (given_up()) return std::nullopt;
  return buffers_;
}

const DeviceBuffer* ArrayMemory::Reader::read(const ArrayMemory& memory) {
  of_ = &memory;
  // Whoever gives it up afterwards sees that it is read.
  const std::uint32_t before = memory.readers_.fetch_add(kOneReader, std::memory_order_acq_rel);
  if ((before & kGivenUp) != 0 || memory.buffers_.size() != 1) return nullptr;
  return &memory.buffers_[0];
}

void ArrayMemory::leave() const {
  const std::uint32_t before = readers_.fetch_sub(kOneReader, std::memory_order_acq_rel);
  if (before != (kOneReader | kGivenUp)) return;
  // The last reader of what has been given up. There may be two, of which one came too late.
  Buffers dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(buffers_);
}

std::string ArrayMemory::given_up_by() const {
  const std::lock_guard lock(mutex_);
  return by_;
}

void ArrayMemory::give_up(const std::string& by) { (void)give_up_all({this}, by); }

std::optional<std::size_t> ArrayMemory::give_up_all(const std::vector<ArrayMemory*>& list,
                                                    const std::string& by) {
  // All threads lock in the same order, so they can't deadlock. The order isn't observable.
  std::vector<ArrayMemory*> once = list;
  std::sort(once.begin(), once.end(), std::less<>());
  once.erase(std::unique(once.begin(), once.end()), once.end());
  std::vector<Buffers> dropped;  // freed after the locks are released
  dropped.reserve(once.size());
  std::vector<std::unique_lock<std::mutex>> locks;
  locks.reserve(once.size());
  for (ArrayMemory* m : once) locks.emplace_back(m->mutex_);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i]->given_up()) return i;
  }
  for (ArrayMemory* m : once) {
    m->by_ = by;
    const std::uint32_t before = m->readers_.fetch_or(kGivenUp, std::memory_order_acq_rel);
    // Else the last reader drops them.
    if (before == 0) dropped.push_back(std::exchange(m->buffers_, {}));
  }
  return std::nullopt;
}

namespace {

[[noreturn]] void throw_deleted(const ArrayImpl& impl, Location location) {
  const std::string type = impl.shape.to_string(), by = impl.memory.given_up_by();
  throw RuntimeError("array " + type + " has been deleted" + (by.empty() ? "" : ": it was " + by),
                     location);
}

}  // namespace

void check_alive(const ArrayImpl& impl, Location location) {
  if (impl.memory.given_up()) throw_deleted(impl, location);
}

ArrayMemory::Buffers shared_buffers(const ArrayImpl& impl, Location location) {
  auto buffers = impl.memory.share();
  if (!buffers) throw_deleted(impl, location);
  return *std::move(buffers);
}

void donate(const std::vector<ArrayImpl*>& arrays, const std::string& by, Location location) {
  std::vector<ArrayMemory*> memories;
  memories.reserve(arrays.size());
  for (ArrayImpl* a : arrays) memories.push_back(&a->memory);
  if (const auto gone = ArrayMemory::give_up_all(memories, by)) {
    throw_deleted(*arrays[*gone], location);
  }
}

}  // namespace tessera::internal
