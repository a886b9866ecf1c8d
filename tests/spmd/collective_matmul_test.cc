// SPDX-License-Identifier: Apache-2.0
// Collective matmuls: the same numbers and bytes, and no device holds the entire array.
#include <gtest/gtest.h>

#include "src/ir/module.h"
#include "src/spmd/collectives/optimize.h"
#include "tests/spmd/collective_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

std::size_t always(ir::Module* m) { return spmd::expand_collective_matmuls(m, 0); }

constexpr const char* kAll =
    "replica_groups={{0,1,2,3,4,5,6,7}}, channel_id=1, "
    "use_global_device_ids=true";
constexpr const char* kPairs =
    "replica_groups={{0,1},{2,3},{4,5},{6,7}}, channel_id=1, "
    "use_global_device_ids=true";
constexpr const char* kApart =
    "replica_groups={{0,4},{1,5},{2,6},{3,7}}, channel_id=1, "
    "use_global_device_ids=true";
constexpr const char* kMixed =
    "replica_groups={{5,0,3,6},{2,7,4,1}}, channel_id=1, "
    "use_global_device_ids=true";

const ir::Instruction* find(const ir::Module& m, Opcode op) {
  for (const auto& c : m.computations()) {
    for (const auto& i : c->instructions()) {
      if (i->is(op)) return i.get();
    }
  }
  return nullptr;
}

/// No array of that many elements or more is left.
void expect_smaller_than(const CollectiveCase& c, std::int64_t elements) {
  for (const auto& computation : c.after->computations()) {
    for (const auto& i : computation->instructions()) {
      const std::int64_t own = i->shape.is_array() ? i->shape.element_count() : 0;
      EXPECT_LT(own, elements) << c.text;
    }
  }
}

struct Windows {
  const char* what;
  std::int64_t members;
  std::int64_t whole;  ///< elements of what is gathered or scattered
  std::string text;
};

class WindowedDot : public ::testing::TestWithParam<Windows> {};

TEST_P(WindowedDot, GoesRound) {
  const Windows& p = GetParam();
  const CollectiveCase c = check_collectives(p.text, always);
  EXPECT_EQ(c.count(Opcode::all_gather) + c.count(Opcode::reduce_scatter), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
  EXPECT_EQ(c.was.total_bytes, c.is.total_bytes) << c.text;
  expect_smaller_than(c, p.whole);
  const ir::Instruction* loop = find(*c.after, Opcode::while_);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->get<ir::WhileAttrs>().known_trip_count, p.members - 1);
}

INSTANTIATE_TEST_SUITE_P(
    Gathered, WindowedDot,
    ::testing::Values(Windows{"left rows", 8, 512,
                              std::string(R"(ENTRY e { x = f32[4,16] parameter(0)
  w = f32[16,8] parameter(1)
  g = f32[32,16] all-gather(x), dimensions={0}, )") +
                                  kAll + R"(
  ROOT y = f32[32,8] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} })"},
                      Windows{"right columns behind a batch dim, in an order of their own", 4, 1536,
                              std::string(R"(ENTRY e { x = f32[3,5,16] parameter(0)
  w = f32[3,16,8] parameter(1)
  g = f32[3,16,32] all-gather(w), dimensions={2}, )") +
                                  kMixed + R"(
  ROOT y = f32[3,5,32] dot(x, g), lhs_contracting_dims={2}, rhs_contracting_dims={1},
    lhs_batch_dims={0}, rhs_batch_dims={0} })"},
                      Windows{"contracted", 2, 96,
                              std::string(R"(ENTRY e { x = f32[6,8] parameter(0)
  w = f32[16,5] parameter(1)
  y = f32[8,6] transpose(x), dimensions={1,0}
  g = f32[16,6] all-gather(y), dimensions={0}, )") +
                                  kApart + R"(
  ROOT z = f32[6,5] dot(g, w), lhs_contracting_dims={0}, rhs_contracting_dims={0} })"},
                      Windows{"a batch dim", 2, 384,
                              std::string(R"(ENTRY e { x = s32[4,6,8] parameter(0)
  w = s32[8,8,5] parameter(1)
  g = s32[8,6,8] all-gather(x), dimensions={0}, )") +
                                  kPairs + R"(
  ROOT y = s32[8,6,5] dot(g, w), lhs_contracting_dims={2}, rhs_contracting_dims={1},
    lhs_batch_dims={0}, rhs_batch_dims={0} })"}));

