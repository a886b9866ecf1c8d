// SPDX-License-Identifier: Apache-2.0
// An executable that runs a finished plan in this process, and compile().
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "src/base/env.h"
#include "src/base/processes.h"
#include "src/base/profiler.h"
#include "src/codegen/liveness.h"
#include "src/compiler/compile.h"
#include "src/compiler/cost_analysis.h"
#include "src/compiler/execution/full_gathers.h"
#include "src/compiler/pipeline.h"
#include "src/runtime/executor.h"
#include "src/runtime/local_plan.h"

namespace tessera::compiler {
namespace {

class PlannedExecutable final : public Executable {
 public:
  explicit PlannedExecutable(Compilation c) : c_(std::move(c)) {
    const runtime::Plan& plan = c_.built.plan;
    for (const runtime::SlotId s : plan.parameters) {
      const auto classes = std::size_t(plan.slots[std::size_t(s)].classes);
      takes_replicas_ = takes_replicas_ || plan.classes[classes].count() < plan.num_devices;
    }
  }

  const ir::Module& input() const override { return kept(c_.input); }
  const ir::Module& propagated() const override { return kept(c_.propagated); }
  const ir::Module& partitioned() const override { return *c_.module; }
  const spmd::PartitionReport& report() const override { return c_.report; }
  std::int64_t num_devices() const override { return c_.module->num_partitions; }
  Layouts layouts() const override { return c_.options.layouts; }
  const std::vector<TensorSharding>& parameter_shardings() const override {
    return c_.parameter_shardings;
  }
  const std::vector<TensorSharding>& result_shardings() const override {
    return c_.result_shardings;
  }
  const std::vector<Shape>& parameter_shapes() const override { return c_.parameter_shapes; }
  const std::vector<Shape>& result_shapes() const override { return c_.result_shapes; }

  DeviceArrays run(DeviceArrays args, const std::vector<bool>& donated) const override {
    const profiler::Span span(profiler::Kind::run, c_.module->name, "");
    // Which memory may be reused shows in the handles: a caller keeps one on what it did not give
    // away. The flags only have to fit.
    if (!c_.options.runs) throw RuntimeError("this program was compiled to be looked at only");
    if (!donated.empty() && donated.size() != args.size()) {
      throw RuntimeError(
          fmt::format("{} donation flags given for {} arguments", donated.size(), args.size()));
    }
    runtime::RunOptions options;
    options.check_replicas = takes_replicas_ && env_flag("TESSERA_CHECK_REPLICAS", false);
    options.local = local_plan();
    runtime::RunCounters counters;
    DeviceArrays results = runtime::run(c_.built.plan, std::move(args), options, &counters);
    const bool exchanged = counters.any();
    if (exchanged || exchanged_.load(std::memory_order_relaxed)) {
      const std::lock_guard lock(mutex_);
      last_ = counters;
      exchanged_.store(exchanged, std::memory_order_relaxed);
    }
    return results;
  }

  MemoryAnalysis memory_analysis() const override {
    const runtime::Plan& plan = c_.built.plan;
    std::set<std::int64_t> donated;
    for (const auto& [parameter, index] : c_.module->buffer_donor) donated.insert(parameter);
    for (const ir::Alias& a : c_.module->input_output_alias) donated.insert(a.parameter);
    const codegen::MemoryEstimate estimate = codegen::estimate_memory(plan, donated);
    MemoryAnalysis out;
    const auto add = [&](runtime::SlotId s, std::int64_t* device, std::int64_t* host) {
      const runtime::Slot& slot = plan.slots[std::size_t(s)];
      *(is_host(slot.memory) ? host : device) += slot.bytes;
    };
    for (const runtime::SlotId s : plan.parameters) {
      add(s, &out.argument_bytes, &out.host_argument_bytes);
    }
    for (const runtime::SlotId s : plan.results) {
      add(s, &out.output_bytes, &out.host_output_bytes);
    }
    const auto temporary = [](const codegen::MemoryEstimate::Part& part, std::int64_t arguments) {
      return std::max<std::int64_t>(0, part.peak - arguments - part.results);
    };
    out.alias_bytes = estimate.reused;
    out.peak_bytes_per_device = estimate.peak;
    out.temp_bytes = temporary(estimate, out.argument_bytes);
    out.host_alias_bytes = estimate.host.reused;
    out.peak_host_bytes_per_device = estimate.host.peak;
    out.host_temp_bytes = temporary(estimate.host, out.host_argument_bytes);
    if (const runtime::LocalPlan* mine = local_plan()) {
      out.exchange_bytes_per_process = mine->exchange_bytes();
    }
    return out;
  }

  CostAnalysis cost_analysis(const Network& network) const override {
    return analyze_cost(*c_.module, network);
  }

  std::map<std::string, std::pair<std::int64_t, std::int64_t>> last_run_collectives()
      const override {
    std::lock_guard lock(mutex_);
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> out;
    for (std::size_t k = 0; k < runtime::RunCounters::kKinds; ++k) {
      if (last_.count[k] == 0) continue;
      auto& entry = out[runtime::name(runtime::Exchange::Kind(k))];
      entry.first += last_.bytes[k];
      entry.second += last_.count[k];
    }
    return out;
  }

  std::vector<std::string> evaluator_ops() const override { return c_.built.evaluator_ops; }

 private:
  /// What this process runs; null: all of it.
  runtime::LocalPlan* local_plan() const {
    Processes* all = c_.options.process_of.empty() ? nullptr : processes();
    if (all == nullptr) return nullptr;
    runtime::LocalPlan* const last = last_plan_.load(std::memory_order_acquire);
    if (last != nullptr && last->is_of(*all)) return last;
    const std::lock_guard lock(mutex_);
    auto& mine = local_plans_[all->id()];
    if (!mine) {
      mine = std::make_unique<runtime::LocalPlan>(c_.built.plan, c_.options.process_of, all,
                                                  c_.module->name);
    }
    last_plan_.store(mine.get(), std::memory_order_release);
    return mine.get();
  }

  static const ir::Module& kept(const std::unique_ptr<ir::Module>& module) {
    if (!module) throw ValueError("this module was not kept: Options::keep_stages was off");
    return *module;
  }

  Compilation c_;
  bool takes_replicas_ = false;  ///< of a parameter several devices have the same part
  mutable std::mutex mutex_;
  mutable runtime::RunCounters last_;
  mutable std::atomic<bool> exchanged_ = false;  ///< whether last_ isn't empty
  /// One, unless processes are simulated.
  mutable std::map<std::uint64_t, std::unique_ptr<runtime::LocalPlan>> local_plans_;
  mutable std::atomic<runtime::LocalPlan*> last_plan_ = nullptr;
};

}  // namespace

std::shared_ptr<const Executable> compile(std::unique_ptr<ir::Module> module,
                                          const Options& options) {
  TESSERA_CHECK(module && module->entry(), "a module without an entry was given to compile");
  Compilation c;
  c.options = options;
  c.module = std::move(module);
  c.refuse_full_gathers = refuse_full_gathers;
  run_pipeline(&c);
  return std::make_shared<PlannedExecutable>(std::move(c));
}

}  // namespace tessera::compiler
