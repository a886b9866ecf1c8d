// SPDX-License-Identifier: Apache-2.0
// Custom calls of XLA's own library, as TensorFlow and PyTorch have them in HLO: factors of
// matrices, and quantized numbers. Constants whose values the text leaves out.
#include <gtest/gtest.h>

#include <cmath>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

Literal result_of(const std::string& entry, const std::vector<Literal>& arguments) {
  const auto executable =
      compiler::compile(ir::parse_hlo("HloModule m\nENTRY e {\n" + entry + "}\n"));
  return to_literals(*executable, executable->run(to_device_arrays({arguments}), {})).at(0);
}

void expect_near(const Literal& got, const std::vector<double>& want) {
  const auto numbers = to_vector<double>(got);
  ASSERT_EQ(numbers.size(), want.size());
  for (std::size_t n = 0; n < want.size(); ++n) EXPECT_NEAR(numbers[n], want[n], 1e-5) << n;
}

std::string error_of(const std::string& entry, const std::vector<Literal>& arguments) {
  try {
    result_of(entry, arguments);
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// Two matrices: (Q from the reflectors) times (R above them) is each again, and Q is orthogonal.
TEST(XlaCalls, QrGivesReflectorsAndTheirProductTheFirstFactor) {
  const std::vector<double> numbers = {1, 2, 3, -4, 5, 6, 2, 0, 0, 1, 1, 1};
  const Literal a = make_literal(DType::f32, {2, 3, 2}, numbers);
  const Literal both = result_of(R"(
  a = f32[2,3,2] parameter(0)
  qr = (f32[2,3,2], f32[2,2]) custom-call(a), custom_call_target="Qr"
  packed = f32[2,3,2] get-tuple-element(qr), index=0
  taus = f32[2,2] get-tuple-element(qr), index=1
  q = f32[2,3,2] custom-call(packed, taus), custom_call_target="ProductOfElementaryHouseholderReflectors"
  row = s32[2,2,2] iota(), iota_dimension=1
  column = s32[2,2,2] iota(), iota_dimension=2
  upper = pred[2,2,2] compare(row, column), direction=LE
  top = f32[2,2,2] slice(packed), slice={[0:2], [0:2], [0:2]}
  zero = f32[] constant(0)
  zeros = f32[2,2,2] broadcast(zero), dimensions={}
  r = f32[2,2,2] select(upper, top, zeros)
  product = f32[2,3,2] dot(q, r), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  unit = f32[2,2,2] dot(q, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT both = (f32[2,3,2], f32[2,2,2]) tuple(product, unit)
)",
                                 {a});
  expect_near(both.elements()[0], numbers);
  expect_near(both.elements()[1], {1, 0, 0, 1, 1, 0, 0, 1});
}

TEST(XlaCalls, EighReadsTheTriangleThatItsConfigNames) {
  const std::string entry = R"(
  a = f64[2,2] parameter(0)
  found = (f64[2,2], f64[2]) custom-call(a), custom_call_target="Eigh", backend_config="LOWER,1,100,0.000001"
  ROOT values = f64[2] get-tuple-element(found), index=1
)";
  // Of the symmetric matrices with 1 and with 2 beside the diagonal.
  const Literal a = make_literal(DType::f64, {2, 2}, std::vector<double>{3, 2, 1, 3});
  for (const auto& [lower, want] :
       {std::pair<std::string, std::vector<double>>{"1", {2, 4}}, {"0", {1, 5}}}) {
    std::string text = entry;
    text.replace(text.find("LOWER"), 5, lower);
    expect_near(result_of(text, {a}), want);
  }
}

TEST(XlaCalls, FactorsOfComplexMatrices) {
  const Literal both =
      result_of(R"(
  x = f32[2,2] parameter(0)
  y = f32[2,2] parameter(1)
  a = c64[2,2] complex(x, y)
  qr = (c64[2,2], c64[2]) custom-call(a), custom_call_target="Qr"
  packed = c64[2,2] get-tuple-element(qr), index=0
  taus = c64[2] get-tuple-element(qr), index=1
  q = c64[2,2] custom-call(packed, taus), custom_call_target="ProductOfElementaryHouseholderReflectors"
  back = c64[2,2] transpose(q), dimensions={1,0}
  re = f32[2,2] real(back)
  im = f32[2,2] imag(back)
  minus = f32[2,2] negate(im)
  adjoint = c64[2,2] complex(re, minus)
  r = c64[2,2] dot(adjoint, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  below = c64[1,1] slice(r), slice={[1:2], [0:1]}
  size = f32[1,1] abs(below)
  e = (c64[2,2], f32[2]) custom-call(a), custom_call_target="Eigh", backend_config="1,1,100,0.000001"
  values = f32[2] get-tuple-element(e), index=1
  ROOT both = (f32[1,1], f32[2]) tuple(size, values)
)",
                {make_literal(DType::f32, {2, 2}, std::vector<float>{2, 9, 1, 2}),
                 make_literal(DType::f32, {2, 2}, std::vector<float>{0, 9, 1, 0})});
  expect_near(both.elements()[0], {0});
  expect_near(both.elements()[1], {2 - std::sqrt(2), 2 + std::sqrt(2)});
}

constexpr const char* kQuantize = R"(
  x = f32[2,3] parameter(0)
  s = s8[2,3] custom-call(x), custom_call_target="mhlo.uniform_quantize", api_version=API_VERSION_TYPED_FFI, backend_config={quantization_dimension=0,scale=[0.5,0.25],zero_point=[3,-1],storage_type=i8,expressed_type=f32,storage_min=-128,storage_max=127}
  t = s8[3,2] transpose(s), dimensions={1,0}
  y = f32[3,2] custom-call(t), custom_call_target="mhlo.uniform_dequantize", api_version=API_VERSION_TYPED_FFI, backend_config={quantization_dimension=1,scale=[0.5,0.25],zero_point=[3,-1],storage_type=i8,expressed_type=f32,storage_min=-128,storage_max=127}
  ROOT both = (s8[2,3], f32[3,2]) tuple(s, y)
)";