INSTANTIATE_TEST_SUITE_P(
    Scattered, WindowedDot,
    ::testing::Values(Windows{"left rows", 8, 1024,
                              std::string(R"(ENTRY e { x = f32[64,4] parameter(0)
  w = f32[4,16] parameter(1)
  y = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[8,16] reduce-scatter(y), dimensions={0}, to_apply=add, )") +
                                  kAll + " }"},
                      Windows{"right columns", 4, 512,
                              std::string(R"(ENTRY e { x = f32[4,16] parameter(0)
  w = f32[4,32] parameter(1)
  y = f32[16,32] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT z = f32[16,8] reduce-scatter(y), dimensions={1}, to_apply=add, )") +
                                  kMixed + " }"},
                      Windows{"a batch dim", 2, 360,
                              std::string(R"(ENTRY e { x = s32[6,6,4] parameter(0)
  w = s32[4,6,10] parameter(1)
  y = s32[6,6,10] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0},
    lhs_batch_dims={0}, rhs_batch_dims={1}
  ROOT z = s32[3,6,10] reduce-scatter(y), dimensions={0}, to_apply=addi, )") +
                                  kPairs + " }"}));

TEST(Windowed, LeavesWhatGainsNothing) {
  const auto unchanged = [](const std::string& text, std::int64_t from_bytes) {
    const CollectiveCase c = check_collectives(
        text, [&](ir::Module* m) { return spmd::expand_collective_matmuls(m, from_bytes); });
    EXPECT_EQ(c.changed, 0u) << c.text;
    EXPECT_EQ(c.count(Opcode::while_), 0) << c.text;
  };
  const std::string head = R"(ENTRY e { x = f32[4,16] parameter(0)
  w = f32[16,8] parameter(1)
  g = f32[32,16] all-gather(x), dimensions={0}, )";
  const std::string dot =
      "\n y = f32[32,8] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  // Smaller than the configured size: the gathered array has 2,048 bytes.
  unchanged(head + kAll + dot + "\n ROOT r = f32[32,8] negate(y) }", 2049);
  // The entire array is needed anyway.
  unchanged(head + kAll + dot +
                "\n n = f32[32,16] negate(g)\n ROOT r = (f32[32,8], f32[32,16]) tuple(y, n) }",
            0);
  // Parts in 16 bits would be rounded once a part, one dot once.
  unchanged(std::string(R"(ENTRY e { x = bf16[4,16] parameter(0)
  w = bf16[32,8] parameter(1)
  g = bf16[32,16] all-gather(x), dimensions={0}, )") +
                kAll +
                "\n ROOT y = bf16[16,8] dot(g, w), lhs_contracting_dims={0}, "
                "rhs_contracting_dims={0} }",
            0);
  // A maximum is no sum.
  unchanged(std::string(R"(ENTRY e { x = f32[64,4] parameter(0)
  w = f32[4,16] parameter(1)
  y = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[8,16] reduce-scatter(y), dimensions={0}, to_apply=max, )") +
                kAll + " }",
            0);
}

TEST(Windowed, OfHalfNumbersSumsInTheTypeOfTheResult) {
  const CollectiveCase c = check_collectives(std::string(R"(ENTRY e { x = bf16[4,16] parameter(0)
  w = bf16[32,8] parameter(1)
  g = bf16[32,16] all-gather(x), dimensions={0}, )") +
                                                 kAll +
                                                 "\n ROOT y = f32[16,8] dot(g, w), "
                                                 "lhs_contracting_dims={0}, "
                                                 "rhs_contracting_dims={0} }",
                                             always);
  EXPECT_EQ(c.changed, 1u) << c.text;
  EXPECT_EQ(find(*c.after, Opcode::dot)->shape.dtype, DType::f32);
}

}  // namespace
}  // namespace tessera::testing
