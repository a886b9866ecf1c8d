// SPDX-License-Identifier: Apache-2.0
// Enumerates assignments of mesh axes to an op's factors and picks the cheapest.
#include "src/spmd/partitioner/layout/layout_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/spmd/reshard/axis_groups.h"
#include "src/spmd/reshard/planner.h"
#include "src/spmd/rules/axis_assignment.h"
#include "src/spmd/rules/factor_use.h"
#include "src/spmd/rules/projection.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {
namespace {

// Up to so many axes each is placed on its own; beyond, runs that all tensors hold together count
// as one.
constexpr std::size_t kSingleAxes = 3;
constexpr std::size_t kMaxBlocks = 8;
constexpr int kMaxFactors = 30;
constexpr std::size_t kMaxLayouts = 5000;
// Reshards that are planned to compare layouts; the likeliest layouts come first.
constexpr int kMaxPlans = 300;

using FactorAxes = std::vector<IndexList>;

struct Tensor {
  const TensorFactors* factors;
  const Shape* shape;
  const TensorSharding* sharding;
  bool is_result;
};

/// Operands are contracted with each other: a dot or a convolution.
bool contracts(const FactorRule& rule, const std::vector<Shape>& operands) {
  const auto large =
      std::count_if(operands.begin(), operands.end(), [](const Shape& s) { return s.rank() > 0; });
  if (large < 2) return false;
  std::vector<char> in_result(rule.factors.size(), 0);
  for (const TensorFactors& tensor : rule.results) {
    for (const auto& dim : tensor) {
      for (int f : dim) in_result[std::size_t(f)] = 1;
    }
  }
  for (std::size_t f = 0; f < in_result.size(); ++f) {
    if (!in_result[f] && rule.factors[f].kind == FactorKind::reduction) return true;
  }
  return false;
}

/// A candidate gives each factor of the op's rule a list of axes (a parallel strategy of an op, as
/// in Alpa, Zheng et al. 2022). That decides the shardings of its operands and results, and so the
/// reshards before and after it. The price is that of the reshards and of one device's work.
///
/// Example: f32[m,k] times f32[k,n] on two devices, mesh <x=2>; the left operand is x|- (rows), the
/// right one -|x (columns), the result is requested as x|-. Candidates are x on m, n, k or none.
/// Bytes received for left, right, result:
///                      x on m            x on n            x on k
///   m=64 k=64 n=8      0, 1024, 0        8192, 0, 512      4096, 512, 1024
///   m=8  k=64 n=64     0, 8192, 0        1024, 0, 512      512, 4096, 1024
/// So m is split in the first case, where the small right operand is gathered, and n in the second.
/// With operands -|x and x|- and a replicated result (m=8, k=512, n=8) it is k: nothing moves but
/// the partial sums, an all-reduce of 256 bytes. And where all three are replicated (m=k=n=64),
/// nothing is split: half of the work is worth less than a gather of 8192 bytes.
class LayoutSearch {
 public:
  LayoutSearch(ReshardPlanner& reshards, const LayoutProblem& problem, const cost::Machine& machine)
      : reshards_(reshards),
        rule_(problem.rule),
        info_(factor_uses(problem.rule)),
        flops_(problem.flops),
        machine_(machine) {
    auto add = [&](const std::vector<TensorFactors>& factors, const std::vector<Shape>& shapes,
                   const std::vector<TensorSharding>& shardings, bool is_result) {
      TESSERA_CHECK(factors.size() == shapes.size() && shapes.size() == shardings.size(),
                    "a factor rule of " + std::to_string(factors.size()) + " tensors for " +
                        std::to_string(shapes.size()));
      for (std::size_t i = 0; i < factors.size(); ++i) {
        TESSERA_CHECK(shardings[i].kind == TensorSharding::Kind::axes &&
                          shardings[i].dims.size() == factors[i].size(),
                      "a sharding that doesn't fit its tensor: " + shardings[i].to_string());
        tensors_.push_back({&factors[i], &shapes[i], &shardings[i], is_result});
        if (shardings[i].mesh) mesh_ = shardings[i].mesh;
      }
    };
    add(rule_.operands, problem.operand_shapes, problem.operand_shardings, false);
    add(rule_.results, problem.result_shapes, problem.result_shardings, true);
    operand_count_ = problem.operand_shapes.size();
    contracts_ = contracts(rule_, problem.operand_shapes);
  }

