// SPDX-License-Identifier: Apache-2.0
// grad, jvp, vjp and linearize: traces the function and transforms what it traced to.
#include <tessera/derivatives.h>

#include <algorithm>
#include <optional>

#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/rule_captures.h"
#include "src/frontend/trace/trace.h"
#include "src/frontend/trace/traced_function.h"
#include "src/ir/cloner.h"
#include "src/transforms/backward.h"
#include "src/transforms/raise_scans.h"
#include "src/transforms/transpose/transpose.h"
#include "src/transforms/transpose/varying_types.h"
#include "src/transforms/utils/custom_vjp.h"
#include "src/transforms/utils/forward_slice.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::internal {

using frontend::AbstractValue;
using frontend::ShardingType;
using frontend::Trace;
using frontend::TracedFunction;
using ir::Instruction;
using transforms::has_tangent;

/// Owns the computation (residuals..., tangents of the arguments that have any...) -> (tangents of
/// the results that have any...).
struct LinearFunction::State {
  std::unique_ptr<ir::Module> module;
  std::string api;
  std::vector<Array> residuals;
  std::vector<Array> primals;  ///< of the trace that it was made in, if there was one
  std::vector<AbstractValue> arguments, results;
};

namespace {

std::string text_of(const Shape& s) { return s.to_string(); }

std::vector<ir::VaryingAxes> varying_of(const std::vector<AbstractValue>& values) {
  std::vector<ir::VaryingAxes> out;
  for (const AbstractValue& v : values) out.push_back(v.varying);
  return out;
}

/// Of code with these parameters and results, if the trace is one of code per device.
std::optional<transforms::CodePerDevice> code_per_device(
    const Trace& trace, const std::vector<AbstractValue>& parameters,
    const std::vector<AbstractValue>& results) {
  const frontend::ManualScope* scope = trace.manual_scope();
  if (scope == nullptr) return std::nullopt;
  transforms::CodePerDevice out;
  out.mesh = scope->mesh;
  out.axes = {scope->axes.begin(), scope->axes.end()};
  out.parameters = varying_of(parameters);
  out.results = varying_of(results);
  out.checked = scope->check_vma;
  return out;
}

/// The types of a function that is traced, if it is code per device; its rules are told theirs.
std::optional<transforms::CodePerDevice> note_types(const Trace& outer, const TracedFunction& f,
                                                    const std::vector<Array>& arguments) {
  auto out = code_per_device(outer, frontend::abstract_values(arguments), f.results);
  if (out) {
    transforms::note_types(*f.computation, transforms::varying_in(f.computation, *out), out->axes);
  }
  return out;
}

/// An array of that type, over which axes it varies included.
Array wrap_as(Trace& trace, Instruction* i, const AbstractValue& type) {
  Array out = trace.wrap(i, type.weak);
  frontend::set_varying(out, type.varying);
  return frontend::with_sharding_type(out, type.sharding, {});
}

/// That of the cotangent of a value.
AbstractValue cotangent_type(AbstractValue of) {
  of.sharding = of.sharding.cotangent();
  return of;
}

/// A call of a function that is to be transformed, in the current trace.
struct Call {
  Trace& outer;
  TracedFunction function;
  std::vector<Array> arguments;  ///< leaves, then captures
  std::vector<Instruction*> operands;
  std::optional<transforms::CodePerDevice> per_device;

  Call(const CallInfo& info, Prototype* prototype, const char* api, Location location)
      : outer(*Trace::current()),
        function(frontend::trace_function(
            outer, api, frontend::abstract_values(info.leaves),
            [&](const std::vector<Array>& leaves) { return info.trace(leaves, prototype); },
            location)),
        arguments(info.leaves) {
    arguments.insert(arguments.end(), function.captures.begin(), function.captures.end());
    operands = frontend::lift_all(outer, arguments, location);
    transforms::raise_scans_in(function.computation);
    per_device = note_types(outer, function, arguments);
  }

