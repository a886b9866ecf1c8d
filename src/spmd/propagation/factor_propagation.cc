// SPDX-License-Identifier: Apache-2.0
// Basic and aggressive propagation of axes along the factors of one op.
#include "src/spmd/propagation/factor_propagation.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "src/base/contains.h"
#include "src/base/threads/thread_scratch.h"
#include "src/spmd/propagation/provenance.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd::propagation {
namespace {

struct Tensor {
  int value = 0;
  const TensorFactors* factors = nullptr;
  bool is_result = false;
  Projection projection;
};

/// What one op after the other is worked on in, so that memory is asked for but a few times.
struct Scratch {
  std::vector<Tensor> tensors;  ///< those of the last ops stay, with what they hold
  std::vector<IndexList> chains;
  IndexList agreed, proposed;
  std::vector<std::size_t> order;
};

/// One op's step: project the shardings of its tensors onto the factors of its rule, find the axes
/// that each factor may have, and project those back onto the tensors.
///
/// Examples, on a mesh <x=2, y=4, z=2>. `-` is a dim without axes, `?` an open one; all others that
/// are given are closed, the result is open.
///
/// Basic (Shardy's BasicFactorPropagation: what no tensor objects to). a + b, both f32[16,16]:
///    a       b          result
///    x,y|-   x?|-?      x,y|-    b becomes x,y|-, too
///    x,y|-   x|-        x|-      b is closed: the factor of rows has x in both
///    x,y|-   x,z|-      x|-      they differ after x, so that no more than x flows
///    x|-     -|x        -|-      each refuses x on the other one's factor
/// a·b, f32[64,16] times f32[16,8]: factors m, n (of the result) and k (contracted):
///    x|y     open       x|-      b becomes y|-: the result has no k, and y isn't used there
///    x|-     -|x        -|-      m and n both want x, and the result can have it once
/// reshape f32[2,8,4] -> f32[16,4]; the merged dim has the factors 2 (major) and 8:
///    x|y|-              x,y|-
///
/// Aggressive (Shardy's AggressiveFactorPropagation: each tensor takes what it can; conflicts are
/// settled by the order of factors, that of the largest tensor first):
///    a + b  x,y|-   x|-        x,y|-    the closed b stays behind, and is resharded
///    a + b  x,y|-   x,z|-      x|-      a contradiction within one factor stays one
///    a + b  x|-     -|x        x|-      equal sizes: the first operand's factor is served first
///    a·b    x|-     -|x        x|-      a is larger than b, so that m is served before n
class OpPropagation {
 public:
  OpPropagation(Graph* graph, const Op& op, const Permission& permission, bool aggressive,
                IndexList* changed, Scratch* scratch)
      : graph_(*graph),
        op_(op),
        permission_(permission),
        aggressive_(aggressive),
        changed_(changed),
        scratch_(*scratch) {}

  bool run() {
    if (nothing_to_do()) return true;
    flow();
    return op_.elementwise && !changed_->empty() && nothing_to_do();
  }

 private:
  void flow() {
    collect();
    // Axes that would flow if no tensor refused them, by factor.
    const std::size_t factors = op_.rule->factors.size();
    std::vector<IndexList>& chains = scratch_.chains;
    chains.resize(std::max(chains.size(), factors));
    bool any = false;
    for (std::size_t f = 0; f < factors; ++f) {
      chains[f].clear();
      if (flows(f)) chain(f, &chains[f]);
      any = any || !chains[f].empty();
    }
    if (!any) return;
    set_order(factors);
    for (std::size_t f : scratch_.order) {
      if (chains[f].empty()) continue;
      IndexList& agreed = scratch_.agreed;
      chain(f, &agreed);
      if (!aggressive_) {
        for (const Tensor& t : tensors_) agreed.resize(agreed_to(t, f, agreed));
      }
      extend(f, agreed);
    }
  }

  const LogicalMesh& mesh() const {
    return *graph_.values[std::size_t(tensors_[0].value)].sharding.mesh;
  }
  Value& value(const Tensor& t) { return graph_.values[std::size_t(t.value)]; }
  const Value& value(const Tensor& t) const { return graph_.values[std::size_t(t.value)]; }

