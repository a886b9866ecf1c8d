// SPDX-License-Identifier: Apache-2.0
// Runs executables on literals.
#pragma once

#include <cstring>
#include <vector>

#include "src/base/literal.h"
#include "src/compiler/compile.h"
#include "src/runtime/buffer.h"

namespace tessera::testing {

inline DeviceBuffer to_buffer(const Literal& x) {
  DeviceBuffer b{runtime::Storage::allocate(x.byte_count())};
  if (x.byte_count() > 0) std::memcpy(runtime::storage_of(b)->data(), x.bytes(), x.byte_count());
  return b;
}

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
      const DeviceBuffer& b = results[k][d];
      leaves.emplace_back(Shape(shapes[k].dtype, shapes[k].dims),
                          std::span<const std::byte>(runtime::bytes_of(b), b.bytes()));
    }
    out.push_back(root.is_tuple ? Literal::tuple(std::move(leaves)) : leaves.at(0));
  }
  return out;
}

}  // namespace tessera::testing
