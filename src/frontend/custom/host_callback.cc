// SPDX-License-Identifier: Apache-2.0
// Functions of the host as calls of a program, and prints of values while it runs.
#include <tessera/custom/host_callback.h>
#include <tessera/ops/elementwise.h>

#include <fmt/args.h>
#include <fmt/format.h>

#include <atomic>
#include <iostream>
#include <mutex>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/custom/sharding_rule_factors.h"
#include "src/frontend/trace/trace.h"
#include "src/ir/custom_call_targets.h"
#include "src/ir/hooks.h"

namespace tessera::internal {

using frontend::Trace;

namespace {

using Kind = ir::HostCallback::Kind;

const char* name_of(Kind kind) {
  return kind == Kind::pure ? "pure_callback"
         : kind == Kind::io ? "io_callback"
                            : "debug::callback";
}
const char* target_of(Kind kind) {
  return kind == Kind::pure ? ir::kPureCallbackTarget
         : kind == Kind::io ? ir::kIoCallbackTarget
                            : ir::kDebugCallbackTarget;
}

std::string types_text(const std::vector<Shape>& shapes) {
  std::string out;
  for (const Shape& s : shapes) out += (out.empty() ? "" : ", ") + s.to_string();
  return "(" + out + ")";
}

/// What a function returned, as its declaration says; plain numbers take its dtypes.
std::vector<Literal> checked(const std::vector<Array>& made, const std::vector<Shape>& results,
                             const std::string& name, Location location) {
  std::vector<Literal> out;
  std::vector<Shape> have;
  bool fits = made.size() == results.size();
  for (std::size_t k = 0; k < made.size(); ++k) {
    const bool weak = k < results.size() && impl_of(made[k], location).weak;
    Literal value = frontend::to_literal(
        weak ? astype({made[k], location}, results[k].dtype) : made[k], location);
    have.push_back(value.shape());
    fits = fits && k < results.size() && have[k] == results[k];
    out.push_back(std::move(value));
  }
  if (fits) return out;
  throw TypeError(name + ": the function returned " + types_text(have) + ", and " +
                      types_text(results) + " was declared",
                  location);
}

/// The user's function as a program calls it.
class Callback : public ir::HostCallback {
 public:
  Callback(Kind kind, HostFunction f, Location location)
      : kind_(kind), f_(std::move(f)), location_(location) {}

  Kind kind() const override { return kind_; }
  Batching batching() const override { return batching_; }
  void set_batching(Batching batching) { batching_ = batching; }
  bool ordered() const override { return ordered_; }
  void set_ordered(bool ordered) { ordered_ = ordered; }
  void set_rule(ShardingRule rule) { rule_ = std::move(rule); }

  std::vector<Literal> run(const std::vector<Literal>& operands,
                           const std::vector<Shape>& results) const override {
    // Whoever runs the program may be tracing another one.
    const frontend::ActiveTrace outside(nullptr);
    std::vector<Array> in;
    for (const Literal& x : operands) in.push_back(frontend::from_literal(x));
    // A call returns a value that nobody reads where the function returns nothing.
    const bool nothing = returns_nothing_;
    const std::lock_guard lock(mutex_);
    const std::vector<Array> made = f_(in);
    if (nothing) return {Literal(Shape(DType::pred, {}))};
    return checked(made, results, name_of(kind_), location_);
  }

  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction& call) const override {
    if (!rule_) return std::nullopt;
    std::vector<Dims> operands, results;
    for (const ir::Instruction* o : call.operands()) operands.push_back(o->shape.dims);
    for (const Shape& leaf : flatten(call.shape)) results.push_back(leaf.dims);
    return frontend::to_factors(*rule_, operands, results);
  }

  void set_returns_nothing() { returns_nothing_ = true; }

 private:
  Kind kind_;
  HostFunction f_;
  Location location_;
  Batching batching_ = Batching::sequential;
  std::optional<ShardingRule> rule_;
  bool returns_nothing_ = false, ordered_ = false;
  mutable std::recursive_mutex mutex_;  ///< devices may get there at the same time
};

std::int64_t next_number() {
  static std::atomic<std::int64_t> counter{0};
  return counter.fetch_add(1);
}

std::vector<Shape> shapes_of(const std::vector<Array>& arrays, Location location) {
  std::vector<Shape> out;
  for (const Array& a : arrays) out.push_back(impl_of(a, location).shape);
  return out;
}

/// Stages the call; in the order of earlier ones of this function body if `ordered`.
std::vector<Array> staged(Trace& trace, std::shared_ptr<Callback> callback,
                          const std::vector<Shape>& results, const std::vector<Array>& arguments,
                          bool ordered, Location location) {
  codegen::register_builtin_custom_calls();
  ir::CustomCallAttrs attrs;
  attrs.target = target_of(callback->kind());
  attrs.api_version = "API_VERSION_TYPED_FFI";
  attrs.has_side_effect = callback->kind() != Kind::pure;
  const std::string name = name_of(callback->kind());
  attrs.host = std::move(callback);
  const Shape shape = results.size() == 1 ? results[0] : Shape::tuple(results);
  const auto& instructions = trace.builder().computation()->instructions();
  const std::size_t before = instructions.size();
  std::vector<Array> out =
      frontend::apply_many(ir::Opcode::custom_call, arguments, attrs, location, name, &shape);
  for (std::size_t i = before; i < instructions.size(); ++i) {
    ir::Instruction* call = instructions[i].get();
    if (!call->is(ir::Opcode::custom_call)) continue;
    call->backend_config = "{callback = " + std::to_string(next_number()) + " : i64}";
    if (!ordered) continue;
    if (ir::Instruction* earlier = trace.last_ordered_effect()) {
      call->add_control_predecessor(earlier);
    }
    trace.set_last_ordered_effect(call);
  }
  return out;
}

/// Outside of traces the function is called at once.
std::vector<Array> called_now(const HostFunction& f, const std::vector<Shape>& results,
                              const std::vector<Array>& arguments, const std::string& name,
                              Location location) {
  std::vector<Array> in, out;
  for (const Array& a : arguments) {
    in.push_back(frontend::from_literal(frontend::to_literal(a, location)));
  }
  for (const Literal& x : checked(f(in), results, name, location)) {
    out.push_back(frontend::from_literal(x));
  }
  return out;
}

}  // namespace

