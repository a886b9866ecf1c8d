// SPDX-License-Identifier: Apache-2.0
// The source of code of this thread, and its table.
#include "src/codegen/kernels/code/embedded_code.h"

#include <xxhash.h>

#include <cstring>

#include "src/base/threads/task_pool.h"

namespace tessera::codegen {
namespace {

const CodeSource*& source_of_thread() {
  thread_local const CodeSource* source = nullptr;
  return source;
}

}  // namespace

std::string EmbeddedCode::name(const std::string& key) {
  const XXH128_hash_t h = XXH3_128bits(key.data(), key.size());
  std::string out(sizeof h, '\0');
  std::memcpy(out.data(), &h, sizeof h);
  return out;
}

std::optional<std::string> EmbeddedCode::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = code_.find(name);
  if (found == code_.end()) return std::nullopt;
  return found->second;
}

void EmbeddedCode::add(const std::string& name, std::string code) {
  const std::lock_guard lock(mutex_);
  code_[name] = std::move(code);
}

const CodeSource* code_source() { return source_of_thread(); }

CodeScope::CodeScope(const CodeSource* source) : before_(source_of_thread()) {
  source_of_thread() = source;
}
CodeScope::~CodeScope() { source_of_thread() = before_; }

int planned_workers() {
  const CodeSource* source = code_source();
  return source != nullptr ? source->workers : worker_count();
}

}  // namespace tessera::codegen
