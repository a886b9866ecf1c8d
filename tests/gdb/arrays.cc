// SPDX-License-Identifier: Apache-2.0
// Objects of the public types, for run.sh to look at in gdb.
#include <tessera/tessera.h>

using namespace tessera;

namespace {

__attribute__((noinline)) void look(const Array& x, const Array& empty, const Sharding& sharding,
                                    const Mesh& mesh, const PartitionSpec& spec) {
  asm volatile("" : : "r"(&x), "r"(&empty), "r"(&sharding), "r"(&mesh), "r"(&spec) : "memory");
}
__attribute__((noinline)) void look_at_tracer(const Array& tracer) {
  asm volatile("" : : "r"(&tracer) : "memory");
}

}  // namespace

int main() {
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
  const PartitionSpec spec = P("data", nullptr);
  const NamedSharding sharding(mesh, spec);
  const Array x = device_put(full({2, 3}, 7.0f), sharding);
  look(x, Array(), sharding, mesh, spec);
  jit([](Array in) {
    const Array out = in * 2;
    look_at_tracer(out);
    return out;
  })(x);
}
