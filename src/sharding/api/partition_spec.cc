// SPDX-License-Identifier: Apache-2.0
// PartitionSpec: entries, printing, comparison.
#include <tessera/partition_spec.h>

#include <algorithm>

#include "src/base/contains.h"

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

PartitionSpec PartitionSpec::from_entries(std::vector<SpecEntry> entries) {
  PartitionSpec p;
  p.entries_ = std::move(entries);
  return p;
}

const SpecEntry& PartitionSpec::operator[](std::size_t i) const {
  if (i >= entries_.size()) {
    throw ValueError("entry " + std::to_string(i) + " of " + to_string() + ", which has " +
                     std::to_string(entries_.size()));
  }
  return entries_[i];
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

PartitionSpec PartitionSpec::with_unreduced(std::vector<std::string> axes,
                                            Location location) const {
  std::vector<std::string> both;
  for (const std::string& a : axes) {
    if (a.empty())
      throw ValueError("an unreduced axis of " + to_string() + " has no name", location);
    for (const SpecEntry& e : entries_) {
      if (contains(e.axes(), a)) both.push_back(a);
    }
    if (std::count(axes.begin(), axes.end(), a) > 1) {
      throw ValueError("axis '" + a + "' stands twice in unreduced={" + quoted_list(axes) + "}",
                       location);
    }
  }
  if (!both.empty()) {
    throw ValueError("an axis can't both split a dimension and be unreduced: " + to_string() +
                         " with unreduced={" + quoted_list(axes) + "} has " + quoted_list(both) +
                         " in both",
                     location);
  }
  PartitionSpec out = *this;
  out.unreduced_ = std::move(axes);
  // A set: sorted, so that equal specs compare equal.
  std::sort(out.unreduced_.begin(), out.unreduced_.end());
  return out;
}

std::string PartitionSpec::to_string() const {
  std::string out = "PartitionSpec(";
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    out += (i ? ", " : "") + entries_[i].to_string();
  }
  if (!unreduced_.empty()) {
    out += (entries_.empty() ? "unreduced={" : ", unreduced={") + quoted_list(unreduced_) + "}";
  }
  return out + ")";
}

PartitionSpec operator+(const PartitionSpec& a, const PartitionSpec& b) {
  std::vector<SpecEntry> entries = a.entries_;
  entries.insert(entries.end(), b.entries_.begin(), b.entries_.end());
  std::vector<std::string> unreduced = a.unreduced_;
  for (const std::string& axis : b.unreduced_) {
    if (!contains(unreduced, axis)) {
      unreduced.push_back(axis);
    }
  }
  return PartitionSpec::from_entries(std::move(entries)).with_unreduced(std::move(unreduced), {});
}

bool operator==(const PartitionSpec& a, const std::vector<SpecEntry>& b) {
  return a.entries() == b && a.unreduced().empty();
}

}  // namespace tessera
