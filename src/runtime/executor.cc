// SPDX-License-Identifier: Apache-2.0
// The executor: runs the steps of a plan on all devices in lockstep.
#include "src/runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/base/arrays/subnormals.h"
#include "src/base/check.h"
#include "src/base/profiler.h"
#include "src/base/threads/task_pool.h"
#include "src/runtime/plan_executor.h"

namespace tessera::runtime {
namespace {

constexpr std::size_t kFewPointers = 16;

/// Pointers of one kernel call; on the stack unless there are many.
class Pointers {
 public:
  Pointers(std::size_t inputs, std::size_t outputs) {
    if (inputs > kFewPointers) many_inputs_.resize(inputs);
    if (outputs > kFewPointers) many_outputs_.resize(outputs);
  }
  const std::byte** inputs() { return many_inputs_.empty() ? few_inputs_ : many_inputs_.data(); }
  std::byte** outputs() { return many_outputs_.empty() ? few_outputs_ : many_outputs_.data(); }

 private:
  const std::byte* few_inputs_[kFewPointers];
  std::byte* few_outputs_[kFewPointers];
  std::vector<const std::byte*> many_inputs_;
  std::vector<std::byte*> many_outputs_;
};

}  // namespace

bool sole_owner(const std::shared_ptr<Storage>& storage) {
  if (storage.use_count() != 1 || !storage->is_writable()) return false;
  // Another thread may just have dropped its handle, and use_count() doesn't synchronise with it.
  // Dropping a handle here does: it is an acquire-release operation on the same count.
  std::shared_ptr<Storage> handle = storage;
  handle.reset();
  return true;
}

PlanExecutor::PlanExecutor(const Plan& plan, LocalPlan* local, RunCounters* counters)
    : plan_(plan),
      local_(local),
      counters_(counters),
      all_(local == nullptr ? own_.emplace(plan) : local->everything()),
      workers_(worker_count()),
      profiled_(profiler::on()) {
  make_buffers();
  for (const Plan::Constant& c : plan.constants) {
    for (std::size_t i = 0; i < c.values.size(); ++i) buffer(c.slot, std::int32_t(i)) = c.values[i];
  }
}

namespace {

/// The block without a handle on it: it counts as one that somebody else uses.
std::shared_ptr<Storage> borrowed(Storage* storage) {
  return std::shared_ptr<Storage>(std::shared_ptr<void>(), storage);
}

}  // namespace

PlanExecutor::PlanExecutor(const Plan& plan, std::span<const DeviceBuffer* const> args)
    : plan_(plan),
      local_(nullptr),
      counters_(nullptr),
      all_(own_.emplace(plan)),
      workers_(worker_count()),
      profiled_(profiler::on()) {
  TESSERA_CHECK(plan.num_devices == 1, "a run of one device");
  if (args.size() != plan.parameters.size()) {
    throw RuntimeError(fmt::format("the program takes {} arguments; {} were given",
                                   plan.parameters.size(), args.size()));
  }
  make_buffers();
  for (const Plan::Constant& c : plan.constants) {
    for (const auto& value : c.values) buffer(c.slot, 0) = borrowed(value.get());
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const SlotId id = plan.parameters[i];
    Storage& given = storage_of_kept(*args[i]);
    if (std::int64_t(given.bytes()) != slot(id).bytes) {
      throw RuntimeError(fmt::format("argument {} has {} bytes on device 0; the program takes {}",
                                     i, given.bytes(), slot(id).bytes));
    }
    buffer(id, 0) = borrowed(&given);
  }
}

void PlanExecutor::results(std::span<const DeviceBuffer* const> args, std::span<DeviceBuffer> out) {
  TESSERA_CHECK(out.size() == plan_.results.size(), "results of a run");
  for (std::size_t i = 0; i < out.size(); ++i) {
    const BufferRef& made = buffer(plan_.results[i], 0);
    if (made.use_count() > 0) {
      out[i].memory = made;
      continue;
    }
    // An argument or a constant, as it was given.
    for (const DeviceBuffer* a : args) {
      if (a->memory.get() == made.get()) out[i] = *a;
    }
    for (const Plan::Constant& c : plan_.constants) {
      for (const auto& value : c.values) {
        if (value == made) out[i].memory = value;
      }
    }
    TESSERA_CHECK(out[i], "a result that is no handle's");
  }
}

void PlanExecutor::make_buffers() {
  const auto count = std::size_t(plan_.num_buffers);
  if (count > few_buffers_.size()) many_buffers_.resize(count);
  buffers_ = many_buffers_.empty() ? std::span<BufferRef>(few_buffers_) : many_buffers_;
}

void PlanExecutor::load(std::vector<std::vector<DeviceBuffer>>& args, bool check_replicas) {
  if (args.size() != plan_.parameters.size()) {
    throw RuntimeError(fmt::format("the program takes {} arguments; {} were given",
                                   plan_.parameters.size(), args.size()));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const SlotId id = plan_.parameters[i];
    const DeviceClasses& relation = classes(slot(id).classes);
    if (std::int64_t(args[i].size()) != plan_.num_devices) {
      throw RuntimeError(fmt::format("argument {} has {} buffers; the program runs on {} devices",
                                     i, args[i].size(), plan_.num_devices));
    }
    for (std::size_t d = 0; d < args[i].size(); ++d) {
      if (!is_local(std::int32_t(d))) continue;
      DeviceBuffer& given = args[i][d];
      if (!given) throw RuntimeError(fmt::format("argument {} has no buffer on device {}", i, d));
      if (std::int64_t(given.bytes()) != slot(id).bytes) {
        throw RuntimeError(
            fmt::format("argument {} has {} bytes on device {}; the program takes {}", i,
                        given.bytes(), d, slot(id).bytes));
      }
      const std::int32_t c = relation.class_of[d];
      BufferRef& mine = buffer(id, c);
      if (!mine) {
        mine = storage_of(std::move(given));
      } else if (check_replicas && mine != given.memory &&
                 std::memcmp(mine->data(), bytes_of(given), mine->bytes()) != 0) {
        throw RuntimeError(fmt::format(
            "argument {} is replicated over devices {} and {}, and their buffers differ", i,
            relation.representative[std::size_t(c)], d));
      }
    }
    args[i].clear();  // frees the buffers of the other copies
  }
}

std::vector<std::vector<DeviceBuffer>> PlanExecutor::results(
    std::vector<std::vector<DeviceBuffer>> out) {
  out.resize(plan_.results.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].reserve(std::size_t(plan_.num_devices));
    for (std::int32_t d = 0; d < plan_.num_devices; ++d) {
      out[i].push_back(is_local(d) ? DeviceBuffer{buffer_of(plan_.results[i], d)} : DeviceBuffer{});
    }
  }
  return out;
}

