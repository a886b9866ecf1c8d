// SPDX-License-Identifier: Apache-2.0
// Searches for intermediate shardings: propagates, partitions and prices trial programs.
#include "src/spmd/refine/refine.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/spmd/collectives/count.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/propagation/propagate.h"
#include "src/spmd/refine/argument_views.h"
#include "src/spmd/refine/given_work.h"
#include "src/spmd/refine/leaders.h"
#include "src/spmd/refine/price.h"
#include "src/spmd/refine/search_size.h"
#include "src/spmd/refine/snapshot.h"

namespace tessera::spmd {
namespace {

using ir::Opcode;

/// With dots as dear as this for each op, too, a program may do less; between that and every device
/// repeating the work there is what the shardings as they stand share out.
constexpr double kDearDotFlops[] = {0.2, 1, 4, 30}, kDearRepeatedFlops[] = {0.5, 4};

/// What a large module would take longer for than it is worth.
constexpr std::int64_t kFewestTrials = 6;
/// Beyond so many instructions nothing is tried.
constexpr std::int64_t kLargestProgram = 10000;
/// Nor, on more devices than these, in a module too large for a search: what a trial takes grows
/// with the pairs of its permutes.
constexpr std::int64_t kManyDevices = 1024;
/// After so many in vain the rest, which promises less, is let be.
constexpr int kPatience = 12;
/// Of the arguments that others may follow, so many, the best, are searched from.
constexpr std::ptrdiff_t kLeadersFollowed = 2;
/// From a program that shares out copies of dots the search starts as well if it has so much less
/// of their work and no more bytes than this many times as many.
constexpr double kWorthSharing = 0.8, kBytesToStart = 2;
/// Of programs that searches ended with, one must be so much better than the search's own choice.
constexpr double kWorthOther = 0.001;
/// What starting a collective may cost where bytes count for more, and the bytes that must save.
constexpr double kLittleLatency = 32, kWorthStarting = 0.97;
/// Of the program's price, what a candidate must promise.
constexpr double kWorthTrying = 0.01;

/// A propagated program as one device runs it.
struct Partitioned {
  std::unique_ptr<ir::Module> module;
  PartitionReport report;
};

/// What came of partitioning the program as it was propagated.
struct Evaluated {
  Price best;
  std::vector<LayoutAlternative> alternatives;
  std::shared_ptr<Partitioned> device;  ///< null unless it is to be kept
};

/// The parts of a cost model that are tried.
std::string key_of(const CostModel& cost) {
  return fmt::format("{} {} {} {}", cost.bytes_per_dot_flop, cost.bytes_per_repeated_flop,
                     cost.share_copies, cost.steady_moves_once);
}

class Refiner {
 public:
  Refiner(std::unique_ptr<ir::Module> module, const RefineOptions& options)
      : options_(options), model_(options.partition.cost), module_(std::move(module)) {
    now_.cost = options.partition.cost;
  }

  std::unique_ptr<ir::Module> run() {
    const std::int64_t size = std::max<std::int64_t>(1, search_size(*module_));
    const std::int64_t written = std::max(size, options_.size);
    const std::int64_t trials =
        std::min<std::int64_t>(options_.trials, options_.instructions / written);
    const std::int64_t most_trials =
        std::min<std::int64_t>(options_.trials, options_.max_instructions / size);
    const bool many = module_->num_partitions > kManyDevices;
    const bool dear = written > kLargestProgram || (many && trials < kFewestTrials);
    if (options_.trials <= 0 || dear || calls_back(*module_)) {
      propagate(module_.get());
      return std::move(module_);
    }
    const bool may_search = most_trials >= kFewestTrials;
    std::unique_ptr<ir::Module> original = may_search ? module_->clone() : nullptr;
    keeps_ = trials < kFewestTrials;
    start();
    if (now_.best.bytes == 0) return std::move(module_);
    trials_ = bytes_matter(now_.best) && !many ? most_trials : trials;
    if (trials_ < kFewestTrials) {
      if (bytes_matter(now_.best)) try_few();
      return std::move(module_);
    }
    keeps_ = false;
    now_.device = nullptr;
    if (options_.judge) {
      asked_ = options_.judge(*module_, now_.cost);
      asked_->dot_flops = given_.dot_flops;
    }
    try_dear_dots();
    if (concerns_arguments()) with_views(std::move(original));
    search_all();
    settle();
    drop_views(module_.get(), views_);
    return std::move(module_);
  }

