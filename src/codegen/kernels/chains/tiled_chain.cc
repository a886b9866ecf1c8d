// SPDX-License-Identifier: Apache-2.0
// Several kernels in a row as one, a block of rows at a time.
#include "src/codegen/kernels/chains/tiled_chain.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "src/base/contains.h"
#include "src/codegen/kernels/chains/masked_run.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct ChainAttrs : ChainRows {
  std::vector<RowLink> links;
  std::vector<std::size_t> makers;  ///< of places in scratch memory: links
  std::vector<TiledChain::Memory> memories;
  std::int64_t between = 0;      ///< bytes between memories
  std::int64_t short_block = 1;  ///< rows at a time of links between products
  std::optional<MaskedColumns> masked;
  runtime::Kernel mask;                 ///< makes rows of it, unless it is an input as it stands
  std::size_t operands = 0;             ///< of the link that has most
  std::size_t inputs = 0, outputs = 0;  ///< of the chain
};

/// Of the rows that links between products go through one after the other: what the first cache
/// holds.
constexpr std::int64_t kShortBlockBytes = 24 << 10;

/// Around the memories of links that reach: vectors may be read beyond the rows that are needed.
constexpr std::int64_t kAroundReach = 256;

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
        most_(std::min(a_.block, a_.groups > 0 || a_.by_blocks ? a_.rows : call.end - call.begin)),
        memory_(std::size_t(scratch_bytes())),
        scratch_(a_.scratch.size()),
        inputs_(a_.operands),
        outputs_(a_.operands),
        held_(a_.links.size()),
        places_{call_, scratch_.data()} {
    if (a_.masked) masked_.emplace(*a_.masked, a_.mask, a_.links, places_);
  }

  void run() {
    if (a_.groups == 0 && a_.by_blocks) {
      return rows(call_.begin * a_.block, std::min(call_.end * a_.block, a_.rows), 0);
    }
    if (a_.groups == 0) return rows(call_.begin, call_.end, 0);
    const std::int64_t of_group = a_.rows / a_.groups;
    // Parts are whole blocks, as far as there are rows.
    const std::int64_t blocks = (of_group + a_.block - 1) / a_.block;
    const std::int64_t of_part = (blocks + a_.parts - 1) / a_.parts * a_.block;
    for (std::int64_t part = call_.begin; part < call_.end; ++part) {
      const std::int64_t first = part / a_.parts * of_group, number = part % a_.parts;
      for (const RowLink& link : a_.links) {
        if (link.sums) std::memset(sums(link, part), 0, std::size_t(link.sums->bytes()));
      }
      rows(first + std::min(number * of_part, of_group),
           first + std::min((number + 1) * of_part, of_group), part);
    }
  }

 private:
  std::int64_t scratch_bytes() const {
    std::int64_t bytes = a_.between;
    for (const TiledChain::Memory& m : a_.memories) bytes += bytes_of(m);
    return bytes;
  }
  std::int64_t bytes_of(const TiledChain::Memory& m) const {
    return rounded_scratch(m.row_bytes * most_ + m.more_bytes) + a_.between;
  }
  std::byte* sums(const RowLink& link, std::int64_t part) const {
    return call_.outputs[link.outputs[0].number] + part * link.sums->bytes();
  }

  void rows(std::int64_t first, std::int64_t last, std::int64_t part) {
    for (std::int64_t begin = first; begin < last; begin += a_.block) {
      const std::int64_t end = std::min(begin + a_.block, last);
      // Where row 0 would be, so that kernels find their own rows as in an array of all rows.
      std::byte* at = memory_.data() + a_.between;
      for (const TiledChain::Memory& m : a_.memories) {
        for (const std::size_t k : m.places) {
          scratch_[k] = at - a_.links[a_.makers[k]].first(begin) * a_.scratch[k];
        }
        at += bytes_of(m);
      }
      if (masked_) masked_->begin_block(begin, end);
      for (std::size_t l = 0; l < a_.links.size();) {
        if (a_.links[l].product) {
          run(l++, begin, end, part);
          continue;
        }
        std::size_t next = l;
        while (next < a_.links.size() && !a_.links[next].product) ++next;
        for (std::int64_t some = begin; some < end; some += a_.short_block) {
          const std::int64_t to = std::min(some + a_.short_block, end);
          for (std::size_t k = l; k < next; ++k) run(k, some, to, part);
        }
        l = next;
      }
    }
  }

  void run(std::size_t l, std::int64_t begin, std::int64_t end, std::int64_t part) {
    const RowLink& link = a_.links[l];
    for (std::size_t k = 0; k < link.inputs.size(); ++k) inputs_[k] = places_.at(link.inputs[k]);
    for (std::size_t k = 0; k < link.outputs.size(); ++k) outputs_[k] = places_.at(link.outputs[k]);
    if (link.sums) outputs_[0] = sums(link, part);
    const KernelCall call{link.kernel.attributes.get(),
                          inputs_.data(),
                          outputs_.data(),
                          link.first(begin) * link.units_of_row,
                          link.last(end) * link.units_of_row,
                          may_stream_ && !link.is_read,
                          link.holds_second ? &held_[l] : nullptr};
    if (masked_ && masked_->run(l, call, begin, end)) return;
    link.kernel.function(call);
    if (link.copied_to >= 0) {
      const std::int64_t bytes = a_.scratch[std::size_t(link.outputs[0].number)];
      std::memcpy(call_.outputs[link.copied_to] + begin * bytes, outputs_[0] + begin * bytes,
                  std::size_t((end - begin) * bytes));
    }
  }

  const KernelCall& call_;
  const ChainAttrs& a_;
  const bool may_stream_;
  const std::int64_t most_;  ///< rows at a time
  const ScratchMemory memory_;
  std::vector<std::byte*> scratch_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<PackedSide> held_;  ///< by link
  const LinkMemory places_;
  std::optional<MaskedRun> masked_;
};

