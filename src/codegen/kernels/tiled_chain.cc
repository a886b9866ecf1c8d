// SPDX-License-Identifier: Apache-2.0
// Several kernels in a row as one, a block of rows at a time.
#include "src/codegen/kernels/tiled_chain.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
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
    bool is_read = false;        ///< what it makes, by links behind it or as scratch memory
    bool product = false;        ///< it takes rows together, not one as well as many
    std::int64_t sum_bytes = 0;  ///< of the sums of a part; 0: it makes rows
  };
  std::vector<Link> links;
  std::int64_t rows = 1, block = 1;
  std::int64_t groups = 0, parts = 1;
  std::vector<std::int64_t> row_bytes;  ///< of scratch
  std::int64_t short_block = 1;         ///< rows at a time of links between products
  std::size_t operands = 0;             ///< of the link that has most
  std::size_t inputs = 0, outputs = 0;  ///< of the chain
};

/// Of the rows that links between products go through one after the other: what the first cache
/// holds.
constexpr std::int64_t kShortBlockBytes = 24 << 10;

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

/// One call: goes through runs of rows.
class Run {
 public:
  explicit Run(const KernelCall& call)
      : call_(call),
        a_(*static_cast<const ChainAttrs*>(call.attributes)),
        may_stream_(call.may_stream && !overwrites(call, a_)),
        most_(std::min(a_.block, a_.groups > 0 ? a_.rows : call.end - call.begin)),
        memory_(std::size_t(scratch_bytes())),
        scratch_(a_.row_bytes.size()),
        inputs_(a_.operands),
        outputs_(a_.operands) {}

  void run() {
    if (a_.groups == 0) return rows(call_.begin, call_.end, 0);
    const std::int64_t of_group = a_.rows / a_.groups;
    // Parts are whole blocks, as far as there are rows.
    const std::int64_t blocks = (of_group + a_.block - 1) / a_.block;
    const std::int64_t of_part = (blocks + a_.parts - 1) / a_.parts * a_.block;
    for (std::int64_t part = call_.begin; part < call_.end; ++part) {
      const std::int64_t first = part / a_.parts * of_group, number = part % a_.parts;
      for (const ChainAttrs::Link& link : a_.links) {
        if (link.sum_bytes > 0) std::memset(sums(link, part), 0, std::size_t(link.sum_bytes));
      }
      rows(first + std::min(number * of_part, of_group),
           first + std::min((number + 1) * of_part, of_group), part);
    }
  }

 private:
  std::int64_t scratch_bytes() const {
    std::int64_t bytes = 0;
    for (const std::int64_t row : a_.row_bytes) bytes += rounded(row * most_);
    return bytes;
  }
  std::byte* sums(const ChainAttrs::Link& link, std::int64_t part) const {
    return call_.outputs[link.outputs[0].number] + part * link.sum_bytes;
  }

  void rows(std::int64_t first, std::int64_t last, std::int64_t part) {
    for (std::int64_t begin = first; begin < last; begin += a_.block) {
      const std::int64_t end = std::min(begin + a_.block, last);
      // Where row 0 would be, so that kernels find their own rows as in an array of all rows.
      std::byte* at = memory_.data();
      for (std::size_t k = 0; k < scratch_.size(); ++k) {
        scratch_[k] = at - begin * a_.row_bytes[k];
        at += rounded(a_.row_bytes[k] * most_);
      }
      for (std::size_t l = 0; l < a_.links.size();) {
        if (a_.links[l].product) {
          run(a_.links[l++], begin, end, part);
          continue;
        }
        std::size_t next = l;
        while (next < a_.links.size() && !a_.links[next].product) ++next;
        for (std::int64_t some = begin; some < end; some += a_.short_block) {
          const std::int64_t to = std::min(some + a_.short_block, end);
          for (std::size_t k = l; k < next; ++k) run(a_.links[k], some, to, part);
        }
        l = next;
      }
    }
  }

  void run(const ChainAttrs::Link& link, std::int64_t begin, std::int64_t end, std::int64_t part) {
    place(link, part);
    link.kernel.function({link.kernel.attributes.get(), inputs_.data(), outputs_.data(),
                          begin * link.units_of_row, end * link.units_of_row,
                          may_stream_ && !link.is_read});
  }

  void place(const ChainAttrs::Link& link, std::int64_t part) {
    for (std::size_t k = 0; k < link.inputs.size(); ++k) {
      const auto [kind, number] = link.inputs[k];
      inputs_[k] = kind == Place::Kind::input    ? call_.inputs[number]
                   : kind == Place::Kind::output ? call_.outputs[number]
                                                 : scratch_[std::size_t(number)];
    }
    for (std::size_t k = 0; k < link.outputs.size(); ++k) {
      const auto [kind, number] = link.outputs[k];
      outputs_[k] =
          kind == Place::Kind::output ? call_.outputs[number] : scratch_[std::size_t(number)];
    }
    if (link.sum_bytes > 0) outputs_[0] = sums(link, part);
  }

  const KernelCall& call_;
  const ChainAttrs& a_;
  const bool may_stream_;
  const std::int64_t most_;  ///< rows at a time
  const ScratchMemory memory_;
  std::vector<std::byte*> scratch_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

void run_chain(const KernelCall& call) { Run(call).run(); }

}  // namespace

void add_to_key(KeyWriter& key, const TiledChain::Link& link) {
  key.add_all(link.sums ? link.sums->key : link.kernel.key, link.units);
  for (const auto* places : {&link.inputs, &link.outputs}) {
    key.add(places->size());
    for (const Place& p : *places) key.add_all(p.kind, p.number);
  }
}

KernelDescriptor tiled_chain_kernel(TiledChain chain) {
  KernelDescriptor kernel;
  kernel.units = chain.groups > 0 ? chain.groups * chain.parts : chain.rows;
  KeyWriter key("chain");
  key.add_all(chain.rows, chain.block, chain.groups, chain.parts, chain.scratch);
  key.add(chain.links);
  for (const TiledChain::Link& link : chain.links) kernel.nanoseconds += link.nanoseconds;
  kernel.key = key.take();
  kernel.make = [chain = std::move(chain)] {
    auto made = std::make_shared<ChainAttrs>();
    made->rows = chain.rows;
    made->block = chain.block;
    made->groups = chain.groups;
    made->parts = chain.parts;
    made->row_bytes = chain.scratch;
    const std::int64_t row =
        chain.scratch.empty() ? 1 : *std::max_element(chain.scratch.begin(), chain.scratch.end());
    // Other chains go through memory in blocks that are longer.
    const bool multiplies =
        std::any_of(chain.links.begin(), chain.links.end(),
                    [](const TiledChain::Link& link) { return link.kernel.rereads_per_call; });
    made->short_block =
        multiplies ? std::max<std::int64_t>(1, kShortBlockBytes / row) : chain.block;
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
      const std::int64_t sum_bytes =
          link.sums ? link.sums->elements() * std::int64_t(byte_size(link.sums->held)) : 0;
      made->links.insert(
          made->links.begin(),
          {link.sums ? link.sums->make() : link.kernel.make(), link.units / chain.rows, link.inputs,
           link.outputs, is_read, link.sums != nullptr || link.kernel.rereads_per_call, sum_bytes});
      made->operands = std::max({made->operands, link.inputs.size(), link.outputs.size()});
    }
    return runtime::Kernel{run_chain, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
