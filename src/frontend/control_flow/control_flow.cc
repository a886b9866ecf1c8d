// SPDX-License-Identifier: Apache-2.0
// Traces while_loop, fori_loop, scan, cond and switch_ with their carries and captures.
#include <tessera/control_flow.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/control_flow/carried_types.h"
#include "src/frontend/control_flow/sharding_types.h"
#include "src/frontend/control_flow/varying_values.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/trace.h"
#include "src/frontend/trace/traced_function.h"
#include "src/ir/cloner.h"

namespace tessera::internal {

using frontend::ActiveTrace;
using frontend::as_one_program;
using frontend::Trace;
using ir::Instruction;
using ir::Opcode;

namespace {

/// The union of the captures of several functions.
class CaptureUnion {
 public:
  /// The positions of these captures in all().
  std::vector<std::size_t> add(const std::vector<Array>& captures) {
    std::vector<std::size_t> at;
    for (const Array& c : captures) {
      auto found = std::find_if(all_.begin(), all_.end(),
                                [&](const Array& a) { return a.impl() == c.impl(); });
      at.push_back(std::size_t(found - all_.begin()));
      if (found == all_.end()) all_.push_back(c);
    }
    return at;
  }
  const std::vector<Array>& all() const { return all_; }

 private:
  std::vector<Array> all_;
};

/// A computation under construction with one tuple parameter, and the parameter's elements.
struct TupleComputation {
  ir::Builder builder;
  std::vector<Instruction*> elements;

  TupleComputation(ir::Module* module, const std::string& name, const Shape& tuple)
      : builder(module->add_computation(name)) {
    Instruction* parameter = builder.parameter(0, tuple);
    for (std::size_t i = 0; i < tuple.elements.size(); ++i) {
      elements.push_back(builder.get_tuple_element(parameter, std::int64_t(i)));
    }
  }
  /// Inlines a function; returns its results.
  std::vector<Instruction*> inlined(const ir::Computation& flat,
                                    const std::vector<Instruction*>& arguments) {
    return ir::inline_computation(builder.computation(), flat, arguments)->operands();
  }
};

std::vector<Array> unpack(Trace& trace, Instruction* tuple, std::size_t count,
                          const std::vector<frontend::AbstractValue>& values, Location location) {
  std::vector<Array> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(
        trace.wrap(trace.builder().get_tuple_element(tuple, std::int64_t(i)), values[i].weak));
    frontend::set_varying(out.back(), values[i].varying);
    out.back() = frontend::with_sharding_type(out.back(), values[i].sharding, location);
  }
  return out;
}

std::vector<Array> staged_while(Trace& outer, std::vector<Array> carry,
                                const std::vector<std::string>& paths,
                                const FlatFunction& condition, const FlatFunction& body,
                                const std::string& name, Location location) {
  const auto traced_body = [&] {
    return frontend::trace_function(outer, name + ".body", frontend::abstract_values(carry), body,
                                    location);
  };
  frontend::TracedFunction flat_body = traced_body();
  while (settle_carry(carry, flat_body.results, paths, name, location)) flat_body = traced_body();
  std::vector<frontend::AbstractValue> types = frontend::abstract_values(carry);
  const frontend::TracedFunction flat_condition =
      frontend::trace_function(outer, name + ".condition", types, condition, location);
  if (flat_condition.results.size() != 1 ||
      !(flat_condition.results[0].shape == Shape(DType::pred, {}))) {
    throw TypeError(
        name + ": the condition must return a scalar pred; it returns " +
            (flat_condition.results.empty() ? std::string("nothing")
                                            : flat_condition.results[0].shape.to_string()),
        location);
  }
  CaptureUnion captures;
  const auto condition_at = captures.add(flat_condition.captures);
  const auto body_at = captures.add(flat_body.captures);

  const frontend::MetadataScope metadata(outer, location, name);
  std::vector<Instruction*> initial = frontend::lift_all(outer, carry, location);
  for (const Array& c : captures.all()) initial.push_back(outer.lift(c, location));
  Instruction* init = outer.builder().tuple(initial);
  auto arguments = [&](const TupleComputation& c, const std::vector<std::size_t>& at) {
    std::vector<Instruction*> out(c.elements.begin(),
                                  c.elements.begin() + std::ptrdiff_t(carry.size()));
    for (std::size_t i : at) out.push_back(c.elements[carry.size() + i]);
    return out;
  };
  TupleComputation whole_condition(outer.module(), name + ".cond", init->shape);
  whole_condition.builder.metadata = outer.builder().metadata;
  whole_condition.builder.computation()->set_root(whole_condition.inlined(
      *flat_condition.computation, arguments(whole_condition, condition_at))[0]);
  TupleComputation whole_body(outer.module(), name + ".body", init->shape);
  whole_body.builder.metadata = outer.builder().metadata;
  std::vector<Instruction*> next =
      whole_body.inlined(*flat_body.computation, arguments(whole_body, body_at));
  next.insert(next.end(), whole_body.elements.begin() + std::ptrdiff_t(carry.size()),
              whole_body.elements.end());
  whole_body.builder.computation()->set_root(whole_body.builder.tuple(next));
  Instruction* loop = outer.builder().while_loop(whole_condition.builder.computation(),
                                                 whole_body.builder.computation(), init);
  keep_weak(&types, flat_body.results);
  return unpack(
      outer, loop, carry.size(),
      varying_results(types, flat_condition.results[0].varying, flat_body.results, captures.all()),
      location);
}

/// Stages a scan with a checked carry and slices. Returns the leaves of the last carry, then the
/// stacked outputs. `f` takes the carry and then the slices, and returns the next carry and then
/// the outputs.
struct StagedScan {
  std::string name;       ///< of the loop, for messages
  std::string step_name;  ///< of the step's computation
  std::int64_t length = 0;
  bool reverse = false;
  std::int64_t unroll = 1;
  Location location;

