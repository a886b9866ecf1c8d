// SPDX-License-Identifier: Apache-2.0
// Plans the collectives from one sharding to another: reduces the problem, searches, caches.
#include "src/spmd/reshard/planner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/base/key_writer.h"
#include "src/cost/collectives.h"
#include "src/sharding/axes/ways.h"
#include "src/spmd/reshard/axis_groups.h"
#include "src/spmd/reshard/search.h"

// The problem of "Memory-efficient array redistribution through portable collective communication"
// (Rink et al., 2021): a redistribution as a sequence of all-gathers, all-to-alls, permutes and
// slices in which the memory of a device is bounded by the two ends; here by source and target
// together, with partial sums (all-reduce, reduce-scatter) and uneven dims as well, and by search.
//
// Examples: f32[16,16], 1024 bytes, on a mesh <x=2, y=4>. Bytes are those that a device receives; a
// collective is charged 256 bytes more (cost::assumed_network).
//   y|-   -> -|y    all_to_all of a shard of 256 bytes: 192 received.
//   x|-   -> y|-    slice y (free, to x,y|-), permute to y,x|- (128 received), all_gather x (128).
//                   To gather x and then slice y costs as much, 512 and one collective, but takes
//                   512 + 1024 bytes in between; source and target are 512 + 256, and this plan
//                   takes 640 at most.
//   x,y|- -> y|x    permute to y,x|- (128 received), then all_to_all x (64).
//   sum over y -> y|-   reduce_scatter: 3/4 of 1024 bytes, 768.
//   sum over y -> -|-   all_reduce: twice that.
namespace tessera::spmd {
namespace {

using reshard::kMaxAxes;
using reshard::kMaxDims;
using reshard::Placement;
using reshard::SearchProblem;
using reshard::SearchResult;
using reshard::SearchStep;
using Kind = ReshardStep::Kind;

// On meshes of so many axes those that neither end uses take part too: what is equal on devices can
// be cut in their midst before it moves. Sums stay full: reductions of pieces save little.
constexpr int kSmallMesh = 3;
// Beyond so many axes, runs of axes that move together count as one.
constexpr int kFewAxes = 4;
constexpr int kExpansions = 4000;
constexpr std::size_t kCachedPlans = 1 << 15;

/// The part of a sharding that moves data.
struct Ends {
  const TensorSharding& from;
  const TensorSharding& to;
  const LogicalMesh* mesh;
  const Dims& dims;
};

/// How the axes and dims of a SearchProblem correspond to those of the mesh and array.
struct Correspondence {
  std::vector<IndexList> blocks;  ///< search axis → mesh axes, major to minor
  IndexList dims;                 ///< search dim → dim
  std::vector<IndexList> fixed;   ///< dim → leading mesh axes that stay where they are
};

/// False if the array or mesh is too large for the search.
bool reduce(const Ends& ends, double element_bytes, const cost::Machine& machine,
            SearchProblem* problem, Correspondence* map) {
  const LogicalMesh& mesh = *ends.mesh;
  const int rank = int(ends.dims.size());
  IndexList axes;
  const bool idle_axes = int(mesh.axes.size()) <= kSmallMesh && ends.from.unreduced.empty();
  for (int a = 0; a < int(mesh.axes.size()); ++a) {
    if (mesh.axes[std::size_t(a)].size == 1) continue;
    bool manual = contains(ends.from.manual, a);
    bool used = ends.from.uses_axis(a) || ends.to.uses_axis(a) ||
                contains(ends.from.unreduced, a) || contains(ends.to.unreduced, a);
    if (!manual && (used || idle_axes)) axes.push_back(a);
  }
  map->fixed.assign(std::size_t(rank), {});
  if (int(axes.size()) > kFewAxes) {
    // What both ends have in the same leading place of a dim stays there.
    for (int d = 0; d < rank; ++d) {
      const auto& f = ends.from.dims[std::size_t(d)].axes;
      const auto& t = ends.to.dims[std::size_t(d)].axes;
      for (std::size_t k = 0; k < std::min(f.size(), t.size()) && f[k] == t[k]; ++k) {
        map->fixed[std::size_t(d)].push_back(f[k]);
        axes.erase(std::remove(axes.begin(), axes.end(), f[k]), axes.end());
      }
    }
    std::vector<IndexList> lists;  // of both ends, the fixed axes left out
    for (const TensorSharding* s : {&ends.from, &ends.to}) {
      for (std::size_t d = 0; d < std::size_t(rank); ++d) {
        lists.emplace_back(s->dims[d].axes.begin() + std::ptrdiff_t(map->fixed[d].size()),
                           s->dims[d].axes.end());
      }
    }
    map->blocks = reshard::axis_groups(axes, lists, {ends.from.unreduced, ends.to.unreduced});
  } else {
    for (int a : axes) map->blocks.push_back({a});
  }

  problem->element_bytes = element_bytes;
  problem->machine = &machine;
  bool crowded = rank > 6 || int(map->blocks.size()) > kFewAxes;
  for (int d = 0; d < rank; ++d) {
    auto u = std::size_t(d);
    std::size_t fixed = map->fixed[u].size();
    bool moves = ends.from.dims[u].axes.size() > fixed || ends.to.dims[u].axes.size() > fixed;
    std::int64_t fixed_ways = ways_of(mesh, map->fixed[u]);
    if (crowded && !moves) {
      problem->element_bytes *= double(ceil_div(ends.dims[u], fixed_ways));
      continue;
    }
    int i = problem->dims++;
    if (i >= kMaxDims) return false;
    map->dims.push_back(d);
    problem->size[std::size_t(i)] = ends.dims[u];
    problem->fixed_ways[std::size_t(i)] = fixed_ways;
  }
  problem->axes = int(map->blocks.size());
  if (problem->axes > kMaxAxes) return false;

  auto place = [&](const TensorSharding& s) {
    Placement p;
    for (int b = 0; b < problem->axes; ++b) {
      int lead = map->blocks[std::size_t(b)].front();
      problem->axis_size[std::size_t(b)] = ways_of(mesh, map->blocks[std::size_t(b)]);
      problem->route[std::size_t(b)] = machine.route(mesh, map->blocks[std::size_t(b)]);
      if (contains(s.unreduced, lead)) p.axis[std::size_t(b)] = Placement::kUnreduced;
    }
    for (int i = 0; i < problem->dims; ++i) {
      auto d = std::size_t(map->dims[std::size_t(i)]);
      int count = 0;
      for (std::size_t k = map->fixed[d].size(); k < s.dims[d].axes.size(); ++k) {
        for (int b = 0; b < problem->axes; ++b) {
          if (map->blocks[std::size_t(b)].front() == s.dims[d].axes[k]) {
            p.axis[std::size_t(b)] = Placement::code(i, count++);
          }
        }
      }
    }
    return p;
  };
  problem->source = place(ends.from);
  problem->target = place(ends.to);
  return true;
}

/// The way that always exists: gather what differs, dim by dim, then cut.
SearchResult gather_and_slice(const SearchProblem& problem) {
  SearchProblem first = problem, second = problem;
  // Where both ends agree from the major side on, and neither has partial sums.
  Placement middle;
  std::array<char, kMaxDims> agree;
  agree.fill(1);
  for (int place = 0; place < kMaxAxes; ++place) {
    for (int d = 0; d < problem.dims; ++d) {
      bool same = false;
      for (int a = 0; a < problem.axes; ++a) {
        std::uint8_t code = Placement::code(d, place);
        same |= problem.source.axis[std::size_t(a)] == code &&
                problem.target.axis[std::size_t(a)] == code;
      }
      agree[std::size_t(d)] = agree[std::size_t(d)] && same;
      for (int a = 0; agree[std::size_t(d)] && a < problem.axes; ++a) {
        if (problem.source.axis[std::size_t(a)] == Placement::code(d, place)) {
          middle.axis[std::size_t(a)] = Placement::code(d, place);
        }
      }
    }
  }
  for (int a = 0; a < problem.axes; ++a) {
    auto u = std::size_t(a);
    if (problem.source.axis[u] == Placement::kUnreduced &&
        problem.target.axis[u] == Placement::kUnreduced) {
      middle.axis[u] = Placement::kUnreduced;
    }
  }
  first.target = middle;
  second.source = middle;
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  auto down = reshard::search(first, kNoLimit, std::numeric_limits<int>::max());
  auto up = reshard::search(second, kNoLimit, std::numeric_limits<int>::max());
  TESSERA_CHECK(down && up, "a reshard did not arrive");
  down->cost += up->cost;
  for (SearchStep& step : up->steps) down->steps.push_back(std::move(step));
  return std::move(*down);
}

/// Slices of one dim in a row become one step, where their blocks nest.
void join_slices(const SearchProblem& problem, std::vector<SearchStep>* steps) {
  // Blocks of what a slice divides, and of that what it divides itself.
  auto nests = [&](const SearchStep& step) {
    if (step.dim < 0) return true;
    auto d = std::size_t(step.dim);
    std::int64_t ways = problem.fixed_ways[d];
    for (int a = 0; a < problem.axes; ++a) {
      std::uint8_t code = step.after.axis[std::size_t(a)];
      if (code < Placement::kUnreduced && code >> 4 == step.dim) {
        ways *= problem.axis_size[std::size_t(a)];
      }
    }
    return problem.size[d] % ways == 0;
  };
  std::vector<SearchStep> joined;
  for (SearchStep& step : *steps) {
    if (!joined.empty() && step.kind == Kind::slice && joined.back().kind == Kind::slice &&
        step.dim == joined.back().dim && step.collectives == 0 && joined.back().collectives == 0 &&
        nests(step)) {
      joined.back().axes.insert(joined.back().axes.end(), step.axes.begin(), step.axes.end());
      joined.back().after = step.after;
    } else {
      joined.push_back(std::move(step));
    }
  }
  // The memory of a row of slices is its source and its last result.
  double live = reshard::shard_bytes(problem, problem.source);
  for (std::size_t i = 0; i < joined.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < joined.size() && joined[i].kind == Kind::slice &&
           joined[last + 1].kind == Kind::slice) {
      ++last;
    }
    double after = reshard::shard_bytes(problem, joined[last].after);
    for (; joined[i].kind == Kind::slice; ++i) {
      joined[i].peak = live + after;
      if (i == last) break;
    }
    live = reshard::shard_bytes(problem, joined[i].after);
  }
  *steps = std::move(joined);
}

TensorSharding to_sharding(const SearchProblem& problem, const Correspondence& map,
                           const Ends& ends, const Placement& p) {
  TensorSharding s = ends.to;
  for (std::size_t d = 0; d < s.dims.size(); ++d) s.dims[d] = DimSharding{map.fixed[d], false, 0};
  s.unreduced.clear();
  s.replicated.clear();
  for (int i = 0; i < problem.dims; ++i) {
    auto& axes = s.dims[std::size_t(map.dims[std::size_t(i)])].axes;
    for (int place = 0;; ++place) {
      auto end = p.axis.begin() + problem.axes;
      auto it = std::find(p.axis.begin(), end, Placement::code(i, place));
      if (it == end) break;
      const auto& block = map.blocks[std::size_t(it - p.axis.begin())];
      axes.insert(axes.end(), block.begin(), block.end());
    }
  }
  for (int b = 0; b < problem.axes; ++b) {
    if (p.axis[std::size_t(b)] != Placement::kUnreduced) continue;
    const auto& block = map.blocks[std::size_t(b)];
    s.unreduced.insert(s.unreduced.end(), block.begin(), block.end());
  }
  // Axes of size 1 move nothing and stand where the target has them.
  std::sort(s.unreduced.begin(), s.unreduced.end());
  return s;
}

/// What all_to_alls that are one exchange save.
void join_exchanges(const Ends& ends, double element_bytes, const cost::Machine& machine,
                    ReshardPlan* plan) {
  const auto received = [](double bytes, double ways) {
    return cost::received_bytes(ir::Opcode::all_to_all, bytes, ways);
  };
  for (std::size_t i = 0; i < plan->steps.size(); ++i) {
    if (plan->steps[i].kind != Kind::all_to_all) continue;
    const TensorSharding& before = i == 0 ? ends.from : plan->steps[i - 1].after;
    const std::size_t count = exchanges_in_one(plan->steps, i, before, ends.dims);
    if (count < 2) continue;
    double bytes = element_bytes, apart = 0, ways = 1, seconds_apart = 0;
    cost::Route route;
    const auto seconds = [&](double moved, const cost::Route& along) {
      return moved > 0 ? machine.collective(ir::Opcode::all_to_all, moved, along) : machine.start();
    };
    for (std::size_t d = 0; d < ends.dims.size(); ++d) {
      bytes *= double(ends.dims[d] / before.shards(std::int64_t(d)));
    }
    for (std::size_t k = i; k < i + count; ++k) {
      double own = 1;
      for (int a : plan->steps[k].axes) own *= double(ends.mesh->axes[std::size_t(a)].size);
      apart += received(bytes, own);
      ways *= own;
      const cost::Route one = machine.route(*ends.mesh, plan->steps[k].axes);
      seconds_apart += seconds(received(bytes, own), one);
      route.add(one);
    }
    const double saved = apart - received(bytes, ways);
    plan->bytes_received -= saved;
    plan->cost -= seconds_apart - seconds(received(bytes, ways), route);
    plan->collectives -= int(count) - 1;
    i += count - 1;
  }
}

ReshardPlan make_plan(const Ends& ends, std::int64_t element_bytes, const cost::Machine& machine) {
  SearchProblem problem;
  Correspondence map;
  ReshardPlan plan;
  if (!reduce(ends, double(element_bytes), machine, &problem, &map)) {
    throw CompileError("a reshard of an array of rank " + std::to_string(ends.dims.size()) +
                       " over " + std::to_string(ends.mesh->axes.size()) +
                       " mesh axes is too large: at most 13 split dims and 16 axes");
  }
  double limit =
      reshard::shard_bytes(problem, problem.source) + reshard::shard_bytes(problem, problem.target);
  auto found = reshard::search(problem, limit, kExpansions);
  if (!found) {
    found = reshard::search(problem, std::numeric_limits<double>::infinity(), kExpansions);
  }
  SearchResult result = found ? std::move(*found) : gather_and_slice(problem);
  join_slices(problem, &result.steps);
  plan.cost = result.cost;

  bool replicated_end = is_fully_replicated(ends.from) || is_fully_replicated(ends.to);
  for (SearchStep& step : result.steps) {
    ReshardStep out;
    out.kind = step.kind;
    out.dim = step.dim < 0 ? -1 : map.dims[std::size_t(step.dim)];
    out.to_dim = step.to_dim < 0 ? -1 : map.dims[std::size_t(step.to_dim)];
    for (auto a : step.axes) {
      const auto& block = map.blocks[a];
      out.axes.insert(out.axes.end(), block.begin(), block.end());
    }
    out.after = to_sharding(problem, map, ends, step.after);
    out.padded = padded_dims(out.after, ends.dims);
    plan.bytes_received += step.bytes;
    plan.collectives += step.collectives;
    if (step.kind != Kind::slice) {
      if (!replicated_end && ends.mesh->num_devices() > 1 && is_fully_replicated(out.after)) {
        plan.full_gather = true;
      }
    }
    plan.peak_bytes = std::max(plan.peak_bytes, std::int64_t(std::ceil(step.peak)));
    plan.steps.push_back(std::move(out));
  }
  join_exchanges(ends, double(element_bytes), machine, &plan);
  return plan;
}

std::string key_of(const Ends& ends, std::int64_t element_bytes, const cost::Machine& machine) {
  KeyWriter key;
  key.add(ends.mesh->axes.size());
  for (const MeshAxis& axis : ends.mesh->axes) key.add(axis.size);
  key.add_all(ends.dims, element_bytes);
  for (const TensorSharding* s : {&ends.from, &ends.to}) {
    for (const DimSharding& dim : s->dims) key.add(dim.axes);
    key.add(s->unreduced);
  }
  key.add(ends.from.manual);
  add_transfers_to_key(key, machine, *ends.mesh);
  return key.take();
}

void check(const TensorSharding& from, const TensorSharding& to, const Dims& dims) {
  TESSERA_CHECK(from.kind == TensorSharding::Kind::axes && to.kind == TensorSharding::Kind::axes,
                "the reshard planner moves between shardings by axes only");
  TESSERA_CHECK(from.dims.size() == dims.size() && to.dims.size() == dims.size(),
                "reshard of rank " + std::to_string(dims.size()) + " from " + from.to_string() +
                    " to " + to.to_string());
  TESSERA_CHECK(!from.mesh || !to.mesh || from.mesh == to.mesh || *from.mesh == *to.mesh,
                "reshard between meshes, from " + from.to_string() + " to " + to.to_string());
}

bool same_lists(const TensorSharding& a, const TensorSharding& b) {
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    if (a.dims[d].axes != b.dims[d].axes) return false;
  }
  return a.unreduced.size() == b.unreduced.size() &&
         std::all_of(a.unreduced.begin(), a.unreduced.end(),
                     [&](int axis) { return contains(b.unreduced, axis); });
}

}  // namespace

