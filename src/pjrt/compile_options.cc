// SPDX-License-Identifier: Apache-2.0
// Compile options, as the bytes that clients give.
#include "src/pjrt/compile_options.h"

#include <algorithm>
#include <string>

#include "src/base/env.h"
#include "src/pjrt/proto.h"
#include "src/pjrt/status.h"

namespace tessera::pjrt {
namespace {

// Numbers of fields, as in xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
enum CompileOptionsField : std::uint32_t { kBuildOptions = 3, kPortable = 4 };
enum BuildOptionsField : std::uint32_t {
  kReplicas = 4,
  kPartitions = 5,
  kDeviceAssignment = 9,
  kFreeResults = 12,
  kFreeParameters = 18,
};
enum DeviceAssignmentField : std::uint32_t {
  kReplicaCount = 1,
  kComputationCount = 2,
  kDevices = 3
};
constexpr std::uint32_t kReplicaDevices = 1;

std::int64_t count(std::int64_t n, const char* what) {
  if (n < 0 || n > kMaxDevices) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  std::string("compile options: ") + what + " is " + std::to_string(n) +
                      "; valid are 1 to " + std::to_string(kMaxDevices));
  }
  return std::max<std::int64_t>(1, n);
}

/// One list of devices for each partition, with one for each replica.
void read_assignment(std::string_view bytes, CompileOptions* to) {
  ProtoReader in(bytes, "DeviceAssignmentProto");
  std::int64_t replicas = 1, partitions = 1;
  std::vector<std::vector<std::int64_t>> lists;
  while (const std::uint32_t field = in.next()) {
    if (field == kReplicaCount) replicas = count(in.number(), "replica_count");
    if (field == kComputationCount) partitions = count(in.number(), "computation_count");
    if (field != kDevices) continue;
    ProtoReader list(in.text(), "DeviceAssignmentProto.computation_devices");
    lists.emplace_back();
    while (const std::uint32_t f = list.next()) {
      if (f == kReplicaDevices) list.numbers(&lists.back());
    }
  }
  bool fits = std::int64_t(lists.size()) == partitions;
  for (const auto& list : lists) fits = fits && std::int64_t(list.size()) == replicas;
  if (!fits) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "compile options: the device assignment doesn't have " +
                      std::to_string(partitions) + " lists of " + std::to_string(replicas) +
                      " devices");
  }
  to->devices.clear();
  for (std::int64_t r = 0; r < replicas; ++r) {
    for (const auto& list : lists) to->devices.push_back(list[std::size_t(r)]);
  }
}

std::vector<bool> flags(ProtoReader& in, std::vector<bool> so_far) {
  std::vector<std::int64_t> numbers;
  in.numbers(&numbers);
  for (const std::int64_t n : numbers) so_far.push_back(n != 0);
  return so_far;
}

}  // namespace

CompileOptions read_compile_options(std::string_view bytes) {
  CompileOptions out;
  ProtoReader in(bytes, "CompileOptionsProto");
  while (const std::uint32_t field = in.next()) {
    if (field == kPortable) out.portable = in.number() != 0;
    if (field != kBuildOptions) continue;
    ProtoReader build(in.text(), "ExecutableBuildOptionsProto");
    while (const std::uint32_t f = build.next()) {
      if (f == kReplicas) out.replicas = count(build.number(), "num_replicas");
      if (f == kPartitions) out.partitions = count(build.number(), "num_partitions");
      if (f == kDeviceAssignment) read_assignment(build.text(), &out);
      if (f == kFreeResults) out.free_results = flags(build, std::move(out.free_results));
      if (f == kFreeParameters) out.free_parameters = flags(build, std::move(out.free_parameters));
    }
  }
  const std::int64_t n = out.replicas * out.partitions;
  if (!out.devices.empty() && std::int64_t(out.devices.size()) != n) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "compile options: the device assignment has " +
                      std::to_string(out.devices.size()) + " devices; " +
                      std::to_string(out.replicas) + " replicas of " +
                      std::to_string(out.partitions) + " partitions need " + std::to_string(n));
  }
  return out;
}

std::string write_device_assignment(std::int64_t replicas, std::int64_t partitions,
                                    const std::vector<std::int64_t>& devices) {
  ProtoWriter out;
  out.number(kReplicaCount, replicas);
  out.number(kComputationCount, partitions);
  for (std::int64_t p = 0; p < partitions; ++p) {
    std::vector<std::int64_t> list;
    for (std::int64_t r = 0; r < replicas; ++r) {
      list.push_back(devices[std::size_t(r * partitions + p)]);
    }
    ProtoWriter one;
    one.numbers(kReplicaDevices, list);
    out.text(kDevices, one.bytes());
  }
  return out.bytes();
}

}  // namespace tessera::pjrt
