// SPDX-License-Identifier: Apache-2.0
// Scans become while loops: see expand_scans.h.
#include "src/passes/expand_scans.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/literal_util.h"
#include "src/ir/cloner.h"
#include "src/ir/post_order.h"
#include "src/ir/rewrite/builder.h"
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

/// A carry that counts by one, below `limit`.
struct Counter {
  std::size_t carry = 0;
  std::int64_t limit = 0;
};

class Expansion {
 public:
  explicit Expansion(Instruction* scan)
      : scan_(*scan),
        attrs_(scan->get<ir::ScanAttrs>()),
        step_(*scan->called(0)),
        carries_(std::size_t(attrs_.carries)),
        constants_(std::size_t(attrs_.constants)),
        inputs_(scan->operands().size() - carries_ - constants_),
        outputs_(scan->shape.elements.size() - carries_),
        out_(scan->parent) {
    out_.metadata = scan->metadata;
  }

  /// Appends the loop to the scan's computation, and has the scan's users use it.
  void run() {
    if (attrs_.length == 0) {
      give_carries();
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

  /// No steps: nothing is stacked, and the carries are what they were.
  void give_carries() {
    std::vector<Instruction*> results;
    for (std::size_t y = 0; y < outputs_; ++y) results.push_back(zeros(y));
    for (std::size_t k = 0; k < carries_; ++k) results.push_back(carry(k));
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
      if (to_scalar<std::int64_t>(as_type) == limit) return Counter{k, limit};
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
        condition.builder.constant(Literal::scalar(at->shape.dtype, counter.limit))));

    LoopComputation body(scan_, ".body", packed->shape);
    std::vector<Instruction*> next = results_of_step(body, body.elements);
    next.insert(next.end(), body.elements.begin() + std::ptrdiff_t(carries_), body.elements.end());
    body.finish(body.builder.tuple(next));
    std::vector<std::size_t> elements;
    for (std::size_t k = 0; k < carries_; ++k) elements.push_back(k);
    give(loop(condition, body, packed), elements);
  }

  /// state: counter, carries, outputs, inputs, constants
  void count() {
    // The slices of most loops are numbered by s32, as JAX does it.
    const DType type =
        attrs_.length > std::numeric_limits<std::int32_t>::max() ? DType::s64 : DType::s32;
    std::vector<Instruction*> state{out_.scalar(type, 0)};
    for (std::size_t k = 0; k < carries_; ++k) state.push_back(carry(k));
    for (std::size_t y = 0; y < outputs_; ++y) state.push_back(zeros(y));
    for (std::size_t x = 0; x < inputs_; ++x) state.push_back(input(x));
    for (std::size_t c = 0; c < constants_; ++c) state.push_back(constant(c));
    Instruction* packed = out_.tuple(state);

    LoopComputation condition(scan_, ".cond", packed->shape);
    condition.finish(condition.builder.compare(
        ir::Direction::lt, condition.elements[0],
        condition.builder.constant(Literal::scalar(type, attrs_.length))));

    LoopComputation body(scan_, ".body", packed->shape);
    ir::Builder& in = body.builder;
    const auto element = [&](std::size_t k) { return body.elements[k]; };
    Instruction* counter = element(0);
    Instruction* at = counter;
    if (attrs_.reverse) {
      at = in.binary(Opcode::subtract, in.constant(Literal::scalar(type, attrs_.length - 1)),
                     counter);
    }
    const std::size_t first_output = 1 + carries_, first_input = first_output + outputs_;
    std::vector<Instruction*> arguments;
    for (std::size_t x = 0; x < inputs_; ++x) {
      Instruction* whole = element(first_input + x);
      Dims sizes = whole->shape.dims;
      sizes[std::size_t(attrs_.dim)] = 1;
      Instruction* slice = in.dynamic_slice(whole, starts(in, at, sizes.size()), sizes);
      arguments.push_back(in.reshape(slice, step_.parameter(x)->shape.dims));
    }
    for (std::size_t k = 0; k < carries_; ++k) arguments.push_back(element(1 + k));
    for (std::size_t c = 0; c < constants_; ++c) {
      arguments.push_back(element(first_input + inputs_ + c));
    }
    const std::vector<Instruction*> results = results_of_step(body, arguments);
    std::vector<Instruction*> next{
        in.binary(Opcode::add, counter, in.constant(Literal::scalar(type, 1)))};
    next.insert(next.end(), results.begin() + std::ptrdiff_t(outputs_), results.end());
    for (std::size_t y = 0; y < outputs_; ++y) {
      Instruction* stacked = element(first_output + y);
      Dims dims = stacked->shape.dims;
      dims[std::size_t(attrs_.dim)] = 1;
      const std::vector<Instruction*> start = starts(in, at, dims.size());
      next.push_back(in.dynamic_update_slice(stacked, in.reshape(results[y], dims), start));
    }
    for (std::size_t k = first_input; k < body.elements.size(); ++k) next.push_back(element(k));
    body.finish(in.tuple(next));

    std::vector<std::size_t> elements;
    for (std::size_t y = 0; y < outputs_; ++y) elements.push_back(first_output + y);
    for (std::size_t k = 0; k < carries_; ++k) elements.push_back(1 + k);
    give(loop(condition, body, packed), elements);
  }

