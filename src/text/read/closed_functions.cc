// SPDX-License-Identifier: Apache-2.0
// Functions whose types leave sizes open: each is read once for each list of sizes that it is
// called with, and again where integers that it is given decide about sizes.
#include <algorithm>

#include "src/base/arrays/literal_util.h"
#include "src/text/read/reader.h"

namespace tessera::text {
namespace {

/// Calls of functions by functions: each may be for other sizes, without end.
constexpr int kMostCalls = 200;
/// Integers that may be sizes, or computed of sizes.
constexpr std::int64_t kMostSizes = 64;

bool may_say_sizes(const Shape& shape) {
  return shape.is_array() && (is_integer(shape.dtype) || shape.dtype == DType::pred) &&
         shape.element_count() <= kMostSizes;
}

}  // namespace

Signature Reader::signature_of(const Function& f) {
  Signature out{module_->name, {}, {}, in_.location_at(f.at)};
  const auto add = [&](const Function::Argument& a, std::vector<DeclaredValue>* to) {
    DeclaredValue v{std::string(a.name), *a.type};
    const ir::Metadata& place = *metadata_of(a.location);
    if (!place.op_name.empty()) v.name = place.op_name;
    if (v.name.empty() || is_decimal(v.name[0])) v.name = "arg" + std::to_string(to->size());
    to->push_back(std::move(v));
  };
  for (const Function::Argument& a : f.arguments) add(a, &out.parameters);
  for (const Function::Argument& a : f.results) add(a, &out.results);
  return out;
}

void Reader::refuse_open(const Function& f) {
  const auto refuse = [&](const std::string& what, const Shape& type) {
    in_.not_supported_at(f.at, what + " of @" + std::string(f.name) + " is " + mlir_type(type) +
                                   ", and the arguments aren't given; a program with dims of "
                                   "unknown size is read for certain arguments");
  };
  for (std::size_t n = 0; n < f.arguments.size(); ++n) {
    const Shape& type = *f.arguments[n].type;
    if (is_open(type)) refuse("argument " + std::to_string(n), type);
  }
  for (std::size_t n = 0; n < f.results.size(); ++n) {
    const Shape& type = *f.results[n].type;
    if (is_open(type)) refuse("result " + std::to_string(n), type);
  }
}

void Reader::check_bounds(const Function& f, std::size_t n, const Dims& sizes) {
  const Shape* type = f.arguments[n].type;
  const Dims* bounds = types_.bounds(type);
  if (bounds == nullptr) return;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t bound = (*bounds)[d];
    if (bound == kOpenSize || sizes[d] <= bound) continue;
    throw ShapeError("argument " + std::to_string(n) + " ('" + signature_of(f).parameters[n].name +
                         "') of @" + std::string(f.name) + " is " +
                         mlir_type(Shape(type->dtype, sizes)) + ": dim " + std::to_string(d) +
                         " is " + std::to_string(sizes[d]) + ", and the program bounds it by " +
                         std::to_string(bound),
                     in_.location_at(f.at));
  }
}

Function* Reader::closed_entry(Function& f, const Arguments* arguments) {
  start_body(f);  // finds the arguments' names
  const Signature signature = signature_of(f);
  std::vector<const Shape*> types;
  std::vector<std::optional<Dims>> known;
  for (const Function::Argument& a : f.arguments) types.push_back(a.type);
  if (signature.is_open()) {
    if (arguments == nullptr) refuse_open(f);
    const std::optional<std::vector<GivenArgument>> given = (*arguments)(signature);
    if (!given) return nullptr;
    for (std::size_t n = 0; n < types.size(); ++n) {
      const Shape* type = types[n];
      if (type->is_tuple && is_open(*type)) {
        in_.not_supported_at(f.at, "dims of unknown size in a tuple are not supported");
      }
      const Shape actual =
          type->is_tuple || n >= given->size() ? *type : Shape(type->dtype, (*given)[n].sizes);
      if (given->size() != types.size() || !fits(*type, actual)) {
        in_.fail_at(f.at, "argument " + std::to_string(n) + " of @" + std::string(f.name) + " is " +
                              mlir_type(*type) + "; " + mlir_type(actual) + " was given");
      }
      check_bounds(f, n, actual.dims);
      types[n] = types_.closed(type, actual);
      known.push_back((*given)[n].value);
      if (known[n] &&
          (!may_say_sizes(actual) || std::int64_t(known[n]->size()) != actual.element_count())) {
        known[n].reset();
      }
    }
  }
  Function& closed = closed_copy(f, types);
  closed.known = std::move(known);
  read_body(closed);
  return &closed;
}