  ComputeLayout run() {
    if (!mesh_) return layout_of(FactorAxes(rule_.factors.size()));
    project_all();
    // The layout that all tensors have already, if there is one.
    if (auto agreed = agreement(); agreed && !looks_up(*agreed)) {
      return layout_of(*agreed);
    }
    collect_axes();
    allowed_ = allowed_work();
    collect_layouts();
    if (found_.empty()) {
      allowed_ = std::numeric_limits<double>::infinity();
      collect_layouts();
    }
    return best();
  }

 private:
  void project_all() {
    for (const Tensor& t : tensors_) {
      projections_.push_back(project(*mesh_, rule_, *t.factors, *t.sharding));
      needs_.emplace_back().mesh = mesh_;
      needs_.back().manual = t.sharding->manual;
    }
  }

  std::optional<FactorAxes> agreement() const {
    for (const Tensor& t : tensors_) {
      if (!t.sharding->unreduced.empty()) return std::nullopt;
    }
    const std::optional<FactorAxes> common = common_axes(rule_, projections_);
    if (!common) return std::nullopt;
    const FactorAxes& axes = *common;
    std::set<int> used;
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (axes[f].empty()) continue;
      if (!info_[f].carries || !fits(f, axes[f])) return std::nullopt;
      for (int a : axes[f]) {
        if (!used.insert(a).second) return std::nullopt;
      }
    }
    return axes;
  }

