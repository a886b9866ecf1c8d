// SPDX-License-Identifier: Apache-2.0
// The formulas that stand for LAPACK's routines on other platforms, on the evaluator, give what
// LAPACK gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/compiler/accelerators/lapack.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/compiler/run_executable.h"

namespace tessera::testing {
namespace {

/// Column-major, as the routines want matrices.
std::string column_major(DType t, const Dims& dims) {
  std::string order = fmt::format("{},{}", dims.size() - 2, dims.size() - 1);
  for (std::size_t d = dims.size() - 2; d-- > 0;) order += fmt::format(",{}", d);
  return Shape(t, dims).to_string() + "{" + order + "}";
}
std::string vector_of(DType t, const Dims& dims) { return Shape(t, dims).to_string(); }

struct LapackCase {
  DType t;
  Dims dims;
  std::string routine;  ///< "getrf"
  std::string results, attributes;
  bool symmetric = false;  ///< and positive definite
  bool absolute = false;   ///< vectors are defined but for a factor of size 1
};

template <class T>
std::vector<T> numbers(const LapackCase& c) {
  const std::size_t m = std::size_t(c.dims[c.dims.size() - 2]), n = std::size_t(c.dims.back());
  std::size_t all = 1;
  for (const std::int64_t d : c.dims) all *= std::size_t(d);
  std::vector<T> out(all);
  const auto noise = [](std::size_t k) { return std::sin(double(k * k) * 0.37 + 1); };
  for (std::size_t k = 0; k < all; ++k) {
    if constexpr (requires { typename T::value_type; }) {
      out[k] = T(typename T::value_type(noise(k)), typename T::value_type(noise(k + 1000)));
    } else {
      out[k] = T(noise(k));
    }
  }
  if (!c.symmetric) return out;
  for (std::size_t begin = 0; begin < all; begin += m * n) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        T& mirrored = out[begin + j * n + i];
        mirrored = out[begin + i * n + j];
        if constexpr (requires { typename T::value_type; }) mirrored = std::conj(mirrored);
      }
      out[begin + i * n + i] = T(std::abs(out[begin + i * n + i])) + T(float(n + 2 * i));
    }
  }
  return out;
}

template <class T>
void check_close(const Literal& made, const Literal& wanted, bool absolute, double tolerance) {
  const auto x = made.data<T>(), y = wanted.data<T>();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double off =
        absolute ? double(std::abs(x[k])) - double(std::abs(y[k])) : double(std::abs(x[k] - y[k]));
    EXPECT_LE(std::abs(off), tolerance) << "element " << k;
  }
}

void check_close(const Literal& made, const Literal& wanted, bool absolute) {
  ASSERT_EQ(made.shape(), wanted.shape());
  switch (made.shape().dtype) {
    case DType::f32:
      return check_close<float>(made, wanted, absolute, 2e-5);
    case DType::f64:
      return check_close<double>(made, wanted, absolute, 1e-12);
    case DType::c64:
      return check_close<std::complex<float>>(made, wanted, absolute, 2e-5);
    case DType::c128:
      return check_close<std::complex<double>>(made, wanted, absolute, 1e-12);
    default:
      EXPECT_TRUE(made == wanted);
  }
}

template <class T>
Literal argument(const LapackCase& c) {
  return make_literal(c.t, c.dims, numbers<T>(c));
}
Literal argument(const LapackCase& c) {
  switch (c.t) {
    case DType::f32:
      return argument<float>(c);
    case DType::f64:
      return argument<double>(c);
    case DType::c64:
      return argument<std::complex<float>>(c);
    default:
      return argument<std::complex<double>>(c);
  }
}

