// SPDX-License-Identifier: Apache-2.0
// Errors: their messages, locations and families.
#include <tessera/error.h>

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <type_traits>
#include <typeinfo>

#include "src/base/at_location.h"
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

TEST(AtLocation, AddsTheLocationToErrorsWithoutOne) {
  const Location here = Location::current();
  try {
    at_location(here, []() -> int { throw ShapeError("no place"); });
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_EQ(typeid(e).name(), typeid(ShapeError).name());
    EXPECT_EQ(e.what(), here.to_string() + ": no place");
  }
  const Location own = make_location("own.cc", 7);
  try {
    at_location(here, [&] { throw ShapeError("placed", own); });
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(), "own.cc:7: placed");
  }
  EXPECT_EQ(at_location(here, [] { return 3; }), 3);
}

TEST(AtLocation, TooLittleMemoryIsARuntimeError) {
  const Location here = Location::current();
  for (int kind = 0; kind < 2; ++kind) {
    try {
      at_location(here, [&] {
        if (kind == 0) throw std::bad_alloc();
        throw std::length_error("vector");
      });
      FAIL();
    } catch (const RuntimeError& e) {
      EXPECT_EQ(std::string(e.what()).rfind(here.to_string() + ": out of memory", 0), 0u);
    }
  }
}

TEST(AtLocation, ExceptionsOfUsersPassUnchanged) {
  struct Mine : ValueError {
    using ValueError::ValueError;
  };
  EXPECT_THROW(at_location(Location::current(), [] { throw Mine("mine"); }), Mine);
  EXPECT_THROW(at_location(Location::current(), [] { throw 42; }), int);
  EXPECT_THROW(at_location(Location::current(), [] { throw std::domain_error("d"); }),
               std::domain_error);
}

}  // namespace
}  // namespace tessera
