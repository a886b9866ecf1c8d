// SPDX-License-Identifier: Apache-2.0
// Combining collectives, moving them out of loops, and scheduling them early.
#include <gtest/gtest.h>

#include <map>
#include <unordered_map>

#include "src/cost/peak_memory.h"
#include "tests/spmd/collective_case.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

const std::string kRows = "replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true";
const std::string kColumns = "replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true";
const std::string kSum = ", to_apply=add";

std::string channel(int n) { return "channel_id=" + std::to_string(n) + ", "; }

std::size_t combine(ir::Module* m) { return spmd::combine_collectives(m); }

const std::string kTwo = "ENTRY e {\n x = f32[4,8] parameter(0)\n y = f32[8] parameter(1)\n";

TEST(Combine, ReductionsOfTheSameGroups) {
  auto c = check_collectives(kTwo + "a = f32[4,8] all-reduce(x), " + channel(1) + kRows + kSum +
                                 "\n n = f32[4,8] negate(a)\n"
                                 "b = f32[8] all-reduce(y), " +
                                 channel(2) + kRows + kSum +
                                 "\n ROOT r = (f32[4,8], f32[8]) tuple(n, b)\n}\n",
                             combine);
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_NE(c.text.find("= (f32[4,8]{1,0}, f32[8]{0}) all-reduce("), std::string::npos) << c.text;
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
  EXPECT_EQ(c.is.executed, 1);
}

TEST(Combine, OtherGroupsReducersAndTypesStay) {
  for (const std::string& second :
       {"b = f32[8] all-reduce(y), " + channel(2) + kColumns + kSum,
        "b = f32[8] all-reduce(y), " + channel(2) + kRows + ", to_apply=max",
        "i = s32[8] convert(y)\nj = s32[8] all-reduce(i), " + channel(2) + kRows +
            ", to_apply=addi\n b = f32[8] convert(j)"}) {
    const auto c =
        check_collectives(kTwo + "a = f32[4,8] all-reduce(x), " + channel(1) + kRows + kSum + "\n" +
                              second + "\n ROOT r = (f32[4,8], f32[8]) tuple(a, b)\n}\n",
                          combine);
    EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
  }
}

TEST(Combine, BytesAreBounded) {
  const std::string text = kTwo + "a = f32[4,8] all-reduce(x), " + channel(1) + kRows + kSum +
                           "\nb = f32[8] all-reduce(y), " + channel(2) + kRows + kSum +
                           "\n ROOT r = (f32[4,8], f32[8]) tuple(a, b)\n}\n";
  for (const int most : {159, 160}) {
    const auto c = check_collectives(text, [&](ir::Module* m) {
      spmd::CombineOptions options;
      options.max_bytes = most;
      return spmd::combine_collectives(m, options);
    });
    EXPECT_EQ(c.count(Opcode::all_reduce), most == 160 ? 1 : 2) << c.text;
  }
}

// Leading dims of one element are in no way of laying the parts one behind the other.
TEST(Combine, GathersAlongTheFirstDimThatIsMoreThanOne) {
  const auto c =
      check_collectives(kTwo + " r = f32[1,8] reshape(y)\n n = f32[1,8] negate(r)\n" +
                            " a = f32[1,32] all-gather(r), dimensions={1}, " + channel(1) + kRows +
                            "\n b = f32[1,32] all-gather(n), dimensions={1}, " + channel(2) +
                            kRows + "\n ROOT t = (f32[1,32], f32[1,32]) tuple(a, b)\n}\n",
                        combine);
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
}

