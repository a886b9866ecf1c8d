// SPDX-License-Identifier: Apache-2.0
// The sets of vector instructions of this machine.
#include "src/codegen/kernels/instruction_sets.h"

#include <algorithm>
#include <atomic>

#include "src/base/env.h"

namespace tessera::codegen {
namespace {

InstructionSet of_environment() {
  const auto most = env_choice("TESSERA_MAX_ISA");
  if (most == "baseline") return InstructionSet::baseline;
  return most == "avx2" ? InstructionSet::avx2 : InstructionSet::avx512;
}

std::atomic<InstructionSet> limit{InstructionSet::avx512};

}  // namespace

InstructionSet instruction_set_of_machine() {
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

InstructionSet instruction_set() {
  static const InstructionSet machine = std::min(instruction_set_of_machine(), of_environment());
  return std::min(machine, limit.load(std::memory_order_relaxed));
}

const char* level_of_environment() {
  const InstructionSet most = of_environment();
  if (most >= instruction_set_of_machine()) return "";
  return most == InstructionSet::avx2 ? "x86-64-v3" : "x86-64";
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
