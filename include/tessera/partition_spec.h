// SPDX-License-Identifier: Apache-2.0
// How dimensions are split over mesh axes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// Type of UNCONSTRAINED.
struct Unconstrained {};
/// Marks a dimension whose sharding propagation may choose; valid in `with_sharding_constraint`
/// only.
inline constexpr Unconstrained UNCONSTRAINED{};

/// One entry of a PartitionSpec: no axis (nullptr), one axis, several axes from major to minor, or
/// UNCONSTRAINED. A list of one axis equals that axis; an empty list equals nullptr.
class SpecEntry {
 public:
  /// An entry, converted implicitly from its value.
  SpecEntry(std::nullptr_t = nullptr) {}
  SpecEntry(std::nullopt_t) {}
  SpecEntry(const char* axis) : axes_{axis} {}
  SpecEntry(std::string axis) : axes_{std::move(axis)} {}
  SpecEntry(std::vector<std::string> axes) : axes_(std::move(axes)) {}
  SpecEntry(Unconstrained) : unconstrained_(true) {}

  /// The axes, major to minor.
  const std::vector<std::string>& axes() const { return axes_; }
  /// True if the dimension isn't split.
  bool is_none() const { return axes_.empty() && !unconstrained_; }
  /// True for UNCONSTRAINED.
  bool is_unconstrained() const { return unconstrained_; }
  /// Returns None, 'x', ('x', 'y') or UNCONSTRAINED.
  std::string to_string() const;
  /// Hash, equal for equal entries.
  std::size_t hash() const;
  friend bool operator==(const SpecEntry&, const SpecEntry&) = default;

 private:
  std::vector<std::string> axes_;
  bool unconstrained_ = false;
};

/// Returns an entry that splits one dimension over several axes, major to minor: `P(axes("x", "y"),
/// nullptr)`.
template <class... Names>
SpecEntry axes(Names&&... names) {
  static_assert((std::is_constructible_v<std::string, Names> && ...),
                "tessera: axes(...) takes names of axes, no lists of them");
  return SpecEntry(std::vector<std::string>{std::string(std::forward<Names>(names))...});
}

/// How the terms that devices hold along an unreduced axis are to be combined.
enum class UnreducedKind : unsigned char { sum, max, min };
/// Returns "sum", "max" or "min".
const char* to_string(UnreducedKind kind);

namespace internal {
/// A position and the line that names it, converted implicitly.
struct EntryPosition {
  template <std::integral I>
  EntryPosition(I i, Location l = Location::current())  // NOLINT: implicit by design
      : position(std::size_t(i)), location(l) {}
  std::size_t position;
  Location location;
};
}  // namespace internal

/// Types that convert to an entry of a PartitionSpec.
template <class T>
concept SpecEntryLike = std::is_convertible_v<T, SpecEntry>;

/// How the dimensions of an array are split over the axes of a mesh (jax.sharding.PartitionSpec).
///
/// Entry i names the mesh axes over which dimension i is split. `P("data", nullptr, axes("x",
/// "y"))` splits dimension 0 over "data" and dimension 2 over "x" (major) and "y" (minor). Missing
/// trailing entries mean not split. P() and P(nullptr) are different specs that place arrays
/// equally.
class PartitionSpec final {
 public:
  /// P(): no dimension is split.
  PartitionSpec() = default;
  /// A spec of these entries.
  template <SpecEntryLike... Entries>
  requires(sizeof...(Entries) > 0) PartitionSpec(Entries&&... entries)
      : entries_{SpecEntry(std::forward<Entries>(entries))...} {}
  /// P({"x", "y"}) doesn't compile: it reads like Python's P(("x", "y")), one dimension over both
  /// axes, and would mean P("x", "y").
  template <std::size_t N>
  PartitionSpec(const char* const (&)[N]) {
    static_assert(N == 0,
                  "tessera: P({\"x\", \"y\"}) is unclear; write P(axes(\"x\", \"y\")) for one "
                  "dimension over both axes, P(\"x\", \"y\") for two dimensions");
  }
  /// Returns a spec of a computed list of entries.
  static PartitionSpec from_entries(std::vector<SpecEntry> entries);

