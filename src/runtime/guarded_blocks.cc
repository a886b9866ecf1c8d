// SPDX-License-Identifier: Apache-2.0
// Blocks of memory that end where their pages do.
#include "src/runtime/guarded_blocks.h"

#include <sys/mman.h>

#include "src/runtime/small_blocks.h"

namespace tessera::runtime {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t up_to(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

std::byte* take_guarded_block(std::size_t bytes) {
  const std::size_t size = up_to(bytes, kBlockAlignment), pages = up_to(size, kPage);
  void* const all =
      mmap(nullptr, pages + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  if (mprotect(all, pages, PROT_READ | PROT_WRITE) != 0) {
    munmap(all, pages + kPage);
    return nullptr;
  }
  return static_cast<std::byte*>(all) + (pages - size);
}

void give_guarded_block(std::byte* block, std::size_t bytes) {
  const std::size_t size = up_to(bytes, kBlockAlignment), pages = up_to(size, kPage);
  munmap(block - (pages - size), pages + kPage);
}

}  // namespace tessera::runtime
