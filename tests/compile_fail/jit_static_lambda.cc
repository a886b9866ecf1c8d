// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: a static argument needs a value to compare by.*operator==
#include <tessera/jit.h>

using namespace tessera;

// A lambda with captures has no equality; a struct can have one.
#ifdef TESSERA_OK
struct Scale {
  float by;
  Array operator()(const Array& a) const { return a; }
  bool operator==(const Scale&) const = default;
};
Array call(Array x) {
  return jit([](Array a, auto f) { return f(a); }, static_argnums<1>)(x, Scale{2});
}
#else
Array call(Array x) {
  return jit([](Array a, auto f) { return f(a); }, static_argnums<1>)(x,
                                                                      [x](Array a) { return a; });
}
#endif
