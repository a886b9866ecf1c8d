// SPDX-License-Identifier: Apache-2.0
// Programs of text, compiled and run on whole arrays.
#pragma once

#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/compiler/read_module.h"
#include "src/ir/rewrite/whole_arrays.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/shards.h"

namespace tessera::testing {

inline Literal floats(const Dims& dims, std::vector<float> values) {
  return make_literal(DType::f32, dims, std::move(values));
}
inline Literal numbers(const Dims& dims, std::vector<std::int32_t> values) {
  return make_literal(DType::s32, dims, std::move(values));
}

/// The results, each whole, as on every device that has a part of them.
inline void expect_results(const std::string& text, const std::vector<Literal>& arguments,
                           const std::vector<Literal>& wanted) {
  for (const Layouts layouts : {Layouts::solved, Layouts::propagated}) {
    auto module = compiler::read_module(text, "t.mlir", std::nullopt);
    ir::take_whole_arrays(module.get());
    compiler::Options options;
    options.layouts = layouts;
    const auto executable = compiler::compile(std::move(module), options);
    std::vector<std::vector<Literal>> shards{arguments};
    if (executable->num_devices() > 1) {
      shards = shard_arguments(executable->partitioned(), arguments);
    }
    compiler::DeviceArrays buffers = to_device_arrays(shards);
    const std::vector<bool> donated(buffers.size(), true);
    const auto results = executable->run(std::move(buffers), donated);
    const Literal whole = executable->partitioned().entry()->root()->shape.is_tuple
                              ? Literal::tuple(wanted)
                              : wanted.at(0);
    const auto fault =
        difference(to_literals(*executable, results), whole, executable->result_shardings(), 0);
    EXPECT_FALSE(fault.has_value()) << *fault << "\n" << text;
  }
}

}  // namespace tessera::testing
