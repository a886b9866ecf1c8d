// SPDX-License-Identifier: Apache-2.0
// Plans are executed step by step on the shards of all devices; after each step every device must
// have the shard of the step's sharding.
#include "src/spmd/reshard/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

namespace tessera::spmd {
namespace {

using Kind = ReshardStep::Kind;

constexpr std::int64_t kPadding = -1000000;

/// One device's shard.
struct Local {
  Dims dims;
  std::vector<std::int64_t> values;
};

std::size_t offset(const Dims& dims, const Dims& at) {
  std::size_t o = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) o = o * std::size_t(dims[d]) + std::size_t(at[d]);
  return o;
}

bool next(const Dims& dims, Dims* at) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (++(*at)[d] < dims[d]) return true;
    (*at)[d] = 0;
  }
  return false;
}

template <class F>
void for_each_index(const Dims& dims, F f) {
  for (std::int64_t d : dims) {
    if (d == 0) return;
  }
  Dims at(dims.size(), 0);
  do {
    f(at);
  } while (next(dims, &at));
}

/// Extends (with padding) or cuts one dim at its end.
Local resized(const Local& x, std::size_t dim, std::int64_t size) {
  Local y;
  y.dims = x.dims;
  y.dims[dim] = size;
  y.values.assign(std::size_t(element_count(y.dims)), kPadding);
  for_each_index(y.dims, [&](const Dims& at) {
    if (at[dim] < x.dims[dim]) y.values[offset(y.dims, at)] = x.values[offset(x.dims, at)];
  });
  return y;
}

Local part(const Local& x, std::size_t dim, std::int64_t parts, std::int64_t index) {
  EXPECT_EQ(x.dims[dim] % parts, 0) << "a dim is cut unevenly";
  Local y;
  y.dims = x.dims;
  y.dims[dim] /= parts;
  y.values.resize(std::size_t(element_count(y.dims)));
  for_each_index(y.dims, [&](Dims at) {
    std::size_t to = offset(y.dims, at);
    at[dim] += index * y.dims[dim];
    y.values[to] = x.values[offset(x.dims, at)];
  });
  return y;
}

Local joined(const std::vector<Local>& parts, std::size_t dim) {
  Local y;
  y.dims = parts[0].dims;
  y.dims[dim] *= std::int64_t(parts.size());
  y.values.resize(std::size_t(element_count(y.dims)));
  for_each_index(y.dims, [&](Dims at) {
    std::size_t to = offset(y.dims, at);
    const Local& p = parts[std::size_t(at[dim] / parts[0].dims[dim])];
    at[dim] %= parts[0].dims[dim];
    y.values[to] = p.values[offset(p.dims, at)];
  });
  return y;
}

Local sum(const std::vector<Local>& parts) {
  Local y = parts[0];
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      if (y.values[i] != kPadding) y.values[i] += parts[p].values[i];
    }
  }
  return y;
}

class Simulation {
 public:
  Simulation(MeshRef mesh, Dims dims) : mesh_(std::move(mesh)), dims_(std::move(dims)) {}

  void start(const TensorSharding& s) {
    now_ = s;
    padded_ = padded_dims(s, dims_);
    const auto n = std::size_t(mesh_->num_devices());
    shards_.resize(n);
    for (std::size_t device = 0; device < n; ++device) {
      shards_[device] = expected(s, padded_, std::int64_t(device));
    }
    if (s.unreduced.empty()) return;
    // Random summands that give the value together; copies must be equal.
    std::map<std::vector<std::int64_t>, std::int64_t> seeds;
    for (std::size_t device = 0; device < n; ++device) {
      std::vector<std::int64_t> at;
      for (int a : s.unreduced) at.push_back(mesh_->coordinate(std::int64_t(device), a));
      bool first = std::all_of(at.begin(), at.end(), [](auto c) { return c == 0; });
      Local& x = shards_[device];
      for_each_index(x.dims, [&](const Dims& index) {
        std::int64_t& v = x.values[offset(x.dims, index)];
        if (v == kPadding) return;
        std::int64_t total = v;
        v = summand(total, at);
        if (first) {
          v = total - others(total, s.unreduced);
        }
      });
    }
  }

