// SPDX-License-Identifier: Apache-2.0
// Blocks with counts of their holders in place of handles; else as the executor does it.
#include "src/runtime/fixed_executor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <numeric>

#include "src/base/arrays/subnormals.h"
#include "src/base/check.h"
#include "src/runtime/block_bounds.h"
#include "src/runtime/plan_walk.h"

namespace tessera::runtime {
namespace {

constexpr std::size_t kAlignment = 64;

/// Bytes of whole cache lines.
template <class Integer>
Integer whole_lines(Integer bytes) {
  return (bytes + Integer(kAlignment) - 1) / Integer(kAlignment) * Integer(kAlignment);
}

bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0;
}

/// Whether what a parameter holds may get to a result.
bool passes_arguments(const Plan& plan) {
  std::vector<bool> given(plan.slots.size(), false);
  for (const SlotId s : plan.parameters) given[std::size_t(s)] = true;
  for (std::vector<bool> before; before != given;) {
    before = given;
    const auto moves = [&](const std::vector<Move>& all) {
      for (const Move& m : all) {
        if (given[std::size_t(m.from)]) given[std::size_t(m.to)] = true;
      }
    };
    for_each_step(plan.entry, [&](const Step& step) {
      if (const auto* loop = std::get_if<While>(&step.what)) {
        moves(loop->init);
        moves(loop->next);
      } else if (const auto* conditional = std::get_if<Conditional>(&step.what)) {
        for (const Branch& b : conditional->branches) {
          moves(b.parameters);
          moves(b.results);
        }
      }
    });
  }
  return std::any_of(plan.results.begin(), plan.results.end(),
                     [&](SlotId s) { return given[std::size_t(s)]; });
}

[[noreturn]] void refuse(const Step& step, const std::string& why) {
  throw NotImplementedError(step.name + " " + why, step.location);
}

}  // namespace

void check_fixed(const Plan& plan) {
  if (plan.num_devices != 1) {
    throw NotImplementedError("the program is for " + std::to_string(plan.num_devices) +
                              " devices, and can be run in fixed memory on one only");
  }
  for_each_step(plan.entry, [](const Step& step) {
    if (std::holds_alternative<Exchange>(step.what)) {
      refuse(step,
             "communicates, which takes memory while it runs; valid: a program for one device");
    }
    const KernelTask* task = task_of(step);
    if (task != nullptr && task->has_effects) {
      refuse(step,
             "has effects outside of the program, which may take memory and time; valid: a "
             "program of pure operations");
    }
  });
}

void FixedExecutor::FreeMemory::operator()(std::byte* data) const { std::free(data); }

FixedExecutor::FixedExecutor(const Plan& plan) : plan_(plan) {
  check_fixed(plan);
  passes_ = passes_arguments(plan);
  take_blocks();
  std::size_t inputs = 0, outputs = 0, moves = 0;
  for_each_step(plan.entry, [&](const Step& step) {
    if (const KernelTask* task = task_of(step)) {
      inputs = std::max(inputs, task->inputs.size());
      outputs = std::max(outputs, task->outputs.size());
    } else if (const auto* loop = std::get_if<While>(&step.what)) {
      moves = std::max({moves, loop->init.size(), loop->next.size()});
    } else if (const auto* conditional = std::get_if<Conditional>(&step.what)) {
      for (const Branch& b : conditional->branches) {
        moves = std::max({moves, b.parameters.size(), b.results.size()});
      }
    }
  });
  inputs_.resize(inputs);
  outputs_.resize(outputs);
  moved_.reserve(moves);
  rehearse();
  memory_.settle();
  rehearse();
}

FixedExecutor::~FixedExecutor() = default;

void FixedExecutor::take_blocks() {
  const BlockBounds bounds = bound_blocks(plan_);
  size_of_ = bounds.size_of;
  std::size_t count = 0;
  for (std::size_t s = 0; s < bounds.sizes.size(); ++s) {
    block_bytes_ += bounds.sizes[s] * bounds.counts[s];
    count += std::size_t(bounds.counts[s]);
  }
  for (const SlotId p : plan_.parameters) block_bytes_ += whole_lines(bytes_of(p));
  const auto all = std::max<std::size_t>(std::size_t(block_bytes_), kAlignment);
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, all)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, all);  // its pages are there
  std::byte* next = data_.get();
  blocks_.resize(count);
  free_.resize(bounds.sizes.size(), nullptr);
  std::size_t number = 0;
  for (std::size_t s = 0; s < bounds.sizes.size(); ++s) {
    for (std::int32_t k = 0; k < bounds.counts[s]; ++k) {
      BlockOfMemory& block = blocks_[number++];
      block = {next, 0, std::int32_t(s), free_[s]};
      free_[s] = &block;
      next += bounds.sizes[s];
    }
  }
  for (const SlotId p : plan_.parameters) {
    copies_.push_back(next);
    next += whole_lines(bytes_of(p));
  }
  held_.resize(plan_.slots.size(), nullptr);
  arguments_.resize(plan_.parameters.size());
  for (const Plan::Constant& c : plan_.constants) constants_.push_back({c.values.at(0)->data()});
}