  /// What `run` found, but for the module.
  Refined found() {
    Refined out;
    out.cost = now_.cost;
    out.price = now_.best.cost;
    out.outcome = outcome_;
    out.asked = asked_;
    if (now_.device) {
      out.device = std::move(now_.device->module);
      out.report = std::move(now_.device->report);
    }
    return out;
  }

 private:
  struct Candidate {
    int value = 0;
    TensorSharding sharding;
    double bytes = 0;
  };

  void start() {
    propagation_ = std::make_unique<Propagation>(module_.get());
    propagation_->run();
    const DotWork work = dot_work(*module_);
    given_ = {{}, work.as_given, work.least, dots_are_stated()};
    now_.take(evaluate(now_.cost));
    times_ = executions(*module_);
    given_.propagated = now_.best;
  }

  /// Whether the program says of each dot how its operands and its result lie: what they share out
  /// is then known, not what propagation made of it.
  bool dots_are_stated() const {
    for (const auto& c : module_->computations()) {
      for (const auto& i : c->instructions()) {
        if (!i->is(Opcode::dot) && !i->is(Opcode::convolution)) continue;
        const auto stated = [&](const ir::Instruction* at) {
          return at->shape.is_array() && propagation_->is_stated(*at);
        };
        if (!stated(i.get()) || !std::all_of(i->operands().begin(), i->operands().end(), stated)) {
          return false;
        }
      }
    }
    return true;
  }

  Evaluated evaluate(const CostModel& cost) {
    Evaluated found;
    PartitionOptions options = options_.partition;
    options.cost = cost;
    options.alternatives = &found.alternatives;
    if (keeps_) found.device = std::make_shared<Partitioned>();
    std::unique_ptr<ir::Module> device =
        partition(*module_, options, keeps_ ? &found.device->report : nullptr);
    if (keeps_) found.device->module = device->clone();
    reduce_collectives(&device);
    found.best = price_of(count_communication(*device), model_, given_);
    return found;
  }

  void try_dear_dots() {
    // First what the shardings share out as they stand, then more.
    for (const double price : kDearRepeatedFlops) {
      if (now_.best.dot_flops > 0) try_dear_dots(&CostModel::bytes_per_repeated_flop, price);
    }
    for (const double price : kDearDotFlops) {
      if (now_.best.dot_flops > 0) try_dear_dots(&CostModel::bytes_per_dot_flop, price);
    }
  }

  void try_dear_dots(double CostModel::*kind, double dear_price) {
    if (now_.cost.*kind >= dear_price || now_.best.dot_flops <= given_.least_flops * 1.001) return;
    CostModel cost = now_.cost;
    cost.*kind = dear_price;
    Evaluated found = evaluate(cost);
    if (!worth_its_bytes(found.best, now_.best, given_, model_.transfer.latency_bytes)) return;
    if (!given_.states_dots) given_.dot_flops = std::min(given_.dot_flops, kept_of(found.best));
    now_.cost = cost;
    now_.take(std::move(found));
  }

  /// No array's sharding stands for a dot whose result is computed in parts and then gathered:
  /// where the search did the same work for more bytes, the op's own choice at a higher price is
  /// better.
  void unpin_with_dear_dots() {
    const CostModel usual = now_.cost;
    for (const double dear_price : kDearDotFlops) {
      if (now_.best.dot_flops == 0 || dear_price <= usual.bytes_per_dot_flop) continue;
      propagation_->run();
      State state;
      state.cost = usual;
      state.cost.bytes_per_dot_flop = dear_price;
      state.take(evaluate(state.cost));
      if (improves(state.best, now_.best)) now_ = std::move(state);
    }
  }

  bool concerns_arguments() const {
    std::set<int> arguments;
    for (const ir::Instruction* p : module_->entry()->parameters()) {
      if (p->shape.is_array()) arguments.insert(propagation_->value_of(*p, 0));
    }
    // As they are, or in a loop that they are carried through.
    return std::any_of(now_.alternatives.begin(), now_.alternatives.end(),
                       [&](const LayoutAlternative& a) {
                         return arguments.count(propagation_->value_of(*a.instruction, a.leaf)) > 0;
                       });
  }