  /// Reads a spec, as `to_string` prints it or as it is written: `P("data", None, ("x", "y"))`.
  /// @throws ParseError, which names the position, if the text is no spec.
  /// @throws ValueError as `with_unreduced` and `with_reduced`.
  static PartitionSpec parse(const std::string& text, Location location = Location::current());

  /// Number of entries.
  std::size_t size() const { return entries_.size(); }
  /// Entry i.
  /// @throws ValueError if i is out of range.
  const SpecEntry& operator[](internal::EntryPosition i) const;
  /// Iterates over the entries.
  auto begin() const { return entries_.begin(); }
  /// End of the entries.
  auto end() const { return entries_.end(); }
  /// All entries.
  const std::vector<SpecEntry>& entries() const { return entries_; }
  /// Position of the first entry that equals `value`.
  /// @throws ValueError if there is none.
  std::size_t index(const SpecEntry& value, Location location = Location::current()) const;
  /// Number of entries that equal `value`.
  std::size_t count(const SpecEntry& value) const;
  /// Unreduced axes: along them each device holds one term of a sum that hasn't been computed yet,
  /// or of a maximum or minimum.
  const std::vector<std::string>& unreduced() const { return unreduced_; }
  /// Returns a copy with these unreduced axes.
  /// @throws ValueError if an axis is given twice, is empty, splits a dimension or is reduced.
  PartitionSpec with_unreduced(std::vector<std::string> axes,
                               Location location = Location::current()) const;
  /// How the terms along the unreduced axes are combined. Nothing if there are none.
  std::optional<UnreducedKind> unreduced_kind() const {
    return unreduced_.empty() ? std::nullopt : std::optional(kind_);
  }
  /// The same of terms that are combined in this way.
  /// @throws ValueError as above, and for a kind of no axes.
  template <std::same_as<UnreducedKind> Kind>
  PartitionSpec with_unreduced(std::vector<std::string> axes, Kind kind,
                               Location location = Location::current()) const {
    return unreduced_of_kind(std::move(axes), kind, location);
  }
  /// Axes over which the value is whole on each device, and over which its gradient is a sum that
  /// hasn't been computed yet. They mean something in explicit mode only.
  const std::vector<std::string>& reduced() const { return reduced_; }
  /// Returns a copy with these reduced axes.
  /// @throws ValueError if an axis is given twice, is empty, splits a dimension or is unreduced.
  PartitionSpec with_reduced(std::vector<std::string> axes,
                             Location location = Location::current()) const;
  /// Returns for example "PartitionSpec('x', None, ('y', 'z'))".
  std::string to_string() const;
  /// Hash, equal for equal specs; std::hash returns it.
  std::size_t hash() const;
  friend bool operator==(const PartitionSpec&, const PartitionSpec&) = default;

 private:
  PartitionSpec unreduced_of_kind(std::vector<std::string> axes, UnreducedKind kind,
                                  Location location) const;
  std::vector<SpecEntry> entries_;
  std::vector<std::string> unreduced_, reduced_;
  UnreducedKind kind_ = UnreducedKind::sum;
};

namespace internal {
/// A spec and the line that names it, converted implicitly.
struct SpecOperand {
  SpecOperand(const PartitionSpec& s, Location l = Location::current())  // NOLINT
      : spec(s), location(l) {}
  const PartitionSpec& spec;
  Location location;
};
}  // namespace internal

/// The entries of both, and the unreduced and reduced axes of both.
/// @throws ValueError if an axis that splits a dimension of one is unreduced or reduced in the
///   other, or unreduced in one and reduced in the other, or the kinds of their unreduced axes
///   differ.
PartitionSpec operator+(internal::SpecOperand a, internal::SpecOperand b);

/// A spec equals the list of its entries (JAX's specs compare equal to tuples).
bool operator==(const PartitionSpec& a, const std::vector<SpecEntry>& b);

/// Short name of PartitionSpec.
using P = PartitionSpec;

}  // namespace tessera

/// Specs may be keys of unordered containers.
template <>
struct std::hash<tessera::PartitionSpec> {
  /// Returns PartitionSpec::hash().
  std::size_t operator()(const tessera::PartitionSpec& spec) const { return spec.hash(); }
};
