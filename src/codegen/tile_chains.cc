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

#include "src/base/task_pool.h"
#include "src/codegen/kernels/tiled_chain.h"
#include "src/codegen/plan_readers.h"
#include "src/codegen/steps_peak.h"

namespace tessera::codegen {
namespace {

using namespace runtime;
using Place = TiledChain::Place;

/// Fewer rows than this, or matrices of a batch, of all devices, would leave workers idle.
constexpr std::int64_t kFewestRows = 64, kFewestMatrices = 16;
/// Of scratch memory for a matrix of a batch and what goes with it: more gains nothing.
constexpr std::int64_t kMatrixBytes = std::int64_t(16) << 20;
/// Chains by matrices have to save so much more than those by rows, which take less memory.
constexpr double kMatrixGain = 1.25;
/// Intermediate arrays of fewer bytes stay in cache anyway.
constexpr std::int64_t kLeastBytes = std::int64_t(1) << 20;
/// Scratch memory of a block of rows: what the second cache holds next to all else.
constexpr std::int64_t kBlockBytes = std::int64_t(512) << 10;
/// A row of so many bytes pays for calls of its own.
constexpr std::int64_t kLongRow = std::int64_t(32) << 10;
/// A product packs its right side once more for each block: blocks must not be too short.
constexpr std::int64_t kProductRows = 128;
/// Parts of the rows, of all devices, whose sums are made apart, for as many workers at most; and
/// the fewest. They don't depend on the workers that there are, as results would.
constexpr std::int64_t kParts = 16, kFewestParts = 8;
/// And its work on a byte of what it makes or takes must be small, next to loading it from memory,
/// unless short blocks are as fast as long ones.
constexpr double kProductNanoseconds = 1.7;
/// So many bytes must be saved for each one by which the peak of memory grows.
constexpr std::int64_t kSavedForPeak = 64;
/// Steps that are looked at behind the first one.
constexpr std::size_t kWindow = 64;

class Tiler {
 public:
  Tiler(Plan* plan, KernelTable* kernels, const std::set<SlotId>& remade)
      : plan_(*plan), kernels_(*kernels), remade_(remade), readers_(*plan) {}

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
  /// Steps that may become one. Products of batches may be followed by others of their results
  /// whole: then the chain goes through matrices of the batch instead of rows.
  struct Chain {
    std::vector<std::size_t> links;
    std::int64_t matrices = 0;  ///< 0: it goes through rows
    std::int64_t rows = 0;
    std::int64_t groups = 0;     ///< of rows that are summed up; 0: there are no sums
    std::set<std::size_t> sums;  ///< links that are added up, while others go through rows
    std::set<SlotId> made;       ///< by its links, row by row
    std::set<SlotId> shared;     ///< large ones of which its links read only their rows
    bool multiplies = false;
  };

  /// Which steps become one, and which must stand behind that one.
  struct Found {
    Chain chain;
    std::set<std::size_t> behind;
    std::set<SlotId> late;  ///< what depends on the chain, and is no part of it
  };

  static const KernelTask* task_of(const Step& step) { return std::get_if<KernelTask>(&step.what); }
  std::int64_t bytes(SlotId s) const { return plan_.slots[std::size_t(s)].bytes; }
  ClassesId classes(SlotId s) const { return plan_.slots[std::size_t(s)].classes; }

