// SPDX-License-Identifier: Apache-2.0
// Kernels in several versions, one for each set of vector instructions. The library is built for
// the least that an x86-64 has; the version for what the machine has is chosen when it runs.
#pragma once

#include <cstdint>

namespace tessera::codegen {

enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };

/// The largest set that this machine has.
InstructionSet instruction_set_of_machine();
/// The same, at most those of TESSERA_MAX_ISA, when first asked for, and of limit_instruction_set.
InstructionSet instruction_set();
/// The level of the x86-64 ABI for which code is compiled if TESSERA_MAX_ISA is less than what this
/// machine has; else empty.
const char* level_of_environment();
/// Whether this is a processor of Intel's: for choices that were measured on it.
bool is_intel();
/// For tests of all versions: what is made from now on uses no larger set.
void limit_instruction_set(InstructionSet most);

/// One of three functions of one type, by the machine's set.
template <class Function>
Function version_for_machine(Function baseline, Function avx2, Function avx512) {
  const InstructionSet set = instruction_set();
  return set == InstructionSet::avx512 ? avx512 : set == InstructionSet::avx2 ? avx2 : baseline;
}

}  // namespace tessera::codegen

/// What a version calls must be inlined into it: by itself it would be compiled for the baseline.
#define TESSERA_INLINE __attribute__((always_inline)) inline

#if defined(__x86_64__)
#define TESSERA_FOR_AVX2 __attribute__((target("avx2,fma")))
#define TESSERA_FOR_AVX512 __attribute__((target("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")))
#else
#define TESSERA_FOR_AVX2
#define TESSERA_FOR_AVX512
#endif

/// Defines `static FunctionPointer name()`, which gives the version of `body<T, bytes>` for the
/// machine: a function template of an element type and the bytes of a vector, with parameters
/// `(const Arguments&)`. Its calls are to be TESSERA_INLINE, as it is.
#define TESSERA_VERSIONS(name, body, Arguments)                                          \
  template <class T>                                                                     \
  void name##_baseline(const Arguments& a) {                                             \
    body<T, 16>(a);                                                                      \
  }                                                                                      \
  template <class T>                                                                     \
  TESSERA_FOR_AVX2 void name##_avx2(const Arguments& a) {                                \
    body<T, 32>(a);                                                                      \
  }                                                                                      \
  template <class T>                                                                     \
  TESSERA_FOR_AVX512 void name##_avx512(const Arguments& a) {                            \
    body<T, 64>(a);                                                                      \
  }                                                                                      \
  template <class T>                                                                     \
  auto name() {                                                                          \
    return version_for_machine(&name##_baseline<T>, &name##_avx2<T>, &name##_avx512<T>); \
  }
