// SPDX-License-Identifier: Apache-2.0
// What processes exchange, and how they fail together.
#include "src/base/processes/processes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "tests/support/memory_transport.h"

namespace tessera::testing {
namespace {

using namespace std::chrono_literals;

std::vector<int> everybody() {
  std::vector<int> out(static_cast<std::size_t>(process_count()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Processes, OneIsAlone) {
  EXPECT_EQ(process_count(), 1);
  EXPECT_EQ(process_index(), 0);
  EXPECT_EQ(processes(), nullptr);
  EXPECT_NO_THROW(init_processes());
}

TEST(Processes, DevicesAreInTheOrderOfProcesses) {
  const auto errors = run_processes(3, 2, [](int p) {
    EXPECT_EQ(process_index(), p);
    EXPECT_EQ(process_count(), 3);
    ASSERT_EQ(devices().size(), 6U);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(devices()[i].id, std::int64_t(i));
      EXPECT_EQ(devices()[i].process_index, std::int64_t(i / 2));
    }
    EXPECT_EQ(local_devices().size(), 2U);
    EXPECT_EQ(default_device().id, 2 * p);
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Processes, GatherWhatEachSays) {
  const auto errors = run_processes(4, 1, [](int p) {
    const Activity activity{"a gather", "", {}};
    const Processes::Turn turn(processes(), activity);
    const std::string mine(std::size_t(p * 1000), char('a' + p));
    const auto all = processes()->gather(everybody(), mine, activity);
    for (int q = 0; q < 4; ++q) {
      EXPECT_EQ(all[std::size_t(q)], std::string(std::size_t(q * 1000), char('a' + q)));
    }
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Processes, WhoWaitsTooLongSaysWhereAllAre) {
  const auto errors = run_processes(
      3, 1,
      [](int p) {
        if (p == 2) {
          std::this_thread::sleep_for(3000ms);
          return;
        }
        std::byte from_last{};
        const Incoming in{2, &from_last, 1};
        const std::string what = p == 0 ? "the first" : "the second";
        const Activity activity{what, "f", Location{"model.cc", unsigned(10 + p)}};
        const Processes::Turn turn(processes(), activity);
        processes()->exchange({}, {&in, 1}, 3, activity);
      },
      600ms);
  EXPECT_EQ(errors[2], "");
  int say_all = 0;
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_TRUE(has(errors[p], "model.cc:1" + std::to_string(p) + ": process " + std::to_string(p) +
                                   ", in the "))
        << errors[p];
    EXPECT_TRUE(has(errors[p], "process 2: doesn't answer")) << errors[p];
    say_all += has(errors[p], "nothing has arrived from process 2 for 0.6 s") &&
               has(errors[p], "of 'f' (model.cc:1" + std::to_string(1 - p) + ")");
  }
  EXPECT_GE(say_all, 1) << errors[0] << errors[1];
}

TEST(Processes, OneThatEndsOrFailsEndsThoseThatWaitForIt) {
  for (const bool throws : {false, true}) {
    const auto errors = run_processes(2, 1, [&](int p) {
      const Activity activity{"the step", "", {}};
      const Processes::Turn turn(processes(), activity);
      if (p == 1) {
        if (throws) throw ValueError("out of luck");
        return;
      }
      std::byte byte{};
      const Incoming in{1, &byte, 1};
      processes()->exchange({}, {&in, 1}, 3, activity);
    });
    EXPECT_TRUE(has(errors[0], throws ? "process 1 has failed in the step" : "process 1 has ended"))
        << errors[0];
  }
}

TEST(Processes, WhatIsNotExpectedIsAnErrorOnBothSides) {
  const auto errors = run_processes(2, 1, [](int p) {
    std::vector<std::byte> out(4), in(p == 0 ? 4 : 8);
    const Outgoing to{1 - p, out.data(), 4};
    const Incoming from{1 - p, in.data(), in.size()};
    const Activity activity{p == 0 ? "one thing" : "another", "", {}};
    const Processes::Turn turn(processes(), activity);
    processes()->exchange({&to, 1}, {&from, 1}, p == 0 ? 3 : 4, activity);
  });
  for (const std::string& e : errors) EXPECT_TRUE(has(e, "exchanges something else")) << e;
}

TEST(Processes, NothingIsExchangedAfterAFailure) {
  const auto errors = run_processes(
      2, 1,
      [](int p) {
        const Activity activity{"a step", "", {}};
        if (p == 1) {
          std::this_thread::sleep_for(2500ms);
        } else {
          EXPECT_THROW(
              {
                const Processes::Turn turn(processes(), activity);
                (void)processes()->gather(everybody(), "x", activity);
              },
              RuntimeError);
        }
        const Processes::Turn turn(processes(), activity);
        (void)processes()->gather(everybody(), "x", activity);
      },
      300ms);
  EXPECT_TRUE(has(errors[0], "have failed before")) << errors[0];
  EXPECT_NE(errors[1], "");
}

TEST(Processes, GroupsCountTheirOwnTurns) {
  const auto errors = run_processes(3, 1, [](int p) {
    const Activity activity{"a step", "", {}};
    const std::vector<int> some{0, 2};
    Processes::Group* const group = processes()->group(some);
    EXPECT_EQ(group, processes()->group({0, 2}));
    EXPECT_NE(group, processes()->group({0, 1}));
    EXPECT_TRUE(group->contains(2));
    EXPECT_FALSE(group->contains(1));
    for (int k = 0; k < 3; ++k) {
      // Process 1 doesn't even know of it.
      for (int again = 0; p != 1 && again <= k; ++again) {
        const Processes::Turn turn(processes(), activity, group);
        const auto both = processes()->gather(some, std::to_string(p), activity);
        EXPECT_EQ(both, (std::vector<std::string>{"0", "2"}));
      }
      const Processes::Turn turn(processes(), activity);
      const auto all = processes()->gather(everybody(), std::to_string(p), activity);
      EXPECT_EQ(all, (std::vector<std::string>{"0", "1", "2"}));
    }
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Processes, FailuresOfOtherGroupsAreTheirOwn) {
  const auto errors = run_processes(3, 1, [](int p) {
    const Activity activity{"a step", "", {}};
    if (p == 2) {
      try {
        const Processes::Turn turn(processes(), activity, processes()->group({2}));
        throw ValueError("alone");
      } catch (const ValueError&) {
        std::this_thread::sleep_for(1500ms);
      }
    } else {
      // They wait for each other longer than a failure takes to arrive.
      if (p == 1) std::this_thread::sleep_for(1000ms);
      const Processes::Turn turn(processes(), activity, processes()->group({0, 1}));
      EXPECT_EQ(processes()->gather(std::vector<int>{0, 1}, "x", activity)[0], "x");
    }
    const Processes::Turn turn(processes(), activity);
    EXPECT_EQ(processes()->gather(everybody(), "y", activity)[2], "y");
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Processes, FailuresOfAllLeaveThemConnected) {
  const auto errors = run_processes(2, 1, [](int) {
    const Activity activity{"a step", "", {}};
    for (int i = 0; i < 3; ++i) {
      try {
        const Processes::Turn turn(processes(), activity);
        (void)processes()->gather(everybody(), "x", activity);
        throw ValueError("all of them");
      } catch (const ValueError&) {
      }
      const Processes::Turn turn(processes(), activity);
      EXPECT_EQ(processes()->gather(everybody(), "y", activity)[0], "y");
    }
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

}  // namespace
}  // namespace tessera::testing
