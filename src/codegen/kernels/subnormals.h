// SPDX-License-Identifier: Apache-2.0
// Subnormal numbers in products.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tessera::codegen {

/// For the length of a scope, this thread takes subnormal numbers as zero and makes none. A product
/// with one takes a processor a hundred times as long as another, and softmaxes are full of them.
class FlushedSubnormals {
 public:
#if defined(__SSE__)
  FlushedSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushResults | kZeroInputs); }
  ~FlushedSubnormals() { _mm_setcsr(before_); }
#else
  FlushedSubnormals() {}
#endif
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kFlushResults = 0x8000, kZeroInputs = 0x0040;
  unsigned before_;
#endif
};

}  // namespace tessera::codegen
