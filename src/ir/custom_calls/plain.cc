// SPDX-License-Identifier: Apache-2.0
// Custom calls that stand for what HLO has itself: marks of shardings and places, and ops that
// older exporters wrap.
#include "src/ir/custom_calls/plain.h"

#include "src/ir/constraint.h"
#include "src/ir/hlo/typed_calls.h"

namespace tessera::ir {

void misfit(const Instruction& call, const std::string& what) {
  throw ShapeError("custom call to \"" + call.get<CustomCallAttrs>().target + "\" (" +
                       call.describe() + ": " + call_signature(call) + "): " + what,
                   call.location());
}

Builder body_builder(Module* module, const Instruction& call,
                     std::vector<Instruction*>* parameters) {
  Builder b(module->add_computation("custom_call_body"));
  b.metadata = call.metadata;
  for (std::size_t i = 0; i < call.operands().size(); ++i) {
    parameters->push_back(b.parameter(std::int64_t(i), call.operand(i)->shape));
  }
  return b;
}

namespace {

/// The operand, unchanged.
class Identity : public CustomCallTarget {
 public:
  explicit Identity(bool marker) : marker_(marker) {}
  bool is_marker() const override { return marker_; }
  Computation* body(Module* module, const Instruction& call) const override {
    if (call.operands().size() != 1) misfit(call, "it takes one operand");
    if (!(call.operand(0)->shape == call.shape)) {
      misfit(call, "it passes its operand on, and the shapes differ");
    }
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    b.computation()->set_root(parameters[0]);
    return b.computation();
  }
  std::optional<FactorRuleSpec> rule(const Instruction& call) const override {
    if (call.operands().size() != 1 || !call.shape.is_array()) return std::nullopt;
    FactorRuleSpec spec;
    std::vector<IndexList> dims;
    for (std::int64_t d = 0; d < call.shape.rank(); ++d) {
      dims.push_back({int(d)});
      spec.factor_names.push_back("d" + std::to_string(d));
      spec.factor_sizes.push_back(call.shape.dim(d));
    }
    spec.operands = spec.results = {dims};
    return spec;
  }

 private:
  bool marker_;
};

/// A note to the sharding system that has no result.
class Nothing : public CustomCallTarget {
 public:
  bool is_marker() const override { return true; }
  Computation* body(Module* module, const Instruction& call) const override {
    if (!call.shape.is_tuple || !call.shape.elements.empty()) misfit(call, "it has no result");
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    b.computation()->set_root(b.tuple({}));
    return b.computation();
  }
};

class Unary : public CustomCallTarget {
 public:
  explicit Unary(Opcode op) : op_(op) {}
  Computation* body(Module* module, const Instruction& call) const override {
    if (call.operands().size() != 1) misfit(call, "it takes one operand");
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    b.computation()->set_root(b.unary(op_, parameters[0]));
    return b.computation();
  }

 private:
  Opcode op_;
};

/// (values, indices) of the k greatest of the last dim; k from the result's shape. Calls that
/// readers of text make are topk already, unless they don't fit.
class TopK : public CustomCallTarget {
 public:
  Computation* body(Module* module, const Instruction& call) const override {
    if (call.operands().size() != 1 || !call.operand(0)->shape.is_array() ||
        call.operand(0)->shape.rank() < 1) {
      misfit(call, "it takes one array of rank 1 or more");
    }
    const Shape& x = call.operand(0)->shape;
    if (!call.shape.is_tuple || call.shape.elements.size() != 2 ||
        call.shape.elements[0].rank() != x.rank() || call.shape.elements[1].dtype != DType::s32) {
      misfit(call, "it gives a tuple of values and s32 indices");
    }
    const std::int64_t k = call.shape.elements[0].dims.back();
    if (k > x.dims.back()) misfit(call, "there are fewer elements in the last dim than asked for");
    TopKAttrs attrs;
    attrs.k = k;
    const CallAttributes given = CallAttributes::parse(*call.backend_config, call.location());
    attrs.largest = given.get_or<bool>("largest", true, call.location());
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    b.computation()->set_root(b.emit(Opcode::topk, {parameters[0]}, attrs));
    return b.computation();
  }
};

}  // namespace

NamedTargets plain_custom_calls() {
  NamedTargets out;
  for (const char* name : {kShardingTarget, kResultShardingTarget, kBarrierTarget,
                           kFullToShardShapeTarget, kShardToFullShapeTarget}) {
    out.emplace_back(name, std::make_shared<Identity>(true));
  }
  out.emplace_back(kShardingGroupTarget, std::make_shared<Nothing>());
  for (const char* name :
       {"annotate_device_placement", "LayoutConstraint", "MoveToHost", "MoveToDevice"}) {
    out.emplace_back(name, std::make_shared<Identity>(false));
  }
  const std::pair<const char*, Opcode> unary[] = {
      {"mhlo.acos", Opcode::acos},   {"mhlo.acosh", Opcode::acosh}, {"mhlo.asin", Opcode::asin},
      {"mhlo.asinh", Opcode::asinh}, {"mhlo.atanh", Opcode::atanh}, {"mhlo.cosh", Opcode::cosh},
      {"mhlo.erf", Opcode::erf},     {"mhlo.sinh", Opcode::sinh},   {"mhlo.tan", Opcode::tan},
  };
  for (const auto& [name, op] : unary) out.emplace_back(name, std::make_shared<Unary>(op));
  out.emplace_back(kTopKTarget, std::make_shared<TopK>());
  out.emplace_back(kMhloTopKTarget, std::make_shared<TopK>());
  add_linear_algebra_calls(&out);
  add_quantization_calls(&out);
  return out;
}

}  // namespace tessera::ir
