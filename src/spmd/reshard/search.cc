// SPDX-License-Identifier: Apache-2.0
#include "src/spmd/reshard/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <queue>
#include <unordered_map>

namespace tessera::spmd::reshard {
namespace {

using Kind = ReshardStep::Kind;

// Beyond this many axes the moves that only reorder are limited to those that look useful.
constexpr int kFreeAxes = 4;
constexpr int kMaxPermutes = 128;
// Ties go to the shorter sequence.
constexpr double kStepCharge = 1e-3;

struct PlacementHash {
  std::size_t operator()(const Placement& p) const {
    std::uint64_t a, b;
    std::memcpy(&a, p.axis.data(), 8);
    std::memcpy(&b, p.axis.data() + 8, 8);
    std::uint64_t h = a * 0x9E3779B97F4A7C15ull ^ (b + p.target_padding) * 0xC2B2AE3D27D4EB4Full;
    return std::size_t(h ^ h >> 29);
  }
};

/// A placement spread out: the list of axes of each dim.
struct Lists {
  std::array<std::uint8_t, kMaxDims> count{};
  std::array<std::array<std::uint8_t, kMaxAxes>, kMaxDims> axes;
  std::array<double, kMaxDims> ways;
  unsigned unreduced = 0, unused = 0;
  std::uint16_t target_padding = 0;

  Lists(const SearchProblem& problem, const Placement& p) : target_padding(p.target_padding) {
    for (int d = 0; d < problem.dims; ++d) ways[d] = 1;
    for (int a = 0; a < problem.axes; ++a) {
      std::uint8_t c = p.axis[a];
      if (c == Placement::kUnused) {
        unused |= 1u << a;
      } else if (c == Placement::kUnreduced) {
        unreduced |= 1u << a;
      } else {
        axes[c >> 4][c & 15] = std::uint8_t(a);
        ++count[c >> 4];
        ways[c >> 4] *= problem.axis_size[a];
      }
    }
  }
};

double padded(const SearchProblem& problem, unsigned target_padding, int dim) {
  return target_padding >> dim & 1 ? problem.target_padded[dim] : problem.source_padded[dim];
}

double extent(const SearchProblem& problem, const Lists& s, int dim) {
  if (s.ways[dim] == 1) return problem.whole[dim];
  return padded(problem, s.target_padding, dim) / s.ways[dim];
}

bool divides(double parts, double whole) { return std::fmod(whole, parts) == 0; }

struct Node {
  Placement state;
  double distance = std::numeric_limits<double>::infinity();
  double estimate = 0;  ///< of what is left
  int parent = -1;
  bool closed = false;
  // The step that led here.
  Kind kind = Kind::slice;
  std::int8_t dim = 0, to_dim = 0;
  std::uint8_t axis_count = 0;
  std::array<std::uint8_t, kMaxAxes> axes;
  double bytes = 0, peak = 0;
};

class Search {
 public:
  Search(const SearchProblem& problem, double peak_limit)
      : problem_(problem), limit_(peak_limit), target_(problem, problem.target) {
    target_bytes_ = shard_bytes(problem, problem.target);
    both_ends_ = target_bytes_ + shard_bytes(problem, problem.source);
  }

  std::optional<SearchResult> run(int expansions) {
    reach(problem_.source, -1, Kind::slice, 0, 0, nullptr, 0, 0, 0);
    while (!queue_.empty()) {
      auto [f, order, index] = queue_.top();
      queue_.pop();
      if (nodes_[index].closed || f > nodes_[index].distance + nodes_[index].estimate) continue;
      nodes_[index].closed = true;
      if (nodes_[index].state == problem_.target) return trace(index);
      if (expansions-- <= 0) return std::nullopt;
      expand(index);
    }
    return std::nullopt;
  }

