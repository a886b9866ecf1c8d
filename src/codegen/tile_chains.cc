// SPDX-License-Identifier: Apache-2.0
// Finds chains of steps that go through the same rows, and joins them.
#include "src/codegen/tile_chains.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/codegen/chain_finder.h"
#include "src/codegen/kernels/tiled_chain.h"
#include "src/codegen/plan_readers.h"
#include "src/codegen/steps_peak.h"

namespace tessera::codegen {
namespace {

using namespace runtime;
using Place = TiledChain::Place;

/// Of scratch memory for a matrix of a batch and what goes with it: more gains nothing.
constexpr std::int64_t kMatrixBytes = std::int64_t(16) << 20;
/// Chains by matrices have to save so much more than those by rows, which take less memory.
constexpr double kMatrixGain = 1.25;
/// Scratch memory of a block of rows: what the second cache holds next to all else.
constexpr std::int64_t kBlockBytes = std::int64_t(512) << 10;
/// A row of so many bytes pays for calls of its own.
constexpr std::int64_t kLongRow = std::int64_t(32) << 10;
/// Of whole matrices of a batch: more than there are workers.
constexpr std::int64_t kBlocks = 32;
/// So many bytes must be saved for each one by which the peak of memory grows.
constexpr std::int64_t kSavedForPeak = 64;

class Tiler {
 public:
  Tiler(Plan* plan, KernelTable* kernels, const std::set<SlotId>& remade)
      : plan_(*plan), kernels_(*kernels), finder_(*plan, *kernels, remade), readers_(*plan) {}

  std::vector<JoinedChain> take() { return std::move(joined_); }

  void run(Block* block) {
    for (std::size_t n = 0; n < block->steps.size(); ++n) {
      Step& step = block->steps[n];
      if (auto* loop = std::get_if<While>(&step.what)) {
        run(&loop->condition);
        run(&loop->body);
      } else if (auto* conditional = std::get_if<Conditional>(&step.what)) {
        for (Branch& b : conditional->branches) run(&b.block);
      } else {
        n = join_from(block, n);
      }
    }
  }

 private:
  using Chain = ChainFinder::Chain;
  using Found = ChainFinder::Found;
  static const KernelTask* task_of(const Step& step) { return ChainFinder::task_of(step); }
  std::int64_t bytes(SlotId s) const { return finder_.bytes(s); }

  /// A chain that is worth it: what stands instead of steps [n, end), and which of these is it.
  struct Joined {
    std::vector<Step> steps;
    std::size_t at = 0, end = 0;
    std::int64_t saved = 0;
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
    JoinedChain longest;
    for (std::size_t most = kChainWindow; most > 1; --most) {
      plan_.slots.resize(slots_before);
      const Found found = finder_.find(block, n, most, matrices);
      const std::size_t links = found.chain.links.size();
      if (links < 2) break;
      if (longest.links.empty()) longest = described(block, found.chain);
      std::vector<Step> joined;
      const std::int64_t saved = make(block, found.chain, &joined);
      if (saved < kLeastChainBytes) break;
      // What doesn't depend on the chain stands in front of it, the rest behind.
      const std::size_t end = found.chain.links.back() + 1;
      std::vector<const Step*> before, after;
      for (std::size_t k = n; k < end; ++k) before.push_back(&block.steps[k]);
      const auto add_if = [&](bool behind) {
        for (std::size_t k = n; k < end; ++k) {
          const bool link = std::count(found.chain.links.begin(), found.chain.links.end(), k) != 0;
          if (!link && (found.behind.count(k) != 0) == behind) after.push_back(&block.steps[k]);
        }
      };
      add_if(false);
      const std::size_t at = after.size();
      for (const Step& step : joined) after.push_back(&step);
      add_if(true);
      const std::set<SlotId> slots = dying(plan_, readers_, before);
      if (device_peak(plan_, after, slots) >
          device_peak(plan_, before, slots) + saved / kSavedForPeak) {
        most = std::min(most, links);  // one link less
        continue;
      }
      Joined out{{}, at, end, saved, std::move(longest)};
      for (const Step* step : after) out.steps.push_back(*step);
      return out;
    }
    plan_.slots.resize(slots_before);
    return std::nullopt;
  }

  /// Joins the best chain that begins with step `n`; returns the step to go on from.
  std::size_t join_from(Block* block, std::size_t n) {
    if (task_of(block->steps[n]) == nullptr) return n;
    const std::size_t slots_before = plan_.slots.size();
    std::optional<Joined> best = joined_from(*block, n, 0);
    if (const std::int64_t matrices = kernels_.at(task_of(block->steps[n])->kernel).batch;
        matrices > 1) {
      std::optional<Joined> other = joined_from(*block, n, matrices);
      if (other && (!best || double(other->saved) > kMatrixGain * double(best->saved))) {
        best = std::move(other);
        plan_.slots.resize(slots_before);
      }
    }
    if (!best) return n;
    for (std::size_t s = slots_before; s < plan_.slots.size(); ++s) readers_.add_slot(1);
    joined_.push_back(std::move(best->chain));
    const auto place = block->steps.begin() + std::ptrdiff_t(n);
    std::move(best->steps.begin(), best->steps.end(), place);
    block->steps.erase(place + std::ptrdiff_t(best->steps.size()),
                       block->steps.begin() + std::ptrdiff_t(best->end));
    return n + best->at;
  }

