// SPDX-License-Identifier: Apache-2.0
// Where plans hold values: on the device or with its host.
#include <gtest/gtest.h>

#include "src/evaluator/evaluator.h"
#include "tests/codegen/run_module.h"

namespace tessera::testing::plan_memory {
namespace {

using runtime::memory_stats;

const std::string kTo = R"(, custom_call_target="annotate_device_placement", frontend_attributes=)";
const std::string kToHost = kTo + R"({_xla_buffer_placement="pinned_host"})";
const std::string kToDevice = kTo + R"({_xla_buffer_placement="device"})";
const std::string kOnHost = R"(, frontend_attributes={mhlo.memory_kind="pinned_host"})";

struct Uses {
  std::int64_t device = 0, host = 0;
  friend bool operator==(const Uses&, const Uses&) = default;
};

/// A program of arrays of 1024 floats, run on one device.
struct Placed {
  codegen::BuiltPlan built;
  Uses planned, seen;
  std::vector<MemoryKind> results;

  explicit Placed(const std::string& text) {
    const auto module = ir::parse_hlo(text, "memory");
    std::vector<Literal> arguments;
    for (const ir::Instruction* p : module->entry()->parameters()) {
      arguments.push_back(make_literal(
          p->shape.dtype, p->shape.dims,
          std::vector<double>(std::size_t(p->shape.element_count()), 0.5 * double(p->index + 1))));
    }
    const Literal want = evaluator::evaluate(*module, arguments);
    built = plan_of(*module);
    const codegen::MemoryEstimate estimate = codegen::estimate_memory(built.plan, {});
    planned = {estimate.peak, estimate.host.peak};
    const std::int64_t device = memory_stats().current,
                       host = memory_stats(MemoryKind::pinned_host).current;
    std::vector<std::vector<DeviceBuffer>> buffers;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto kind = built.plan.slots[std::size_t(built.plan.parameters[i])].memory;
      const auto storage = runtime::Storage::allocate(arguments[i].byte_count(), kind);
      std::memcpy(storage->data(), arguments[i].bytes(), storage->bytes());
      buffers.push_back({DeviceBuffer{storage}});
    }
    runtime::reset_peak_memory();
    const auto out = runtime::run(built.plan, buffers, {}, nullptr);
    seen = {memory_stats().peak - device, memory_stats(MemoryKind::pinned_host).peak - host};
    std::vector<Literal> leaves;
    if (want.shape().is_tuple) {
      leaves = want.elements();
    } else {
      leaves.push_back(want);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      results.push_back(runtime::storage_of(out[i][0])->kind());
      const Literal got = from_buffer(out[i][0], leaves[i].shape());
      EXPECT_EQ(std::memcmp(got.bytes(), leaves[i].bytes(), got.byte_count()), 0) << i;
    }
    // Constants are there before the run.
    for (const auto& c : built.plan.constants) {
      planned.device -= built.plan.slots[std::size_t(c.slot)].bytes;
    }
  }
};

constexpr std::int64_t kArray = 4096;
constexpr MemoryKind kDevice = MemoryKind::device, kPinned = MemoryKind::pinned_host;

TEST(PlanMemory, WhatWaitsTakesNoDeviceMemory) {
  const Placed r(R"(HloModule m
less { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT l = pred[] compare(p, q), direction=LT }
ENTRY e {
  x = f32[1024] parameter(0)
  a = f32[1024] sort(x), dimensions={0}, to_apply=less
  w = f32[1024] custom-call(a))" +
                 kToHost + R"(
  b = f32[1024] reverse(a), dimensions={0}
  c = f32[1024] sort(b), dimensions={0}, to_apply=less
  v = f32[1024] custom-call(w))" +
                 kToDevice + R"(
  ROOT r = f32[1024] add(c, v)
}
)");
  EXPECT_EQ(r.seen, r.planned);
  EXPECT_EQ(r.seen, (Uses{3 * kArray, kArray}));
  EXPECT_EQ(r.results, std::vector{kDevice});
}