  void step(const ReshardStep& s) {
    extra_bytes_ = 0;
    extra_collectives_ = 0;
    std::int64_t all_parts = 1;
    for (int a : s.axes) all_parts *= mesh_->axes[std::size_t(a)].size;
    auto dim_of = [](int d) { return std::size_t(d < 0 ? 0 : d); };
    // Rows that stand on the wrong side of a boundary go first ...
    if ((s.kind == Kind::slice && s.dim >= 0) || s.kind == Kind::reduce_scatter) {
      std::int64_t block = s.padded[dim_of(s.dim)] / s.after.shards(s.dim);
      reblock(now_, dim_of(s.dim), all_parts * block);
    } else if (s.kind == Kind::all_to_all) {
      std::int64_t block = s.padded[dim_of(s.to_dim)] / s.after.shards(s.to_dim);
      reblock(now_, dim_of(s.to_dim), all_parts * block);
    }
    if (s.kind == Kind::all_to_all) sent_ = bytes();
    const std::vector<Local> before = shards_;
    const auto n = shards_.size();
    auto grow = [&](std::size_t device, std::size_t) { return before[device]; };
    auto cut = [&](Local x, std::size_t) { return x; };
    std::int64_t parts = 1;
    for (int a : s.axes) parts *= mesh_->axes[std::size_t(a)].size;
    for (std::size_t device = 0; device < n; ++device) {
      auto members = group(std::int64_t(device), s.axes);
      std::int64_t self = std::find(members.begin(), members.end(), device) - members.begin();
      auto collect = [&](auto get) {
        std::vector<Local> all;
        for (std::size_t m : members) all.push_back(get(m));
        return all;
      };
      auto dim = std::size_t(s.dim), to = std::size_t(s.to_dim);
      switch (s.kind) {
        case Kind::slice:
          if (s.dim >= 0) {
            shards_[device] = part(grow(device, dim), dim, parts, self);
          } else if (self != 0) {
            for (auto& v : shards_[device].values) v = v == kPadding ? v : 0;
          }
          break;
        case Kind::all_gather:
          shards_[device] =
              cut(joined(collect([&](std::size_t m) { return before[m]; }), dim), dim);
          break;
        case Kind::all_to_all:
          shards_[device] =
              cut(joined(collect([&](std::size_t m) { return part(grow(m, to), to, parts, self); }),
                         dim),
                  dim);
          break;
        case Kind::all_reduce:
          shards_[device] = sum(collect([&](std::size_t m) { return before[m]; }));
          break;
        case Kind::reduce_scatter:
          shards_[device] =
              part(sum(collect([&](std::size_t m) { return grow(m, dim); })), dim, parts, self);
          break;
        case Kind::unshard:
          shards_[device] = joined(collect([&](std::size_t m) {
                                     Local x = before[m];
                                     for (auto& v : x.values) {
                                       v = m == device || v == kPadding ? v : 0;
                                     }
                                     return x;
                                   }),
                                   dim);
          break;
        case Kind::permute:
          break;
      }
    }
    if (s.kind == Kind::permute) {
      IndexList sources(n), targets(n);
      for (auto [source, target] : permute_pairs(now_, s.after)) {
        ++sources[std::size_t(source)];
        ++targets[std::size_t(target)];
        shards_[std::size_t(target)] = before[std::size_t(source)];
      }
      EXPECT_EQ(sources, IndexList(n, 1));
      EXPECT_EQ(targets, IndexList(n, 1));
    }
    now_ = s.after;
    // ... or last.
    if (s.kind == Kind::all_gather || s.kind == Kind::all_to_all || s.kind == Kind::unshard) {
      reblock(now_, dim_of(s.dim), s.padded[dim_of(s.dim)] / s.after.shards(s.dim));
    }
    padded_ = s.padded;
    EXPECT_EQ(padded_, padded_dims(now_, dims_));
    verify();
  }