  std::vector<Array> stage(Trace& outer, std::vector<Array> carry,
                           const std::vector<std::string>& paths, const std::vector<Array>& xs,
                           const FlatFunction& f) const;
  frontend::TracedFunction traced_step(Trace& outer, const std::vector<Array>& carry,
                                       const std::vector<Array>& xs, const FlatFunction& f) const;
};

/// In the order of the scan op: slices and outputs come before the carry.
frontend::TracedFunction StagedScan::traced_step(Trace& outer, const std::vector<Array>& carry,
                                                 const std::vector<Array>& xs,
                                                 const FlatFunction& f) const {
  std::vector<frontend::AbstractValue> parameters;
  for (const Array& x : xs) {
    Dims dims(x.shape().begin() + 1, x.shape().end());
    parameters.push_back({Shape(x.dtype(), dims), false, frontend::varying_of(x),
                          slice_sharding(x, name, location), frontend::memory_of(x)});
  }
  for (const Array& c : carry) parameters.push_back(frontend::abstract_value(c));
  return frontend::trace_function(
      outer, step_name, parameters,
      [&](std::vector<Array> in) {
        std::rotate(in.begin(), in.begin() + std::ptrdiff_t(xs.size()), in.end());
        std::vector<Array> out = f(in);
        std::rotate(out.begin(), out.begin() + std::ptrdiff_t(carry.size()), out.end());
        return out;
      },
      location);
}

std::vector<Array> StagedScan::stage(Trace& outer, std::vector<Array> carry,
                                     const std::vector<std::string>& paths,
                                     const std::vector<Array>& xs, const FlatFunction& f) const {
  const auto carry_part = [&](const frontend::TracedFunction& flat) {
    return std::vector<frontend::AbstractValue>(flat.results.end() - std::ptrdiff_t(carry.size()),
                                                flat.results.end());
  };
  frontend::TracedFunction step = traced_step(outer, carry, xs, f);
  while (settle_carry(carry, carry_part(step), paths, name, location)) {
    step = traced_step(outer, carry, xs, f);
  }
  const std::size_t outputs = step.results.size() - carry.size();
  std::vector<frontend::AbstractValue> types = frontend::abstract_values(carry);
  keep_weak(&types, carry_part(step));
  for (std::size_t y = 0; y < outputs; ++y) {
    Shape whole = step.results[y].shape;
    whole.dims.insert(whole.dims.begin(), length);
    types.push_back({whole, step.results[y].weak, step.results[y].varying,
                     stacked_sharding(step.results[y].sharding)});
  }
  types = varying_results(std::move(types), {}, step.results, step.captures);

  const frontend::MetadataScope metadata(outer, location, name);
  const std::vector<Instruction*> carries = frontend::lift_all(outer, carry, location);
  std::vector<Instruction*> operands = frontend::lift_all(outer, xs, location);
  operands.insert(operands.end(), carries.begin(), carries.end());
  for (const Array& c : step.captures) operands.push_back(outer.lift(c, location));
  ir::ScanAttrs attrs;
  attrs.length = length;
  attrs.carries = std::int64_t(carry.size());
  attrs.constants = std::int64_t(step.captures.size());
  attrs.reverse = reverse;
  attrs.unroll = unroll;
  ir::Builder& b = outer.builder();
  // Without steps the carry is unchanged and the stacked outputs are empty.
  Instruction* scan =
      length > 0 ? b.emit(Opcode::scan, std::move(operands), attrs, {step.computation}) : nullptr;
  std::vector<Array> out;
  for (std::size_t k = 0; k < types.size(); ++k) {
    const bool carried = k < carry.size();
    const std::size_t at = carried ? outputs + k : k - carry.size();
    const Shape& shape = types[k].shape;
    Instruction* value = scan      ? b.get_tuple_element(scan, std::int64_t(at))
                         : carried ? carries[k]
                                   : b.splat(b.zero(shape.dtype), shape.dims);
    out.push_back(outer.wrap(value, types[k].weak));
    frontend::set_varying(out.back(), types[k].varying);
    out.back() = frontend::with_sharding_type(out.back(), types[k].sharding, location);
  }
  return out;
}

Array scalar_s32(std::int64_t v) {
  return frontend::from_literal(Literal::scalar(DType::s32, v), true);
}

Array binary(Opcode op, const Array& a, const Array& b, Location location) {
  const std::vector<Array> operands{a, b};
  return frontend::apply(op, operands, {}, location);
}

Array less(const Array& a, const Array& b, Location location) {
  const std::vector<Array> operands{a, b};
  return frontend::apply(Opcode::compare, operands, ir::CompareAttrs{ir::Direction::lt}, location);
}

}  // namespace

