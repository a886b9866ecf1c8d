// SPDX-License-Identifier: Apache-2.0
// Programs with inputs and outputs in files.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/base/files/npy.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/module.h"
#include "src/text/read/stablehlo.h"

namespace tessera::text {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

/// What reading the text `t.mlir` says is wrong; empty if it is read.
inline std::string error_of(const std::string& text) {
  try {
    parse_stablehlo(text, "t.mlir");
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// |got - want| <= tolerance (1 + |want|) for numbers with fractions, else equal; NaN where NaN is.
inline void expect_close(const Literal& got, const Literal& want, double tolerance,
                         const std::string& who) {
  ASSERT_EQ(got.shape().to_string(), want.shape().to_string()) << who;
  if (is_floating(got.dtype()) || is_complex(got.dtype())) {
    auto a = to_vector<std::complex<double>>(got), b = to_vector<std::complex<double>>(want);
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (bool imaginary : {false, true}) {
        double x = imaginary ? a[i].imag() : a[i].real();
        double y = imaginary ? b[i].imag() : b[i].real();
        bool close = (std::isnan(x) && std::isnan(y)) || x == y ||
                     std::abs(x - y) <= tolerance * (1 + std::abs(b[i]));
        ASSERT_TRUE(close) << who << " element " << i << ": " << x << " and not " << y;
      }
    }
  } else {
    ASSERT_EQ(to_vector<std::int64_t>(got), to_vector<std::int64_t>(want)) << who;
  }
}

/// Evaluates on PREFIX argK.npy and compares with PREFIX outK.npy.
inline void expect_outputs(const ir::Module& module, const std::string& prefix, double tolerance) {
  std::vector<Literal> arguments;
  for (const ir::Instruction* p : module.entry()->parameters()) {
    arguments.push_back(
        read_npy(prefix + "arg" + std::to_string(arguments.size()) + ".npy", p->shape.dtype));
  }
  Literal result = evaluator::evaluate(module, arguments);
  std::vector<Literal> outs;
  if (result.is_tuple()) {
    outs = result.elements();
  } else {
    outs.push_back(result);
  }
  for (std::size_t k = 0; k < outs.size(); ++k) {
    std::string path = prefix + "out" + std::to_string(k) + ".npy";
    expect_close(outs[k], read_npy(path, outs[k].dtype()), tolerance, path);
  }
}

}  // namespace tessera::text
