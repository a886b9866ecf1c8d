// SPDX-License-Identifier: Apache-2.0
// Code of a program's kernels that goes with it, and where kernels look for theirs.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace tessera::codegen {

/// Object code by kernel. Any thread may use it at any time.
class EmbeddedCode {
 public:
  /// 128 bits of a kernel's key, as text.
  static std::string name(const std::string& key);

  /// Empty code: the kernel has none, and is interpreted.
  std::optional<std::string> find(const std::string& name) const;
  void add(const std::string& name, std::string code);
  const std::map<std::string, std::string>& all() const { return code_; }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> code_;
};

/// While one is in scope on a thread, programs are planned as where its code was made, and kernels
/// that are made take theirs from it, or add it.
struct CodeSource {
  enum class Use {
    take,  ///< what isn't there is made as ever
    add,   ///< optimized code of all kernels, which need not run here
  };
  Use use = Use::take;
  EmbeddedCode* code = nullptr;
  /// What LLVM calls the processor that code is made for; empty: this one.
  std::string cpu;
  /// Whether kernels are compiled at all, and by how many workers programs run: plans depend on it.
  bool compiles = true;
  int workers = 1;
};

/// Null: there is none on this thread.
const CodeSource* code_source();

class CodeScope {
 public:
  /// The source outlives it. Null is no source.
  explicit CodeScope(const CodeSource* source);
  ~CodeScope();
  CodeScope(const CodeScope&) = delete;
  CodeScope& operator=(const CodeScope&) = delete;

 private:
  const CodeSource* before_;
};

/// The workers for which programs are planned.
int planned_workers();

}  // namespace tessera::codegen
