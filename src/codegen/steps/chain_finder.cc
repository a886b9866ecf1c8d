// SPDX-License-Identifier: Apache-2.0
// Follows the rows of arrays from step to step.
#include "src/codegen/steps/chain_finder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/contains.h"
#include "src/codegen/kernels/code/embedded_code.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/row_sums.h"
#include "src/codegen/steps/joined_steps.h"

namespace tessera::codegen {

using namespace runtime;

namespace {

/// Whether a kernel reads of its input `k` only what belongs to its rows, or to its matrix.
bool reads_share(const KernelDescriptor& kernel, std::size_t k, const ChainFinder::Chain& chain) {
  return chain.matrices > 0 ? kernel.access.reads_share(k, chain.matrices)
                            : kernel.access.reads_own(k);
}
/// Whether its sums over rows read of it only what belongs to these.
bool sums_own(const KernelDescriptor& kernel, std::size_t k) {
  return kernel.row_sums->share(k) == Share::own;
}
/// Whether the task takes what the chain makes otherwise than by rows, but as sums over them.
bool adds_up(const KernelTask& task, const KernelDescriptor& kernel,
             const ChainFinder::Chain& chain) {
  if (kernel.row_sums == nullptr || chain.matrices > 0) return false;
  bool by_rows = true, adds_up = true;
  for (std::size_t k = 0; k < task.inputs.size(); ++k) {
    if (chain.made.count(task.inputs[k]) == 0) continue;
    by_rows = by_rows && kernel.access.reads_own(k);
    adds_up = adds_up && sums_own(kernel, k);
  }
  return !by_rows && adds_up;
}
}  // namespace

bool ChainFinder::reads_part(const Block& block, std::size_t n, std::size_t k,
                             const Chain& chain) const {
  const KernelDescriptor& kernel = kernels_.at(task_of(block.steps[n])->kernel);
  return chain.sums.count(n) != 0 ? sums_own(kernel, k) : reads_share(kernel, k, chain);
}

std::int64_t ChainFinder::parts_of(const Chain& chain, ClassesId classes) const {
  const std::int64_t of_all = chain.groups * plan_.classes[std::size_t(classes)].count();
  return std::max<std::int64_t>(1, std::min((prices::chains::kParts + of_all - 1) / of_all,
                                            chain.rows / chain.groups / chain.fewest_rows()));
}

/// Whether the task reads the rows of a large array that a link of the chain reads as well.
bool ChainFinder::is_sibling(const KernelTask& task, const Chain& chain) const {
  const KernelDescriptor& kernel = kernels_.at(task.kernel);
  if (chain.multiplies() || kernel.access.prepares()) return false;
  for (std::size_t k = 0; k < task.inputs.size(); ++k) {
    if (chain.shared.count(task.inputs[k]) != 0 && reads_share(kernel, k, chain)) return true;
  }
  return false;
}

/// A step that may become the next link.
struct ChainFinder::Candidate {
  Candidate(const KernelTask& t, const KernelDescriptor& k, const Chain& chain)
      : task(t), kernel(k), sums(adds_up(t, k, chain)) {}

  const KernelTask& task;
  const KernelDescriptor& kernel;
  const bool sums;  ///< it is added up, while others go through rows

