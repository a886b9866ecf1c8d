// SPDX-License-Identifier: Apache-2.0
// Recording of events by several threads, and what profiles make of them.
#include <tessera/profile.h>

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "src/base/files/json_text.h"
#include "src/base/profiler.h"

namespace tessera {
namespace {

profiler::Event kernel(std::string op, unsigned line, std::int64_t begin, std::int64_t end,
                       std::int64_t bytes, std::int32_t device, std::uint64_t call) {
  return {
      profiler::Kind::kernel, op, op + ".1", {"file.cc", line}, begin, end, bytes, device, call, 0};
}

TEST(Profiles, TellKernelsApartAndWhyTheyWereTaken) {
  Profile p;
  const std::int64_t t = profiler::now();
  for (const char* name : {"dot/packed", "dot/blas", "dot/packed"}) {
    profiler::Event e = kernel("dot", 7, t, t + 1000, 10, 0, profiler::next_call());
    e.kernel = name;
    e.reason = name == std::string("dot/blas") ? "as it is odd" : "as it is large";
    profiler::record(e);
  }
  const auto rows = p.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].kernel, "dot/packed");
  EXPECT_EQ(rows[0].reason, "as it is large");
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_EQ(rows[1].kernel, "dot/blas");
  const std::string table = p.table();
  for (const char* part : {"dot   dot/packed  file.cc:7", "  dot/blas    as it is odd\n",
                           "kernels, and why they were taken:\n"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  EXPECT_NE(p.trace_json().find("\"kernel\":\"dot/packed\""), std::string::npos);
}

TEST(Profiles, RowsAddUpCallsAndTiles) {
  EXPECT_FALSE(profiler::on());
  Profile p;
  EXPECT_TRUE(profiler::on());
  EXPECT_EQ(p.table(), "nothing ran\n");
  const std::int64_t t = profiler::now();
  // One call of two tiles, on two threads, and another one.
  const std::uint64_t call = profiler::next_call();
  profiler::record(kernel("dot", 7, t, t + 3000, 10, 2, call));
  std::thread([&] { profiler::record(kernel("dot", 7, t + 500, t + 2500, 20, 2, call)); }).join();
  profiler::record(kernel("dot", 7, t + 4000, t + 5000, 30, 3, profiler::next_call()));
  profiler::record(kernel("dot", 8, t + 5000, t + 6000, 30, 3, profiler::next_call()));
  profiler::record({profiler::Kind::exchange, "all-reduce", "r", {}, t, t + 1000, 5});
  profiler::record({profiler::Kind::stage, "plan", "m", {}, t, t + 2000});
  profiler::record({profiler::Kind::run, "m", "", {}, t, t + 9000});
  const auto rows = p.rows();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].op, "dot");
  EXPECT_EQ(rows[0].location, "file.cc:7");
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_DOUBLE_EQ(rows[0].seconds, 6e-6);
  EXPECT_DOUBLE_EQ(rows[0].share, 0.75);
  EXPECT_EQ(rows[0].bytes, 60);
  EXPECT_EQ(rows[0].kernel, "");
  EXPECT_EQ(rows[3].kind, "stage");
  EXPECT_DOUBLE_EQ(rows[3].share, 1);
  const std::string table = p.table();
  for (const char* part : {"runs: 0.008 ms of all threads, in 3 kernels and 1 exchanges", " 75.0 %",
                           "file.cc:8", "compilation: 0.002 ms"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  std::ostringstream printed;
  printed << p;
  EXPECT_EQ(printed.str(), table);

  const Json trace = parse_json(p.trace_json(), 8, "trace");
  int on_device = 0, on_threads = 0, names = 0;
  for (const Json& e : trace["traceEvents"]) {
    if (e["ph"] == "M") {
      ++names;
      continue;
    }
    EXPECT_GE(e["ts"].get<double>(), 0);
    (e["pid"] == 1 ? on_threads : on_device) += 1;
    if (e["pid"] == 2 && e["tid"] == 2) {
      // The two tiles are one call on the device.
      EXPECT_DOUBLE_EQ(e["dur"].get<double>(), 3);
      EXPECT_EQ(e["args"]["bytes"], 30);
      EXPECT_EQ(e["args"]["location"], "file.cc:7");
      EXPECT_EQ(e["args"]["instruction"], "dot.1");
    }
  }
  EXPECT_EQ(on_threads, 7);
  EXPECT_EQ(on_device, 4);
  EXPECT_EQ(names, 2 + 2 + 2 + 1);
  p.stop();
  p.stop();
  EXPECT_FALSE(profiler::on());
  EXPECT_EQ(p.rows().size(), 4u);
}

TEST(Profiles, OverlapAndLimits) {
  EXPECT_THROW(Profile({.max_events = -1}), ValueError);
  const auto one = [] {
    const std::int64_t t = profiler::now();
    profiler::record(kernel("add", 1, t, t + 1, 1, 0, profiler::next_call()));
  };
  Profile outer;
  one();
  {
    const Profile inner = profile();
    one();
    EXPECT_EQ(inner.rows()[0].calls, 1);
  }
  one();
  EXPECT_EQ(outer.rows()[0].calls, 3);
  outer.stop();
  // Nothing of it is left for the next one.
  const Profile small = profile({.max_events = 2});
  for (int i = 0; i < 5; ++i) one();
  EXPECT_EQ(small.rows()[0].calls, 2);
  EXPECT_EQ(small.dropped(), 3);
  EXPECT_NE(small.table().find("3 more events were not kept"), std::string::npos);
}

TEST(Profiles, NamesThatAreNoTextAreReplaced) {
  const Profile p = profile();
  const std::int64_t t = profiler::now();
  profiler::record(kernel("\xff\"\n", 1, t, t + 1, 1, 0, 1));
  EXPECT_NO_THROW(parse_json(p.trace_json(), 8, "trace"));
  EXPECT_THROW(p.save_trace("/no/such/folder/trace.json"), IoError);
}

}  // namespace
}  // namespace tessera
