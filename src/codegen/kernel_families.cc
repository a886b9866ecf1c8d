// SPDX-License-Identifier: Apache-2.0
// The lists of tables and of operations with one kernel each.
#include "src/codegen/kernel_families.h"

#include "src/codegen/custom_calls/call_kernel.h"
#include "src/codegen/kernels/convolutions/convolution_table.h"
#include "src/codegen/kernels/elementwise/random_bits.h"
#include "src/codegen/kernels/fft/fft.h"
#include "src/codegen/kernels/indexed/gather.h"
#include "src/codegen/kernels/indexed/scatter.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/products/dot_table.h"
#include "src/codegen/kernels/reductions/reduce_table.h"
#include "src/codegen/kernels/reductions/select_and_scatter.h"
#include "src/codegen/kernels/sorts/sort.h"
#include "src/codegen/kernels/sorts/topk.h"

namespace tessera::codegen {
namespace {

struct OpKernel {
  ir::Opcode opcode;
  DescribeKernel describe;
};

constexpr OpKernel kOpKernels[] = {
    {ir::Opcode::gather, gather_kernel},
    {ir::Opcode::rng_bit_generator, random_bits_kernel},
    {ir::Opcode::rng_get_and_update_state, random_state_kernel},
    {ir::Opcode::select_and_scatter, select_and_scatter_kernel},
    {ir::Opcode::sort, sort_kernel},
    {ir::Opcode::topk, topk_kernel},
};

}  // namespace

DescribeKernel kernel_of(ir::Opcode opcode) {
  for (const OpKernel& op : kOpKernels) {
    if (op.opcode == opcode) return op.describe;
  }
  return nullptr;
}

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
