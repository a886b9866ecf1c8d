// SPDX-License-Identifier: Apache-2.0
// Programs of which reports are made.
#pragma once

#include <memory>
#include <string>

#include "src/compiler/explain/explain.h"
#include "src/compiler/read_module.h"
#include "src/cost/count.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera::testing {

/// From StableHLO.
inline std::unique_ptr<ir::Module> parse(const std::string& entry) {
  return compiler::read_module(entry, "net.mlir");
}

/// x[64,128] · w[128,256], then tanh, with these shardings of arguments and result.
inline std::string layer(const std::string& x, const std::string& w, const std::string& result) {
  return R"(
module @layer {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(
      %x: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [)" +
         x + R"(]>} loc("x"),
      %w: tensor<128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [)" +
         w + R"(]>} loc("w"))
      -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [)" +
         result + R"(]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32> loc("jit(layer)/dot"("net.cc":12:3))
    %1 = stablehlo.tanh %0 : tensor<64x256xf32> loc("jit(layer)/tanh"("net.cc":13:3))
    return %1 : tensor<64x256xf32>
  }
})";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// That the device program, read back from its text, moves.
inline double text_bytes(const ir::Module& module) {
  const auto executable = compiler::compile(module.clone());
  return cost::count_communication(*ir::parse_hlo(ir::to_string(executable->partitioned())))
      .total_bytes;
}

}  // namespace tessera::testing
