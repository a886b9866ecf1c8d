// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: a traced parameter must be a tree of Array
#include <tessera/jit.h>

using namespace tessera;

// A struct is a tree if all of its fields are.
#ifdef TESSERA_OK
struct Params {
  Array w;
  std::map<std::string, Array> rest;
};
Array call(Array x) {
  return jit([](Params p) { return p.w; })(Params{x, {}});
}
#else
struct Params {
  Array w;
  std::unique_ptr<Array> rest;
};
Array call(const Params& p) {
  return jit([](const Params& q) { return q.w; })(p);
}
#endif