void PlanExecutor::run_block(const Block& block, const ActiveSet& active) {
  for (const Segment& segment : block.segments) {
    const Step& step = block.steps[std::size_t(segment.begin)];
    if (segment.classes >= 0) {
      if (local_ != nullptr && local_->shares(step)) {
        run_effects(step, active);
        release(segment.release, active);
      } else {
        run_segment(block, segment, active);
      }
      continue;
    }
    if (const auto* exchange = std::get_if<Exchange>(&step.what)) {
      try {
        profiled_ ? run_profiled(step, *exchange, active) : run_exchange(step, *exchange, active);
      } catch (const RuntimeError& e) {
        // Exchanges don't know which op they are of.
        if (e.location().known() || !step.location.known()) throw;
        throw RuntimeError(step.name + ": " + e.message(), step.location);
      }
    } else if (const auto* loop = std::get_if<While>(&step.what)) {
      run_while(step, *loop, active);
    } else {
      run_conditional(step, std::get<Conditional>(step.what), active);
    }
    release(step.release, active);
  }
}

void PlanExecutor::run_segment(const Block& block, const Segment& segment,
                               const ActiveSet& active) {
  const ActiveSet::Classes who = active.of(segment.classes);
  const auto n = std::int64_t(who.size());
  const auto one_class = [&](std::int64_t i) {
    for (auto s = segment.begin; s < segment.end; ++s) {
      run_class(block.steps[std::size_t(s)], who.classes[std::size_t(i)],
                who.devices[std::size_t(i)]);
    }
  };
  if (workers_ == 1 || segment.nanoseconds * double(n) < kInlineNanoseconds) {
    for (std::int64_t i = 0; i < n; ++i) one_class(i);
  } else if (n >= workers_ && (n % workers_ == 0 || n >= 4 * workers_)) {
    // One worker runs all steps of a class: there are no barriers between steps, and only as many
    // classes have live temporaries as there are workers.
    parallel_for(n, [&](std::int64_t i) {
      const ProcessOfThread::Use use(process_);
      one_class(i);
    });
  } else {
    for (auto s = segment.begin; s < segment.end; ++s) {
      run_tiled(block.steps[std::size_t(s)], who);
    }
  }
  release(segment.release, active);
}

