// SPDX-License-Identifier: Apache-2.0
// Plugins and their programs in several processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <tessera/error.h>

#include "src/compiler/accelerators/client.h"

namespace tessera::compiler::accelerators {

/// Has a plugin that this process is about to load join its devices with those of the other
/// processes, all of which load it: adds to its options what says so. Null if this process is
/// alone, or is to have a client of its own (option num_nodes=1). RuntimeError if the others load
/// something else. `platform`: its name here, which may be empty.
KeyValues* join_processes(const std::string& platform, Values* options);
/// What to do where a plugin can't, for messages.
std::string hint_of_processes();
/// RuntimeError if the plugin has not done so.
void check_joined(const Client& client, const std::string& file);

/// The processes that have these devices of a client, in order.
std::vector<int> processes_of(const Client& client, const std::vector<std::size_t>& devices);

/// A program of several processes. Each starts such programs one at a time.
class TogetherProgram {
 public:
  /// `text` is what all must have alike.
  TogetherProgram(std::vector<int> processes, std::string name, const std::string& text);
  /// Held until the program has been started. RuntimeError, in all of its processes, if they are
  /// about to start different ones.
  std::unique_lock<std::mutex> begin(Location location) const;

 private:
  std::vector<int> processes_;
  std::string name_;
  std::uint64_t hash_;
  mutable std::atomic<bool> checked_ = false;
};

}  // namespace tessera::compiler::accelerators
