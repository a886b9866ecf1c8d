// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: has no member named .lower.|no member named .lower. in
#include <tessera/jit.h>

using namespace tessera;

const auto f = jit([](Array x) { return x; });
const auto wrapper = [](Array x) { return f(x); };

#ifdef TESSERA_OK
auto lowered = f.lower(Array(1));
#else
auto lowered = wrapper.lower(Array(1));
#endif
