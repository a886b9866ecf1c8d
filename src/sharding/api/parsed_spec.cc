// SPDX-License-Identifier: Apache-2.0
// ParsedPartitionSpec: specs as lists of axes, in sync with what the user wrote or not.
#include <tessera/sharding/parsed_spec.h>

#include <algorithm>
#include <map>

#include "src/sharding/api/hash_mix.h"

namespace tessera {

std::string to_string(SpecSync sync) {
  switch (sync) {
    case SpecSync::out_of_sync:
      return "OUT_OF_SYNC";
    case SpecSync::dim_permute:
      return "DIM_PERMUTE";
    case SpecSync::in_sync:
      return "IN_SYNC";
  }
  return "?";
}

namespace {

/// The axes that stand more than once, in quotes; empty if there are none.
std::string repeated_axes(const std::vector<SpecEntry>& entries,
                          const std::vector<std::string>& others = {}) {
  std::map<std::string, int> count;
  for (const SpecEntry& e : entries) {
    for (const std::string& a : e.axes()) ++count[a];
  }
  for (const std::string& a : others) ++count[a];
  std::string out;
  for (const auto& [axis, n] : count) {
    if (n > 1) out += (out.empty() ? "'" : ", '") + axis + "'";
  }
  return out;
}

/// The unreduced and the reduced axes of a spec, which may not split dims.
std::vector<std::string> other_axes(const std::optional<PartitionSpec>& spec) {
  if (!spec) return {};
  std::vector<std::string> out = spec->unreduced();
  out.insert(out.end(), spec->reduced().begin(), spec->reduced().end());
  return out;
}

}  // namespace

ParsedPartitionSpec::ParsedPartitionSpec(std::optional<PartitionSpec> user_spec,
                                         std::vector<SpecEntry> partitions, SpecSync sync)
    : user_spec_(std::move(user_spec)), partitions_(std::move(partitions)), sync_(sync) {}

ParsedPartitionSpec ParsedPartitionSpec::from_user_input(const std::optional<PartitionSpec>& entry,
                                                         const std::string& arg_name,
                                                         bool allow_unconstrained,
                                                         Location location) {
  if (!entry) return {};
  for (const SpecEntry& e : *entry) {
    if (!e.is_unconstrained() || allow_unconstrained) continue;
    throw ValueError(arg_name + ": UNCONSTRAINED isn't allowed here, got " + entry->to_string(),
                     location);
  }
  if (const std::string repeated = repeated_axes(entry->entries(), other_axes(entry));
      !repeated.empty()) {
    throw DuplicateSpecError("a single " + arg_name +
                                 " specification can map every mesh axis to at most one dimension, "
                                 "and " +
                                 entry->to_string() + " has duplicate entries for " + repeated,
                             location);
  }
  return ParsedPartitionSpec(entry, entry->entries());
}

const std::optional<PartitionSpec>& ParsedPartitionSpec::user_spec(Location location) const {
  return unsynced_user_spec(SpecSync::in_sync, location);
}

const std::optional<PartitionSpec>& ParsedPartitionSpec::unsynced_user_spec(
    SpecSync min_sync, Location location) const {
  if (sync_ < min_sync) {
    throw ValueError("the user's spec of " + to_string() + " is asked for with sync level " +
                         tessera::to_string(min_sync) +
                         " or more; get_partition_spec() gives the "
                         "spec of the partitions",
                     location);
  }
  return user_spec_;
}

PartitionSpec ParsedPartitionSpec::get_partition_spec() const {
  if (sync_ == SpecSync::in_sync && user_spec_) return *user_spec_;
  PartitionSpec spec = PartitionSpec::from_entries(partitions_);
  if (!user_spec_) return spec;
  if (const auto kind = user_spec_->unreduced_kind()) {
    spec = spec.with_unreduced(user_spec_->unreduced(), *kind);
  }
  return spec.with_reduced(user_spec_->reduced());
}

ParsedPartitionSpec ParsedPartitionSpec::insert_axis_partitions(std::int64_t dim, const Axes& axes,
                                                                Location location) const {
  if (dim < 0) {
    throw ValueError("insert_axis_partitions: there is no dimension " + std::to_string(dim) +
                         "; dims count from 0",
                     location);
  }
  ParsedPartitionSpec out = *this;
  const std::size_t place = std::size_t(dim);
  if (out.partitions_.size() < place) out.partitions_.resize(place);
  out.partitions_.insert(out.partitions_.begin() + std::ptrdiff_t(place), SpecEntry(axes));
  std::vector<std::string> others = other_axes(user_spec_);
  others.insert(others.end(), manual_axes_.begin(), manual_axes_.end());
  if (const std::string repeated = repeated_axes(out.partitions_, others); !repeated.empty()) {
    throw DuplicateSpecError("insert_axis_partitions: " + SpecEntry(axes).to_string() +
                                 " can't be inserted as dimension " + std::to_string(dim) + " of " +
                                 to_string() + ", which uses " + repeated + " already",
                             location);
  }
  out.sync_ = std::min(sync_, axes.empty() ? SpecSync::dim_permute : SpecSync::out_of_sync);
  return out;
}

ParsedPartitionSpec ParsedPartitionSpec::with_manual_axes(std::vector<std::string> axes,
                                                          Location location) const {
  if (const std::string repeated = repeated_axes(partitions_, axes); !repeated.empty()) {
    throw DuplicateSpecError("an axis can't be manual and split a dimension of " + to_string() +
                                 ", or be manual twice: " + repeated,
                             location);
  }
  ParsedPartitionSpec out = *this;
  out.manual_axes_ = std::move(axes);
  return out;
}

const SpecEntry& ParsedPartitionSpec::operator[](std::size_t i) const {
  if (i >= partitions_.size()) {
    throw ValueError("entry " + std::to_string(i) + " of " + to_string() + ", which has " +
                     std::to_string(partitions_.size()));
  }
  return partitions_[i];
}

std::string ParsedPartitionSpec::to_string() const {
  std::string out = "<partitions=(";
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    out += i ? ", " : "";
    if (partitions_[i].is_unconstrained()) {
      out += "UNCONSTRAINED";
      continue;
    }
    out += "(";
    const std::vector<std::string>& axes = partitions_[i].axes();
    for (std::size_t k = 0; k < axes.size(); ++k) out += (k ? ", '" : "'") + axes[k] + "'";
    out += axes.size() == 1 ? ",)" : ")";
  }
  out += partitions_.size() == 1 ? ",)" : ")";
  if (!manual_axes_.empty()) {
    out += " manual=(";
    for (std::size_t k = 0; k < manual_axes_.size(); ++k) {
      out += (k ? ", '" : "'") + manual_axes_[k] + "'";
    }
    out += ")";
  }
  return out + " sync=" + tessera::to_string(sync_) + ">";
}

std::size_t ParsedPartitionSpec::hash() const {
  std::size_t h = std::size_t(sync_);
  for (const SpecEntry& e : partitions_) internal::hash_mix(h, e.hash());
  return h;
}

}  // namespace tessera
