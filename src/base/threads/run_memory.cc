// SPDX-License-Identifier: Apache-2.0
// Memory of programs that take it beforehand, and the operators by which the library comes to it.
#include "src/base/threads/run_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "src/base/check.h"

namespace tessera {
namespace {

thread_local constinit RunMemory* current_memory = nullptr;
thread_local constinit bool is_rehearsal = false;
/// Of all threads. Each `new` and `delete` of the library asks it first: finding a thread's own
/// takes a call in a library that programs may load at any time.
constinit std::atomic<int> uses = 0;

/// Before what is given out.
struct BlockHead {
  std::uint32_t size_class;
  std::uint32_t before;  ///< bytes from where the block begins
};
constexpr std::size_t kHead = 16;
static_assert(sizeof(BlockHead) <= kHead);

/// Four sizes between powers of two: at most a fifth is left over.
std::size_t block_class(std::size_t bytes) {
  const std::size_t units = std::max<std::size_t>((bytes + 15) / 16, 4);
  const auto octave = std::size_t(std::bit_width(units) - 3);
  const std::size_t quarter = (units + (std::size_t(1) << octave) - 1) >> octave;  // 4 to 8
  return 4 * octave + quarter - 4;
}
std::size_t class_bytes(std::size_t size_class) {
  return ((size_class % 4 + 4) << (size_class / 4)) * 16;
}

}  // namespace

RunMemory::~RunMemory() {
  {
    const Use use(this);
    for (std::size_t k = kept_count_; k-- > 0;) kept_[k].destroy(kept_[k].value);
  }
  for (std::size_t c = 0; c < chunk_count_; ++c) std::free(chunks_[c].data);
}

bool RunMemory::grow(std::size_t bytes) noexcept {
  if (chunk_count_ == kMostChunks) return false;
  constexpr std::size_t kLeast = 64 << 10;
  const std::size_t size = std::max({bytes, kLeast, std::size_t(bytes_) / 2});
  auto* const data = static_cast<std::byte*>(std::malloc(size));
  if (data == nullptr) return false;
  std::memset(data, 0, size);  // its pages are there
  chunks_[chunk_count_++] = {data, size};
  bytes_ += std::int64_t(size);
  next_ = data;
  end_ = data + size;
  return true;
}

void* RunMemory::take(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t extra = alignment > 16 ? alignment : 0;
  const std::size_t size_class = block_class(bytes + kHead + extra);
  if (size_class >= kClasses) return nullptr;
  const std::size_t size = class_bytes(size_class);
  std::byte* block = nullptr;
  if (Free* first = free_[size_class]) {
    free_[size_class] = first->next;
    block = reinterpret_cast<std::byte*>(first);
  } else {
    if (std::size_t(end_ - next_) < size && (settled_ || !grow(size))) {
      ++misses_;
      return nullptr;
    }
    block = next_;
    next_ += size;
  }
  std::byte* out = block + kHead;
  if (extra > 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(out);
    out += (alignment - at % alignment) % alignment;
  }
  const BlockHead head{std::uint32_t(size_class), std::uint32_t(out - block)};
  std::memcpy(out - kHead, &head, sizeof head);
  return out;
}

bool RunMemory::give(void* block) noexcept {
  auto* const at = static_cast<std::byte*>(block);
  bool mine = false;
  for (std::size_t c = 0; c < chunk_count_ && !mine; ++c) {
    mine = std::size_t(at - chunks_[c].data) < chunks_[c].bytes;
  }
  if (!mine) return false;
  BlockHead head;
  std::memcpy(&head, at - kHead, sizeof head);
  auto* const begin = at - head.before;
  Free* const first = new (begin) Free{free_[head.size_class]};
  free_[head.size_class] = first;
  return true;
}

void RunMemory::settle() {
  // What depends on the data, such as the digits that a sort counts, takes from this.
  const std::size_t room = (std::size_t(128) << 10) + std::size_t(bytes_) / 4;
  if (std::size_t(end_ - next_) < room && !grow(room)) throw std::bad_alloc();
  settled_ = true;
  misses_ = 0;
}

RunMemory* RunMemory::current() noexcept { return current_memory; }
bool RunMemory::rehearses() noexcept { return is_rehearsal; }

RunMemory::Use::Use(RunMemory* memory, bool rehearses) noexcept
    : before_(current_memory), rehearsed_(is_rehearsal) {
  uses.fetch_add(1, std::memory_order_relaxed);
  current_memory = memory;
  is_rehearsal = rehearses;
}
RunMemory::Use::~Use() {
  current_memory = before_;
  is_rehearsal = rehearsed_;
  uses.fetch_sub(1, std::memory_order_relaxed);
}

RunMemory::Kept* RunMemory::find(const void* key) noexcept {
  for (std::size_t k = 0; k < kept_count_; ++k) {
    if (kept_[k].key == key) return &kept_[k];
  }
  return nullptr;
}

void* RunMemory::keep(const Kept& kept) {
  TESSERA_CHECK(kept_count_ < kMostKept, "kernels keep memory of too many kinds");
  kept_[kept_count_++] = kept;
  return kept.value;
}

}  // namespace tessera

