// SPDX-License-Identifier: Apache-2.0
// Saves that end at, or fail in, each system call, that run at once, and that find no space.
#include <tessera/checkpoint.h>

#include <tessera/ops.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/frontend/checkpoint/checkpoint_testing.h"

namespace tessera::testing {
namespace checkpoint_crash_test {

using Tree = std::map<std::string, Array>;

Tree some_tree(float value) {
  const Mesh mesh = make_mesh({{"x", 8}});
  return {{"a", put(full({16, 2}, value), mesh, P("x"))}, {"b", full({3}, value + 1)}};
}
void expect_tree(const Tree& have, float value) {
  const Tree want = some_tree(value);
  for (const auto& [key, array] : want) expect_same(have.at(key), array);
}

class CheckpointCrashes : public FolderTest {
 protected:
  std::string run() const { return path("run"); }
  /// Two checkpoints, of which the next save removes the first.
  void begin() const {
    fs::remove_all(run());
    save_checkpoint(run(), some_tree(1), 1);
    save_checkpoint(run(), some_tree(2), 2);
  }
  static constexpr std::int64_t kKept = 2;

  /// Whatever happened to a save of step 3: what is there loads, step 2 among it, and the next save
  /// leaves no traces of it.
  void expect_sound(const std::string& what) const {
    SCOPED_TRACE(what);
    const std::vector<std::int64_t> steps = all_steps(run());
    EXPECT_TRUE(std::find(steps.begin(), steps.end(), 2) != steps.end());
    for (const std::int64_t step : steps) {
      EXPECT_TRUE(verify_checkpoint(run(), step).empty()) << step;
      expect_tree(restore_checkpoint(run(), some_tree(0), {.step = step}), float(step));
    }
    save_checkpoint(run(), some_tree(4), 4, {.keep = 1});
    EXPECT_EQ(names(run()), std::vector<std::string>{"step_00000004"});
  }
};

/// The thread sanitizer doesn't follow a process with threads into its children.
#ifdef __SANITIZE_THREAD__
#define NEEDS_CHILDREN() GTEST_SKIP() << "no children under the thread sanitizer"
#else
#define NEEDS_CHILDREN() (void)0
#endif

/// Runs f in a child process; its exit code.
template <class F>
int exit_code_of(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    f();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(CheckpointCrashes, TheProcessEndsAtEachSystemCall) {
  NEEDS_CHILDREN();
  for (const bool torn : {false, true}) {
    for (int last = 1;; ++last) {
      begin();
      const Tree tree = some_tree(3);
      const int code = exit_code_of([&] {
        int calls = 0;
        const Faults faults([&](std::string_view call, const std::string&, std::size_t* bytes) {
          ++calls;
          if (torn && calls == last - 1 && call == "write") *bytes /= 2;
          if (calls == last) _exit(9);
          return 0;
        });
        save_checkpoint(run(), tree, 3, {.keep = kKept});
      });
      expect_sound("the process ends at call " + std::to_string(last));
      if (HasFailure()) return;
      if (code == 0) {
        EXPECT_GT(last, 40);  // of calls in a save
        break;
      }
      ASSERT_EQ(code, 9);
    }
  }
}

TEST_F(CheckpointCrashes, AReplacedStepIsTheOldOneOrTheNewOne) {
  NEEDS_CHILDREN();
  const Tree tree = some_tree(7);
  bool old = false, replaced = false;
  for (int last = 1;; ++last) {
    fs::remove_all(run());
    save_checkpoint(run(), some_tree(5), 5);
    const int code = exit_code_of([&] {
      int calls = 0;
      const Faults faults([&](std::string_view, const std::string&, std::size_t*) {
        if (++calls == last) _exit(9);
        return 0;
      });
      save_checkpoint(run(), tree, 5, {.replace = true});
    });
    ASSERT_EQ(all_steps(run()), std::vector<std::int64_t>{5}) << last;
    const Tree back = restore_checkpoint(run(), tree);
    const float value = back.at("b").to_vector<float>()[0] - 1;
    expect_tree(back, value);
    ASSERT_TRUE(value == 5 || value == 7);
    (value == 5 ? old : replaced) = true;
    if (code == 0) break;
  }
  EXPECT_TRUE(old && replaced);
  save_checkpoint(run(), tree, 6);
  EXPECT_EQ(names(run()), (std::vector<std::string>{"step_00000005", "step_00000006"}));
}

TEST_F(CheckpointCrashes, EachSystemCallFails) {
  for (const int error : {EIO, EINTR}) {
    int refused = 0;
    for (int failing = 1;; ++failing) {
      begin();
      const Tree tree = some_tree(3);
      int calls = 0;
      std::string failed;
      set_log_sink([](LogLevel, const std::string&) {});
      try {
        const Faults faults([&](std::string_view call, const std::string& p, std::size_t*) {
          if (++calls != failing) return 0;
          failed = std::string(call) + " of " + p;
          return error;
        });
        save_checkpoint(run(), tree, 3, {.keep = kKept});
      } catch (const IoError& e) {
        ++refused;
        EXPECT_TRUE(has(e.message(), run())) << e.message();
        EXPECT_TRUE(has(e.message(), error == EIO ? "Input/output error" : "Interrupted"))
            << e.message();
      }
      set_log_sink({});
      expect_sound(failed + " fails: " + std::to_string(error));
      if (HasFailure()) return;
      if (calls < failing) break;
    }
    EXPECT_GT(refused, error == EINTR ? 0 : 15);
  }
}

/// What isn't on the disk may be lost with the power, in any order.
TEST_F(CheckpointCrashes, NothingIsShownBeforeItIsOnTheDisk) {
  begin();
  std::vector<std::string> calls;
  {
    const Faults faults([&](std::string_view call, const std::string& p, std::size_t*) {
      calls.push_back(std::string(call) + " " + p.substr(folder_.string().size()));
      return 0;
    });
    save_checkpoint(run(), some_tree(3), 3, {.keep = kKept});
  }
  const auto first = [&](const std::string& begin, const std::string& end, std::size_t from = 0) {
    for (std::size_t i = from; i < calls.size(); ++i) {
      if (calls[i].rfind(begin, 0) == 0 && calls[i].size() >= end.size() &&
          calls[i].compare(calls[i].size() - end.size(), end.size(), end) == 0) {
        return i;
      }
    }
    ADD_FAILURE() << "no call " << begin << " ... " << end;
    return calls.size();
  };
  const std::size_t shown = first("rename", "/run/step_00000003");
  const std::size_t removed = first("rename", ".part", shown);
  std::size_t written = 0;
  for (const std::string file : {"arrays-0-0.safetensors", "manifest.json"}) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].rfind("write", 0) == 0 && has(calls[i], file)) last = i;
    }
    const std::size_t synchronised = first("fsync", file, last);
    EXPECT_LT(synchronised, shown);
    written = std::max(written, synchronised);
  }
  EXPECT_LT(first("fsync", ".part", written), shown);  // the folder of the files
  EXPECT_LT(first("fsync", "/run", shown), removed);   // the folder of the steps
  EXPECT_LT(removed, first("unlink", "", shown));
  EXPECT_LT(first("fsync", "/run", removed), first("unlink", "", removed));
}

