// SPDX-License-Identifier: Apache-2.0
// Full gathers in the report are those that the device program makes: an array is split before and
// after, and in between a device has all of it.
#include <gtest/gtest.h>

#include "src/spmd/partitioner/partition.h"
#include "src/spmd/propagation/propagate.h"
#include "src/spmd/reshard/planner.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

/// All ways to split two dims over two axes.
std::vector<TensorSharding> layouts(const MeshRef& mesh) {
  std::vector<TensorSharding> out;
  const std::vector<IndexList> lists = {{}, {0}, {1}, {0, 1}, {1, 0}};
  for (const auto& a : lists) {
    for (const auto& b : lists) {
      if (a.size() + b.size() > 2 || (a.size() == 1 && b.size() == 1 && a == b)) continue;
      TensorSharding s = TensorSharding::replicated_on(mesh, 2);
      s.dims[0].axes = a;
      s.dims[1].axes = b;
      out.push_back(std::move(s));
    }
  }
  return out;
}

bool splits(const TensorSharding& s) { return s.shards(0) * s.shards(1) > 1; }

class FullGather : public ::testing::TestWithParam<std::vector<std::int64_t>> {};

TEST_P(FullGather, IsReportedIfAndOnlyIfADeviceHoldsAll) {
  const Dims dims = GetParam();
  const MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  std::string shape = "f32[" + std::to_string(dims[0]) + "," + std::to_string(dims[1]) + "]";
  for (const TensorSharding& from : layouts(mesh)) {
    for (const TensorSharding& to : layouts(mesh)) {
      auto module = parse_entry("a = " + shape + " parameter(0)\n ROOT b = " + shape + " copy(a)");
      module->mesh = mesh;
      module->num_partitions = 8;
      ir::Instruction* root = module->entry()->root();
      module->entry()->parameter(0)->sharding = {from};
      root->sharding = {to};
      spmd::propagate(module.get());
      spmd::PartitionReport report;
      const auto device = spmd::partition(*module, {}, &report);
      bool holds_all = false, reported = false;
      for (const auto& i : device->entry()->instructions()) {
        // Values of the array have its rank, or are in pieces on the way; indices are scalars.
        if (i->shape.is_array() && i->shape.dtype == DType::f32) {
          holds_all |= i->shape.element_count() >= dims[0] * dims[1];
        }
      }
      for (const spmd::CommunicationRecord& r : report.records) reported |= r.full_gather;
      EXPECT_EQ(reported, holds_all && splits(from) && splits(to))
          << shape << " from " << from.to_spec_string() << " to " << to.to_spec_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FullGather,
                         ::testing::Values(Dims{16, 16}, Dims{8, 32}, Dims{40, 24}, Dims{17, 19}));

TEST(FullGatherInPieces, IsReportedForEachCollectiveOfTheGather) {
  // Two dims are gathered one after the other, and neither end is replicated.
  auto module = parse_entry(R"(
    a = f32[16,16] parameter(0), sharding={devices=[2,4]<=[8]}
    ROOT c = f32[16,16] custom-call(a), custom_call_target="mystery",
      metadata={source_file="model.cc" source_line=7}, sharding={devices=[2,4]<=[8]})");
  spmd::propagate(module.get());
  spmd::PartitionReport report;
  spmd::partition(*module, {}, &report);
  ASSERT_FALSE(report.records.empty());
  for (const spmd::CommunicationRecord& r : report.records) EXPECT_TRUE(r.full_gather) << r.kind;
}

// Each device needs the entire matrix, so it is gathered once; other uses are slices of it.
TEST(NeededWhole, AMatrixThatIsDecomposedIsGatheredOnce) {
  const PartitionCase c = check_partition(R"(
    x = f32[16,16] parameter(0), sharding={devices=[8,1]<=[8]}
    y = f32[16,16] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={1},
      sharding={devices=[1,8]<=[8]}
    n = f32[16,16] iota(), iota_dimension=0
    m = f32[16,16] iota(), iota_dimension=1
    e = pred[16,16] compare(n, m), direction=EQ
    one = f32[] constant(1)
    none = f32[] constant(0)
    ones = f32[16,16] broadcast(one), dimensions={}
    zeros = f32[16,16] broadcast(none), dimensions={}
    eye = f32[16,16] select(e, ones, zeros)
    s = f32[16,16] triangular-solve(x, eye), left_side=true, lower=true, unit_diagonal=true,
      transpose_a=NO_TRANSPOSE, sharding={devices=[1,8]<=[8]}
    ROOT r = f32[16,16] add(y, s), sharding={devices=[1,8]<=[8]})",
                                          1e-3);
  EXPECT_EQ(c.count(ir::Opcode::all_gather), 1) << c.text;
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.bytes(), 16 * 16 * 4 * 7 / 8.0) << c.text;
  EXPECT_FALSE(c.full_gather()) << c.text;
}

}  // namespace
}  // namespace tessera::testing