// The linker has all calls of these operators within libtessera.so come here (--wrap, see
// TesseraLayers.cmake). What programs and other libraries call is not touched, and neither is what
// the library calls while no thread uses a RunMemory: it goes on to the real operators, which a
// program may have replaced.
extern "C" {

// Their names are the linker's. They don't exist where nothing is wrapped.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
[[gnu::weak]] void* __real__Znwm(std::size_t bytes);
[[gnu::weak]] void* __real__Znam(std::size_t bytes);
[[gnu::weak]] void* __real__ZnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t& tag);
[[gnu::weak]] void* __real__ZnwmSt11align_val_t(std::size_t bytes, std::align_val_t alignment);
[[gnu::weak]] void* __real__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t bytes,
                                                              std::align_val_t alignment,
                                                              const std::nothrow_t& tag);
[[gnu::weak]] void __real__ZdlPv(void* block);
[[gnu::weak]] void __real__ZdaPv(void* block);
[[gnu::weak]] void __real__ZdlPvm(void* block, std::size_t bytes);
[[gnu::weak]] void __real__ZdaPvm(void* block, std::size_t bytes);
[[gnu::weak]] void __real__ZdlPvSt11align_val_t(void* block, std::align_val_t alignment);
[[gnu::weak]] void __real__ZdlPvmSt11align_val_t(void* block, std::size_t bytes,
                                                 std::align_val_t alignment);

}  // extern "C"

namespace {

/// Nearly always, and then nothing may be in the way.
inline bool uses_heap() {
  if (tessera::uses.load(std::memory_order_relaxed) == 0) [[likely]]
    return true;
  return tessera::current_memory == nullptr;
}

/// From the thread's memory, or as `real` gives it.
template <class Real>
[[gnu::noinline]] void* take_or(std::size_t bytes, std::size_t alignment, const Real& real) {
  void* const block = tessera::current_memory->take(bytes, alignment);
  return block != nullptr ? block : real();
}
template <class Real>
[[gnu::noinline]] void give_or(void* block, const Real& real) {
  if (!tessera::current_memory->give(block)) real();
}

}  // namespace

extern "C" {

void* __wrap__Znwm(std::size_t bytes) {
  if (uses_heap()) return __real__Znwm(bytes);
  return take_or(bytes, 16, [&] { return __real__Znwm(bytes); });
}
void* __wrap__Znam(std::size_t bytes) {
  if (uses_heap()) return __real__Znam(bytes);
  return take_or(bytes, 16, [&] { return __real__Znam(bytes); });
}
void* __wrap__ZnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t& tag) {
  if (uses_heap()) return __real__ZnwmRKSt9nothrow_t(bytes, tag);
  return take_or(bytes, 16, [&] { return __real__ZnwmRKSt9nothrow_t(bytes, tag); });
}
void* __wrap__ZnwmSt11align_val_t(std::size_t bytes, std::align_val_t alignment) {
  if (uses_heap()) return __real__ZnwmSt11align_val_t(bytes, alignment);
  return take_or(bytes, std::size_t(alignment),
                 [&] { return __real__ZnwmSt11align_val_t(bytes, alignment); });
}
void* __wrap__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t bytes, std::align_val_t alignment,
                                                const std::nothrow_t& tag) {
  if (uses_heap()) return __real__ZnwmSt11align_val_tRKSt9nothrow_t(bytes, alignment, tag);
  return take_or(bytes, std::size_t(alignment),
                 [&] { return __real__ZnwmSt11align_val_tRKSt9nothrow_t(bytes, alignment, tag); });
}
void __wrap__ZdlPv(void* block) {
  if (uses_heap()) return __real__ZdlPv(block);
  give_or(block, [&] { __real__ZdlPv(block); });
}
void __wrap__ZdaPv(void* block) {
  if (uses_heap()) return __real__ZdaPv(block);
  give_or(block, [&] { __real__ZdaPv(block); });
}
void __wrap__ZdlPvm(void* block, std::size_t bytes) {
  if (uses_heap()) return __real__ZdlPvm(block, bytes);
  give_or(block, [&] { __real__ZdlPvm(block, bytes); });
}
void __wrap__ZdaPvm(void* block, std::size_t bytes) {
  if (uses_heap()) return __real__ZdaPvm(block, bytes);
  give_or(block, [&] { __real__ZdaPvm(block, bytes); });
}
void __wrap__ZdlPvSt11align_val_t(void* block, std::align_val_t alignment) {
  if (uses_heap()) return __real__ZdlPvSt11align_val_t(block, alignment);
  give_or(block, [&] { __real__ZdlPvSt11align_val_t(block, alignment); });
}
void __wrap__ZdlPvmSt11align_val_t(void* block, std::size_t bytes, std::align_val_t alignment) {
  if (uses_heap()) return __real__ZdlPvmSt11align_val_t(block, bytes, alignment);
  give_or(block, [&] { __real__ZdlPvmSt11align_val_t(block, bytes, alignment); });
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