 private:
  /// Bytes that the busiest device must yet receive, at least, however they are sent.
  double estimate(const Placement& p) const {
    Lists s(problem_, p);
    double left;
    if (s.unreduced & ~target_.unreduced) {
      left = target_bytes_;
    } else {
      bool nested = true;
      double overlap = problem_.element_bytes;
      for (int d = 0; d < problem_.dims && nested; ++d) {
        int common = std::min(s.count[d], target_.count[d]);
        nested = std::equal(s.axes[d].begin(), s.axes[d].begin() + common, target_.axes[d].begin());
        overlap *= std::min(extent(problem_, s, d), extent(problem_, target_, d));
      }
      left = nested ? target_bytes_ - overlap : target_bytes_;
      if (left <= 0) return 0;
    }
    return left + problem_.model.latency_bytes;
  }

  void reach(const Placement& state, int parent, Kind kind, int dim, int to_dim,
             const std::uint8_t* axes, int axis_count, double bytes, double before_bytes) {
    double peak = 0, step = 0;
    if (parent >= 0) {
      // A sum is formed in its operand's place.
      bool in_place = kind == Kind::all_reduce || kind == Kind::reduce_scatter;
      peak = in_place ? before_bytes : before_bytes + shard_bytes(problem_, state);
      if (kind != Kind::slice && peak > limit_ * (1 + 1e-9)) return;
      step = kStepCharge + bytes;
      if (kind != Kind::slice) {
        step += problem_.model.latency_bytes * collectives(kind, parent, state) +
                problem_.model.bytes_per_peak_byte * std::max(0.0, peak - both_ends_);
      }
    }
    auto [it, fresh] = index_.try_emplace(state, int(nodes_.size()));
    if (fresh) {
      nodes_.emplace_back();
      nodes_.back().state = state;
      nodes_.back().estimate = estimate(state);
    }
    Node& node = nodes_[it->second];
    double distance = parent < 0 ? 0 : nodes_[parent].distance + step;
    if (distance >= node.distance) return;
    node.distance = distance;
    node.closed = false;
    node.parent = parent;
    node.kind = kind;
    node.dim = std::int8_t(dim);
    node.to_dim = std::int8_t(to_dim);
    node.axis_count = std::uint8_t(axis_count);
    std::copy(axes, axes + axis_count, node.axes.begin());
    node.bytes = bytes;
    node.peak = peak;
    queue_.push({distance + node.estimate, order_++, it->second});
  }

  /// A gather of several dims is one collective for each.
  int collectives(Kind kind, int parent, const Placement& state) const {
    if (kind != Kind::all_gather) return 1;
    unsigned dims = 0;
    for (int a = 0; a < problem_.axes; ++a) {
      std::uint8_t c = nodes_[parent].state.axis[a];
      if (c != state.axis[a]) dims |= 1u << (c >> 4);
    }
    return std::popcount(dims);
  }

  /// Calls use(target_padding) for each way that dim `d` can take `parts` more cuts.
  template <class Use>
  void for_each_padding(const Lists& s, int d, double parts, Use use) const {
    unsigned bit = 1u << d;
    if (s.ways[d] > 1) {
      if (divides(s.ways[d] * parts, padded(problem_, s.target_padding, d))) {
        use(s.target_padding);
      }
      return;
    }
    if (divides(parts, problem_.target_padded[d])) use(s.target_padding | bit);
    if (problem_.source_padded[d] != problem_.target_padded[d] &&
        divides(parts, problem_.source_padded[d])) {
      use(s.target_padding & ~bit);
    }
  }

  void expand(int index) {
    const Placement state = nodes_[index].state;
    const Lists s(problem_, state);
    const double bytes = shard_bytes(problem_, state);
    slices(index, state, s, bytes);
    masks(index, state, s, bytes);
    for (int d = 0; d < problem_.dims; ++d) all_to_alls(index, state, s, bytes, d);
    gathers(index, state, s, bytes, 0, bytes, 0);
    if (unsigned clear = s.unreduced & ~target_.unreduced; clear != 0) {
      reductions(index, state, s, bytes, clear);
    }
    if (problem_.axes <= kFreeAxes) {
      all_permutes(index, state, s, bytes);
    } else {
      useful_permutes(index, state, s, bytes);
    }
  }

