// SPDX-License-Identifier: Apache-2.0
// Scans become while loops: see expand_scans.h.
#include "src/passes/control/expand_scans.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/ir/cloner.h"
#include "src/ir/post_order.h"
#include "src/ir/rewrite/patterns.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

/// "scan" of a step named "scan.step".
std::string base_name(const Computation& step) {
  return step.name().substr(0, step.name().find('.'));
}

/// A computation with one tuple parameter, and the parameter's elements.
struct LoopComputation {
  ir::Builder builder;
  std::vector<Instruction*> elements;

  LoopComputation(const Instruction& scan, const char* suffix, const Shape& state)
      : builder(scan.parent->module()->add_computation(base_name(*scan.called(0)) + suffix)) {
    builder.metadata = scan.metadata;
    Instruction* parameter = builder.parameter(0, state);
    for (std::size_t k = 0; k < state.elements.size(); ++k) {
      elements.push_back(builder.get_tuple_element(parameter, std::int64_t(k)));
    }
  }
  void finish(Instruction* root) {
    builder.computation()->set_root(root);
    builder.computation()->remove_dead();
  }
};

/// A carry that counts by one from `start`.
struct Counter {
  std::size_t carry = 0;
  std::int64_t start = 0;
};

/// That unrolling may make of a step: what takes longer to compile than it saves.
constexpr double kMaxUnrolledInstructions = 1e6;

class ScanExpansion {
 public:
  explicit ScanExpansion(Instruction* scan)
      : scan_(*scan),
        attrs_(scan->get<ir::ScanAttrs>()),
        step_(*scan->called(0)),
        carries_(std::size_t(attrs_.carries)),
        constants_(std::size_t(attrs_.constants)),
        inputs_(scan->operands().size() - carries_ - constants_),
        outputs_(scan->shape.elements.size() - carries_),
        unroll_(std::min(attrs_.unroll, attrs_.length)),
        in_loop_(unroll_ > 0 ? attrs_.length / unroll_ * unroll_ : 0),
        out_(scan->parent) {
    out_.metadata = scan->metadata;
    const double made = double(unroll_) * double(step_.instructions().size());
    if (unroll_ > 1 && made > kMaxUnrolledInstructions) {
      throw CompileError(
          scan->describe() + " unrolls " + std::to_string(unroll_) + " steps of " +
              std::to_string(step_.instructions().size()) + " instructions each; valid are " +
              std::to_string(std::int64_t(kMaxUnrolledInstructions)) + " instructions in all",
          scan->location());
    }
  }

  /// Appends the loop to the scan's computation, and has the scan's users use it.
  void run() {
    // A loop can wait for others.
    const bool all = attrs_.unroll > 1 && unroll_ == attrs_.length;
    if (attrs_.length == 0 || (all && scan_.control_predecessors().empty())) {
      give_steps();
    } else if (const std::optional<Counter> counter = own_counter()) {
      count_by(*counter);
    } else {
      count();
    }
  }

 private:
  Instruction* input(std::size_t k) const { return scan_.operand(k); }
  Instruction* carry(std::size_t k) const { return scan_.operand(inputs_ + k); }
  Instruction* constant(std::size_t k) const { return scan_.operand(inputs_ + carries_ + k); }
  Instruction* zeros(std::size_t output) {
    const Shape& whole = scan_.shape.elements[output];
    return out_.splat(out_.zero(whole.dtype), whole.dims);
  }

  /// Whoever reads result k of the scan reads element `elements[k]` of the loop.
  void give(Instruction* loop, const std::vector<std::size_t>& elements) {
    bool whole = scan_.parent->root() == &scan_ || !scan_.control_successors().empty();
    for (Instruction* user : scan_.users()) {
      if (!user->is(Opcode::get_tuple_element)) {
        whole = true;
        continue;
      }
      auto& index = user->edit<ir::GetTupleElementAttrs>().index;
      if (scan_.has_sharding() && !user->has_sharding()) {
        user->sharding = {scan_.sharding[std::size_t(index)]};
      }
      index = std::int64_t(elements[std::size_t(index)]);
      user->set_operand(0, loop);
    }
    if (!whole) return;
    std::vector<Instruction*> all;
    for (const std::size_t e : elements) {
      all.push_back(out_.get_tuple_element(loop, std::int64_t(e)));
    }
    Instruction* tuple = out_.tuple(all);
    tuple->sharding = scan_.sharding;
    scan_.replace_all_uses_with(tuple);
  }