std::vector<Array> while_core(const std::vector<Array>& init, const std::vector<std::string>& paths,
                              const FlatFunction& condition, const FlatFunction& body,
                              const std::string& name, Location location) {
  return as_one_program(name, location, [&] {
    return staged_while(*Trace::current(), init, paths, condition, body, name, location);
  });
}

namespace {
/// The first and last count of a loop in its counter's type; empty if unknown, or if the trip count
/// doesn't fit an s64.
std::optional<std::pair<std::int64_t, std::int64_t>> known_bounds(const Array& lower,
                                                                  const Array& upper, DType index) {
  const Literal* from = frontend::constant_value(lower);
  const Literal* to = frontend::constant_value(upper);
  if (!from || !to || index == DType::u64) return std::nullopt;
  const auto as_index = [&](const Literal& bound) {
    return to_scalar<std::int64_t>(Literal::scalar(index, to_scalar<std::int64_t>(bound)));
  };
  const std::pair bounds(as_index(*from), as_index(*to));
  std::int64_t trips = 0;
  if (__builtin_sub_overflow(bounds.second, bounds.first, &trips)) return std::nullopt;
  return bounds;
}
}  // namespace

std::vector<Array> fori_core(const Array& lower, const Array& upper, const std::vector<Array>& init,
                             const std::vector<std::string>& paths, const FlatFunction& body,
                             Location location) {
  for (const Array* bound : {&lower, &upper}) {
    if (!bound->shape().empty() || !is_integer(bound->dtype())) {
      throw TypeError("fori_loop: bounds must be integer scalars, got " + bound->type_string(),
                      location);
    }
  }
  const DType index =
      lower.weak_type() ? (upper.weak_type() ? DType::s32 : upper.dtype()) : lower.dtype();
  return as_one_program("fori_loop", location, [&] {
    const auto next = [&](const Array& i) {
      const Array one = frontend::from_literal(Literal::scalar(index, std::int64_t(1)), true);
      return binary(Opcode::add, i, one, location);
    };
    Trace& outer = *Trace::current();
    if (const auto bounds = known_bounds(lower, upper, index)) {
      Array first;
      {
        const frontend::MetadataScope metadata(outer, location, "fori_loop");
        first = outer.wrap(outer.builder().constant(Literal::scalar(index, bounds->first)), false);
      }
      std::vector<Array> carry{first};
      carry.insert(carry.end(), init.begin(), init.end());
      std::vector<std::string> all_paths{" index"};
      all_paths.insert(all_paths.end(), paths.begin(), paths.end());
      const std::int64_t trips = std::max<std::int64_t>(0, bounds->second - bounds->first);
      const StagedScan scan{"fori_loop", "fori_loop.body", trips, false, 1, location};
      std::vector<Array> out =
          scan.stage(outer, carry, all_paths, {}, [&](const std::vector<Array>& c) {
            std::vector<Array> out{next(c[0])};
            const std::vector<Array> values = body(c);
            out.insert(out.end(), values.begin(), values.end());
            return out;
          });
      return std::vector<Array>(out.begin() + 1, out.end());
    }
    std::vector<Array> carry{as_dtype(lower, index, location), as_dtype(upper, index, location)};
    carry.insert(carry.end(), init.begin(), init.end());
    std::vector<std::string> all_paths{" index", " bound"};
    all_paths.insert(all_paths.end(), paths.begin(), paths.end());
    std::vector<Array> out = staged_while(
        outer, carry, all_paths,
        [&](const std::vector<Array>& c) { return std::vector<Array>{less(c[0], c[1], location)}; },
        [&](const std::vector<Array>& c) {
          std::vector<Array> in{c[0]};
          in.insert(in.end(), c.begin() + 2, c.end());
          std::vector<Array> out{next(c[0]), c[1]};
          const std::vector<Array> values = body(in);
          out.insert(out.end(), values.begin(), values.end());
          return out;
        },
        "fori_loop", location);
    return std::vector<Array>(out.begin() + 2, out.end());
  });
}