void run_chain(const KernelCall& call) { Run(call).run(); }

/// Its kernels, and all that is the same for each call.
std::shared_ptr<const ChainAttrs> ready(const TiledChain& chain,
                                        const std::optional<MaskedColumns>& masked) {
  auto made = std::make_shared<ChainAttrs>();
  static_cast<ChainRows&>(*made) = chain;
  made->makers.resize(chain.scratch.size());
  made->memories = chain.memories();
  made->between = chain.reaches() ? kAroundReach : 0;
  const std::int64_t row =
      chain.scratch.empty() ? 1 : *std::max_element(chain.scratch.begin(), chain.scratch.end());
  // Other chains go through memory in blocks that are longer.
  const bool multiplies =
      std::any_of(chain.links.begin(), chain.links.end(),
                  [](const TiledChain::Link& link) { return link.kernel.access.prepares(); });
  made->short_block = multiplies ? std::max<std::int64_t>(1, kShortBlockBytes / row) : chain.block;
  made->links.resize(chain.links.size());
  std::set<int> read;  // outputs of the chain that later links read
  for (std::size_t l = chain.links.size(); l-- > 0;) {
    const TiledChain::Link& link = chain.links[l];
    RowLink& to = made->links[l];
    static_cast<LinkRows&>(to) = link;
    if (to.rows == 0) to.rows = chain.rows;
    to.kernel = link.sums ? link.sums->make() : link.kernel.make();
    to.units_of_row = link.units() / to.rows;
    to.inputs = link.inputs;
    to.outputs = link.outputs;
    to.product = link.sums != nullptr || link.kernel.access.prepares();
    to.body = link.kernel.body;
    for (const Place& p : link.outputs) {
      to.is_read = to.is_read || p.kind != Place::Kind::output || read.count(p.number) != 0;
      if (p.kind == Place::Kind::output) {
        made->outputs = std::max(made->outputs, std::size_t(p.number) + 1);
      } else {
        made->makers[std::size_t(p.number)] = l;
      }
    }
    made->outputs = std::max(made->outputs, std::size_t(link.copied_to + 1));
    for (const Place& p : link.inputs) {
      if (p.kind == Place::Kind::output) read.insert(p.number);
      if (p.kind == Place::Kind::input) {
        made->inputs = std::max(made->inputs, std::size_t(p.number) + 1);
      }
    }
    const auto* product = link.kernel.body.as<KernelBody::Product>();
    to.holds_second = !link.sums && product != nullptr &&
                      product->rows >= 2 * chain.block * link.units() / chain.rows &&
                      link.inputs[1].kind == Place::Kind::input;
    made->operands = std::max({made->operands, link.inputs.size(), link.outputs.size()});
  }
  if (masked) {
    made->masked = masked;
    if (masked->period == 0) made->mask = masked->mask.make();
  }
  return made;
}

}  // namespace

