// SPDX-License-Identifier: Apache-2.0
// custom_jvp, custom_vjp, stop_gradient and remat: ops that say how they are differentiated.
#include <tessera/custom_derivative.h>

#include <algorithm>
#include <optional>

#include "src/base/platforms.h"
#include "src/frontend/derivatives/custom_rule.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/ir/hooks.h"
#include "src/transforms/utils/tangent.h"

namespace tessera {

struct CheckpointPolicy::Data : ir::RematPolicy {};

namespace internal {

using frontend::AbstractValue;
using frontend::ActiveTrace;
using frontend::CallKind;
using frontend::CallTypes;
using frontend::Captures;
using frontend::check_count;
using frontend::check_sharding;
using frontend::check_type;
using frontend::NamedAxes;
using frontend::RuleTrace;
using frontend::ShardingType;
using frontend::stage_call;
using frontend::Trace;
using frontend::TracedFunction;
using frontend::typed_value;
using frontend::values_of;
using ir::Instruction;
using ir::Opcode;
using transforms::has_tangent;

namespace {

Array zeros_of_pred(const Shape& shape) {
  Trace& t = *Trace::current();
  return t.wrap(transforms::zeros(t.builder(), Shape(DType::pred, shape.dims)), false);
}

/// An empty handle is zeros.
Array zeros_if_empty(const Array& given, const Shape& shape) {
  if (given.valid()) return given;
  Trace& t = *Trace::current();
  return t.wrap(transforms::zeros(t.builder(), shape), false);
}

/// The op's operands are captures, which have no derivative, and then the leaves of arguments.
class CustomRules : public ir::DerivativeRules {
 public:
  CustomRules(std::string name, Location location, Captures captures, std::vector<Shape> results,
              CallTypes types)
      : name_(std::move(name)),
        location_(location),
        captures_(std::move(captures)),
        results_(std::move(results)),
        types_(std::move(types)) {}
  std::string name() const override { return name_; }

 protected:
  std::vector<Instruction*> leaves(const ir::Instruction& op) const {
    return {op.operands().begin() + std::ptrdiff_t(captures_.size()), op.operands().end()};
  }
  /// Flags of the leaves that have tangents, as one for each leaf.
  static std::vector<bool> of_leaves(const std::vector<Instruction*>& leaves,
                                     const std::vector<bool>& perturbed) {
    std::vector<bool> out;
    std::size_t next = 0;
    for (const Instruction* i : leaves) out.push_back(has_tangent(i->shape) && perturbed[next++]);
    return out;
  }
  std::string name_;
  Location location_;
  Captures captures_;
  std::vector<Shape> results_;
  CallTypes types_;
  const NamedAxes axes_ = NamedAxes::of_caller();
};

class JvpRules final : public CustomRules {
 public:
  JvpRules(FlatJvpRule rule, std::string name, Location location, Captures captures,
           std::vector<Shape> results, CallTypes types)
      : CustomRules(std::move(name), location, std::move(captures), std::move(results),
                    std::move(types)),
        rule_(std::move(rule)) {}

  ir::Computation* jvp(const Instruction& op, const std::vector<bool>& perturbed) override {
    std::vector<AbstractValue> values = values_of(op.operands(), types_);
    const std::vector<Instruction*> primals = leaves(op);
    const std::vector<bool> given_tangents = of_leaves(primals, perturbed);
    for (std::size_t k = 0; k < primals.size(); ++k) {
      if (!given_tangents[k]) continue;
      const std::size_t at = captures_.size() + k;
      values.push_back(
          typed_value(primals[k]->shape, types_.operands[at], types_.operand_memories[at]));
    }
    RuleTrace rule(name_, op.parent->module(), values, axes_, captures_);
    const ActiveTrace active(&rule.trace);
    const auto first = rule.parameters.begin() + std::ptrdiff_t(captures_.size());
    const auto middle = first + std::ptrdiff_t(primals.size());
    auto next = middle;
    std::vector<Array> tangents;
    for (std::size_t k = 0; k < primals.size(); ++k) {
      if (given_tangents[k]) {
        tangents.push_back(*next++);
      } else {
        tangents.push_back(rule_.symbolic_zeros ? Array() : zeros_of_pred(primals[k]->shape));
      }
    }
    const std::vector<Array> given = rule_.rule({first, middle}, tangents);
    check_count(name_, given.size(), 2 * results_.size(), location_);
    std::vector<Array> out;
    for (std::size_t k = 0; k < given.size(); ++k) {
      const Shape& like = results_[k % results_.size()];
      const bool tangent = k >= results_.size();
      if (tangent && !has_tangent(like)) continue;
      const std::string what = "the " + std::string(tangent ? "tangent" : "result") + " of leaf " +
                               std::to_string(k % results_.size()) + " that the rule of " + name_ +
                               " gives";
      const Array value = tangent ? zeros_if_empty(given[k], like) : given[k];
      check_type(what, frontend::abstract_value(value).shape, like, location_);
      if (tangent) {
        const ShardingType result = frontend::sharding_type_of(given[k - results_.size()]);
        check_sharding(what, value, result.tangent(), location_);
      }
      out.push_back(value);
    }
    return rule.trace.finish(out, location_);
  }
  Vjp vjp(const Instruction&, const std::vector<bool>&) override {
    TESSERA_CHECK(false, name_ + " has a rule for forward mode");
    return {};
  }

