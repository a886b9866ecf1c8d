// SPDX-License-Identifier: Apache-2.0
// Steps of a reshard on the shards of all devices, as plain loops over elements.
#include "tests/spmd/reshard/reshard_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tessera::spmd {
namespace {

using Kind = ReshardStep::Kind;

constexpr std::int64_t kPadding = -1000000;

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
LocalArray resized(const LocalArray& x, std::size_t dim, std::int64_t size) {
  LocalArray y;
  y.dims = x.dims;
  y.dims[dim] = size;
  y.values.assign(std::size_t(element_count(y.dims)), kPadding);
  for_each_index(y.dims, [&](const Dims& at) {
    if (at[dim] < x.dims[dim]) y.values[offset(y.dims, at)] = x.values[offset(x.dims, at)];
  });
  return y;
}

LocalArray part(const LocalArray& x, std::size_t dim, std::int64_t parts, std::int64_t index) {
  EXPECT_EQ(x.dims[dim] % parts, 0) << "a dim is cut unevenly";
  LocalArray y;
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

LocalArray joined(const std::vector<LocalArray>& parts, std::size_t dim) {
  LocalArray y;
  y.dims = parts[0].dims;
  y.dims[dim] *= std::int64_t(parts.size());
  y.values.resize(std::size_t(element_count(y.dims)));
  for_each_index(y.dims, [&](Dims at) {
    std::size_t to = offset(y.dims, at);
    const LocalArray& p = parts[std::size_t(at[dim] / parts[0].dims[dim])];
    at[dim] %= parts[0].dims[dim];
    y.values[to] = p.values[offset(p.dims, at)];
  });
  return y;
}

LocalArray sum(const std::vector<LocalArray>& parts) {
  LocalArray y = parts[0];
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      if (y.values[i] != kPadding) y.values[i] += parts[p].values[i];
    }
  }
  return y;
}

std::int64_t summand(std::int64_t total, const std::vector<std::int64_t>& at) {
  std::int64_t h = total * 31;
  for (std::int64_t c : at) h = (h * 17 + c * 7 + 3) % 1009;
  return h;
}

}  // namespace