TEST(Combine, GathersOfSeveralTypes) {
  auto c = check_collectives(kTwo +
                                 " i = s32[8] convert(y)\n"
                                 "a = f32[16,8] all-gather(x), dimensions={0}, " +
                                 channel(1) + kRows +
                                 "\nb = s32[32] all-gather(i), dimensions={0}, " + channel(2) +
                                 kRows + "\n ROOT r = (f32[16,8], s32[32]) tuple(a, b)\n}\n",
                             combine);
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
  // Flat, so that backends can't choose another layout of their dims.
  for (const auto& computation : c.after->computations()) {
    for (const auto& i : computation->instructions()) {
      if (!i->is(Opcode::all_gather)) continue;
      for (const ir::Instruction* o : i->operands()) EXPECT_EQ(o->shape.rank(), 1) << c.text;
    }
  }
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
  c = check_collectives(kTwo + "a = f32[4,32] all-gather(x), dimensions={1}, " + channel(1) +
                            kRows + "\nb = f32[32] all-gather(y), dimensions={0}, " + channel(2) +
                            kRows + "\n ROOT r = (f32[4,32], f32[32]) tuple(a, b)\n}\n",
                        combine);
  EXPECT_EQ(c.count(Opcode::all_gather), 2) << c.text;
}

TEST(Combine, SideBySideInOneArray) {
  auto c = check_collectives(kTwo + "a = f32[4,2] reduce-scatter(x), dimensions={1}, " +
                                 channel(1) + kRows + kSum +
                                 "\nb = f32[2] reduce-scatter(y), dimensions={0}, " + channel(2) +
                                 kRows + kSum + "\n ROOT r = (f32[4,2], f32[2]) tuple(a, b)\n}\n",
                             combine);
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
  const std::string groups = "replica_groups={{0,1,2,3},{4,5,6,7}}";
  c = check_collectives(kTwo + "a = f32[4,8] all-to-all(x), dimensions={1}, " + channel(1) +
                            groups + "\nb = f32[8] all-to-all(y), dimensions={0}, " + channel(2) +
                            groups + "\nd = f32[4,8] all-to-all(x), dimensions={0}, " + channel(3) +
                            groups + "\n ROOT r = (f32[4,8], f32[8], f32[4,8]) tuple(a, b, d)\n}\n",
                        combine);
  EXPECT_EQ(c.count(Opcode::all_to_all), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
  const std::string pairs = "source_target_pairs={{0,1},{1,2},{5,0}}";
  c = check_collectives(kTwo + "a = f32[4,8] collective-permute(x), " + channel(1) + pairs +
                            "\nb = f32[8] collective-permute(y), " + channel(2) + pairs +
                            "\n ROOT r = (f32[4,8], f32[8]) tuple(a, b)\n}\n",
                        combine);
  EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
}

TEST(Combine, CheapOpsAreDelayedToCombineThem) {
  const std::string head = kTwo + "a = f32[8] all-reduce(y), " + channel(1) + kRows + kSum;
  const std::string tail = "\nb = f32[8] all-reduce(m), " + channel(2) + kRows + kSum +
                           "\n s = f32[8] add(n, b)\n ROOT r = (f32[8], f32[8]) tuple(s, n)\n}\n";
  auto c = check_collectives(head + "\n n = f32[8] negate(a)\n m = f32[8] multiply(y, y)" + tail,
                             combine);
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
  // What would have to wait is needed first; a loop that reads the result doesn't wait.
  c = check_collectives(head + "\n n = f32[8] negate(a)\n m = f32[8] multiply(y, n)" + tail,
                        combine);
  EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
  c = check_collectives(
      "id {\n v = (f32[8]) parameter(0)\n ROOT r = (f32[8]) copy(v)\n}\n" + head +
          "\n v = (f32[8]) tuple(a)\n w = (f32[8]) call(v), to_apply=id\n"
          " n = f32[8] get-tuple-element(w), index=0\n m = f32[8] multiply(y, y)" +
          tail,
      combine);
  EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
}

const std::string kMoments =
    "x = f32[64,32] parameter(0), sharding={devices=[2,4]<=[8]}\n"
    " z = f32[] constant(0)\n n = f32[] constant(0.00048828125)\n"
    " s = f32[] reduce(x, z), dimensions={0,1}, to_apply=add\n m = f32[] multiply(s, n)\n";

TEST(Collectives, MeanAndVarianceOverTwoAxesAreTwoReductions) {
  const PartitionCase p = check_partition(
      kMoments +
          " b = f32[64,32] broadcast(m), dimensions={}\n d = f32[64,32] subtract(x, b)\n"
          " q = f32[64,32] multiply(d, d)\n"
          " t = f32[] reduce(q, z), dimensions={0,1}, to_apply=add\n v = f32[] multiply(t, n)\n"
          " ROOT r = (f32[], f32[]) tuple(m, v), sharding={{replicated}, {replicated}}",
      1e-5);
  const auto c = check_optimized(p.text, 1e-5);
  EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
}

TEST(Collectives, MomentsThatDontNeedEachOtherAreOne) {
  const PartitionCase p = check_partition(
      kMoments +
          " q = f32[64,32] multiply(x, x)\n"
          " t = f32[] reduce(q, z), dimensions={0,1}, to_apply=add\n"
          " w = f32[] multiply(t, n)\n e = f32[] multiply(m, m)\n"
          " v = f32[] subtract(w, e)\n"
          " ROOT r = (f32[], f32[]) tuple(m, v), sharding={{replicated}, {replicated}}",
      1e-5);
  const auto c = check_optimized(p.text, 1e-5);
  EXPECT_EQ(c.collectives(), 1) << c.text;
}

TEST(Combine, GathersAlongInnerDimsStay) {
  const auto c = check_collectives(
      "ENTRY e {\n x = f32[4,8] parameter(0)\n y = f32[2,8] parameter(1)\n"
      "a = f32[4,32] all-gather(x), dimensions={1}, " +
          channel(1) + kRows + "\nb = f32[2,32] all-gather(y), dimensions={1}, " + channel(2) +
          kRows + "\n ROOT r = (f32[4,32], f32[2,32]) tuple(a, b)\n}\n",
      combine);
  EXPECT_EQ(c.count(Opcode::all_gather), 2) << c.text;
}

// ----- loops

std::string loop(const std::string& body, const std::string& carried, const std::string& trips) {
  return "body {\n t = " + carried + " parameter(0)\n" + body + "\n}\ncond {\n t = " + carried +
         " parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(3)\n"
         " ROOT r = pred[] compare(i, n), direction=LT\n}\n"
         "ENTRY e {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
         " z = s32[] constant(0)\n f = f32[] constant(0)\n"
         " zeros = f32[8] broadcast(f), dimensions={}\n" +
         trips;
}
const std::string kKnown = ", backend_config={\"known_trip_count\":{\"n\":\"3\"}}";

TEST(Loops, CollectivesOfInvariantsAreHoisted) {
  const std::string carried = "(s32[], f32[8], f32[8])";
  const auto c = check_collectives(
      loop(" i = s32[] get-tuple-element(t), index=0\n one = s32[] constant(1)\n"
           " j = s32[] add(i, one)\n v = f32[8] get-tuple-element(t), index=1\n"
           " w = f32[8] get-tuple-element(t), index=2\n m = f32[8] multiply(w, w)\n"
           "a = f32[8] all-reduce(m), " +
               channel(1) + kRows + kSum + "\n s = f32[8] add(v, a)\n ROOT r = " + carried +
               " tuple(j, s, w)",
           carried,
           " init = " + carried + " tuple(z, x, y)\n l = " + carried +
               " while(init), condition=cond, body=body" + kKnown +
               "\n ROOT r = f32[8] get-tuple-element(l), index=1\n}\n"),
      spmd::move_collectives_out_of_loops);
  EXPECT_EQ(c.was.executed, 3);
  EXPECT_EQ(c.is.executed, 1) << c.text;
  EXPECT_EQ(c.is.unknown_trip_counts, 0);
  EXPECT_NE(c.text.find("known_trip_count"), std::string::npos) << c.text;
  // Programs that are only measured are measured like that.
  std::unique_ptr<ir::Module> measured = c.before->clone();
  spmd::reduce_collectives(&measured);
  EXPECT_EQ(cost::count_communication(*measured).executed, 1);
}

TEST(Loops, HoistedCollectivesAreMergedWithEqualOnes) {
  const std::string carried = "(s32[], f32[8], f32[8])", product = " m = f32[8] multiply(w, w)\n",
                    sum = "a = f32[8] all-reduce(m), ";
  const std::string text = loop(
      " i = s32[] get-tuple-element(t), index=0\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n v = f32[8] get-tuple-element(t), index=1\n"
      " w = f32[8] get-tuple-element(t), index=2\n" +
          product + sum + channel(1) + kRows + kSum +
          "\n s = f32[8] add(v, a)\n ROOT r = " + carried + " tuple(j, s, w)",
      carried,
      " w = f32[8] copy(y)\n" + product + sum + channel(2) + kRows + kSum +
          "\n b = f32[8] add(x, a)\n init = " + carried + " tuple(z, b, w)\n l = " + carried +
          " while(init), condition=cond, body=body" + kKnown +
          "\n ROOT r = f32[8] get-tuple-element(l), index=1\n}\n");
  auto c = check_optimized(text);
  EXPECT_EQ(c.was.executed, 4);
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes / 2) << c.text;
  spmd::CollectiveOptions options;
  options.merge_equal = [](ir::Module* m) {
    std::map<std::vector<ir::Instruction*>, ir::Instruction*> seen;
    std::unordered_map<ir::Instruction*, ir::Instruction*> same;
    for (const auto& i : m->entry()->instructions()) {
      if (!i->is(Opcode::multiply)) continue;
      const auto [first, fresh] = seen.try_emplace(i->operands(), i.get());
      if (!fresh) same[i.get()] = first->second;
    }
    m->entry()->replace_all_uses(same);
    m->entry()->remove_dead();
    return same.size();
  };
  c = check_optimized(text, 0, options);
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes / 4) << c.text;
  EXPECT_EQ(c.count(Opcode::multiply), 1) << c.text;
  // What raises the peak is taken back, or, where no copy is kept, said to be.
  double peak = 0;
  options.peak = [&](const ir::Module&) { return peak += 100; };
  c = check_optimized(text, 0, options);
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes) << c.text;
  options.keep_no_copies = true;
  EXPECT_THROW(check_optimized(text, 0, options), spmd::StepTakenBack);
}

