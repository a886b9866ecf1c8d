// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: the callback propagate_user_sharding must return shardings of the results:
// a Sharding, or a list or tree of them EXPECT-ERROR: tessera: the callback partition can't take
// the function's result by its last parameter EXPECT-ERROR: tessera: the first parameters of the
// callback sharding_rule_fn don't take the function's static arguments
#include <tessera/custom_partitioning.h>

using namespace tessera;

struct Mode {
  bool fast = false;
  bool operator==(const Mode&) const = default;
};
#ifdef TESSERA_OK
using First = const Mode&;
using Last = const ShapeInfo&;
inline Sharding suggestion(const ShapeInfo& result) { return result.sharding; }
#else
using First = int;
using Last = const std::vector<Sharding>&;
inline PartitionSpec suggestion(const ShapeInfo&) { return PartitionSpec(); }
#endif

void define() {
  auto f = custom_partitioning([](Mode, Array x) { return x; }, static_argnums<0>);
  f.def_partition(
      {.partition =
           [](const Mode&, const Mesh& m, const ShapeInfo& arg, Last) {
             return Partition{m, [](Array x) { return x; }, arg.sharding, arg.sharding};
           },
       .propagate_user_sharding = [](const Mode&, const Mesh&,
                                     const ShapeInfo& result) { return suggestion(result); },
       .sharding_rule_fn = [](First, const Mesh&, const ShapeInfos&,
                              const ShapeInfos&) { return "i -> i"; }});
}
