// SPDX-License-Identifier: Apache-2.0
// Eliminates nodes of pairwise models one after the other.
#include "src/spmd/auto_sharding/elimination.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace tessera::spmd::auto_sharding {
namespace {

/// States of a node and its neighbours at the time, multiplied.
constexpr double kMostCombined = 1 << 16;

/// Whole numbers, so that sums in any order are the same.
std::int64_t log_of(double count) { return std::int64_t(std::llround(std::log2(count) * 1024)); }

void insert_sorted(std::vector<int>* list, int x) {
  const auto at = std::lower_bound(list->begin(), list->end(), x);
  if (at == list->end() || *at != x) list->insert(at, x);
}
void erase_sorted(std::vector<int>* list, int x) {
  const auto at = std::lower_bound(list->begin(), list->end(), x);
  if (at != list->end() && *at == x) list->erase(at);
}

}  // namespace

Elimination::Elimination(const PairwiseModel& model, std::size_t most_states, bool only_exact)
    : model_(model), most_states_(most_states), times_kept_(model.nodes.size(), 0) {
  plan(only_exact);
}

int Elimination::next_to_keep(const std::vector<std::vector<int>>& neighbors,
                              const std::vector<char>& gone,
                              const std::vector<std::int64_t>& log_states) const {
  int best = -1;
  std::pair<int, std::int64_t> least;
  for (std::size_t n = 0; n < gone.size(); ++n) {
    if (gone[n]) continue;
    const std::pair<int, std::int64_t> by{times_kept_[n],
                                          -log_states[n] * std::int64_t(neighbors[n].size())};
    if (best >= 0 && by >= least) continue;
    best = int(n);
    least = by;
  }
  return best;
}

void Elimination::plan(bool only_exact) {
  const std::size_t count = model_.nodes.size();
  std::vector<std::vector<int>> neighbors(count);
  std::vector<std::int64_t> log_states, weight;
  std::vector<char> gone(count, 0);
  for (std::size_t n = 0; n < count; ++n) log_states.push_back(log_of(double(states_of(int(n)))));
  for (const PairwiseModel::Edge& e : model_.edges) {
    // One that has no choice is like a kept one to its neighbors.
    if (states_of(e.variable) < 2 || states_of(e.factor) < 2) continue;
    insert_sorted(&neighbors[std::size_t(e.variable)], e.factor);
    insert_sorted(&neighbors[std::size_t(e.factor)], e.variable);
  }
  const std::int64_t limit = log_of(kMostCombined);
  // The least weight first; entries that are out of date are passed over.
  std::priority_queue<std::pair<std::int64_t, int>, std::vector<std::pair<std::int64_t, int>>,
                      std::greater<>>
      next;
  for (std::size_t n = 0; n < count; ++n) {
    weight.push_back(log_states[n]);
    for (const int m : neighbors[n]) weight[n] += log_states[std::size_t(m)];
    next.emplace(weight[n], int(n));
  }
  order_.clear();
  kept_.clear();
  place_.assign(count, -1);
  scope_.assign(count, {});
  while (!next.empty()) {
    const auto [least, first] = next.top();
    if (gone[std::size_t(first)] || least != weight[std::size_t(first)]) {
      next.pop();
      continue;
    }
    const bool fits = least <= limit;
    if (!fits && only_exact) return kept_.push_back(first);
    const int n = fits ? first : next_to_keep(neighbors, gone, log_states);
    const std::vector<int> around = std::move(neighbors[std::size_t(n)]);
    gone[std::size_t(n)] = 1;
    for (const int m : around) {
      std::vector<int>& of_m = neighbors[std::size_t(m)];
      std::int64_t now = weight[std::size_t(m)] - log_states[std::size_t(n)];
      erase_sorted(&of_m, n);
      for (const int o : around) {
        if (!fits || o == m) continue;
        const std::size_t before = of_m.size();
        insert_sorted(&of_m, o);
        if (of_m.size() > before) now += log_states[std::size_t(o)];
      }
      if (now == weight[std::size_t(m)]) continue;
      next.emplace(now, m);
      weight[std::size_t(m)] = now;
    }
    if (fits) {
      place_[std::size_t(n)] = int(order_.size());
      order_.push_back(n);
      scope_[std::size_t(n)] = around;
    } else {
      kept_.push_back(n);
      ++times_kept_[std::size_t(n)];
    }
  }
  for (std::vector<int>& scope : scope_) {
    std::sort(scope.begin(), scope.end(),
              [&](int a, int b) { return place_[std::size_t(a)] < place_[std::size_t(b)]; });
    std::erase_if(scope, [&](int m) { return place_[std::size_t(m)] < 0; });
  }
}