  /// Whether a kernel reads of its input `k` only what belongs to its rows.
  static bool reads_rows(const KernelDescriptor& kernel, std::size_t k) {
    return k < kernel.shares_inputs.size() && kernel.shares_inputs[k];
  }
  /// Whether it does, or reads of it only what belongs to its matrix.
  static bool reads_part(const KernelDescriptor& kernel, std::size_t k, const Chain& chain) {
    return reads_rows(kernel, k) || (chain.matrices > 0 && kernel.batch % chain.matrices == 0);
  }
  /// Whether a step, as a link of the chain, does so.
  bool reads_part(const Block& block, std::size_t n, std::size_t k, const Chain& chain) const {
    const KernelDescriptor& kernel = kernels_.at(task_of(block.steps[n])->kernel);
    return chain.sums.count(n) != 0 ? kernel.row_sums->sizes.by_rows[k]
                                    : reads_part(kernel, k, chain);
  }
  /// Whether the task takes what the chain makes otherwise than by rows, but as sums over them.
  static bool adds_up(const KernelTask& task, const KernelDescriptor& kernel, const Chain& chain) {
    if (kernel.row_sums == nullptr || chain.matrices > 0) return false;
    bool by_rows = true, adds_up = true;
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      if (chain.made.count(task.inputs[k]) == 0) continue;
      by_rows = by_rows && reads_rows(kernel, k);
      adds_up = adds_up && kernel.row_sums->sizes.by_rows[k];
    }
    return !by_rows && adds_up;
  }
  /// Parts of each group of rows.
  std::int64_t parts_of(std::int64_t rows, std::int64_t groups, ClassesId classes) const {
    const std::int64_t of_all = groups * plan_.classes[std::size_t(classes)].count();
    return std::max<std::int64_t>(
        1, std::min((kParts + of_all - 1) / of_all, rows / groups / kProductRows));
  }
  /// Whether the task reads the rows of a large array that a link of the chain reads as well.
  bool is_sibling(const KernelTask& task, const Chain& chain) const {
    const KernelDescriptor& kernel = kernels_.at(task.kernel);
    if (chain.multiplies || kernel.rereads_per_call) return false;
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      if (chain.shared.count(task.inputs[k]) != 0 && reads_part(kernel, k, chain)) return true;
    }
    return false;
  }

