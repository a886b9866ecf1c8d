// SPDX-License-Identifier: Apache-2.0
// Times, profiles, dumps and checks of stages.
#include "src/compiler/stages.h"

#include <fmt/format.h>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/profiler.h"

namespace tessera::compiler {
namespace {

bool verifies_stages() {
#ifdef NDEBUG
  constexpr bool kByDefault = false;
#else
  constexpr bool kByDefault = true;
#endif
  return env_flag("TESSERA_VERIFY", kByDefault);
}

}  // namespace

StageRecorder::StageRecorder(std::string module, bool all)
    : module_(std::move(module)),
      all_(all),
      verifies_(verifies_stages()),
      profiled_(all && profiler::on()),
      start_(Clock::now()),
      started_(profiled_ ? profiler::now() : 0) {
  if (!all) return;
  dump_.emplace(module_);
  progress_.emplace("compiling '" + module_ + "'", [this] { return std::string(stage_.load()); });
}

void StageRecorder::run(const char* stage, const std::function<void()>& work,
                        const Leaves& leaves) {
  stage_ = stage;
  const auto before = Clock::now();
  const std::int64_t begin = profiled_ ? profiler::now() : 0;
  work();
  if (profiled_) {
    profiler::record({profiler::Kind::stage, stage, module_, {}, begin, profiler::now()});
  }
  if (verifies_ && leaves.verify) {
    try {
      leaves.verify();
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      throw InternalError(std::string("after the stage ") + stage + ": " + e.what());
    }
  }
  if (after_) after_(stage);
  if (!all_) return;
  const std::chrono::duration<double, std::milli> took = Clock::now() - before;
  times_ += fmt::format(" {} {:.2f}", stage, took.count());
  if (dump_->enabled() && leaves.text) dump_->write(stage, leaves.text());
}

void StageRecorder::finish() {
  progress_.reset();
  if (!all_) return;
  if (profiled_) {
    profiler::record(
        {profiler::Kind::compile, "compile " + module_, "", {}, started_, profiler::now()});
  }
  const std::chrono::duration<double, std::milli> total = Clock::now() - start_;
  log(LogLevel::debug, fmt::format("compiled {} in {:.2f} ms:{}", module_, total.count(), times_));
}

}  // namespace tessera::compiler
