// SPDX-License-Identifier: Apache-2.0
// A struct that two files define differently under one name, and a jitted function that both files
// call.
#pragma once

#include <tessera/tessera.h>

namespace tessera::testing {

struct CallsAdd {
  template <class S>
  Array operator()(S s) const {
    return s.x + s.add();
  }
};
inline auto& shared_function() {
  static auto& f = *new auto(jit(CallsAdd()));
  return f;
}

/// Calls shared_function with the Local of another file, whose add() is 2.
Array call_with_other_local(const Array& x);

namespace {
#ifdef TESSERA_TEST_OTHER_LOCAL
struct Local {
  Array x;
  float add() const { return 2; }
};
#else
struct Local {
  Array x;
  float add() const { return 1; }
};
#endif
}  // namespace

}  // namespace tessera::testing