void FixedExecutor::hold(SlotId to, Held block) {
  if (block != nullptr) ++block->holders;
  drop(to);
  held(to) = block;
}

void FixedExecutor::drop(SlotId slot) {
  Held& block = held(slot);
  if (block != nullptr && --block->holders == 0 && block->size >= 0) {
    block->next = free_[std::size_t(block->size)];
    free_[std::size_t(block->size)] = block;
  }
  block = nullptr;
}

void FixedExecutor::take(SlotId slot) {
  drop(slot);  // of an earlier trip
  Held& first = free_[std::size_t(size_of_[std::size_t(slot)])];
  TESSERA_CHECK(first != nullptr, "more blocks are live than were counted");
  Held block = first;
  first = block->next;
  block->holders = 1;
  held(slot) = block;
}

void FixedExecutor::start(const void* const* arguments) {
  drop_all();  // of a run that failed
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    BlockOfMemory& block = arguments_[i];
    block = {};
    if (is_aligned(arguments[i])) {
      block.data = const_cast<std::byte*>(static_cast<const std::byte*>(arguments[i]));
    } else {
      block.data = copies_[i];
      std::memcpy(block.data, arguments[i], std::size_t(bytes_of(plan_.parameters[i])));
    }
    hold(plan_.parameters[i], &block);
  }
  for (std::size_t c = 0; c < constants_.size(); ++c) {
    constants_[c].holders = 0;
    hold(plan_.constants[c].slot, &constants_[c]);
  }
}

void FixedExecutor::finish(void* const* results) {
  for (std::size_t i = 0; i < plan_.results.size(); ++i) {
    const SlotId s = plan_.results[i];
    if (results != nullptr && results[i] != held(s)->data) {
      std::memmove(results[i], held(s)->data, std::size_t(bytes_of(s)));
    }
  }
  drop_all();
}

void FixedExecutor::drop_all() {
  for (std::size_t s = 0; s < held_.size(); ++s) drop(SlotId(s));
}

bool FixedExecutor::passes_overwritten(const void* const* arguments, void* const* results) const {
  if (!passes_) return false;
  for (std::size_t r = 0; r < plan_.results.size(); ++r) {
    const auto* const to = static_cast<const std::byte*>(results[r]);
    for (std::size_t a = 0; a < plan_.parameters.size(); ++a) {
      const auto* const from = static_cast<const std::byte*>(arguments[a]);
      if (to < from + bytes_of(plan_.parameters[a]) && from < to + bytes_of(plan_.results[r])) {
        return true;
      }
    }
  }
  return false;
}

template <class F>
void FixedExecutor::in_memory(bool rehearses, const F& f) {
  const ScopedSubnormals flush(programs_flush_subnormals());
  bool failed = false, internal = false, no_memory = false;
  {
    const RunMemory::Use use(&memory_, rehearses);
    rehearses_ = rehearses;
    // What an error holds is of memory_, and stays there.
    const auto fails = [&](const char* text) {
      failed = true;
      std::snprintf(failure_.data(), failure_.size(), "%s", text);
    };
    try {
      f();
    } catch (const std::bad_alloc&) {
      no_memory = true;
    } catch (const InternalError& e) {
      internal = true;
      fails(e.message().c_str());
    } catch (const std::exception& e) {
      fails(e.what());
    }
    rehearses_ = false;
  }
  if (no_memory) throw std::bad_alloc();
  if (internal) throw InternalError(failure_.data());
  if (failed) throw RuntimeError(failure_.data());
}

void FixedExecutor::run(const void* const* arguments, void* const* results) {
  in_memory(/*rehearses=*/false, [&] {
    start(arguments);
    run_block(plan_.entry);
    finish(results);
  });
}

