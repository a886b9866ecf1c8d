// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include <tessera/mesh.h>
#include <tessera/partition_spec.h>

int main() {
  using namespace tessera;
  Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  std::cout << mesh.to_string() << " " << P("x", nullptr).to_string() << "\n";
  return mesh.size() == 8 ? 0 : 1;
}