  /// Whoever reads result k of the scan reads `results[k]`.
  void give_results(const std::vector<Instruction*>& results) {
    Instruction* tuple = out_.tuple(results);
    tuple->sharding = scan_.sharding;
    scan_.replace_all_uses_with(tuple);
    for (Instruction* user : tuple->users()) {
      const bool stated = scan_.has_sharding() || user->has_sharding();
      if (!user->is(Opcode::get_tuple_element) || stated) continue;
      const std::int64_t index = user->get<ir::GetTupleElementAttrs>().index;
      user->replace_all_uses_with(results[std::size_t(index)]);
    }
  }

  /// All steps one after the other, without a loop: slices of outputs are joined. Without a step
  /// the carries are what they were.
  void give_steps() {
    std::vector<Instruction*> carried;
    for (std::size_t k = 0; k < carries_; ++k) carried.push_back(carry(k));
    std::vector<std::vector<Instruction*>> rows(outputs_);
    for (std::int64_t step = 0; step < attrs_.length; ++step) {
      const std::vector<Instruction*> results = step_outside(step, &carried);
      for (std::size_t y = 0; y < outputs_; ++y) {
        rows[y].push_back(out_.reshape(results[y], dims_of_row(y)));
      }
    }
    std::vector<Instruction*> results;
    for (std::size_t y = 0; y < outputs_; ++y) {
      if (attrs_.reverse) std::reverse(rows[y].begin(), rows[y].end());
      results.push_back(rows[y].empty()       ? zeros(y)
                        : rows[y].size() == 1 ? rows[y][0]
                                              : out_.concatenate(rows[y], attrs_.dim));
    }
    results.insert(results.end(), carried.begin(), carried.end());
    give_results(results);
  }

  /// The slice that a step is about.
  std::int64_t place_of(std::int64_t step) const {
    return attrs_.reverse ? attrs_.length - 1 - step : step;
  }
  /// Of one slice of an output, stacked.
  Dims dims_of_row(std::size_t y) const {
    Dims dims = scan_.shape.elements[y].dims;
    dims[std::size_t(attrs_.dim)] = 1;
    return dims;
  }

  /// A step whose number is known, in the scan's own computation. Returns its results; the carries
  /// move on.
  std::vector<Instruction*> step_outside(std::int64_t step, std::vector<Instruction*>* carried) {
    const std::int64_t at = place_of(step);
    std::vector<Instruction*> arguments;
    for (std::size_t x = 0; x < inputs_; ++x) {
      Dims from(input(x)->shape.dims.size(), 0), to = input(x)->shape.dims;
      from[std::size_t(attrs_.dim)] = at;
      to[std::size_t(attrs_.dim)] = at + 1;
      Instruction* slice = out_.slice(input(x), from, to);
      arguments.push_back(out_.reshape(slice, step_.parameter(x)->shape.dims));
    }
    arguments.insert(arguments.end(), carried->begin(), carried->end());
    for (std::size_t c = 0; c < constants_; ++c) arguments.push_back(constant(c));
    std::vector<Instruction*> results = results_of_step(out_, arguments);
    carried->assign(results.begin() + std::ptrdiff_t(outputs_), results.end());
    return results;
  }

  /// The loop's results; steps that it leaves over follow it. `elements`: outputs, then carries.
  void give_loop(Instruction* loop, const std::vector<std::size_t>& elements) {
    if (in_loop_ == attrs_.length) return give(loop, elements);
    std::vector<Instruction*> stacked, carried;
    for (std::size_t k = 0; k < elements.size(); ++k) {
      Instruction* element = out_.get_tuple_element(loop, std::int64_t(elements[k]));
      (k < outputs_ ? stacked : carried).push_back(element);
    }
    for (std::int64_t step = in_loop_; step < attrs_.length; ++step) {
      const std::vector<Instruction*> results = step_outside(step, &carried);
      for (std::size_t y = 0; y < outputs_; ++y) {
        Instruction* at = out_.constant(Literal::scalar(counter_type(), place_of(step)));
        Instruction* row = out_.reshape(results[y], dims_of_row(y));
        stacked[y] =
            out_.dynamic_update_slice(stacked[y], row, starts(out_, at, row->shape.dims.size()));
      }
    }
    stacked.insert(stacked.end(), carried.begin(), carried.end());
    give_results(stacked);
  }

