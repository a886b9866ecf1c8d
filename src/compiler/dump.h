// SPDX-License-Identifier: Apache-2.0
// Dumps of the IR after stages of the compiler.
#pragma once

#include <string>

namespace tessera::compiler {

/// Writes the text that each stage leaves into the folder that TESSERA_DUMP_TO names, if it is set.
class Dump {
 public:
  explicit Dump(const std::string& module_name);
  bool enabled() const { return !prefix_.empty(); }
  /// IoError if the file can't be written.
  void write(const std::string& stage, const std::string& text);

 private:
  std::string prefix_;
  int count_ = 0;
};

}  // namespace tessera::compiler
