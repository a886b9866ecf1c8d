// SPDX-License-Identifier: Apache-2.0
// Reading, deleting and donating the memory of arrays, from any thread.
#include <algorithm>
#include <atomic>
#include <functional>

#include "src/frontend/arrays/array_impl.h"

namespace tessera::internal {

std::uint64_t next_value_id() {
  static std::atomic<std::uint64_t> counter{1};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

ArrayMemory::ArrayMemory(const ArrayMemory& other) {
  const std::lock_guard lock(other.mutex_);
  buffers_ = other.buffers_;
  given_up_ = other.given_up_;
  by_ = other.by_;
}

std::optional<ArrayMemory::Buffers> ArrayMemory::share() const {
  const std::lock_guard lock(mutex_);
  if (given_up_) return std::nullopt;
  return buffers_;
}

DeviceBuffer ArrayMemory::share_one() const {
  const std::lock_guard lock(mutex_);
  return buffers_.size() == 1 ? buffers_[0] : DeviceBuffer();
}

bool ArrayMemory::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
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
    if (list[i]->given_up_) return i;
  }
  for (ArrayMemory* m : once) {
    m->by_ = by;
    m->given_up_ = true;
    dropped.push_back(std::exchange(m->buffers_, {}));
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