  /// Only if nothing needs to know which slice it is.
  std::optional<Counter> own_counter() const {
    if (inputs_ > 0 || outputs_ > 0 || !step_.root()->is(Opcode::tuple)) return std::nullopt;
    for (std::size_t k = 0; k < carries_; ++k) {
      const Instruction* next = step_.root()->operand(k);
      if (!next->is(Opcode::add) || next->operand(0) != step_.parameter(k) ||
          ir::known_integer(*next->operand(1)) != 1) {
        continue;
      }
      const auto start = ir::known_integer(*carry(k));
      if (!start || *start > std::numeric_limits<std::int64_t>::max() - attrs_.length) continue;
      const std::int64_t limit = *start + attrs_.length;
      // A type that can't count so far wraps around.
      const Literal as_type = Literal::scalar(next->shape.dtype, limit);
      if (to_scalar<std::int64_t>(as_type) == limit) return Counter{k, *start};
    }
    return std::nullopt;
  }

  /// state: carries, constants
  void count_by(const Counter& counter) {
    const std::vector<Instruction*>& state = scan_.operands();
    Instruction* packed = out_.tuple(state);
    LoopComputation condition(scan_, ".cond", packed->shape);
    Instruction* at = condition.elements[counter.carry];
    condition.finish(condition.builder.compare(
        ir::Direction::lt, at,
        condition.builder.constant(Literal::scalar(at->shape.dtype, counter.start + in_loop_))));

    LoopComputation body(scan_, ".body", packed->shape);
    ir::Builder& in = body.builder;
    Instruction* count = body.elements[counter.carry];
    const auto after = [&](std::int64_t steps) {
      return in.binary(Opcode::add, count, in.constant(Literal::scalar(count->shape.dtype, steps)));
    };
    std::vector<Instruction*> next = body.elements;
    for (std::int64_t step = 0; step < unroll_; ++step) {
      // Each counts from the loop's counter, which then counts by what it is plain to see.
      if (step > 0) next[counter.carry] = after(step);
      const std::vector<Instruction*> results = results_of_step(in, next);
      std::copy(results.begin(), results.end(), next.begin());
    }
    if (unroll_ > 1) next[counter.carry] = after(unroll_);
    body.finish(in.tuple(next));
    std::vector<std::size_t> elements;
    for (std::size_t k = 0; k < carries_; ++k) elements.push_back(k);
    give_loop(loop(condition, body, packed), elements);
  }

  /// state: counter, carries, outputs, inputs, constants
  void count() {
    const DType type = counter_type();
    std::vector<Instruction*> state{out_.scalar(type, 0)};
    for (std::size_t k = 0; k < carries_; ++k) state.push_back(carry(k));
    for (std::size_t y = 0; y < outputs_; ++y) state.push_back(zeros(y));
    for (std::size_t x = 0; x < inputs_; ++x) state.push_back(input(x));
    for (std::size_t c = 0; c < constants_; ++c) state.push_back(constant(c));
    Instruction* packed = out_.tuple(state);

    LoopComputation condition(scan_, ".cond", packed->shape);
    condition.finish(
        condition.builder.compare(ir::Direction::lt, condition.elements[0],
                                  condition.builder.constant(Literal::scalar(type, in_loop_))));

    LoopComputation body(scan_, ".body", packed->shape);
    ir::Builder& in = body.builder;
    const auto element = [&](std::size_t k) { return body.elements[k]; };
    Instruction* counter = element(0);
    const auto place = [&](std::int64_t step) {
      if (attrs_.reverse) {
        return in.binary(Opcode::subtract, in.constant(Literal::scalar(type, place_of(step))),
                         counter);
      }
      return step == 0 ? counter
                       : in.binary(Opcode::add, counter, in.constant(Literal::scalar(type, step)));
    };
    const std::size_t first_output = 1 + carries_, first_input = first_output + outputs_;
    std::vector<Instruction*> carried, stacked;
    for (std::size_t k = 0; k < carries_; ++k) carried.push_back(element(1 + k));
    for (std::size_t y = 0; y < outputs_; ++y) stacked.push_back(element(first_output + y));
    Instruction* next_counter = nullptr;
    for (std::int64_t step = 0; step < unroll_; ++step) {
      Instruction* at = place(step);
      std::vector<Instruction*> arguments;
      for (std::size_t x = 0; x < inputs_; ++x) {
        Instruction* whole = element(first_input + x);
        Dims sizes = whole->shape.dims;
        sizes[std::size_t(attrs_.dim)] = 1;
        Instruction* slice = in.dynamic_slice(whole, starts(in, at, sizes.size()), sizes);
        arguments.push_back(in.reshape(slice, step_.parameter(x)->shape.dims));
      }
      arguments.insert(arguments.end(), carried.begin(), carried.end());
      for (std::size_t c = 0; c < constants_; ++c) {
        arguments.push_back(element(first_input + inputs_ + c));
      }
      const std::vector<Instruction*> results = results_of_step(in, arguments);
      if (step == 0) {
        next_counter = in.binary(Opcode::add, counter, in.constant(Literal::scalar(type, unroll_)));
      }
      carried.assign(results.begin() + std::ptrdiff_t(outputs_), results.end());
      for (std::size_t y = 0; y < outputs_; ++y) {
        const std::vector<Instruction*> start = starts(in, at, dims_of_row(y).size());
        stacked[y] =
            in.dynamic_update_slice(stacked[y], in.reshape(results[y], dims_of_row(y)), start);
      }
    }
    std::vector<Instruction*> next{next_counter};
    next.insert(next.end(), carried.begin(), carried.end());
    next.insert(next.end(), stacked.begin(), stacked.end());
    for (std::size_t k = first_input; k < body.elements.size(); ++k) next.push_back(element(k));
    body.finish(in.tuple(next));

    std::vector<std::size_t> elements;
    for (std::size_t y = 0; y < outputs_; ++y) elements.push_back(first_output + y);
    for (std::size_t k = 0; k < carries_; ++k) elements.push_back(1 + k);
    give_loop(loop(condition, body, packed), elements);
  }