  /// Brings a dim to blocks of `rows` rows.
  void reblock(const TensorSharding& s, std::size_t dim, std::int64_t rows) {
    const std::int64_t have = shards_[0].dims[dim], ways = s.shards(std::int64_t(dim));
    if (have == rows) return;
    const std::vector<Local> before = shards_;
    double row = have > 0 ? double(bytes()) / double(have) : 0;
    for (std::size_t device = 0; device < shards_.size(); ++device) {
      std::vector<Local> all;
      for (std::size_t m : group(std::int64_t(device), s.dims[dim].axes)) all.push_back(before[m]);
      Local whole = resized(resized(joined(all, dim), dim, dims_[dim]), dim, rows * ways);
      shards_[device] = part(whole, dim, ways, s.shard_coordinates(std::int64_t(device))[dim]);
    }
    std::map<std::int64_t, std::int64_t> moved;  // by distance, the most that a device gets
    for (std::int64_t to = 0; to < ways; ++to) {
      std::map<std::int64_t, std::int64_t> got;
      for (std::int64_t r = to * rows; r < std::min((to + 1) * rows, dims_[dim]); ++r) {
        ++got[r / have - to];
      }
      got.erase(0);
      for (auto [distance, count] : got) moved[distance] = std::max(moved[distance], count);
    }
    for (auto [distance, count] : moved) {
      extra_bytes_ += double(count) * row;
      ++extra_collectives_;
    }
  }

  /// Every device holds the block of the padded array that the sharding gives it.
  void verify() {
    for (std::size_t device = 0; device < shards_.size(); ++device) {
      Local want = expected(now_, padded_, std::int64_t(device));
      auto members = group(std::int64_t(device), now_.unreduced);
      std::vector<Local> all;
      for (std::size_t m : members) all.push_back(shards_[m]);
      Local have = sum(all);
      ASSERT_EQ(have.dims, want.dims) << "device " << device << " " << now_.to_string();
      for (std::size_t i = 0; i < want.values.size(); ++i) {
        if (want.values[i] == kPadding) continue;
        ASSERT_EQ(have.values[i], want.values[i])
            << "device " << device << " element " << i << " of " << now_.to_string();
      }
    }
  }

  double extra_bytes() const { return extra_bytes_; }
  int extra_collectives() const { return extra_collectives_; }
  /// What an all-to-all took in, padding included.
  double sent() const { return double(sent_); }
  std::int64_t bytes() const { return std::int64_t(shards_[0].values.size()) * 4; }
  const TensorSharding& now() const { return now_; }

 private:
  std::vector<std::size_t> group(std::int64_t device, const IndexList& axes) const {
    std::vector<std::size_t> members;
    std::int64_t n = 1;
    for (int a : axes) n *= mesh_->axes[std::size_t(a)].size;
    Dims strides = mesh_->strides();
    for (std::int64_t m = 0; m < n; ++m) {
      std::int64_t rest = m, position = mesh_->position_of(device);
      for (std::size_t k = axes.size(); k-- > 0;) {
        auto a = std::size_t(axes[k]);
        position += (rest % mesh_->axes[a].size - mesh_->coordinate(device, axes[k])) * strides[a];
        rest /= mesh_->axes[a].size;
      }
      members.push_back(std::size_t(mesh_->device_at(position)));
    }
    return members;
  }

