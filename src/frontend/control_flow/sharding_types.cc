// SPDX-License-Identifier: Apache-2.0
// Explicit mode in loops and branches: values keep the shardings in their types.
#include "src/frontend/control_flow/sharding_types.h"

namespace tessera::internal {

using frontend::AbstractValue;
using frontend::ShardingType;
using frontend::type_text;

namespace {
/// Values that state nothing go with all others.
bool differ(const ShardingType& a, const ShardingType& b) { return a && b && !(a == b); }
}  // namespace

void check_carry_shardings(const std::vector<Array>& carry,
                           const std::vector<AbstractValue>& results,
                           const std::vector<std::string>& paths, const std::string& name,
                           Location location) {
  std::string wrong, valid;
  for (std::size_t i = 0; i < carry.size(); ++i) {
    const AbstractValue have = frontend::abstract_value(carry[i]);
    ShardingType before = have.sharding;
    const ShardingType& after = results[i].sharding;
    // A value that states nothing before is replicated.
    if (!before && after) before = ShardingType::replicated(after.mesh, have.shape.dims.size());
    if (!differ(before, after)) continue;
    wrong += (wrong.empty() ? "" : "; ") + std::string("carry") + paths[i] + " is " +
             type_text(have.shape, before) + " before and " + type_text(have.shape, after) +
             " after the body";
    valid += (valid.empty() ? "" : ", ") + std::string("of the initial carry") + paths[i] + " to " +
             after.spec().to_string();
  }
  if (wrong.empty()) return;
  throw ShardingTypeError(name + ": the body must keep the shardings of the carry: " + wrong +
                              "; valid: reshard() " + valid + ", or of what the body returns",
                          location);
}

ShardingType slice_sharding(const Array& xs, const std::string& name, Location location) {
  const AbstractValue whole = frontend::abstract_value(xs);
  ShardingType out = whole.sharding;
  if (!out) return out;
  if (!out.dims[0].empty()) {
    throw ShardingTypeError(name + " over " + type_text(whole.shape, out) +
                                ": the first dim, along which it runs, is split; valid: reshard() "
                                "of it, so that dim 0 isn't split",
                            location);
  }
  out.dims.erase(out.dims.begin());
  return out;
}

ShardingType stacked_sharding(const ShardingType& slice) {
  ShardingType out = slice;
  if (out) out.dims.insert(out.dims.begin(), ShardingType::AxisList());
  return out;
}

void check_branch_shardings(const std::vector<frontend::TracedFunction>& branches,
                            const BranchNames& names) {
  for (std::size_t r = 0; r < branches[0].results.size(); ++r) {
    const ShardingType expected = joined_sharding(branches, r);
    std::size_t from = 0;
    while (!branches[from].results[r].sharding && from + 1 < branches.size()) ++from;
    for (std::size_t b = 0; b < branches.size(); ++b) {
      const AbstractValue& mine = branches[b].results[r];
      if (!differ(mine.sharding, expected)) continue;
      throw ShardingTypeError(
          names.api + ": branches must return the same types: " + names.result(r) + " is " +
              type_text(branches[from].results[r].shape, expected) + " in " + names.branch(from) +
              " and " + type_text(mine.shape, mine.sharding) + " in " + names.branch(b) +
              "; valid: reshard() of one to the spec of the other",
          names.location);
    }
  }
}

ShardingType joined_sharding(const std::vector<frontend::TracedFunction>& branches,
                             std::size_t result) {
  for (const frontend::TracedFunction& f : branches) {
    if (f.results[result].sharding) return f.results[result].sharding;
  }
  return {};
}

}  // namespace tessera::internal
