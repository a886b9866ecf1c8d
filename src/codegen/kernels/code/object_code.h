// SPDX-License-Identifier: Apache-2.0
// Loads the object code of kernels, so that code which is kept on disk runs without its compiler.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace tessera::codegen {

/// Loaded machine code, for as long as it is held.
class MachineCode {
 public:
  MachineCode(void* memory, std::size_t bytes, void* entry)
      : memory_(memory), bytes_(bytes), entry_(entry) {}
  ~MachineCode();
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

  void* entry() const { return entry_; }

 private:
  void* memory_;
  std::size_t bytes_;
  void* entry_;
};

/// Loads a relocatable ELF object for x86-64 (System V ABI, AMD64 supplement, chapter 4) and finds
/// the function `entry`. What else it names is looked up in the C library's vector math, its math
/// and the C library. Null, and why, if it is damaged, has what kernels don't (variables, threads'
/// own storage), or memory can't be made executable.
std::shared_ptr<const MachineCode> load_object(const std::string& object, const char* entry,
                                               std::string* error);

/// Whether the C library's vector math is there.
bool has_vector_math();

}  // namespace tessera::codegen