  /// Element numbers; padding beyond the array's end.
  Local expected(const TensorSharding& s, const Dims& padded, std::int64_t device) const {
    Local x;
    Dims ways = s.shards(), at = s.shard_coordinates(device);
    for (std::size_t d = 0; d < dims_.size(); ++d) x.dims.push_back(padded[d] / ways[d]);
    x.values.assign(std::size_t(element_count(x.dims)), kPadding);
    for_each_index(x.dims, [&](const Dims& local) {
      Dims global = local;
      for (std::size_t d = 0; d < dims_.size(); ++d) global[d] += at[d] * x.dims[d];
      for (std::size_t d = 0; d < dims_.size(); ++d) {
        if (global[d] >= dims_[d]) return;
      }
      x.values[offset(x.dims, local)] = std::int64_t(offset(dims_, global)) + 1;
    });
    return x;
  }

  static std::int64_t summand(std::int64_t total, const std::vector<std::int64_t>& at) {
    std::int64_t h = total * 31;
    for (std::int64_t c : at) h = (h * 17 + c * 7 + 3) % 1009;
    return h;
  }
  std::int64_t others(std::int64_t total, const IndexList& axes) const {
    std::int64_t all = 0;
    Dims sizes;
    for (int a : axes) sizes.push_back(mesh_->axes[std::size_t(a)].size);
    for_each_index(sizes, [&](const Dims& at) {
      if (std::any_of(at.begin(), at.end(), [](auto c) { return c != 0; })) {
        all += summand(total, at);
      }
    });
    return all;
  }

  MeshRef mesh_;
  Dims dims_;
  TensorSharding now_;
  Dims padded_;
  std::vector<Local> shards_;
  double extra_bytes_ = 0;
  int extra_collectives_ = 0;
  std::int64_t sent_ = 0;
};

double received(const ReshardStep& s, const MeshRef& mesh, double before, double after,
                double sent) {
  double n = 1;
  for (int a : s.axes) n *= double(mesh->axes[std::size_t(a)].size);
  switch (s.kind) {
    case Kind::slice:
    case Kind::unshard:
      return 0;
    case Kind::all_gather:
      return before * (n - 1);
    case Kind::all_to_all:
      return sent * (n - 1) / n;
    case Kind::permute:
      return before;
    case Kind::all_reduce:
      return 2 * before * (n - 1) / n;
    case Kind::reduce_scatter:
      return after * (n - 1);
  }
  return 0;
}

IndexList without_ones(const IndexList& axes, const MeshRef& mesh) {
  IndexList kept;
  for (int a : axes) {
    if (mesh->axes[std::size_t(a)].size > 1) kept.push_back(a);
  }
  return kept;
}

/// Carries a plan out and checks its figures.
void run(const TensorSharding& from, const TensorSharding& to, const Dims& dims) {
  const MeshRef& mesh = to.mesh;
  ReshardPlan plan = plan_reshard(from, to, dims, 4);
  Simulation simulation(mesh, dims);
  simulation.start(from);
  simulation.verify();
  double bytes = 0;
  int collectives = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const ReshardStep& step = plan.steps[i];
    const std::size_t count = exchanges_in_one(plan.steps, i, simulation.now(), dims);
    if (count > 1) {
      // Each device keeps one piece and passes all others on, once.
      double ways = 1;
      const double holds = double(simulation.bytes());
      for (std::size_t k = i; k < i + count; ++k) {
        for (int a : plan.steps[k].axes) ways *= double(mesh->axes[std::size_t(a)].size);
        simulation.step(plan.steps[k]);
        if (::testing::Test::HasFatalFailure()) return;
      }
      bytes += holds * (ways - 1) / ways;
      ++collectives;
      i += count - 1;
      continue;
    }
    double before = double(simulation.bytes());
    simulation.step(step);
    if (::testing::Test::HasFatalFailure()) return;
    double after = double(simulation.bytes());
    // A gather's figure is before the rows at its boundaries move; so is its result.
    bytes += received(step, mesh, before, after, simulation.sent()) + simulation.extra_bytes();
    collectives +=
        (step.kind != Kind::slice && step.kind != Kind::unshard) + simulation.extra_collectives();
  }
  EXPECT_EQ(simulation.now().shards(), to.shards());
  for (std::int64_t device = 0; device < mesh->num_devices(); ++device) {
    EXPECT_EQ(simulation.now().shard_coordinates(device), to.shard_coordinates(device));
  }
  EXPECT_EQ(without_ones(simulation.now().unreduced, mesh), without_ones(to.unreduced, mesh));
  EXPECT_NEAR(plan.bytes_received, bytes, 1e-6 * (1 + bytes));
  EXPECT_EQ(plan.collectives, collectives);
  EXPECT_DOUBLE_EQ(ReshardPlanner().price(from, to, dims, 4), plan.cost);
  // The search for layouts passes over what can't be cheaper than another one.
  EXPECT_LE(reshard_lower_bound(from, to, dims, 4, cost::Machine()), plan.cost * (1 + 1e-9));
}

