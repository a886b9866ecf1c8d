// SPDX-License-Identifier: Apache-2.0
// save_npy and load_npy: arrays to and from NumPy's files.
#include <tessera/npy.h>

#include "src/base/at_location.h"
#include "src/base/files/npy.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/checkpoint/joint_file.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/trace/trace.h"

namespace tessera {

void save_npy(const std::string& path, const Array& x, Location location) {
  at_location(location, [&] {
    // A copy of all of it is written by whoever calls.
    if (x.valid() && frontend::of_several_processes(x) && !x.is_fully_replicated()) {
      frontend::check_saved({x}, {""}, "save_npy to " + path, location);
      return frontend::save_together(
          {"save_npy", path, "",
           [](const std::vector<frontend::SavedArray>& arrays) {
             return frontend::FileOrder{npy_header(arrays[0].shape), {0}};
           }},
          {x}, {""}, location);
    }
    write_npy(path, frontend::to_literal(x, location));
  });
}

Array load_npy(const std::string& path, const LoadNpyOptions& options, Location location) {
  return at_location(location, [&] {
    const std::string who = "load_npy of " + path;
    if (!options.sharding.is_leaf()) {
      throw ValueError(who + ": one array has one sharding, and this is a tree of them: " +
                       options.sharding.to_string());
    }
    const auto target = frontend::resolve_leaf(options.sharding, who, true, false, location);
    if (target) frontend::check_devices_exist(*target, who, location);
    const Literal value = read_npy(path, options.raw_dtype);
    if (!target) return frontend::from_literal(value);
    frontend::check_fits(*target, value.dims(), who, false, location);
    return internal::make_device_array(
        value.shape(), *target, frontend::place_literal(value, *target, location), true, false);
  });
}

}  // namespace tessera