TEST_F(CheckpointCrashes, SaversAtOnceDontDisturbEachOther) {
  std::atomic<int> saved{0}, refused{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 6; ++i) {
          save_checkpoint(run(), some_tree(float(10 * t + i)), 10 * t + i);
          // All want the same step, and one gets it.
          try {
            save_checkpoint(run(), some_tree(float(100 + i)), 100 + i);
            ++saved;
          } catch (const ValueError& e) {
            EXPECT_TRUE(has(e.message(), "there is a checkpoint of step")) << e.message();
            ++refused;
          }
          const Tree back = restore_checkpoint(run(), some_tree(0));
          expect_tree(back, back.at("b").to_vector<float>()[0] - 1);
        }
      });
    }
  }
  EXPECT_EQ(saved, 6);
  EXPECT_EQ(refused, 18);
  EXPECT_EQ(all_steps(run()).size(), 4u * 6 + 6);
  EXPECT_EQ(names(run()).size(), 4u * 6 + 6);
  for (const std::int64_t step : all_steps(run())) {
    expect_tree(restore_checkpoint(run(), some_tree(0), {.step = step}), float(step));
  }
}

TEST_F(CheckpointCrashes, ReadersFindACheckpointWhileOthersAreRemoved) {
  save_checkpoint(run(), some_tree(0), 0);
  std::atomic<bool> done{false};
  std::jthread saver([&] {
    for (int step = 1; step <= 60; ++step) {
      save_checkpoint(run(), some_tree(float(step)), step, {.keep = 1});
    }
    done = true;
  });
  int reads = 0;
  while (!done) {
    const Tree back = restore_checkpoint(run(), some_tree(0));
    expect_tree(back, back.at("b").to_vector<float>()[0] - 1);
    ++reads;
  }
  EXPECT_GT(reads, 0);
}

TEST_F(CheckpointCrashes, AFullDiskLeavesWhatWasThere) {
  NEEDS_CHILDREN();
  begin();
  const Tree tree{{"a", zeros({1 << 18})}};
  for (const rlim_t limit : {0, 100, 4096, 100000, (1 << 20) + 100}) {
    const int code = exit_code_of([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit small{limit, limit};
      if (setrlimit(RLIMIT_FSIZE, &small) != 0) _exit(3);
      try {
        save_checkpoint(run(), tree, 3, {.keep = 1});
      } catch (const IoError& e) {
        _exit(has(e.message(), "File too large") && has(e.message(), run()) ? 0 : 4);
      }
      _exit(5);
    });
    EXPECT_EQ(code, 0) << limit;
    EXPECT_EQ(names(run()), (std::vector<std::string>{"step_00000001", "step_00000002"}));
  }
  expect_sound("a full disk");
}

TEST_F(CheckpointCrashes, WithoutLocksLeftoversOfOthersStay) {
  fs::create_directories(path("run/.step_00000001.1-1.part"));
  {
    const Faults faults([&](std::string_view call, const std::string&, std::size_t*) {
      return call == "flock" ? ENOLCK : 0;
    });
    save_checkpoint(run(), some_tree(2), 2);
    save_checkpoint(run(), some_tree(3), 3, {.keep = 1});
  }
  EXPECT_EQ(names(run()), (std::vector<std::string>{".step_00000001.1-1.part", "step_00000003"}));
  save_checkpoint(run(), some_tree(4), 4, {.keep = 2});
  EXPECT_EQ(names(run()), (std::vector<std::string>{"step_00000003", "step_00000004"}));
  const Faults faults([&](std::string_view call, const std::string&, std::size_t*) {
    return call == "exchange" ? EINVAL : 0;
  });
  expect_error<IoError>([&] { save_checkpoint(run(), some_tree(5), 4, {.replace = true}); },
                        {"can't exchange folders", kNear});
  expect_tree(restore_checkpoint(run(), some_tree(0)), 4);
}

}  // namespace checkpoint_crash_test
}  // namespace tessera::testing
