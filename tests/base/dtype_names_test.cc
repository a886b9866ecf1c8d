// SPDX-License-Identifier: Apache-2.0
// Each dtype's names in texts and files of others lead back to it.
#include "src/base/arrays/dtype_names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tessera {
namespace {

TEST(DTypeNames, LeadBackToTheType) {
  std::set<std::string_view> mlir, safetensors;
  for (int k = 0; k <= int(DType::token); ++k) {
    const auto t = DType(k);
    SCOPED_TRACE(std::string(name(t)));
    if (!mlir_name(t).empty()) {
      EXPECT_TRUE(mlir.insert(mlir_name(t)).second);
      EXPECT_EQ(dtype_from_mlir(mlir_name(t)), t);
    }
    if (!safetensors_name(t).empty()) {
      EXPECT_TRUE(safetensors.insert(safetensors_name(t)).second);
      EXPECT_EQ(dtype_from_safetensors(safetensors_name(t)), t);
    }
    if (t == DType::token) {
      EXPECT_EQ(npy_name(t), "");
    } else if (npy_name(t) == "<V1") {
      EXPECT_EQ(byte_size(t), 1U);
    } else {
      EXPECT_EQ(dtype_from_npy(npy_name(t)), t);
      EXPECT_EQ(std::stoul(std::string(npy_name(t).substr(2))), byte_size(t));
    }
  }
  // What has none: integers of one bit, which MLIR takes for booleans, and tokens.
  EXPECT_EQ(mlir.size(), std::size_t(DType::token) - 1);
}

TEST(DTypeNames, OtherNamesOfMlirs) {
  EXPECT_EQ(dtype_from_mlir("index"), DType::s64);
  EXPECT_EQ(dtype_from_mlir("si16"), DType::s16);
  for (const char* none : {"", "si1", "s32", "f33", "i128", "sf32", "pred", "F32"}) {
    EXPECT_EQ(dtype_from_mlir(none), std::nullopt) << none;
  }
  EXPECT_EQ(dtype_from_npy("<V1"), std::nullopt);
  EXPECT_EQ(dtype_from_npy(""), std::nullopt);
  EXPECT_EQ(dtype_from_safetensors(""), std::nullopt);
  EXPECT_EQ(dtype_from_safetensors("f32"), std::nullopt);
}

}  // namespace
}  // namespace tessera
