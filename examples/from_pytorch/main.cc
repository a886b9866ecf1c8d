// SPDX-License-Identifier: Apache-2.0
// Runs a network of PyTorch that export.py exported: the program as StableHLO text, its weights by
// name. Compares with what PyTorch makes of the same input.
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace tessera;

int main() {
  const std::string folder = TESSERA_EXAMPLE_DIR;
  const LoadedFunction model = load_stablehlo(folder + "/model.mlir");
  std::map<std::string, Array> arrays = load_safetensors_arrays(folder + "/model.safetensors");
  const auto example = load_safetensors_arrays(folder + "/example.safetensors");
  arrays.insert({"input", example.at("input")});

  // What each argument is, in order.
  std::vector<Array> arguments;
  std::ifstream names(folder + "/model.arguments");
  for (std::string name; std::getline(names, name);) arguments.push_back(arrays.at(name));

  const Array got = model(arguments)[0];
  const float error = max(abs(got - example.at("output"))).item<float>();
  std::printf("%s: %zu arguments, largest difference %.2g\n", model.name().c_str(),
              arguments.size(), double(error));
  return error < 1e-5f ? EXIT_SUCCESS : EXIT_FAILURE;
}