void ReshardSimulation::start(const TensorSharding& s) {
  now_ = s;
  padded_ = padded_dims(s, dims_);
  const auto n = std::size_t(mesh_->num_devices());
  shards_.resize(n);
  for (std::size_t device = 0; device < n; ++device) {
    shards_[device] = expected(s, padded_, std::int64_t(device));
  }
  if (s.unreduced.empty()) return;
  // Random summands that give the value together; copies must be equal.
  for (std::size_t device = 0; device < n; ++device) {
    std::vector<std::int64_t> at;
    for (int a : s.unreduced) at.push_back(mesh_->coordinate(std::int64_t(device), a));
    bool first = std::all_of(at.begin(), at.end(), [](auto c) { return c == 0; });
    LocalArray& x = shards_[device];
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

void ReshardSimulation::step(const ReshardStep& s) {
  extra_bytes_ = 0;
  extra_collectives_ = 0;
  std::int64_t parts = 1;
  for (int a : s.axes) parts *= mesh_->axes[std::size_t(a)].size;
  const auto block = [&](int dim) { return s.padded[std::size_t(dim)] / s.after.shards(dim); };
  // Rows that stand on the wrong side of a boundary go first ...
  if ((s.kind == Kind::slice && s.dim >= 0) || s.kind == Kind::reduce_scatter) {
    reblock(now_, std::size_t(s.dim), parts * block(s.dim));
  } else if (s.kind == Kind::all_to_all) {
    reblock(now_, std::size_t(s.to_dim), parts * block(s.to_dim));
    sent_ = bytes();
  }
  if (s.kind == Kind::permute) {
    permute(s);
  } else {
    const std::vector<LocalArray> before = shards_;
    for (std::size_t device = 0; device < shards_.size(); ++device) {
      std::vector<LocalArray> members;
      std::int64_t self = 0;
      for (std::size_t m : group(std::int64_t(device), s.axes)) {
        if (m == device) self = std::int64_t(members.size());
        members.push_back(before[m]);
      }
      shards_[device] = after_step(s, members, self);
    }
  }
  now_ = s.after;
  // ... or last.
  if (s.kind == Kind::all_gather || s.kind == Kind::all_to_all || s.kind == Kind::unshard) {
    reblock(now_, std::size_t(s.dim), block(s.dim));
  }
  padded_ = s.padded;
  EXPECT_EQ(padded_, padded_dims(now_, dims_));
  verify();
}

LocalArray ReshardSimulation::after_step(const ReshardStep& s,
                                         const std::vector<LocalArray>& members,
                                         std::int64_t self) const {
  const auto dim = std::size_t(s.dim), to = std::size_t(s.to_dim);
  const auto parts = std::int64_t(members.size());
  const LocalArray& own = members[std::size_t(self)];
  const auto without_values = [](LocalArray x) {
    for (auto& v : x.values) v = v == kPadding ? v : 0;
    return x;
  };
  const auto of_each = [&](auto&& make) {
    std::vector<LocalArray> all;
    for (std::int64_t m = 0; m < parts; ++m) all.push_back(make(m, members[std::size_t(m)]));
    return all;
  };
  switch (s.kind) {
    case Kind::slice:
      if (s.dim >= 0) return part(own, dim, parts, self);
      return self == 0 ? own : without_values(own);
    case Kind::all_gather:
      return joined(members, dim);
    case Kind::all_to_all:
      return joined(
          of_each([&](std::int64_t, const LocalArray& x) { return part(x, to, parts, self); }),
          dim);
    case Kind::all_reduce:
      return sum(members);
    case Kind::reduce_scatter:
      return part(sum(members), dim, parts, self);
    case Kind::unshard:
      return joined(of_each([&](std::int64_t m, const LocalArray& x) {
                      return m == self ? x : without_values(x);
                    }),
                    dim);
    case Kind::permute:
      break;
  }
  return own;
}

void ReshardSimulation::permute(const ReshardStep& s) {
  const std::vector<LocalArray> before = shards_;
  IndexList sources(before.size()), targets(before.size());
  for (auto [source, target] : permute_pairs(now_, s.after)) {
    ++sources[std::size_t(source)];
    ++targets[std::size_t(target)];
    shards_[std::size_t(target)] = before[std::size_t(source)];
  }
  EXPECT_EQ(sources, IndexList(before.size(), 1));
  EXPECT_EQ(targets, IndexList(before.size(), 1));
}

void ReshardSimulation::reblock(const TensorSharding& s, std::size_t dim, std::int64_t rows) {
  const std::int64_t have = shards_[0].dims[dim], ways = s.shards(std::int64_t(dim));
  if (have == rows) return;
  const std::vector<LocalArray> before = shards_;
  double row = have > 0 ? double(bytes()) / double(have) : 0;
  for (std::size_t device = 0; device < shards_.size(); ++device) {
    std::vector<LocalArray> all;
    for (std::size_t m : group(std::int64_t(device), s.dims[dim].axes)) all.push_back(before[m]);
    LocalArray whole = resized(resized(joined(all, dim), dim, dims_[dim]), dim, rows * ways);
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

void ReshardSimulation::verify() {
  for (std::size_t device = 0; device < shards_.size(); ++device) {
    LocalArray want = expected(now_, padded_, std::int64_t(device));
    auto members = group(std::int64_t(device), now_.unreduced);
    std::vector<LocalArray> all;
    for (std::size_t m : members) all.push_back(shards_[m]);
    LocalArray have = sum(all);
    ASSERT_EQ(have.dims, want.dims) << "device " << device << " " << now_.to_string();
    for (std::size_t i = 0; i < want.values.size(); ++i) {
      if (want.values[i] == kPadding) continue;
      ASSERT_EQ(have.values[i], want.values[i])
          << "device " << device << " element " << i << " of " << now_.to_string();
    }
  }
}

std::vector<std::size_t> ReshardSimulation::group(std::int64_t device,
                                                  const IndexList& axes) const {
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

LocalArray ReshardSimulation::expected(const TensorSharding& s, const Dims& padded,
                                       std::int64_t device) const {
  LocalArray x;
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

std::int64_t ReshardSimulation::others(std::int64_t total, const IndexList& axes) const {
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

}  // namespace tessera::spmd