 private:
  FlatJvpRule rule_;
};

/// A backward rule after its forward rule, of which it takes residuals.
class TracedBackward final : public ir::BackwardRule {
 public:
  FlatVjpRule rule;
  std::string name;
  Location location;
  NamedAxes axes;
  Captures captures;
  std::any kept;                                   ///< by the forward rule
  std::vector<AbstractValue> captured, residuals;  ///< its first parameters
  std::vector<Shape> results, primals;
  CallTypes types;

  ir::Computation* trace(ir::Module* module, const std::vector<bool>& zero) override {
    std::vector<AbstractValue> values = captured;
    values.insert(values.end(), residuals.begin(), residuals.end());
    std::size_t n = 0;
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!has_tangent(results[k]) || zero[n++]) continue;
      values.push_back(
          typed_value(results[k], types.results[k].cotangent(), types.result_memories[k]));
    }
    RuleTrace traced(name + ".backward", module, values, axes, captures);
    const ActiveTrace active(&traced.trace);
    const auto first = traced.parameters.begin() + std::ptrdiff_t(captured.size());
    auto next = first + std::ptrdiff_t(residuals.size());
    const std::vector<Array> saved(first, next);
    std::vector<Array> cotangents;
    n = 0;
    for (const Shape& s : results) {
      if (has_tangent(s) && !zero[n++]) {
        cotangents.push_back(*next++);
      } else {
        cotangents.push_back(rule.symbolic_zeros ? Array() : zeros_of_pred(s));
      }
    }
    const std::vector<Array> given = rule.backward(saved, cotangents, kept);
    check_count(name + ".backward", given.size(), primals.size(), location);
    std::vector<Array> out;
    for (std::size_t k = 0; k < given.size(); ++k) {
      const Shape& like = primals[k];
      if (!has_tangent(like)) continue;
      const Array value = zeros_if_empty(given[k], like);
      const std::string what = "the cotangent of leaf " + std::to_string(k) +
                               " of the arguments that the backward rule of " + name + " gives";
      check_type(what, frontend::abstract_value(value).shape, like, location);
      check_sharding(what, value, types.operands[captured.size() + k].cotangent(), location);
      out.push_back(value);
    }
    return traced.trace.finish(out, location);
  }
};

class VjpRules final : public CustomRules {
 public:
  VjpRules(FlatVjpRule rule, std::string name, Location location, Captures captures,
           std::vector<Shape> results, CallTypes types)
      : CustomRules(std::move(name), location, std::move(captures), std::move(results),
                    std::move(types)),
        rule_(std::move(rule)) {}

  ir::Computation* jvp(const Instruction&, const std::vector<bool>&) override {
    TESSERA_CHECK(false, name_ + " has a rule for reverse mode");
    return nullptr;
  }

  Vjp vjp(const Instruction& op, const std::vector<bool>& perturbed) override {
    const auto backward = std::make_shared<TracedBackward>();
    backward->rule = rule_;
    backward->name = name_;
    backward->location = location_;
    backward->axes = axes_;
    backward->captures = captures_;
    backward->results = results_;
    for (std::size_t k = 0; k < captures_.size(); ++k) {
      backward->captured.push_back(
          typed_value(op.operand(k)->shape, types_.operands[k], types_.operand_memories[k]));
    }
    for (const Instruction* x : leaves(op)) backward->primals.push_back(x->shape);
    backward->types = types_;
    Vjp out;
    out.forward =
        forward(op, of_leaves(leaves(op), perturbed), &backward->kept, &backward->residuals);
    out.residuals = std::int64_t(backward->residuals.size());
    const auto given = std::count_if(results_.begin(), results_.end(), has_tangent);
    out.backward =
        backward->trace(op.parent->module(), std::vector<bool>(std::size_t(given), false));
    if (rule_.symbolic_zeros) out.rule = backward;
    return out;
  }

