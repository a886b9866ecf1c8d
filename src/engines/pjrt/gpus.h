// SPDX-License-Identifier: Apache-2.0
// What plugins for GPUs need that JAX does in Python before it loads them.
#pragma once

#include <string>

#include "src/engines/pjrt/api.h"

namespace tessera::engines::pjrt {

/// Where the plugin is in a Python package with NVIDIA's libraries beside it
/// (site-packages/nvidia): loads these, so that the plugin, and what the libraries load themselves,
/// find them rather than others of LD_LIBRARY_PATH. What can't be loaded is left for the plugin to
/// ask for.
void load_packaged_libraries(const std::string& plugin);

/// Whether it says that it is for GPUs, by XLA's extension for those.
bool is_for_gpus(const Api& api);

/// Adds what the options don't say: the GPU of this process, and what the variables say by which
/// JAX lets users choose how memory is taken. Gives numbers the types that XLA takes. PluginFailure
/// that names a variable's value and the valid ones.
void complete_gpu_options(const compiler::accelerators::Joining* joining, Values* options);

}  // namespace tessera::engines::pjrt
