// SPDX-License-Identifier: Apache-2.0
// Enumerates the shardings of an array.
#include "src/spmd/auto_sharding/domains.h"

#include <algorithm>
#include <utility>

#include "src/base/key_writer.h"
#include "src/spmd/rules/axis_assignment.h"
#include "src/spmd/rules/projection.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::auto_sharding {
namespace {

using propagation::Value;

/// Shardings of one array that are looked at.
constexpr std::size_t kMaxStates = 256;

/// Unless it is among the first ones.
void add_state(std::vector<TensorSharding>* domain, const TensorSharding& s, std::size_t first) {
  const auto end = domain->begin() + std::ptrdiff_t(first);
  const bool known = std::any_of(domain->begin(), end, [&](const TensorSharding& d) {
    return d.dims == s.dims && d.unreduced == s.unreduced;
  });
  if (!known) domain->push_back(s);
}

}  // namespace

Domains::Domains(const ModelState& state, const Propagation& propagation, const HaloPrices* halos,
                 Placements* placements)
    : state_(state), propagation_(propagation), halos_(*halos), placements_(*placements) {
  for (const Value& value : state.graph.values) {
    is_open_.push_back(value.boundary ? value.open_boundary : !value.given);
  }
}

std::shared_ptr<const Domain> Domains::of(const std::vector<int>& members) {
  const auto root = std::size_t(members.front());
  const Value& value = state_.graph.values[root];
  KeyWriter key;
  // Which arguments and results may be split how is a question of its own.
  key.add_all(value.dims, state_.element_bytes[root], is_open_[root], state_.active,
              value.boundary ? members.front() : -1);
  for (std::size_t d = 0; d < value.dims.size(); ++d) key.add(halos_.may_be_uneven(int(root), d));
  const TensorSharding* last = nullptr;
  for (const int v : members) {
    const TensorSharding& s = state_.current[std::size_t(v)];
    if (last && s.dims == last->dims && s.unreduced == last->unreduced) continue;
    if (last && !is_open_[root]) break;
    for (const DimSharding& d : s.dims) key.add(d.axes);
    key.add_all(s.unreduced, s.manual);
    last = &s;
  }
  std::shared_ptr<const Domain>& known = known_[key.take()];
  if (!known) known = std::make_shared<const Domain>(make(members));
  return known;
}

Domain Domains::make(const std::vector<int>& members) {
  const auto root = std::size_t(members.front());
  Domain out;
  const TensorSharding& now = state_.current[root];
  out.shardings.push_back(now);
  if (is_open_[root]) {
    for (const int v : members) {
      add_state(&out.shardings, state_.current[std::size_t(v)], out.shardings.size());
    }
    TensorSharding state = now.closed();
    for (DimSharding& d : state.dims) d.axes = state_.without_active(d.axes);
    state.unreduced = state_.without_active(state.unreduced);
    state.replicated.clear();
    add_states(members.front(), std::move(state), &out.shardings);
  }
  KeyWriter key;
  for (const TensorSharding& s : out.shardings) {
    out.placements.push_back(
        placements_.of(s, state_.graph.values[root].dims, state_.element_bytes[root]));
    out.parts.push_back(parts_of(s));
    key.add_all(out.placements.back().number, out.placements.back().shard_bytes);
  }
  out.number = numbers_.try_emplace(key.take(), int(numbers_.size())).first->second;
  return out;
}

/// All even splits, and those of stencils, in which the groups that stay are where they are.
void Domains::add_states(int root, TensorSharding state,
                         std::vector<TensorSharding>* domain) const {
  const Value& value = state_.graph.values[std::size_t(root)];
  const std::size_t before = domain->size();
  std::vector<char> placed = state_.inactive();
  state_.place_manual(state, &placed);
  AxisAssignments all(
      state_.groups, std::move(placed),
      [&](std::size_t dim, const IndexList& axes) {
        return value.dims[dim] % ways_of(*state_.mesh, axes) == 0 ||
               (!value.boundary && halos_.may_be_uneven(root, dim));
      },
      [&](const std::vector<IndexList>& dims) {
        for (std::size_t d = 0; d < dims.size(); ++d) state.dims[d].axes = dims[d];
        if (!value.boundary || propagation_.is_free(root, state)) {
          // Each is met once here.
          add_state(domain, state, before);
        }
        return domain->size() < kMaxStates;
      });
  std::vector<IndexList> fixed;
  for (const DimSharding& d : state.dims) fixed.push_back(d.axes);
  all.run(std::move(fixed));
}

}  // namespace tessera::spmd::auto_sharding
