// SPDX-License-Identifier: Apache-2.0
// Whether a thread computes with subnormal numbers, or takes them for zeros.
#pragma once

namespace tessera {

/// Whether arithmetic of this thread takes subnormal operands for zeros, and makes zeros of
/// subnormal results.
bool flushes_subnormals();

/// Lets this thread flush subnormal numbers, or keep them, while it lives. Where the processor
/// can't be told, it does nothing.
class ScopedSubnormals {
 public:
  explicit ScopedSubnormals(bool flush);
  ~ScopedSubnormals();
  ScopedSubnormals(const ScopedSubnormals&) = delete;
  ScopedSubnormals& operator=(const ScopedSubnormals&) = delete;

 private:
  bool flush_, before_;
};

/// What programs do: as `TESSERA_FLUSH_SUBNORMALS` says, which is read once; where it says nothing,
/// they keep them, unless `flush_subnormals_by_default` was called before.
bool programs_flush_subnormals();
void flush_subnormals_by_default();

}  // namespace tessera
