// SPDX-License-Identifier: Apache-2.0
// The sets of vector instructions of this machine.
#include "src/codegen/kernels/instruction_sets.h"

#include <algorithm>
#include <atomic>

namespace tessera::codegen {
namespace {

InstructionSet of_machine() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return InstructionSet::baseline;
  }
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  return wide ? InstructionSet::avx512 : InstructionSet::avx2;
#else
  return InstructionSet::baseline;
#endif
}

std::atomic<InstructionSet> limit{InstructionSet::avx512};

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet machine = of_machine();
  return std::min(machine, limit.load(std::memory_order_relaxed));
}

bool is_intel() {
#if defined(__x86_64__)
  static const bool intel = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
  }();
  return intel;
#else
  return false;
#endif
}

void limit_instruction_set(InstructionSet most) { limit.store(most, std::memory_order_relaxed); }

}  // namespace tessera::codegen
