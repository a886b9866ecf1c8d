// SPDX-License-Identifier: Apache-2.0
// By the functions that OpenBLAS itself calls around each product; other BLASes lack them.
#include "src/codegen/kernels/products/blas_buffers.h"

#include <algorithm>
#include <array>
#include <mutex>

extern "C" {
[[gnu::weak]] void* blas_memory_alloc(int position);
[[gnu::weak]] void blas_memory_free(void* buffer);
}

namespace tessera::codegen {

void reserve_blas_buffers(int count) {
  constexpr int kMost = 64;  // OpenBLAS complains of more than it was built for
  static std::mutex mutex;
  static int reserved = 0;
  const std::lock_guard lock(mutex);
  count = std::min(count, kMost);
  if (count <= reserved || blas_memory_alloc == nullptr || blas_memory_free == nullptr) return;
  std::array<void*, kMost> buffers{};
  for (int k = 0; k < count; ++k) buffers[std::size_t(k)] = blas_memory_alloc(0);
  for (int k = 0; k < count; ++k) blas_memory_free(buffers[std::size_t(k)]);
  reserved = count;
}

}  // namespace tessera::codegen