TEST(PlanMemory, ResultsAreWhereTheirOperandsAre) {
  const Placed r(R"(HloModule m
ENTRY e {
  x = f32[1024] parameter(0))" +
                 kOnHost + R"(
  y = f32[1024] parameter(1)
  two = f32[] constant(2)
  twos = f32[1024] broadcast(two), dimensions={}
  a = f32[1024] multiply(twos, x)
  b = f32[1024] multiply(twos, y)
  ROOT r = (f32[1024], f32[1024]) tuple(a, b)
})");
  EXPECT_EQ(r.seen, r.planned);
  EXPECT_EQ(r.seen, (Uses{2 * kArray, 2 * kArray}));
  EXPECT_EQ(r.results, (std::vector{kPinned, kDevice}));
}

TEST(PlanMemory, TransfersThatChangeNothingAreNoSteps) {
  const Placed r(R"(HloModule m
ENTRY e {
  x = f32[1024] parameter(0))" +
                 kOnHost + R"(
  y = f32[1024] parameter(1)
  a = f32[1024] custom-call(x))" +
                 kToHost + R"(
  b = f32[1024] custom-call(y))" +
                 kToDevice + R"(
  c = f32[1024] custom-call(b))" +
                 kToDevice + R"(
  ROOT r = (f32[1024], f32[1024]) tuple(a, c)
})");
  EXPECT_TRUE(r.built.plan.entry.steps.empty()) << runtime::to_string(r.built.plan);
  EXPECT_EQ(r.results, (std::vector{kPinned, kDevice}));
}

TEST(PlanMemory, ConstantsAreMadeWhereTheyArePlaced) {
  const Placed r(R"(HloModule m
ENTRY e {
  zero = f32[] constant(0)
  zeros = f32[1024] broadcast(zero), dimensions={}
  ROOT r = f32[1024] custom-call(zeros))" +
                 kToHost + R"(
})");
  EXPECT_EQ(r.seen, r.planned);
  EXPECT_EQ(r.seen, (Uses{0, kArray}));
  EXPECT_EQ(r.results, std::vector{kPinned});
}

TEST(PlanMemory, ALoopStacksRowsOnTheHost) {
  const Placed r(R"(HloModule m
body {
  t = (s32[], f32[1024], f32[8,1024]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[1024] get-tuple-element(t), index=1
  all = f32[8,1024] get-tuple-element(t), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  y = f32[1024] add(x, x)
  w = f32[1024] custom-call(y))" +
                 kToHost + R"(
  row = f32[1,1024] reshape(w)
  more = f32[8,1024] dynamic-update-slice(all, row, i, zero)
  ROOT r = (s32[], f32[1024], f32[8,1024]) tuple(next, y, more)
}
condition {
  t = (s32[], f32[1024], f32[8,1024]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(8)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[1024] parameter(0)
  i = s32[] constant(0)
  zero = f32[] constant(0)
  zeros = f32[8,1024] broadcast(zero), dimensions={}
  t = (s32[], f32[1024], f32[8,1024]) tuple(i, x, zeros)
  w = (s32[], f32[1024], f32[8,1024]) while(t), condition=condition, body=body
  ROOT all = f32[8,1024] get-tuple-element(w), index=2
})");
  EXPECT_LE(r.seen.device, r.planned.device);
  EXPECT_LE(r.seen.device, 3 * kArray);
  EXPECT_EQ(r.seen.host, 9 * kArray);
  EXPECT_EQ(r.planned.host, 9 * kArray);
  EXPECT_EQ(r.results, std::vector{kPinned});
}

TEST(PlanMemory, BranchesPassHostValuesOn) {
  const Placed r(R"(HloModule m
one { x = f32[1024] parameter(0)
  ROOT r = f32[1024] negate(x) }
two { x = f32[1024] parameter(0)
  ROOT r = f32[1024] abs(x) }
ENTRY e {
  p = pred[] parameter(0)
  x = f32[1024] parameter(1))" +
                 kOnHost + R"(
  ROOT r = f32[1024] conditional(p, x, x), true_computation=one, false_computation=two
})");
  EXPECT_EQ(r.seen, r.planned);
  EXPECT_EQ(r.seen.host, 2 * kArray);
  EXPECT_EQ(r.results, std::vector{kPinned});
}

}  // namespace
}  // namespace tessera::testing::plan_memory
