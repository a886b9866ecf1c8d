// SPDX-License-Identifier: Apache-2.0
// Finds chains of steps that go through the same rows, and joins them.
#include "src/codegen/steps/tile_chains.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/codegen/kernels/chains/tiled_chain.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/steps/chain_finder.h"
#include "src/codegen/steps/joined_steps.h"
#include "src/codegen/steps/plan_readers.h"
#include "src/codegen/steps/steps_peak.h"

namespace tessera::codegen {
namespace {

using namespace runtime;

class Tiler {
 public:
  Tiler(Plan* plan, KernelTable* kernels, const std::set<SlotId>& rematerialized)
      : plan_(*plan),
        kernels_(*kernels),
        finder_(*plan, *kernels, rematerialized),
        readers_(*plan) {}

  std::vector<JoinedChain> take() { return std::move(joined_); }

  void run(Block* block) {
    for (std::size_t n = 0; n < block->steps.size(); ++n) n = join_from(block, n);
  }

 private:
  using Chain = ChainFinder::Chain;
  using Found = ChainFinder::Found;
  std::int64_t bytes(SlotId s) const { return finder_.bytes(s); }

  /// What a chain becomes: the step that does what its links did, and sums of its parts. The
  /// kernel of the first is described once the chain is settled.
  struct Made {
    std::int64_t saved = 0;  ///< bytes of memory traffic; if they are few, there are no steps
    std::vector<Step> steps;
    TiledChain tiles;
  };
  /// A chain that is worth it.
  struct Joined {
    Region region;
    Made made;
    JoinedChain chain;
  };
  JoinedChain described(const Block& block, const Chain& chain) const {
    JoinedChain out{chain.made, {}};
    for (const std::size_t n : chain.links) {
      out.links.insert(task_of(block.steps[n])->outputs[0]);
    }
    return out;
  }
  /// The longest that begins with step `n`.
  std::optional<Joined> joined_from(const Block& block, std::size_t n, std::int64_t matrices) {
    const std::size_t slots_before = plan_.slots.size();
    std::vector<Found> chains = finder_.find(block, n, matrices);
    if (chains.empty()) return std::nullopt;
    const JoinedChain longest = described(block, chains.back().chain);
    for (; !chains.empty(); chains.pop_back()) {
      plan_.slots.resize(slots_before);
      const Found& found = chains.back();
      Made made = make(block, found.chain);
      if (made.saved < prices::chains::kLeastBytes) break;
      Region region = Region::of(found.chain.links, found.behind);
      std::vector<const Step*> steps;
      for (std::size_t k = n; k < region.end; ++k) steps.push_back(&block.steps[k]);
      const std::set<SlotId> slots = dying(plan_, readers_, steps);
      if (device_peak(plan_, region.with(block, made.steps), slots) >
          device_peak(plan_, steps, slots) + made.saved / prices::chains::kSavedForPeak) {
        continue;
      }
      return Joined{std::move(region), std::move(made), longest};
    }
    plan_.slots.resize(slots_before);
    return std::nullopt;
  }

  /// Joins the best chain that begins with step `n`; returns the step to go on from.
  std::size_t join_from(Block* block, std::size_t n) {
    if (task_of(block->steps[n]) == nullptr) return n;
    const std::size_t slots_before = plan_.slots.size();
    std::optional<Joined> best = joined_from(*block, n, 0);
    if (const std::int64_t matrices = kernels_.at(task_of(block->steps[n])->kernel).access.groups;
        matrices > 1) {
      std::optional<Joined> other = joined_from(*block, n, matrices);
      if (other && (!best || double(other->made.saved) >
                                 prices::chains::kMatrixGain * double(best->made.saved))) {
        best = std::move(other);
        plan_.slots.resize(slots_before);
      }
    }
    if (!best) return n;
    for (std::size_t s = slots_before; s < plan_.slots.size(); ++s) readers_.add_slot(1);
    joined_.push_back(std::move(best->chain));
    KernelTask* const task = task_of(best->made.steps.front());
    const KernelDescriptor* known = kernels_.find(key_of(best->made.tiles));
    kernels_.set(task, known != nullptr ? *known : tiled_chain_kernel(std::move(best->made.tiles)));
    return best->region.replace(block, std::move(best->made.steps));
  }