  void slices(int index, const Placement& state, const Lists& s, double bytes) {
    for (int a = 0; a < problem_.axes; ++a) {
      if (!(s.unused >> a & 1)) continue;
      for (int d = 0; d < problem_.dims; ++d) {
        for_each_padding(s, d, problem_.axis_size[a], [&](unsigned padding) {
          Placement next = state;
          next.axis[a] = Placement::code(d, s.count[d]);
          next.target_padding = std::uint16_t(padding);
          std::uint8_t axis = std::uint8_t(a);
          reach(next, index, Kind::slice, d, d, &axis, 1, 0, bytes);
        });
      }
    }
  }

  /// A copied value becomes a sum: one device along the axis keeps it, the others have zeros.
  void masks(int index, const Placement& state, const Lists& s, double bytes) {
    unsigned wanted = s.unused & target_.unreduced;
    for (int a = 0; a < problem_.axes; ++a) {
      if (!(wanted >> a & 1)) continue;
      Placement next = state;
      next.axis[a] = Placement::kUnreduced;
      std::uint8_t axis = std::uint8_t(a);
      reach(next, index, Kind::slice, -1, -1, &axis, 1, 0, bytes);
    }
  }

  void all_to_alls(int index, const Placement& state, const Lists& s, double bytes, int d) {
    Placement gathered = state;
    double parts = 1;
    for (int first = s.count[d] - 1; first >= 0; --first) {
      int moved = s.count[d] - first;
      const std::uint8_t* axes = s.axes[d].data() + first;
      gathered.axis[axes[0]] = Placement::kUnused;
      parts *= problem_.axis_size[axes[0]];
      // A dim that is whole has no padding; the flag is then set, so that equal states are equal.
      if (first == 0) gathered.target_padding = std::uint16_t(gathered.target_padding | 1u << d);
      for (int to = 0; to < problem_.dims; ++to) {
        if (to == d) continue;
        for_each_padding(s, to, parts, [&](unsigned padding) {
          Placement next = gathered;
          next.target_padding =
              std::uint16_t((next.target_padding & ~(1u << to)) | (padding & 1u << to));
          for (int k = 0; k < moved; ++k) {
            next.axis[axes[k]] = Placement::code(to, s.count[to] + k);
          }
          double sent = bytes;  // what travels is the padded block
          if (s.ways[to] == 1 && problem_.whole[to] > 0) {
            sent = bytes / problem_.whole[to] * padded(problem_, padding, to);
          }
          reach(next, index, Kind::all_to_all, d, to, axes, moved, sent * (parts - 1) / parts,
                bytes);
        });
      }
    }
  }

  /// Gathers of one or more dims, which count as one: what lies between is not held.
  void gathers(int index, const Placement& state, const Lists& s, double source_bytes, int from_dim,
               double bytes, double received) {
    for (int d = from_dim; d < problem_.dims; ++d) {
      Placement next = state;
      double parts = 1;
      for (int first = s.count[d] - 1; first >= 0; --first) {
        int a = s.axes[d][first];
        next.axis[a] = Placement::kUnused;
        parts *= problem_.axis_size[a];
        if (first == 0) next.target_padding = std::uint16_t(next.target_padding | 1u << d);
        double all_received = received + bytes * (parts - 1);
        reach(next, index, Kind::all_gather, -1, -1, nullptr, 0, all_received, source_bytes);
        gathers(index, next, s, source_bytes, d + 1, shard_bytes(problem_, next), all_received);
      }
    }
  }

