// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/refine/refine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/ir/builder.h"
#include "src/ir/hooks.h"
#include "src/spmd/collectives/count.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/partitioner/context.h"
#include "src/spmd/propagation/propagate.h"
#include "src/spmd/refine/given_work.h"

namespace tessera::spmd {
namespace {

using ir::Opcode;

/// Bytes-equivalent of a dot's flop: more than where one op is laid out, since a program that
/// repeats work does so on every run; and of one beyond what the shardings as they stand share out.
constexpr double kBytesPerDotFlop = 0.02, kBytesPerRepeatedFlop = 0.5;
/// With dots as dear as this for each op, too, a program may do less. For half the work it may
/// receive half again the bytes; where that is less than the shardings as they stand ask for, a
/// seventh, and half again while that is less than what starting one collective costs, but nothing
/// for less than a sixth of the work. Between all that and every device repeating the work there is
/// what those share out.
constexpr double kDearDotFlops[] = {0.2, 1, 4, 30}, kDearRepeatedFlops[] = {0.5, 4};
constexpr double kBytesForWork = 0.6, kBytesForLessThanGiven = 0.2, kFewBytes = 0.5;
constexpr double kWorthBytes = 1.2;
/// Other work may grow so much with it, and what was won of the dots' be lost again up to this.
constexpr double kElementsForWork = 1.1, kWorkKept = 1.3;

/// Work other than dots may grow by so much over the program as propagated.
constexpr double kMoreElements = 1.4;
/// A program may do so much more if each flop saves so many bytes.
constexpr double kMoreWork = 1.1, kBytesForMore = 2;

/// What a large module would take longer for than it is worth.
constexpr std::int64_t kFewestTrials = 6;
/// Beyond so many instructions nothing is tried.
constexpr std::int64_t kLargest = 10000;
/// Nor, on more devices than these, in a module too large for a search: what a trial takes grows
/// with the pairs of its permutes.
constexpr std::int64_t kManyDevices = 1024;
/// After so many in vain the rest, which promises less, is let be.
constexpr int kPatience = 12;
/// So many arguments, the largest, are tried as the one that all others follow; and of the rest the
/// one that is cut in the most parts along a dim.
constexpr std::size_t kLeaders = 3;
/// And so many, the best, searched from.
constexpr std::ptrdiff_t kLeadersFollowed = 2;
/// From a program that shares out copies of dots the search starts as well if it has so much less
/// of their work and no more bytes than this many times as many.
constexpr double kWorthSharing = 0.8, kBytesToStart = 2;
/// Of the program's price, what a candidate must promise.
constexpr double kWorthTrying = 0.01;

struct Price {
  double cost = 0, bytes = 0, dot_flops = 0, elements = 0;
};

constexpr std::string_view kView = ".view";

/// What is used of an argument, as an array of its own that may lie otherwise. The call without a
/// sharding asks for nothing.
std::unordered_map<const ir::Instruction*, ir::Instruction*> add_views(ir::Module* module) {
  std::unordered_map<const ir::Instruction*, ir::Instruction*> views;
  ir::Computation* entry = module->entry();
  const auto users = ir::users_of(*entry);
  for (ir::Instruction* p : entry->parameters()) {
    if (!p->shape.is_array() || p->shape.rank() == 0 || entry->root() == p) continue;
    if (users[std::size_t(p->index)].empty()) continue;
    auto view = std::make_unique<ir::Instruction>();
    view->opcode = Opcode::custom_call;
    view->shape = p->shape;
    view->name = p->name + std::string(kView);
    ir::CustomCallAttrs attrs;
    attrs.target = ir::kShardingTarget;
    view->attrs = std::move(attrs);
    view->metadata = p->metadata;
    ir::Instruction* added = entry->add(std::move(view));
    entry->replace_all_uses(p, added);
    added->operands = {p};
    views[p] = added;
  }
  entry->sort_topologically();
  return views;
}

class Refiner {
 public:
  Refiner(std::unique_ptr<ir::Module> module, const RefineOptions& options)
      : options_(options), model_(options.partition.cost), module_(std::move(module)) {}

