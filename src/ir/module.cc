// SPDX-License-Identifier: Apache-2.0
// Module: computations, copying them, and groups of devices.
#include "src/ir/module.h"

#include <algorithm>
#include <unordered_set>

#include "src/base/contains.h"
#include "src/ir/cloner.h"
#include "src/ir/names.h"
#include "src/ir/post_order.h"
#include "src/sharding/axes/ways.h"

namespace tessera::ir {
namespace {

using ComputationMap = std::unordered_map<const Computation*, Computation*>;

// Callees must be in `callees` already.
void copy_body(const Computation& source, Computation* target, const ComputationMap& callees) {
  CloneOptions options;
  options.callees = &callees;
  target->set_root(Cloner(source, target, options).clone_all());
}

}  // namespace

std::vector<Computation*> post_order(const std::vector<Computation*>& roots) {
  std::vector<Computation*> order;
  // false: being visited.
  std::unordered_map<const Computation*, bool> state;
  struct Frame {
    Computation* c;
    std::vector<Computation*> callees;
    std::size_t next;
  };
  auto callees_of = [](const Computation* c) {
    std::vector<Computation*> out;
    std::unordered_set<const Computation*> seen;
    for (const auto& i : c->instructions()) {
      for (Computation* callee : i->called()) {
        if (seen.insert(callee).second) out.push_back(callee);
      }
    }
    return out;
  };
  std::vector<Frame> stack;
  for (Computation* root : roots) {
    if (!state.emplace(root, false).second) continue;
    stack.push_back({root, callees_of(root), 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.callees.size()) {
        state[frame.c] = true;
        order.push_back(frame.c);
        stack.pop_back();
        continue;
      }
      Computation* callee = frame.callees[frame.next++];
      auto [it, fresh] = state.emplace(callee, false);
      if (!fresh) {
        if (!it->second) {
          throw ValueError("computation " + callee->name() +
                           " calls itself (directly or through others); HLO has no recursion");
        }
        continue;
      }
      stack.push_back({callee, callees_of(callee), 0});
    }
  }
  return order;
}

Computation* Module::add_computation(const std::string& requested) {
  std::string unique = sanitize_name(std::string(requested.empty() ? "computation" : requested));
  if (!name_counts_.emplace(unique, 0).second) {
    std::string stem(name_stem(unique));
    std::string candidate;
    do {
      candidate = stem + "." + std::to_string(++name_counts_[stem]);
    } while (!name_counts_.emplace(candidate, 0).second);
    unique = std::move(candidate);
  }
  auto owned = std::make_unique<Computation>(this, std::move(unique));
  Computation* c = owned.get();
  // The entry stays last, so that callees made while it is written come before it.
  auto at = computations_.end();
  if (entry_ != nullptr && !computations_.empty() && computations_.back().get() == entry_) --at;
  computations_.insert(at, std::move(owned));
  return c;
}

std::unique_ptr<Module> Module::clone() const {
  auto copy = std::make_unique<Module>(name);
  copy->num_partitions = num_partitions;
  copy->replica_count = replica_count;
  copy->mesh = mesh;
  copy->input_output_alias = input_output_alias;
  copy->buffer_donor = buffer_donor;
  copy->frontend_attributes = frontend_attributes;
  copy->other = other;
  // Bodies are filled callees first, whatever order they stand in; the order that stands is kept.
  ComputationMap map;
  std::vector<Computation*> all;
  for (const auto& c : computations_) {
    all.push_back(c.get());
    map.emplace(c.get(), copy->add_computation(c->name()));
  }
  for (const Computation* c : all) copy_body(*c, map.at(c), map);
  if (entry_ != nullptr) copy->set_entry(map.at(entry_));
  return copy;
}

Computation* Module::import(const Computation& source) {
  ComputationMap map;
  for (Computation* c : post_order({const_cast<Computation*>(&source)})) {
    Computation* copy = add_computation(c->name());
    copy_body(*c, copy, map);
    map.emplace(c, copy);
  }
  return map.at(&source);
}

void Module::remove_dead_computations() {
  if (entry_ == nullptr) return;
  std::unordered_map<const Computation*, std::unique_ptr<Computation>> owned;
  std::vector<Computation*> order = post_order({entry_});
  for (auto& c : computations_) {
    const Computation* key = c.get();
    owned.emplace(key, std::move(c));
  }
  computations_.clear();
  for (const Computation* c : order) {
    auto it = owned.find(c);
    TESSERA_CHECK(it != owned.end(), "computation " + c->name() + " is of another module");
    computations_.push_back(std::move(it->second));
  }
}

std::size_t Module::instruction_count() const {
  std::size_t n = 0;
  for (const auto& c : computations_) n += c->instructions().size();
  return n;
}

DeviceGroups DeviceGroups::over(MeshRef mesh, IndexList axes) {
  TESSERA_CHECK(mesh != nullptr, "symbolic device groups need a mesh");
  for (int axis : axes) {
    TESSERA_CHECK(axis >= 0 && std::size_t(axis) < mesh->axes.size(),
                  "axis number " + std::to_string(axis) + " of mesh " + mesh->name);
  }
  DeviceGroups groups;
  groups.mesh = std::move(mesh);
  groups.axes = std::move(axes);
  return groups;
}

std::vector<std::vector<std::int64_t>> DeviceGroups::expand(std::int64_t num_partitions) const {
  TESSERA_CHECK(!batch, "entries of the batch '" + batch.name + "' are no devices");
  if (!symbolic()) {
    if (!lists.empty()) return lists;
    std::vector<std::int64_t> all(
        static_cast<std::size_t>(std::max<std::int64_t>(num_partitions, 0)));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::int64_t(i);
    return {std::move(all)};
  }
  Dims strides = mesh->strides();
  // Positions of all combinations of some axes, the last one fastest.
  auto positions = [&](const IndexList& over) {
    std::vector<std::int64_t> out{0};
    for (int axis : over) {
      std::vector<std::int64_t> next;
      std::int64_t size = mesh->axes[std::size_t(axis)].size;
      next.reserve(out.size() * std::size_t(size));
      for (std::int64_t base : out) {
        for (std::int64_t k = 0; k < size; ++k)
          next.push_back(base + k * strides[std::size_t(axis)]);
      }
      out = std::move(next);
    }
    return out;
  };
  IndexList rest;
  for (int axis = 0; axis < int(mesh->axes.size()); ++axis) {
    if (!contains(axes, axis)) rest.push_back(axis);
  }
  std::vector<std::int64_t> members = positions(axes);
  std::vector<std::vector<std::int64_t>> out;
  for (std::int64_t base : positions(rest)) {
    std::vector<std::int64_t>& group = out.emplace_back();
    group.reserve(members.size());
    for (std::int64_t member : members) group.push_back(mesh->device_at(base + member));
  }
  return out;
}

std::int64_t DeviceGroups::group_size(std::int64_t num_partitions) const {
  if (batch) return batch.size;
  if (symbolic()) return ways_of(*mesh, axes);
  return lists.empty() ? num_partitions : std::int64_t(lists.front().size());
}

}  // namespace tessera::ir