  /// The same with products right in front of the links that read them: by then it is known what
  /// else these read, and whether it is zero.
  Chain with_late_products(const Block& block, const Chain& chain) const {
    Chain out = chain;
    std::vector<std::size_t> waiting;
    out.links.clear();
    const auto reads = [&](std::size_t n, std::size_t product) {
      const auto& inputs = task_of(block.steps[n])->inputs;
      const auto& outputs = task_of(block.steps[product])->outputs;
      return std::any_of(inputs.begin(), inputs.end(), [&](SlotId s) {
        return std::find(outputs.begin(), outputs.end(), s) != outputs.end();
      });
    };
    for (const std::size_t n : chain.links) {
      const KernelTask& task = *task_of(block.steps[n]);
      const bool waits = kernels_.at(task.kernel).rereads_per_call && chain.sums.count(n) == 0 &&
                         std::none_of(task.inputs.begin(), task.inputs.end(),
                                      [&](SlotId s) { return chain.made.count(s) != 0; });
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

  /// Returns the bytes of memory traffic that are saved. If they are few, there is no step.
  /// Behind the chain are the sums of what parts of its rows sum up to.
  std::int64_t make(const Block& block, const Chain& found, std::vector<Step>* joined) {
    const Chain chain = with_late_products(block, found);
    std::map<SlotId, int> read;
    for (const std::size_t n : chain.links) {
      for (const SlotId s : task_of(block.steps[n])->inputs) ++read[s];
    }
    std::int64_t saved = 0;
    std::set<SlotId> inside;
    for (const SlotId s : chain.made) {
      const auto it = read.find(s);
      if (it == read.end() || it->second != readers_.of(s)) continue;
      inside.insert(s);
      saved += bytes(s);
    }
    std::int64_t shared = 0;  // bytes of arrays that are read once instead of several times
    for (const SlotId s : chain.shared) {
      const int times = read_by_rows(block, chain, s);
      if (times < 2 || chain.made.count(s) != 0) continue;
      shared += bytes(s);
      saved += (times - 1) * bytes(s);
    }
    if (saved < kLeastChainBytes) return saved;
    KernelTask task;
    TiledChain tiles;
    tiles.rows = chain.rows;
    tiles.groups = chain.groups;
    if (chain.groups > 0)
      tiles.parts = finder_.parts_of(chain, finder_.classes(*chain.made.begin()));
    std::vector<Step> sums_of_parts;
    std::map<SlotId, Place> places;
    for (std::size_t l = 0; l < chain.links.size(); ++l) {
      const Step& step = block.steps[chain.links[l]];
      const KernelTask& t = *task_of(step);
      TiledChain::Link link{kernels_.at(t.kernel), t.units, t.nanoseconds, {}, {}};
      if (chain.sums.count(chain.links[l]) != 0) {
        link.sums = link.kernel.row_sums;
        link.units = link.sums->rows();
      }
      for (const SlotId s : t.inputs) {
        auto it = places.find(s);
        if (it == places.end()) {
          it = places.emplace(s, Place{Place::Kind::input, int(task.inputs.size())}).first;
          task.inputs.push_back(s);
        }
        link.inputs.push_back(it->second);
      }
      for (std::size_t o = 0; o < t.outputs.size(); ++o) {
        const SlotId s = t.outputs[o];
        Place place{Place::Kind::output, int(task.outputs.size())};
        if (link.sums) {
          task.outputs.push_back(slot_of_sums(*link.sums, tiles.parts, step, &sums_of_parts));
        } else if (inside.count(s) == 0) {
          task.outputs.push_back(s);
        } else {
          place = {Place::Kind::scratch, int(tiles.scratch.size())};
          const Place* dying = dying_input(block, chain, l, o, places);
          if (dying != nullptr) {
            place = *dying;
          } else {
            tiles.scratch.push_back(bytes(s) / chain.rows);
          }
        }
        places[s] = place;
        link.outputs.push_back(place);
      }
      tiles.links.push_back(std::move(link));
    }
    add_reuse(block, chain, places, &task);
    const std::int64_t row = std::accumulate(tiles.scratch.begin(), tiles.scratch.end(),
                                             std::max<std::int64_t>(shared / chain.rows, 1));
    const std::int64_t fewest = chain.multiplies() ? chain.fewest_rows() : row > kLongRow ? 1 : 8;
    if (chain.matrices > 0 && row > kMatrixBytes) return 0;
    const std::int64_t rows_at_once = chain.groups > 0 ? chain.rows / chain.groups : chain.rows;
    tiles.block = chain.matrices > 0
                      ? 1
                      : std::clamp(kBlockBytes / row, std::min(fewest, rows_at_once), rows_at_once);
    if (chain.matrices == 0 && chain.groups == 0 && chain.whole_matrices) {
      tiles.by_blocks = true;
      tiles.block =
          std::max<std::int64_t>(1, std::min(tiles.block, chain.rows / kBlocks) / fewest) * fewest;
    }
    KernelDescriptor kernel = tiled_chain_kernel(std::move(tiles));
    task.kernel = kernels_.add(kernel);
    task.units = kernel.units;
    task.nanoseconds = kernel.nanoseconds;
    const Step& last = block.steps[found.links.back()];
    joined->emplace_back();
    joined->back().name = last.name;
    joined->back().location = last.location;
    joined->back().what = std::move(task);
    std::move(sums_of_parts.begin(), sums_of_parts.end(), std::back_inserter(*joined));
    return saved;
  }

  /// Where the sums of parts are: in the result of `step`, if those are all; else a step adds them.
  SlotId slot_of_sums(const RowSums& sums, std::int64_t parts, const Step& step,
                      std::vector<Step>* sums_of_parts) {
    const SlotId result = task_of(step)->outputs[0];
    if (parts == 1 && sums.held == sums.result) return result;
    Slot slot = plan_.slots[std::size_t(result)];
    slot.bytes = sums.sizes.batch * parts * sums.elements() * std::int64_t(byte_size(sums.held));
    plan_.slots.push_back(slot);
    const auto out = SlotId(plan_.slots.size() - 1);
    const KernelDescriptor kernel = sum_of_parts(sums, parts);
    KernelTask task;
    task.kernel = kernels_.add(kernel);
    task.inputs = {out};
    task.outputs = {result};
    task.units = kernel.units;
    task.nanoseconds = kernel.nanoseconds;
    sums_of_parts->push_back({step.name, step.op, step.location, std::move(task), {}});
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
  const Place* dying_input(const Block& block, const Chain& chain, std::size_t l, std::size_t o,
                           const std::map<SlotId, Place>& places) const {
    const KernelTask& t = *task_of(block.steps[chain.links[l]]);
    for (const KernelTask::Reuse& r : t.reuse) {
      const SlotId s = t.inputs[std::size_t(r.input)];
      const auto it = places.find(s);
      if (std::size_t(r.output) != o || r.copy || it->second.kind != Place::Kind::scratch) continue;
      if (bytes(s) == bytes(t.outputs[o]) && last_read(block, chain, s) == l &&
          std::count(t.inputs.begin(), t.inputs.end(), s) == 1 && t.outputs.size() == 1) {
        return &it->second;
      }
    }
    return nullptr;
  }

  /// The last link that reads a slot.
  std::size_t last_read(const Block& block, const Chain& chain, SlotId s) const {
    std::size_t last = 0;
    for (std::size_t l = 0; l < chain.links.size(); ++l) {
      const auto& inputs = task_of(block.steps[chain.links[l]])->inputs;
      if (std::find(inputs.begin(), inputs.end(), s) != inputs.end()) last = l;
    }
    return last;
  }

  /// A result may be written over an argument that is read by rows alone, and not after it.
  void add_reuse(const Block& block, const Chain& chain, const std::map<SlotId, Place>& places,
                 KernelTask* task) const {
    for (std::size_t k = 0; k < task->inputs.size(); ++k) {
      const SlotId s = task->inputs[k];
      bool by_rows = bytes(s) % chain.rows == 0;
      for (const std::size_t n : chain.links) {
        const KernelTask& t = *task_of(block.steps[n]);
        for (std::size_t i = 0; i < t.inputs.size(); ++i) {
          if (t.inputs[i] == s) by_rows = by_rows && finder_.reads_part(block, n, i, chain);
        }
      }
      if (!by_rows) continue;
      const std::size_t read = last_read(block, chain, s);
      for (std::size_t l = read; l < chain.links.size(); ++l) {
        const KernelTask& t = *task_of(block.steps[chain.links[l]]);
        if (chain.sums.count(chain.links[l]) != 0) continue;
        for (std::size_t o = 0; o < t.outputs.size(); ++o) {
          const Place& place = places.at(t.outputs[o]);
          if (place.kind != Place::Kind::output || bytes(t.outputs[o]) != bytes(s)) continue;
          const bool allowed =
              l > read || std::any_of(t.reuse.begin(), t.reuse.end(), [&](const auto& r) {
                return !r.copy && std::size_t(r.output) == o &&
                       t.inputs[std::size_t(r.input)] == s &&
                       std::count(t.inputs.begin(), t.inputs.end(), s) == 1;
              });
          if (allowed) task->reuse.push_back({int(k), place.number, false, false});
        }
      }
    }
  }

  Plan& plan_;
  KernelTable& kernels_;
  const ChainFinder finder_;
  PlanReaders readers_;
  std::vector<JoinedChain> joined_;
};

}  // namespace

std::vector<JoinedChain> tile_chains(Plan* plan, KernelTable* kernels,
                                     const std::set<SlotId>& remade) {
  Tiler tiler(plan, kernels, remade);
  tiler.run(&plan->entry);
  return tiler.take();
}

}  // namespace tessera::codegen