Function& Reader::closed_copy(const Function& f, const std::vector<const Shape*>& types) {
  Function& out = functions_.emplace_back(f);
  out.computation = module_->add_computation(std::string(f.name));
  for (std::size_t n = 0; n < types.size(); ++n) out.arguments[n].type = types[n];
  return out;
}

Function& Reader::function_for(const Operation& op, Function& f,
                               const std::vector<ir::Instruction*>* operands) {
  if (!open_) return f;
  const bool used = known_.uses_given();
  known_.set_uses_given(false);
  std::vector<const Shape*> types;
  std::vector<std::optional<Dims>> known;
  for (std::size_t n = 0; n < f.arguments.size(); ++n) {
    const Shape* type = f.arguments[n].type;
    if (operands != nullptr) {
      const ir::Instruction& operand = *(*operands)[n];
      type = types_.closed(type, operand.shape);
      known.push_back(may_say_sizes(operand.shape) ? known_.of(operand) : std::nullopt);
    } else if (is_open(*type)) {
      fail(op, "names @" + std::string(f.name) + ", whose argument " + std::to_string(n) + " is " +
                   mlir_type(*type) + "; valid: a function of arguments whose sizes are known");
    }
    types.push_back(type);
  }
  const bool by_given = known_.uses_given();
  for (const ClosedFunction& closed : closed_[&f]) {
    bool same = true;
    for (std::size_t n = 0; same && n < types.size(); ++n) {
      same = *closed.function->arguments[n].type == *types[n];
    }
    if (!same || (closed.uses_known && closed.function->known != known)) continue;
    if (closed.reading) fail(op, "calls @" + std::string(f.name) + " within itself");
    known_.set_uses_given(used || (closed.uses_known && by_given));
    return *closed.function;
  }
  if (open_calls_ >= kMostCalls) fail(op, "is a call within 200 others");
  Function& function = closed_copy(f, types);
  function.known = std::move(known);
  ClosedFunction& closed = closed_[&f].emplace_back();
  closed.function = &function;
  known_.set_uses_given(false);
  ++open_calls_;
  read_apart(function);
  --open_calls_;
  closed.reading = false;
  closed.uses_known = known_.uses_given();
  known_.set_uses_given(used || (closed.uses_known && by_given));
  return function;
}

void Reader::read_apart(Function& f) {
  const char* back = in_.position();
  Symbols symbols;
  std::swap(symbols, symbols_);
  std::vector<Frame*> frames;
  frames.swap(frames_);
  std::vector<std::unique_ptr<Operation>> pool;
  pool.swap(pool_);
  std::vector<std::string> bound;
  bound.swap(bound_axes_);
  const std::size_t depth = depth_;
  const int scope = manual_scope_;
  depth_ = 0;
  manual_scope_ = 0;
  read_body(f);
  manual_scope_ = scope;
  depth_ = depth;
  bound.swap(bound_axes_);
  pool.swap(pool_);
  frames.swap(frames_);
  std::swap(symbols, symbols_);
  in_.seek(back);
}

void Reader::close_returned(Function& f, const std::vector<ir::Instruction*>& returned) {
  for (std::size_t n = 0; n < returned.size(); ++n) {
    f.results[n].type = types_.closed(f.results[n].type, returned[n]->shape);
    // Who calls may ask, so that the function is one of these integers.
    if (may_say_sizes(returned[n]->shape)) (void)known_.of(*returned[n]);
  }
}

ir::Instruction* Reader::known_constant(Frame& frame, const ir::Instruction& outer) {
  if (!may_say_sizes(outer.shape)) return nullptr;
  const std::optional<Dims> value = known_.of(outer);
  if (!value) return nullptr;
  auto out = std::make_unique<ir::Instruction>();
  out->opcode = ir::Opcode::constant;
  out->name = "captured." + std::to_string(++next_number_);
  out->shape = Shape(outer.shape.dtype, outer.shape.dims);
  out->attrs = ir::ConstantAttrs{make_literal(outer.shape.dtype, outer.shape.dims, *value)};
  out->metadata = outer.metadata;
  return frame.computation->add(std::move(out));
}

void Reader::note_captured(const ir::Instruction& outer, const ir::Instruction& inner) {
  if (!may_say_sizes(outer.shape)) return;
  const bool used = known_.uses_given();
  known_.set_uses_given(false);
  const std::optional<Dims> value = known_.of(outer);
  const bool given = known_.uses_given();
  known_.set_uses_given(used);
  if (value) known_.note(inner, outer.shape, *value, given);
}

}  // namespace tessera::text