  std::unique_ptr<ir::Module> run() {
    const std::int64_t size = std::max<std::int64_t>(1, module_->instruction_count());
    const auto affords = [&](std::int64_t instructions) {
      return std::min<std::int64_t>(options_.trials, instructions / size);
    };
    const bool may_search = affords(options_.most_instructions) >= kFewestTrials;
    const bool many = module_->num_partitions > kManyDevices;
    const bool dear = size > kLargest || (many && affords(options_.instructions) < kFewestTrials);
    if (options_.trials <= 0 || dear || calls_back()) {
      propagate(module_.get());
      return std::move(module_);
    }
    std::unique_ptr<ir::Module> original = may_search ? module_->clone() : nullptr;
    start();
    if (now_.best.bytes == 0) return std::move(module_);
    trials_ = affords(bytes_matter() && !many ? options_.most_instructions : options_.instructions);
    if (trials_ < kFewestTrials) {
      try_few();
      propagation_->run(now_.pins, now_.first);
      return std::move(module_);
    }
    try_dear_dots();
    if (concerns_arguments()) with_views(std::move(original));
    search_both();
    if (!now_.pins.empty() || now_.first) unpin_with_dear_dots();
    propagation_->run(now_.pins, now_.first);
    if (!now_.pins.empty() || now_.first) try_dear_dots();
    drop_views();
    return std::move(module_);
  }

  const CostModel& cost() const { return options_.partition.cost; }

 private:
  struct Candidate {
    int value = 0;
    TensorSharding sharding;
    double bytes = 0;
  };

  /// Callbacks of the user's own are not to be asked over and over.
  bool calls_back() const {
    for (const auto& c : module_->computations()) {
      for (const auto& i : c->instructions()) {
        if (i->is(Opcode::custom_call) && i->get<ir::CustomCallAttrs>().partitioner) return true;
      }
    }
    return false;
  }

  void start() {
    propagation_ = std::make_unique<Propagation>(module_.get());
    propagation_->run();
    given_flops_ = dot_flops_as_given(*module_);
    stated_ = dots_are_stated();
    now_.best = evaluate(&now_.alternatives);
    times_ = executions(*module_);
    propagated_ = now_.best;
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
        if (!stated(i.get()) || !std::all_of(i->operands.begin(), i->operands.end(), stated)) {
          return false;
        }
      }
    }
    return true;
  }

  Price evaluate(std::vector<LayoutAlternative>* alternatives) {
    PartitionOptions options = options_.partition;
    options.alternatives = alternatives;
    std::unique_ptr<ir::Module> device = partition(*module_, options, nullptr);
    reduce_collectives(&device);
    const CommunicationCount c = count_communication(*device);
    return {c.total_bytes + model_.latency_bytes * c.executed + kBytesPerDotFlop * c.dot_flops +
                kBytesPerRepeatedFlop * std::max(0.0, c.dot_flops - given_flops_) +
                model_.bytes_per_flop * c.elements,
            c.total_bytes, c.dot_flops, c.elements};
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
    double& price = options_.partition.cost.*kind;
    const double usual = price;
    if (usual >= dear_price) return;
    price = dear_price;
    std::vector<LayoutAlternative> alternatives;
    const Price dear = evaluate(&alternatives);
    const double work = now_.best.dot_flops / std::max(dear.dot_flops, 1.0);
    const bool repeated = now_.best.dot_flops > given_flops_ * 1.001;
    const bool pays = repeated || (!stated_ && work > kWorthBytes);
    const double for_work = repeated ? kBytesForWork : pays ? kBytesForLessThanGiven : 0;
    const double few = pays ? std::min(model_.latency_bytes, kFewBytes * now_.best.bytes) : 0;
    const bool worth =
        dear.bytes <= now_.best.bytes * std::pow(work, for_work) + few || improves(dear, now_.best);
    if (work < 1.001 || dear.elements > now_.best.elements * kElementsForWork || !worth) {
      price = usual;
      return;
    }
    now_.best = dear;
    now_.alternatives = std::move(alternatives);
    if (!stated_) given_flops_ = std::min(given_flops_, kWorkKept * dear.dot_flops);
  }

  /// No array's sharding stands for a dot whose result is computed in parts and then gathered:
  /// where the search did the same work for more bytes, the op's own choice at a higher price is
  /// better.
  void unpin_with_dear_dots() {
    double& price = options_.partition.cost.bytes_per_dot_flop;
    const double usual = price;
    double chosen = usual;
    for (const double dear_price : kDearDotFlops) {
      if (now_.best.dot_flops == 0 || dear_price <= usual) continue;
      price = dear_price;
      propagation_->run();
      State state;
      state.best = evaluate(&state.alternatives);
      if (!improves(state.best, now_.best)) continue;
      chosen = dear_price;
      now_ = std::move(state);
    }
    price = chosen;
  }

