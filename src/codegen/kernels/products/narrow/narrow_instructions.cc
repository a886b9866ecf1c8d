// SPDX-License-Identifier: Apache-2.0
// Finds out which instructions for products of narrow types this machine has.
#include "src/codegen/kernels/products/narrow/narrow_instructions.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>

#include "src/codegen/kernels/instruction_sets.h"

namespace tessera::codegen {
namespace {

struct Instructions {
  NarrowInstructions integer = NarrowInstructions::none, bf16 = NarrowInstructions::none;
};

/// A process has to ask the system for tiles, whose contents it then saves with each thread.
bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

Instructions narrow_of_machine() {
  Instructions found;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  if ((c >> 11 & 1) != 0) found.integer = NarrowInstructions::vectors;  // AVX512_VNNI
  const bool tiles = (d >> 24 & 1) != 0;                                // AMX-TILE
  const bool integer_tiles = tiles && (d >> 25 & 1) != 0;               // AMX-INT8
  const bool bf16_tiles = tiles && (d >> 22 & 1) != 0;                  // AMX-BF16
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0) {
    found.bf16 = NarrowInstructions::vectors;  // AVX512_BF16
  }
  if ((integer_tiles || bf16_tiles) && may_use_tiles()) {
    if (integer_tiles) found.integer = NarrowInstructions::tiles;
    if (bf16_tiles) found.bf16 = NarrowInstructions::tiles;
  }
#endif
  return found;
}

std::atomic<NarrowInstructions> narrow_limit{NarrowInstructions::tiles};

NarrowInstructions limited(NarrowInstructions most) {
  if (instruction_set() != InstructionSet::avx512) return NarrowInstructions::none;
  return std::min(most, narrow_limit.load(std::memory_order_relaxed));
}

const Instructions& instructions() {
  static const Instructions machine = narrow_of_machine();
  return machine;
}

}  // namespace

NarrowInstructions integer_instructions() { return limited(instructions().integer); }
NarrowInstructions bf16_instructions() { return limited(instructions().bf16); }

void limit_narrow_instructions(NarrowInstructions most) {
  narrow_limit.store(most, std::memory_order_relaxed);
}

}  // namespace tessera::codegen
