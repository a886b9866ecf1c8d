// SPDX-License-Identifier: Apache-2.0
// The platforms of this process: what devices each has, and which memories these address. Engines
// make theirs known; the one of virtual devices is always there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <tessera/device.h>

#include "src/base/arrays/memory_kind.h"

namespace tessera {

struct Platform {
  std::string name;
  /// The default one first.
  std::vector<MemoryKind> memory_kinds;
  /// Device k has id k. Called when somebody asks; the list stays as it is.
  std::function<const std::vector<Device>&()> devices;
};

/// Who knows of more platforms than were made known, as plugins that are loaded when they are asked
/// for.
struct PlatformFinder {
  /// Makes the platform known if it can; throws if there is one, and it doesn't work.
  void (*find)(const std::string& name) = nullptr;
  /// Names of platforms that would be found.
  std::vector<std::string> (*names)() = nullptr;
};
/// One for the process; may be set before static objects are made.
void set_platform_finder(PlatformFinder finder);

/// It stays for the life of the process. ValueError if there is one of that name.
void register_platform(Platform platform);
/// Null if there is none. What the finder throws.
const Platform* find_platform(const std::string& name);
/// "'cpu', 'cuda'", for messages.
std::string list_of_platforms();

/// The platform of virtual devices, in the memory of this process.
const std::string& virtual_platform();
/// All virtual devices of all processes.
const std::vector<Device>& virtual_devices();
/// That of devices(): what TESSERA_PLATFORM said when it was first asked for, or that of virtual
/// devices. ValueError if TESSERA_PLATFORM names one that isn't there.
const Platform& default_platform();

/// Those that devices of the platform can address, the default one first; of one that isn't known,
/// `device` alone.
const std::vector<MemoryKind>& memory_kinds_of(const std::string& platform);
/// All that there may be anywhere.
const std::vector<MemoryKind>& all_memory_kinds();

}  // namespace tessera