  Array wrap(Instruction* i, bool weak) const { return outer.wrap(i, weak); }
  std::vector<Array> wrap_results(const std::vector<Instruction*>& results) const {
    std::vector<Array> out;
    for (std::size_t k = 0; k < results.size(); ++k) {
      out.push_back(wrap_as(outer, results[k], function.results[k]));
    }
    return out;
  }
  ir::Builder& builder() const { return outer.builder(); }
};

/// As `as_one_program`, of what traces a function and the rules of calls within.
std::vector<Array> program_with_rules(const std::string& name, Location location,
                                      const std::function<std::vector<Array>()>& body) {
  return frontend::with_captures_of_rules(
      [&] { return frontend::as_one_program(name, location, body); });
}

/// The tangent, or cotangent, of a value that has none: zeros of pred.
Instruction* no_tangent(ir::Builder& b, const Shape& shape) {
  return transforms::zeros(b, Shape(DType::pred, shape.dims));
}

/// Each device's part of what belongs to a value that all of them share would be lost.
void check_varying(const Trace& outer, const Array& given, const AbstractValue& of,
                   const std::string& what, Location location) {
  const frontend::ManualScope* scope = outer.manual_scope();
  if (scope == nullptr || !scope->check_vma) return;
  const ir::VaryingAxes extra = frontend::without(frontend::varying_of(given), of.varying);
  if (extra.empty()) return;
  const std::string axes = frontend::as_argument(extra);
  throw TypeError(what + " varies over " + axes +
                      ", and what it belongs to does not; valid: psum(..., " + axes +
                      ") of it, or pcast(..., " + axes + ") of what it belongs to",
                  location);
}

/// The instruction of a given tangent, or cotangent; null if it belongs to no number.
Instruction* checked_tangent(Trace& outer, const Array& given, const AbstractValue& of,
                             const std::string& what, Location location) {
  const Shape have = frontend::abstract_value(given).shape;
  if (!has_tangent(of.shape)) {
    if (have.dims == of.shape.dims && have.dtype == DType::pred) return nullptr;
    throw TypeError(what + " is " + text_of(have) + " for " + text_of(of.shape) +
                        ", which has no derivative; valid: pred of that shape",
                    location);
  }
  if (have == of.shape) return outer.lift(given, location);
  // A plain number for a scalar.
  if (frontend::abstract_value(given).weak && have.dims == of.shape.dims &&
      !is_complex(have.dtype)) {
    return outer.builder().convert(outer.lift(given, location), of.shape.dtype);
  }
  throw TypeError(what + " is " + text_of(have) + " and must be " + text_of(of.shape) +
                      ", as what it belongs to",
                  location);
}

/// In explicit mode: the sharding in the type of a tangent, or cotangent, is that of what it
/// belongs to. One that is on no mesh goes with any.
void check_sharding(const Array& given, const Shape& shape, const ShardingType& want,
                    const std::string& what, Location location) {
  if (!frontend::AutoAxes::key().empty() || !has_tangent(shape)) return;
  const ShardingType have = frontend::sharding_type_of(given);
  const bool placed = !frontend::untyped_mesh_of(given).empty();
  if (have ? (want ? have.spec() == want.spec() && have.mesh.shape() == want.mesh.shape()
                   : have.is_replicated())
           : (!want || !placed || shape.dims.empty())) {
    return;
  }
  throw ShardingTypeError(what + " is " + frontend::type_text(shape, have) +
                              (placed ? ", on a mesh without Explicit axes," : "") +
                              " and must be " + frontend::type_text(shape, want) +
                              ", as what it belongs to; valid: reshard() of it" +
                              (placed ? ", after device_put to the mesh" : ""),
                          location);
}

/// Each device's part of a maximum or minimum has no derivative of its own.
void check_not_extremum(const AbstractValue& of, const std::string& what, Location location) {
  if (!of.sharding.is_extremum() || !has_tangent(of.shape)) return;
  throw ShardingTypeError(
      what + " is " + frontend::type_text(of.shape, of.sharding) + ", " +
          frontend::partial_text(of.sharding.kind) +
          ", whose parts have no derivative; valid: reshard() of it to a spec without unreduced "
          "axes, which joins the parts",
      location);
}
void check_differentiable(const std::vector<AbstractValue>& arguments, const TracedFunction& f,
                          const std::string& api, Location location) {
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    check_not_extremum(arguments[k], api + ": leaf " + std::to_string(k) + " of the arguments",
                       location);
  }
  for (std::size_t k = 0; k < f.results.size(); ++k) {
    check_not_extremum(f.results[k], api + ": leaf " + std::to_string(k) + " of the results",
                       location);
  }
}

void check_count(const std::string& api, const char* what, std::size_t have, std::size_t want,
                 Location location) {
  if (have == want) return;
  throw TypeError(
      api + ": " + std::to_string(have) + " arrays of " + what + " for " + std::to_string(want),
      location);
}

}  // namespace

