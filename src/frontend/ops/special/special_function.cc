// SPDX-License-Identifier: Apache-2.0
// Stages functions that are formulas as ops that know their derivatives.
#include "src/frontend/ops/special/special_function.h"

#include <algorithm>

#include "src/frontend/derivatives/custom_rule.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/ir/hooks.h"

namespace tessera::frontend {

namespace {

Location location_of(const std::vector<Operand>& operands) {
  for (const Operand& x : operands) {
    if (x.location.known()) return x.location;
  }
  return operands[0].location;
}

/// The formula on arrays of one dtype and shape, in a trace.
Array emitted(const SpecialFunction& f, const std::vector<Array>& xs, Location location) {
  Trace& trace = *Trace::current();
  const MetadataScope metadata(trace, location, f.name);
  const DType t = xs[0].dtype();
  ir::BuilderFormula m(trace.builder(), t == f64 ? f64 : f32, xs[0].shape());
  std::vector<ir::Num> numbers;
  bool weak = true;
  for (const Array& x : xs) {
    numbers.push_back(m.convert(m(trace.lift(x, location)), m.dtype()));
    weak = weak && x.weak_type();
  }
  const Array out = trace.wrap(m.convert(f.formula(numbers), t).i, weak);
  return with_sharding_type(out, joined_sharding_type(f.name, xs, location), location);
}

Array staged(const SpecialFunction& f, const std::vector<Array>& xs, Location location);

class PartialRules final : public ir::DerivativeRules {
 public:
  PartialRules(const SpecialFunction& f, Location location) : f_(f), location_(location) {}
  std::string name() const override { return f_.name; }

  ir::Computation* jvp(const ir::Instruction& op, const std::vector<bool>& perturbed) override {
    std::vector<AbstractValue> values = values_of(op.operands());
    const std::size_t count = values.size();
    for (std::size_t k = 0; k < count; ++k) {
      if (perturbed[k]) values.push_back(values[k]);
    }
    RuleTrace rule(f_.name, op.parent->module(), values, axes_);
    const ActiveTrace active(&rule.trace);
    const std::vector<Array> arrays(rule.parameters.begin(),
                                    rule.parameters.begin() + std::ptrdiff_t(count));
    std::vector<Located> xs;
    for (const Array& a : arrays) xs.push_back({a, location_});
    const Located y{staged(f_, arrays, location_), location_};
    Located tangent = y.constant(0);
    bool first = true;
    std::size_t next = count;
    for (std::size_t k = 0; k < count; ++k) {
      if (!perturbed[k]) continue;
      if (!f_.partials[k]) {
        throw NotImplementedError(std::string(f_.name) + " has no derivative by operand " +
                                      std::to_string(k) +
                                      "; wrap that operand in stop_gradient if it is a constant",
                                  location_);
      }
      const Located term = f_.partials[k](xs, y) * Located{rule.parameters[next++], location_};
      tangent = first ? term : tangent + term;
      first = false;
    }
    const Array moved = broadcasted(tangent.array, y.array.shape(), location_);
    return rule.trace.finish(std::vector<Array>{y.array, moved}, location_);
  }
  Vjp vjp(const ir::Instruction&, const std::vector<bool>&) override {
    TESSERA_CHECK(false, std::string(f_.name) + " has a rule for forward mode");
    return {};
  }

 private:
  const SpecialFunction& f_;
  const Location location_;
  const NamedAxes axes_ = NamedAxes::of_caller();
};

Array staged(const SpecialFunction& f, const std::vector<Array>& xs, Location location) {
  internal::CallInfo info;
  info.leaves = xs;
  info.trace = [&](const std::vector<Array>& leaves, internal::Prototype*) {
    return std::vector<Array>{emitted(f, leaves, location)};
  };
  CallKind kind;
  kind.attributes = [&](const TracedFunction&, const Captures&) {
    ir::CustomDerivativeAttrs a;
    a.label = f.name;
    a.symbolic_zeros = true;
    a.rules = std::make_shared<PartialRules>(f, location);
    return ir::Attributes(std::move(a));
  };
  return stage_call(info, nullptr, f.name, kind, location)[0];
}

}  // namespace

std::vector<Located> inexact_operands(const std::string& name, const std::vector<Operand>& operands,
                                      bool complex_too) {
  const Location location = location_of(operands);
  std::vector<Array> arrays;
  for (const Operand& x : operands) arrays.push_back(x.array);
  arrays = promoted(name, arrays, location);
  const DType t = to_inexact(arrays[0].dtype());
  if (is_complex(t) && !complex_too) {
    std::string which;
    for (const Operand& x : operands) {
      if (which.empty() && is_complex(x.array.dtype())) which = x.array.type_string();
    }
    throw DTypeError(name + " of complex numbers (" + which + "); it is for real ones", location);
  }
  const bool weak =
      std::all_of(arrays.begin(), arrays.end(), [](const Array& a) { return a.weak_type(); });
  std::vector<Located> out;
  for (const Array& a : arrays) out.push_back({converted(a, t, location, weak), location});
  return out;
}

Array call_special(const SpecialFunction& f, const std::vector<Operand>& operands) {
  const Location location = location_of(operands);
  return composed(f.name, location, [&] {
    std::vector<Array> arrays;
    for (const Located& x : inexact_operands(f.name, operands)) arrays.push_back(x.array);
    return staged(f, arrays, location);
  });
}

}  // namespace tessera::frontend