std::size_t exchanges_in_one(const std::vector<ReshardStep>& steps, std::size_t first,
                             const TensorSharding& before, const Dims& dims) {
  std::vector<int> given_out, put_together;
  IndexList axes;
  if (padded_dims(before, dims) != dims) return 1;
  std::size_t count = 0;
  for (std::size_t i = first; i < steps.size(); ++i) {
    const ReshardStep& step = steps[i];
    if (step.kind != Kind::all_to_all || step.padded != dims) break;
    if (contains(given_out, step.dim) || contains(put_together, step.to_dim)) break;
    if (std::any_of(step.axes.begin(), step.axes.end(), [&](int a) { return contains(axes, a); })) {
      break;
    }
    put_together.push_back(step.dim);
    given_out.push_back(step.to_dim);
    axes.insert(axes.end(), step.axes.begin(), step.axes.end());
    ++count;
  }
  return std::max<std::size_t>(count, 1);
}

bool is_fully_replicated(const TensorSharding& sharding) {
  if (sharding.manual.empty()) return sharding.is_replicated();
  TensorSharding s = sharding;
  s.manual.clear();
  return s.is_replicated();
}

Dims padded_dims(const TensorSharding& sharding, const Dims& dims) {
  Dims padded = dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::int64_t ways = sharding.shards(std::int64_t(d));
    padded[d] = ceil_div(dims[d], ways) * ways;
  }
  return padded;
}