  std::vector<Instruction*> starts(ir::Builder& in, Instruction* at, std::size_t rank) const {
    std::vector<Instruction*> out;
    for (std::size_t d = 0; d < rank; ++d) {
      out.push_back(d == std::size_t(attrs_.dim) ? at : in.zero(at->shape.dtype));
    }
    return out;
  }

  std::vector<Instruction*> results_of_step(LoopComputation& body,
                                            const std::vector<Instruction*>& arguments) const {
    Instruction* root = ir::inline_computation(body.builder.computation(), step_, arguments);
    if (root->is(Opcode::tuple)) return root->operands();
    std::vector<Instruction*> out;
    for (std::size_t k = 0; k < root->shape.elements.size(); ++k) {
      out.push_back(body.builder.get_tuple_element(root, std::int64_t(k)));
    }
    return out;
  }

  Instruction* loop(const LoopComputation& condition, const LoopComputation& body,
                    Instruction* packed) {
    Instruction* made = out_.while_loop(condition.builder.computation(), body.builder.computation(),
                                        packed, attrs_.length);
    made->frontend_attributes = scan_.frontend_attributes;
    made->set_control_predecessors(scan_.control_predecessors());
    return made;
  }

  Instruction& scan_;
  const ir::ScanAttrs attrs_;
  const Computation& step_;
  const std::size_t carries_, constants_, inputs_, outputs_;
  ir::Builder out_;
};

std::size_t expand_in(Computation* computation) {
  std::vector<Instruction*> scans;
  for (const auto& i : computation->instructions()) {
    if (i->is(Opcode::scan)) scans.push_back(i.get());
  }
  if (scans.empty()) return 0;
  const std::size_t before = computation->instructions().size();
  std::unordered_map<const Instruction*, std::pair<std::size_t, std::size_t>> made;
  for (Instruction* scan : scans) {
    const std::size_t from = computation->instructions().size();
    Expansion(scan).run();
    made[scan] = {from, computation->instructions().size()};
  }
  // Each loop stands where its scan stood.
  std::vector<Instruction*> order;
  for (std::size_t n = 0; n < before; ++n) {
    Instruction* i = computation->instructions()[n].get();
    if (const auto found = made.find(i); found != made.end()) {
      for (std::size_t k = found->second.first; k < found->second.second; ++k) {
        order.push_back(computation->instructions()[k].get());
      }
    }
    order.push_back(i);
  }
  computation->set_order(order);
  computation->erase(scans);
  computation->remove_dead();
  return scans.size();
}

std::size_t expand_in(const std::vector<Computation*>& callees_first) {
  std::size_t count = 0;
  for (Computation* c : callees_first) count += expand_in(c);
  return count;
}

}  // namespace

std::size_t expand_scans(ir::Module* module) {
  const std::size_t count = expand_in(ir::post_order({module->entry()}));
  if (count > 0) module->remove_dead_computations();
  return count;
}

std::size_t expand_scans_in(ir::Computation* computation) {
  return expand_in(ir::post_order({computation}));
}

}  // namespace tessera::passes
