// SPDX-License-Identifier: Apache-2.0
// The control registers of floating-point units.
#include "src/base/arrays/subnormals.h"

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "src/base/env.h"

namespace tessera {
namespace {

#if defined(__x86_64__)
// Flush to zero: results. Denormals are zeros: operands.
constexpr unsigned kBits = 0x8040;
unsigned control() { return _mm_getcsr(); }
void set_control(unsigned bits) { _mm_setcsr(bits); }
#elif defined(__aarch64__)
// FZ: both.
constexpr std::uint64_t kBits = std::uint64_t(1) << 24;
std::uint64_t control() {
  std::uint64_t bits;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
void set_control(std::uint64_t bits) { __asm__ __volatile__("msr fpcr, %0" : : "r"(bits)); }
#else
constexpr unsigned kBits = 0;
unsigned control() { return 0; }
void set_control(unsigned) {}
#endif

std::atomic<bool> flush_by_default = false;

void set(bool flush) { set_control(flush ? control() | kBits : control() & ~kBits); }

}  // namespace

bool flushes_subnormals() { return kBits != 0 && (control() & kBits) == kBits; }

ScopedSubnormals::ScopedSubnormals(bool flush) : flush_(flush), before_(flushes_subnormals()) {
  if (flush_ != before_) set(flush_);
}

ScopedSubnormals::~ScopedSubnormals() {
  if (flush_ != before_) set(before_);
}

bool programs_flush_subnormals() {
  static const bool flush = env_flag("TESSERA_FLUSH_SUBNORMALS", flush_by_default);
  return flush;
}

void flush_subnormals_by_default() { flush_by_default = true; }

}  // namespace tessera
