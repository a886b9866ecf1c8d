// SPDX-License-Identifier: Apache-2.0
// The precision of products that is in scope.
#include <tessera/precision.h>

namespace tessera {
namespace {
thread_local Precision precision_in_scope = Precision::standard;
}  // namespace

PrecisionScope::PrecisionScope(Precision precision) : before_(precision_in_scope) {
  precision_in_scope = precision;
}
PrecisionScope::~PrecisionScope() { precision_in_scope = before_; }
Precision current_precision() { return precision_in_scope; }

}  // namespace tessera