std::vector<TiledChain::Memory> TiledChain::memories() const {
  std::vector<Memory> out;
  for (const Link& link : links) {
    for (const Place& p : link.outputs) {
      if (p.kind != Place::Kind::scratch) continue;
      const auto place = std::size_t(p.number);
      const std::size_t number = memory.empty() ? place : std::size_t(memory[place]);
      if (number >= out.size()) out.resize(number + 1);
      Memory& m = out[number];
      m.row_bytes = std::max(m.row_bytes, scratch[place]);
      m.more_bytes = std::max(m.more_bytes, scratch[place] * (link.before + link.behind));
      if (!contains(m.places, place)) m.places.push_back(place);
    }
  }
  return out;
}

bool TiledChain::reaches() const {
  return std::any_of(links.begin(), links.end(), [](const Link& link) { return link.reaches(); });
}

double TiledChain::repeated() const {
  double rows = 0;
  for (const Link& link : links) rows += double(link.before + link.behind);
  return rows / (double(block) * double(links.size()));
}

void add_to_key(KeyWriter& key, const TiledChain::Link& link) {
  add_to_key(key, static_cast<const Link&>(link));
  key.add_all(link.sums ? link.sums->key : std::string(), link.rows, link.before, link.behind,
              link.copied_to);
}

std::string key_of(const TiledChain& chain) {
  KeyWriter key("chain");
  key.add_all(chain.rows, chain.block, chain.groups, chain.parts, chain.by_blocks, chain.scratch,
              chain.memory, chain.links);
  return key.take();
}

KernelDescriptor tiled_chain_kernel(TiledChain chain) {
  static constexpr runtime::KernelLabel kRows = {"chain/rows",
                                                 "steps that go through the same rows, a block at "
                                                 "a time: what is between them stays in cache"};
  static constexpr runtime::KernelLabel kReaching = {
      "chain/stencil", "loops that read neighbouring rows of one another, a block at a time"};
  KernelDescriptor kernel;
  const bool reaches = chain.reaches();
  kernel.label = reaches ? &kReaching : &kRows;
  std::optional<MaskedColumns> masked;
  if (!reaches) masked = masked_columns(chain);
  if (masked && chain.groups == 0 && !chain.by_blocks) {
    chain.block = block_of_masked(chain, *masked);
  }
  kernel.key = key_of(chain);
  chain.by_blocks = chain.by_blocks || masked;
  kernel.units = chain.groups > 0  ? chain.groups * chain.parts
                 : chain.by_blocks ? (chain.rows + chain.block - 1) / chain.block
                                   : chain.rows;
  for (const TiledChain::Link& link : chain.links) {
    kernel.nanoseconds += link.kernel.nanoseconds;
  }
  kernel.nanoseconds *= 1 + chain.repeated();
  kernel.make = [chain = std::move(chain), masked = std::move(masked)] {
    return runtime::Kernel{run_chain, ready(chain, masked)};
  };
  return kernel;
}

}  // namespace tessera::codegen
