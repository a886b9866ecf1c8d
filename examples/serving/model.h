// SPDX-License-Identifier: Apache-2.0
// The model: a program that JAX exported, and its parameters in a safetensors file (export.py).
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace serving {

constexpr std::size_t kPixels = 64, kClasses = 10;
using Pixels = std::vector<float>;         ///< 64 numbers from 0 to 1
using Probabilities = std::vector<float>;  ///< of the digits 0 to 9

class Model {
 public:
  explicit Model(const std::string& folder)
      : program_(tessera::load_stablehlo(folder + "/model.mlir")) {
    // JAX passes a dict's arrays in the order of their names, as a map has them.
    for (auto& [name, array] : tessera::load_safetensors_arrays(folder + "/model.safetensors")) {
      arguments_.push_back(array);
    }
    const auto parameters = program_.parameters();
    if (parameters.size() != arguments_.size() + 1) {
      throw tessera::ValueError("model.mlir takes " + std::to_string(parameters.size()) +
                                " arrays, and model.safetensors has " +
                                std::to_string(arguments_.size()));
    }
    batch_ = std::size_t(parameters.back().shape.at(0));
    // Compiled now, not at the first request.
    run({Pixels(kPixels)});
    tessera::wait_for_optimized_code();
  }

  /// The batch that the program is for.
  std::size_t batch() const { return batch_; }

  /// Any number of inputs up to `batch`; threads may call it at once.
  std::vector<Probabilities> run(const std::vector<Pixels>& inputs) const {
    std::vector<float> pixels(batch_ * kPixels);  // what is beyond the inputs is zero
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::copy(inputs[i].begin(), inputs[i].end(), pixels.begin() + std::ptrdiff_t(i * kPixels));
    }
    std::vector<tessera::Array> arguments = arguments_;
    arguments.push_back(tessera::array(pixels, {std::int64_t(batch_), std::int64_t(kPixels)}));
    const auto rows = program_(arguments).at(0).to_vector<float>();
    std::vector<Probabilities> out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto row = rows.begin() + std::ptrdiff_t(i * kClasses);
      out.emplace_back(row, row + std::ptrdiff_t(kClasses));
    }
    return out;
  }

 private:
  tessera::LoadedFunction program_;
  std::vector<tessera::Array> arguments_;
  std::size_t batch_ = 0;
};

}  // namespace serving