std::span<double> Elimination::Numbers::take(std::size_t count) {
  // Small enough that memory is kept for the next, large enough that there are few.
  constexpr std::size_t kBlock = 1 << 13;
  while (left_.size() < count) {
    if (used_ == blocks_.size()) blocks_.emplace_back(std::max(count, kBlock));
    left_ = blocks_[used_++];
  }
  const std::span<double> out = left_.first(count);
  left_ = left_.subspan(count);
  return out;
}

void Elimination::Numbers::clear() {
  used_ = 0;
  left_ = {};
}

std::vector<int> Elimination::round(std::vector<int> states) {
  numbers_.clear();
  own_.clear();
  for (const PairwiseModel::Node& node : model_.nodes) {
    own_.push_back(numbers_.take(node.cost.size()));
    std::copy(node.cost.begin(), node.cost.end(), own_.back().begin());
  }
  bucket_.resize(model_.nodes.size());
  for (std::vector<Table>& bucket : bucket_) bucket.clear();
  edge_scope_.resize(model_.edges.size());
  for (std::size_t at = 0; at < model_.edges.size(); ++at) {
    const PairwiseModel::Edge& e = model_.edges[at];
    const auto v = std::size_t(e.variable), f = std::size_t(e.factor);
    const bool fixed_v = place_[v] < 0 || states_of(e.variable) < 2,
               fixed_f = place_[f] < 0 || states_of(e.factor) < 2;
    const int at_v = place_[v] < 0 ? states[v] : 0, at_f = place_[f] < 0 ? states[f] : 0;
    const std::size_t of_v = states_of(e.variable), of_f = states_of(e.factor);
    if (fixed_v && fixed_f) continue;
    if (fixed_f) {
      for (std::size_t x = 0; x < of_v; ++x) {
        own_[v][x] += e.at(int(x), e.column[std::size_t(at_f)]);
      }
    } else if (fixed_v) {
      for (std::size_t k = 0; k < of_f; ++k) own_[f][k] += e.at(at_v, e.column[k]);
    } else {
      const bool variable_first = place_[v] < place_[f];
      edge_scope_[at] = {variable_first ? e.variable : e.factor,
                         variable_first ? e.factor : e.variable};
      const Table table = start_table(edge_scope_[at]);
      double* out = table.values.data();
      if (variable_first) {
        for (std::size_t x = 0; x < of_v; ++x) {
          for (std::size_t k = 0; k < of_f; ++k) *out++ = e.at(int(x), e.column[k]);
        }
      } else {
        for (std::size_t k = 0; k < of_f; ++k) {
          for (std::size_t x = 0; x < of_v; ++x) *out++ = e.at(int(x), e.column[k]);
        }
      }
      add(table);
    }
  }
  for (const int n : order_) eliminate(n);
  for (auto n = order_.rbegin(); n != order_.rend(); ++n) {
    states[std::size_t(*n)] = best_state(*n, states);
  }
  if (!kept_.empty()) plan();
  return states;
}

Elimination::Table Elimination::start_table(std::span<const int> scope) {
  std::size_t size = 1;
  for (const int m : scope) size *= states_of(m);
  return {scope, numbers_.take(size)};
}

