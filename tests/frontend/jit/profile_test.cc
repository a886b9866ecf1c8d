// SPDX-License-Identifier: Apache-2.0
// Profiles of programs: every kernel and exchange, at the user's lines, on threads and devices.
#include <tessera/profile.h>

#include <tessera/control_flow.h>
#include <tessera/jit.h>
#include <tessera/ops.h>

#include "src/base/files/json_text.h"
#include "tests/frontend/checkpoint/folder_test.h"

namespace tessera::testing {
namespace profile_test {

class ProgramProfiles : public FolderTest {};

const ProfileRow* find(const std::vector<ProfileRow>& rows, const std::string& op) {
  for (const ProfileRow& r : rows) {
    if (r.op == op) return &r;
  }
  return nullptr;
}

TEST_F(ProgramProfiles, RowsNameOperationsAndLines) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const Array x = put(counting({64, 128}, 1e-3f), mesh, P("x", "y")),
              w = put(counting({128, 96}, 1e-3f), mesh, P("y"));
  const auto f = jit([](Array x, Array w) { return matmul(x, w); });
  const std::string line = here(-1);
  const auto before = floats(f(x, w));
  Profile scope = profile();
  EXPECT_EQ(floats(f(x, w)), before);
  f(x, w);
  scope.stop();
  f(x, w);
  const auto rows = scope.rows();
  const ProfileRow* dot = find(rows, "dot");
  ASSERT_NE(dot, nullptr) << scope.table();
  EXPECT_EQ(dot->kind, "kernel");
  EXPECT_TRUE(has(dot->location, line)) << dot->location;
  EXPECT_EQ(dot->calls, 2 * 8);
  // Parts of [32, 32] and [32, 96] make one of [32, 96].
  EXPECT_EQ(dot->bytes, 2 * 8 * 4 * (32 * 32 + 32 * 96 + 32 * 96));
  bool exchanged = false;
  double share = 0;
  for (const ProfileRow& r : rows) {
    EXPECT_GE(r.seconds, 0);
    EXPECT_NE(r.kind, "stage");
    exchanged |= r.kind == "exchange" && r.bytes > 0 && has(r.location, line);
    share += r.share;
  }
  EXPECT_TRUE(exchanged) << scope.table();
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST_F(ProgramProfiles, FusedOperationsAreNamed) {
  const auto f = jit([](Array x) { return tanh(x * x + 1) * x; });
  const Array x = counting({100});
  f(x);
  const Profile scope = profile();
  f(x);
  EXPECT_NE(find(scope.rows(), "multiply+add+tanh"), nullptr) << scope.table();
}

TEST_F(ProgramProfiles, CompilationsAreRecordedByStage) {
  Profile scope = profile();
  jit([](Array x) { return x * 3 + 1; })(ones({5}));
  scope.stop();
  const auto rows = scope.rows();
  const ProfileRow* plan = find(rows, "build-plan");
  ASSERT_NE(plan, nullptr) << scope.table();
  EXPECT_EQ(plan->kind, "stage");
  EXPECT_GT(plan->seconds, 0);
  EXPECT_NE(find(rows, "trace"), nullptr) << scope.table();
}

TEST_F(ProgramProfiles, TracesHaveThreadsDevicesAndLoops) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const Array x = put(counting({1024, 256}, 1e-6f), mesh, P("x"));
  const auto f = jit([](Array x) {
    return fori_loop(
        0, 5, [](Array, Array a) { return sin(a) + flip(a, 0); }, x);
  });
  f(x);
  {
    const Profile scope = profile({.trace = path("trace.json")});
    f(x);
  }
  const Json trace = parse_json(contents(path("trace.json")), 8, "trace");
  std::map<std::int64_t, std::vector<std::pair<double, double>>> by_device;
  int runs = 0, kernels = 0;
  for (const Json& e : trace["traceEvents"]) {
    if (e["ph"] != "X") continue;
    const double begin = e["ts"], end = begin + e["dur"].get<double>();
    if (e["cat"] == "run") ++runs;
    if (e["pid"] == 1 && e["cat"] == "kernel") ++kernels;
    if (e["pid"] == 2 && e["cat"] == "kernel") {
      by_device[e["tid"].get<std::int64_t>()].emplace_back(begin, end);
    }
  }
  EXPECT_EQ(runs, 1);
  EXPECT_GE(kernels, 5 * 8);
  EXPECT_EQ(by_device.size(), 8u);
  // One device does one thing at a time.
  for (auto& [device, spans] : by_device) {
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
      EXPECT_GE(spans[i].first, spans[i - 1].second - 1e-3) << "device " << device;
    }
  }
}

}  // namespace profile_test
}  // namespace tessera::testing
