// SPDX-License-Identifier: Apache-2.0
// Which kernel reduces: the tables of reductions and of windows.
#pragma once

#include <cstdint>

#include "src/codegen/kernels/kernel_choice.h"

namespace tessera::codegen {

struct ReduceOperation {
  bool one_op = false;    ///< of one array, on what its sums are held as
  bool has_loop = false;  ///< the reducer, of sums that are of the elements' types
  bool compiled = false;  ///< it runs long enough
};
enum class ReduceKernel : std::uint8_t { none, op, program };
const KernelLine<ReduceOperation, ReduceKernel>& choose_reduce(const ReduceOperation& reduce);
KernelFamily reduce_family();

struct ReduceWindowOperation {
  bool one_op = false;  ///< of one array, in windows that aren't reversed
  bool scans = false;   ///< by one op: windows take in all that comes before, or after, along a dim
  bool rounds = false;  ///< a scan whose order changes bits
  bool in_rows = false;        ///< it is along the last dim
  bool has_lanes = false;      ///< the reducer is a loop that runs over lanes
  bool runs = false;           ///< and windows are as those of scans
  bool sees_few = false;       ///< by one op: few places, which fill vectors of results
  bool has_long_runs = false;  ///< by one op: long windows along rows, one at each position
};
enum class ReduceWindowKernel : std::uint8_t { none, lanes, scan, windows };
const KernelLine<ReduceWindowOperation, ReduceWindowKernel>& choose_reduce_window(
    const ReduceWindowOperation& windows);
KernelFamily reduce_window_family();

}  // namespace tessera::codegen