std::vector<Array> pure_callback_leaves(HostFunction f, const std::vector<Array>& results,
                                        const std::vector<Array>& arguments,
                                        const PureCallbackOptions& options, Location location) {
  const std::vector<Shape> shapes = shapes_of(results, location);
  Trace* trace = Trace::current();
  if (!trace) return called_now(f, shapes, arguments, "pure_callback", location);
  auto callback = std::make_shared<Callback>(Kind::pure, std::move(f), location);
  callback->set_batching(ir::HostCallback::Batching(int(options.vmap_method)));
  if (!options.sharding_rule.empty()) {
    ShardingRuleOptions factors;
    factors.need_replication_factors = options.need_replication_factors;
    callback->set_rule(ShardingRule(options.sharding_rule, factors, location));
  } else if (!options.need_replication_factors.empty()) {
    throw ValueError("pure_callback: need_replication_factors are given and no sharding_rule",
                     location);
  }
  return staged(*trace, std::move(callback), shapes, arguments, false, location);
}

std::vector<Array> io_callback_leaves(HostFunction f, const std::vector<Array>& results,
                                      const std::vector<Array>& arguments,
                                      const IoCallbackOptions& options, Location location) {
  const std::vector<Shape> shapes = shapes_of(results, location);
  Trace* trace = Trace::current();
  if (!trace) return called_now(f, shapes, arguments, "io_callback", location);
  auto callback = std::make_shared<Callback>(Kind::io, std::move(f), location);
  callback->set_ordered(options.ordered);
  if (!shapes.empty()) {
    return staged(*trace, std::move(callback), shapes, arguments, options.ordered, location);
  }
  callback->set_returns_nothing();
  staged(*trace, std::move(callback), {Shape(DType::pred, {})}, arguments, options.ordered,
         location);
  return {};
}

void debug_callback_leaves(HostFunction f, const std::vector<Array>& arguments, bool ordered,
                           Location location) {
  Trace* trace = Trace::current();
  if (!trace) {
    called_now(f, {}, arguments, "debug::callback", location);
    return;
  }
  auto callback = std::make_shared<Callback>(Kind::debug, std::move(f), location);
  callback->set_returns_nothing();
  staged(*trace, std::move(callback), {Shape(DType::pred, {})}, arguments, ordered, location);
}

namespace {

/// The text of arguments under a format; arrays are as they print, scalars numbers.
std::string formatted(const std::string& format, const std::vector<Array>& arguments,
                      Location location) {
  fmt::dynamic_format_arg_store<fmt::format_context> values;
  for (const Array& a : arguments) {
    const Literal x = frontend::to_literal(a, location);
    if (!x.dims().empty() || is_complex(x.dtype())) {
      values.push_back(to_string(a));
    } else if (x.dtype() == DType::pred) {
      values.push_back(to_scalar<std::int64_t>(x) != 0);
    } else if (is_floating(x.dtype())) {
      values.push_back(to_scalar<double>(x));
    } else {
      values.push_back(to_scalar<std::int64_t>(x));
    }
  }
  try {
    return fmt::vformat(format, values);
  } catch (const fmt::format_error& e) {
    const std::size_t n = arguments.size();
    std::string valid;
    if (n == 0) {
      valid = "text without replacement fields, as there are no arguments";
    } else {
      valid = "a field {} for each argument in turn, or by position {0}";
      if (n > 1) valid += " to {" + std::to_string(n - 1) + "}";
      valid +=
          ", with a format after a colon, as in {:.3f} for a scalar of floats, {:4} for one of "
          "integers, {:>20} for any array";
    }
    throw ValueError("debug::print: \"" + format + "\" with " + std::to_string(n) +
                         (n == 1 ? " argument: " : " arguments: ") + e.what() +
                         "; valid: " + valid + "; a brace that is text is doubled: {{ or }}",
                     location);
  }
}

}  // namespace

void debug_print(const std::string& format, const std::vector<Array>& arguments, bool ordered,
                 Location location) {
  // What is wrong with the format shows while tracing.
  if (Trace::current()) {
    std::vector<Array> like;
    for (const Array& a : arguments) {
      like.push_back(
          frontend::from_literal(a.shape().empty() && !is_complex(a.dtype())
                                     ? Literal::scalar(a.dtype(), 0)
                                     : Literal(Shape(a.dtype(), Dims(a.shape().size(), 0)))));
    }
    const frontend::ActiveTrace outside(nullptr);
    (void)formatted(format, like, location);
  }
  debug_callback_leaves(
      [format, location](const std::vector<Array>& in) {
        // One write, so that lines of several threads stay apart.
        std::cout << formatted(format, in, location) + "\n" << std::flush;
        return std::vector<Array>();
      },
      arguments, ordered, location);
}

}  // namespace tessera::internal