  /// The common cases: no tensor is split, or all are split alike.
  bool nothing_to_do() const {
    bool split = false, equal = op_.elementwise;
    const TensorSharding* first = nullptr;
    for (const auto* list : {&op_.operands, &op_.results}) {
      for (int v : *list) {
        const Value& value = graph_.values[std::size_t(v)];
        if (!value.active) continue;
        const TensorSharding& s = value.sharding;
        if (!first) first = &s;
        equal = equal && s.dims.size() == first->dims.size();
        for (std::size_t d = 0; d < s.dims.size(); ++d) {
          split = split || !s.dims[d].axes.empty();
          equal = equal && s.dims[d].axes == first->dims[d].axes;
        }
      }
    }
    return !split || equal;
  }

  void collect() {
    std::vector<Tensor>& all = scratch_.tensors;
    all.resize(std::max(all.size(), op_.operands.size() + op_.results.size()));
    std::size_t count = 0;
    auto add = [&](const IndexList& values, const std::vector<TensorFactors>& factors,
                   bool is_result) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Value& v = graph_.values[std::size_t(values[i])];
        if (!v.active) continue;
        Tensor& t = all[count++];
        t.value = values[i];
        t.factors = &factors[i];
        t.is_result = is_result;
        project(*v.sharding.mesh, *op_.rule, factors[i], v.sharding, &t.projection);
      }
    };
    add(op_.operands, op_.rule->operands, false);
    add(op_.results, op_.rule->results, true);
    tensors_ = std::span(all).first(count);
  }

  bool flows(std::size_t f) const {
    const Factor& factor = op_.rule->factors[f];
    return !factor.blocked && (permission_.all_kinds || factor.kind == FactorKind::pass_through);
  }

  bool is_source(const Tensor& t) const {
    return t.is_result ? permission_.backward : permission_.forward;
  }
  bool is_target(const Tensor& t) const {
    return (t.is_result ? permission_.forward : permission_.backward) ||
           // Operands learn from each other where both ways are open.
           (permission_.forward && permission_.backward);
  }

  /// The longest list that no tensor contradicts; where two differ, what they have in common.
  void chain(std::size_t f, IndexList* to) const {
    IndexList& longest = *to;
    longest.clear();
    std::size_t cap = std::size_t(-1);
    for (const Tensor& t : tensors_) {
      if (!t.projection.present[f] || !is_source(t)) continue;
      const IndexList& list = t.projection.factors[f].axes;
      auto common = std::size_t(
          std::mismatch(list.begin(),
                        list.begin() + std::ptrdiff_t(std::min(list.size(), longest.size())),
                        longest.begin())
              .first -
          list.begin());
      if (common < std::min(list.size(), longest.size())) {
        cap = std::min(cap, common);
      } else if (list.size() > longest.size()) {
        longest = list;
      }
    }
    if (longest.size() > cap) longest.resize(cap);
  }

  /// Length up to which a tensor could take `axes` on factor `f`.
  std::size_t refused_from(const Tensor& t, std::size_t f, const IndexList& axes) const {
    const TensorSharding& s = value(t).sharding;
    const IndexList& have = t.projection.factors[f].axes;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (k < have.size() && have[k] == axes[k]) continue;
      int a = axes[k];
      if (contains(s.replicated, a) || contains(s.unreduced, a) || contains(s.manual, a)) return k;
      if (s.uses_axis(a)) return k;
    }
    return axes.size();
  }

  /// What the careful strategy lets flow: what each tensor can take that has the factor, and none
  /// has on another one.
  std::size_t agreed_to(const Tensor& t, std::size_t f, const IndexList& axes) const {
    if (t.projection.present[f]) {
      return std::min({refused_from(t, f, axes), axes.size(),
                       std::max(t.projection.factors[f].axes.size(), cut_to(t, f, axes))});
    }
    const TensorSharding& s = value(t).sharding;
    const auto used = std::find_if(axes.begin(), axes.end(), [&](int a) { return s.uses_axis(a); });
    return std::size_t(used - axes.begin());
  }

  struct Place {
    std::size_t dim = 0;
    bool minor_most = true, compound = false;
  };
  Place place(const Tensor& t, std::size_t f) const {
    for (std::size_t d = 0; d < t.factors->size(); ++d) {
      const auto& dim = (*t.factors)[d];
      if (contains(dim, int(f))) return {d, dim.back() == int(f), dim.size() > 1};
    }
    return {};
  }

  /// Length up to which the dim that factor `f` is of can be cut.
  std::size_t cut_to(const Tensor& t, std::size_t f, const IndexList& axes) const {
    const ProjectedFactor& have = t.projection.factors[f];
    const Value& v = value(t);
    Place at = place(t, f);
    if (!v.sharding.dims[at.dim].open || !have.extendable) return have.axes.size();
    std::int64_t factor_size = at.compound ? op_.rule->factors[f].size : v.dims[at.dim];
    std::int64_t others = 1;
    for (int a : v.sharding.dims[at.dim].axes) {
      if (!contains(have.axes, a)) others *= mesh().axes[std::size_t(a)].size;
    }
    std::int64_t ways = 1;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      ways *= mesh().axes[std::size_t(axes[k])].size;
      if (k < have.axes.size()) continue;
      bool even = factor_size % ways == 0;
      if (!even && (at.compound || !at.minor_most)) return k;
      // More parts than elements would leave devices idle.
      bool idle = ways > factor_size;
      if (idle || (v.boundary && v.dims[at.dim] % (others * ways) != 0)) {
        return std::max(have.axes.size(), between_axes(axes, k));
      }
    }
    return axes.size();
  }

  /// The largest length up to `k` that doesn't end within a named axis: a dim that is too short for
  /// an axis does without, rather than with a part of it.
  std::size_t between_axes(const IndexList& axes, std::size_t k) const {
    for (; k > 0 && k < axes.size(); --k) {
      const MeshAxis& last = mesh().axes[std::size_t(axes[k - 1])];
      const MeshAxis& next = mesh().axes[std::size_t(axes[k])];
      if (last.name != next.name || last.pre * last.size != next.pre) break;
    }
    return k;
  }

  void extend(std::size_t f, const IndexList& axes) {
    if (axes.empty()) return;
    for (bool results : {true, false}) {
      for (Tensor& t : tensors_) {
        if (t.is_result != results || !t.projection.present[f] || !is_target(t)) continue;
        const IndexList& have = t.projection.factors[f].axes;
        // Nothing more to take, or a contradiction.
        if (have.size() >= axes.size()) continue;
        if (!std::equal(have.begin(), have.end(), axes.begin())) continue;
        IndexList& proposed = scratch_.proposed;
        proposed = axes;
        proposed.resize(refused_from(t, f, proposed));
        proposed.resize(std::min(proposed.size(), cut_to(t, f, proposed)));
        if (op_.elementwise && !results) keep_to_result(f, &proposed);
        if (proposed.size() > have.size()) update(t, f, proposed);
      }
    }
  }

  /// An operand of an elementwise op gains nothing from axes that the result doesn't have.
  void keep_to_result(std::size_t f, IndexList* proposed) const {
    for (const Tensor& t : tensors_) {
      if (!t.is_result || !t.projection.present[f]) continue;
      const IndexList& got = t.projection.factors[f].axes;
      auto common =
          std::mismatch(proposed->begin(),
                        proposed->begin() + std::ptrdiff_t(std::min(proposed->size(), got.size())),
                        got.begin())
              .first -
          proposed->begin();
      proposed->resize(std::size_t(common));
    }
  }

  void update(Tensor& t, std::size_t f, const IndexList& axes) {
    Value& v = value(t);
    std::size_t dim = place(t, f).dim;
    std::vector<IndexList> lists(op_.rule->factors.size());
    for (int g : (*t.factors)[dim])
      lists[std::size_t(g)] = t.projection.factors[std::size_t(g)].axes;
    lists[f] = axes;
    bool complete = true;
    IndexList whole = dim_axes(mesh(), *op_.rule, (*t.factors)[dim], lists, &complete);
    IndexList& now = v.sharding.dims[dim].axes;
    if (!complete || whole.size() <= now.size() ||
        !std::equal(now.begin(), now.end(), whole.begin())) {
      return;
    }
    if (graph_.provenance)
      tell(t, f, dim, {whole.begin() + std::ptrdiff_t(now.size()), whole.end()});
    now = std::move(whole);
    ++graph_.versions[std::size_t(t.value)];
    changed_->push_back(t.value);
    for (Tensor& other : tensors_) {
      if (other.value == t.value) {
        project(mesh(), *op_.rule, *other.factors, v.sharding, &other.projection);
      }
    }
  }

  /// Tells where new axes of a dim come from: the tensors that had them on the factor before.
  void tell(const Tensor& t, std::size_t f, std::size_t dim, const IndexList& axes) const {
    Provenance& to = *graph_.provenance;
    for (std::size_t k = 0; k < axes.size();) {
      Cause c;
      c.kind = Cause::Kind::rule;
      c.dim = int(dim);
      c.op = int(&op_ - graph_.ops.data());
      c.factor = int(f);
      auto had = [&](const Tensor& s, int a) {
        return s.value != t.value && s.projection.present[f] &&
               contains(s.projection.factors[f].axes, a);
      };
      for (bool sources : {true, false}) {
        for (const Tensor& s : tensors_) {
          if (c.from >= 0 || (sources && !is_source(s)) || !had(s, axes[k])) continue;
          c.from = s.value;
          c.from_dim = int(place(s, f).dim);
          for (; k < axes.size() && had(s, axes[k]); ++k) c.axes.push_back(axes[k]);
          break;
        }
      }
      if (c.axes.empty()) c.axes.push_back(axes[k++]);
      to.add(t.value, std::move(c));
    }
  }

  /// Factors in the order that they are served: those first that come from the largest array, then,
  /// between arrays of one size, those that are split the most.
  void set_order(std::size_t count) {
    std::vector<std::size_t>& factors = scratch_.order;
    factors.resize(count);
    std::iota(factors.begin(), factors.end(), std::size_t(0));
    if (!aggressive_) return;
    struct Rank {
      double elements = -1;
      std::int64_t ways = 1;
      std::size_t tensor = 0;
    };
    std::vector<Rank> ranks(count);
    for (std::size_t f = 0; f < count; ++f) {
      const IndexList& axes = scratch_.chains[f];
      if (axes.empty()) continue;
      if (op_.elementwise) ranks[f].ways = ways_of(mesh(), axes);
      for (std::size_t t = 0; t < tensors_.size(); ++t) {
        const Tensor& tensor = tensors_[t];
        if (!tensor.projection.present[f]) continue;
        const IndexList& has = tensor.projection.factors[f].axes;
        const bool gives =
            has.size() >= axes.size() && std::equal(axes.begin(), axes.end(), has.begin());
        double elements = 1;
        for (std::int64_t n : value(tensor).dims) elements *= double(n);
        if (gives && elements > ranks[f].elements) {
          ranks[f].elements = elements;
          ranks[f].tensor = t;
        }
      }
    }
    std::stable_sort(factors.begin(), factors.end(), [&](std::size_t a, std::size_t b) {
      const Rank &x = ranks[a], &y = ranks[b];
      if (x.elements != y.elements) return x.elements > y.elements;
      if (x.ways != y.ways) return x.ways > y.ways;
      return x.tensor < y.tensor;
    });
  }

  Graph& graph_;
  const Op& op_;
  const Permission& permission_;
  const bool aggressive_;
  IndexList* changed_;
  Scratch& scratch_;
  std::span<Tensor> tensors_;
};

}  // namespace

bool propagate_op(Graph* graph, const Op& op, const Permission& permission, bool aggressive,
                  IndexList* changed) {
  return OpPropagation(graph, op, permission, aggressive, changed, &thread_scratch<Scratch>())
      .run();
}

}  // namespace tessera::spmd::propagation
