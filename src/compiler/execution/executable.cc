// SPDX-License-Identifier: Apache-2.0
// An executable that runs a finished plan in this process, and compile() for all targets.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "src/base/env.h"
#include "src/base/processes/processes.h"
#include "src/base/profiler.h"
#include "src/codegen/plan/liveness.h"
#include "src/compiler/compile.h"
#include "src/compiler/cost_analysis.h"
#include "src/compiler/execution/full_gathers.h"
#include "src/compiler/one_device.h"
#include "src/compiler/pipeline.h"
#include "src/compiler/planned_executable.h"
#include "src/runtime/executor.h"
#include "src/runtime/local_plan.h"

namespace tessera::compiler {
namespace {

/// The operations of collectives that combine what devices have, in order: plans don't name them.
std::string combiners_of(const ir::Module& module) {
  std::string out;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      if (!ir::is_collective(i->opcode)) continue;
      for (const ir::Computation* c : i->called()) {
        out += out.empty() ? "" : ", ";
        out += ir::name(c->root()->opcode);
      }
    }
  }
  return out;
}

class PlannedExecutable final : public Executable, public OneDeviceProgram {
 public:
  PlannedExecutable(Compilation c, codegen::BuiltPlan built)
      : Executable(record_of(&c)),
        plan_(std::move(built.plan)),
        evaluator_ops_(std::move(built.evaluator_ops)),
        runs_(c.options.runs),
        process_of_(std::move(c.options.process_of)) {
    for (const runtime::SlotId s : plan_.parameters) {
      const auto classes = std::size_t(plan_.slots[std::size_t(s)].classes);
      takes_replicas_ = takes_replicas_ || plan_.classes[classes].count() < plan_.num_devices;
    }
    for (const ir::Alias& a : partitioned().input_output_alias) {
      if (a.must) must_alias_.push_back(a);
    }
  }

  DeviceArrays run(DeviceArrays args, const std::vector<bool>& donated) const override {
    const profiler::Span span(profiler::Kind::run, partitioned().name, "");
    // Which memory may be reused shows in the handles: a caller keeps one on what it did not give
    // away. The flags only have to fit.
    if (!runs_) throw RuntimeError("this program was compiled to be looked at only");
    if (!donated.empty() && donated.size() != args.size()) {
      throw RuntimeError(
          fmt::format("{} donation flags given for {} arguments", donated.size(), args.size()));
    }
    if (!must_alias_.empty()) check_must_alias(args);
    runtime::RunOptions options;
    options.check_replicas = takes_replicas_ && env_flag("TESSERA_CHECK_REPLICAS", false);
    options.local = local_plan();
    runtime::RunCounters counters;
    DeviceArrays results = runtime::run(plan_, std::move(args), options, &counters);
    const bool exchanged = counters.any();
    if (exchanged || exchanged_.load(std::memory_order_relaxed)) {
      const std::lock_guard lock(mutex_);
      last_ = counters;
      exchanged_.store(exchanged, std::memory_order_relaxed);
    }
    return results;
  }

  bool runs_on_one() const override {
    return runs_ && plan_.num_devices == 1 && process_of_.empty() && must_alias_.empty();
  }
  void run_on_one(std::span<const DeviceBuffer* const> arguments,
                  std::span<DeviceBuffer> results) const override {
    const profiler::Span span(profiler::Kind::run, partitioned().name, "");
    runtime::run_on_one(plan_, arguments, results);
  }

