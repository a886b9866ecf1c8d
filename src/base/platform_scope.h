// SPDX-License-Identifier: Apache-2.0
// Virtual devices as the default ones of a thread.
#pragma once

namespace tessera {

struct Platform;

/// While it is there, the thread's programs that don't say where they run, and new arrays, are on
/// virtual devices whatever TESSERA_PLATFORM says: what a plugin's program calls on its way can't
/// wait for the plugin.
class VirtualDevicesScope {
 public:
  VirtualDevicesScope();
  ~VirtualDevicesScope();
  VirtualDevicesScope(const VirtualDevicesScope&) = delete;
  VirtualDevicesScope& operator=(const VirtualDevicesScope&) = delete;

 private:
  const Platform* before_;
};

}  // namespace tessera
