// SPDX-License-Identifier: Apache-2.0
// custom_vmap and sequential_vmap: calls that say what they are on a batch.
#include <tessera/custom/custom_batching.h>

#include "src/frontend/derivatives/custom_rule.h"
#include "src/ir/hooks.h"

namespace tessera::internal {

using frontend::AbstractValue;
using ir::Instruction;

namespace {

Shape of_batch(Shape entry, bool batched, std::int64_t size) {
  if (batched) entry.dims.insert(entry.dims.begin(), size);
  return Shape(entry.dtype, entry.dims);
}

/// The op's operands are captures and then the leaves of arguments.
class VmapRule final : public ir::BatchingRule {
 public:
  VmapRule(FlatVmapRule rule, std::string name, Location location, frontend::Captures captures,
           std::vector<Shape> results)
      : rule_(std::move(rule)),
        name_(std::move(name)),
        location_(location),
        captures_(std::move(captures)),
        results_(std::move(results)) {}

  std::string name() const override { return name_; }
  bool sequential() const override { return rule_.rule == nullptr; }

  Batched batch(const Instruction& op, std::int64_t size,
                const std::vector<bool>& batched) override {
    std::vector<AbstractValue> values;
    for (std::size_t k = 0; k < batched.size(); ++k) {
      if (k < captures_.size() && batched[k]) {
        throw ValueError(name_ + " captures an array, " + op.operand(k)->shape.to_string() +
                             ", that differs between the entries of a batch, and its rule knows "
                             "nothing of it; pass it as an argument",
                         location_);
      }
      values.push_back({of_batch(op.operand(k)->shape, batched[k], size), false, {}});
    }
    frontend::RuleTrace rule(name_, op.parent->module(), values, axes_, captures_);
    const frontend::ActiveTrace active(&rule.trace);
    const auto first = std::ptrdiff_t(captures_.size());
    const BatchInfo info{size, {batched.begin() + first, batched.end()}};
    const auto [leaves, flags] =
        rule_.rule(info, {rule.parameters.begin() + first, rule.parameters.end()});
    frontend::check_count(name_, leaves.size(), results_.size(), location_);
    if (flags.size() != leaves.size()) {
      throw TypeError(name_ + ": the rule says of " + std::to_string(flags.size()) +
                          " arrays whether they hold the batch, and gives " +
                          std::to_string(leaves.size()),
                      location_);
    }
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      frontend::check_type("result " + std::to_string(k) + " of the rule of " + name_ + ", which " +
                               (flags[k] ? "holds" : "doesn't hold") + " the batch of " +
                               std::to_string(size) + " entries,",
                           frontend::abstract_value(leaves[k]).shape,
                           of_batch(results_[k], flags[k], size), location_);
    }
    return {rule.trace.finish(leaves, location_), flags};
  }

 private:
  const FlatVmapRule rule_;
  const std::string name_;
  const Location location_;
  const frontend::Captures captures_;
  const std::vector<Shape> results_;
  const frontend::NamedAxes axes_ = frontend::NamedAxes::of_caller();
};

}  // namespace

std::vector<Array> call_custom_vmap(const CallInfo& info, Prototype* prototype,
                                    const std::string& name, FlatVmapRule rule, Location location) {
  frontend::CallKind kind;
  if (rule.rule) {
    kind.try_rule = [&](frontend::Trace& trace, const frontend::TracedFunction&) {
      std::vector<Array> entries;
      for (const AbstractValue& v : frontend::abstract_values(info.leaves)) {
        entries.push_back(trace.add_parameter({of_batch(v.shape, true, 1), false, {}}));
      }
      rule.rule({1, std::vector<bool>(entries.size(), true)}, entries);
    };
  }
  kind.attributes = [&](const frontend::TracedFunction& f, const frontend::Captures& captures) {
    std::vector<Shape> results;
    for (const AbstractValue& v : f.results) results.push_back(v.shape);
    ir::CustomDerivativeAttrs a;
    a.kind = ir::CustomDerivativeAttrs::Kind::batch;
    a.label = name;
    a.batching = std::make_shared<VmapRule>(rule, name, location, captures, std::move(results));
    return ir::Attributes(std::move(a));
  };
  return frontend::stage_call(info, prototype, name, kind, location);
}

}  // namespace tessera::internal
