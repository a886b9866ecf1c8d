// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the callback partition can't take the function's arguments by the
// parameter after the mesh
#include <tessera/custom_partitioning.h>
#include <tessera/ops/elementwise.h>

using namespace tessera;

template <class T>
struct Layer {
  T w, b;
};
#ifdef TESSERA_OK
using Args = std::tuple<Layer<ShapeInfo>, ShapeInfo>;
#else
using Args = std::tuple<ShapeInfo, Layer<ShapeInfo> >;
#endif

// Trees have the structure of the function's arguments.
void define() {
  auto f = custom_partitioning([](Layer<Array> l, Array x) { return l.w * x + l.b; });
  f.def_partition({.partition =
                       [](const Mesh& m, const Args& args, const ShapeInfo& result) {
                         return Partition{m, [](Layer<Array>, Array x) { return x; },
                                          result.sharding, shardings_of(args)};
                       },
                   .sharding_rule = "i, i, i -> i"});
}