  std::int64_t rows() const { return sums ? kernel.row_sums->rows() : task.units; }
  std::int64_t groups(const Chain& chain) const {
    return sums ? kernel.row_sums->sizes.batch : chain.groups;
  }
};

/// Whether it makes all of its results by rows, or as sums over them.
bool ChainFinder::makes_rows(const Candidate& c) const {
  const std::vector<SlotId>& made = c.task.outputs;
  return (c.sums || c.kernel.access.makes_own()) && may_be_joined(c.task, plan_, kernels_) &&
         c.task.units > 0 &&
         std::all_of(made.begin(), made.end(), [&](SlotId s) { return bytes(s) > 0; });
}

/// Whether it reads what the chain makes by rows, or sums it up, on the same devices.
bool ChainFinder::takes_rows(const Candidate& c, const Chain& chain) const {
  for (std::size_t k = 0; k < c.task.inputs.size() && !c.sums; ++k) {
    if (chain.made.count(c.task.inputs[k]) != 0 && !reads_share(c.kernel, k, chain)) return false;
  }
  return chain.links.empty() || classes(c.task.outputs[0]) == classes(*chain.made.begin());
}

/// The rows that all links go through if it becomes one; 0 if there are none.
std::int64_t ChainFinder::rows_with(const Candidate& c, const Chain& chain) {
  if (chain.matrices > 0) return c.task.units % chain.matrices == 0 ? chain.matrices : 0;
  const std::int64_t rows = chain.links.empty() ? c.rows() : std::gcd(chain.rows, c.rows());
  const std::int64_t groups = c.groups(chain);
  if (groups == 0) return rows;
  const bool same_groups = chain.groups == 0 || groups == chain.groups;
  return same_groups && rows % groups == 0 ? rows : 0;
}

std::int64_t ChainFinder::least_rows(const Chain& chain) {
  return chain.matrices > 0
             ? std::max<std::int64_t>(prices::chains::kFewestMatrices, 2 * planned_workers())
             : prices::chains::kFewestRows;
}

/// Has the chain's blocks be long enough for a product. False if it takes too long by blocks.
bool ChainFinder::fit_blocks(const Candidate& c, Chain* chain) const {
  if (!c.kernel.access.prepares() || chain->matrices > 0) return true;
  // Few rows by each matrix of a batch, as of one step of decoding: it is read for them once.
  const auto* product = c.sums ? nullptr : c.kernel.body.as<KernelBody::Product>();
  const bool whole = product != nullptr && product->rows < prices::chains::kProductRows &&
                     c.rows() > product->rows && c.rows() % product->rows == 0;
  if (!whole && c.kernel.access.waits()) {
    std::int64_t largest = 1;  // of what the chain makes
    for (const SlotId s : c.task.inputs) {
      if (chain->made.count(s) != 0) largest = std::max(largest, bytes(s));
    }
    for (const SlotId s : c.task.outputs) largest = std::max(largest, bytes(s));
    if (c.task.nanoseconds > prices::chains::kProductOfByte * double(largest)) return false;
  }
  const std::int64_t at_once = whole ? product->rows : prices::chains::kProductRows;
  if (chain->of_rows == 0 || at_once * chain->of_rows > chain->at_once * c.rows()) {
    chain->at_once = at_once;
    chain->of_rows = c.rows();
    chain->whole_matrices = whole;
  }
  return true;
}

/// Adds step `n` if it goes through the chain's rows.
bool ChainFinder::add(const Block& block, std::size_t n, Chain* chain) const {
  const KernelTask& task = *task_of(block.steps[n]);
  const Candidate c(task, kernels_.at(task.kernel), *chain);
  if (!makes_rows(c) || !takes_rows(c, *chain)) return false;
  const std::int64_t rows = rows_with(c, *chain);
  const ClassesId mine = classes(task.outputs[0]);
  const std::int64_t count = plan_.classes[std::size_t(mine)].count();
  if (rows * count < least_rows(*chain)) return false;
  Chain with = *chain;
  with.rows = rows;
  with.groups = c.groups(*chain);
  if (!fit_blocks(c, &with)) return false;
  if (with.groups > 0 &&
      with.groups * parts_of(with, mine) * count < prices::chains::kFewestParts) {
    return false;
  }
  with.links.push_back(n);
  if (c.sums) {
    with.sums.insert(n);
  } else {
    with.made.insert(task.outputs.begin(), task.outputs.end());
  }
  for (std::size_t k = 0; k < task.inputs.size(); ++k) {
    const SlotId s = task.inputs[k];
    const bool large = bytes(s) >= prices::chains::kLeastBytes;
    if (large && reads_part(block, n, k, with)) with.shared.insert(s);
  }
  *chain = std::move(with);
  return true;
}

/// The step from `first` on, up to `n`, that makes a slot.
std::optional<std::size_t> ChainFinder::maker_of(const Block& block, std::size_t first,
                                                 std::size_t n, SlotId s) const {
  for (std::size_t maker = first + 1; maker < n; ++maker) {
    const std::optional<StepOperands> of = operands_of(block.steps[maker]);
    if (of && contains(of->outputs, s)) return maker;
  }
  return std::nullopt;
}

/// Steps from `first` on that make large arrays of which step `n` reads its rows, and so on.
void ChainFinder::add_makers(const Block& block, std::size_t first, std::size_t n,
                             const Chain& chain, std::set<std::size_t>* makers) const {
  const KernelTask& task = *task_of(block.steps[n]);
  const KernelDescriptor& kernel = kernels_.at(task.kernel);
  for (std::size_t k = 0; k < task.inputs.size(); ++k) {
    const SlotId s = task.inputs[k];
    const bool sums = chain.matrices == 0 && kernel.row_sums && sums_own(kernel, k);
    if (chain.made.count(s) != 0 || bytes(s) < prices::chains::kLeastBytes ||
        !(sums || reads_share(kernel, k, chain))) {
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
std::set<std::size_t> ChainFinder::before(const Block& block, std::size_t first,
                                          std::size_t n) const {
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
std::optional<std::vector<std::size_t>> ChainFinder::depending(const Block& block,
                                                               std::size_t first, std::size_t last,
                                                               const Chain& chain,
                                                               SlotSet* late) const {
  std::vector<std::size_t> out;
  late->clear();
  for (std::size_t k = first; k <= last; ++k) {
    const std::optional<StepOperands> of = operands_of(block.steps[k]);
    if (!of) continue;
    const bool link = contains(chain.links, k);
    const bool reads_late = of->reads_any(*late);
    if (link && reads_late) return std::nullopt;
    if (link ? chain.sums.count(k) != 0 : reads_late || of->reads_any(chain.made)) {
      late->insert(of->outputs);
      if (!link) out.push_back(k);
    }
  }
  return out;
}

/// Adds step `n`, and those from `first` on that make large arrays of which it reads its rows,
/// with what stands between these and it: small numbers of the rows.
bool ChainFinder::add_fed(const Block& block, std::size_t first, std::size_t n,
                          Found* found) const {
  std::set<std::size_t> makers;
  add_makers(block, first, n, found->chain, &makers);
  if (!makers.empty()) {
    Found fed = *found;
    bool all = true;
    for (const std::size_t k : before(block, first, n)) {
      if (contains(fed.chain.links, k)) continue;
      const StepOperands of = *operands_of(block.steps[k]);
      const bool between = of.reads_any(fed.chain.made);
      if (!between && makers.count(k) == 0) continue;
      const bool added = !contains(found->behind, k) && task_of(block.steps[k]) != nullptr &&
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
    found->late.insert(task_of(block.steps[n])->outputs);
  }
  return true;
}

std::vector<ChainFinder::Found> ChainFinder::find(const Block& block, std::size_t n,
                                                  std::int64_t matrices) const {
  std::vector<Found> out;
  Found found;
  found.chain.matrices = matrices;
  if (!add(block, n, &found.chain)) return out;
  const std::size_t end = std::min(block.steps.size(), n + kChainWindow);
  for (std::size_t k = n + 1; k < end; ++k) {
    const KernelTask* task = task_of(block.steps[k]);
    const std::optional<StepOperands> operands = operands_of(block.steps[k]);
    if (!operands || (task != nullptr && task->has_effects)) break;
    const bool reads_late = operands->reads_any(found.late);
    const bool follows = operands->reads_any(found.chain.made);
    if (task == nullptr) {
      if (!reads_late && !follows) continue;
    } else if (!reads_late) {
      const bool again = !task->outputs.empty() && rematerialized_.count(task->outputs[0]) != 0;
      const bool joins = !again && (follows || is_sibling(*task, found.chain));
      if (joins && add_fed(block, n, k, &found)) {
        out.push_back(found);
        std::vector<std::size_t>& links = out.back().chain.links;
        std::sort(links.begin(), links.end());
        continue;
      }
      if (!follows) continue;
    }
    found.late.insert(operands->outputs);
    found.behind.push_back(k);
  }
  return out;
}

}  // namespace tessera::codegen
