// SPDX-License-Identifier: Apache-2.0
// The region of a compute type that a thread is in.
#include <tessera/functions/compute_on.h>

#include "src/base/threads/thread_scratch.h"

namespace tessera::internal {
namespace {

std::string& current_compute_type() {
  struct Current {
    std::string type;
  };
  return thread_scratch<Current>().type;
}

}  // namespace

ComputeRegion::ComputeRegion(const std::string& type, Location location)
    : outer_(current_compute_type()) {
  if (type == "device_host") {
    memory_ = "pinned_host";
  } else if (type == "device") {
    memory_ = "device";
  } else {
    throw ValueError(
        "compute_on: there is no compute type '" + type + "' here; valid: device_host, device",
        location);
  }
  if (!outer_.empty() && outer_ != type) {
    throw ValueError("compute_on '" + type + "' within a region of '" + outer_ +
                         "'; regions of different types can't nest: return from one before the "
                         "other begins",
                     location);
  }
  current_compute_type() = type;
}

ComputeRegion::~ComputeRegion() { current_compute_type() = outer_; }

}  // namespace tessera::internal
