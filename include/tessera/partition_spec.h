// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// Marks a dimension whose sharding propagation may choose (only in with_sharding_constraint).
struct Unconstrained {};
inline constexpr Unconstrained UNCONSTRAINED{};

/// One entry of a PartitionSpec: no axis, one axis, several axes (major to minor), or
/// UNCONSTRAINED. A list of one axis is that axis; an empty list is no axis.
class SpecEntry {
 public:
  SpecEntry(std::nullptr_t = nullptr) {}
  SpecEntry(std::nullopt_t) {}
  SpecEntry(const char* axis) : axes_{axis} {}
  SpecEntry(std::string axis) : axes_{std::move(axis)} {}
  SpecEntry(std::vector<std::string> axes) : axes_(std::move(axes)) {}
  SpecEntry(Unconstrained) : unconstrained_(true) {}

  const std::vector<std::string>& axes() const { return axes_; }
  bool is_none() const { return axes_.empty() && !unconstrained_; }
  bool is_unconstrained() const { return unconstrained_; }
  /// As the user would write it: None, 'x', ('x', 'y'), UNCONSTRAINED.
  std::string to_string() const;
  friend bool operator==(const SpecEntry&, const SpecEntry&) = default;

 private:
  std::vector<std::string> axes_;
  bool unconstrained_ = false;
};

/// Several axes on one dimension, major to minor: `P(axes("x", "y"), nullptr)`.
template <class... Names>
SpecEntry axes(Names&&... names) {
  return SpecEntry(std::vector<std::string>{std::string(std::forward<Names>(names))...});
}

template <class T>
concept SpecEntryLike = std::is_convertible_v<T, SpecEntry>;

/// How the dimensions of an array are split over the axes of a mesh (jax.sharding.PartitionSpec).
///
/// `P("data", nullptr, axes("x", "y"))` splits dim 0 over "data" and dim 2 over "x" and "y", "x"
/// the major one. Missing trailing entries mean unsplit. P() and P(nullptr) are different specs
/// that place arrays alike.
class PartitionSpec {
 public:
  PartitionSpec() = default;
  template <SpecEntryLike... Entries>
  requires(sizeof...(Entries) > 0) PartitionSpec(Entries&&... entries)
      : entries_{SpecEntry(std::forward<Entries>(entries))...} {}
  /// P({"x", "y"}) would read like Python's P(("x", "y")), one dim over both axes, and mean P("x",
  /// "y"): it doesn't compile.
  template <std::size_t N>
  PartitionSpec(const char* const (&)[N]) {
    static_assert(N == 0,
                  "tessera: P({\"x\", \"y\"}) is unclear; write P(axes(\"x\", \"y\")) for one "
                  "dimension over both axes, P(\"x\", \"y\") for two dimensions");
  }
  static PartitionSpec from_entries(std::vector<SpecEntry> entries);

  std::size_t size() const { return entries_.size(); }
  /// ValueError if out of range.
  const SpecEntry& operator[](std::size_t i) const;
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  const std::vector<SpecEntry>& entries() const { return entries_; }
  /// First position of that entry; ValueError if it is not present.
  std::size_t index(const SpecEntry& value, Location location = Location::current()) const;
  std::size_t count(const SpecEntry& value) const;
  /// Axes over which the value is a partial sum.
  const std::vector<std::string>& unreduced() const { return unreduced_; }
  /// A copy with these unreduced axes.
  PartitionSpec with_unreduced(std::vector<std::string> axes,
                               Location location = Location::current()) const;
  /// "PartitionSpec('x', None, ('y', 'z'))"
  std::string to_string() const;
  friend PartitionSpec operator+(const PartitionSpec& a, const PartitionSpec& b);
  friend bool operator==(const PartitionSpec&, const PartitionSpec&) = default;

 private:
  std::vector<SpecEntry> entries_;
  std::vector<std::string> unreduced_;
};

/// A spec equals the list of its entries, as in the era of tuples.
bool operator==(const PartitionSpec& a, const std::vector<SpecEntry>& b);

using P = PartitionSpec;

}  // namespace tessera