TEST(Loops, CollectivesOfChangingValuesStay) {
  const std::string carried = "(s32[], f32[8], f32[8])";
  const auto c = check_collectives(
      loop(" i = s32[] get-tuple-element(t), index=0\n one = s32[] constant(1)\n"
           " j = s32[] add(i, one)\n v = f32[8] get-tuple-element(t), index=1\n"
           " w = f32[8] get-tuple-element(t), index=2\n u = f32[8] negate(w)\n"
           "a = f32[8] all-reduce(w), " +
               channel(1) + kRows + kSum + "\n s = f32[8] maximum(v, a)\n ROOT r = " + carried +
               " tuple(j, s, u)",
           carried,
           " init = " + carried + " tuple(z, x, y)\n ROOT l = " + carried +
               " while(init), condition=cond, body=body" + kKnown + "\n}\n"),
      spmd::move_collectives_out_of_loops);
  EXPECT_EQ(c.is.executed, 3) << c.text;
}

TEST(Loops, AccumulatedReductionsMoveBehindTheLoop) {
  const std::string carried = "(s32[], f32[8], f32[8])";
  const std::string head =
      " i = s32[] get-tuple-element(t), index=0\n one = s32[] constant(1)\n"
      " j = s32[] add(i, one)\n v = f32[8] get-tuple-element(t), index=1\n"
      " w = f32[8] get-tuple-element(t), index=2\n u = f32[8] add(w, w)\n"
      "a = f32[8] all-reduce(u), " +
      channel(1) + kRows + kSum + "\n s = f32[8] add(a, v)\n";
  for (const char* start : {"x", "zeros"}) {
    const auto c = check_collectives(
        loop(head + " ROOT r = " + carried + " tuple(j, s, u)", carried,
             std::string(" init = ") + carried + " tuple(z, " + start + ", y)\n ROOT l = " +
                 carried + " while(init), condition=cond, body=body" + kKnown + "\n}\n"),
        spmd::move_collectives_out_of_loops);
    EXPECT_EQ(c.was.executed, 3);
    EXPECT_EQ(c.is.executed, 1) << c.text;
    EXPECT_NE(c.text.find("known_trip_count"), std::string::npos) << c.text;
  }
  // The loop itself reads what was added up.
  const auto c = check_collectives(
      loop(head + " q = f32[8] multiply(u, v)\n ROOT r = " + carried + " tuple(j, s, q)", carried,
           " init = " + carried + " tuple(z, x, y)\n ROOT l = " + carried +
               " while(init), condition=cond, body=body" + kKnown + "\n}\n"),
      spmd::move_collectives_out_of_loops);
  EXPECT_EQ(c.is.executed, 3) << c.text;
}