void FixedExecutor::rehearse() {
  std::size_t most = kAlignment;
  for (const SlotId p : plan_.parameters) most = std::max(most, std::size_t(bytes_of(p)));
  const std::size_t bytes = whole_lines(most);
  const std::unique_ptr<std::byte[], FreeMemory> zeros(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
  if (!zeros) throw std::bad_alloc();
  std::memset(zeros.get(), 0, bytes);
  const std::vector<const void*> arguments(plan_.parameters.size(), zeros.get());
  in_memory(/*rehearses=*/true, [&] {
    start(arguments.data());
    run_block(plan_.entry);
    finish(nullptr);
  });
}

void FixedExecutor::run_block(const Block& block) {
  for (const Segment& segment : block.segments) {
    for (std::int32_t n = segment.begin; n < segment.end; ++n) {
      const Step& step = block.steps[std::size_t(n)];
      run_step(step);
      for (const SlotId s : step.release) drop(s);
    }
    for (const SlotId s : segment.release) drop(s);
  }
}

void FixedExecutor::run_step(const Step& step) {
  if (const KernelTask* task = task_of(step)) return run_task(*task);
  if (const auto* loop = std::get_if<While>(&step.what)) return run_loop(*loop);
  run_conditional(std::get<Conditional>(step.what));
}

void FixedExecutor::prepare(const KernelTask& task) {
  for (std::size_t i = 0; i < task.inputs.size(); ++i) inputs_[i] = held(task.inputs[i])->data;
  std::fill_n(outputs_.begin(), task.outputs.size(), nullptr);
  for (const KernelTask::Reuse& reuse : task.reuse) {
    const auto o = std::size_t(reuse.output);
    const SlotId from = task.inputs[std::size_t(reuse.input)];
    const Held block = held(from);
    if (!reuse.dies || outputs_[o] != nullptr || block == nullptr || block->size < 0 ||
        block->holders != 1) {
      continue;
    }
    hold(task.outputs[o], block);
    drop(from);
    outputs_[o] = block->data;
  }
  for (std::size_t o = 0; o < task.outputs.size(); ++o) {
    if (outputs_[o] != nullptr) continue;
    take(task.outputs[o]);
    outputs_[o] = held(task.outputs[o])->data;
    for (const KernelTask::Reuse& reuse : task.reuse) {
      if (reuse.copy && std::size_t(reuse.output) == o) {
        std::memcpy(outputs_[o], inputs_[std::size_t(reuse.input)],
                    std::size_t(bytes_of(task.outputs[o])));
      }
    }
  }
}

void FixedExecutor::run_task(const KernelTask& task) {
  prepare(task);
  const Kernel& kernel = plan_.kernels[std::size_t(task.kernel)];
  kernel.function({kernel.attributes.get(), inputs_.data(), outputs_.data(), 0, task.units});
}

void FixedExecutor::donate(const std::vector<Move>& moves) {
  for (const Move& m : moves) {
    if (m.donate && m.from != m.to) drop(m.from);
  }
}

void FixedExecutor::move(const std::vector<Move>& moves, bool donates) {
  // All sources are read before any target is written: a loop may swap what it carries.
  moved_.clear();
  for (const Move& m : moves) {
    if (m.from == m.to) continue;
    const Held block = held(m.from);
    ++block->holders;
    moved_.push_back(block);
  }
  if (donates) donate(moves);
  std::size_t next = 0;
  for (const Move& m : moves) {
    if (m.from == m.to) continue;
    drop(m.to);
    held(m.to) = moved_[next++];
  }
}

void FixedExecutor::run_loop(const While& loop) {
  move(loop.init, /*donates=*/true);
  for (;;) {
    run_block(loop.condition);
    const bool stays = *held(loop.predicate)->data != std::byte{0};
    if (!stays && !rehearses_) return;
    run_block(loop.body);
    move(loop.next, /*donates=*/true);
    if (rehearses_) return;
  }
}

void FixedExecutor::run_branch(const Branch& branch) {
  run_block(branch.block);
  move(branch.results, /*donates=*/true);
}

void FixedExecutor::run_conditional(const Conditional& conditional) {
  const auto count = std::int32_t(conditional.branches.size());
  if (rehearses_) {
    for (const Branch& b : conditional.branches) move(b.parameters, /*donates=*/false);
    for (const Branch& b : conditional.branches) donate(b.parameters);
    for (const Branch& b : conditional.branches) run_branch(b);
    return;
  }
  const std::byte* const selector = held(conditional.selector)->data;
  std::int32_t choice = *selector != std::byte{0} ? 0 : 1;
  if (!conditional.boolean) {
    std::memcpy(&choice, selector, sizeof choice);
    if (choice < 0 || choice >= count) choice = count - 1;
  }
  const Branch& branch = conditional.branches[std::size_t(choice)];
  move(branch.parameters, /*donates=*/false);
  for (const Branch& b : conditional.branches) donate(b.parameters);
  run_branch(branch);
}

}  // namespace tessera::runtime
