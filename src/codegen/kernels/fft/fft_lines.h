// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of lines of complex numbers, for the machine's instruction set. Numbers are
// pairs of T, and need not be aligned.
#pragma once

#include <cstdint>

#include "src/codegen/kernels/fft/fft_plan.h"

namespace tessera::codegen {

/// Lines of plan->n neighbouring elements; they begin `in_stride` and `out_stride` elements apart.
/// In place if those are equal.
template <class T>
struct LineJob {
  const LinePlan<T>* plan = nullptr;
  const T* in = nullptr;
  T* out = nullptr;
  std::int64_t count = 1, in_stride = 0, out_stride = 0;
  bool inverse = false;
  T scale = 1;  ///< of the result
  /// More lines follow in memory, of which this asks for as many as it transforms.
  bool reads_on = false, writes_on = false;
};

/// `count` neighbouring columns of plan->n elements, which are `stride` elements apart. May be in
/// place.
template <class T>
struct ColumnJob {
  const LanePlan<T>* plan = nullptr;
  const T* in = nullptr;
  T* out = nullptr;
  std::int64_t count = 1, stride = 1;
  bool inverse = false;
  T scale = 1;
  bool goes_on = false;  ///< with the columns next to these
};

/// A line of 2m real numbers is transformed as m complex ones: from their transform to the first
/// m + 1 elements of the true one, or (`inverse`) from those to twice what has to be transformed
/// back.
template <class T>
struct RealJob {
  const T* in = nullptr;
  T* out = nullptr;
  std::int64_t m = 0;
  const T* table = nullptr;  ///< -i e^(-2 pi i k / 2m), for k up to m / 2
  bool inverse = false;
};

template <class Job>
using JobFunction = void (*)(const Job&);
/// The version for this machine, for f32 and f64.
template <class T>
JobFunction<LineJob<T>> transform_lines();
template <class T>
JobFunction<ColumnJob<T>> transform_columns();
template <class T>
JobFunction<RealJob<T>> separate_real();

}  // namespace tessera::codegen