  MemoryAnalysis memory_analysis() const override {
    std::set<std::int64_t> donated;
    for (const auto& [parameter, index] : partitioned().buffer_donor) donated.insert(parameter);
    for (const ir::Alias& a : partitioned().input_output_alias) donated.insert(a.parameter);
    const codegen::MemoryEstimate estimate = codegen::estimate_memory(plan_, donated);
    MemoryAnalysis out;
    const auto add = [&](runtime::SlotId s, std::int64_t* device, std::int64_t* host) {
      const runtime::Slot& slot = plan_.slots[std::size_t(s)];
      *(is_host(slot.memory) ? host : device) += slot.bytes;
    };
    for (const runtime::SlotId s : plan_.parameters) {
      add(s, &out.argument_bytes, &out.host_argument_bytes);
    }
    for (const runtime::SlotId s : plan_.results) {
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

  std::vector<std::string> evaluator_ops() const override { return evaluator_ops_; }
  bool runs() const { return runs_; }
  const runtime::Plan& plan() const { return plan_; }

 private:
  /// What this process runs; null: all of it.
  runtime::LocalPlan* local_plan() const {
    Processes* all = process_of_.empty() ? nullptr : processes();
    if (all == nullptr) return nullptr;
    runtime::LocalPlan* const last = last_plan_.load(std::memory_order_acquire);
    if (last != nullptr && last->is_of(*all)) return last;
    const std::lock_guard lock(mutex_);
    auto& mine = local_plans_[all->id()];
    if (!mine) {
      mine = std::make_unique<runtime::LocalPlan>(plan_, process_of_, all, partitioned().name,
                                                  combiners_of(partitioned()));
    }
    last_plan_.store(mine.get(), std::memory_order_release);
    return mine.get();
  }

  /// Memory is a result's only if nobody else has a handle on it.
  void check_must_alias(const DeviceArrays& args) const {
    for (const ir::Alias& a : must_alias_) {
      if (std::size_t(a.parameter) >= args.size()) continue;  // the run says how many it takes
      const std::vector<DeviceBuffer>& given = args[std::size_t(a.parameter)];
      for (const DeviceBuffer& b : given) {
        if (!b) continue;
        const auto here = std::count_if(given.begin(), given.end(), [&](const DeviceBuffer& other) {
          return other.memory == b.memory;
        });
        if (b.memory.use_count() == here && runtime::is_writable(b)) continue;
        throw RuntimeError(fmt::format(
            "'{}' says that result {} must have the memory of argument {}, {}, which somebody else "
            "uses as well; valid: donate the argument, of which there is no other copy, or "
            "may-alias in the program",
            partitioned().name, a.output.empty() ? 0 : a.output[0], a.parameter,
            parameter_shapes().at(std::size_t(a.parameter)).to_string()));
      }
    }
  }

  runtime::Plan plan_;
  std::vector<std::string> evaluator_ops_;
  bool runs_;
  std::vector<std::int32_t> process_of_;
  std::vector<ir::Alias> must_alias_;
  bool takes_replicas_ = false;  ///< of a parameter several devices have the same part
  mutable std::mutex mutex_;
  mutable runtime::RunCounters last_;
  mutable std::atomic<bool> exchanged_ = false;  ///< whether last_ isn't empty
  /// One, unless processes are simulated.
  mutable std::map<std::uint64_t, std::unique_ptr<runtime::LocalPlan>> local_plans_;
  mutable std::atomic<runtime::LocalPlan*> last_plan_ = nullptr;
};

const ir::Module& kept(const std::unique_ptr<ir::Module>& module) {
  if (!module) throw ValueError("this module was not kept: Options::keep_stages was off");
  return *module;
}

}  // namespace

std::shared_ptr<const CompiledProgram> record_of(Compilation* c) {
  auto out = std::make_shared<CompiledProgram>();
  out->input = std::move(c->input);
  out->propagated = std::move(c->propagated);
  out->partitioned = std::move(c->module);
  out->report = std::move(c->report);
  out->assignment = std::move(c->assignment);
  out->num_devices = out->assignment.num_devices();
  out->layouts = c->options.layouts;
  out->parameter_shardings = std::move(c->parameter_shardings);
  out->result_shardings = std::move(c->result_shardings);
  out->parameter_shapes = std::move(c->parameter_shapes);
  out->result_shapes = std::move(c->result_shapes);
  return out;
}

const ir::Module& Executable::input() const { return kept(program_->input); }
const ir::Module& Executable::propagated() const { return kept(program_->propagated); }
CostAnalysis Executable::cost_analysis(const Network& network) const {
  return analyze_cost(partitioned(), network);
}
MemoryAnalysis Executable::memory_analysis() const {
  throw NotImplementedError("the engine of '" + partitioned().name +
                            "' can't tell how much memory its program takes");
}

void check_planned(const Executable& executable) {
  const auto* planned = dynamic_cast<const PlannedExecutable*>(&executable);
  if (planned != nullptr && planned->runs()) return;
  throw NotImplementedError("'" + executable.partitioned().name +
                            (planned == nullptr
                                 ? "' is a program of another engine, which can't be stored"
                                 : "' was compiled to be looked at only, and can't be stored") +
                            "; valid: programs on devices of the CPU");
}

const runtime::Plan& plan_of(const Executable& executable) {
  check_planned(executable);
  return dynamic_cast<const PlannedExecutable&>(executable).plan();
}

std::shared_ptr<const Executable> planned_executable(Compilation c, codegen::BuiltPlan built) {
  return std::make_shared<PlannedExecutable>(std::move(c), std::move(built));
}

std::shared_ptr<const Executable> compile_for(const Target& target,
                                              std::unique_ptr<ir::Module> module,
                                              const Options& options) {
  TESSERA_CHECK(module && module->entry(), "a module without an entry was given to compile");
  Compilation c;
  c.options = options;
  c.target = &target;
  c.module = std::move(module);
  c.refuse_full_gathers = refuse_full_gathers;
  StageRecorder stages(c.module->name, /*all=*/true);
  run_through(&c, Phase::select, &stages);
  std::shared_ptr<const Executable> out = target.load(std::move(c), &stages);
  stages.finish();
  return out;
}

std::shared_ptr<const Executable> compile(std::unique_ptr<ir::Module> module,
                                          const Options& options) {
  return compile_for(cpu_target(), std::move(module), options);
}

}  // namespace tessera::compiler
