// SPDX-License-Identifier: Apache-2.0
// How fast StableHLO text is read: a program of many equal layers, written out.
//   read_stablehlo [MEGABYTES]      (default 100)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "src/text/read/stablehlo.h"

namespace {

// A layer of a transformer in the forms that JAX prints: products, reductions, broadcasts, gelu.
std::string layer(int n) {
  const std::string p = "%l" + std::to_string(n) + "_";
  const std::string x = n == 0 ? "%arg0" : "%l" + std::to_string(n - 1) + "_30";
  const std::string big = "tensor<8x128x512xf32>";
  std::string t;
  auto line = [&](const std::string& s) { t += "    " + s + "\n"; };
  auto binary = [&](const char* name, const char* op, const std::string& a, const std::string& b,
                    const std::string& type) {
    line(p + name + " = stablehlo." + op + " " + a + ", " + b + " : " + type);
  };
  line(p + "c = stablehlo.constant dense<0.000000e+00> : tensor<f32>");
  line(p + "0 = stablehlo.reduce(" + x + " init: " + p +
       "c) applies stablehlo.add across dimensions = [2] : (" + big +
       ", tensor<f32>) -> tensor<8x128xf32>");
  line(p + "1 = stablehlo.constant dense<5.120000e+02> : tensor<f32>");
  line(p + "2 = stablehlo.broadcast_in_dim " + p +
       "1, dims = [] : (tensor<f32>) -> tensor<8x128xf32>");
  binary("3", "divide", p + "0", p + "2", "tensor<8x128xf32>");
  line(p + "4 = stablehlo.broadcast_in_dim " + p +
       "3, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>");
  line(p + "5 = stablehlo.broadcast_in_dim " + p +
       "4, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> " + big);
  binary("6", "subtract", x, p + "5", big);
  binary("7", "multiply", p + "6", p + "6", big);
  line(p + "8 = stablehlo.dot_general " + p +
       "7, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (" + big +
       ", tensor<512x512xf32>) -> " + big);
  line(p + "9 = stablehlo.reshape " + p + "8 : (" + big + ") -> tensor<8x128x8x64xf32>");
  line(p + "10 = stablehlo.transpose " + p +
       "9, dims = [0, 2, 1, 3] : (tensor<8x128x8x64xf32>) -> tensor<8x8x128x64xf32>");
  line(p + "11 = stablehlo.dot_general " + p + "10, " + p +
       "10, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, "
       "DEFAULT] : (tensor<8x8x128x64xf32>, tensor<8x8x128x64xf32>) -> tensor<8x8x128x128xf32>");
  line(p + "12 = stablehlo.exponential " + p + "11 : tensor<8x8x128x128xf32>");
  line(p + "13 = stablehlo.compare GT, " + p + "12, " + p +
       "11, FLOAT : (tensor<8x8x128x128xf32>, tensor<8x8x128x128xf32>) -> "
       "tensor<8x8x128x128xi1>");
  line(p + "14 = stablehlo.select " + p + "13, " + p + "12, " + p +
       "11 : tensor<8x8x128x128xi1>, tensor<8x8x128x128xf32>");
  line(p + "15 = stablehlo.dot_general " + p + "14, " + p +
       "10, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, "
       "DEFAULT] : (tensor<8x8x128x128xf32>, tensor<8x8x128x64xf32>) -> tensor<8x8x128x64xf32>");
  line(p + "16 = stablehlo.transpose " + p +
       "15, dims = [0, 2, 1, 3] : (tensor<8x8x128x64xf32>) -> tensor<8x128x8x64xf32>");
  line(p + "17 = stablehlo.reshape " + p + "16 : (tensor<8x128x8x64xf32>) -> " + big);
  binary("18", "add", x, p + "17", big);
  binary("19", "multiply", p + "18", p + "18", big);
  binary("20", "multiply", p + "18", p + "19", big);
  line(p + "21 = stablehlo.tanh " + p + "20 : " + big);
  line(p + "22 = stablehlo.slice " + p + "21 [0:8, 0:128, 0:512] : (" + big + ") -> " + big);
  line(p + "30 = stablehlo.add " + p + "22, " + p + "18 : " + big);
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  const double megabytes = argc > 1 ? std::atof(argv[1]) : 100;
  std::string text =
      "module @bench attributes {mhlo.num_partitions = 1 : i32} {\n  func.func public "
      "@main(%arg0: tensor<8x128x512xf32>, %arg1: tensor<512x512xf32>) -> "
      "tensor<8x128x512xf32> {\n";
  int layers = 0;
  while (double(text.size()) < megabytes * 1e6) text += layer(layers++);
  text += "    return %l" + std::to_string(layers - 1) + "_30 : tensor<8x128x512xf32>\n  }\n}\n";
  double best = 0, best_cpu = 0;
  std::size_t count = 0;
  for (int n = 0; n < 3; ++n) {
    auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    auto module = tessera::text::parse_stablehlo(text, "bench.mlir");
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, double(text.size()) / 1e6 / seconds);
    best_cpu = std::max(best_cpu, double(text.size()) / 1e6 /
                                      (double(std::clock() - cpu) / double(CLOCKS_PER_SEC)));
    count = module->instruction_count();
  }
  // By the processor's clock too: other programs don't count in that.
  std::printf("%.1f MB, %zu instructions, %.1f MB/s (%.1f MB per second of processor time)\n",
              double(text.size()) / 1e6, count, best, best_cpu);
  return 0;
}
