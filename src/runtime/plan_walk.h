// SPDX-License-Identifier: Apache-2.0
// One walk over a plan: its blocks, its steps, and the slots that a step reads and writes.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "src/runtime/plan.h"

namespace tessera::runtime {

/// The kernel that a step runs; null: it is something else.
inline const KernelTask* task_of(const Step& step) { return std::get_if<KernelTask>(&step.what); }
inline KernelTask* task_of(Step& step) { return std::get_if<KernelTask>(&step.what); }
inline bool is_loop(const Step& step) { return std::holds_alternative<While>(step.what); }

/// Calls f with each block of a step: condition and body of a loop, what branches do.
template <class StepLike, class F>
void for_each_block(StepLike& step, F&& f) {
  if (auto* loop = std::get_if<While>(&step.what)) {
    f(loop->condition);
    f(loop->body);
  } else if (auto* conditional = std::get_if<Conditional>(&step.what)) {
    for (auto& branch : conditional->branches) f(branch.block);
  }
}

/// Calls f with a block and with those in its steps, these first, and with whether a loop runs it.
/// f may change the steps of the block that it gets.
template <class F>
void for_each_inner_block(Block& block, F&& f, bool in_loop = false) {
  for (Step& step : block.steps) {
    for_each_block(step, [&](Block& b) { for_each_inner_block(b, f, in_loop || is_loop(step)); });
  }
  f(block, in_loop);
}

/// Calls f with a step and those in it, or with all those of a block: each before what is in it.
template <class BlockOrStep, class F>
void for_each_step(BlockOrStep& in, F&& f) {
  if constexpr (std::is_same_v<std::remove_const_t<BlockOrStep>, Step>) {
    f(in);
    for_each_block(in, [&](auto& block) { for_each_step(block, f); });
  } else {
    for (auto& step : in.steps) for_each_step(step, f);
  }
}

/// Calls f with each slot that a step reads by itself; those in it do so for themselves. A slot
/// that is read twice comes twice.
template <class StepLike, class F>
void for_each_read(StepLike& step, F&& f) {
  const auto from = [&](auto& moves) {
    for (auto& move : moves) f(move.from);
  };
  if (auto* task = std::get_if<KernelTask>(&step.what)) {
    for (auto& s : task->inputs) f(s);
  } else if (auto* exchange = std::get_if<Exchange>(&step.what)) {
    for (auto& part : exchange->parts) f(part.input);
  } else if (auto* loop = std::get_if<While>(&step.what)) {
    from(loop->init);
    f(loop->predicate);
    from(loop->next);
  } else if (auto* conditional = std::get_if<Conditional>(&step.what)) {
    f(conditional->selector);
    for (auto& branch : conditional->branches) {
      from(branch.parameters);
      from(branch.results);
    }
  }
}

/// The same for what it writes.
template <class StepLike, class F>
void for_each_write(StepLike& step, F&& f) {
  const auto to = [&](auto& moves) {
    for (auto& move : moves) f(move.to);
  };
  if (auto* task = std::get_if<KernelTask>(&step.what)) {
    for (auto& s : task->outputs) f(s);
  } else if (auto* exchange = std::get_if<Exchange>(&step.what)) {
    for (auto& part : exchange->parts) f(part.output);
  } else if (auto* loop = std::get_if<While>(&step.what)) {
    to(loop->init);
    to(loop->next);
  } else if (auto* conditional = std::get_if<Conditional>(&step.what)) {
    for (auto& branch : conditional->branches) {
      to(branch.parameters);
      to(branch.results);
    }
  }
}

}  // namespace tessera::runtime