TensorSharding random_sharding(const MeshRef& mesh, std::int64_t rank, std::mt19937& random,
                               bool unreduced) {
  TensorSharding s = TensorSharding::replicated_on(mesh, rank);
  IndexList axes(mesh->axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = int(a);
  std::shuffle(axes.begin(), axes.end(), random);
  for (int a : axes) {
    auto where = random() % std::uint32_t(rank + 2);
    if (where < std::uint32_t(rank)) s.dims[where].axes.push_back(a);
    if (unreduced && where == std::uint32_t(rank)) s.unreduced.push_back(a);
  }
  std::sort(s.unreduced.begin(), s.unreduced.end());
  return s;
}

TensorSharding with(const MeshRef& mesh, std::vector<IndexList> dims, IndexList unreduced = {}) {
  TensorSharding s = TensorSharding::replicated_on(mesh, std::int64_t(dims.size()));
  for (std::size_t d = 0; d < dims.size(); ++d) s.dims[d].axes = dims[d];
  s.unreduced = std::move(unreduced);
  return s;
}

std::vector<Kind> kinds(const ReshardPlan& plan) {
  std::vector<Kind> k;
  for (const auto& step : plan.steps) k.push_back(step.kind);
  return k;
}

unsigned seed() {
  const char* given = std::getenv("TESSERA_TEST_SEED");
  return given ? unsigned(std::atoi(given)) : 20240607u;
}

TEST(Planner, RandomPairsArriveWhereTheySay) {
  std::mt19937 random(seed());
  SCOPED_TRACE("TESSERA_TEST_SEED=" + std::to_string(seed()));
  std::vector<MeshRef> meshes = {
      make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}}),
      make_logical_mesh({{"a", 2}, {"b", 4}}),
      make_logical_mesh({{"a", 8}}),
      refine_to_primes(make_logical_mesh({{"a", 8}})),
      make_logical_mesh({{"a", 3}, {"b", 2}}),
      make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}}, {3, 1, 0, 2, 7, 6, 4, 5}),
      make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}, {"e", 2}}),
      make_logical_mesh({{"a", 2}, {"b", 3}, {"c", 2}, {"d", 2}, {"e", 1}}),
  };
  for (int trial = 0; trial < 1500; ++trial) {
    const MeshRef& mesh = meshes[random() % meshes.size()];
    auto rank = std::int64_t(random() % 5);
    Dims dims;
    for (std::int64_t d = 0; d < rank; ++d) {
      dims.push_back(random() % 3 == 0 ? std::int64_t(random() % 11) : 8);
    }
    TensorSharding from = random_sharding(mesh, rank, random, random() % 3 == 0);
    TensorSharding to = random_sharding(mesh, rank, random, random() % 6 == 0);
    SCOPED_TRACE("trial " + std::to_string(trial) + " dims " + to_string(dims) + " from " +
                 from.to_string() + " to " + to.to_string());
    run(from, to, dims);
    if (HasFailure()) return;
  }
}