  bool concerns_arguments() const {
    return std::any_of(
        now_.alternatives.begin(), now_.alternatives.end(), [&](const LayoutAlternative& a) {
          return a.instruction->is(Opcode::parameter) && a.instruction->parent == module_->entry();
        });
  }

  void with_views(std::unique_ptr<ir::Module> original) {
    Refiner other(std::move(original), options_);
    other.views_ = add_views(other.module_.get());
    other.start();
    if (!stated_) given_flops_ = std::min(given_flops_, other.given_flops_);
    other.given_flops_ = given_flops_;
    if (other.now_.best.cost > now_.best.cost * 1.0001 ||
        other.now_.best.bytes > now_.best.bytes * 1.001)
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
    const bool more_bytes = price.bytes > best.bytes * 1.001;
    // Fewer flops pay for bytes only where work is repeated, or the program as propagated has them.
    const bool less_work =
        price.dot_flops < best.dot_flops * 0.999 &&
        (best.dot_flops > given_flops_ * 1.001 || (!stated_ && price.bytes <= propagated_.bytes));
    return price.cost < best.cost * 0.999 && (!more_bytes || less_work) &&
           price.elements <= std::max(best.elements * 1.02, propagated_.elements * kMoreElements) &&
           (price.dot_flops <= best.dot_flops * 1.001 || price.dot_flops <= given_flops_ * 1.001 ||
            (price.dot_flops <= best.dot_flops * kMoreWork &&
             (price.dot_flops - best.dot_flops) * kBytesForMore < best.bytes - price.bytes));
  }

  /// What the search may change.
  struct State {
    Price best;
    std::vector<LayoutAlternative> alternatives;  ///< of the best program
    std::vector<Propagation::Pin> pins;
    std::optional<int> first;       ///< the argument that the others follow
    std::optional<CostModel> cost;  ///< another one than for the rest
  };

  /// What every device computes alike, shared out: what comes after it then may lie split, too.
  std::optional<State> share_copies() {
    if (now_.best.dot_flops == 0) return std::nullopt;
    const CostModel usual = options_.partition.cost;
    State state;
    state.cost = usual;
    state.cost->share_copies = true;
    state.cost->bytes_per_dot_flop = std::max(usual.bytes_per_dot_flop, kDearDotFlops[1]);
    options_.partition.cost = *state.cost;
    state.best = evaluate(&state.alternatives);
    options_.partition.cost = usual;
    if (state.best.dot_flops > now_.best.dot_flops * kWorthSharing ||
        state.best.bytes > now_.best.bytes * kBytesToStart) {
      return std::nullopt;
    }
    return state;
  }

