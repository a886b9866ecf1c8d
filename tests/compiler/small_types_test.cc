// SPDX-License-Identifier: Apache-2.0
// Operations on types that kernels don't compute with have kernels all the same, and give the bits
// that the evaluator gives.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/base/arrays/small_floats.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/random_literal.h"

namespace tessera::testing {
namespace {

const std::vector<DType> kBits = {DType::s2, DType::u2, DType::s4, DType::u4};
const std::vector<DType> kFloats = {DType::f4e2m1fn,   DType::f6e2m3fn,   DType::f6e3m2fn,
                                    DType::f8e3m4,     DType::f8e4m3,     DType::f8e4m3b11fnuz,
                                    DType::f8e4m3fn,   DType::f8e4m3fnuz, DType::f8e5m2,
                                    DType::f8e5m2fnuz, DType::f8e8m0fnu};

std::vector<DType> all_of(std::vector<DType> a, const std::vector<DType>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// With the type for each T between spaces, brackets and the like, and R for the operation.
std::string with(std::string text, const std::string& key, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size()) {
    text.replace(at, key.size(), value);
  }
  return text;
}

Literal random_numbers(std::mt19937_64* engine, DType type, const Dims& dims) {
  if (!is_small_float(type)) {
    std::vector<double> values(std::size_t(element_count(dims)));
    for (double& v : values) v = random_number(engine, type);
    // Wrapped.
    return make_literal(type, dims, values);
  }
  Literal out(Shape(type, dims));
  for (std::size_t n = 0; n < out.byte_count(); ++n) {
    double v = random_number(engine, DType::f32);
    if (type == DType::f8e8m0fnu) v = std::abs(v) + 0.5;  // it has nothing else
    out.mutable_bytes()[n] = std::byte(small_float_bits(type, v));
  }
  return out;
}

void check(const std::string& form, DType type, const std::string& op = "add") {
  const std::string text =
      with(with("HloModule m\n" + form, "$T", std::string(name(type))), "$R", op);
  SCOPED_TRACE(text);
  std::mt19937_64 engine(7);
  auto module = ir::parse_hlo(text);
  std::vector<Literal> arguments;
  for (const ir::Instruction* p : module->entry()->parameters()) {
    arguments.push_back(random_numbers(&engine, p->shape.dtype, p->shape.dims));
  }
  const Literal want = evaluator::evaluate(*module, arguments);
  const auto executable = compiler::compile(std::move(module));
  EXPECT_TRUE(executable->evaluator_ops().empty()) << executable->evaluator_ops()[0];
  const auto arrays = executable->run(to_device_arrays({arguments}), {});
  EXPECT_TRUE(to_literals(*executable, arrays).at(0) == want);
}

const char* const kReducer =
    "f { p = $T[] parameter(0)\n q = $T[] parameter(1)\n"
    " ROOT r = $T[] $R(p, q) }\n";

TEST(SmallTypes, AreComputedWithElementByElement) {
  for (const DType t : kBits) {
    for (const char* op :
         {"add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum",
          "and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic"}) {
      check(
          "ENTRY e { a = $T[4,6] parameter(0)\n b = $T[4,6] parameter(1)\n"
          " ROOT r = $T[4,6] $R(a, b) }",
          t, op);
    }
    for (const char* op : {"not", "popcnt", "count-leading-zeros", "negate"}) {
      check("ENTRY e { a = $T[4,6] parameter(0)\n ROOT r = $T[4,6] $R(a) }", t, op);
    }
    for (const char* to : {"f32", "s64", "u8", "pred", "bf16", "c64", "s4", "f8e4m3fn"}) {
      check("ENTRY e { a = $T[4,6] parameter(0)\n ROOT r = $R[4,6] convert(a) }", t, to);
    }
    for (const char* from : {"f32", "s64", "u8", "pred", "f16", "u4", "f8e5m2"}) {
      check("ENTRY e { a = $R[4,6] parameter(0)\n ROOT r = $T[4,6] convert(a) }", t, from);
    }
    check(
        "ENTRY e { a = $T[4,6] parameter(0)\n b = $T[4,6] parameter(1)\n"
        " c = pred[4,6] compare(a, b), direction=LT\n ROOT r = $T[4,6] select(c, b, a) }",
        t);
  }
}

TEST(SmallTypes, AreReduced) {
  for (const DType t : all_of(kBits, kFloats)) {
    for (const char* op : {"add", "multiply", "maximum", "minimum"}) {
      if (t == DType::f8e8m0fnu && std::string(op) == "multiply") continue;  // beyond all numbers
      check(std::string(kReducer) +
                "ENTRY e { a = $T[4,6] parameter(0)\n z = $T[] parameter(1)\n"
                " ROOT r = $T[4] reduce(a, z), dimensions={1}, to_apply=f }",
            t, op);
      check(std::string(kReducer) +
                "ENTRY e { a = $T[4,6] parameter(0)\n z = $T[] parameter(1)\n"
                " ROOT r = $T[2,3] reduce-window(a, z), window={size=2x2 stride=2x2}, to_apply=f }",
            t, op);
      check(std::string(kReducer) +
                "ENTRY e { a = $T[9,6] parameter(0)\n i = s32[8,1] parameter(1)\n"
                " u = $T[8,6] parameter(2)\n ROOT r = $T[9,6] scatter(a, i, u), "
                "update_window_dims={1},"
                " inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,"
                " to_apply=f }",
            t, op);
    }
  }
}

TEST(SmallTypes, AreSortedAndMultiplied) {
  for (const DType t : all_of(kBits, kFloats)) {
    check(
        "less { p = $T[] parameter(0)\n q = $T[] parameter(1)\n"
        " ROOT r = pred[] compare(p, q), direction=LT }\n"
        "ENTRY e { a = $T[4,6] parameter(0)\n"
        " ROOT r = $T[4,6] sort(a), dimensions={1}, is_stable=true, to_apply=less }",
        t);
    check(
        "ENTRY e { a = $T[4,60] parameter(0)\n"
        " ROOT r = ($T[4,3], s32[4,3]) topk(a), k=3, largest=true }",
        t);
    check(
        "ENTRY e { a = $T[4,6] parameter(0)\n b = $T[6,5] parameter(1)\n"
        " ROOT r = $T[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        t);
  }
}

TEST(SmallTypes, AreSelectedAndScattered) {
  std::vector<DType> types = {DType::s8, DType::s16, DType::u8, DType::u32, DType::u64, DType::f32};
  for (const DType t : all_of(types, kFloats)) {
    for (const char* op : {"add", "maximum", "multiply"}) {
      check(std::string(kReducer) +
                "ge { p = $T[] parameter(0)\n q = $T[] parameter(1)\n"
                " ROOT r = pred[] compare(p, q), direction=GE }\n"
                "ENTRY e { a = $T[4,6] parameter(0)\n s = $T[3,3] parameter(1)\n z = $T[] "
                "parameter(2)\n"
                " ROOT r = $T[4,6] select-and-scatter(a, s, z),"
                " window={size=3x2 stride=2x2 pad=1_2x0_0}, select=ge, scatter=f }",
            t, op);
    }
  }
}

}  // namespace
}  // namespace tessera::testing
