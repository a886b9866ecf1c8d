// SPDX-License-Identifier: Apache-2.0
// Several kernels in a row as one, a block of rows at a time.
#include "src/codegen/kernels/tiled_chain.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "src/codegen/kernels/fused_loop.h"
#include "src/codegen/kernels/kernel_key.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;
using Place = TiledChain::Place;

struct ChainAttrs {
  struct Link {
    runtime::Kernel kernel;
    std::int64_t units_of_row = 1;
    std::vector<Place> inputs, outputs;
    bool is_read = false;  ///< what it makes, by links behind it or as scratch memory
  };
  std::vector<Link> links;
  std::int64_t block = 1;
  std::vector<std::int64_t> row_bytes;  ///< of scratch
  std::size_t operands = 0;             ///< of the link that has most
  std::size_t inputs = 0, outputs = 0;  ///< of the chain
};

/// Scratch memory of rows is at addresses that end here.
std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Whether an output is where an input is, which links may have read just before.
bool overwrites(const KernelCall& call, const ChainAttrs& a) {
  for (std::size_t o = 0; o < a.outputs; ++o) {
    if (std::find(call.inputs, call.inputs + a.inputs, call.outputs[o]) != call.inputs + a.inputs) {
      return true;
    }
  }
  return false;
}

void run_chain(const KernelCall& call) {
  const auto& a = *static_cast<const ChainAttrs*>(call.attributes);
  const bool may_stream = call.may_stream && !overwrites(call, a);
  const std::int64_t most = std::min(a.block, call.end - call.begin);
  std::int64_t bytes = 0;
  for (const std::int64_t row : a.row_bytes) bytes += rounded(row * most);
  const ScratchMemory memory{std::size_t(bytes)};
  // Where row 0 would be, so that kernels find their own rows as in an array of all rows.
  std::vector<std::byte*> scratch(a.row_bytes.size());
  std::vector<const std::byte*> inputs(a.operands);
  std::vector<std::byte*> outputs(a.operands);
  for (std::int64_t begin = call.begin; begin < call.end; begin += a.block) {
    const std::int64_t end = std::min(begin + a.block, call.end);
    std::byte* at = memory.data();
    for (std::size_t k = 0; k < scratch.size(); ++k) {
      scratch[k] = at - begin * a.row_bytes[k];
      at += rounded(a.row_bytes[k] * most);
    }
    for (const ChainAttrs::Link& link : a.links) {
      for (std::size_t k = 0; k < link.inputs.size(); ++k) {
        const auto [kind, number] = link.inputs[k];
        inputs[k] = kind == Place::Kind::input    ? call.inputs[number]
                    : kind == Place::Kind::output ? call.outputs[number]
                                                  : scratch[std::size_t(number)];
      }
      for (std::size_t k = 0; k < link.outputs.size(); ++k) {
        const auto [kind, number] = link.outputs[k];
        outputs[k] =
            kind == Place::Kind::output ? call.outputs[number] : scratch[std::size_t(number)];
      }
      link.kernel.function({link.kernel.attributes.get(), inputs.data(), outputs.data(),
                            begin * link.units_of_row, end * link.units_of_row,
                            may_stream && !link.is_read});
    }
  }
}

}  // namespace

void add_to_key(KeyWriter& key, const TiledChain::Link& link) {
  key.add_all(link.kernel.key, link.units);
  for (const auto* places : {&link.inputs, &link.outputs}) {
    key.add(places->size());
    for (const Place& p : *places) key.add_all(p.kind, p.number);
  }
}

KernelDescriptor tiled_chain_kernel(TiledChain chain) {
  KernelDescriptor kernel;
  kernel.units = chain.rows;
  KeyWriter key("chain");
  key.add_all(chain.rows, chain.block, chain.scratch);
  key.add(chain.links);
  for (const TiledChain::Link& link : chain.links) kernel.nanoseconds += link.nanoseconds;
  kernel.key = key.take();
  kernel.make = [chain = std::move(chain)] {
    auto made = std::make_shared<ChainAttrs>();
    made->block = chain.block;
    made->row_bytes = chain.scratch;
    std::set<int> read;  // outputs of the chain that later links read
    for (std::size_t l = chain.links.size(); l-- > 0;) {
      const TiledChain::Link& link = chain.links[l];
      bool is_read = false;
      for (const Place& p : link.outputs) {
        is_read = is_read || p.kind != Place::Kind::output || read.count(p.number) != 0;
        if (p.kind == Place::Kind::output) {
          made->outputs = std::max(made->outputs, std::size_t(p.number) + 1);
        }
      }
      for (const Place& p : link.inputs) {
        if (p.kind == Place::Kind::output) read.insert(p.number);
        if (p.kind == Place::Kind::input) {
          made->inputs = std::max(made->inputs, std::size_t(p.number) + 1);
        }
      }
      made->links.insert(made->links.begin(), {link.kernel.make(), link.units / chain.rows,
                                               link.inputs, link.outputs, is_read});
      made->operands = std::max({made->operands, link.inputs.size(), link.outputs.size()});
    }
    return runtime::Kernel{run_chain, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