std::vector<Array> cond_core(const Array& index, bool is_predicate,
                             const std::vector<FlatFunction>& branches,
                             const std::vector<Array>& operands,
                             const std::function<std::vector<std::string>()>& result_paths,
                             const std::string& name, Location location) {
  if (branches.empty()) throw ValueError(name + ": no branches", location);
  if (!index.shape().empty() || is_floating(index.dtype()) || is_complex(index.dtype())) {
    throw TypeError(name + ": the " + (is_predicate ? "predicate" : "index") +
                        " must be a scalar pred or integer, got " + index.type_string(),
                    location);
  }
  return as_one_program(name, location, [&] {
    Trace& outer = *Trace::current();
    Array selector = index;
    if (is_predicate && index.dtype() != DType::pred) {
      selector = as_dtype(index, DType::pred, location);
    } else if (!is_predicate) {
      const Array last = scalar_s32(std::int64_t(branches.size()) - 1);
      selector = binary(
          Opcode::minimum,
          binary(Opcode::maximum, as_dtype(index, DType::s32, location), scalar_s32(0), location),
          last, location);
    }
    const auto types = frontend::abstract_values(operands);
    std::vector<frontend::TracedFunction> flats;
    CaptureUnion captures;
    std::vector<std::vector<std::size_t>> at;
    for (std::size_t b = 0; b < branches.size(); ++b) {
      flats.push_back(frontend::trace_function(outer, name + ".branch" + std::to_string(b), types,
                                               branches[b], location));
      at.push_back(captures.add(flats.back().captures));
    }
    const BranchNames names{name, is_predicate, result_paths(), location};
    check_branches_vary(flats, names);
    check_branch_shardings(flats, names);
    const std::vector<frontend::AbstractValue> joined = joined_results(flats, names);
    const frontend::MetadataScope metadata(outer, location, name);
    std::vector<Instruction*> all = frontend::lift_all(outer, operands, location);
    for (const Array& c : captures.all()) all.push_back(outer.lift(c, location));
    Instruction* packed = outer.builder().tuple(all);
    std::vector<ir::Computation*> computations;
    for (std::size_t b = 0; b < flats.size(); ++b) {
      TupleComputation branch(outer.module(), name + ".branch" + std::to_string(b), packed->shape);
      branch.builder.metadata = outer.builder().metadata;
      std::vector<Instruction*> arguments(
          branch.elements.begin(), branch.elements.begin() + std::ptrdiff_t(operands.size()));
      for (std::size_t i : at[b]) arguments.push_back(branch.elements[operands.size() + i]);
      std::vector<Instruction*> results = branch.inlined(*flats[b].computation, arguments);
      for (std::size_t r = 0; r < results.size(); ++r) {
        const DType dtype = joined[r].shape.dtype;
        if (results[r]->shape.dtype != dtype) {
          results[r] = branch.builder.convert(results[r], dtype);
        }
      }
      branch.builder.computation()->set_root(branch.builder.tuple(results));
      computations.push_back(branch.builder.computation());
    }
    // HLO's true branch comes first.
    if (is_predicate) std::reverse(computations.begin(), computations.end());
    std::vector<Instruction*> branch_operands(computations.size(), packed);
    Instruction* result =
        outer.builder().conditional(outer.lift(selector, location), branch_operands, computations);
    std::vector<frontend::AbstractValue> values;
    for (std::size_t r = 0; r < joined.size(); ++r) {
      values.push_back({joined[r].shape, joined[r].weak, frontend::varying_of(index),
                        joined_sharding(flats, r)});
      for (const frontend::TracedFunction& f : flats)
        ir::add_axes(&values.back().varying, f.results[r].varying);
    }
    return unpack(outer, result, joined.size(), values, location);
  });
}

