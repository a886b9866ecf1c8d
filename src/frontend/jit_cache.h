// SPDX-License-Identifier: Apache-2.0
// What a jitted function keeps from its calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <tessera/array.h>

#include "src/frontend/array_impl.h"
#include "src/frontend/execute.h"

namespace tessera::internal {

/// What must agree for a compiled entry to serve a call, per leaf.
struct LeafKey {
  Shape shape;
  bool weak = false;
  bool committed = false;
  Sharding sharding;

  static LeafKey of(const ArrayImpl& impl) {
    return {impl.shape, impl.weak, impl.committed, impl.sharding};
  }
  bool matches(const ArrayImpl& impl) const;
};

/// One traced and compiled form of a function.
struct JitEntry {
  std::string signature;
  Mesh context;
  std::vector<LeafKey> leaves;
  frontend::BoundProgram bound;
  std::vector<Array> captures;
  std::shared_ptr<void> prototype;

  bool matches(const std::string& signature, const Mesh& context,
               const std::vector<Array>& leaves) const;
};

/// Why none of the entries serves a call: how it differs from the most similar one.
std::string explain_miss(const std::vector<std::shared_ptr<const JitEntry>>& entries,
                         const std::string& signature, const Mesh& context,
                         const std::vector<Array>& leaves, const std::vector<std::string>& names);

}  // namespace tessera::internal
