// SPDX-License-Identifier: Apache-2.0
// The cache of a jitted function.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/function_body.h>

#include "src/base/lru_cache.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"

namespace tessera::internal {

/// The properties of a leaf that a compiled program depends on.
struct LeafKey {
  Shape shape;
  bool weak = false;
  bool committed = false;
  Sharding sharding;
  MemoryKind memory = MemoryKind::device;

  static LeafKey of(const ArrayImpl& impl) {
    return {impl.shape, impl.weak, impl.committed, impl.sharding, memory_of(impl)};
  }
  bool matches(const ArrayImpl& impl) const;
};

/// The key of a program: calls with equal keys can use it.
struct CallKey {
  std::string signature;
  TypeKey types;
  Mesh context;
  std::vector<LeafKey> leaves;

  static CallKey of(const CallInfo& info, const Mesh& context);
  bool matches(const CallInfo& info, const Mesh& context) const;
};

/// A traced and compiled program of a function.
struct JitEntry {
  CallKey key;
  frontend::BoundProgram bound;
  std::vector<Array> captures;
  Prototype prototype;
};

/// The programs of one function, a bounded number of them: the least recently called is evicted.
/// Not thread-safe.
class JitCache {
 public:
  explicit JitCache(std::size_t capacity = 4096) : entries_(capacity) {}

  std::shared_ptr<const JitEntry> find(const CallInfo& info, const Mesh& context);
  /// Returns the evicted entry, if any.
  std::shared_ptr<const JitEntry> insert(std::shared_ptr<const JitEntry> entry);
  std::size_t size() const { return entries_.size(); }
  /// Why no entry fits a call: how it differs from the most similar one of the latest.
  std::string explain_miss(const CallInfo& info, const Mesh& context,
                           const std::vector<std::string>& names) const;

 private:
  LruCache<std::size_t, std::shared_ptr<const JitEntry>> entries_;
};

}  // namespace tessera::internal