  /// The same with products right in front of the links that read them: by then it is known what
  /// else these read, and whether it is zero.
  Chain with_late_products(const Block& block, const Chain& chain) const {
    Chain out = chain;
    std::vector<std::size_t> waiting;
    out.links.clear();
    const auto reads = [&](std::size_t n, std::size_t product) {
      const auto& made = task_of(block.steps[product])->outputs;
      return operands_of(block.steps[n])->reads_any(std::set<SlotId>(made.begin(), made.end()));
    };
    for (const std::size_t n : chain.links) {
      const KernelTask& task = *task_of(block.steps[n]);
      const bool waits = kernels_.at(task.kernel).access.prepares() && chain.sums.count(n) == 0 &&
                         !operands_of(block.steps[n])->reads_any(chain.made);
      std::erase_if(waiting, [&](std::size_t product) {
        if (!reads(n, product)) return false;
        out.links.push_back(product);
        return true;
      });
      (waits ? waiting : out.links).push_back(n);
    }
    out.links.insert(out.links.end(), waiting.begin(), waiting.end());
    return out;
  }

  /// Behind the chain are the sums of what parts of its rows sum up to.
  Made make(const Block& block, const Chain& found) {
    Made made;
    const Chain chain = with_late_products(block, found);
    const Links links(block, chain.links, readers_);
    std::int64_t& saved = made.saved;
    for (const SlotId s : chain.made) saved += links.is_inside(s) ? bytes(s) : 0;
    std::int64_t shared = 0;  // bytes of arrays that are read once instead of several times
    for (const SlotId s : chain.shared) {
      const int times = read_by_rows(block, chain, s);
      if (times < 2 || chain.made.count(s) != 0) continue;
      shared += bytes(s);
      saved += (times - 1) * bytes(s);
    }
    if (saved < prices::chains::kLeastBytes) return made;
    OperandPlaces places(plan_);
    TiledChain& tiles = made.tiles;
    tiles.rows = chain.rows;
    tiles.groups = chain.groups;
    if (chain.groups > 0)
      tiles.parts = finder_.parts_of(chain, finder_.classes(*chain.made.begin()));
    std::vector<Step> sums_of_parts;
    for (std::size_t l = 0; l < links.size(); ++l) {
      const KernelTask& t = links.task(l);
      TiledChain::Link link{places.link(kernels_, t), {}};
      if (chain.sums.count(links.number(l)) != 0) link.sums = link.kernel.row_sums;
      for (std::size_t o = 0; o < t.outputs.size(); ++o) {
        const SlotId s = t.outputs[o];
        Place place;
        if (link.sums) {
          place =
              places.output(slot_of_sums(*link.sums, tiles.parts, links.step(l), &sums_of_parts));
        } else if (!links.is_inside(s)) {
          place = places.output(s);
        } else {
          const Place* dying = dying_input(links, l, o, places);
          place = dying != nullptr ? *dying : places.scratch(bytes(s) / chain.rows);
        }
        link.outputs.push_back(places.put(s, place));
      }
      tiles.links.push_back(std::move(link));
    }
    add_reuse(block, chain, links, &places);
    tiles.scratch = places.scratch_sizes();
    const std::int64_t row = std::accumulate(tiles.scratch.begin(), tiles.scratch.end(),
                                             std::max<std::int64_t>(shared / chain.rows, 1));
    const std::int64_t fewest = chain.multiplies()               ? chain.fewest_rows()
                                : row > prices::chains::kLongRow ? 1
                                                                 : 8;
    if (chain.matrices > 0 && row > prices::chains::kMatrixBytes) return {};
    const std::int64_t rows_at_once = chain.groups > 0 ? chain.rows / chain.groups : chain.rows;
    tiles.block = chain.matrices > 0 ? 1
                                     : std::clamp(prices::chains::kBlockBytes / row,
                                                  std::min(fewest, rows_at_once), rows_at_once);
    if (chain.matrices == 0 && chain.groups == 0 && chain.whole_matrices) {
      tiles.by_blocks = true;
      tiles.block = std::max<std::int64_t>(
                        1, std::min(tiles.block, chain.rows / prices::chains::kBlocks) / fewest) *
                    fewest;
    }
    made.steps.push_back(links.joined(places.take()));
    std::move(sums_of_parts.begin(), sums_of_parts.end(), std::back_inserter(made.steps));
    return made;
  }