// ------------------------------------------------------------------ grad

namespace {

/// Positions of leaves, with the argument that they belong to.
struct Wanted {
  std::vector<std::size_t> first, count;  ///< per position of the request
  std::vector<bool> perturbed;            ///< per leaf
};

Wanted wanted_leaves(const CallInfo& info, const GradRequest& request, Location location) {
  Wanted out;
  out.perturbed.assign(info.leaves.size(), false);
  const std::vector<std::string> paths = info.paths();
  for (const int position : request.positions) {
    std::size_t first = 0;
    for (const auto& [argument, count] : info.arg_ranges) {
      if (argument == position) {
        out.first.push_back(first);
        out.count.push_back(std::size_t(count));
      }
      first += std::size_t(count);
    }
  }
  for (std::size_t n = 0; n < out.first.size(); ++n) {
    for (std::size_t k = out.first[n]; k < out.first[n] + out.count[n]; ++k) {
      const Shape& shape = frontend::abstract_value(info.leaves[k]).shape;
      const std::string what =
          std::string(request.api) + ": argument" + paths[k] + " is " + text_of(shape);
      if (request.options.holomorphic && !is_complex(shape.dtype)) {
        throw DTypeError(what + ", and with holomorphic it must be complex", location);
      }
      if (!has_tangent(shape) && !request.options.allow_int) {
        throw DTypeError(what +
                             ", which has no gradient; valid: floating-point and complex "
                             "arguments, or allow_int for gradients that are zeros of pred",
                         location);
      }
      check_not_extremum(frontend::abstract_value(info.leaves[k]),
                         std::string(request.api) + ": argument" + paths[k], location);
      out.perturbed[k] = has_tangent(shape);
    }
  }
  return out;
}

void check_value(const TracedFunction& f, const GradRequest& request, Location location) {
  const std::string api = request.api;
  if (f.results.empty() || (!request.aux && f.results.size() != 1)) {
    throw TypeError(api + ": the function returns " + std::to_string(f.results.size()) +
                        " arrays and must return a scalar; has_aux if it returns others, too",
                    location);
  }
  const Shape& shape = f.results[0].shape;
  if (!shape.dims.empty()) {
    throw ShapeError(api + ": the function returns " + text_of(shape) +
                         " and must return a scalar; sum or average it, or use vjp",
                     location);
  }
  check_not_extremum(f.results[0], api + ": the function's result", location);
  const bool fits =
      request.options.holomorphic ? is_complex(shape.dtype) : is_floating(shape.dtype);
  if (!fits) {
    throw DTypeError(api + ": the function returns " + text_of(shape) + " and must return a " +
                         (request.options.holomorphic
                              ? "complex scalar, with holomorphic"
                              : "floating-point scalar; real() or abs() of it, or holomorphic"),
                     location);
  }
}

}  // namespace

GradResult grad_core(const CallInfo& info, Prototype* prototype, const GradRequest& request,
                     Location location) {
  const Wanted wanted = wanted_leaves(info, request, location);
  std::size_t values = 0;
  std::vector<Array> all = program_with_rules(request.api, location, [&] {
    const Call call(info, prototype, request.api, location);
    check_value(call.function, request, location);
    ir::Builder& b = call.builder();
    std::vector<bool> perturbed = wanted.perturbed;
    perturbed.resize(call.operands.size(), false);
    const transforms::Reverse back = transforms::value_and_gradient(
        *call.function.computation, perturbed, b, call.operands, call.per_device);
    std::vector<Array> out = call.wrap_results(back.results);
    values = out.size();
    for (std::size_t n = 0; n < wanted.first.size(); ++n) {
      for (std::size_t k = wanted.first[n]; k < wanted.first[n] + wanted.count[n]; ++k) {
        const AbstractValue of = frontend::abstract_value(info.leaves[k]);
        Instruction* gradient =
            has_tangent(of.shape) ? back.cotangents[k] : no_tangent(b, of.shape);
        out.push_back(wrap_as(call.outer, gradient, cotangent_type(of)));
        call.outer.note_gradient(call.outer.own(out.back()), call.operands[k]);
      }
    }
    return out;
  });
  GradResult out;
  out.value.assign(all.begin(), all.begin() + std::ptrdiff_t(values));
  auto next = all.begin() + std::ptrdiff_t(values);
  for (const std::size_t count : wanted.count) {
    out.gradients.emplace_back(next, next + std::ptrdiff_t(count));
    next += std::ptrdiff_t(count);
  }
  return out;
}

