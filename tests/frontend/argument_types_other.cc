// SPDX-License-Identifier: Apache-2.0
// The second file of argument_types.h.
#define TESSERA_TEST_OTHER_LOCAL
#include "tests/frontend/argument_types.h"

namespace tessera::testing {

Array call_with_other_local(const Array& x) { return shared_function()(Local{x}); }

}  // namespace tessera::testing
