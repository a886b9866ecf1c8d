// SPDX-License-Identifier: Apache-2.0
// A* over placements of axes: the cheapest sequence of collectives between two shardings.
#include "src/spmd/reshard/search.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <queue>
#include <string>
#include <unordered_map>

#include "src/base/check.h"
#include "src/spmd/reshard/moves.h"

namespace tessera::spmd::reshard {
namespace {

using Kind = ReshardStep::Kind;

struct PlacementHash {
  std::size_t operator()(const Placement& p) const {
    std::uint64_t a, b;
    std::memcpy(&a, p.axis.data(), 8);
    std::memcpy(&b, p.axis.data() + 8, 8);
    std::uint64_t h = a * 0x9E3779B97F4A7C15ull ^ b * 0xC2B2AE3D27D4EB4Full;
    return std::size_t(h ^ h >> 29);
  }
};

struct Node {
  Placement state;
  double distance = std::numeric_limits<double>::infinity();
  double estimate = 0;  ///< of what is left
  int parent = -1;
  bool closed = false;
  // The step that led here.
  Kind kind = Kind::slice;
  std::int8_t dim = -1, to_dim = -1;
  std::uint8_t axis_count = 0;
  std::array<std::uint8_t, kMaxAxes> axes;
  double bytes = 0, peak = 0;
  int collectives = 0;
};

/// A* (Hart, Nilsson and Raphael 1968). A state is a Placement: for each axis the dim and the place
/// in that dim's list, or that it is unused or unreduced. Edges are collectives and slices, their
/// price the time in which the busiest device receives what it needs, and a charge for memory; an
/// edge that needs more than the limit is left out. The estimate is one collective that brings the
/// busiest device what it lacks of its target shard over the fastest link: never more than what the
/// rest of the path costs.
///
/// Example: x|- to y|- of f32[16,16] on <x=2, y=4>, where a collective costs as much as 256 bytes.
/// The device at x=0, y=3 has rows 0 to 7 and needs rows 12 to 15: 256 bytes and a collective, an
/// estimate of 512. The path over x,y|- and y,x|- receives just these 256 bytes, in two
/// collectives: 768.
class Search {
 public:
  Search(const SearchProblem& problem, double peak_limit)
      : problem_(problem),
        machine_(*problem.machine),
        limit_(peak_limit),
        step_(machine_.least_of_bytes(cost::kBytesOfStep)),
        moves_(problem) {
    target_bytes_ = shard_bytes(problem, problem.target);
    both_ends_ = target_bytes_ + shard_bytes(problem, problem.source);
  }

  std::optional<SearchResult> run(int expansions) {
    reach(problem_.source, -1, {});
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
    const Lists s(problem_, p), &target = moves_.target();
    // Devices may have any part of what is to be a sum, whatever they have now.
    if (target.unreduced & ~s.unreduced) return 0;
    double left;
    if (s.unreduced & ~target.unreduced) {
      left = target_bytes_;
    } else {
      bool nested = true;
      double overlap = problem_.element_bytes;
      for (int d = 0; d < problem_.dims && nested; ++d) {
        int common = std::min(s.count[d], target.count[d]);
        nested = std::equal(s.axes[d].begin(), s.axes[d].begin() + common, target.axes[d].begin());
        overlap *= double(std::min(extent(problem_, s, d), extent(problem_, target, d)));
      }
      left = nested ? target_bytes_ - overlap : target_bytes_;
      if (left <= 0) return 0;
    }
    return machine_.least(left);
  }

  void reach(const Placement& state, int parent, const Move& move) {
    double peak = 0, step = 0;
    if (parent >= 0) {
      // A sum is formed in its operand's place.
      bool in_place = move.kind == Kind::all_reduce || move.kind == Kind::reduce_scatter;
      peak = in_place ? move.operand_bytes : move.operand_bytes + shard_bytes(problem_, state);
      if (move.kind != Kind::slice && peak > limit_ * (1 + 1e-9)) return;
      step = step_ + move.seconds;
      if (move.kind != Kind::slice) {
        step += cost::kPassesOfPeak * machine_.pass(std::max(0.0, peak - both_ends_));
      }
      TESSERA_CHECK(step >= step_, "a step that takes " + std::to_string(move.seconds) + " s");
    }
    double distance = parent < 0 ? 0 : nodes_[parent].distance + step;
    if (distance > goal_) return;
    auto [it, fresh] = index_.try_emplace(state, int(nodes_.size()));
    if (fresh) {
      nodes_.emplace_back();
      nodes_.back().state = state;
      nodes_.back().estimate = estimate(state);
    }
    Node& node = nodes_[it->second];
    // Written so that no distance that isn't a number passes: parents would run in a circle.
    if (!(distance < node.distance)) return;
    if (state == problem_.target) goal_ = distance;
    node.distance = distance;
    node.closed = false;
    node.parent = parent;
    node.kind = move.kind;
    node.dim = std::int8_t(move.dim);
    node.to_dim = std::int8_t(move.to_dim);
    node.axis_count = std::uint8_t(move.axis_count);
    std::copy(move.axes, move.axes + move.axis_count, node.axes.begin());
    node.bytes = move.bytes;
    node.peak = peak;
    node.collectives = move.collectives;
    queue_.push({distance + node.estimate, order_++, it->second});
  }

  void expand(int index) {
    const Placement state = nodes_[index].state;
    const auto to = [&](const Placement& next, const Move& move) { reach(next, index, move); };
    moves_.reshapes(state, to);
    // The goal was reached for less than any permute takes.
    const double least = machine_.least(shard_bytes(problem_, state));
    if (nodes_[index].distance + step_ + least <= goal_) moves_.permutes(state, to);
  }

  std::optional<SearchResult> trace(int index) {
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
      step.collectives = n.collectives;
      result.steps.push_back(std::move(step));
    }
    std::reverse(result.steps.begin(), result.steps.end());
    return result;
  }

  /// One step a dim, last first. The dims that grow least come first, so that little is live
  /// between.
  void trace_gathers(const Node& n, std::vector<SearchStep>* steps) {
    const Lists before(problem_, nodes_[n.parent].state), after(problem_, n.state);
    IndexList dims;
    for (int d = 0; d < problem_.dims; ++d) {
      if (before.count[d] != after.count[d]) dims.push_back(d);
    }
    std::stable_sort(dims.begin(), dims.end(), [&](int a, int b) {
      return before.ways[a] / after.ways[a] < before.ways[b] / after.ways[b];
    });
    const std::vector<SearchStep> gathers =
        moves_.gather_steps(nodes_[n.parent].state, n.state, dims, n.peak);
    steps->insert(steps->end(), gathers.rbegin(), gathers.rend());
  }

  struct Item {
    double f;
    std::uint64_t order;
    int index;
    bool operator<(const Item& o) const { return f != o.f ? f > o.f : order > o.order; }
  };

  const SearchProblem& problem_;
  const cost::Machine& machine_;
  const double limit_, step_;
  Moves moves_;
  double target_bytes_ = 0, both_ends_ = 0;
  double goal_ = std::numeric_limits<double>::infinity();  ///< least distance of the target yet
  std::vector<Node> nodes_;
  std::unordered_map<Placement, int, PlacementHash> index_;
  std::priority_queue<Item> queue_;
  std::uint64_t order_ = 0;
};

}  // namespace

std::optional<SearchResult> search(const SearchProblem& problem, double peak_limit,
                                   int expansions) {
  return Search(problem, peak_limit).run(expansions);
}

}  // namespace tessera::spmd::reshard