 private:
  ir::Computation* forward(const Instruction& op, const std::vector<bool>& perturbed,
                           std::any* kept, std::vector<AbstractValue>* residuals) {
    RuleTrace rule(name_ + ".forward", op.parent->module(), values_of(op.operands(), types_), axes_,
                   captures_);
    const ActiveTrace active(&rule.trace);
    const auto first = rule.parameters.begin() + std::ptrdiff_t(captures_.size());
    const std::vector<Array> given = rule_.forward({first, rule.parameters.end()}, perturbed, kept);
    if (given.size() < results_.size()) {
      check_count(name_ + ".forward", given.size(), results_.size(), location_);
    }
    for (std::size_t k = 0; k < given.size(); ++k) {
      const AbstractValue value = frontend::abstract_value(given[k]);
      if (k >= results_.size()) {
        residuals->push_back(typed_value(value.shape, value.sharding, value.memory));
        continue;
      }
      check_type("result " + std::to_string(k) + " of the forward rule of " + name_, value.shape,
                 results_[k], location_);
    }
    return rule.trace.finish(given, location_);
  }

  FlatVjpRule rule_;
};

/// Parameters like the arguments of a call, for a rule that is tried.
std::vector<Array> stand_ins(Trace& trace, const std::vector<Array>& leaves) {
  std::vector<Array> out;
  for (const AbstractValue& v : frontend::abstract_values(leaves)) {
    out.push_back(trace.add_parameter(frontend::typed_value(v.shape, v.sharding, v.memory)));
  }
  return out;
}

/// An array of the type of the value's tangent, or cotangent.
Array tangent_stand_in(const Array& value) {
  const Shape& shape = frontend::abstract_value(value).shape;
  return has_tangent(shape) ? value : zeros_of_pred(shape);
}

std::vector<Shape> shapes_of(const TracedFunction& f) {
  std::vector<Shape> out;
  for (const AbstractValue& v : f.results) out.push_back(v.shape);
  return out;
}

}  // namespace

void no_rule(const char* api, const char* definition, Location location) {
  throw TypeError(
      std::string("a function of ") + api + " is called before its rule is set by " + definition,
      location);
}

std::vector<Array> call_custom_jvp(const CallInfo& info, Prototype* prototype,
                                   const std::string& name, FlatJvpRule rule, Location location) {
  CallKind kind;
  kind.try_rule = [&](Trace& trace, const TracedFunction&) {
    const std::vector<Array> primals = stand_ins(trace, info.leaves);
    std::vector<Array> tangents;
    for (const Array& x : primals) tangents.push_back(tangent_stand_in(x));
    rule.rule(primals, tangents);
  };
  kind.attributes = [&](const TracedFunction& f, const Captures& captures) {
    ir::CustomDerivativeAttrs a;
    a.nondiff = std::int64_t(captures.size());
    a.symbolic_zeros = rule.symbolic_zeros;
    a.label = name;
    a.rules = std::make_shared<JvpRules>(rule, name, location, captures, shapes_of(f),
                                         CallTypes::of(captures, info.leaves, f));
    return ir::Attributes(std::move(a));
  };
  return stage_call(info, prototype, name, kind, location);
}

std::vector<Array> call_custom_vjp(const CallInfo& info, Prototype* prototype,
                                   const std::string& name, FlatVjpRule rule, Location location) {
  CallKind kind;
  kind.try_rule = [&](Trace& trace, const TracedFunction& f) {
    const std::vector<Array> primals = stand_ins(trace, info.leaves);
    std::any kept;
    const std::vector<Array> given =
        rule.forward(primals, std::vector<bool>(primals.size(), true), &kept);
    const auto residuals = given.begin() + std::ptrdiff_t(std::min(given.size(), f.results.size()));
    std::vector<Array> cotangents;
    for (auto r = given.begin(); r != residuals; ++r) cotangents.push_back(tangent_stand_in(*r));
    rule.backward({residuals, given.end()}, cotangents, kept);
  };
  kind.attributes = [&](const TracedFunction& f, const Captures& captures) {
    ir::CustomDerivativeAttrs a;
    a.kind = ir::CustomDerivativeAttrs::Kind::vjp;
    a.nondiff = std::int64_t(captures.size());
    a.symbolic_zeros = rule.symbolic_zeros;
    a.label = name;
    a.rules = std::make_shared<VjpRules>(rule, name, location, captures, shapes_of(f),
                                         CallTypes::of(captures, info.leaves, f));
    return ir::Attributes(std::move(a));
  };
  return stage_call(info, prototype, name, kind, location);
}

std::vector<Array> call_remat(const CallInfo& info, Prototype* prototype,
                              const RematOptions& options, Location location) {
  CallKind kind;
  kind.opcode = Opcode::remat;
  kind.captures_first = false;
  kind.attributes = [&](const TracedFunction&, const Captures&) {
    ir::RematAttrs a;
    for (const auto& part : options.policy.parts()) a.policies.push_back(*part);
    a.prevent_cse = options.prevent_cse;
    a.label = options.name;
    return ir::Attributes(std::move(a));
  };
  return stage_call(info, prototype, options.name, kind, location);
}

}  // namespace internal