TEST(XlaCalls, NumbersAreQuantizedAlongADim) {
  const Literal x =
      make_literal(DType::f32, {2, 3}, std::vector<float>{0, 0.25f, -500, 1, 0.3f, 1e9f});
  const Literal both = result_of(kQuantize, {x});
  EXPECT_EQ(to_vector<std::int64_t>(both.elements()[0]), (Dims{3, 4, -128, 3, 0, 127}));
  expect_near(both.elements()[1], {0, 1, 0.5, 0.25, -65.5, 32});
}

TEST(XlaCalls, FaultsNameTheCall) {
  const Literal x = make_literal(DType::f32, {2, 3}, std::vector<float>(6));
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& part) {
    std::string entry = kQuantize;
    entry.replace(entry.find(from), from.size(), to);
    const std::string error = error_of(entry, {x});
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_NE(error.find("mhlo.uniform_quantize"), std::string::npos) << error;
  };
  expect("scale=[0.5,0.25]", "scale=[0.5]", "as many zero points as scales");
  expect("scale=[0.5,0.25]", "scale=[0.5,0]", "scales must be positive");
  expect("scale=[0.5,0.25]", "scale=0.5", "scale=0.5 in its config isn't a list");
  expect("quantization_dimension=0", "quantization_dimension=1", "2 scales along dim 1");
  expect("storage_type=i8", "storage_type=f9", "storage_type=f9 in its config isn't an integer");
  expect("storage_type=i8", "storage_type=u8", "it takes f32 and gives u8");
  expect(",storage_max=127", "", "its config lacks storage_max");
  EXPECT_NE(error_of("  x = f32[2,3] parameter(0)\n  ROOT q = (f32[2,3], f32[3]) custom-call(x), "
                     "custom_call_target=\"Qr\"\n",
                     {x})
                .find("it gives (f32[2,3], f32[2])"),
            std::string::npos);
}

// As torch_xla's enable_manual_sharding writes it: per-device code reads a number from outside.
TEST(XlaCalls, PerDeviceCodeTakesScalars) {
  const auto program = [](const std::string& taken) {
    return R"(HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,2] parameter(0), sharding={devices=[4,1]<=[4]}
  n = f32[] parameter(1), sharding={replicated}
  two = f32[2] parameter(2), sharding={replicated}
  more = f32[] add(n, n)
  part = f32[2,2] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  row = f32[2] broadcast(more), dimensions={}
  spread = f32[2,2] broadcast()" +
           taken + R"(), dimensions={1}
  scaled = f32[2,2] multiply(part, spread)
  y = f32[8,2] custom-call(scaled), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1]<=[4]}
  all = f32[8,2] broadcast(row), dimensions={1}
  ROOT z = f32[8,2] add(y, all)
}
)";
  };
  std::vector<float> numbers(16), want(16);
  for (std::size_t k = 0; k < 16; ++k) {
    numbers[k] = float(k);
    want[k] = float(k) * 6 + 6;
  }
  const auto executable = compiler::compile(ir::parse_hlo(program("row")));
  const auto arguments =
      shard_arguments(executable->partitioned(),
                      {make_literal(DType::f32, {8, 2}, numbers), Literal::scalar(DType::f32, 3),
                       make_literal(DType::f32, {2}, std::vector<float>{1, 2})});
  const auto results = executable->run(to_device_arrays(arguments), {});
  const auto fault =
      difference(to_literals(*executable, results), make_literal(DType::f32, {8, 2}, want),
                 executable->result_shardings(), 1e-6);
  EXPECT_FALSE(fault.has_value()) << *fault;
  try {
    compiler::compile(ir::parse_hlo(program("two")));
    ADD_FAILURE() << "compiled";
  } catch (const NotImplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("it takes two, which is a global array; valid: what"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tessera::testing