  /// Whether each device would look up what it has of an array, for a sum: bringing the array along
  /// may be less.
  bool looks_up(const FactorAxes& axes) const {
    if (!contracts_) return false;
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (info_[f].in_result || axes[f].empty()) continue;
      std::size_t operands = 0;
      for (std::size_t t = 0; t < operand_count_; ++t) operands += projections_[t].present[f];
      if (operands == 1) return true;
    }
    return false;
  }

  bool fits(std::size_t factor, const IndexList& axes) const {
    return can_split(*mesh_, info_, projections_, factor, axes);
  }

  void collect_axes() {
    IndexList axes;
    std::vector<IndexList> lists, sets;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const TensorSharding& s = *tensors_[t].sharding;
      auto take = [&](int a) {
        if (mesh_->axes[std::size_t(a)].size > 1 && !contains(axes, a)) axes.push_back(a);
      };
      for (const DimSharding& d : s.dims) std::for_each(d.axes.begin(), d.axes.end(), take);
      std::for_each(s.unreduced.begin(), s.unreduced.end(), take);
      sets.push_back(s.unreduced);
      if (projections_[t].overflow) {
        for (const DimSharding& d : s.dims) lists.push_back(d.axes);
      } else {
        for (const ProjectedFactor& f : projections_[t].factors) {
          if (!f.axes.empty()) lists.push_back(f.axes);
        }
      }
    }
    for (const Tensor& t : tensors_) {
      for (int a : t.sharding->manual)
        axes.erase(std::remove(axes.begin(), axes.end(), a), axes.end());
    }
    // Where nothing is split yet, work may be: it is free if the operands are copies.
    const std::size_t used = axes.size();
    for (int a = 0; a < int(mesh_->axes.size()); ++a) {
      bool manual = std::any_of(tensors_.begin(), tensors_.end(),
                                [&](const Tensor& t) { return contains(t.sharding->manual, a); });
      if (!manual && !contains(axes, a) && mesh_->axes[std::size_t(a)].size > 1) axes.push_back(a);
    }
    if (axes.size() > kSingleAxes) axes.resize(used);
    std::sort(axes.begin(), axes.end());
    if (axes.size() <= kSingleAxes) {
      for (int a : axes) blocks_.push_back({a});
    } else {
      blocks_ = reshard::axis_groups(axes, lists, sets);
    }
  }

  // --- all layouts ---------------------------------------------------------------------------

  /// What it has is in lists of all candidates: there are many, and most are never looked at.
  struct Candidate {
    std::size_t number = 0;
    double bound = 0;  ///< that its cost is not below; the work to begin with, in seconds
  };
  const std::size_t* choices_of(const Candidate& c) const {
    return all_choices_.data() + c.number * tensors_.size();
  }
  FactorAxes axes_of(std::size_t candidate) const {
    const auto axes = all_axes_.begin() + std::ptrdiff_t(candidate * rule_.factors.size());
    return FactorAxes(axes, axes + std::ptrdiff_t(rule_.factors.size()));
  }

  void collect_layouts() {
    // What each tensor has is always tried, however large the space.
    for (std::size_t t = 0; t < tensors_.size(); ++t) add(own_layout(t));
    const FactorAxes unsplit(rule_.factors.size());
    if (blocks_.size() > kMaxBlocks || rule_.factors.size() > std::size_t(kMaxFactors)) {
      return add(unsplit);
    }
    // Blocks may be left out: devices then do the same work.
    AxisAssignments all(
        blocks_, std::vector<char>(blocks_.size(), 0),
        [&](std::size_t f, const IndexList& axes) { return info_[f].carries && fits(f, axes); },
        [&](const FactorAxes& axes) {
          add(axes);
          return found_.size() < kMaxLayouts;
        });
    all.run(unsplit);
  }

  void add(const FactorAxes& axes) {
    Candidate c{found_.size(), work(axes)};
    if (c.bound > allowed_ || !is_expressible(*mesh_, rule_, axes)) return;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::size_t choice = choice_of(t, axes);
      all_choices_.push_back(choice);
      c.bound += choices_[choice].bound;
    }
    all_axes_.insert(all_axes_.end(), axes.begin(), axes.end());
    found_.push_back(c);
  }

  /// What one device may do: no more than in the layout of the largest tensor, the result's among
  /// equals; where operands are contracted with each other, no more than in the result's, nor than
  /// in one that both have. Arrays of a few elements would otherwise be computed in full on each
  /// device to save a collective's latency.
  double allowed_work() const {
    std::vector<std::size_t> large_operands;
    bool reduces = false, slides = false;
    for (std::size_t t = 0; t < operand_count_; ++t) {
      if (!tensors_[t].shape->dims.empty()) large_operands.push_back(t);
    }
    for (std::size_t f = 0; f < info_.size(); ++f) {
      reduces |= info_[f].carries && !info_[f].in_result;
      slides |= rule_.factors[f].kind == FactorKind::permutation;
    }
    double least = std::numeric_limits<double>::infinity();
    if (reduces && large_operands.size() > 1) {
      // A convolution's kernel is small, and not worth moving the rest for.
      if (slides) return least;
      for (std::size_t t = operand_count_; t < tensors_.size(); ++t) {
        least = std::min(least, work(own_layout(t)));
      }
      FactorAxes common = own_layout(large_operands[0]);
      const FactorAxes other = own_layout(large_operands[1]);
      for (std::size_t f = 0; f < common.size(); ++f) {
        if (info_[f].in_result || common[f] != other[f]) common[f].clear();
      }
      least = std::min(least, work(common));
      // A sum of parts that is smaller than what it is made of.
      std::int64_t result = 0;
      for (std::size_t t = operand_count_; t < tensors_.size(); ++t) {
        result += tensors_[t].shape->element_count();
      }
      for (std::size_t t : large_operands) {
        FactorAxes own = own_layout(t);
        for (std::size_t f = 0; f < own.size(); ++f) {
          if (info_[f].in_result) own[f].clear();
        }
        if (result < tensors_[t].shape->element_count()) least = std::min(least, work(own));
      }
    } else {
      std::size_t largest = 0;
      auto elements = [&](std::size_t i) { return tensors_[i].shape->element_count(); };
      for (std::size_t t = 1; t < tensors_.size(); ++t) {
        if (elements(t) >= elements(largest)) largest = t;
      }
      least = work(own_layout(largest));
    }
    // Rounded up, as shares are sums of products.
    return least * (1 + 1e-9);
  }

  /// A tensor's own split, as far as work can follow it.
  FactorAxes own_layout(std::size_t t) const {
    FactorAxes axes(rule_.factors.size());
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (info_[f].carries && fits(f, projections_[t].factors[f].axes)) {
        axes[f] = projections_[t].factors[f].axes;
      }
    }
    return axes;
  }

  /// Of one device's share.
  double work(const FactorAxes& axes) const {
    return machine_.work(flops_ * work_share(*mesh_, info_, axes));
  }

  // --- what a layout needs of one tensor -------------------------------------------------------

  struct Choice {
    std::size_t tensor, candidate;  ///< the first one that needs it
    double bound = 0;
    double cost = -1;  ///< exact, once it was needed
  };

  std::size_t choice_of(std::size_t t, const FactorAxes& axes) {
    std::string& key = key_;
    key.assign(1, char(t));
    for (std::size_t f = 0; f < axes.size(); ++f) {
      bool sum = tensors_[t].is_result && !info_[f].in_result;
      if (!projections_[t].present[f] && !sum) continue;
      for (int a : axes[f]) key.push_back(char(a + 1));
      key.push_back(0);
    }
    const auto [it, fresh] = choice_index_.try_emplace(key, choices_.size());
    if (fresh) {
      const Tensor& tensor = tensors_[t];
      TensorSharding& need = needs_[t];
      tensor_sharding(mesh_, rule_, info_, *tensor.factors, tensor.is_result, axes, &need);
      const TensorSharding &from = tensor.is_result ? need : *tensor.sharding,
                           &to = tensor.is_result ? *tensor.sharding : need;
      choices_.push_back(
          {t, found_.size(), reshard_lower_bound(from, to, dims_of(t), bytes_of(t), machine_)});
    }
    return it->second;
  }

  TensorSharding required(const Tensor& t, const FactorAxes& axes) const {
    TensorSharding s = tensor_sharding(mesh_, rule_, info_, *t.factors, t.is_result, axes);
    s.manual = t.sharding->manual;
    return s;
  }

  const Dims& dims_of(std::size_t t) const { return tensors_[t].shape->dims; }
  std::int64_t bytes_of(std::size_t t) const {
    return std::max<std::int64_t>(1, std::int64_t(byte_size(tensors_[t].shape->dtype)));
  }

  double cost_of(std::size_t choice) {
    Choice& c = choices_[choice];
    if (c.cost < 0) {
      ++plans_;
      const Tensor& tensor = tensors_[c.tensor];
      const TensorSharding need = required(tensor, axes_of(c.candidate));
      const bool result = tensor.is_result;
      c.cost = reshards_.price(result ? need : *tensor.sharding, result ? *tensor.sharding : need,
                               dims_of(c.tensor), bytes_of(c.tensor), machine_);
    }
    return c.cost;
  }

  ComputeLayout best() {
    std::sort(found_.begin(), found_.end(), [](const Candidate& a, const Candidate& b) {
      return a.bound != b.bound ? a.bound < b.bound : a.number < b.number;
    });
    double least = std::numeric_limits<double>::infinity();
    const Candidate* winner = nullptr;
    for (const Candidate& c : found_) {
      if (c.bound >= least || (winner && plans_ >= kMaxPlans)) break;
      double cost = c.bound;
      for (std::size_t t = 0; t < tensors_.size() && cost < least; ++t) {
        const std::size_t choice = choices_of(c)[t];
        cost += cost_of(choice) - choices_[choice].bound;
      }
      if (cost < least) {
        least = cost;
        winner = &c;
      }
    }
    ComputeLayout layout = layout_of(axes_of(winner->number));
    layout.cost = least;
    return layout;
  }

  ComputeLayout layout_of(const FactorAxes& axes) {
    ComputeLayout layout;
    layout.factor_axes = axes;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      (tensors_[t].is_result ? layout.results : layout.operands)
          .push_back(required(tensors_[t], axes));
    }
    if (mesh_) layout.cost = work(axes);
    for (std::size_t i = 0; mesh_ && i < layout.results.size(); ++i) {
      const Tensor& t = tensors_[operand_count_ + i];
      layout.cost += reshards_.price(layout.results[i], *t.sharding, t.shape->dims,
                                     bytes_of(operand_count_ + i), machine_);
    }
    return layout;
  }

  ReshardPlanner& reshards_;
  const FactorRule& rule_;
  const std::vector<FactorUse> info_;
  const double flops_;
  const cost::Machine& machine_;
  bool contracts_ = false;
  double allowed_ = 0;  ///< seconds of work of one device
  MeshRef mesh_;
  std::vector<Tensor> tensors_;
  std::size_t operand_count_ = 0;
  std::vector<Projection> projections_;
  std::vector<TensorSharding> needs_;  ///< by tensor: of the choice that is looked at
  std::vector<IndexList> blocks_;
  std::vector<Candidate> found_;
  std::vector<IndexList> all_axes_;       ///< [candidate][factor]
  std::vector<std::size_t> all_choices_;  ///< [candidate][tensor]
  int plans_ = 0;
  std::vector<Choice> choices_;
  std::unordered_map<std::string, std::size_t> choice_index_;
  std::string key_;  ///< of the choice that is looked up
};

}  // namespace

