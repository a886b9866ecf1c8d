// SPDX-License-Identifier: Apache-2.0
// The kernels of reductions and of windows, those for special cases first.
#include "src/codegen/kernels/reductions/reduce_table.h"

namespace tessera::codegen {
namespace {

constexpr KernelLine<ReduceOperation, ReduceKernel> kReductions[] = {
    {kOnEvaluator, [](const ReduceOperation& r) { return !r.one_op && !r.has_loop; },
     ReduceKernel::none},
    {{"reduce/op-compiled", "one op, long enough to compile with what makes the elements"},
     [](const ReduceOperation& r) { return r.one_op && r.compiled; },
     ReduceKernel::op},
    {{"reduce/op-blocks", "one op, in blocks of elements: too short to compile"},
     [](const ReduceOperation& r) { return r.one_op; },
     ReduceKernel::op},
    {{"reduce/program-compiled", "several arrays or ops, long enough to compile"},
     [](const ReduceOperation& r) { return r.compiled; },
     ReduceKernel::program},
    {{"reduce/program-blocks",
      "several arrays or ops, in blocks of elements: too short to compile"},
     always<ReduceOperation>,
     ReduceKernel::program},
};

using Windows = ReduceWindowOperation;

constexpr KernelLine<Windows, ReduceWindowKernel> kWindows[] = {
    {kOnEvaluator, [](const Windows& w) { return !w.one_op && !w.has_lanes; },
     ReduceWindowKernel::none},
    {{"reduce-window/lane-scan",
      "windows of all before, by any function, or exact in rows: sequences side by side"},
     [](const Windows& w) {
       return w.has_lanes && w.runs && (!w.one_op || (!w.rounds && w.in_rows));
     },
     ReduceWindowKernel::lanes},
    {{"reduce-window/lanes", "several arrays or ops: a loop over lanes"},
     [](const Windows& w) { return !w.one_op; },
     ReduceWindowKernel::lanes},
    {{"reduce-window/scan", "windows of all that comes before, by one op: one pass"},
     [](const Windows& w) { return w.scans; },
     ReduceWindowKernel::scan},
    {{"reduce-window/taps", "one op, few places: these are combined in registers"},
     [](const Windows& w) { return w.sees_few; },
     ReduceWindowKernel::windows},
    {{"reduce-window/runs", "one op, long windows: runs of 1, 2, 4, ... positions are combined"},
     [](const Windows& w) { return w.has_long_runs; },
     ReduceWindowKernel::windows},
    {{"reduce-window/windows", "one op: rows are combined, then columns of these"},
     always<Windows>,
     ReduceWindowKernel::windows},
};

}  // namespace

const KernelLine<ReduceOperation, ReduceKernel>& choose_reduce(const ReduceOperation& reduce) {
  return choose(kReductions, reduce);
}
KernelFamily reduce_family() { return family_of("reduce", kReductions); }

const KernelLine<ReduceWindowOperation, ReduceWindowKernel>& choose_reduce_window(
    const ReduceWindowOperation& windows) {
  return choose(kWindows, windows);
}
KernelFamily reduce_window_family() { return family_of("reduce-window", kWindows); }

}  // namespace tessera::codegen
