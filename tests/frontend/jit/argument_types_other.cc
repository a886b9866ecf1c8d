// SPDX-License-Identifier: Apache-2.0
// The second file of argument_types.h.
#define TESSERA_TEST_OTHER_LOCAL
#include "tests/frontend/jit/argument_types.h"

// Compiled alone: its types are those of another file by name, and must not be that file's.
namespace tessera::testing {

Array call_with_other_local(const Array& x) { return shared_function()(Local{x}); }

}  // namespace tessera::testing
