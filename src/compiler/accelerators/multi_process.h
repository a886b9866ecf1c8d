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

class SharedKeyValues;

/// A plugin that this process is about to load joins its devices with those of the other processes,
/// all of which load it.
class JoinedProcesses {
 public:
  /// Adds to the plugin's options what says so. Not if this process is alone, or is to have a
  /// client of its own (option num_nodes=1). `platform`: its name here, which may be empty.
  /// RuntimeError if the others load something else, ValueError, in all of them, if one's options
  /// say otherwise.
  JoinedProcesses(const std::string& platform, Values* options);
  /// Ends what was begun for the plugin, unless it is kept: then that ends with the process.
  ~JoinedProcesses();
  JoinedProcesses(const JoinedProcesses&) = delete;
  JoinedProcesses& operator=(const JoinedProcesses&) = delete;

  /// Null if the client is to be this process's own.
  const Joining* joining() const { return joining_.values == nullptr ? nullptr : &joining_; }
  void keep() { kept_ = true; }

 private:
  Joining joining_;
  SharedKeyValues* store_ = nullptr;
  bool kept_ = false;
};

/// What to do where a plugin can't, for messages.
std::string hint_of_processes();
/// RuntimeError if the plugin's devices aren't those of all processes.
void check_joined(const Client& client, const std::string& file);

/// The processes that have these devices of a client, in order.
std::vector<int> processes_of(const Client& client, const std::vector<std::size_t>& devices);

/// A program of several processes. Each starts such programs one at a time.
class MultiProcessProgram {
 public:
  /// `text` is what all must have alike.
  MultiProcessProgram(std::vector<int> processes, std::string name, const std::string& text);
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
