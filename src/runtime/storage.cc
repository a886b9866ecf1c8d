// SPDX-License-Identifier: Apache-2.0
// Storage of buffers: allocation with a cache of freed blocks, and memory counters.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tessera/error.h>

#include "src/base/machine_memory.h"
#include "src/base/threads/thread_stripe.h"
#include "src/runtime/buffer.h"
#include "src/runtime/guarded_blocks.h"
#include "src/runtime/small_blocks.h"

namespace tessera::runtime {
namespace {

// Blocks from this size on are asked for in huge pages, if the system gives them to those who ask:
// fewer faults at first use, and fewer addresses to look up afterwards.
constexpr std::size_t kHugePage = std::size_t(2) << 20, kHugeFrom = std::size_t(4) << 20;
// Larger blocks than small ones would be returned to the system by each free, and cost a page fault
// per 4 KB at their next use; so some freed blocks are kept, by their rounded size.
constexpr std::size_t kKeptAtMost = std::size_t(256) << 20;

std::align_val_t alignment_of(std::size_t rounded) {
  return std::align_val_t(rounded >= kHugeFrom ? kHugePage : kBlockAlignment);
}
void give_back(std::byte* block, std::size_t rounded) {
  if (kGuardsBlocks) return give_guarded_block(block, rounded);
  ::operator delete(block, alignment_of(rounded));
}

void raise(std::atomic<std::int64_t>* to, std::int64_t value) {
  auto seen = to->load(std::memory_order_relaxed);
  while (value > seen && !to->compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

/// Bytes in use and their peak. Small blocks are counted by each thread in a place of its own until
/// these are many: programs on small arrays take and give several a microsecond. So the peak of
/// several threads may lack up to kMost of each; that of one is exact.
class Counters {
 public:
  void add(std::size_t size) {
    const auto bytes = std::int64_t(size);
    Part& mine = parts_[thread_stripe()];
    if (bytes > kMost) {
      collect(&mine);
      raise(&peak_, common_.fetch_add(bytes, std::memory_order_relaxed) + bytes + in_parts());
      return;
    }
    const auto now = mine.current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    raise(&mine.peak, now);
    if (now > kMost) collect(&mine);
  }
  void remove(std::size_t size) {
    const auto bytes = std::int64_t(size);
    Part& mine = parts_[thread_stripe()];
    if (bytes > kMost) {
      collect(&mine);
      common_.fetch_sub(bytes, std::memory_order_relaxed);
      return;
    }
    if (mine.current.fetch_sub(bytes, std::memory_order_relaxed) - bytes < -kMost) collect(&mine);
  }
  std::int64_t current() const { return common_.load(std::memory_order_relaxed) + in_parts(); }
  std::int64_t peak() {
    for (Part& part : parts_) collect(&part);
    return peak_.load(std::memory_order_relaxed);
  }
  void reset_peak() {
    for (Part& part : parts_) collect(&part);
    peak_.store(current(), std::memory_order_relaxed);
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t(1) << 16;
  struct alignas(kApart) Part {
    std::atomic<std::int64_t> current{0}, peak{0};
  };

  std::int64_t in_parts() const {
    std::int64_t out = 0;
    for (const Part& part : parts_) out += part.current.load(std::memory_order_relaxed);
    return out;
  }
  /// Adds what a part has to what all have in common.
  void collect(Part* part) {
    const auto peak = part->peak.exchange(0, std::memory_order_relaxed);
    const auto had = part->current.exchange(0, std::memory_order_relaxed);
    const auto before = common_.fetch_add(had, std::memory_order_relaxed);
    raise(&peak_, before + in_parts() + std::max(peak, had));
  }

  alignas(kApart) std::atomic<std::int64_t> common_{0};
  std::atomic<std::int64_t> peak_{0};
  std::array<Part, kThreadStripes> parts_;
};

class FreedBlocks {
 public:
  std::byte* take(std::size_t rounded) {
    std::lock_guard lock(mutex_);
    const auto it = blocks_.find(rounded);
    if (it == blocks_.end() || it->second.empty()) return nullptr;
    std::byte* block = it->second.back();
    it->second.pop_back();
    kept_ -= rounded;
    return block;
  }
  bool keep(std::byte* block, std::size_t rounded) {
    if (!kKeepsBlocks || rounded > kKeptAtMost / 2) return false;
    std::map<std::size_t, std::vector<std::byte*>> surplus;
    {
      std::lock_guard lock(mutex_);
      if (kept_ + rounded > kKeptAtMost) {
        // Another program uses other sizes: drop all blocks rather than guess which sizes will
        // recur.
        surplus.swap(blocks_);
        kept_ = 0;
      }
      blocks_[rounded].push_back(block);
      kept_ += rounded;
    }
    free(surplus);
    return true;
  }
  void drop() {
    std::lock_guard lock(mutex_);
    free(blocks_);
    blocks_.clear();
    kept_ = 0;
  }

 private:
  static void free(const std::map<std::size_t, std::vector<std::byte*>>& blocks) {
    for (const auto& [rounded, list] : blocks) {
      for (std::byte* b : list) give_back(b, rounded);
    }
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> blocks_;
  std::size_t kept_ = 0;
};

/// The memory of one kind.
struct Pool {
  Counters counters;
  FreedBlocks freed;
};
// Never destroyed: storages may outlive static objects.
Pool& pool_of(MemoryKind kind) {
  static auto& pools = *new std::array<Pool, kMemoryKinds>;
  return pools[std::size_t(kind)];
}

std::size_t rounded_size(std::size_t bytes) {
  return kKeepsBlocks ? (bytes + 4095) / 4096 * 4096 : bytes;
}

/// A Storage and its count of handles take so much; the data of small ones follows in the same
/// block.
constexpr std::size_t kHeader = kBlockAlignment;
bool follows(std::size_t bytes) { return bytes <= kSmallBlock - kHeader; }

/// For a Storage with `bytes` of data behind it.
template <class T>
struct HeaderAllocator {
  using value_type = T;
  explicit HeaderAllocator(std::size_t b) : bytes(b) {}
  template <class U>
  explicit HeaderAllocator(const HeaderAllocator<U>& other) : bytes(other.bytes) {}

  T* allocate(std::size_t) {
    static_assert(sizeof(T) <= kHeader);
    std::byte* const block = take_small_block(kHeader + bytes);
    if (block == nullptr) throw std::bad_alloc();
    return reinterpret_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t) {
    give_small_block(reinterpret_cast<std::byte*>(block), kHeader + bytes);
  }
  friend bool operator==(const HeaderAllocator&, const HeaderAllocator&) = default;

  std::size_t bytes;
};

// Blocks larger than the physical memory are refused before allocating them: a system that
// overcommits memory would allocate them and kill the process at their first use.
std::byte* new_block(std::size_t rounded) {
  if (rounded > machine_memory()) return nullptr;
  if (kGuardsBlocks) return take_guarded_block(rounded);
  void* block = ::operator new(rounded, alignment_of(rounded), std::nothrow);
  if (block == nullptr) {
    // All pools are of the same machine.
    for (std::size_t k = 0; k < kMemoryKinds; ++k) pool_of(MemoryKind(k)).freed.drop();
    block = ::operator new(rounded, alignment_of(rounded), std::nothrow);
  }
#if defined(MADV_HUGEPAGE)
  if (block != nullptr && rounded >= kHugeFrom) {
    (void)madvise(block, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
#endif
  return static_cast<std::byte*>(block);
}

[[noreturn]] void out_of_memory(std::size_t bytes, MemoryKind kind) {
  const std::int64_t hosts = memory_stats(MemoryKind::pinned_host).current +
                             memory_stats(MemoryKind::unpinned_host).current;
  throw RuntimeError("out of memory: a device's part of an array takes " + std::to_string(bytes) +
                     " bytes" + (is_host(kind) ? " of " + std::string(name(kind)) : "") +
                     "; the devices hold " + std::to_string(memory_stats().current) + " bytes, " +
                     (hosts > 0 ? "their hosts " + std::to_string(hosts) + " bytes, " : "") +
                     "and this machine has " + std::to_string(machine_memory()));
}

}  // namespace

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, MemoryKind kind) try {
  if (follows(bytes)) {
    auto storage = std::allocate_shared<Storage>(HeaderAllocator<Storage>(bytes), Token(), nullptr,
                                                 bytes, kind);
    // The header begins the block, and is aligned as that is.
    const auto header = reinterpret_cast<std::uintptr_t>(storage.get()) / kHeader * kHeader;
    storage->data_ = reinterpret_cast<std::byte*>(header + kHeader);
    pool_of(kind).counters.add(bytes);
    return storage;
  }
  // Beyond this size rounding would overflow.
  constexpr std::size_t kMost = std::size_t(1) << 62;
  const std::size_t rounded = rounded_size(std::min(bytes, kMost));
  Pool& pool = pool_of(kind);
  std::byte* data = pool.freed.take(rounded);
  if (data == nullptr) data = new_block(rounded);
  if (data == nullptr) throw std::bad_alloc();
  pool.counters.add(bytes);
  return std::allocate_shared<Storage>(HeaderAllocator<Storage>(0), Token(), data, bytes, kind);
} catch (const std::bad_alloc&) {
  out_of_memory(bytes, kind);
}

namespace {

class AdoptedStorage final : public Storage {
 public:
  AdoptedStorage(std::byte* data, std::size_t bytes, MemoryKind kind, Origin origin,
                 std::shared_ptr<const void> owner)
      : Storage(Token(), data, bytes, kind, origin), owner_(std::move(owner)) {}

 private:
  std::shared_ptr<const void> owner_;
};

}  // namespace

std::shared_ptr<Storage> Storage::adopt(std::byte* data, std::size_t bytes,
                                        std::shared_ptr<const void> owner, bool writable,
                                        MemoryKind kind) {
  if (reinterpret_cast<std::uintptr_t>(data) % kBlockAlignment != 0) return nullptr;
  pool_of(kind).counters.add(bytes);
  const Origin origin = writable ? Origin::adopted : Origin::read_only;
  return std::make_shared<AdoptedStorage>(data, bytes, kind, origin, std::move(owner));
}

Storage::~Storage() {
  Pool& pool = pool_of(kind_);
  pool.counters.remove(bytes());
  if (origin_ != Origin::pool || follows(bytes())) return;
  const std::size_t rounded = rounded_size(bytes());
  if (!pool.freed.keep(data_, rounded)) give_back(data_, rounded);
}

namespace {

[[noreturn]] void throw_foreign(const DeviceBuffer& buffer) {
  if (!buffer) throw RuntimeError("an empty buffer was given");
  throw RuntimeError(
      "a buffer is on a device of another engine; only devices of this process "
      "share its memory");
}

bool is_storage(const DeviceBuffer& buffer) {
  if (!buffer) return false;
  const DeviceMemory& memory = *buffer.memory;
  return typeid(memory) == typeid(Storage) || typeid(memory) == typeid(AdoptedStorage);
}

}  // namespace

std::shared_ptr<Storage> storage_of(DeviceBuffer buffer) {
  if (!is_storage(buffer)) throw_foreign(buffer);
  return std::static_pointer_cast<Storage>(std::move(buffer.memory));
}

Storage& storage_of_kept(const DeviceBuffer& buffer) {
  if (!is_storage(buffer)) throw_foreign(buffer);
  return static_cast<Storage&>(*buffer.memory);
}

const std::byte* bytes_of(const DeviceBuffer& buffer) { return storage_of_kept(buffer).data(); }

bool is_writable(const DeviceBuffer& buffer) {
  return is_storage(buffer) && static_cast<const Storage&>(*buffer.memory).is_writable();
}

MemoryStats memory_stats(MemoryKind kind) {
  Counters& counters = pool_of(kind).counters;
  const std::int64_t current = counters.current();
  return {current, std::max(current, counters.peak())};
}

void reset_peak_memory() {
  for (std::size_t k = 0; k < kMemoryKinds; ++k) {
    pool_of(MemoryKind(k)).counters.reset_peak();
  }
}

}  // namespace tessera::runtime
