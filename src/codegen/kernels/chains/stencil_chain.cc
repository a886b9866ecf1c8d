// SPDX-License-Identifier: Apache-2.0
// Steps of a stencil as one kernel, a block of rows at a time.
#include "src/codegen/kernels/chains/stencil_chain.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct StencilAttrs {
  struct Link : StencilChain::LinkRows {
    runtime::Kernel kernel;
  };
  std::vector<Link> links;
  std::int64_t rows = 1, block = 1;
  std::vector<std::int64_t> scratch;
};

/// Between places of scratch memory: vectors may be read beyond the rows that are needed.
constexpr std::int64_t kBetweenPlaces = 256;

void run_stencils(const KernelCall& call) {
  const auto& a = *static_cast<const StencilAttrs*>(call.attributes);
  std::int64_t bytes = kBetweenPlaces;
  std::vector<std::int64_t> begins;
  for (const std::int64_t place : a.scratch) {
    begins.push_back(bytes);
    bytes += (place + 63) / 64 * 64 + kBetweenPlaces;
  }
  const ScratchMemory memory{std::size_t(bytes)};
  std::vector<std::byte*> made(a.links.size());
  std::vector<const std::byte*> inputs;
  for (std::int64_t block = call.begin; block < call.end; ++block) {
    const std::int64_t begin = block * a.block, end = std::min(begin + a.block, a.rows);
    for (std::size_t l = 0; l < a.links.size(); ++l) {
      const StencilAttrs::Link& link = a.links[l];
      const std::int64_t first = std::clamp<std::int64_t>(begin - link.before, 0, link.rows);
      const std::int64_t last = std::clamp<std::int64_t>(end + link.behind, first, link.rows);
      // Where row 0 would be, so that kernels find rows as in an array of all of them.
      made[l] = link.scratch >= 0
                    ? memory.data() + begins[std::size_t(link.scratch)] - first * link.row_bytes
                    : call.outputs[link.output];
      inputs.clear();
      for (const StencilChain::Operand& p : link.inputs) {
        inputs.push_back(p.made ? made[std::size_t(p.number)] : call.inputs[p.number]);
      }
      link.kernel.function({link.kernel.attributes.get(), inputs.data(), &made[l],
                            first * link.row_units, last * link.row_units,
                            call.may_stream && link.scratch < 0});
      if (link.scratch >= 0 && link.output >= 0) {
        std::memcpy(call.outputs[link.output] + begin * link.row_bytes,
                    made[l] + begin * link.row_bytes, std::size_t((end - begin) * link.row_bytes));
      }
    }
  }
}

}  // namespace

KernelDescriptor stencil_chain_kernel(StencilChain chain) {
  static constexpr runtime::KernelLabel kLabel = {
      "chain/stencil", "loops that read neighbouring rows of one another, a block at a time"};
  KernelDescriptor kernel;
  kernel.label = &kLabel;
  kernel.units = (chain.rows + chain.block - 1) / chain.block;
  kernel.nanoseconds = chain.nanoseconds;
  KeyWriter key("stencil chain");
  key.add_all(chain.rows, chain.block, chain.scratch);
  key.add(chain.links.size());
  for (const StencilChain::Link& link : chain.links) {
    key.add_all(link.kernel.key, link.rows, link.row_units, link.row_bytes, link.before,
                link.behind, link.output, link.scratch);
    key.add(link.inputs.size());
    for (const StencilChain::Operand& p : link.inputs) key.add_all(p.made, p.number);
  }
  kernel.key = key.take();
  kernel.make = [chain = std::move(chain)] {
    auto made = std::make_shared<StencilAttrs>();
    made->rows = chain.rows;
    made->block = chain.block;
    made->scratch = chain.scratch;
    for (const StencilChain::Link& link : chain.links) {
      made->links.push_back({link, link.kernel.make()});
    }
    return runtime::Kernel{run_stencils, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
