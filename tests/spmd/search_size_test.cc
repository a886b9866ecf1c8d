// SPDX-License-Identifier: Apache-2.0
// Hashes of random numbers within a program don't end the search for its shardings.
#include "src/spmd/refine/search_size.h"

#include <gtest/gtest.h>

#include "src/spmd/refine/refine.h"
#include "tests/spmd/partition_case.h"

namespace tessera::testing {
namespace search_size_test {

/// A layer and its gradient, its weights split over all devices, with 64 steps of `step` on its
/// argument before it.
std::unique_ptr<ir::Module> layer_after(const std::string& dtype, const std::string& step) {
  std::string text =
      "x = " + dtype +
      "[32,64] parameter(0), sharding={devices=[2,1,4]<=[8] "
      "last_tile_dim_replicate}\n w = f32[64,128] parameter(1), sharding={devices=[2,4]<=[8]}\n"
      "v = f32[128,64] parameter(2), sharding={devices=[4,1,2]<=[2,4]T(1,0) "
      "last_tile_dim_replicate}\n";
  std::string last = "x";
  for (int i = 0; i < 64; ++i) {
    const std::string next = "x" + std::to_string(i);
    text += next + " = " + dtype + "[32,64] " + step + "(" + last + ", x)\n";
    last = next;
  }
  return parse_entry(text + "f = f32[32,64] convert(" + last + R"()
    h = f32[32,128] dot(f, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    t = f32[32,128] tanh(h)
    y = f32[32,64] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    dy = f32[32,64] subtract(y, f)
    dv = f32[128,64] dot(t, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    dt = f32[32,128] dot(dy, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
    dh = f32[32,128] multiply(dt, t)
    dw = f32[64,128] dot(f, dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    ROOT r = (f32[64,128], f32[128,64]) tuple(dw, dv), sharding={{devices=[2,4]<=[8]}, {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}})");
}

/// Whether programs are tried and compared, with a budget of six trials of a size of 60.
bool is_searched(std::unique_ptr<ir::Module> module) {
  bool asked = false;
  spmd::RefineOptions options;
  options.instructions = options.max_instructions = 360;
  options.judge = [&](const ir::Module&, const spmd::CostModel&) {
    asked = true;
    return spmd::Outcome{};
  };
  spmd::propagate_and_refine(std::move(module), options);
  return asked;
}

TEST(SearchSize, ElementwiseWorkOnIntegersCountsForAQuarter) {
  const auto hashed = layer_after("u32", "xor"), added = layer_after("f32", "add");
  EXPECT_EQ(spmd::search_size(*added) - spmd::search_size(*hashed), 48);
}

TEST(SearchSize, AProgramWithAHashIsStillSearched) {
  EXPECT_TRUE(is_searched(layer_after("u32", "xor")));
  EXPECT_FALSE(is_searched(layer_after("f32", "add")));
}

}  // namespace search_size_test
}  // namespace tessera::testing
