// SPDX-License-Identifier: Apache-2.0
// Behaviours 339 and 340 of docs/reference/behaviours.md: layouts, and the formats that jit and
// device_put take.
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>
#include <tessera/shard_map.h>
#include <tessera/sharding/format.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

struct Formats : ::testing::Test {
  Mesh mesh = mesh_of({{"x", 8}});
  NamedSharding rows{mesh, P("x")};
  Format columns{Layout({1, 0}), rows};
};

TEST_F(Formats, ArraysKeepTheLayoutThatTheyAreGiven) {
  const Array a = device_put(counting({8, 4}), columns);
  EXPECT_EQ(a.format(), columns);
  EXPECT_EQ(a.sharding(), rows);
  EXPECT_EQ(floats(a), floats(counting({8, 4})));
  EXPECT_EQ(copy(a).format(), columns);
  // What is computed of it, or put anew, is row-major.
  EXPECT_EQ((a + 1).format().layout(), Layout::row_major(2));
  EXPECT_EQ(device_put(a, rows).format().layout(), Layout({0, 1}));
  EXPECT_EQ(columns.layout().to_string(), "Layout(major_to_minor=(1, 0))");
  EXPECT_EQ(Format(Layout::AUTO).to_string(), "Format(Layout.AUTO, UNSPECIFIED)");
}

TEST_F(Formats, Behaviour_339_ErrorsOfLayouts) {
  expect_error<ValueError>(
      [&] {
        (void)Format(Layout({1, 0}));
      },
      {"Layout(major_to_minor=(1, 0))", "sharding", kNear});
  expect_error<ValueError>([&] { (void)Layout({0, 2}); }, {"(0, 2)", "0 to 1", kNear});
  expect_error<ValueError>([&] { (void)Layout::AUTO.major_to_minor(); },
                           {"Layout.AUTO", "input_formats", kNear});
  expect_error<ValueError>([&] { (void)device_put(ones({8}), Format(Layout::AUTO, rows)); },
                           {"device_put's argument", "Layout.AUTO", kNear});
  expect_error<ValueError>([&] { (void)device_put(ones({8}), columns); },
                           {"rank 2", "rank 1", kNear});
  auto f = jit([](Array v) { return v * 2; }, {.in_shardings = columns, .out_shardings = columns});
  expect_error<ValueError>([&] { (void)f(ones({8})); }, {"in_shardings", "rank 2", kNear});
  auto g = jit([](Array v) { return sum(v, 1); }, {.out_shardings = columns});
  expect_error<ValueError>([&] { (void)g(ones({8, 4})); }, {"result of 'jit_fn'", "rank 2", kNear});

  // A committed argument has the layout that was stated of it, at each call.
  EXPECT_EQ(f(device_put(counting({8, 4}), columns)).format(), columns);
  const Array plain = device_put(counting({8, 4}), rows);
  const std::vector<std::string> both = {"argument 0 of 'jit_fn'", "f32[8,4]",
                                         "Layout(major_to_minor=(0, 1))",
                                         "Layout(major_to_minor=(1, 0))", kNear};
  expect_error<ValueError>([&] { (void)f(plain); }, both);
  const auto compiled = f.lower(plain).compile();
  expect_error<ValueError>([&] { (void)compiled(plain); }, both);
  EXPECT_EQ(f(counting({8, 4})).format(), columns);  // uncommitted: placed as stated

  // AUTO on one side of a donation.
  const auto add = [](Array v) { return v + 1; };
  auto in = jit(add, {.in_shardings = Format(Layout::AUTO, rows), .donate_argnums = {0}});
  expect_error<ValueError>(
      [&] {
        (void)in(ones({8, 4}));
      },
      {"argument 0", "Layout.AUTO", "out_shardings", "donated", kNear});
  auto out = jit(add, {.out_shardings = Format(Layout::AUTO), .donate_argnums = {0}});
  expect_error<ValueError>(
      [&] {
        (void)out(ones({8, 4}));
      },
      {"result", "Layout.AUTO", "in_shardings", "donated", kNear});

  // Elsewhere there are shardings only.
  expect_error<ValueError>([&] { (void)with_sharding_constraint(plain, columns); },
                           {"with_sharding_constraint", "Format", kNear});
  expect_error<TypeError>(
      [&] {
        (void)shard_map([](Array v) { return v; },
                        {.mesh = mesh, .in_specs = columns, .out_specs = P("x")})(plain);
      },
      {"in_specs", "Format", kNear});
}

TEST_F(Formats, Behaviour_340_AutomaticLayouts) {
  auto f = jit([](Array v, Array w) { return std::pair(v + 1, sum(w)); },
               {.in_shardings = tree(Format(Layout::AUTO, rows), columns),
                .out_shardings = tree(Format(Layout::AUTO), nullptr),
                .donate_argnums = {0}});
  const auto compiled =
      f.lower(shape_dtype_struct({8, 4}, f32), shape_dtype_struct({8, 4}, f32)).compile();
  const std::vector<Format> in = compiled.input_formats(), out = compiled.output_formats();
  ASSERT_EQ(in.size(), 2u);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(in[0], Format(Layout::row_major(2), rows));
  EXPECT_EQ(in[1], columns);
  EXPECT_FALSE(out[0].layout().is_auto());
  EXPECT_EQ(out[1].layout(), Layout::row_major(0));
  const auto [y, total] =
      compiled(device_put(counting({8, 4}), in[0]), device_put(counting({8, 4}), in[1]));
  EXPECT_EQ(floats(y), floats(counting({8, 4}) + 1));
  EXPECT_EQ(y.format().layout(), out[0].layout());
  // A call takes any layout where it is AUTO.
  (void)f(device_put(ones({8, 4}), columns), device_put(ones({8, 4}), columns));
}

}  // namespace
}  // namespace tessera::testing