ComputeLayout search_layout(ReshardPlanner& reshards, const LayoutProblem& problem,
                            const cost::Machine& machine) {
  return LayoutSearch(reshards, problem, machine).run();
}

std::optional<ComputeLayout> agreed_layout(const FactorRule& rule,
                                           const std::vector<TensorSharding>& operands,
                                           const std::vector<TensorSharding>& results) {
  MeshRef mesh;
  for (const auto* list : {&operands, &results}) {
    for (const TensorSharding& s : *list) {
      if (s.mesh) mesh = s.mesh;
    }
  }
  if (!mesh || operands.size() != rule.operands.size() || results.size() != rule.results.size()) {
    return std::nullopt;
  }
  const std::vector<FactorUse> uses = factor_uses(rule);
  ComputeLayout out{std::vector<IndexList>(rule.factors.size()), operands, results, 0};
  const auto take = [&](const TensorFactors& factors, const TensorSharding& s) {
    if (s.rank() != std::int64_t(factors.size())) return false;
    const Projection seen = project(*mesh, rule, factors, s);
    for (std::size_t f = 0; f < seen.factors.size(); ++f) {
      if (!seen.present[f] || seen.factors[f].axes.empty()) continue;
      if (!uses[f].carries) return false;
      out.factor_axes[f] = seen.factors[f].axes;
    }
    return !seen.overflow;
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].unreduced.empty() || !take(rule.operands[i], operands[i])) {
      return std::nullopt;
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!take(rule.results[i], results[i])) return std::nullopt;
  }
  for (const bool is_result : {false, true}) {
    const auto& factors = is_result ? rule.results : rule.operands;
    const auto& given = is_result ? results : operands;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!same_layout(given[i],
                       tensor_sharding(mesh, rule, uses, factors[i], is_result, out.factor_axes)))
        return std::nullopt;
    }
  }
  return out;
}

}  // namespace tessera::spmd
