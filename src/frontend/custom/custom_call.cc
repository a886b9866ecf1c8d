// SPDX-License-Identifier: Apache-2.0
// Calls of custom targets, and registration of the user's own.
#include <tessera/custom/custom_call.h>

#include "src/base/check.h"
#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/custom/sharding_rule_factors.h"
#include "src/frontend/trace/trace.h"
#include "src/ir/custom_calls/custom_call.h"

namespace tessera {
namespace {

/// A target that a user registered.
class UserTarget : public ir::CustomCallTarget, public codegen::CallKernel {
 public:
  UserTarget(std::string name, CustomCall call, std::optional<ShardingRule> rule, Location location)
      : name_(std::move(name)),
        call_(std::move(call)),
        rule_(std::move(rule)),
        location_(location) {}

  codegen::PreparedCall prepare(const ir::Instruction& call) const override {
    TESSERA_CHECK(call_.compute, "custom call target " + name_ + " stands for a program");
    const CallAttributes attributes = attributes_of(call);
    check(call, attributes);
    codegen::PreparedCall out;
    double bytes = double(call.shape.byte_count());
    for (const ir::Instruction* o : call.operands()) bytes += double(o->shape.byte_count());
    out.nanoseconds = 10000 + bytes;
    out.run = [compute = call_.compute, attributes](
                  std::span<const BufferView> operands, std::span<const MutableBufferView> results,
                  std::int64_t, std::int64_t) { compute(operands, results, attributes); };
    return out;
  }

  ir::Computation* body(ir::Module* module, const ir::Instruction& call) const override {
    if (!call_.like) return nullptr;
    const CallAttributes attributes = attributes_of(call);
    check(call, attributes);
    frontend::Trace trace(name_, module);
    trace.forbid_captures("the function that custom call target \"" + name_ +
                          "\" is like: it may use its operands and values made in it");
    std::vector<Array> operands, results;
    for (const ir::Instruction* o : call.operands()) {
      if (!o->shape.is_array()) misfit(call, "an operand is no array");
      operands.push_back(trace.add_parameter({Shape(o->shape.dtype, o->shape.dims), false}));
    }
    {
      const frontend::ActiveTrace active(&trace);
      results = call_.like(operands, attributes);
    }
    const std::vector<Shape> expected = flatten(call.shape);
    bool fits = expected.size() == results.size();
    std::string have;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Shape shape = frontend::abstract_value(results[i]).shape;
      have += (have.empty() ? "" : ", ") + shape.to_string();
      fits = fits && shape == expected[i];
    }
    if (!fits) misfit(call, "the function that it is like returns (" + have + ")");
    ir::Computation* made = trace.finish(results, location_);
    if (!call.shape.is_tuple) {
      ir::Builder builder(made);
      ir::Instruction* root = made->root();
      if (root->shape.is_tuple) made->set_root(builder.get_tuple_element(root, 0));
    }
    return made;
  }

  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction& call) const override {
    if (!rule_) return std::nullopt;
    std::vector<Dims> operands, results;
    for (const ir::Instruction* o : call.operands()) {
      for (const Shape& leaf : flatten(o->shape)) operands.push_back(leaf.dims);
    }
    for (const Shape& leaf : flatten(call.shape)) results.push_back(leaf.dims);
    try {
      return frontend::to_factors(*rule_, operands, results);
    } catch (const ValueError& e) {
      throw ShapeError("custom call to \"" + name_ + "\" (" + call.describe() + ": " +
                           ir::call_signature(call) + "), registered at " + location_.to_string() +
                           ": " + e.message(),
                       call.location());
    }
  }

  bool is_pure() const override { return call_.pure; }

  void check(const ir::Instruction& call, const CallAttributes& attributes) const {
    if (!call_.check) return;
    std::vector<Shape> operands, results = flatten(call.shape);
    for (const ir::Instruction* o : call.operands()) {
      for (Shape& leaf : flatten(o->shape)) operands.push_back(std::move(leaf));
    }
    std::vector<BufferView> in;
    std::vector<MutableBufferView> out;
    for (const Shape& s : operands) in.emplace_back(s.dtype, s.dims, nullptr);
    for (const Shape& s : results) out.emplace_back(s.dtype, s.dims, nullptr);
    call_.check(in, out, attributes);
  }

