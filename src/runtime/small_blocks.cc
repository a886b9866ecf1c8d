// SPDX-License-Identifier: Apache-2.0
// Lists of freed blocks, by size and thread.
#include "src/runtime/small_blocks.h"

#include <array>
#include <cstring>
#include <new>

#include "src/runtime/guarded_blocks.h"

namespace tessera::runtime {
namespace {

// Sizes are multiples of 64 bytes up to 1 KB, and of 512 bytes above.
constexpr std::size_t kFine = 64, kFineUntil = 1024, kCoarse = 512;
constexpr std::size_t kSizes = kFineUntil / kFine + (kSmallBlock - kFineUntil) / kCoarse;
constexpr std::size_t kKeptOfASize = 8, kKeptBytes = std::size_t(1) << 18;

std::size_t number_of(std::size_t bytes) {
  if (bytes <= kFineUntil) return bytes <= kFine ? 0 : (bytes - 1) / kFine;
  return kFineUntil / kFine + (bytes - kFineUntil - 1) / kCoarse;
}
std::size_t size_of(std::size_t number) {
  constexpr std::size_t fine = kFineUntil / kFine;
  return number < fine ? (number + 1) * kFine : kFineUntil + (number - fine + 1) * kCoarse;
}

void release(std::byte* block) { ::operator delete(block, std::align_val_t(kBlockAlignment)); }

/// Without a destructor: what static objects hold is freed after a thread's objects are destroyed.
struct Kept {
  enum class State : unsigned char { untouched, open, closed };
  struct List {
    std::byte* first = nullptr;  ///< each block begins with the address of the next
    std::size_t count = 0;
  };
  State state = State::untouched;
  std::size_t bytes = 0;
  std::array<List, kSizes> lists{};

  std::byte* pop(std::size_t number) {
    List& list = lists[number];
    std::byte* const block = list.first;
    if (block == nullptr) return nullptr;
    std::memcpy(&list.first, block, sizeof list.first);
    --list.count;
    bytes -= size_of(number);
    return block;
  }
};
thread_local constinit Kept kept;

/// Frees what a thread keeps when it ends.
struct Closer {
  Closer() { kept.state = Kept::State::open; }
  ~Closer() {
    kept.state = Kept::State::closed;
    for (std::size_t k = 0; k < kSizes; ++k) {
      while (std::byte* block = kept.pop(k)) release(block);
    }
  }
};

}  // namespace

std::byte* take_small_block(std::size_t bytes) {
  if (kGuardsBlocks) return take_guarded_block(bytes);
  const std::size_t number = number_of(bytes);
  if (std::byte* block = kept.pop(number)) return block;
  const std::size_t size = kKeepsBlocks ? size_of(number) : bytes;
  return static_cast<std::byte*>(
      ::operator new(size, std::align_val_t(kBlockAlignment), std::nothrow));
}

void give_small_block(std::byte* block, std::size_t bytes) {
  if (kGuardsBlocks) return give_guarded_block(block, bytes);
  const std::size_t number = number_of(bytes), size = size_of(number);
  Kept& mine = kept;
  if (mine.state == Kept::State::untouched) {
    thread_local Closer closer;
    (void)closer;
  }
  Kept::List& list = mine.lists[number];
  if (!kKeepsBlocks || mine.state == Kept::State::closed || list.count == kKeptOfASize ||
      mine.bytes + size > kKeptBytes) {
    return release(block);
  }
  std::memcpy(block, &list.first, sizeof list.first);
  list.first = block;
  ++list.count;
  mine.bytes += size;
}

}  // namespace tessera::runtime
