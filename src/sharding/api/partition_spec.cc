// SPDX-License-Identifier: Apache-2.0
// PartitionSpec: entries, printing, comparison.
#include <tessera/partition_spec.h>

#include <algorithm>

#include "src/base/contains.h"
#include "src/sharding/api/hash_mix.h"

namespace tessera {
namespace {

std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) out += (i ? ", '" : "'") + names[i] + "'";
  return out;
}

}  // namespace

std::string SpecEntry::to_string() const {
  if (unconstrained_) return "UNCONSTRAINED";
  if (axes_.empty()) return "None";
  const std::string list = quoted_list(axes_);
  return axes_.size() == 1 ? list : "(" + list + ")";
}

std::size_t SpecEntry::hash() const {
  std::size_t h = unconstrained_ ? 1 : 2 + axes_.size();
  for (const std::string& a : axes_) internal::hash_mix(h, std::hash<std::string>()(a));
  return h;
}

PartitionSpec PartitionSpec::from_entries(std::vector<SpecEntry> entries) {
  PartitionSpec p;
  p.entries_ = std::move(entries);
  return p;
}

const SpecEntry& PartitionSpec::operator[](internal::EntryPosition i) const {
  if (i.position >= entries_.size()) {
    throw ValueError("entry " + std::to_string(std::int64_t(i.position)) + " of " + to_string() +
                         ", which has " + std::to_string(entries_.size()),
                     i.location);
  }
  return entries_[i.position];
}

std::size_t PartitionSpec::index(const SpecEntry& value, Location location) const {
  const auto it = std::find(entries_.begin(), entries_.end(), value);
  if (it == entries_.end()) {
    throw ValueError(value.to_string() + " is not an entry of " + to_string(), location);
  }
  return std::size_t(it - entries_.begin());
}

std::size_t PartitionSpec::count(const SpecEntry& value) const {
  return std::size_t(std::count(entries_.begin(), entries_.end(), value));
}

namespace {

/// A set of axes of a spec, as a sorted list, so that equal specs compare equal. `others`: the
/// spec's other set.
std::vector<std::string> checked_set(const PartitionSpec& spec, std::vector<std::string> axes,
                                     const char* what, const std::vector<std::string>& others,
                                     const char* other, Location location) {
  std::vector<std::string> split, shared;
  const std::string given = std::string(what) + "={" + quoted_list(axes) + "}";
  for (const std::string& a : axes) {
    if (a.empty()) {
      throw ValueError(std::string(*what == 'u' ? "an " : "a ") + what + " axis of " +
                           spec.to_string() + " has no name",
                       location);
    }
    for (const SpecEntry& e : spec) {
      if (contains(e.axes(), a)) split.push_back(a);
    }
    if (contains(others, a)) shared.push_back(a);
    if (std::count(axes.begin(), axes.end(), a) > 1) {
      throw ValueError("axis '" + a + "' stands twice in " + given, location);
    }
  }
  if (!split.empty()) {
    throw ValueError(std::string("an axis can't both split a dimension and be ") + what + ": " +
                         spec.to_string() + " with " + given + " has " + quoted_list(split) +
                         " in both",
                     location);
  }
  if (!shared.empty()) {
    throw ValueError(std::string("an axis can't be both ") + what + " and " + other + ": " +
                         spec.to_string() + " with " + given + " has " + quoted_list(shared) +
                         " in both",
                     location);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

std::vector<std::string> joined_set(std::vector<std::string> a, const std::vector<std::string>& b) {
  for (const std::string& axis : b) {
    if (!contains(a, axis)) a.push_back(axis);
  }
  return a;
}

}  // namespace

const char* to_string(UnreducedKind kind) {
  return kind == UnreducedKind::sum ? "sum" : kind == UnreducedKind::max ? "max" : "min";
}

PartitionSpec PartitionSpec::with_unreduced(std::vector<std::string> axes,
                                            Location location) const {
  PartitionSpec out = *this;
  out.unreduced_ = checked_set(*this, std::move(axes), "unreduced", reduced_, "reduced", location);
  out.kind_ = UnreducedKind::sum;
  return out;
}

PartitionSpec PartitionSpec::unreduced_of_kind(std::vector<std::string> axes, UnreducedKind kind,
                                               Location location) const {
  if (axes.empty()) {
    throw ValueError(std::string("unreduced_kind is ") + tessera::to_string(kind) +
                         ", and no axes of " + to_string() +
                         " are unreduced; valid: no kind, or the axes that it is of",
                     location);
  }
  PartitionSpec out = with_unreduced(std::move(axes), location);
  out.kind_ = kind;
  return out;
}

PartitionSpec PartitionSpec::with_reduced(std::vector<std::string> axes, Location location) const {
  PartitionSpec out = *this;
  out.reduced_ = checked_set(*this, std::move(axes), "reduced", unreduced_, "unreduced", location);
  return out;
}

std::string PartitionSpec::to_string() const {
  std::string out = "PartitionSpec(";
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    out += (i ? ", " : "") + entries_[i].to_string();
  }
  const auto add = [&](const char* name, const std::vector<std::string>& axes) {
    if (axes.empty()) return;
    out += std::string(out.back() == '(' ? "" : ", ") + name + "={" + quoted_list(axes) + "}";
  };
  add("unreduced", unreduced_);
  if (kind_ != UnreducedKind::sum) {
    out += std::string(", unreduced_kind=") + tessera::to_string(kind_);
  }
  add("reduced", reduced_);
  return out + ")";
}

std::size_t PartitionSpec::hash() const {
  std::size_t h = entries_.size();
  for (const SpecEntry& e : entries_) internal::hash_mix(h, e.hash());
  internal::hash_mix(h, unreduced_.size());
  internal::hash_mix(h, std::size_t(kind_));
  for (const std::string& a : unreduced_) internal::hash_mix(h, std::hash<std::string>()(a));
  for (const std::string& a : reduced_) internal::hash_mix(h, std::hash<std::string>()(a));
  return h;
}

PartitionSpec operator+(internal::SpecOperand a, internal::SpecOperand b) {
  std::vector<SpecEntry> entries = a.spec.entries();
  entries.insert(entries.end(), b.spec.begin(), b.spec.end());
  const auto first = a.spec.unreduced_kind(), second = b.spec.unreduced_kind();
  if (first && second && first != second) {
    throw ValueError("the unreduced axes of a spec are of one kind: " + a.spec.to_string() + " + " +
                         b.spec.to_string() + " would have some of kind " + to_string(*first) +
                         " and some of kind " + to_string(*second),
                     a.location);
  }
  PartitionSpec out = PartitionSpec::from_entries(std::move(entries));
  if (first || second) {
    out = out.with_unreduced(joined_set(a.spec.unreduced(), b.spec.unreduced()),
                             first ? *first : *second, a.location);
  }
  return out.with_reduced(joined_set(a.spec.reduced(), b.spec.reduced()), a.location);
}

bool operator==(const PartitionSpec& a, const std::vector<SpecEntry>& b) {
  return a.entries() == b && a.unreduced().empty() && a.reduced().empty();
}

}  // namespace tessera
