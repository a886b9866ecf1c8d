// SPDX-License-Identifier: Apache-2.0
// By functions of OpenBLAS that it calls itself when it is loaded, and around each product; builds
// for one processor, or other BLASes, lack them.
#include "src/codegen/kernels/products/blas_setup.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "src/codegen/kernels/instruction_sets.h"

extern "C" {
[[gnu::weak]] char* openblas_get_corename();
[[gnu::weak]] void gotoblas_dynamic_init();
[[gnu::weak]] void gotoblas_dynamic_quit();
[[gnu::weak]] void* blas_memory_alloc(int position);
[[gnu::weak]] void blas_memory_free(void* buffer);
}

namespace tessera::codegen {

void keep_blas_to_one_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

void choose_blas_kernels() {
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  const InstructionSet machine = instruction_set_of_machine();
  if (machine == InstructionSet::baseline || std::getenv(kVariable) != nullptr) return;
  if (openblas_get_corename == nullptr || gotoblas_dynamic_init == nullptr ||
      gotoblas_dynamic_quit == nullptr || std::strcmp(openblas_get_corename(), "Prescott") != 0) {
    return;
  }
  setenv(kVariable, machine == InstructionSet::avx512 ? "SkylakeX" : "Haswell", 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(kVariable);
}

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

namespace {
[[maybe_unused]] const bool chosen = (choose_blas_kernels(), true);
}  // namespace

}  // namespace tessera::codegen