// ------------------------------------------------------------------ jvp

JvpResult jvp_core(const CallInfo& info, Prototype* prototype, const std::vector<Array>& tangents,
                   Location location) {
  check_count("jvp", "tangents", tangents.size(), info.leaves.size(), location);
  const std::vector<std::string> paths = info.paths();
  std::size_t values = 0;
  std::vector<Array> all = program_with_rules("jvp", location, [&] {
    const Call call(info, prototype, "jvp", location);
    check_differentiable(frontend::abstract_values(info.leaves), call.function, "jvp", location);
    std::vector<transforms::Tangent> given(call.operands.size());
    for (std::size_t k = 0; k < tangents.size(); ++k) {
      given[k] = checked_tangent(call.outer, tangents[k], frontend::abstract_value(info.leaves[k]),
                                 "jvp: the tangent of argument" + paths[k], location);
    }
    ir::Builder& b = call.builder();
    const transforms::Dual d = transforms::jvp(*call.function.computation, b.computation(),
                                               call.operands, given, transforms::JvpMode::joint);
    const Shape& shape = call.function.computation->root()->shape;
    std::vector<Array> out = call.wrap_results(transforms::leaves_of(b, d.primal));
    values = out.size();
    const std::vector<Instruction*> known = transforms::leaves_of(d.tangent, shape);
    ir::VaryingAxes of_tangents;
    for (const Array& t : tangents) ir::add_axes(&of_tangents, frontend::varying_of(t));
    for (std::size_t k = 0; k < values; ++k) {
      AbstractValue of = call.function.results[k];
      ir::add_axes(&of.varying, of_tangents);
      Instruction* t = has_tangent(of.shape) ? transforms::materialize(b, known[k], of.shape)
                                             : no_tangent(b, of.shape);
      out.push_back(wrap_as(call.outer, t, of));
    }
    return out;
  });
  JvpResult out;
  out.value.assign(all.begin(), all.begin() + std::ptrdiff_t(values));
  out.tangent.assign(all.begin() + std::ptrdiff_t(values), all.end());
  return out;
}

// ------------------------------------------------------------------ linearize, vjp

namespace {

std::vector<bool> perturbed_of(const std::vector<AbstractValue>& values) {
  std::vector<bool> out;
  for (const AbstractValue& v : values) out.push_back(has_tangent(v.shape));
  return out;
}

/// (residuals..., tangents...) -> (tangents...) as a module of its own.
std::unique_ptr<ir::Module> linear_module(const transforms::Derivative& d,
                                          const transforms::Residuals& residuals,
                                          const std::vector<AbstractValue>& results,
                                          const std::string& api) {
  ir::Computation* c = d.computation->module()->add_computation(api + ".linear");
  ir::Builder b(c);
  std::int64_t number = 0;
  const auto parameter = [&](const Instruction* like) {
    return b.parameter(number++, like->shape);
  };
  std::vector<Instruction*> inside, tangents;
  for (const Instruction* r : residuals.values) inside.push_back(parameter(r));
  for (const Instruction* t : d.tangent_arguments) {
    if (t != nullptr) tangents.push_back(parameter(t));
  }
  const std::vector<Instruction*> out = transforms::linear_part(d, residuals, inside, tangents, c);
  std::vector<Instruction*> root;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (has_tangent(results[k].shape)) {
      root.push_back(transforms::materialize(b, out[k], results[k].shape));
    }
  }
  c->set_root(b.tuple(root));
  auto module = std::make_unique<ir::Module>(api);
  module->num_partitions = d.computation->module()->num_partitions;
  module->set_entry(module->import(*c));
  return module;
}

}  // namespace

