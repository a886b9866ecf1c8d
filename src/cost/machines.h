// SPDX-License-Identifier: Apache-2.0
// Machines of accelerators that are sold, by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <tessera/network.h>

namespace tessera::cost {

/// By its name, whatever the case, or by what a device says of its kind: the name is one or several
/// whole words of that. Nothing if none is known.
std::optional<Network> find_machine(std::string_view name);
/// "A100, H100, ..."
std::string list_of_machines();

}  // namespace tessera::cost
