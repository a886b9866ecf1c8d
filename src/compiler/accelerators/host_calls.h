// SPDX-License-Identifier: Apache-2.0
// Custom calls that a kernel of this library computes, as calls of this process by the plugin's
// program: where devices hold what the host can read.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "src/compiler/accelerators/client.h"
#include "src/ir/module.h"

namespace tessera::compiler::accelerators {

/// What functions of the host threw, for the runs that failed of it.
class HostFailures {
 public:
  void note(std::exception_ptr failure);
  /// The first one; null if there is none.
  std::exception_ptr take();

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

struct HostCalls {
  std::vector<HostCallNumber> numbers;  ///< of the functions, for as long as the program is there
  std::shared_ptr<HostFailures> failures = std::make_shared<HostFailures>();
};

/// Whether the call is one of StableHLO's, or of those that compilers for all devices have.
bool is_known_to_plugins(const ir::Instruction& call);

/// Has one device's program call the client for what plugins don't know. Callbacks are called once
/// for all devices that hold the same, by the first of these, which gives its results to the
/// others. NotImplementedError of calls without a kernel.
HostCalls call_host(ir::Module* module, const Client& client);

}  // namespace tessera::compiler::accelerators
