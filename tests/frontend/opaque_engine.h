// SPDX-License-Identifier: Apache-2.0
// An engine for tests whose memory the host can't read and whose devices share none, as a plugin's:
// synchronous, or late: then calls return at once, and a thread makes what they promised
// afterwards, in any order that the arguments allow.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/compiler/engine.h"

namespace tessera::testing {

struct OpaqueOptions {
  std::string platform;
  std::int64_t devices = 4;
  bool late = false;
  /// Of the order and the pauses of a late one.
  unsigned seed = 1;
};

std::shared_ptr<const compiler::Engine> opaque_engine(const OpaqueOptions& options);

/// The devices of that platform, whose engine is made at the first call.
const std::vector<Device>& sealed_devices();
const std::vector<Device>& late_devices();
/// While it exists, the thread of the late engine does nothing.
class HoldLateWork {
 public:
  HoldLateWork();
  ~HoldLateWork();
  HoldLateWork(const HoldLateWork&) = delete;
  HoldLateWork& operator=(const HoldLateWork&) = delete;
};

}  // namespace tessera::testing