// ------------------------------------------------------------------ single values

Array stop_gradient(const Operand& x) {
  const std::vector<Array> operands{x.array};
  const Shape shape = frontend::abstract_value(x.array).shape;
  ir::CustomDerivativeAttrs a;
  a.kind = ir::CustomDerivativeAttrs::Kind::zero;
  a.label = "stop_gradient";
  return frontend::apply(
      ir::Opcode::custom_derivative, operands, a, x.location, "stop_gradient", &shape,
      [&](ir::Module* module) {
        ir::Computation* c = module->add_computation("stop_gradient");
        c->set_root(ir::Builder(c).parameter(0, shape));
        return std::vector<ir::Computation*>{c};
      },
      x.array.weak_type());
}

Array checkpoint_name(const Operand& x, const std::string& name) {
  return frontend::as_one_program("checkpoint_name", x.location, [&] {
    frontend::Trace& t = *frontend::Trace::current();
    const frontend::MetadataScope metadata(t, x.location, "checkpoint_name");
    ir::Instruction* copy = t.builder().unary(ir::Opcode::copy, t.lift(x.array, x.location));
    copy->frontend_attributes.edit()[ir::kCheckpointName] = name;
    return std::vector<Array>{t.wrap(copy, x.array.weak_type())};
  })[0];
}

// ------------------------------------------------------------------ policies

namespace {

CheckpointPolicy::Data policy(ir::RematPolicy::Kind kind, std::vector<std::string> names = {}) {
  CheckpointPolicy::Data out;
  out.kind = kind;
  out.names = std::move(names);
  return out;
}

}  // namespace

using PolicyKind = ir::RematPolicy::Kind;

CheckpointPolicy CheckpointPolicy::of(Data data) {
  CheckpointPolicy out;
  out.parts_.push_back(std::make_shared<const Data>(std::move(data)));
  return out;
}

CheckpointPolicy CheckpointPolicy::nothing_saveable() { return {}; }
CheckpointPolicy CheckpointPolicy::everything_saveable() {
  return of(policy(PolicyKind::everything_saveable));
}
CheckpointPolicy CheckpointPolicy::dots_saveable() { return of(policy(PolicyKind::dots_saveable)); }
CheckpointPolicy CheckpointPolicy::dots_with_no_batch_dims_saveable() {
  return of(policy(PolicyKind::dots_with_no_batch_dims_saveable));
}
CheckpointPolicy CheckpointPolicy::save_only_these_names(std::vector<std::string> names) {
  return of(policy(PolicyKind::save_only_these_names, std::move(names)));
}
CheckpointPolicy CheckpointPolicy::save_any_names_but_these(std::vector<std::string> names) {
  return of(policy(PolicyKind::save_any_names_but_these, std::move(names)));
}
CheckpointPolicy CheckpointPolicy::save_anything_except_these_names(
    std::vector<std::string> names) {
  return of(policy(PolicyKind::save_anything_except_these_names, std::move(names)));
}

namespace {

CheckpointPolicy::Data offloading(CheckpointPolicy::Data data, const char* name, std::string from,
                                  std::string to, Location location) {
  for (const std::string& kind : {from, to}) {
    if (memory_kind_named(kind)) continue;
    throw ValueError(std::string(name) + ": there is no memory of kind '" + kind +
                         "'; valid: " + list_of(all_memory_kinds()),
                     location);
  }
  data.from_memory = std::move(from);
  data.to_memory = std::move(to);
  return data;
}

}  // namespace

CheckpointPolicy CheckpointPolicy::save_and_offload_only_these_names(
    std::vector<std::string> saved, std::vector<std::string> offloaded, std::string from,
    std::string to, Location location) {
  Data data = policy(PolicyKind::save_and_offload_only_these_names, std::move(saved));
  data.offloaded_names = std::move(offloaded);
  return of(offloading(std::move(data), "save_and_offload_only_these_names", std::move(from),
                       std::move(to), location));
}

CheckpointPolicy CheckpointPolicy::offload_dot_with_no_batch_dims(std::string from, std::string to,
                                                                  Location location) {
  return of(offloading(policy(PolicyKind::offload_dot_with_no_batch_dims),
                       "offload_dot_with_no_batch_dims", std::move(from), std::move(to), location));
}

CheckpointPolicy operator|(const CheckpointPolicy& a, const CheckpointPolicy& b) {
  CheckpointPolicy out = a;
  out.parts_.insert(out.parts_.end(), b.parts_.begin(), b.parts_.end());
  return out;
}

}  // namespace tessera
