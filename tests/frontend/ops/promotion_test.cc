// SPDX-License-Identifier: Apache-2.0
// Type promotion: JAX's table, and its use by operations.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <fstream>
#include <sstream>

#include "src/frontend/ops/internal.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera {
namespace {

Array sample(const std::string& type) {
  if (type == "i*") return Array(1);
  if (type == "f*") return Array(1.0);
  if (type == "c*") return Array(std::complex<float>(1, 0));
  return shape_dtype_struct({}, dtype_from_name(type).value());
}

std::string type_text(DType dtype, bool weak) {
  if (!weak) return std::string(name(dtype));
  return is_complex(dtype) ? "c*" : is_floating(dtype) ? "f*" : "i*";
}

struct Row {
  std::string a, b, result;
};

std::vector<Row> rows() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/promotion.txt");
  std::vector<Row> out;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string first, arrow;
    Row row;
    words >> first >> row.a >> row.b >> arrow >> row.result;
    out.push_back(row);
  }
  return out;
}

TEST(Promotion, IsJaxsTable) {
  const std::vector<Row> table = rows();
  ASSERT_EQ(table.size(), 18u * 18u);
  for (const Row& row : table) {
    const frontend::TypeNode type = frontend::promote({sample(row.a), sample(row.b)}, {});
    EXPECT_EQ(type_text(type.dtype, type.weak), row.result) << row.a << " and " << row.b;
  }
}

TEST(Promotion, OfSumsIsTheSame) {
  for (const Row& row : rows()) {
    if (row.a == "pred" || row.b == "pred") continue;
    auto value = [](const std::string& type) {
      return type.back() == '*' ? sample(type) : zeros({}, dtype_from_name(type).value());
    };
    const Array sum = add(value(row.a), value(row.b));
    EXPECT_EQ(type_text(sum.dtype(), sum.weak_type()), row.result) << row.a << " + " << row.b;
  }
}

TEST(Promotion, PlainNumbersAdoptTheOtherDtype) {
  const Array bytes = array<std::int8_t>({1, 2});
  EXPECT_EQ((bytes + 1).dtype(), s8);
  EXPECT_EQ((bytes + 1.5).dtype(), f32);
  EXPECT_TRUE((bytes + 1.5).weak_type());
  EXPECT_EQ((ones({2}, bf16) * 2.5).dtype(), bf16);
  EXPECT_EQ((ones({2}, f64) * 2.5f).dtype(), f64);
  EXPECT_EQ((ones({2}, s32) * std::complex<float>(0, 1)).dtype(), c64);
  EXPECT_EQ((array({true, false}) + 1).dtype(), s32);
  EXPECT_EQ((array<std::int64_t>({1}) + Array(1)).dtype(), s64);
}

TEST(Promotion, PlainFloatsKeepTheirPrecisionForWideArrays) {
  EXPECT_EQ((zeros({1}, f64) + 0.1).to_vector<double>()[0], 0.1);
  EXPECT_EQ((zeros({1}, f32) + 0.1).to_vector<float>()[0], 0.1f);
  const auto z =
      (zeros({1}, c128) + std::complex<double>(0.1, 0.3)).to_vector<std::complex<double>>();
  EXPECT_EQ(z[0], std::complex<double>(0.1, 0.3));
}

TEST(Promotion, OfDtypesAlone) {
  EXPECT_EQ(promote_types(s32, f16), f16);
  EXPECT_EQ(promote_types(u32, s32), s64);
  EXPECT_EQ(promote_types(f16, bf16), f32);
  EXPECT_EQ(promote_types(f64, c64), c128);
  EXPECT_EQ(promote_types(DType::f6e2m3fn, s32), DType::f6e2m3fn);
  EXPECT_EQ(promote_types(DType::f6e3m2fn, pred), DType::f6e3m2fn);
  EXPECT_THROW(promote_types(DType::f6e2m3fn, DType::f6e3m2fn), DTypeError);
  EXPECT_THROW(promote_types(DType::f6e2m3fn, f32), DTypeError);
  EXPECT_EQ(result_type({Array(1.0), ones({1}, s8)}), f32);
}

TEST(SmallFloats, AreMadeAndReduced) {
  for (const DType d : {DType::f4e2m1fn, DType::f6e2m3fn, DType::f6e3m2fn, DType::f8e4m3fn,
                        DType::f8e5m2, DType::f8e4m3b11fnuz}) {
    const auto values = [](const Array& a) { return a.astype(f32).to_vector<float>(); };
    const std::vector<float> two{2}, one{1};
    EXPECT_EQ(values(ones({2}, d)), (std::vector<float>{1, 1})) << name(d);
    EXPECT_EQ(values(sum(ones({2}, d))), two) << name(d);
    EXPECT_EQ(values(prod(ones({2}, d))), one) << name(d);
    EXPECT_EQ(values(max(-ones({2}, d))), std::vector<float>{-1}) << name(d);
    EXPECT_EQ(values(min(ones({2}, d))), one) << name(d);
    EXPECT_EQ(values(mean(ones({2}, d))), one) << name(d);
  }
  EXPECT_EQ(prod(ones({2}, DType::f8e8m0fnu)).astype(f32).item<float>(), 1);
  EXPECT_THROW(sum(ones({2}, DType::f8e8m0fnu)), DTypeError);
}

}  // namespace
}  // namespace tessera