TEST(Planner, AllPairsOnThreeAxesKeepToSourceAndTarget) {
  MeshRef mesh = make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}});
  std::vector<TensorSharding> all;
  IndexList order = {0, 1, 2};
  do {
    for (std::size_t used = 0; used <= 3; ++used) {
      for (std::size_t cut = 0; cut <= used; ++cut) {
        auto at = [&](std::size_t i) { return order.begin() + std::ptrdiff_t(i); };
        TensorSharding s = with(mesh, {{at(0), at(cut)}, {at(cut), at(used)}});
        if (std::none_of(all.begin(), all.end(), [&](auto& o) { return o.same_placement(s); })) {
          all.push_back(s);
        }
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  ASSERT_EQ(all.size(), 49u);
  double total = 0;
  for (const auto& from : all) {
    for (const auto& to : all) {
      ReshardPlan plan = plan_reshard(from, to, {64, 64}, 4);
      std::int64_t ends =
          element_count(from.shard_dims({64, 64})) * 4 + element_count(to.shard_dims({64, 64})) * 4;
      EXPECT_LE(plan.peak_bytes, ends) << from.to_string() << " to " << to.to_string();
      total += plan.bytes_received / 4;
      run(from, to, {8, 8});
      if (HasFailure()) return;
    }
  }
  // The least that slices, gathers, all-to-alls and permutes can do.
  EXPECT_DOUBLE_EQ(total, 2056704);
}

TEST(Planner, PicksTheExpectedCollective) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  const Dims dims = {64, 64};
  auto plan = [&](const TensorSharding& a, const TensorSharding& b) {
    return plan_reshard(a, b, dims, 4);
  };
  using V = std::vector<Kind>;
  EXPECT_EQ(kinds(plan(with(m, {{0}, {}}), with(m, {{0}, {}}))), V{});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}), with(m, {{0, 1}, {}}))), V{Kind::slice});
  EXPECT_EQ(kinds(plan(with(m, {{1}, {}}), with(m, {{}, {}}))), V{Kind::all_gather});
  EXPECT_EQ(kinds(plan(with(m, {{1}, {}}), with(m, {{}, {1}}))), V{Kind::all_to_all});
  EXPECT_EQ(kinds(plan(with(m, {{0, 1}, {}}), with(m, {{1, 0}, {}}))), V{Kind::permute});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {1}), with(m, {{}, {}}))), V{Kind::all_reduce});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {1}), with(m, {{1}, {}}))), V{Kind::reduce_scatter});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {0, 1}), with(m, {{1}, {0}}))),
            (V{Kind::reduce_scatter, Kind::reduce_scatter}));
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {0, 1}), with(m, {{0, 1}, {}}))), V{Kind::reduce_scatter});
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}), with(m, {{}, {}}, {1}))), V{Kind::slice});
  EXPECT_EQ(kinds(plan(with(m, {{1}, {}}), with(m, {{}, {}}, {1}))), V{Kind::unshard});
  EXPECT_EQ(kinds(plan(with(m, {{}, {1}}), with(m, {{}, {}}, {0, 1}))),
            (V{Kind::slice, Kind::unshard}));
  EXPECT_EQ(kinds(plan(with(m, {{}, {}}, {0}), with(m, {{}, {}}, {1}))),
            (V{Kind::slice, Kind::all_reduce, Kind::unshard}));
  // Slicing first makes the rest cheaper.
  ReshardPlan swap = plan(with(m, {{0}, {}}), with(m, {{1}, {}}));
  EXPECT_EQ(swap.steps.front().kind, Kind::slice);
  EXPECT_FALSE(swap.full_gather);
}

// Axes that go to dims of their own, from one dim or from several, go there together.
TEST(Planner, ExchangesInARowAreOne) {
  MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  const Dims dims{16, 8, 8, 24};
  const double shard = 16 * 8 * 8 * 24 * 4 / 8.0;
  for (const auto& [from, to] :
       {std::pair(with(mesh, {{}, {}, {0}, {1}}), with(mesh, {{0}, {1}, {}, {}})),
        std::pair(with(mesh, {{}, {}, {0, 1}, {}}), with(mesh, {{0}, {1}, {}, {}})),
        std::pair(with(mesh, {{0}, {1}, {}, {}}), with(mesh, {{}, {}, {}, {0, 1}}))}) {
    const ReshardPlan plan = plan_reshard(from, to, dims, 4);
    EXPECT_EQ(plan.collectives, 1) << from.to_string() << " to " << to.to_string();
    EXPECT_DOUBLE_EQ(plan.bytes_received, shard * 7 / 8);
    run(from, to, dims);
  }
}