  /// The slices of most loops are numbered by s32, as JAX does it.
  DType counter_type() const {
    return attrs_.length > std::numeric_limits<std::int32_t>::max() ? DType::s64 : DType::s32;
  }

  std::vector<Instruction*> starts(ir::Builder& in, Instruction* at, std::size_t rank) const {
    std::vector<Instruction*> out;
    for (std::size_t d = 0; d < rank; ++d) {
      out.push_back(d == std::size_t(attrs_.dim) ? at : in.zero(at->shape.dtype));
    }
    return out;
  }

  std::vector<Instruction*> results_of_step(ir::Builder& in,
                                            const std::vector<Instruction*>& arguments) const {
    Instruction* root = ir::inline_computation(in.computation(), step_, arguments);
    if (root->is(Opcode::tuple)) return root->operands();
    std::vector<Instruction*> out;
    for (std::size_t k = 0; k < root->shape.elements.size(); ++k) {
      out.push_back(in.get_tuple_element(root, std::int64_t(k)));
    }
    return out;
  }

  Instruction* loop(const LoopComputation& condition, const LoopComputation& body,
                    Instruction* packed) {
    Instruction* made = out_.while_loop(condition.builder.computation(), body.builder.computation(),
                                        packed, in_loop_ / unroll_);
    made->frontend_attributes = scan_.frontend_attributes;
    made->set_control_predecessors(scan_.control_predecessors());
    return made;
  }

  Instruction& scan_;
  const ir::ScanAttrs attrs_;
  const Computation& step_;
  const std::size_t carries_, constants_, inputs_, outputs_;
  const std::int64_t unroll_;   ///< steps in a trip
  const std::int64_t in_loop_;  ///< steps in all trips; the others follow the loop
  ir::Builder out_;
};

bool expand(Instruction& scan, ir::PatternRewriter& r) {
  ScanExpansion(&scan).run();
  r.erase(&scan);
  return true;
}

std::size_t expand_scans_of(const std::vector<Computation*>& callees_first) {
  static const auto& patterns = ir::keep(ir::PatternSet("expand-scans").add(Opcode::scan, expand));
  std::size_t count = 0;
  for (Computation* c : callees_first) {
    count += ir::walk_and_apply_patterns(c, patterns, ir::InsertionPoint::in_place);
  }
  return count;
}

}  // namespace

std::size_t expand_scans(ir::Module* module) {
  const std::size_t count = expand_scans_of(ir::post_order({module->entry()}));
  if (count > 0) module->remove_dead_computations();
  return count;
}

std::size_t expand_scans_in(ir::Computation* computation) {
  return expand_scans_of(ir::post_order({computation}));
}

}  // namespace tessera::passes