ReshardPlanner::ReshardPlanner() : plans_(kCachedPlans) {}

const ReshardPlan& ReshardPlanner::planned(const TensorSharding& from, const TensorSharding& to,
                                           const MeshRef& mesh, const Dims& dims,
                                           std::int64_t element_bytes,
                                           const cost::Machine& machine) {
  const Ends ends{from, to, mesh.get(), dims};
  std::string key = key_of(ends, element_bytes, machine);
  if (const ReshardPlan* known = plans_.find(key)) return *known;
  ++plans_made_;
  ReshardPlan plan = make_plan(ends, element_bytes, machine);
  // The key doesn't know which mesh: only the placement is kept.
  for (ReshardStep& step : plan.steps) step.after.mesh = nullptr;
  return plans_.add(std::move(key), std::move(plan));
}

ReshardPlan ReshardPlanner::plan(const TensorSharding& from, const TensorSharding& to,
                                 const Dims& dims, std::int64_t element_bytes,
                                 const cost::Machine& machine) {
  check(from, to, dims);
  if (same_lists(from, to)) return {};
  const MeshRef& mesh = to.mesh ? to.mesh : from.mesh;
  ReshardPlan plan = planned(from, to, mesh, dims, element_bytes, machine);
  for (ReshardStep& step : plan.steps) {
    step.after.mesh = mesh;
    step.after.reduction = to.reduction;
  }
  return plan;
}