Linearized linearize_core(const CallInfo& info, Prototype* prototype, const char* api,
                          Location location) {
  auto state = std::make_shared<LinearFunction::State>();
  state->api = api;
  state->arguments = frontend::abstract_values(info.leaves);
  if (Trace::current() != nullptr) state->primals = info.leaves;
  std::size_t values = 0;
  std::vector<std::size_t> computed;  // residuals that the program gives
  std::vector<Array> all = program_with_rules(api, location, [&] {
    const Call call(info, prototype, api, location);
    check_differentiable(state->arguments, call.function, api, location);
    ir::Builder& b = call.builder();
    std::vector<bool> perturbed = perturbed_of(state->arguments);
    perturbed.resize(call.operands.size(), false);
    const transforms::Derivative d = transforms::differentiate(
        *call.function.computation, {call.operands.size()}, perturbed, transforms::JvpMode::split);
    // Arguments are there anyhow.
    const transforms::Residuals residuals = transforms::choose_residuals(
        d, std::vector<std::int64_t>(d.computation->parameters().size(), 0));
    state->results = call.function.results;
    state->module = linear_module(d, residuals, state->results, api);
    ir::Cloner cloner(*d.computation, b.computation());
    for (std::size_t k = 0; k < call.operands.size(); ++k) {
      cloner.map(d.arguments[k], call.operands[k]);
    }
    std::vector<Instruction*> results;
    for (Instruction* r : d.results) results.push_back(cloner.clone_with_operands(*r));
    for (Instruction* e : transforms::effects_of(d)) cloner.clone_with_operands(*e);
    std::vector<Array> out = call.wrap_results(results);
    values = out.size();
    std::vector<ir::VaryingAxes> types(residuals.values.size());
    if (call.per_device) types = transforms::types_of(d, residuals, *call.per_device);
    for (std::size_t n = 0; n < residuals.values.size(); ++n) {
      Instruction* r = residuals.values[n];
      const auto argument = std::find(d.arguments.begin(), d.arguments.end(), r);
      if (argument != d.arguments.end()) {
        state->residuals.push_back(call.arguments[std::size_t(argument - d.arguments.begin())]);
        continue;
      }
      computed.push_back(state->residuals.size());
      state->residuals.emplace_back();
      out.push_back(wrap_as(call.outer, cloner.clone_with_operands(*r),
                            {r->shape, false, std::move(types[n])}));
    }
    return out;
  });
  for (std::size_t n = 0; n < computed.size(); ++n) {
    state->residuals[computed[n]] = all[values + n];
  }
  all.resize(values);
  return {std::move(all), LinearFunction(std::move(state))};
}

LinearFunction linear_function_core(const CallInfo& info, Prototype* prototype, Location location) {
  const char* const api = "linear_transpose";
  auto state = std::make_shared<LinearFunction::State>();
  state->api = api;
  state->arguments = frontend::abstract_values(info.leaves);
  state->residuals = program_with_rules(api, location, [&] {
    Trace& outer = *Trace::current();
    const TracedFunction f = frontend::trace_function(
        outer, api, state->arguments,
        [&](const std::vector<Array>& leaves) { return info.trace(leaves, prototype); }, location);
    check_differentiable(state->arguments, f, api, location);
    transforms::raise_scans_in(f.computation);
    std::vector<Array> arguments = info.leaves;
    arguments.insert(arguments.end(), f.captures.begin(), f.captures.end());
    note_types(outer, f, arguments);
    const std::vector<Instruction*> captures = frontend::lift_all(outer, f.captures, location);
    std::vector<bool> perturbed = perturbed_of(state->arguments);
    const std::size_t count = perturbed.size();
    perturbed.resize(count + captures.size(), false);
    const transforms::Derivative d = transforms::differentiate(
        *f.computation, {perturbed.size()}, perturbed, transforms::JvpMode::split);
    const transforms::Residuals residuals = transforms::choose_residuals(
        d, std::vector<std::int64_t>(d.computation->parameters().size(), 0));
    state->results = f.results;
    state->module = linear_module(d, residuals, state->results, api);
    std::vector<bool> of_arguments(d.computation->parameters().size(), false);
    for (std::size_t k = 0; k < count; ++k) {
      of_arguments[std::size_t(d.arguments[k]->get<ir::ParameterAttrs>().number)] = true;
    }
    const std::vector<bool> reached = transforms::forward_slice(*d.computation, of_arguments);
    ir::Cloner cloner(*d.computation, outer.builder().computation());
    for (std::size_t k = 0; k < captures.size(); ++k) {
      cloner.map(d.arguments[count + k], captures[k]);
    }
    std::vector<Array> out;
    for (Instruction* r : residuals.values) {
      if (reached[std::size_t(r->index)]) {
        throw ValueError(
            "linear_transpose of a function that is not linear: its derivative depends "
            "on the argument, by " +
                r->describe() + "; vjp gives the transpose of the derivative at a point",
            location);
      }
      out.push_back(outer.wrap(cloner.clone_with_operands(*r), false));
    }
    return out;
  });
  return LinearFunction(std::move(state));
}

