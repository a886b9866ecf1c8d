// SPDX-License-Identifier: Apache-2.0
// Protocol buffers that go with the C API: the fields of compile options, and a writer of the wire
// form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::pjrt {

// As in xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
enum CompileOptionsField : std::uint32_t { kBuildOptions = 3, kPortable = 4, kOverrides = 7 };
enum BuildOptionsField : std::uint32_t {
  kDeviceOrdinal = 1,
  kReplicas = 4,
  kPartitions = 5,
  kDeviceAssignment = 9,
  kFreeResults = 12,
  kFreeParameters = 18,
};
enum DeviceAssignmentField : std::uint32_t {
  kReplicaCount = 1,
  kComputationCount = 2,
  kComputationDevices = 3
};
inline constexpr std::uint32_t kReplicaDevices = 1;

/// Writes a message. Numbers that are 0 and texts that are empty are left out, as they are the
/// defaults.
class ProtoWriter {
 public:
  void number(std::uint32_t field, std::int64_t value) {
    if (value == 0) return;
    varint(field << 3);
    varint(std::uint64_t(value));
  }
  void text(std::uint32_t field, std::string_view value) {
    if (!value.empty()) message(field, value);
  }
  /// Written also if it is empty: that it is there says something.
  void message(std::uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  /// Packed.
  void numbers(std::uint32_t field, const std::vector<std::int64_t>& values) {
    ProtoWriter packed;
    for (const std::int64_t v : values) packed.varint(std::uint64_t(v));
    text(field, packed.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
    bytes_ += char(value);
  }
  std::string bytes_;
};

}  // namespace tessera::pjrt