std::vector<Array> scan_core(const std::vector<Array>& init, const std::vector<std::string>& paths,
                             const std::vector<Array>& xs, const FlatFunction& f,
                             const ScanCore& options, Location location) {
  std::int64_t length = options.length;
  const std::string name = options.name;
  for (const Array& x : xs) {
    if (x.shape().empty()) {
      throw ValueError(name + ": xs must have a leading dimension, got " + x.type_string(),
                       location);
    }
    if (length >= 0 && x.shape()[0] != length) {
      throw ValueError(name + ": leading dimensions differ: " + std::to_string(length) + " and " +
                           std::to_string(x.shape()[0]) + " of " + x.type_string(),
                       location);
    }
    length = x.shape()[0];
  }
  if (length < 0) throw ValueError(name + ": without xs, length is needed", location);
  // The loop counts in s32.
  if (length > std::numeric_limits<std::int32_t>::max()) {
    throw ValueError(name + " of length " + std::to_string(length) + "; at most " +
                         std::to_string(std::numeric_limits<std::int32_t>::max()),
                     location);
  }
  if (options.unroll < 0) {
    throw ValueError(name + ": unroll is " + std::to_string(options.unroll) +
                         "; valid: a number of steps, 0 for all of them, or a bool",
                     location);
  }
  const std::int64_t unroll =
      options.unroll == 0 ? std::max<std::int64_t>(length, 1) : options.unroll;
  return as_one_program(options.name, location, [&] {
    const StagedScan scan{name, name + ".step", length, options.reverse, unroll, location};
    return scan.stage(*Trace::current(), init, paths, xs, f);
  });
}

}  // namespace tessera::internal