void Elimination::add(const Table& table) {
  std::vector<Table>& bucket = bucket_[std::size_t(table.scope[0])];
  const auto known = std::find_if(bucket.begin(), bucket.end(), [&](const Table& t) {
    return std::equal(t.scope.begin(), t.scope.end(), table.scope.begin(), table.scope.end());
  });
  if (known == bucket.end()) return bucket.push_back(table);
  for (std::size_t k = 0; k < table.values.size(); ++k) known->values[k] += table.values[k];
  numbers_.give_back(table.values);
}

int Elimination::best_state(int node, const std::vector<int>& states) {
  const std::span<const double> own = own_[std::size_t(node)];
  costs_.assign(own.begin(), own.end());
  for (const Table& t : bucket_[std::size_t(node)]) {
    std::size_t at = 0, stride = 1;
    for (std::size_t k = t.scope.size(); k-- > 1;) {
      at += stride * std::size_t(states[std::size_t(t.scope[k])]);
      stride *= states_of(t.scope[k]);
    }
    for (std::size_t s = 0; s < costs_.size(); ++s) costs_[s] += t.values[at + s * stride];
  }
  const double least = *std::min_element(costs_.begin(), costs_.end());
  // Sums in another order differ in their last bits.
  const double most = least + 1e-12 * std::abs(least);
  return int(std::find_if(costs_.begin(), costs_.end(), [&](double c) { return c <= most; }) -
             costs_.begin());
}

void Elimination::eliminate(int node) {
  const std::vector<int>& scope = scope_[std::size_t(node)];
  if (scope.empty()) return;
  const std::size_t outer = scope.size() - 1, width = states_of(scope.back());
  /// A table of the bucket, and where its row for the present states begins.
  struct Reader {
    const Table* table;
    std::size_t stride;                ///< of the node
    std::vector<std::size_t> strides;  ///< by dim of the result but the last
    bool has_last;
    const double* at;
  };
  const Table result = start_table(scope);
  std::fill(result.values.begin(), result.values.end(), std::numeric_limits<double>::infinity());
  std::vector<Reader> readers;
  for (const Table& t : bucket_[std::size_t(node)]) {
    Reader r{&t, 1, std::vector<std::size_t>(outer, 0), t.scope.back() == scope.back(),
             t.values.data()};
    for (std::size_t k = t.scope.size(); k-- > 1;) {
      const auto dim = std::find(scope.begin(), scope.end(), t.scope[k]) - scope.begin();
      if (std::size_t(dim) < outer) r.strides[std::size_t(dim)] = r.stride;
      r.stride *= states_of(t.scope[k]);
    }
    readers.push_back(std::move(r));
  }
  // Those with the last dim first.
  std::stable_partition(readers.begin(), readers.end(), [](const Reader& r) { return r.has_last; });
  const auto rows = std::size_t(
      std::count_if(readers.begin(), readers.end(), [](const Reader& r) { return r.has_last; }));
  const std::span<const double> own = own_[std::size_t(node)];
  std::vector<std::size_t> index(outer, 0);
  std::vector<double> sum(width);
  for (double* out = result.values.data();; out += width) {
    for (std::size_t s = 0; s < own.size(); ++s) {
      double base = own[s];
      for (std::size_t r = rows; r < readers.size(); ++r) {
        base += readers[r].at[s * readers[r].stride];
      }
      const double* row = readers[0].at + s * readers[0].stride;
      if (rows > 1) {
        for (std::size_t x = 0; x < width; ++x) sum[x] = row[x];
        for (std::size_t r = 1; r < rows; ++r) {
          const double* more = readers[r].at + s * readers[r].stride;
          for (std::size_t x = 0; x < width; ++x) sum[x] += more[x];
        }
        row = sum.data();
      }
      lower_to(out, row, base, width);
    }
    std::size_t d = outer;
    while (d-- > 0) {
      const bool wraps = ++index[d] == states_of(scope[d]);
      for (Reader& r : readers) {
        if (wraps) {
          r.at -= (index[d] - 1) * r.strides[d];
        } else {
          r.at += r.strides[d];
        }
      }
      if (!wraps) break;
      index[d] = 0;
    }
    if (d == std::size_t(-1)) break;
  }
  add(result);
}

}  // namespace tessera::spmd::auto_sharding