  void reductions(int index, const Placement& state, const Lists& s, double bytes, unsigned clear) {
    std::array<std::uint8_t, kMaxAxes> axes;
    int count = 0;
    double parts = 1;
    Placement next = state;
    for (int a = 0; a < problem_.axes; ++a) {
      if (!(clear >> a & 1)) continue;
      axes[count++] = std::uint8_t(a);
      parts *= problem_.axis_size[a];
      next.axis[a] = Placement::kUnused;
    }
    reach(next, index, Kind::all_reduce, -1, -1, axes.data(), count,
          2 * bytes * (parts - 1) / parts, bytes);
    for (int d = 0; d < problem_.dims; ++d) {
      scatter(index, state, s, bytes, clear, d, axes, 0, 1, count <= kFreeAxes);
    }
  }

  /// Appends to dim `d` ordered choices of the unreduced axes; only the axes that the target has
  /// there next, if there are too many to try all.
  void scatter(int index, const Placement& state, const Lists& s, double bytes, unsigned left,
               int d, std::array<std::uint8_t, kMaxAxes>& axes, int count, double parts, bool all) {
    for (int a = 0; a < problem_.axes; ++a) {
      if (!(left >> a & 1)) continue;
      int place = s.count[d] + count;
      bool next_of_target = place < target_.count[d] && target_.axes[d][place] == a;
      if (!all && count > 0 && !next_of_target) continue;
      axes[count] = std::uint8_t(a);
      double all_parts = parts * problem_.axis_size[a];
      for_each_padding(s, d, all_parts, [&](unsigned padding) {
        Placement next = state;
        next.target_padding = std::uint16_t(padding);
        for (int k = 0; k <= count; ++k) {
          next.axis[axes[k]] = Placement::code(d, s.count[d] + k);
        }
        reach(next, index, Kind::reduce_scatter, d, d, axes.data(), count + 1,
              shard_bytes(problem_, next) * (all_parts - 1), bytes);
      });
      scatter(index, state, s, bytes, left & ~(1u << a), d, axes, count + 1, all_parts, all);
    }
  }

  // --- permutes: other axes on the dims, the shards' shape the same -----------------------------

  void all_permutes(int index, const Placement& state, const Lists& s, double bytes) {
    Placement next = cleared(state, s);
    int budget = std::numeric_limits<int>::max();
    fill(index, s, bytes, next, s.unused | used(s), 0, 0, 1, false, budget);
  }

  void useful_permutes(int index, const Placement& state, const Lists& s, double bytes) {
    Placement next = cleared(state, s);
    int budget = kMaxPermutes;
    fill(index, s, bytes, next, s.unused | used(s), 0, 0, 1, true, budget);
  }

  static unsigned used(const Lists& s) {
    unsigned mask = 0;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
      for (int k = 0; k < s.count[d]; ++k) mask |= 1u << s.axes[d][k];
    }
    return mask;
  }

  Placement cleared(const Placement& state, const Lists& s) const {
    Placement next = state;
    for (int d = 0; d < problem_.dims; ++d) {
      for (int k = 0; k < s.count[d]; ++k) next.axis[s.axes[d][k]] = Placement::kUnused;
    }
    return next;
  }

  /// Fills place `place` of dim `d` with every axis that fits. `useful`: with the one that the
  /// target has there, if that fits; behind it only in ascending order.
  void fill(int index, const Lists& s, double bytes, Placement& next, unsigned left, int d,
            int place, double ways, bool useful, int& budget, int least = 0) {
    if (budget <= 0) return;
    if (d == problem_.dims) {
      if (next == nodes_[index].state) return;
      --budget;
      reach(next, index, Kind::permute, -1, -1, nullptr, 0, bytes, bytes);
      return;
    }
    if (ways == s.ways[d]) {
      fill(index, s, bytes, next, left, d + 1, 0, 1, useful, budget);
      return;
    }
    auto fits = [&](int a) {
      return (left >> a & 1) && divides(ways * problem_.axis_size[a], s.ways[d]);
    };
    auto use = [&](int a, int next_least) {
      next.axis[a] = Placement::code(d, place);
      fill(index, s, bytes, next, left & ~(1u << a), d, place + 1, ways * problem_.axis_size[a],
           useful, budget, next_least);
      next.axis[a] = Placement::kUnused;
    };
    if (useful && least == 0 && place < target_.count[d] && fits(target_.axes[d][place])) {
      use(target_.axes[d][place], 0);
      return;
    }
    for (int a = useful ? least : 0; a < problem_.axes; ++a) {
      if (fits(a)) use(a, useful ? a + 1 : 0);
    }
  }

