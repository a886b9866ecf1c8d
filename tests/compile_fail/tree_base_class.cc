// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the fields of a struct with a base class can't be found.*TESSERA_TREE
#include <tessera/jit.h>

using namespace tessera;

// The fields of a struct are found if it has no base class, else they are named.
struct Base {
  Array a;
};
struct Derived : Base {
  Array b;
};
#ifdef TESSERA_OK
TESSERA_TREE(Derived, a, b)
#endif
Array call(const std::vector<Derived>& all) {
  return jit([](const std::vector<Derived>& d) { return d[0].b; })(all);
}
