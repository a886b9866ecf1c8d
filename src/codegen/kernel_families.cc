// SPDX-License-Identifier: Apache-2.0
// The list of tables.
#include "src/codegen/kernel_families.h"

#include "src/codegen/custom_calls/call_kernel.h"
#include "src/codegen/kernels/convolutions/convolution_table.h"
#include "src/codegen/kernels/fft/fft.h"
#include "src/codegen/kernels/indexed/gather.h"
#include "src/codegen/kernels/indexed/scatter.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/products/dot_table.h"
#include "src/codegen/kernels/reductions/reduce_table.h"
#include "src/codegen/kernels/reductions/windows/select_and_scatter.h"
#include "src/codegen/kernels/sorts/sort.h"
#include "src/codegen/kernels/sorts/topk.h"

namespace tessera::codegen {

std::vector<KernelFamily> kernel_families() {
  return {dot_family(),
          convolution_family(),
          reduce_family(),
          reduce_window_family(),
          select_and_scatter_family(),
          gather_family(),
          scatter_family(),
          sort_family(),
          topk_family(),
          fft_family(),
          loop_family(),
          move_family(),
          library_family()};
}

}  // namespace tessera::codegen