void check_routine(const LapackCase& c) {
  const char letter = c.t == DType::f32   ? 's'
                      : c.t == DType::f64 ? 'd'
                      : c.t == DType::c64 ? 'c'
                                          : 'z';
  const std::string text = fmt::format(
      "HloModule m\nENTRY main {{\n  a = {0} parameter(0)\n  ROOT out = {1} custom-call(a), "
      "custom_call_target=\"lapack_{2}{3}_ffi\", operand_layout_constraints={{{4}}}, "
      "api_version=API_VERSION_TYPED_FFI, backend_config={{{5}}}\n}}\n",
      Shape(c.t, c.dims).to_string(), c.results, letter, c.routine, column_major(c.t, c.dims),
      c.attributes);
  SCOPED_TRACE(text);
  const Literal a = argument(c);
  const auto executable = compiler::compile(ir::parse_hlo(text));
  const Literal wanted =
      to_literals(*executable, executable->run(to_device_arrays({{a}}), {})).at(0);

  const auto module = ir::parse_hlo(text);
  ASSERT_EQ(compiler::accelerators::lower_lapack(module.get(),
                                                 compiler::accelerators::LapackForms::formulas),
            1u);
  ir::verify(*module);
  EXPECT_EQ(ir::to_string(*module).find("custom-call"), std::string::npos);
  const Literal made = evaluator::evaluate(*module, std::vector<Literal>{a});
  ASSERT_EQ(made.elements().size(), wanted.elements().size());
  for (std::size_t k = 0; k < made.elements().size(); ++k) {
    SCOPED_TRACE(fmt::format("result {}", k));
    // The first of gesdd is memory that LAPACK works in.
    if (c.routine == "gesdd" && k == 0) continue;
    check_close(made.elements()[k], wanted.elements()[k], c.absolute);
  }
}

class LapackFormulas : public ::testing::TestWithParam<DType> {
 protected:
  /// Of a matrix and of a batch.
  template <class Check>
  void each(std::int64_t m, std::int64_t n, Check&& checked) {
    for (const Dims& batch : {Dims{}, Dims{2}}) {
      Dims dims = batch;
      dims.push_back(m);
      dims.push_back(n);
      checked(batch, dims);
    }
  }
  Dims with(Dims batch, std::int64_t n) {
    batch.push_back(n);
    return batch;
  }
  Dims with(Dims batch, std::int64_t m, std::int64_t n) {
    batch.push_back(m);
    batch.push_back(n);
    return batch;
  }
};

TEST_P(LapackFormulas, Factors) {
  const DType t = GetParam();
  for (const auto& [m, n] : {std::pair{4, 4}, {5, 3}, {3, 5}, {1, 1}}) {
    const std::int64_t k = std::min(m, n);
    each(m, n, [&](const Dims& batch, const Dims& dims) {
      const std::string matrix = column_major(t, dims);
      check_routine({t, dims, "getrf",
                     "(" + matrix + ", " + vector_of(s32, with(batch, k)) + ", " +
                         vector_of(s32, batch) + ")",
                     ""});
      check_routine(
          {t, dims, "geqrf", "(" + matrix + ", " + vector_of(t, with(batch, k)) + ")", ""});
    });
  }
}

TEST_P(LapackFormulas, Cholesky) {
  const DType t = GetParam();
  for (const char uplo : {'L', 'U'}) {
    each(5, 5, [&](const Dims& batch, const Dims& dims) {
      check_routine({t, dims, "potrf",
                     "(" + column_major(t, dims) + ", " + vector_of(s32, batch) + ")",
                     fmt::format("uplo = {} : ui8", int(uplo)), true});
    });
  }
}

TEST_P(LapackFormulas, Eigenvalues) {
  const DType t = GetParam();
  const bool complex = real_type(t) != t;
  for (const std::int64_t n : {1, 2, 5}) {
    each(n, n, [&](const Dims& batch, const Dims& dims) {
      check_routine({t, dims, complex ? "heevd" : "syevd",
                     "(" + column_major(t, dims) + ", " + vector_of(real_type(t), with(batch, n)) +
                         ", " + vector_of(s32, batch) + ")",
                     "mode = 86 : ui8, uplo = 76 : ui8", true, true});
    });
  }
}

TEST_P(LapackFormulas, SingularValues) {
  const DType t = GetParam();
  for (const auto& [m, n] : {std::pair{4, 4}, {5, 3}, {3, 5}}) {
    const std::int64_t k = std::min(m, n);
    each(m, n, [&](const Dims& batch, const Dims& dims) {
      check_routine({t, dims, "gesdd",
                     "(" + column_major(t, dims) + ", " + vector_of(real_type(t), with(batch, k)) +
                         ", " + column_major(t, with(batch, m, k)) + ", " +
                         column_major(t, with(batch, k, n)) + ", " + vector_of(s32, batch) + ")",
                     "mode = 83 : ui8", false, true});
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LapackFormulas,
                         ::testing::Values(DType::f32, DType::f64, DType::c64, DType::c128),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tessera::testing