  /// Where arguments pull different ways (a batch and the weights that it meets, each split along a
  /// dim of its own), one array after the other would have to be pinned. So what flows from one
  /// argument before all others is tried as a whole, as another place to search from.
  std::vector<State> follow_one() {
    struct Leader {
      std::int64_t parts = 0;  ///< of the dim that is cut in the most
      double elements = 0;
      int value = 0;
    };
    std::vector<Leader> leaders;
    for (const ir::Instruction* p : module_->entry()->parameters()) {
      if (!p->shape.is_array() || p->sharding.empty() || p->sharding.front().is_replicated()) {
        continue;
      }
      const Dims shards = p->sharding.front().shards();
      leaders.push_back({*std::max_element(shards.begin(), shards.end()),
                         double(p->shape.element_count()), propagation_->value_of(*p, 0)});
    }
    if (leaders.size() < 2) return {};
    std::stable_sort(leaders.begin(), leaders.end(),
                     [](const Leader& a, const Leader& b) { return a.elements > b.elements; });
    // A batch is cut in the most parts, and may be small beside the weights.
    std::stable_sort(leaders.begin() + std::ptrdiff_t(std::min(leaders.size(), kLeaders)),
                     leaders.end(),
                     [](const Leader& a, const Leader& b) { return a.parts > b.parts; });
    leaders.resize(std::min(leaders.size(), kLeaders + 1));
    std::vector<State> found;
    for (const Leader& leader : leaders) {
      State state;
      state.first = leader.value;
      try {
        propagation_->run({}, state.first);
        state.best = evaluate(&state.alternatives);
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
      state.best = evaluate(&state.alternatives);
    } catch (const Error&) {
      return std::nullopt;
    }
    return improves(state.best, now_.best) ? std::optional<State>(std::move(state)) : std::nullopt;
  }

  void search_both() {
    const std::int64_t trials = trials_;
    std::vector<State> others = follow_one();
    for (const bool whole : {true, false}) {
      if (std::optional<State> asked = ask_all(whole)) others.push_back(std::move(*asked));
    }
    if (std::optional<State> shared = share_copies()) others.push_back(std::move(*shared));
    search();
    for (State& other : others) {
      const CostModel usual = options_.partition.cost;
      State mine = std::exchange(now_, std::move(other));
      if (now_.cost) {
        options_.partition.cost = *now_.cost;
        prices_.clear();
      }
      trials_ = trials;
      tried_.clear();
      search();
      if (improves(now_.best, mine.best)) continue;
      if (now_.cost) prices_.clear();  // they were worked out with its own cost
      now_ = std::move(mine);
      options_.partition.cost = usual;
    }
  }

  /// Where dots are most of what a program costs, there is little to be won.
  bool bytes_matter() const { return now_.best.bytes > kBytesPerDotFlop * now_.best.dot_flops; }

  /// In a large module: other places to start from, and nothing one by one.
  void try_few() {
    if (bytes_matter()) {
      for (const double price : {kDearDotFlops[1], kDearDotFlops[3]}) {
        if (now_.best.dot_flops > 0) try_dear_dots(&CostModel::bytes_per_dot_flop, price);
      }
      for (State& other : follow_one()) {
        if (improves(other.best, now_.best)) now_ = std::move(other);
      }
    }
    if (std::optional<State> asked = ask_all(true)) now_ = std::move(*asked);
  }

  void search() {
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
        std::vector<LayoutAlternative> alternatives;
        Price price;
        bool known = false;
        try {
          propagation_->run(pins, now_.first);
          const std::string key = layouts();
          // Many pins lead to the same: one array drags others along.
          const auto it = prices_.find(key);
          known = it != prices_.end();
          price = known ? it->second : evaluate(&alternatives);
          if (!known) prices_.emplace(key, price);
        } catch (const Error&) {
          continue;  // what the program says elsewhere rules it out
        }
        if (!improves(price, now_.best)) continue;
        if (known) price = evaluate(&alternatives);
        now_.best = price;
        now_.pins = std::move(pins);
        now_.alternatives = std::move(alternatives);
        better = true;
        break;
      }
    }
  }

  /// Those that lie as the arguments do.
  void drop_views() {
    ir::Computation* entry = module_->entry();
    for (ir::Instruction* p : entry->parameters()) {
      auto view = views_.find(p);
      if (view != views_.end() && view->second->sharding == p->sharding) {
        entry->replace_all_uses(view->second, p);
      }
    }
    entry->remove_dead();
  }

  RefineOptions options_;
  CostModel model_;
  std::unique_ptr<ir::Module> module_;
  std::unique_ptr<Propagation> propagation_;
  std::unordered_map<const ir::Instruction*, ir::Instruction*> views_;
  std::unordered_map<const ir::Computation*, double> times_;
  std::set<std::pair<int, std::string>> tried_;
  std::unordered_map<std::string, Price> prices_;  ///< by layouts(); looked up, never walked
  State now_;
  Price propagated_;        ///< before anything was tried
  bool stated_ = false;     ///< dots_are_stated()
  double given_flops_ = 0;  ///< what a device multiplies as the shardings stand
  std::int64_t trials_ = 0;
};

}  // namespace

bool is_argument_view(const ir::Instruction& i) {
  return is_constraint(i) && i.operand(0)->is(Opcode::parameter) && i.name.ends_with(kView);
}

Refined propagate_and_refine(std::unique_ptr<ir::Module> module, const RefineOptions& options) {
  Refiner refiner(std::move(module), options);
  Refined out;
  out.module = refiner.run();
  out.cost = refiner.cost();
  return out;
}

}  // namespace tessera::spmd
