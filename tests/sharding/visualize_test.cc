// SPDX-License-Identifier: Apache-2.0
// Drawings of shardings.
#include <tessera/sharding/visualize.h>

#include <gtest/gtest.h>

#include <sstream>

namespace tessera {
namespace {

std::vector<Device> first_devices(std::int64_t n) {
  std::vector<Device> out(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) out[std::size_t(i)].id = i;
  return out;
}

std::vector<std::string> lines_of(const std::string& picture) {
  std::vector<std::string> out;
  std::istringstream in(picture);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// Columns that a line takes on a terminal.
int columns_of(const std::string& line) {
  int n = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (line[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(line[i]) & 0xc0) != 0x80) {
      ++n;
    }
  }
  return n;
}

const Mesh& mesh_4x2() {
  static const Mesh mesh(first_devices(8), {4, 2}, {"x", "y"});
  return mesh;
}

TEST(Visualize, TwoDimensions) {
  EXPECT_EQ(sharding_picture(NamedSharding(mesh_4x2(), P("x", "y")), {8, 8}),
            "┌──────────┬──────────┐\n"
            "│  CPU 0   │  CPU 1   │\n"
            "├──────────┼──────────┤\n"
            "│  CPU 2   │  CPU 3   │\n"
            "├──────────┼──────────┤\n"
            "│  CPU 4   │  CPU 5   │\n"
            "├──────────┼──────────┤\n"
            "│  CPU 6   │  CPU 7   │\n"
            "└──────────┴──────────┘\n");
}

TEST(Visualize, CopiesShareACell) {
  EXPECT_EQ(sharding_picture(NamedSharding(mesh_4x2(), P(nullptr, "y")), {8, 8}),
            "┌─────────────┬─────────────┐\n"
            "│ CPU 0,2,4,6 │ CPU 1,3,5,7 │\n"
            "└─────────────┴─────────────┘\n");
  EXPECT_EQ(sharding_picture(NamedSharding(mesh_4x2(), P()), {3, 5}),
            "┌─────────────────────┐\n"
            "│ CPU 0,1,2,3,4,5,6,7 │\n"
            "└─────────────────────┘\n");
  EXPECT_EQ(sharding_picture(SingleDeviceSharding(Device{}), {3}),
            "┌──────────┐\n"
            "│  CPU 0   │\n"
            "└──────────┘\n");
}

TEST(Visualize, OneDimensionInAscii) {
  PictureOptions ascii;
  ascii.unicode = false;
  EXPECT_EQ(sharding_picture(NamedSharding(mesh_4x2(), P("x")), {8}, ascii),
            "+----------+----------+----------+----------+\n"
            "| CPU 0,1  | CPU 2,3  | CPU 4,5  | CPU 6,7  |\n"
            "+----------+----------+----------+----------+\n");
}

TEST(Visualize, ManyColumnsAreShortened) {
  const Mesh mesh(first_devices(64), "x");
  EXPECT_EQ(sharding_picture(NamedSharding(mesh, P("x")), {64}),
            "┌────────┬────────┬────────┬────────┬────────┬────────┬────────┬───┬────────┐\n"
            "│ CPU 0  │ CPU 1  │ CPU 2  │ CPU 3  │ CPU 4  │ CPU 5  │ CPU 6  │ … │ CPU 63 │\n"
            "└────────┴────────┴────────┴────────┴────────┴────────┴────────┴───┴────────┘\n");
  EXPECT_EQ(sharding_picture(NamedSharding(mesh, P()), {64}),
            "┌──────────────┐\n"
            "│ CPU 0,1,…,63 │\n"
            "└──────────────┘\n");
  const Mesh square(first_devices(64), {8, 8}, {"x", "y"});
  EXPECT_EQ(sharding_picture(NamedSharding(square, P("y")), {64}),
            "┌───────────────┬───────────────┬───────────────┬───┬───────────────┐\n"
            "│ CPU 0,8,…,56  │ CPU 1,9,…,57  │ CPU 2,10,…,58 │ … │ CPU 7,15,…,63 │\n"
            "└───────────────┴───────────────┴───────────────┴───┴───────────────┘\n");
  const Mesh tall(first_devices(64), {64, 1}, {"x", "y"});
  const auto lines = lines_of(sharding_picture(NamedSharding(tall, P("x", "y")), {64, 4}));
  ASSERT_EQ(lines.size(), 67u);
  EXPECT_EQ(lines[61], "│  CPU 30  │");
  EXPECT_EQ(lines[63], "│    ⋮     │");
  EXPECT_EQ(lines[65], "│  CPU 63  │");
}

TEST(Visualize, NoLineIsWiderThanRequested) {
  for (std::int64_t n : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 1000}) {
    for (std::int64_t a = 1; a <= n; ++a) {
      if (n % a != 0) continue;
      const Mesh mesh(first_devices(n), {a, n / a}, {"x", "y"});
      for (const P& spec : {P("x", "y"), P("y", "x"), P(nullptr, "x"), P("x"), P(axes("x", "y")),
                            P(nullptr, axes("y", "x")), P()}) {
        for (int width : {20, 40, 80, 132}) {
          for (bool unicode : {false, true}) {
            PictureOptions o;
            o.width = width;
            o.unicode = unicode;
            o.color = width == 40;
            const auto lines = lines_of(sharding_picture(NamedSharding(mesh, spec), {n, n}, o));
            ASSERT_GE(lines.size(), 3u);
            ASSERT_LE(lines.size(), 67u);
            const int columns = columns_of(lines[0]);
            ASSERT_LE(columns, width) << n << " " << a << " " << spec.to_string() << "\n"
                                      << lines[1];
            for (const std::string& line : lines) ASSERT_EQ(columns_of(line), columns) << line;
          }
        }
      }
    }
  }
}

TEST(Visualize, ColoursOnlyOnRequest) {
  const NamedSharding s(mesh_4x2(), P("x", "y"));
  EXPECT_EQ(sharding_picture(s, {8, 8}).find('\x1b'), std::string::npos);
  PictureOptions o;
  o.color = true;
  const std::string colored = sharding_picture(s, {8, 8}, o);
  EXPECT_NE(colored.find("\x1b[48;5;"), std::string::npos);
  std::string plain;
  for (std::size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\x1b') {
      while (colored[i] != 'm') ++i;
    } else {
      plain += colored[i];
    }
  }
  EXPECT_EQ(plain, sharding_picture(s, {8, 8}));
  // Not a terminal.
  std::ostringstream out;
  visualize_sharding({8, 8}, s, out);
  EXPECT_EQ(out.str(), plain);
}

TEST(Visualize, RefusesWhatHasNoPicture) {
  const NamedSharding s(mesh_4x2(), P("x"));
  EXPECT_THROW(sharding_picture(s, {6, 2}), IndivisibleError);
  try {
    sharding_picture(s, {4, 4, 4});
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("visualize_test.cc:"), std::string::npos);
    EXPECT_NE(e.message().find("1 or 2 dimensions, not [4,4,4]"), std::string::npos);
  }
  EXPECT_THROW(sharding_picture(s, {}), ValueError);
  const std::string empty = sharding_picture(NamedSharding(mesh_4x2(), P(nullptr, "y")), {4, 0});
  EXPECT_NE(empty.find("CPU 0,1"), std::string::npos);
}

}  // namespace
}  // namespace tessera