  void with_views(std::unique_ptr<ir::Module> original) {
    RefineOptions options = options_;
    options.partition.cost = now_.cost;
    Refiner other(std::move(original), options);
    other.views_ = add_views(other.module_.get());
    other.start();
    if (!given_.states_dots) given_.dot_flops = std::min(given_.dot_flops, other.given_.dot_flops);
    other.given_.dot_flops = given_.dot_flops;
    if (other.now_.best.cost > now_.best.cost * 1.0001 ||
        other.now_.best.bytes > now_.best.bytes * 1.001 ||
        other.now_.best.dot_flops > now_.best.dot_flops * 1.001)
      return;
    module_ = std::move(other.module_);
    propagation_ = std::move(other.propagation_);
    now_.alternatives = std::move(other.now_.alternatives);
    views_ = std::move(other.views_);
    times_ = std::move(other.times_);
    now_.best = other.now_.best;
  }

  /// Dearest first; each array's sharding once. `indirect`: those that save elsewhere what moves,
  /// too.
  std::vector<Candidate> candidates(bool indirect = false) {
    std::vector<Candidate> list;
    std::map<std::pair<int, std::string>, std::size_t> seen;
    for (const LayoutAlternative& a : now_.alternatives) {
      if (a.indirect && !indirect) continue;
      const ir::Instruction* at = a.instruction;
      if (auto view = views_.find(at); view != views_.end()) at = view->second;
      const int value = propagation_->value_of(*at, a.leaf);
      if (!propagation_->is_free(value, a.sharding)) continue;
      auto [it, fresh] = seen.try_emplace({value, a.sharding.to_string()}, list.size());
      if (fresh) list.push_back({value, a.sharding, 0});
      list[it->second].bytes += a.bytes * times_[at->parent];
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bytes > b.bytes; });
    std::erase_if(list, [&](const Candidate& c) {
      return tried_.count({c.value, c.sharding.to_string()}) > 0;
    });
    return list;
  }

  /// How everything lies after a propagation: on which the price depends, and nothing else.
  std::string layouts() const {
    std::string key;
    const auto append = [&](std::int64_t n) {
      for (; n > 126; n -= 126) key.push_back(127);
      key.push_back(char(n));
    };
    for (const MeshAxis& a : module_->mesh->axes) append(a.size);
    for (const auto& c : module_->computations()) {
      for (const auto& i : c->instructions()) {
        for (const TensorSharding& s : i->sharding) {
          for (const DimSharding& d : s.dims) {
            for (int a : d.axes) append(a + 1);
            append(0);
          }
          for (int a : s.unreduced) append(a + 1);
          append(0);
        }
      }
    }
    return key;
  }

  bool improves(const Price& price, const Price& best) const {
    return spmd::improves(price, best, given_);
  }

  /// What the search may change.
  struct State : Evaluated {
    std::vector<Propagation::Pin> pins;
    std::optional<int> first;  ///< the argument that the others follow
    CostModel cost;            ///< with which it is partitioned

    bool pinned() const { return !pins.empty() || first; }
    void take(Evaluated found) { static_cast<Evaluated&>(*this) = std::move(found); }
  };

  /// What every device computes alike, shared out: what comes after it then may lie split, too.
  std::optional<State> share_copies() {
    if (now_.best.dot_flops == 0) return std::nullopt;
    State state;
    state.cost = now_.cost;
    state.cost.share_copies = true;
    state.cost.bytes_per_dot_flop = std::max(now_.cost.bytes_per_dot_flop, kDearDotFlops[1]);
    state.take(evaluate(state.cost));
    if (state.best.dot_flops > now_.best.dot_flops * kWorthSharing ||
        state.best.bytes > now_.best.bytes * kBytesToStart) {
      return std::nullopt;
    }
    return state;
  }

  /// What stays the same in a loop, had before it as the ops in it need it.
  std::optional<State> move_once() {
    State state;
    state.cost = now_.cost;
    state.cost.steady_moves_once = true;
    state.take(evaluate(state.cost));
    const bool same =
        state.best.cost == now_.best.cost && state.best.dot_flops == now_.best.dot_flops;
    if (same || state.best.bytes > now_.best.bytes * kBytesToStart) return std::nullopt;
    return state;
  }

  /// What flows from one argument before all others: other places to search from.
  std::vector<State> follow_one() {
    std::vector<State> found;
    for (const ir::Instruction* leader : leading_arguments(*module_)) {
      State state;
      state.cost = now_.cost;
      state.first = propagation_->value_of(*leader, 0);
      try {
        propagation_->run({}, state.first);
        state.take(evaluate(state.cost));
      } catch (const InternalError&) {
        throw;
      } catch (const Error&) {
        continue;
      }
      if (improves(state.best, now_.best)) found.push_back(std::move(state));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const State& a, const State& b) { return a.best.cost < b.best.cost; });
    if (std::ptrdiff_t(found.size()) > kLeadersFollowed)
      found.erase(found.begin() + kLeadersFollowed, found.end());
    return found;
  }