void PlanExecutor::prepare(const KernelTask& task, std::int32_t cls, std::int32_t device,
                           const std::byte** inputs, std::byte** outputs) {
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    inputs[i] = buffer_of(task.inputs[i], device)->data();
  }
  for (std::size_t o = 0; o < task.outputs.size(); ++o) outputs[o] = nullptr;
  for (const KernelTask::Reuse& reuse : task.reuse) {
    const auto o = std::size_t(reuse.output);
    if (!reuse.dies) continue;
    BufferRef& from = buffer(task.inputs[std::size_t(reuse.input)], cls);
    if (outputs[o] != nullptr || !from || !sole_owner(from)) continue;
    BufferRef& to = buffer(task.outputs[o], cls);
    to = std::move(from);
    outputs[o] = to->data();
  }
  for (std::size_t o = 0; o < task.outputs.size(); ++o) {
    if (outputs[o] != nullptr) continue;
    BufferRef& to = buffer(task.outputs[o], cls);
    to.reset();  // of an earlier trip
    to = allocate(slot(task.outputs[o]));
    outputs[o] = to->data();
    for (const KernelTask::Reuse& reuse : task.reuse) {
      if (reuse.copy && std::size_t(reuse.output) == o) {
        std::memcpy(outputs[o], inputs[reuse.input], to->bytes());
      }
    }
  }
}

void PlanExecutor::run_class(const Step& step, std::int32_t cls, std::int32_t device) {
  const auto& task = std::get<KernelTask>(step.what);
  const std::int64_t begin = profiled_ ? profiler::now() : 0;
  Pointers pointers(task.inputs.size(), task.outputs.size());
  prepare(task, cls, device, pointers.inputs(), pointers.outputs());
  const Kernel& kernel = plan_.kernels[std::size_t(task.kernel)];
  kernel.function({kernel.attributes.get(), pointers.inputs(), pointers.outputs(), 0, task.units});
  if (profiled_) record_kernel(step, device, begin, profiler::next_call());
  for (const SlotId s : step.release) buffer(s, cls).reset();
}

/// Whether what the kernel reads and writes is likely in this core's cache, and takes longer to
/// move to others and back than they would save.
bool PlanExecutor::moves_more(const KernelTask& task, std::int64_t n, double nanoseconds) const {
  constexpr double kOfByte = 0.15, kCache = 1 << 20;
  double bytes = 0;
  for (const SlotId s : task.inputs) bytes += double(slot(s).bytes);
  for (const SlotId s : task.outputs) bytes += double(slot(s).bytes);
  bytes *= double(n);
  return bytes < kCache && nanoseconds < kOfByte * bytes;
}