double ReshardPlanner::price(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                             std::int64_t element_bytes, const cost::Machine& machine) {
  check(from, to, dims);
  if (same_lists(from, to)) return 0;
  return planned(from, to, to.mesh ? to.mesh : from.mesh, dims, element_bytes, machine).cost;
}

ReshardPlan plan_reshard(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                         std::int64_t element_bytes, const cost::Machine& machine) {
  return ReshardPlanner().plan(from, to, dims, element_bytes, machine);
}

double reshard_lower_bound(const TensorSharding& from, const TensorSharding& to, const Dims& dims,
                           std::int64_t element_bytes, const cost::Machine& machine) {
  // What a device needs and may lack. Shards of which neither contains the other can be disjoint.
  double target = double(element_bytes), overlap = double(element_bytes);
  const MeshRef& mesh = to.mesh ? to.mesh : from.mesh;
  const auto splitting = [&](IndexList axes) {
    erase_if(axes, [&](int a) { return mesh->axes[std::size_t(a)].size == 1; });
    return axes;
  };
  // Devices may have any part of what is to be a sum, whatever they have now.
  for (const int a : to.unreduced) {
    if (!contains(from.unreduced, a)) return 0;
  }
  const IndexList sums = splitting(from.unreduced);
  bool nested =
      std::all_of(sums.begin(), sums.end(), [&](int a) { return contains(to.unreduced, a); });
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const IndexList f = splitting(from.dims[d].axes), t = splitting(to.dims[d].axes);
    double to_size = double(ceil_div(dims[d], to.shards(std::int64_t(d))));
    target *= to_size;
    overlap *= std::min(to_size, double(ceil_div(dims[d], from.shards(std::int64_t(d)))));
    nested =
        nested &&
        std::equal(f.begin(), f.begin() + std::ptrdiff_t(std::min(f.size(), t.size())), t.begin());
  }
  if (nested) return machine.least(target - overlap);
  // What is summed up is summed up in pieces, each of which comes from all devices but its own; the
  // smallest ones are cut along all axes.
  double piece = double(element_bytes), ways = 1;
  for (const std::int64_t d : dims) piece *= double(d);
  for (int a = 0; a < int(mesh->axes.size()); ++a) {
    const double size = double(mesh->axes[std::size_t(a)].size);
    if (!contains(from.manual, a)) piece /= size;
    if (contains(from.unreduced, a) && !contains(to.unreduced, a)) ways *= size;
  }
  if (ways > 1) target = std::max(target, piece) + (ways - 2) * piece;
  return machine.least(target);
}

