// SPDX-License-Identifier: Apache-2.0
// Mail between processes: whole, in order, to the right box, and beside exchanges.
#include "src/base/processes/mailbox.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/support/memory_transport.h"

namespace tessera::testing {
namespace {

using namespace std::chrono_literals;

TEST(Mailbox, LettersOfAnyLengthInOrder) {
  const auto errors = run_processes(3, 1, [](int p) {
    Mailbox box(processes(), "a test");
    for (const std::size_t size : {0, 1, 2047, 2048, 2049, 100000}) {
      for (int to = 0; to < 3; ++to) {
        if (to != p) box.send(to, std::string(size, char('a' + p)));
      }
    }
    std::vector<std::vector<std::size_t>> sizes(3);
    for (int k = 0; k < 12; ++k) {
      const auto letter = box.next(10s);
      ASSERT_TRUE(letter);
      const std::string want(letter->text.size(), char('a' + letter->from));
      EXPECT_EQ(letter->text, want);
      sizes[std::size_t(letter->from)].push_back(letter->text.size());
    }
    for (int from = 0; from < 3; ++from) {
      if (from == p) continue;
      EXPECT_EQ(sizes[std::size_t(from)],
                (std::vector<std::size_t>{0, 1, 2047, 2048, 2049, 100000}));
    }
    EXPECT_FALSE(box.next(0ms));
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Mailbox, BoxesAreToldApart) {
  const auto errors = run_processes(2, 1, [](int p) {
    Mailbox first(processes(), "the first");
    {
      Mailbox second(processes(), "the second");
      second.send(1 - p, "to the second");
      first.send(1 - p, "to the first");
      EXPECT_EQ(second.next(10s)->text, "to the second");
      if (p == 0) second.send(1, "too late");
    }
    EXPECT_EQ(first.next(10s)->text, "to the first");
    EXPECT_FALSE(first.next(50ms));
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Mailbox, GoesOnWhileAnotherThreadWaitsInATurn) {
  const auto errors = run_processes(2, 1, [](int p) {
    Processes* all = processes();
    Mailbox box(all, "a test");
    std::thread writer;
    if (p == 1) {
      writer = std::thread([&] {
        std::this_thread::sleep_for(100ms);
        box.send(0, "from beside the exchange");
      });
    } else {
      // Process 1 waits for this one in an exchange until it has the letter.
      const auto letter = box.next(20s);
      EXPECT_TRUE(letter);
    }
    const Activity activity{"an exchange", "", {}};
    {
      const Processes::Turn turn(all, activity);
      std::vector<int> both{0, 1};
      (void)all->gather(both, "x", activity);
    }
    if (writer.joinable()) writer.join();
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(Mailbox, SaysWhenAProcessHasLeft) {
  const auto errors = run_processes(2, 1, [](int p) {
    Mailbox box(processes(), "a test");
    if (p == 1) return box.send(0, "the last one");
    while (!box.has_left(1)) {
      const auto letter = box.next(10ms);
      if (letter) {
        EXPECT_EQ(letter->text, "the last one");
      }
    }
    EXPECT_FALSE(box.next(0ms));
  });
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

}  // namespace
}  // namespace tessera::testing