// ----- order

int place_of(const std::string& text, const std::string& name) {
  return int(text.rfind("\n  " + name + " = "));
}

TEST(Order, AsEarlyAsTheirOperandsAllow) {
  const auto c = check_collectives(
      "ENTRY e {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
      " n = f32[8] negate(y)\n m = f32[8] multiply(x, x)\n k = f32[8] add(m, x)\n"
      "a = f32[8] all-reduce(n), " +
          channel(1) + kRows + kSum +
          "\n s = f32[8] add(k, a)\n ROOT r = f32[8] multiply(s, m)\n}\n",
      spmd::schedule_collectives_early);
  EXPECT_EQ(c.changed, 1u);
  EXPECT_LT(place_of(c.text, "a"), place_of(c.text, "m")) << c.text;
  EXPECT_GT(place_of(c.text, "s"), place_of(c.text, "k")) << c.text;
}

// An operand that goes far ahead by itself isn't the last of two any more.
TEST(Order, NotBeforeOperandsThatStay) {
  const auto c = check_collectives(
      "ENTRY e {\n x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n k = f32[8] negate(x)\n"
      " m = f32[8] multiply(x, k)\n a = f32[8] all-reduce(y), " +
          channel(1) + kRows + kSum + "\n n = f32[8] multiply(m, m)\n" +
          " b = (f32[8], f32[8]) all-reduce(k, a), " + channel(2) + kRows + kSum +
          "\n o = f32[] constant(2)\n p = f32[64] broadcast(o), dimensions={}\n"
          " q = f32[8] slice(p), slice={[0:8]}\n c = f32[8] get-tuple-element(b), index=0\n"
          " d = f32[8] get-tuple-element(b), index=1\n s = f32[8] add(c, d)\n"
          " u = f32[8] add(s, n)\n ROOT r = f32[8] add(u, q)\n}\n",
      spmd::schedule_collectives_early);
  EXPECT_GT(place_of(c.text, "b"), place_of(c.text, "k")) << c.text;
  EXPECT_GT(place_of(c.text, "b"), place_of(c.text, "a")) << c.text;
}

TEST(Order, NotIfPeakMemoryWouldGrow) {
  const std::string text =
      "ENTRY e {\n x = f32[8] parameter(0)\n y = f32[2] parameter(1)\n"
      " o = f32[] constant(2)\n k = f32[64] broadcast(o), dimensions={}\n"
      " p = f32[64] pad(x, o), padding=0_56\n q = f32[64] multiply(p, k)\n"
      " w = f32[8] slice(q), slice={[0:8]}\n"
      "a = f32[8] all-gather(y), dimensions={0}, " +
      channel(1) + kRows + "\n ROOT r = f32[8] add(w, a)\n}\n";
  const auto c = check_collectives(text, spmd::schedule_collectives_early);
  EXPECT_LE(cost::estimated_peak_bytes(*c.after), cost::estimated_peak_bytes(*c.before)) << c.text;
  EXPECT_GT(place_of(c.text, "a"), place_of(c.text, "q")) << c.text;
}

}  // namespace
}  // namespace tessera::testing
