// SPDX-License-Identifier: Apache-2.0
// Records the stages of one compilation: times, profiles, dumps, checks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "src/base/progress.h"
#include "src/compiler/dump.h"

namespace tessera::compiler {

class StageRecorder {
 public:
  /// `all`: times, profiles and dumps, too; else checks alone.
  StageRecorder(std::string module, bool all);

  /// What a stage leaves: text for a dump (none: it is not worth one), and a check that it is well
  /// formed, which throws.
  struct Leaves {
    std::function<std::string()> text;
    std::function<void()> verify;
  };
  /// Runs it. With TESSERA_VERIFY what it leaves is checked; an Error then is an InternalError that
  /// names the stage.
  void run(const char* stage, const std::function<void()>& work, const Leaves& leaves);
  /// Calls `f` with its name after each stage.
  void after_each(std::function<void(const char* stage)> f) { after_ = std::move(f); }
  /// After the last one.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  std::string module_;
  bool all_, verifies_, profiled_;
  std::optional<Dump> dump_;
  std::string times_;
  Clock::time_point start_;
  std::int64_t started_ = 0;
  std::function<void(const char*)> after_;
  std::atomic<const char*> stage_ = "reading";
  std::optional<Progress> progress_;  ///< the last member: it reads the others
};

}  // namespace tessera::compiler