namespace {

/// By device: which shard it has. Values that differ along manual or unreduced axes are different
/// values.
std::vector<std::int64_t> shards_of_devices(const TensorSharding& s, const LogicalMesh& mesh) {
  IndexList axes;
  for (const DimSharding& d : s.dims) axes.insert(axes.end(), d.axes.begin(), d.axes.end());
  axes.insert(axes.end(), s.unreduced.begin(), s.unreduced.end());
  axes.insert(axes.end(), s.manual.begin(), s.manual.end());
  const std::int64_t devices = mesh.num_devices();
  const Dims strides = mesh.strides();
  std::vector<std::int64_t> shards(static_cast<std::size_t>(devices), 0);
  for (int a : axes) {
    const std::int64_t size = mesh.axes[std::size_t(a)].size, stride = strides[std::size_t(a)];
    for (std::int64_t position = 0; position < devices;) {
      for (std::int64_t at = 0; at < size; ++at) {
        for (const std::int64_t end = position + stride; position < end; ++position) {
          std::int64_t& shard = shards[std::size_t(mesh.device_at(position))];
          shard = shard * size + at;
        }
      }
    }
  }
  return shards;
}

}  // namespace

std::vector<std::pair<std::int64_t, std::int64_t>> permute_pairs(const TensorSharding& before,
                                                                 const TensorSharding& after) {
  TESSERA_CHECK(before.shards() == after.shards(), "a permute keeps the shape of the shards");
  const MeshRef& mesh = after.mesh ? after.mesh : before.mesh;
  return pairs_between(shards_of_devices(before, *mesh), shards_of_devices(after, *mesh));
}

std::vector<std::pair<std::int64_t, std::int64_t>> pairs_between(
    const std::vector<std::int64_t>& has, const std::vector<std::int64_t>& wants) {
  // By shard: who has it but wants something else, and by device: who else.
  std::vector<std::int64_t> holder(has.size(), -1), next(has.size(), -1);
  for (std::size_t device = has.size(); device-- > 0;) {
    if (has[device] == wants[device]) continue;
    next[device] = std::exchange(holder[std::size_t(has[device])], std::int64_t(device));
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  pairs.reserve(has.size());
  for (std::size_t device = 0; device < has.size(); ++device) {
    auto source = std::int64_t(device);
    if (has[device] != wants[device]) {
      source = holder[std::size_t(wants[device])];
      TESSERA_CHECK(source >= 0, "a permute lacks a source");
      holder[std::size_t(wants[device])] = next[std::size_t(source)];
    }
    pairs.emplace_back(source, std::int64_t(device));
  }
  return pairs;
}

}  // namespace tessera::spmd