void PlanExecutor::run_tiled(const Step& step, const ActiveSet::Classes& who) {
  const auto& task = std::get<KernelTask>(step.what);
  const auto n = std::int64_t(who.size());
  if (n == 0) return;
  const double total = task.nanoseconds * double(n);
  // Enough tiles to balance the workers, but none so small that its overhead dominates.
  const double total_tiles = total < kInlineNanoseconds ? 1 : double(workers_) * (n == 1 ? 1 : 2);
  const auto per_class = std::min<std::int64_t>(
      {std::max<std::int64_t>(1, std::int64_t(total_tiles / double(n) + 0.999)), task.units,
       std::max<std::int64_t>(1, std::int64_t(task.nanoseconds / 5000))});
  if (n * per_class == 1 || total < kInlineNanoseconds || moves_more(task, n, total)) {
    for (std::size_t i = 0; i < who.size(); ++i) run_class(step, who.classes[i], who.devices[i]);
    return;
  }
  const std::size_t inputs = task.inputs.size(), outputs = task.outputs.size();
  std::vector<const std::byte*> in(std::size_t(n) * inputs);
  std::vector<std::byte*> out(std::size_t(n) * outputs);
  for (std::size_t i = 0; i < who.size(); ++i) {
    prepare(task, who.classes[i], who.devices[i], in.data() + i * inputs, out.data() + i * outputs);
  }
  const Kernel& kernel = plan_.kernels[std::size_t(task.kernel)];
  std::vector<std::uint64_t> calls(profiled_ ? std::size_t(n) : 0);
  for (std::uint64_t& call : calls) call = profiler::next_call();
  parallel_for(n * per_class, [&](std::int64_t k) {
    const ProcessOfThread::Use use(process_);
    const std::int64_t c = k / per_class, tile = k % per_class;
    const std::int64_t begin = profiled_ ? profiler::now() : 0;
    kernel.function({kernel.attributes.get(), in.data() + std::size_t(c) * inputs,
                     out.data() + std::size_t(c) * outputs, task.units * tile / per_class,
                     task.units * (tile + 1) / per_class});
    if (!profiled_) return;
    record_kernel(step, who.devices[std::size_t(c)], begin, calls[std::size_t(c)], tile, per_class);
  });
  for (const std::int32_t c : who.classes) {
    for (const SlotId s : step.release) buffer(s, c).reset();
  }
}

void PlanExecutor::release(const std::vector<SlotId>& slots, const ActiveSet& active) {
  for (const SlotId s : slots) {
    for (const std::int32_t c : active.of(slot(s).classes).classes) buffer(s, c).reset();
  }
}

void PlanExecutor::move(const std::vector<Move>& moves, const ActiveSet& active) {
  // All sources are read before any target is written: a loop may swap what it carries.
  std::vector<BufferRef> taken;
  for (const Move& m : moves) {
    if (m.from == m.to) continue;
    for (const std::int32_t d : active.of(slot(m.to).classes).devices) {
      taken.push_back(buffer_of(m.from, d));
    }
  }
  donate(moves, active);
  std::size_t next = 0;
  for (const Move& m : moves) {
    if (m.from == m.to) continue;
    for (const std::int32_t c : active.of(slot(m.to).classes).classes) {
      buffer(m.to, c) = std::move(taken[next++]);
    }
  }
}

void PlanExecutor::donate(const std::vector<Move>& moves, const ActiveSet& active) {
  for (const Move& m : moves) {
    if (!m.donate || m.from == m.to) continue;
    for (const std::int32_t c : active.of(slot(m.from).classes).classes) buffer(m.from, c).reset();
  }
}

void PlanExecutor::run_while(const Step& step, const While& loop, const ActiveSet& active) {
  if (run_apart(step, loop, active)) return;
  move(loop.init, active);
  ActiveSet inside = active;
  frames_.push_back({&step, &active, &inside});
  const ClassesId id = slot(loop.predicate).classes;
  const auto stays = [&](std::int32_t c) -> std::int32_t {
    return *buffer(loop.predicate, c)->data() != std::byte{0} ? 1 : 0;
  };
  const bool agrees = must_agree(step);
  std::vector<std::int32_t> agreed;
  for (;;) {
    run_block(loop.condition, inside);
    std::size_t stay = 0, all = 0;
    if (agrees) {
      agreed = agree(step, id, inside, stays);
      for (const std::int32_t choice : agreed) {
        stay += choice == 1 ? 1 : 0;
        all += choice >= 0 ? 1 : 0;
      }
    } else {
      const ActiveSet::Classes who = inside.of(id);
      for (const std::int32_t c : who.classes) stay += std::size_t(stays(c));
      all = who.size();
    }
    if (stay == 0) break;
    if (stay != all) {
      std::vector<std::uint8_t> on(std::size_t(plan_.num_devices));
      for (std::int32_t d = 0; d < plan_.num_devices; ++d) {
        if (!inside.contains(d) || (!agrees && !is_local(d))) continue;
        const std::int32_t c = classes(id).class_of[std::size_t(d)];
        on[std::size_t(d)] = std::uint8_t(agrees ? agreed[std::size_t(c)] : stays(c));
      }
      inside = ActiveSet(inside, std::move(on));
    }
    run_block(loop.body, inside);
    move(loop.next, inside);
  }
  frames_.pop_back();
}

