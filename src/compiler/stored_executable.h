// SPDX-License-Identifier: Apache-2.0
// Executables as bytes: one device's program with its fusions, and the machine code of its kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/compiler/compile.h"

namespace tessera::compiler {

/// What is stored begins with this and the number of the format.
inline constexpr std::string_view kStoredMagic = "TESSERA-STORED-";

/// The bytes with a head: the format's number, and a checksum.
std::string seal(std::string_view body);
/// What was sealed, without its head. IoError that begins with `who` for other bytes, for those of
/// another version of the format, and for damaged ones.
std::string_view unseal(std::string_view bytes, const std::string& who);

/// It is a stored program, and not for this build of the library or this processor.
class IncompatibleExecutable : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

struct StoreOptions {
  /// "native", "x86-64-v3" or "x86-64-v4".
  std::string cpu = "native";
  /// Without, what loads it compiles its kernels, or finds them on disk.
  bool code = true;
};
/// ValueError for another processor. NotImplementedError for a program that calls functions of this
/// process, was compiled to be looked at only, or is another engine's.
std::string store_executable(const Executable& executable, const StoreOptions& options = {});

/// Neither partitions nor compiles it: it runs in this process, with the bits that it has where it
/// was made. `process_of` as in Options. IncompatibleExecutable; IoError for bytes that
/// store_executable didn't give.
std::shared_ptr<const Executable> load_executable(std::string_view bytes,
                                                  std::vector<std::int32_t> process_of = {});

}  // namespace tessera::compiler
