// SPDX-License-Identifier: Apache-2.0
// Our declarations of the PJRT C API have the layout that clients and plugins share.
#include <gtest/gtest.h>

#include <cstddef>

#include "src/pjrt/abi/api.h"
#include "src/pjrt/abi/extensions.h"

namespace {

TEST(PjrtLayout, IsThatOfTheApi) {
#define SIZE(type, bytes) EXPECT_EQ(sizeof(type), std::size_t{bytes}) << #type;
#define OFFSET(type, member, bytes) \
  EXPECT_EQ(offsetof(type, member), std::size_t{bytes}) << #type "::" #member;
#include "tests/pjrt/layout.inc"
#undef SIZE
#undef OFFSET
}

}  // namespace
