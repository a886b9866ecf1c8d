// SPDX-License-Identifier: Apache-2.0
// Runs executables on literals.
#pragma once

#include <vector>

#include "src/base/arrays/literal.h"
#include "src/compiler/compile.h"
#include "src/runtime/buffer.h"
#include "tests/support/buffers.h"

namespace tessera::testing {

/// args[device][parameter leaf] → args[parameter][device].
inline compiler::DeviceArrays to_device_arrays(const std::vector<std::vector<Literal>>& args) {
  compiler::DeviceArrays out(args.at(0).size());
  for (const auto& device : args) {
    for (std::size_t i = 0; i < device.size(); ++i) out[i].push_back(to_buffer(device[i]));
  }
  return out;
}

/// results[device]: one array, or a tuple.
inline std::vector<Literal> to_literals(const compiler::Executable& e,
                                        const compiler::DeviceArrays& results) {
  const Shape& root = e.partitioned().entry()->root()->shape;
  const std::vector<Shape> shapes = flatten(root);
  std::vector<Literal> out;
  for (std::size_t d = 0; d < std::size_t(e.num_devices()); ++d) {
    std::vector<Literal> leaves;
    for (std::size_t k = 0; k < results.size(); ++k) {
      leaves.push_back(from_buffer(results[k][d], shapes[k]));
    }
    out.push_back(root.is_tuple ? Literal::tuple(std::move(leaves)) : leaves.at(0));
  }
  return out;
}

}  // namespace tessera::testing