  /// Where the sums of parts are: in the result of `step`, if those are all; else a step adds them.
  SlotId slot_of_sums(const RowSums& sums, std::int64_t parts, const Step& step,
                      std::vector<Step>* sums_of_parts) {
    const SlotId result = task_of(step)->outputs[0];
    if (parts == 1 && sums.held == sums.result) return result;
    Slot slot = plan_.slots[std::size_t(result)];
    slot.bytes = sums.sizes.batch * parts * sums.bytes();
    plan_.slots.push_back(slot);
    const auto out = SlotId(plan_.slots.size() - 1);
    OperandPlaces places(plan_);
    places.of(out);
    places.output(result);
    sums_of_parts->push_back(
        {step.name, step.op, step.location, places.take(sum_of_parts(sums, parts), &kernels_), {}});
    return out;
  }

  /// How many links read only their rows of an array.
  int read_by_rows(const Block& block, const Chain& chain, SlotId s) const {
    int times = 0;
    for (const std::size_t n : chain.links) {
      const KernelTask& t = *task_of(block.steps[n]);
      for (std::size_t k = 0; k < t.inputs.size(); ++k) {
        if (t.inputs[k] != s || !finder_.reads_part(block, n, k, chain)) continue;
        ++times;
        break;
      }
    }
    return times;
  }

  /// Scratch memory that link `l` may write its output `o` to, as nothing reads it afterwards.
  const Place* dying_input(const Links& links, std::size_t l, std::size_t o,
                           const OperandPlaces& places) const {
    const KernelTask& t = links.task(l);
    for (const KernelTask::Reuse& r : t.reuse) {
      const SlotId s = t.inputs[std::size_t(r.input)];
      const Place* place = places.find(s);
      if (place->kind == Place::Kind::scratch && bytes(s) == bytes(t.outputs[o]) &&
          t.outputs.size() == 1 && links.last_read(s) == l && may_overwrite(t, o, s)) {
        return place;
      }
    }
    return nullptr;
  }

  /// A result may be written over an argument that is read by rows alone, and not after it.
  void add_reuse(const Block& block, const Chain& chain, const Links& links,
                 OperandPlaces* places) const {
    std::set<SlotId> by_rows;
    for (const SlotId s : places->task().inputs) {
      if (bytes(s) % chain.rows == 0) by_rows.insert(s);
    }
    for (std::size_t l = 0; l < links.size(); ++l) {
      const std::vector<SlotId>& inputs = links.task(l).inputs;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (!finder_.reads_part(block, links.number(l), k, chain)) by_rows.erase(inputs[k]);
      }
    }
    places->add_reuse(links, [&](SlotId s, std::size_t l) {
      return by_rows.count(s) != 0 && chain.sums.count(links.number(l)) == 0;
    });
  }

  Plan& plan_;
  KernelTable& kernels_;
  const ChainFinder finder_;
  PlanReaders readers_;
  std::vector<JoinedChain> joined_;
};

}  // namespace

std::vector<JoinedChain> tile_chains(Plan* plan, KernelTable* kernels,
                                     const std::set<SlotId>& rematerialized) {
  Tiler tiler(plan, kernels, rematerialized);
  for_each_inner_block(plan->entry, [&](Block& block, bool) { tiler.run(&block); });
  return tiler.take();
}

}  // namespace tessera::codegen