  /// What ops ask for of several arrays at once: one whole array among split ones is worth
  /// nothing, a chain of them a gather less each. `whole`: those only that no axis splits.
  std::optional<State> ask_all(bool whole) {
    State state;
    state.cost = now_.cost;
    state.first = now_.first;
    state.pins = now_.pins;
    std::set<int> pinned;
    for (const Propagation::Pin& p : now_.pins) pinned.insert(p.value);
    for (const Candidate& c : candidates()) {
      if (whole && !c.sharding.is_replicated()) continue;
      if (pinned.insert(c.value).second) state.pins.push_back({c.value, c.sharding});
    }
    if (state.pins.size() < now_.pins.size() + 2) return std::nullopt;
    try {
      propagation_->run(state.pins, state.first);
      state.take(evaluate(state.cost));
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      return std::nullopt;
    }
    return improves(state.best, now_.best) ? std::optional<State>(std::move(state)) : std::nullopt;
  }

  /// Each dot shared out further than the shardings ask for, whatever bytes that takes at first.
  std::optional<State> share_dots() {
    State state;
    state.cost = now_.cost;
    if (state.cost.bytes_per_dot_flop >= kDearDotFlops[1]) return std::nullopt;
    state.cost.bytes_per_dot_flop = kDearDotFlops[1];
    state.take(evaluate(state.cost));
    if (state.best.dot_flops >= now_.best.dot_flops * 0.999) return std::nullopt;
    return state;
  }

  /// From each place to start from. Leaves where that ended in `ends_`.
  void search_all() {
    const std::int64_t trials = trials_;
    std::vector<State> starts;
    // As propagated, while the module is.
    std::optional<State> copies = share_copies(), dots = share_dots(), once = move_once();
    for (State& following : follow_one()) starts.push_back(std::move(following));
    for (const bool whole : {true, false}) {
      if (std::optional<State> asked = ask_all(whole)) starts.push_back(std::move(*asked));
    }
    for (std::optional<State>* shared : {&copies, &dots, &once}) {
      if (*shared) starts.push_back(std::move(**shared));
    }
    starts.insert(starts.begin(), std::move(now_));
    for (State& start : starts) {
      now_ = std::move(start);
      trials_ = trials;
      tried_.clear();
      search();
      ends_.push_back(std::move(now_));
    }
  }

  /// The best of where the searches ended, each with what dearer dots save there.
  void settle() {
    std::vector<State> ends = std::exchange(ends_, {});
    std::size_t least = 0;
    for (std::size_t k = 1; k < ends.size(); ++k) {
      if (improves(ends[k].best, ends[least].best)) least = k;
    }
    if (ends[least].pinned()) {
      now_ = ends[least];
      unpin_with_dear_dots();
      if (!now_.pinned()) ends[least] = now_;
    }
    // What the search takes for the best comes first, and of equals stays.
    std::rotate(ends.begin(), ends.begin() + std::ptrdiff_t(least),
                ends.begin() + std::ptrdiff_t(least) + 1);
    if (options_.judge) {
      State start = as_propagated();
      if (start.best.dot_flops <= ends.front().best.dot_flops * 1.001) {
        ends.push_back(std::move(start));
      }
    } else {
      ends.resize(1);
    }
    std::set<std::string> seen;
    std::vector<State> distinct;
    for (State& end : ends) {
      now_ = std::move(end);
      propagation_->run(now_.pins, now_.first);
      if (now_.pinned()) try_dear_dots();
      if (seen.insert(layouts() + key_of(now_.cost)).second) distinct.push_back(std::move(now_));
    }
    now_ = std::move(distinct.size() > 1 ? judged(distinct) : distinct.front());
    propagation_->run(now_.pins, now_.first);
    if (options_.judge) start_more_collectives();
  }

  /// What a search wins may take more memory than it is worth.
  State as_propagated() {
    State state;
    state.cost = options_.partition.cost;
    propagation_->run();
    state.take(evaluate(state.cost));
    return state;
  }

  /// Several that move only what is needed may be had in place of one that moves more.
  void start_more_collectives() {
    State state = now_;
    state.cost.transfer.latency_bytes = kLittleLatency;
    state.take(evaluate(state.cost));
    if (state.best.bytes >= now_.best.bytes * kWorthStarting) return;
    if (!outcome_) outcome_ = options_.judge(*module_, now_.cost);
    const Outcome more = options_.judge(*module_, state.cost);
    if (score_of(more, state.best.cost, *asked_) >=
        score_of(*outcome_, now_.best.cost, *asked_) - kWorthOther) {
      return;
    }
    now_ = std::move(state);
    outcome_ = more;
  }

