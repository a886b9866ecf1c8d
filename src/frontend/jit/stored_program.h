// SPDX-License-Identifier: Apache-2.0
// Compiled functions as bytes: the executable, and what the front end knows of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/frontend/jit/jit_stages.h"

namespace tessera::frontend {

/// `cpu` as in SerializeOptions.
std::string store_program(const internal::CompiledState& state, const std::string& cpu,
                          Location location);
/// On these devices; empty: on those that it was compiled for, which must exist unless `virtually`
/// (then its executable alone is to be run). Types of functions aren't kept.
std::shared_ptr<internal::CompiledState> load_program(std::string_view bytes,
                                                      const std::vector<Device>& devices,
                                                      Location location, bool virtually = false);

/// A compiled module without a function: its arguments and results are arrays in order, on as many
/// devices as it is for.
std::shared_ptr<internal::CompiledState> state_of_module(
    std::shared_ptr<const compiler::Executable> executable, MeshRef mesh);

}  // namespace tessera::frontend