  static CallAttributes attributes_of(const ir::Instruction& call) {
    return CallAttributes::parse(*call.backend_config, call.location());
  }

 private:
  [[noreturn]] void misfit(const ir::Instruction& call, const std::string& what) const {
    throw ShapeError("custom call to \"" + name_ + "\" (" + call.describe() + ": " +
                         ir::call_signature(call) + "), registered at " + location_.to_string() +
                         ": " + what,
                     call.location());
  }

  std::string name_;
  CustomCall call_;
  std::optional<ShardingRule> rule_;
  Location location_;
};

/// Stages the call into the current trace.
std::vector<Array> stage(const std::string& target, const std::vector<Array>& operands,
                         const Shape& shape, const CallAttributes& attributes, Location location) {
  ir::CustomCallAttrs attrs;
  attrs.target = target;
  attrs.api_version = "API_VERSION_TYPED_FFI";
  frontend::Trace& trace = *frontend::Trace::current();
  const std::size_t before = trace.builder().computation()->instructions().size();
  std::vector<Array> out = frontend::apply_many(ir::Opcode::custom_call, operands, attrs, location,
                                                "custom_call " + target, &shape);
  const auto& instructions = trace.builder().computation()->instructions();
  for (std::size_t i = before; i < instructions.size(); ++i) {
    ir::Instruction* call = instructions[i].get();
    if (!call->is(ir::Opcode::custom_call) || call->get<ir::CustomCallAttrs>().target != target) {
      continue;
    }
    call->backend_config = attributes.to_string();
    const ir::CustomCallTarget& known = ir::need_custom_call(*call);
    if (const auto* mine = dynamic_cast<const UserTarget*>(&known)) {
      mine->check(*call, attributes);
    } else if (!known.body(std::make_unique<ir::Module>().get(), *call)) {
      (void)codegen::prepare_call(*call);
    }
    known.rule(*call);
  }
  return out;
}

}  // namespace

void register_custom_call(const std::string& target, CustomCall call, Location location) {
  codegen::register_builtin_custom_calls();
  const std::string who = "register_custom_call(\"" + target + "\")";
  if (bool(call.compute) == bool(call.like)) {
    throw ValueError(who + (call.compute ? ": give compute or like, not both"
                                         : ": nothing is given that computes it; give compute "
                                           "or like"),
                     location);
  }
  std::optional<ShardingRule> rule;
  if (!call.sharding_rule.empty()) {
    if (call.like) {
      throw ValueError(who +
                           ": a sharding_rule belongs to compute; what is like a program is "
                           "sharded like that program",
                       location);
    }
    rule = ShardingRule(call.sharding_rule, call.sharding_rule_options, location);
  }
  const bool computes = bool(call.compute);
  const auto user =
      std::make_shared<UserTarget>(target, std::move(call), std::move(rule), location);
  codegen::register_custom_call(target, user, computes ? user : nullptr, location);
}

std::vector<std::string> custom_call_targets() {
  codegen::register_builtin_custom_calls();
  return ir::custom_call_names();
}

std::vector<Array> custom_call(const std::string& target, const std::vector<Array>& operands,
                               const std::vector<ResultType>& results,
                               const CallAttributes& attributes, Location location) {
  codegen::register_builtin_custom_calls();
  std::vector<Shape> shapes;
  for (const ResultType& r : results) {
    for (std::int64_t d : r.shape) {
      if (d < 0) {
        throw ValueError("custom_call(\"" + target + "\"): a result has the shape " +
                             to_string(r.shape) + "; sizes must not be negative",
                         location);
      }
    }
    shapes.emplace_back(r.dtype, r.shape);
  }
  const Shape shape = shapes.size() == 1 ? shapes[0] : Shape::tuple(shapes);
  return frontend::as_one_program("custom_call " + target, location, [&] {
    return stage(target, operands, shape, attributes, location);
  });
}

Array custom_call(const std::string& target, const std::vector<Array>& operands,
                  const ResultType& result, const CallAttributes& attributes, Location location) {
  return custom_call(target, operands, std::vector<ResultType>{result}, attributes, location)[0];
}

}  // namespace tessera
