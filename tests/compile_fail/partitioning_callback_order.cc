// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: one of the second and third callbacks of def_partition must be
// infer_sharding_from_operands
#include <tessera/custom_partitioning.h>

using namespace tessera;

// By position, the two callbacks of propagation are told apart by what they take.
void define() {
  auto f = custom_partitioning([](Array x) { return x; });
  const auto partition = [](const Mesh& m, const ShapeInfo& arg, const ShapeInfo&) {
    return Partition{m, [](Array x) { return x; }, arg.sharding, arg.sharding};
  };
  const auto infer = [](const Mesh&, const ShapeInfo& arg, const ShapeInfo&) {
    return arg.sharding;
  };
#ifdef TESSERA_OK
  const auto propagate = [](const Mesh&, const ShapeInfo& result) { return result.sharding; };
  f.def_partition(partition, propagate, infer);
#else
  f.def_partition(partition, infer, infer);
#endif
}
