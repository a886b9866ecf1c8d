// SPDX-License-Identifier: Apache-2.0
// Layouts: in which order the dimensions of an array are stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tessera/error.h>
#include <tessera/sharding.h>

namespace tessera {

/// The order of an array's dimensions in a device's memory (jax.experimental.layout.Layout).
///
/// A layout says what the owner of an array means its memory to be, and is checked where programs
/// state it. The memory of virtual CPU devices is row-major whatever the layout: values, programs
/// and times don't depend on it.
class Layout {
 public:
  /// A layout of the dimensions from the one that changes slowest to the one that changes fastest:
  /// {0, 1} is row-major, {1, 0} column-major.
  /// @throws ValueError if these aren't the numbers from 0 on, each once.
  explicit Layout(std::vector<std::int64_t> major_to_minor,
                  Location location = Location::current());
  /// The compiler chooses.
  static const Layout AUTO;
  /// Returns the row-major layout of arrays of that rank.
  static Layout row_major(std::int64_t rank);

  /// True for AUTO.
  bool is_auto() const { return automatic_; }
  /// The dimensions, the slowest first.
  /// @throws ValueError for AUTO.
  const std::vector<std::int64_t>& major_to_minor(Location location = Location::current()) const;
  /// Returns for example "Layout(major_to_minor=(1, 0))" or "Layout.AUTO".
  std::string to_string() const;
  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  Layout() = default;
  bool automatic_ = true;
  std::vector<std::int64_t> major_to_minor_;
};
/// The layout that the compiler chooses.
inline const Layout Layout::AUTO{};

/// A layout and a sharding: how an array lies in the memories of its devices
/// (jax.experimental.layout.Format). Stands wherever `jit` and `device_put` take a sharding.
/// @code
/// const Format columns(Layout({1, 0}), NamedSharding(mesh, P("x")));
/// auto f = jit([](Array a) { return a * 2; }, {.in_shardings = columns});
/// Array y = f(device_put(ones({8, 16}), columns));
/// @endcode
class Format {
 public:
  /// A layout on the devices of a sharding, which only AUTO can do without.
  /// @throws ValueError if a layout that isn't AUTO has no sharding.
  Format(Layout layout, Sharding sharding = {}, Location location = Location::current());
  /// The layout.
  const Layout& layout() const { return layout_; }
  /// The sharding; not `valid()` if none was given.
  const Sharding& sharding() const { return sharding_; }
  /// Returns a description for messages.
  std::string to_string() const;
  friend bool operator==(const Format&, const Format&) = default;

 private:
  Layout layout_;
  Sharding sharding_;
};

}  // namespace tessera