std::vector<Array> LinearFunction::apply(const std::vector<Array>& tangents,
                                         Location location) const {
  const State& s = *state_;
  check_count("the function of " + s.api, "tangents", tangents.size(), s.arguments.size(),
              location);
  return frontend::as_one_program(s.api, location, [&] {
    Trace& outer = *Trace::current();
    ir::Builder& b = outer.builder();
    std::vector<Instruction*> operands = frontend::lift_all(outer, s.residuals, location);
    for (std::size_t k = 0; k < tangents.size(); ++k) {
      Instruction* t = checked_tangent(outer, tangents[k], s.arguments[k],
                                       "tangent " + std::to_string(k) + " of " + s.api, location);
      check_varying(outer, tangents[k], s.arguments[k],
                    "tangent " + std::to_string(k) + " of " + s.api, location);
      check_sharding(tangents[k], s.arguments[k].shape, s.arguments[k].sharding,
                     "tangent " + std::to_string(k) + " of " + s.api, location);
      if (t != nullptr) operands.push_back(t);
    }
    const ir::Computation* c = outer.module()->import(*s.module->entry());
    const std::vector<Instruction*> known =
        ir::inline_computation(b.computation(), *c, operands)->operands();
    std::vector<Array> out;
    std::size_t next = 0;
    for (const AbstractValue& r : s.results) {
      out.push_back(
          wrap_as(outer, has_tangent(r.shape) ? known[next++] : no_tangent(b, r.shape), r));
    }
    return out;
  });
}

std::vector<Array> LinearFunction::transpose(const std::vector<Array>& cotangents,
                                             Location location) const {
  const State& s = *state_;
  check_count("the function of " + s.api, "cotangents", cotangents.size(), s.results.size(),
              location);
  return frontend::as_one_program(s.api, location, [&] {
    Trace& outer = *Trace::current();
    ir::Builder& b = outer.builder();
    const std::vector<Instruction*> residuals = frontend::lift_all(outer, s.residuals, location);
    std::vector<transforms::Tangent> given;
    for (std::size_t k = 0; k < cotangents.size(); ++k) {
      Instruction* t = checked_tangent(outer, cotangents[k], s.results[k],
                                       "cotangent " + std::to_string(k) + " of " + s.api, location);
      check_varying(outer, cotangents[k], s.results[k],
                    "cotangent " + std::to_string(k) + " of " + s.api, location);
      check_sharding(cotangents[k], s.results[k].shape, s.results[k].sharding.cotangent(),
                     "cotangent " + std::to_string(k) + " of " + s.api, location);
      if (t != nullptr) given.emplace_back(t);
    }
    ir::Computation* c = outer.module()->import(*s.module->entry());
    std::vector<bool> linear(c->parameters().size(), true);
    std::fill_n(linear.begin(), residuals.size(), false);
    const auto differentiable = [](std::vector<AbstractValue> values) {
      std::erase_if(values, [](const AbstractValue& v) { return !has_tangent(v.shape); });
      return values;
    };
    std::vector<AbstractValue> parameters = frontend::abstract_values(s.residuals);
    for (const AbstractValue& a : differentiable(s.arguments)) parameters.push_back(a);
    if (const auto types = code_per_device(outer, parameters, differentiable(s.results))) {
      c = transforms::with_explicit_pvary(c, linear, *types);
    }
    ir::Cloner cloner(*c, b.computation());
    for (std::size_t k = 0; k < residuals.size(); ++k) cloner.map(c->parameter(k), residuals[k]);
    const std::vector<transforms::Tangent> known = transforms::transpose(
        *c, linear, transforms::Tangent::tuple(std::move(given)), cloner, b.computation());
    std::vector<Array> out;
    std::size_t next = residuals.size();
    for (std::size_t k = 0; k < s.arguments.size(); ++k) {
      const AbstractValue& a = s.arguments[k];
      Instruction* t = has_tangent(a.shape)
                           ? transforms::materialize(b, known[next++].array, a.shape)
                           : no_tangent(b, a.shape);
      out.push_back(wrap_as(outer, t, cotangent_type(a)));
      const Instruction* primal = s.primals.empty() ? nullptr : outer.own(s.primals[k]);
      if (primal != nullptr) outer.note_gradient(outer.own(out.back()), primal);
    }
    return out;
  });
}

}  // namespace tessera::internal
