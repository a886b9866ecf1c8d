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

enum MapField : std::uint32_t { kKey = 1, kValue = 2 };
constexpr std::uint32_t kTextOption = 1;  // of OptionOverrideProto: else a number of some kind

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
    if (field != kComputationDevices) continue;
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

// Those of XLA's options that its users set most and that are true or false. None has an effect
// here, but a mistake in a value is to be seen.
constexpr std::string_view kSwitches[] = {
    "xla_allow_excess_precision",   "xla_cpu_enable_fast_math", "xla_cpu_enable_fast_min_max",
    "xla_cpu_fast_math_honor_nans", "xla_dump_hlo_as_dot",      "xla_dump_hlo_as_html",
    "xla_dump_hlo_as_proto",        "xla_dump_hlo_as_text",     "xla_dump_hlo_snapshots",
    "xla_embed_ir_in_executable",   "xla_hlo_profile",          "xla_llvm_disable_expensive_passes",
};
constexpr std::string_view kEfforts[] = {"exec_time_optimization_effort", "memory_fitting_effort",
                                         "optimization_level", "memory_fitting_level"};

/// An option of XLA's that is given by name: it has no effect, if it is one.
void read_override(std::string_view bytes) {
  ProtoReader in(bytes, "CompileOptionsProto.env_option_overrides");
  std::string key;
  std::string_view value;
  while (const std::uint32_t field = in.next()) {
    if (field == kKey) key = in.text();
    if (field == kValue) value = in.text();
  }
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), key) != std::end(names);
  };
  if (!key.starts_with("xla_") && !among(kEfforts)) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "No such compile option: '" + key +
                      "'; valid are XLA's, xla_..., which have no effect on Tessera");
  }
  ProtoReader option(value, "OptionOverrideProto");
  while (const std::uint32_t field = option.next()) {
    if (field != kTextOption || !among(kSwitches)) continue;
    std::string text(option.text());
    for (char& c : text) c = char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (text == "true" || text == "false" || text == "1" || text == "0") continue;
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "While setting option " + key + ", '" + text + "' is not a valid bool value.");
  }
}

}  // namespace

CompileOptions read_compile_options(std::string_view bytes) {
  CompileOptions out;
  ProtoReader in(bytes, "CompileOptionsProto");
  while (const std::uint32_t field = in.next()) {
    if (field == kOverrides) read_override(in.text());
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
    out.text(kComputationDevices, one.bytes());
  }
  return out.bytes();
}

}  // namespace tessera::pjrt