void PlanExecutor::run_conditional(const Step& step, const Conditional& conditional,
                                   const ActiveSet& active) {
  const auto count = std::int32_t(conditional.branches.size());
  const DeviceClasses& relation = classes(slot(conditional.selector).classes);
  const auto choice = [&](std::int32_t cls) {
    const std::byte* data = buffer(conditional.selector, cls)->data();
    if (conditional.boolean) return *data != std::byte{0} ? 0 : 1;
    std::int32_t index;
    std::memcpy(&index, data, sizeof index);
    return index < 0 || index >= count ? count - 1 : index;
  };
  std::vector<ActiveSet> insides;
  const ClassesId id = slot(conditional.selector).classes;
  std::vector<std::int32_t> choices;  // of each class; -1: none
  if (must_agree(step)) {
    choices = agree(step, id, active, choice);
  } else {
    choices.resize(std::size_t(relation.count()), -1);
    for (const std::int32_t c : active.of(id).classes) choices[std::size_t(c)] = choice(c);
  }
  const auto made = std::find_if(choices.begin(), choices.end(), [](auto c) { return c >= 0; });
  if (made == choices.end()) return;  // no device of this process is active
  const std::int32_t first = *made;
  const bool together = std::all_of(choices.begin(), choices.end(),
                                    [&](std::int32_t c) { return c < 0 || c == first; });
  if (!together) {
    std::vector<std::vector<std::uint8_t>> on(
        std::size_t(count), std::vector<std::uint8_t>(std::size_t(plan_.num_devices)));
    for (std::int32_t d = 0; d < plan_.num_devices; ++d) {
      const std::int32_t c = choices[std::size_t(relation.class_of[std::size_t(d)])];
      if (active.contains(d) && c >= 0) on[std::size_t(c)][std::size_t(d)] = 1;
    }
    for (auto& o : on) insides.emplace_back(active, std::move(o));
  }
  const auto inside_of = [&](std::int32_t b) -> const ActiveSet* {
    if (together) return b == first ? &active : nullptr;
    return insides[std::size_t(b)].none() ? nullptr : &insides[std::size_t(b)];
  };
  // All branches take their operands before one of them may overwrite a shared one.
  for (std::int32_t b = 0; b < count; ++b) {
    if (const ActiveSet* inside = inside_of(b)) {
      std::vector<Move> copies = conditional.branches[std::size_t(b)].parameters;
      for (Move& m : copies) m.donate = false;
      move(copies, *inside);
    }
  }
  for (const Branch& branch : conditional.branches) donate(branch.parameters, active);
  for (std::int32_t b = 0; b < count; ++b) {
    const ActiveSet* inside = inside_of(b);
    if (inside == nullptr) continue;
    frames_.push_back({&step, &active, inside});
    const Branch& branch = conditional.branches[std::size_t(b)];
    run_block(branch.block, *inside);
    move(branch.results, *inside);
    frames_.pop_back();
  }
}

std::vector<std::vector<DeviceBuffer>> run(const Plan& plan,
                                           std::vector<std::vector<DeviceBuffer>> args,
                                           const RunOptions& options, RunCounters* counters) {
  const ScopedSubnormals flush(programs_flush_subnormals());
  LocalPlan* local = options.local;
  if (local != nullptr && !local->takes_part()) {
    return {plan.results.size(), std::vector<DeviceBuffer>(std::size_t(plan.num_devices))};
  }
  std::optional<Processes::Turn> turn;
  if (local != nullptr && local->takes_turn()) {
    turn.emplace(&local->processes(), Activity{"the run", local->name(), {}}, local->group());
  }
  try {
    if (turn) local->check_same();
    PlanExecutor executor(plan, local, counters);
    executor.load(args, options.check_replicas);
    executor.run();
    return executor.results(std::move(args));
  } catch (const std::exception& e) {
    if (turn) turn->fails_by(e.what());
    throw;
  }
}

void run_on_one(const Plan& plan, std::span<const DeviceBuffer* const> arguments,
                std::span<DeviceBuffer> results) {
  const ScopedSubnormals flush(programs_flush_subnormals());
  PlanExecutor executor(plan, arguments);
  executor.run();
  executor.results(arguments, results);
}

}  // namespace tessera::runtime
