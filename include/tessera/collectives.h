// SPDX-License-Identifier: Apache-2.0
// Communication written by hand, inside functions that run per device (the per-device function of a
// custom_partitioning): axis names of the mesh are bound there. Outside: ValueError.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <tessera/array.h>

namespace tessera {

/// One or several mesh axes, major to minor.
class AxisNames {
 public:
  AxisNames(const char* name) : names_{name} {}
  AxisNames(std::string name) : names_{std::move(name)} {}
  AxisNames(std::initializer_list<std::string> names) : names_(names) {}
  AxisNames(std::vector<std::string> names) : names_(std::move(names)) {}
  const std::vector<std::string>& list() const { return names_; }
  std::string to_string() const;

 private:
  std::vector<std::string> names_;
};

/// Sum / mean / maximum / minimum of the devices' values along the axes; all get it.
Array psum(Operand x, const AxisNames& axis);
Array pmean(Operand x, const AxisNames& axis);
Array pmax(Operand x, const AxisNames& axis);
Array pmin(Operand x, const AxisNames& axis);

struct AllGatherOptions {
  /// Dimension where the parts stand side by side.
  std::int64_t axis = 0;
  /// True: concatenated along `axis`. False: stacked along a new dimension there.
  bool tiled = false;
};
Array all_gather(Operand x, const AxisNames& axis_name, AllGatherOptions options = {});

struct ScatterOptions {
  std::int64_t scatter_dimension = 0;
  /// False: the dimension must equal the number of devices and goes away.
  bool tiled = false;
};
/// Each device gets its part of the sum.
Array psum_scatter(Operand x, const AxisNames& axis_name, ScatterOptions options = {});

/// Splits `split_axis` over the devices and joins what arrives along `concat_axis`. Not tiled:
/// split_axis must equal the number of devices, goes away, and a new dim appears at concat_axis.
Array all_to_all(Operand x, const AxisNames& axis_name, std::int64_t split_axis,
                 std::int64_t concat_axis, bool tiled = false);

/// Sends along (source, target) pairs of positions on the axes; who gets nothing gets zeros.
/// ValueError if a source or target is repeated or out of range.
Array ppermute(Operand x, const AxisNames& axis_name,
               const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs);

/// This device's position along the axes (s32 scalar).
Array axis_index(const AxisNames& axis_name, Location location = Location::current());
/// Number of devices along the axes.
std::int64_t axis_size(const AxisNames& axis_name, Location location = Location::current());

}  // namespace tessera
