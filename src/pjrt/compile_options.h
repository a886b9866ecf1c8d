// SPDX-License-Identifier: Apache-2.0
// How a client wants a program to be compiled: xla.CompileOptionsProto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::pjrt {

struct CompileOptions {
  std::int64_t replicas = 1, partitions = 1;
  /// By replica, then partition; empty: the first devices.
  std::vector<std::int64_t> devices;
  /// Of each parameter and result: whether the compiler may choose its sharding where the program
  /// states none. Empty: no; of one: for all.
  std::vector<bool> free_parameters, free_results;
  /// The caller of each run says on which device.
  bool portable = false;
};

/// A Failure for what isn't such a message, and for numbers that make no sense.
CompileOptions read_compile_options(std::string_view bytes);

/// xla.DeviceAssignmentProto
std::string write_device_assignment(std::int64_t replicas, std::int64_t partitions,
                                    const std::vector<std::int64_t>& devices);

}  // namespace tessera::pjrt
