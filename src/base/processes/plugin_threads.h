// SPDX-License-Identifier: Apache-2.0
// MPI beside plugins, which may use it as well.
#pragma once

namespace tessera {

/// Before a plugin is loaded: if the processes aren't connected yet, they will be so that the
/// plugin can use MPI from threads of its own.
void expect_plugins();

/// What the module with the transport by MPI has besides its factory: to be called before that.
extern "C" using MpiOfSeveralThreads = void();
inline constexpr const char* kMpiOfSeveralThreads = "tessera_mpi_of_several_threads";

}  // namespace tessera