TEST(Planner, SumsAreScatteredRatherThanReduced) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  ReshardPlan scatter = plan_reshard(with(m, {{}, {}}, {1}), with(m, {{}, {1}}), {64, 64}, 4);
  EXPECT_DOUBLE_EQ(scatter.bytes_received, 64 * 64 * 4 / 4 * 3);
  const cost::Machine machine;
  EXPECT_DOUBLE_EQ(
      reshard_lower_bound(with(m, {{}, {}}, {0, 1}), with(m, {{0}, {1}}), {64, 64}, 4, machine),
      machine.least(64 * 64 * 4 / 8 * 7));
  ReshardPlan reduce = plan_reshard(with(m, {{}, {}}, {1}), with(m, {{}, {}}), {64, 64}, 4);
  EXPECT_DOUBLE_EQ(reduce.bytes_received, 2 * 64 * 64 * 4 * 3 / 4);
}

TEST(Planner, LargeMeshesAreQuickAndRight) {
  std::mt19937 random(7);
  MeshRef big = refine_to_primes(make_logical_mesh({{"x", 8}, {"y", 8}}));
  // Whole axes move as one.
  ReshardPlan plan = plan_reshard(with(big, {{0, 1, 2}, {3, 4, 5}}),
                                  with(big, {{3, 4, 5}, {0, 1, 2}}), {64, 64}, 4);
  EXPECT_EQ(kinds(plan), std::vector<Kind>{Kind::permute});
  for (int trial = 0; trial < 12; ++trial) {
    TensorSharding from = random_sharding(big, 2, random, false);
    TensorSharding to = random_sharding(big, 2, random, false);
    SCOPED_TRACE(from.to_string() + " to " + to.to_string());
    run(from, to, {64, 64});
  }
}

TEST(Planner, UnevenDimsKeepTheirBlocks) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  for (std::int64_t n : {1, 3, 5, 7, 9, 10, 13}) {
    SCOPED_TRACE(n);
    run(with(m, {{1}, {}}), with(m, {{1, 0}, {}}), {n, 4});
    run(with(m, {{1, 0}, {}}), with(m, {{1}, {}}), {n, 4});
    run(with(m, {{1}, {}}), with(m, {{}, {1}}), {n, n});
    run(with(m, {{0}, {1}}), with(m, {{1}, {0}}), {n, n});
    run(with(m, {{}, {}}, {1}), with(m, {{1}, {}}), {n, 3});
  }
}

TEST(Planner, UnevenDimsAreNotGatheredWhole) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  // 10 rows in 4 blocks of 3, then in 8 of 2: rows go to a neighbour, no more.
  ReshardPlan plan = plan_reshard(with(m, {{1}}), with(m, {{1, 0}}), {10}, 4);
  EXPECT_FALSE(plan.full_gather);
  EXPECT_LT(plan.bytes_received, 4 * 3);
}

TEST(Planner, AFullGatherIsReported) {
  MeshRef m = make_logical_mesh({{"x", 2}, {"y", 4}});
  EXPECT_FALSE(plan_reshard(with(m, {{0}}), with(m, {{}}), {5}, 4).full_gather);
  EXPECT_FALSE(plan_reshard(with(m, {{0}}), with(m, {{1}}), {16}, 4).full_gather);
  // On one element nothing is cheaper than all of it.
  EXPECT_TRUE(plan_reshard(with(m, {{0}}), with(m, {{1}}), {1}, 4).full_gather);
}

}  // namespace
}  // namespace tessera::spmd
