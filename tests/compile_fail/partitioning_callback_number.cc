// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the callback infer_sharding_from_operands has the wrong number of
// parameters: it must take .static arguments..., const Mesh&, arguments, results
#include <tessera/custom_partitioning.h>

using namespace tessera;

void define() {
  auto f = custom_partitioning([](Array x) { return x; });
  f.def_partition({.partition =
                       [](const Mesh& m, const ShapeInfo& arg, const ShapeInfo&) {
                         return Partition{m, [](Array x) { return x; }, arg.sharding, arg.sharding};
                       },
#ifdef TESSERA_OK
                   .infer_sharding_from_operands = [](const Mesh&, const ShapeInfo& arg,
                                                      const ShapeInfo&) { return arg.sharding; }});
#else
                   .infer_sharding_from_operands =
                       [](const Mesh&, const ShapeInfo& arg) { return arg.sharding; }});
#endif
}