  /// Adds step `n` if it goes through the chain's rows.
  bool add(const Block& block, std::size_t n, Chain* chain) const {
    const KernelTask& task = *task_of(block.steps[n]);
    const KernelDescriptor& kernel = kernels_.at(task.kernel);
    const bool first = chain->links.empty();
    const bool sums = adds_up(task, kernel, *chain);
    if (!(kernel.shares_outputs || sums) || task.transfers_to || task.outputs.empty() ||
        task.units <= 0) {
      return false;
    }
    const ClassesId mine = classes(task.outputs[0]);
    if (!first && mine != classes(*chain->made.begin())) return false;
    const std::int64_t units = sums ? kernel.row_sums->rows() : task.units;
    const std::int64_t groups = sums ? kernel.row_sums->sizes.batch : chain->groups;
    std::int64_t rows = first ? units : std::gcd(chain->rows, units);
    if (groups > 0 && (rows % groups != 0 || (chain->groups > 0 && groups != chain->groups))) {
      return false;
    }
    if (chain->matrices > 0) {
      rows = chain->matrices;
      if (task.units % rows != 0) return false;
    }
    std::int64_t largest = 1;
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      if (chain->made.count(task.inputs[k]) == 0) continue;
      if (!sums && !reads_part(kernel, k, *chain)) return false;
      largest = std::max(largest, bytes(task.inputs[k]));
    }
    for (const SlotId s : task.outputs) {
      if (plan_.slots[std::size_t(s)].memory != MemoryKind::device || bytes(s) == 0) return false;
      largest = std::max(largest, bytes(s));
    }
    const std::int64_t fewest = chain->matrices > 0
                                    ? std::max<std::int64_t>(kFewestMatrices, 2 * worker_count())
                                    : kFewestRows;
    const std::int64_t count = plan_.classes[std::size_t(mine)].count();
    if (rows * count < fewest) return false;
    if (groups > 0 && groups * parts_of(rows, groups, mine) * count < kFewestParts) return false;
    if (kernel.rereads_per_call && chain->matrices == 0) {
      if (!kernel.rereads_at_no_cost && task.nanoseconds > kProductNanoseconds * double(largest)) {
        return false;
      }
      chain->multiplies = true;
    }
    chain->rows = rows;
    chain->groups = groups;
    chain->links.push_back(n);
    if (sums) {
      chain->sums.insert(n);
    } else {
      chain->made.insert(task.outputs.begin(), task.outputs.end());
    }
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      const SlotId s = task.inputs[k];
      if (reads_part(block, n, k, *chain) && bytes(s) >= kLeastBytes) chain->shared.insert(s);
    }
    return true;
  }

  /// The step from `first` on, up to `n`, that makes a slot.
  std::optional<std::size_t> maker_of(const Block& block, std::size_t first, std::size_t n,
                                      SlotId s) const {
    for (std::size_t maker = first + 1; maker < n; ++maker) {
      const std::optional<StepOperands> of = operands_of(block.steps[maker]);
      if (of && std::find(of->outputs.begin(), of->outputs.end(), s) != of->outputs.end()) {
        return maker;
      }
    }
    return std::nullopt;
  }

  /// Steps from `first` on that make large arrays of which step `n` reads its rows, and so on.
  void add_makers(const Block& block, std::size_t first, std::size_t n, const Chain& chain,
                  std::set<std::size_t>* makers) const {
    const KernelTask& task = *task_of(block.steps[n]);
    const KernelDescriptor& kernel = kernels_.at(task.kernel);
    for (std::size_t k = 0; k < task.inputs.size(); ++k) {
      const SlotId s = task.inputs[k];
      const bool sums = chain.matrices == 0 && kernel.row_sums && kernel.row_sums->sizes.by_rows[k];
      if (chain.made.count(s) != 0 || bytes(s) < kLeastBytes ||
          !(sums || reads_part(kernel, k, chain))) {
        continue;
      }
      const auto maker = maker_of(block, first, n, s);
      if (!maker || task_of(block.steps[*maker]) == nullptr || !makers->insert(*maker).second) {
        continue;
      }
      add_makers(block, first, *maker, chain, makers);
    }
  }

  /// Steps from `first` on, up to `n`, on which that depends.
  std::set<std::size_t> before(const Block& block, std::size_t first, std::size_t n) const {
    std::set<std::size_t> out;
    std::set<SlotId> wanted;
    for (std::size_t k = n; k > first; --k) {
      const std::optional<StepOperands> of = operands_of(block.steps[k]);
      if (!of) continue;
      const bool needed = std::any_of(of->outputs.begin(), of->outputs.end(),
                                      [&](SlotId s) { return wanted.count(s) != 0; });
      if (k != n && !needed) continue;
      if (k != n) out.insert(k);
      wanted.insert(of->inputs.begin(), of->inputs.end());
    }
    return out;
  }

  /// Steps from `first` on, up to `last`, that are no links and depend on such: they stand behind
  /// the chain. Nothing if a link depends on them.
  std::optional<std::set<std::size_t>> depending(const Block& block, std::size_t first,
                                                 std::size_t last, const Chain& chain,
                                                 std::set<SlotId>* late) const {
    std::set<std::size_t> out;
    late->clear();
    for (std::size_t k = first; k <= last; ++k) {
      const std::optional<StepOperands> of = operands_of(block.steps[k]);
      if (!of) continue;
      const auto reads_any = [&](const std::set<SlotId>& slots) {
        return std::any_of(of->inputs.begin(), of->inputs.end(),
                           [&](SlotId s) { return slots.count(s) != 0; });
      };
      const bool link = std::find(chain.links.begin(), chain.links.end(), k) != chain.links.end();
      if (link && reads_any(*late)) return std::nullopt;
      if (link ? chain.sums.count(k) != 0 : reads_any(*late) || reads_any(chain.made)) {
        late->insert(of->outputs.begin(), of->outputs.end());
        if (!link) out.insert(k);
      }
    }
    return out;
  }

  /// Adds step `n`, and those from `first` on that make large arrays of which it reads its rows,
  /// with what stands between these and it: small numbers of the rows.
  bool add_fed(const Block& block, std::size_t first, std::size_t n, Found* found) const {
    std::set<std::size_t> makers;
    add_makers(block, first, n, found->chain, &makers);
    if (!makers.empty()) {
      Found fed = *found;
      bool all = true;
      for (const std::size_t k : before(block, first, n)) {
        const std::vector<std::size_t>& links = fed.chain.links;
        if (std::find(links.begin(), links.end(), k) != links.end()) continue;
        const StepOperands of = *operands_of(block.steps[k]);
        const bool between = std::any_of(of.inputs.begin(), of.inputs.end(),
                                         [&](SlotId s) { return fed.chain.made.count(s) != 0; });
        if (!between && makers.count(k) == 0) continue;
        const bool added = found->behind.count(k) == 0 && task_of(block.steps[k]) != nullptr &&
                           add(block, k, &fed.chain);
        all = all && (added || !between);
      }
      if (all && add(block, n, &fed.chain)) {
        if (auto behind = depending(block, first, n, fed.chain, &fed.late)) {
          fed.behind = *std::move(behind);
          *found = std::move(fed);
          return true;
        }
      }
    }
    if (!add(block, n, &found->chain)) return false;
    // Sums are whole only behind it.
    if (found->chain.sums.count(n) != 0) {
      const auto& outputs = task_of(block.steps[n])->outputs;
      found->late.insert(outputs.begin(), outputs.end());
    }
    return true;
  }

  Found find(const Block& block, std::size_t n, std::size_t most_links,
             std::int64_t matrices) const {
    Found found;
    found.chain.matrices = matrices;
    if (!add(block, n, &found.chain)) return found;
    const std::size_t end = std::min(block.steps.size(), n + kWindow);
    for (std::size_t k = n + 1; k < end && found.chain.links.size() < most_links; ++k) {
      const KernelTask* task = task_of(block.steps[k]);
      const std::optional<StepOperands> operands = operands_of(block.steps[k]);
      if (!operands || (task != nullptr && task->has_effects)) break;
      const auto reads_any = [&](const std::set<SlotId>& slots) {
        return std::any_of(operands->inputs.begin(), operands->inputs.end(),
                           [&](SlotId s) { return slots.count(s) != 0; });
      };
      const bool reads_late = reads_any(found.late);
      if (task == nullptr) {
        if (!reads_late && !reads_any(found.chain.made)) continue;
      } else if (!reads_late) {
        const bool follows = reads_any(found.chain.made);
        const bool again = !task->outputs.empty() && remade_.count(task->outputs[0]) != 0;
        const bool joins = !again && (follows || is_sibling(*task, found.chain));
        if (joins && add_fed(block, n, k, &found)) continue;
        if (!follows) continue;
      }
      found.late.insert(operands->outputs.begin(), operands->outputs.end());
      found.behind.insert(k);
    }
    std::sort(found.chain.links.begin(), found.chain.links.end());
    return found;
  }

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
    for (std::size_t most = kWindow; most > 1; --most) {
      plan_.slots.resize(slots_before);
      const Found found = find(block, n, most, matrices);
      const std::size_t links = found.chain.links.size();
      if (links < 2) break;
      if (longest.links.empty()) longest = described(block, found.chain);
      std::vector<Step> joined;
      const std::int64_t saved = make(block, found.chain, &joined);
      if (saved < kLeastBytes) break;
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
    if (saved < kLeastBytes) return saved;
    KernelTask task;
    TiledChain tiles;
    tiles.rows = chain.rows;
    tiles.groups = chain.groups;
    if (chain.groups > 0)
      tiles.parts = parts_of(chain.rows, chain.groups, classes(*chain.made.begin()));
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
    const std::int64_t fewest = chain.multiplies ? kProductRows : row > kLongRow ? 1 : 8;
    if (chain.matrices > 0 && row > kMatrixBytes) return 0;
    const std::int64_t rows_at_once = chain.groups > 0 ? chain.rows / chain.groups : chain.rows;
    tiles.block = chain.matrices > 0
                      ? 1
                      : std::clamp(kBlockBytes / row, std::min(fewest, rows_at_once), rows_at_once);
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
        if (t.inputs[k] != s || !reads_part(block, n, k, chain)) continue;
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
          if (t.inputs[i] == s) by_rows = by_rows && reads_part(block, n, i, chain);
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
  const std::set<SlotId>& remade_;
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
