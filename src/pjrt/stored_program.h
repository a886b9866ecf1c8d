// SPDX-License-Identifier: Apache-2.0
// Compiled programs as bytes: what a client keeps, say in JAX's persistent cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/arrays/memory_kind.h"
#include "src/base/arrays/shape.h"

namespace tessera::pjrt {

struct StoredProgram {
  /// Of one parameter or result.
  struct Value {
    Shape shard;
    MemoryKind memory = MemoryKind::device;
    bool donated = false;
    std::string sharding;  ///< xla.OpSharding
    friend bool operator==(const Value&, const Value&) = default;
  };
  /// What it was made of.
  std::string option_bytes, source;
  std::string name;
  /// As compiler::store_executable has it, from which it is loaded; empty: it is compiled again.
  std::string device_program;
  std::vector<Value> parameters, results;
};

/// The format, with its version.
std::string_view program_format();
std::string write_stored_program(const StoredProgram& program);
/// A Failure for bytes that write_stored_program of this version didn't write.
StoredProgram read_stored_program(std::string_view bytes);
/// The bytes of a stored program without head, with the head that belongs to them.
std::string with_checksum(std::string_view body);

}  // namespace tessera::pjrt