  /// Which of several programs to have, as they will be when they are compiled.
  State& judged(std::vector<State>& ends) {
    const auto outcome = [&](const State& end) {
      propagation_->run(end.pins, end.first);
      return options_.judge(*module_, end.cost);
    };
    double least = 0;
    std::size_t best = 0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      const Outcome o = outcome(ends[k]);
      const double its = score_of(o, ends[k].best.cost, *asked_);
      if (k > 0 && its > least - kWorthOther) continue;
      least = its;
      best = k;
      outcome_ = o;
    }
    return ends[best];
  }

  /// In a large module: other places to start from, and nothing one by one.
  void try_few() {
    for (const double price : {kDearDotFlops[1], kDearDotFlops[3]}) {
      if (now_.best.dot_flops > 0) try_dear_dots(&CostModel::bytes_per_dot_flop, price);
    }
    Snapshot propagated(*module_);
    for (State& other : follow_one()) {
      if (improves(other.best, now_.best)) now_ = std::move(other);
    }
    if (std::optional<State> asked = ask_all(true)) now_ = std::move(*asked);
    if (now_.pinned()) {
      propagation_->run(now_.pins, now_.first);
    } else {
      std::move(propagated).restore(module_.get());
    }
  }

  void search() {
    if (key_of(priced_with_) != key_of(now_.cost)) prices_.clear();
    priced_with_ = now_.cost;
    propagation_->run(now_.pins, now_.first);
    prices_.emplace(layouts(), now_.best);
    search(false);
    search(true);
  }

  void search(bool indirect) {
    for (bool better = true; better && trials_ > 0;) {
      better = false;
      int in_vain = 0;
      for (const Candidate& c : candidates(indirect)) {
        if (c.bytes < kWorthTrying * now_.best.bytes) break;
        if (trials_-- <= 0 || ++in_vain > kPatience) return;
        tried_.insert({c.value, c.sharding.to_string()});
        std::vector<Propagation::Pin> pins = now_.pins;
        std::erase_if(pins, [&](const Propagation::Pin& p) { return p.value == c.value; });
        pins.push_back({c.value, c.sharding});
        Evaluated found;
        bool known = false;
        try {
          propagation_->run(pins, now_.first);
          const std::string key = layouts();
          // Many pins lead to the same: one array drags others along.
          const auto it = prices_.find(key);
          known = it != prices_.end();
          if (known) {
            found.best = it->second;
          } else {
            found = evaluate(now_.cost);
            prices_.emplace(key, found.best);
          }
        } catch (const InternalError&) {
          throw;
        } catch (const Error&) {
          continue;  // what the program says elsewhere rules it out
        }
        if (!improves(found.best, now_.best)) continue;
        now_.take(known ? evaluate(now_.cost) : std::move(found));
        now_.pins = std::move(pins);
        better = true;
        break;
      }
    }
  }

  RefineOptions options_;
  CostModel model_;
  std::unique_ptr<ir::Module> module_;
  std::unique_ptr<Propagation> propagation_;
  ArgumentViews views_;
  std::unordered_map<const ir::Computation*, double> times_;
  std::set<std::pair<int, std::string>> tried_;
  std::unordered_map<std::string, Price> prices_;  ///< by layouts(); looked up, never walked
  State now_;
  CostModel priced_with_;  ///< what `prices_` hold for
  std::vector<State> ends_;
  std::optional<Outcome> outcome_;  ///< of what is kept in the end
  std::optional<Outcome> asked_;    ///< of the program as propagated, with the dots' work as given
  Given given_;
  std::int64_t trials_ = 0;
  bool keeps_ = false;  ///< what programs were partitioned into
};

}  // namespace

bool calls_back(const ir::Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      const auto* call = i->attrs.get_if<ir::CustomPartitioningAttrs>();
      if (call && call->partitioner) return true;
    }
  }
  return false;
}

Refined propagate_and_refine(std::unique_ptr<ir::Module> module, const RefineOptions& given) {
  CompileContext own;
  RefineOptions options = given;
  if (!options.partition.context) options.partition.context = &own;
  Refiner refiner(std::move(module), options);
  std::unique_ptr<ir::Module> propagated = refiner.run();
  Refined out = refiner.found();
  out.module = std::move(propagated);
  return out;
}

}  // namespace tessera::spmd
