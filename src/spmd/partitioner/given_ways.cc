// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/partitioner/given_ways.h"

#include <algorithm>

#include "src/spmd/partitioner/given_dot.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd {
namespace {

bool has(const IndexList& axes, int a) {
  return std::find(axes.begin(), axes.end(), a) != axes.end();
}
bool within(const IndexList& some, const IndexList& all) {
  return std::all_of(some.begin(), some.end(), [&](int a) { return has(all, a); });
}
bool disjoint(const IndexList& some, const IndexList& others) {
  return std::none_of(some.begin(), some.end(), [&](int a) { return has(others, a); });
}
void add(const IndexList& axes, IndexList* to) {
  for (const int a : axes) {
    if (!has(*to, a)) to->push_back(a);
  }
}

class GivenWays {
 public:
  GivenWays(const FactorRule& rule, const std::vector<const TensorSharding*>& operands,
            const std::vector<const TensorSharding*>& results)
      : rule_(rule), wanted_(rule.factors.size(), nullptr) {
    for (const TensorSharding* s : operands) meet(*s);
    for (std::size_t k = 0; k < results.size(); ++k) {
      meet(*results[k]);
      each(rule.results[k], *results[k], [&](std::size_t f, const IndexList& axes) {
        wanted_[f] = &axes;
        add(axes, &cut_);
      });
    }
    if (!mesh_ || operands.size() != 2) return;
    for (std::size_t k = 0; k < 2; ++k) {
      each(rule.operands[k], *operands[k], [&](std::size_t f, const IndexList& axes) {
        add(axes, rule.factors[f].kind == FactorKind::reduction ? &summed_[k] : &own_[k]);
        if (!wanted_[f]) return;
        for (const int a : *wanted_[f]) {
          if (has(axes, a)) add({a}, &matched_);
        }
      });
    }
    for (std::size_t a = 0; a < mesh_->axes.size(); ++a) {
      if (!has(cut_, int(a)) && mesh_->axes[a].size > 1) rest_.push_back(int(a));
    }
  }

  double count() const {
    if (!mesh_) return 1;
    const double ways = size_of(cut_);
    if (sums_rest(0) || sums_rest(1)) return ways * size_of(rest_);
    // Partial sums where both operands are split alike along the summed dims.
    if (!within(summed_[0], summed_[1]) || !within(summed_[1], summed_[0])) {
      return summed_[0].empty() || size_of(summed_[0]) != size_of(summed_[1])
                 ? ways
                 : std::max(ways, size_of(summed_[0]));
    }
    IndexList together = matched_;
    add(summed_[0], &together);
    double most = std::max({ways, size_of(summed_[0]), size_of(together)});
    if (cut_.empty() || summed_[0].empty()) return most;
    for (const std::size_t k : {0, 1}) {
      IndexList beside;
      for (const int a : own_[k]) {
        if (!has(summed_[1 - k], a)) beside.push_back(a);
      }
      most = std::max(most, size_of(beside));
    }
    return most;
  }

 private:
  void meet(const TensorSharding& s) {
    if (s.mesh) mesh_ = s.mesh.get();
  }
  template <class Use>
  static void each(const TensorFactors& factors, const TensorSharding& s, Use&& use) {
    if (s.dims.size() != factors.size()) return;
    for (std::size_t d = 0; d < factors.size(); ++d) {
      const IndexList& axes = s.dims[d].axes;
      if (factors[d].size() == 1 && !axes.empty()) use(std::size_t(factors[d][0]), axes);
    }
  }
  double size_of(const IndexList& axes) const { return double(ways_of(*mesh_, axes)); }
  double elements(const TensorFactors& dims) const {
    double n = 1;
    for (const IndexList& dim : dims) {
      for (const int f : dim) n *= double(rule_.factors[std::size_t(f)].size);
    }
    return n;
  }

  /// Whether the operands lie as the result does but for the summed dims of the k-th, split in all
  /// other axes: partial sums then. From an operand that is whole they take more bytes than
  /// gathering unless the result is the smaller one.
  bool sums_rest(std::size_t k) const {
    if (rest_.empty() || cut_.empty() || !within(cut_, matched_)) return false;
    const IndexList &summed = summed_[1 - k], &own = own_[1 - k];
    if (!within(rest_, summed_[k]) || !disjoint(rest_, own)) return false;
    if (!summed.empty()) return true;
    if (own.empty()) return elements(rule_.results[0]) < elements(rule_.operands[k]);
    return disjoint(cut_, summed_[k]);
  }

  const FactorRule& rule_;
  const LogicalMesh* mesh_ = nullptr;
  std::vector<const IndexList*> wanted_;  ///< by factor: the result's axes
  IndexList cut_, rest_;                  ///< the axes of the result, and all others
  IndexList summed_[2], own_[2];          ///< the operands', along summed dims and along others
  IndexList matched_;                     ///< of the result's: that an operand has on the same dim
};

}  // namespace

double ways_as_given(const FactorRule& rule, const std::vector<const TensorSharding*>& operands,
                     const std::vector<const TensorSharding*>& results) {
  if (const auto ways = ways_of_given_dot(rule, operands, results)) return *ways;
  return GivenWays(rule, operands, results).count();
}

}  // namespace tessera::spmd