  std::optional<SearchResult> trace(int index) const {
    SearchResult result;
    result.cost = nodes_[index].distance;
    for (int i = index; nodes_[i].parent >= 0; i = nodes_[i].parent) {
      const Node& n = nodes_[i];
      if (n.kind == Kind::all_gather) {
        trace_gathers(n, &result.steps);
        continue;
      }
      SearchStep step;
      step.kind = n.kind;
      step.dim = n.dim;
      step.to_dim = n.to_dim;
      step.axes.assign(n.axes.begin(), n.axes.begin() + n.axis_count);
      step.after = n.state;
      step.bytes = n.bytes;
      step.peak = n.peak;
      result.steps.push_back(std::move(step));
    }
    std::reverse(result.steps.begin(), result.steps.end());
    return result;
  }

  /// One step a dim, last first. The peak is that of all together.
  void trace_gathers(const Node& n, std::vector<SearchStep>* steps) const {
    Placement state = nodes_[n.parent].state;
    const Lists before(problem_, state), after(problem_, n.state);
    std::vector<SearchStep> gathers;
    for (int d = 0; d < problem_.dims; ++d) {
      if (before.count[d] == after.count[d]) continue;
      SearchStep step;
      step.kind = Kind::all_gather;
      step.dim = step.to_dim = d;
      double bytes = shard_bytes(problem_, state), parts = 1;
      for (int k = after.count[d]; k < before.count[d]; ++k) {
        int a = before.axes[d][k];
        step.axes.push_back(std::uint8_t(a));
        state.axis[a] = Placement::kUnused;
        parts *= problem_.axis_size[a];
      }
      unsigned bit = 1u << d;
      state.target_padding =
          std::uint16_t((state.target_padding & ~bit) | (n.state.target_padding & bit));
      step.after = state;
      step.bytes = bytes * (parts - 1);
      step.peak = n.peak;
      gathers.push_back(std::move(step));
    }
    steps->insert(steps->end(), gathers.rbegin(), gathers.rend());
  }

  struct Item {
    double f;
    std::uint64_t order;
    int index;
    bool operator<(const Item& o) const { return f != o.f ? f > o.f : order > o.order; }
  };

  const SearchProblem& problem_;
  const double limit_;
  const Lists target_;
  double target_bytes_ = 0, both_ends_ = 0;
  std::vector<Node> nodes_;
  std::unordered_map<Placement, int, PlacementHash> index_;
  std::priority_queue<Item> queue_;
  std::uint64_t order_ = 0;
};

}  // namespace

double shard_bytes(const SearchProblem& problem, const Placement& p) {
  std::array<double, kMaxDims> ways;
  for (int d = 0; d < problem.dims; ++d) ways[d] = 1;
  for (int a = 0; a < problem.axes; ++a) {
    if (p.axis[a] < Placement::kUnreduced) ways[p.axis[a] >> 4] *= problem.axis_size[a];
  }
  double bytes = problem.element_bytes;
  for (int d = 0; d < problem.dims; ++d) {
    bytes *= ways[d] == 1 ? problem.whole[d] : padded(problem, p.target_padding, d) / ways[d];
  }
  return bytes;
}

std::optional<SearchResult> search(const SearchProblem& problem, double peak_limit,
                                   int expansions) {
  return Search(problem, peak_limit).run(expansions);
}

}  // namespace tessera::spmd::reshard
