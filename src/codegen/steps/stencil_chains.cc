// SPDX-License-Identifier: Apache-2.0
// Finds loops that follow one another as steps of a stencil do, and joins them.
#include "src/codegen/steps/stencil_chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/codegen/kernels/chains/row_reach.h"
#include "src/codegen/kernels/chains/tiled_chain.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/steps/joined_steps.h"
#include "src/codegen/steps/steps_peak.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

/// Steps that are tried as one.
constexpr std::size_t kMostLinks = 32;

class StencilJoiner {
 public:
  StencilJoiner(Plan* plan, KernelTable* kernels)
      : plan_(*plan), kernels_(*kernels), readers_(*plan) {}

  void run(Block* block) {
    for (std::size_t n = 0; n < block->steps.size(); ++n) join_from(block, n);
  }

 private:
  struct Link {
    std::size_t step = 0;
    std::int64_t width = 0;            ///< elements of a row; 0: any
    std::map<SlotId, RowReach> reads;  ///< of what the chain made
  };

  std::int64_t bytes(SlotId s) const { return plan_.slots[std::size_t(s)].bytes; }

  /// A loop that makes one large array.
  const KernelTask* loop_at(const Block& block, std::size_t n) const {
    const KernelTask* task = task_of(block.steps[n]);
    if (task == nullptr || task->outputs.size() != 1 || !may_be_joined(*task, plan_, kernels_)) {
      return nullptr;
    }
    const KernelDescriptor& kernel = kernels_.at(task->kernel);
    const Slot& out = plan_.slots[std::size_t(task->outputs[0])];
    const auto count = std::int64_t(plan_.classes[std::size_t(out.classes)].count());
    const auto* loop = kernel.body.as<KernelBody::Loop>();
    const bool by_elements = loop != nullptr && loop->elements_per_unit == 1 &&
                             kernel.access.makes_own() && task->units > 0;
    if (!by_elements || out.bytes * count < prices::stencils::kLeastBytes ||
        out.bytes % task->units != 0) {
      return nullptr;
    }
    return task;
  }

  /// The step as a link behind these; none if it isn't known to read rows around its own.
  std::optional<Link> link_of(const Block& block, std::size_t n, std::vector<Link>* links) const {
    const KernelTask* task = loop_at(block, n);
    if (task == nullptr) return std::nullopt;
    const LoopExpr& program = *kernels_.at(task->kernel).body.loop();
    Link link{n, 0, {}};
    std::vector<bool> done(task->inputs.size(), false);
    // Reads that say how long rows are come first, and then again those that didn't know.
    for (const bool known : {true, false, false}) {
      for (std::size_t k = 0; k < task->inputs.size(); ++k) {
        Link* maker = maker_of(block, links, task->inputs[k]);
        if (maker == nullptr || done[k] || (known && maker->width == 0)) continue;
        const std::int64_t width = maker->width != 0 ? maker->width
                                   : link.width != 0 ? link.width
                                                     : row_of_reads(program, *task, int(k));
        if (width == 0) continue;  // as long as anybody wants
        if (!add_read(program, *task, k, width, &link)) return std::nullopt;
        if (maker->width == 0 && !settle(block, links, maker, width)) return std::nullopt;
        done[k] = true;
      }
    }
    return link;
  }

  /// What the loop reads by its input `k`, too; false if that isn't known.
  static bool add_read(const LoopExpr& program, const KernelTask& task, std::size_t k,
                       std::int64_t width, Link* link) {
    const auto rows = rows_of_input(program, task.units, int(k), width, link->width);
    if (!rows || (link->width != 0 && rows->width != 0 && rows->width != link->width)) return false;
    if (rows->width == 0) return true;
    link->width = rows->width;
    const auto [it, is_new] = link->reads.emplace(task.inputs[k], rows->reach);
    if (!is_new) {
      it->second.lo = std::min(it->second.lo, rows->reach.lo);
      it->second.hi = std::max(it->second.hi, rows->reach.hi);
    }
    return true;
  }

