// SPDX-License-Identifier: Apache-2.0
#include <tessera/error.h>

#include <gtest/gtest.h>

#include <type_traits>

#include "src/base/check.h"

namespace tessera {
namespace {

TEST(Error, MessageBeginsWithTheUsersLine) {
  const Location here = Location::current();
  const unsigned line = __LINE__ - 1;
  const ValueError e("too big", here);
  EXPECT_EQ(e.what(), std::string(__FILE__) + ":" + std::to_string(line) + ": too big");
  EXPECT_EQ(e.message(), "too big");
  EXPECT_EQ(e.location().line, line);
}

TEST(Error, WithoutALocation) {
  const Error e("too big");
  EXPECT_STREQ(e.what(), "too big");
  EXPECT_FALSE(e.location().known());
  EXPECT_EQ(Location{}.to_string(), "");
}

TEST(Error, MadeLocationsOutliveTheirText) {
  Location a, b;
  {
    std::string name = "model";
    name += ".cc";
    a = make_location(name, 7);
    b = make_location(name + "", 9);
    name = "xxxxxxxx";
  }
  EXPECT_EQ(a.to_string(), "model.cc:7");
  EXPECT_EQ(a.file, b.file);
}

TEST(Error, Families) {
  static_assert(std::is_base_of_v<ValueError, IndivisibleError>);
  static_assert(std::is_base_of_v<ShardingError, DuplicateSpecError>);
  static_assert(std::is_base_of_v<ValueError, ShapeError>);
  static_assert(std::is_base_of_v<TypeError, DTypeError>);
  static_assert(std::is_base_of_v<std::runtime_error, InternalError>);
  EXPECT_THROW(throw IndivisibleError("x"), ShardingError);
}

TEST(Check, BuildsTheDetailOnlyOnFailure) {
  int built = 0;
  auto detail = [&] {
    ++built;
    return std::string("n is 3");
  };
  TESSERA_CHECK(true, detail());
  EXPECT_EQ(built, 0);
  try {
    TESSERA_CHECK(1 + 1 == 3, detail());
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_EQ(e.message(), "internal error in Tessera: 1 + 1 == 3 does not hold: n is 3");
    EXPECT_STREQ(e.location().file, __FILE__);
  }
  EXPECT_EQ(built, 1);
}

}  // namespace
}  // namespace tessera
