// SPDX-License-Identifier: Apache-2.0
// Runs short kernels one after the other: all that is between them are pointers.
#include "src/codegen/kernels/step_chain.h"

#include <cstddef>
#include <utility>

#include "src/codegen/kernels/fused_loop.h"
#include "src/codegen/kernels/kernel_key.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;
using Kind = TiledChain::Place::Kind;

struct StepChainAttrs {
  struct Link {
    runtime::Kernel kernel;
    std::int64_t units = 0;
    std::size_t inputs = 0, outputs = 0;
  };
  struct Operand {
    Kind kind;
    std::int64_t number;  ///< of the input or output; where in the scratch memory
  };
  std::vector<Link> links;
  std::vector<Operand> operands;  ///< inputs, then outputs, of one link after the other
  std::size_t bytes = 0, most = 0;
};

void run_steps(const KernelCall& call) {
  const auto& a = *static_cast<const StepChainAttrs*>(call.attributes);
  const ScratchMemory memory(a.bytes + a.most * sizeof(std::byte*));
  std::byte* const scratch = memory.data();
  auto** const pointers = reinterpret_cast<std::byte**>(scratch + a.bytes);
  const StepChainAttrs::Operand* operand = a.operands.data();
  for (const StepChainAttrs::Link& link : a.links) {
    const std::size_t all = link.inputs + link.outputs;
    for (std::size_t k = 0; k < all; ++k, ++operand) {
      // Kernels don't write their inputs.
      pointers[k] = operand->kind == Kind::input
                        ? const_cast<std::byte*>(call.inputs[operand->number])
                    : operand->kind == Kind::output ? call.outputs[operand->number]
                                                    : scratch + operand->number;
    }
    link.kernel.function(
        {link.kernel.attributes.get(), pointers, pointers + link.inputs, 0, link.units});
  }
}

}  // namespace

KernelDescriptor step_chain_kernel(StepChain chain) {
  KernelDescriptor kernel;
  KeyWriter key("steps");
  key.add_all(chain.scratch, chain.links);
  for (const TiledChain::Link& link : chain.links) kernel.nanoseconds += link.nanoseconds;
  kernel.key = key.take();
  kernel.make = [chain = std::move(chain)] {
    auto made = std::make_shared<StepChainAttrs>();
    std::vector<std::int64_t> offsets;
    for (const std::int64_t bytes : chain.scratch) {
      offsets.push_back(std::int64_t(made->bytes));
      made->bytes += std::size_t((bytes + 63) / 64 * 64);
    }
    for (const TiledChain::Link& link : chain.links) {
      made->links.push_back(
          {link.kernel.make(), link.units, link.inputs.size(), link.outputs.size()});
      made->most = std::max(made->most, link.inputs.size() + link.outputs.size());
      for (const auto* places : {&link.inputs, &link.outputs}) {
        for (const auto& p : *places) {
          made->operands.push_back(
              {p.kind, p.kind == Kind::scratch ? offsets[std::size_t(p.number)] : p.number});
        }
      }
    }
    return runtime::Kernel{run_steps, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