  static std::int64_t row_of_reads(const LoopExpr& program, const KernelTask& task, int input) {
    for (const LoopExpr::Register& r : program.registers) {
      if (r.kind == LoopExpr::Kind::broadcast && r.index == input && r.dims.size() > 1) {
        return std::max<std::int64_t>(r.strides[0], 0);
      }
    }
    std::int64_t row = 0;
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      if (task.inputs[k] != task.inputs[std::size_t(input)]) continue;
      row = std::gcd(row, longest_row(program, task.units, int(k)));
    }
    return row;
  }

  Link* maker_of(const Block& block, std::vector<Link>* links, SlotId s) const {
    for (Link& l : *links) {
      if (task_of(block.steps[l.step])->outputs[0] == s) return &l;
    }
    return nullptr;
  }

  /// Rows of a link of which nothing was known are so long.
  bool settle(const Block& block, std::vector<Link>* links, Link* link, std::int64_t width) const {
    const KernelTask& task = *task_of(block.steps[link->step]);
    if (task.units % width != 0) return false;
    link->width = width;
    const LoopExpr& program = *kernels_.at(task.kernel).body.loop();
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      Link* maker = maker_of(block, links, task.inputs[k]);
      if (maker == nullptr || maker == link) continue;
      if (maker->width == 0 && !settle(block, links, maker, width)) return false;
      if (!add_read(program, task, k, maker->width, link)) return false;
    }
    return true;
  }

  void join_from(Block* block, std::size_t n) {
    if (loop_at(*block, n) == nullptr) return;
    std::vector<Link> links{{n, 0, {}}};
    std::set<SlotId> made{task_of(block->steps[n])->outputs[0]};
    const ClassesId mine = plan_.slots[std::size_t(*made.begin())].classes;
    for (std::size_t k = n + 1; k < block->steps.size() && links.size() < kMostLinks; ++k) {
      const KernelTask* task = task_of(block->steps[k]);
      if (task == nullptr || task->has_effects) break;
      // What doesn't depend on the chain stands in front of it.
      if (!operands_of(block->steps[k])->reads_any(made)) continue;
      std::vector<Link> with = links;
      const auto link = link_of(*block, k, &with);
      if (!link || plan_.slots[std::size_t(task->outputs[0])].classes != mine) break;
      links = std::move(with);
      links.push_back(*link);
      made.insert(task->outputs[0]);
    }
    for (; links.size() > 1; links.pop_back()) {
      const bool reaches = std::any_of(links.begin(), links.end(), [](const Link& l) {
        return std::any_of(l.reads.begin(), l.reads.end(),
                           [](const auto& r) { return r.second.lo != 0 || r.second.hi != 0; });
      });
      if (!reaches) return;  // others join those
      if (make(block, links)) return;
    }
  }

  /// False if it isn't worth it.
  bool make(Block* block, const std::vector<Link>& links) {
    std::vector<std::size_t> numbers;
    for (const Link& l : links) {
      if (l.width == 0) return false;  // whose rows nobody has asked for has none
      numbers.push_back(l.step);
    }
    const Links joined(*block, numbers, readers_);
    TiledChain chain;
    OperandPlaces places(plan_);
    std::map<SlotId, std::size_t> makers;
    std::int64_t inside = 0;
    for (std::size_t l = 0; l < links.size(); ++l) {
      const KernelTask& t = joined.task(l);
      TiledChain::Link link{places.link(kernels_, t), {}};
      link.rows = t.units / links[l].width;
      const SlotId out = t.outputs[0];
      makers[out] = l;
      const bool escapes = !joined.is_inside(out);
      if (!escapes) {
        inside += bytes(out);
      } else if (chain.rows > 1 && chain.rows != link.rows) {
        return false;
      } else {
        chain.rows = link.rows;
      }
      if (joined.is_read(out)) {
        link.outputs.push_back(places.put(out, places.scratch(bytes(out) / link.rows)));
        if (escapes) link.copied_to = places.output(out).number;
      } else {
        link.outputs.push_back(places.output(out));
      }
      chain.links.push_back(std::move(link));
    }
    chain.scratch = places.scratch_sizes();
    chain.by_blocks = true;
    const Slot& result = plan_.slots[std::size_t(places.task().outputs[0])];
    const auto count = std::int64_t(plan_.classes[std::size_t(result.classes)].count());
    if (inside * count < prices::stencils::kLeastBytes) return false;
    reach_back(links, makers, &chain);
    share_memory(joined, &chain);
    if (!choose_block(&chain, count)) return false;
    const KernelDescriptor kernel = tiled_chain_kernel(std::move(chain));
    Region::of(numbers, {}).replace(block, {joined.joined(places.take(kernel, &kernels_))});
    return true;
  }

  /// How many rows around a block each link makes.
  static void reach_back(const std::vector<Link>& links,
                         const std::map<SlotId, std::size_t>& makers, TiledChain* chain) {
    std::vector<std::int64_t> lo(links.size(), 0), hi(links.size(), 0);
    std::vector<bool> needed(links.size(), false);
    for (std::size_t l = links.size(); l-- > 0;) {
      TiledChain::Link& link = chain->links[l];
      if (link.copied_to >= 0 || link.outputs[0].kind == Place::Kind::output) {
        lo[l] = std::max<std::int64_t>(lo[l], 0);
        hi[l] = std::max<std::int64_t>(hi[l], 0);
      }
      link.before = lo[l];
      link.behind = hi[l];
      for (const auto& [slot, reach] : links[l].reads) {
        const std::size_t m = makers.at(slot);
        const std::int64_t before = lo[l] - reach.lo, behind = hi[l] + reach.hi;
        lo[m] = needed[m] ? std::max(lo[m], before) : before;
        hi[m] = needed[m] ? std::max(hi[m], behind) : behind;
        needed[m] = true;
      }
    }
  }

  static bool choose_block(TiledChain* chain, std::int64_t devices) {
    // Of what is there at the same time.
    std::int64_t row = 0, halo = 0;
    for (const TiledChain::Memory& m : chain->memories()) {
      row += m.row_bytes;
      halo += m.more_bytes;
    }
    if (row == 0) return false;
    chain->block = (prices::stencils::kBlockBytes - halo) / row;
    const std::int64_t fewest =
        std::max<std::int64_t>(1, prices::stencils::kFewestBlocks / devices);
    chain->block = std::min(chain->block, chain->rows / fewest);
    if (chain->block < 1) return false;
    // Blocks of about the same length.
    const std::int64_t blocks = (chain->rows + chain->block - 1) / chain->block;
    chain->block = (chain->rows + blocks - 1) / blocks;
    return chain->repeated() <= prices::stencils::kMostRepeated;
  }

  /// Memory of what a link makes is given on after the last read.
  static void share_memory(const Links& links, TiledChain* chain) {
    std::vector<std::size_t> free_after;
    for (std::size_t l = 0; l < links.size(); ++l) {
      if (chain->links[l].outputs[0].kind != Place::Kind::scratch) continue;
      std::size_t at = 0;
      while (at < free_after.size() && free_after[at] >= l) ++at;
      if (at == free_after.size()) free_after.push_back(0);
      free_after[at] = links.last_read(links.task(l).outputs[0]);
      chain->memory.push_back(int(at));
    }
  }

  Plan& plan_;
  KernelTable& kernels_;
  PlanReaders readers_;
};

}  // namespace

void join_stencil_chains(Plan* plan, KernelTable* kernels) {
  StencilJoiner joiner(plan, kernels);
  for_each_inner_block(plan->entry, [&](Block& block, bool) { joiner.run(&block); });
}

}  // namespace tessera::codegen
