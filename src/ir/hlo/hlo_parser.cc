// SPDX-License-Identifier: Apache-2.0
// Modules, computations and instructions.
#include "src/ir/hlo/hlo_parser.h"

#include "src/ir/analysis/verifier.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hlo/literal_parser.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/limits.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir {
namespace {}  // namespace

std::unique_ptr<Module> parse_hlo(std::string_view text, const std::string& file) {
  return HloParser(text, file).run();
}

std::unique_ptr<Module> HloParser::run() {
  module_ = std::make_unique<Module>();
  if (in_.accept_word("HloModule")) header();
  while (!in_.at_end()) computation();
  if (module_->computations().empty()) in_.fail("expected a computation");
  if (module_->entry() == nullptr) {
    // As XLA reads it: where none is marked, the last one is it.
    module_->set_entry(last_);
  }
  if (layout_at_.data() != nullptr) check_entry_layout();
  raise_manual_computations(
      module_.get(), resolve_shardings(in_, module_.get(), pending_, sdy_meshes_, meshes_at_));
  verify_structure(*module_, false);
  return std::move(module_);
}

void HloParser::computation() {
  in_.skip();
  const char* start = in_.position();
  bool entry = in_.accept_word("ENTRY");
  std::string_view name = in_.name("a computation (`name {` or `ENTRY name {`)");
  if (in_.peek() == '=') {
    in_.fail_at(start, "an instruction stands outside of a computation; expected `name {`");
  }
  if (computations_.count(name) != 0) {
    in_.fail_at(name.data(), "computation '" + std::string(name) + "' stands twice");
  }
  if (entry && module_->entry() != nullptr) {
    in_.fail_at(start, "a second ENTRY; the first is " + module_->entry()->name());
  }
  Computation* c = module_->add_computation(std::string(name));
  if (in_.peek() == '(') signature();
  in_.expect('{', "before the instructions of a computation");
  body(c, 0);
  // `, execution_thread="main"` and the like say nothing about the program.
  AttributeReader rest(in_, "a computation");
  rest.take("execution_thread");
  rest.take("frontend_attributes");
  rest.finish({});
  if (entry) module_->set_entry(c);
  computations_.emplace(name, c);
  last_ = c;
}

void HloParser::signature() {
  // `(a: f32[2], b: s32[]) -> f32[2]`: the body says it again.
  in_.expect('(', "before the parameters");
  if (!in_.accept(')')) {
    do {
      in_.name("the name of a parameter");
      in_.accept(':');  // which XLA takes as part of the name, so that it may be missing
      in_.shape();
    } while (in_.accept(','));
    in_.expect(')', "after the parameters");
  }
  if (!in_.accept_text("->")) in_.fail("expected '->' and the shape of the result");
  in_.shape();
}

void HloParser::body(Computation* c, int depth) {
  Scope scope{c, {}, depth};
  const char* start = in_.position();
  while (!in_.accept('}')) {
    if (in_.at_end())
      in_.fail_at(start, "computation " + c->name() + " is not closed (expected '}')");
    instruction(scope);
  }
  if (c->instructions().empty()) {
    in_.fail_at(start, "computation " + c->name() + " has no instructions");
  }
  if (c->root() == nullptr) c->set_root(c->instructions().back().get());
  for (std::size_t n = 0; n < c->parameters().size(); ++n) {
    if (c->parameter(n) == nullptr) {
      in_.fail_at(start, "computation " + c->name() + " lacks parameter " + std::to_string(n));
    }
  }
}

void HloParser::instruction(Scope& scope) {
  in_.skip();
  const char* start = in_.position();
  bool root = in_.accept_word("ROOT");
  if (root && scope.computation->root() != nullptr) {
    in_.fail_at(start, "a second ROOT in " + scope.computation->name() + "; the first is " +
                           scope.computation->root()->name);
  }
  in_.skip();
  bool percent = in_.position() < in_.end() && *in_.position() == '%';
  std::string_view name = in_.name("the name of an instruction or '}'");
  const char* after = name.data() + name.size();
  if (!percent && after < in_.end() && *after == '=') {
    in_.fail_at(name.data(),
                "'" + std::string(name) + "=' reads as an attribute; expected a blank before '='");
  }
  if (scope.names.count(name) != 0) {
    in_.fail_at(name.data(), "instruction '" + std::string(name) + "' stands twice in " +
                                 scope.computation->name());
  }
  in_.expect('=', "after the name of an instruction");
  Instruction* i = right_side(scope, name, false);
  scope.names.emplace(name, i);
  if (root) scope.computation->set_root(i);
}

HloParser::OpcodeWord HloParser::opcode(bool after_shape) {
  in_.skip();
  const char* at = in_.position();
  const std::string_view word = in_.word("an opcode");
  const std::optional<Opcode> op = opcode_from_name(word);
  // Ops that HLO lacks are custom calls in its text.
  if (op && !is_printed_as_custom_call(*op)) {
    return {at, in_.location_at(at), *op, std::nullopt};
  }
  // `negate-start`: a computation of one instruction that runs asynchronously.
  for (auto [suffix, async] : {std::pair<std::string_view, Opcode>{"-start", Opcode::async_start},
                               {"-update", Opcode::async_update},
                               {"-done", Opcode::async_done}}) {
    if (word.size() <= suffix.size() || word.substr(word.size() - suffix.size()) != suffix) {
      continue;
    }
    const auto wrapped = opcode_from_name(word.substr(0, word.size() - suffix.size()));
    if (wrapped) return {at, in_.location_at(at), *wrapped, async};
  }
  if (word == "b" && in_.peek() == '(') {
    in_.not_supported_at(at, "buffer types b(...) are not supported");
  }
  in_.fail_at(at, (after_shape ? "unknown opcode '" : "expected a shape or an opcode, found '") +
                      std::string(word) + "'");
}

ParameterAttrs HloParser::parameter(const Scope& scope) {
  in_.skip();
  const char* at = in_.position();
  const std::int64_t number = in_.integer("the number of the parameter");
  if (number < 0 || number > in_.size()) {
    // A computation must have all smaller ones too, and those take text.
    in_.fail_at(at, "parameter number " + std::to_string(number) +
                        "; parameters are numbered from 0 without gaps");
  }
  const auto& known = scope.computation->parameters();
  if (std::size_t(number) < known.size() && known[std::size_t(number)] != nullptr) {
    in_.fail_at(at, "parameter " + std::to_string(number) + " of " + scope.computation->name() +
                        " stands twice; the first is " + known[std::size_t(number)]->name);
  }
  return {number};
}

ConstantAttrs HloParser::constant(const Shape& shape) {
  ConstantAttrs a;
  a.value = parse_literal(in_, shape, &a.elided);
  return a;
}

void HloParser::split_constant(Scope& scope, Instruction* i) {
  const auto whole = std::move(i->get<ConstantAttrs>());
  i->opcode = Opcode::tuple;
  i->attrs = {};
  for (const Literal& element : whole.value.elements()) {
    auto part = std::make_unique<Instruction>();
    part->opcode = Opcode::constant;
    part->shape = element.shape();
    part->metadata = i->metadata;
    part->attrs = ConstantAttrs{element, whole.elided};
    if (element.is_tuple()) split_constant(scope, part.get());
    i->add_operand(scope.computation->add(std::move(part)));
  }
}

void HloParser::check_or_infer_shape(Instruction* i, bool declared, const OpcodeWord& word) {
  try {
    Shape shape = infer_shape(i->opcode, i->operands(), i->attrs, i->called(),
                              declared ? &i->shape : nullptr, word.location, module_->grid());
    if (declared) return;
    inferred_parts_ += shape_parts(shape);
    if (inferred_parts_ > kMaxShapeParts + in_.size()) {
      in_.fail_at(word.at, "the shapes that the text leaves out have more than " +
                               std::to_string(kMaxShapeParts + in_.size()) + " parts");
    }
    i->shape = std::move(shape);
  } catch (const ShapeError& e) {
    throw ShapeError(i->name + " = " + e.message(), e.location());
  } catch (const DTypeError& e) {
    throw DTypeError(i->name + " = " + e.message(), e.location());
  }
}

Instruction* HloParser::right_side(Scope& scope, std::string_view name, bool nested) {
  auto owned = std::make_unique<Instruction>();
  Instruction* i = owned.get();
  i->name = std::string(name);
  in_.skip();
  const bool declared = in_.at_shape();
  if (declared) i->shape = in_.shape();
  const OpcodeWord word = opcode(declared);
  i->opcode = word.async.value_or(word.op);
  in_.expect('(', "after the opcode");
  if (i->opcode == Opcode::parameter) {
    i->attrs = parameter(scope);
  } else if (i->opcode == Opcode::constant) {
    if (!declared) in_.fail_at(word.at, "a constant needs its shape before the opcode");
    i->attrs = constant(i->shape);
  } else {
    operands(scope, word.op, i);
  }
  in_.expect(')', i->opcode == Opcode::constant ? "after the literal" : "after the operands");
  attributes(scope, word, i, nested);
  if (word.async == Opcode::async_start) {
    if (!declared) in_.fail_at(word.at, "an asynchronous start needs its shape before the opcode");
    wrap_async(word.op, i, word.at);
  } else if (word.async) {
    i->attrs = {};
  }
  check_or_infer_shape(i, declared, word);
  if (i->is(Opcode::constant) && i->shape.is_tuple) split_constant(scope, i);
  return scope.computation->add(std::move(owned));
}

void HloParser::wrap_async(Opcode base, Instruction* i, const char* where) {
  if (!i->shape.is_tuple || i->shape.elements.size() < 2 || !i->shape.elements[0].is_tuple) {
    in_.fail_at(where,
                "the shape of an asynchronous start must be ((operands), outputs, state), "
                "not " +
                    i->shape.to_string());
  }
  Computation* c = module_->add_computation("wrapped_" + std::string(ir::name(base)));
  auto inner = std::make_unique<Instruction>();
  inner->opcode = base;
  inner->shape = i->shape.elements[1];
  inner->attrs = std::move(i->attrs);
  inner->set_called(i->called());
  for (std::size_t n = 0; n < i->operands().size(); ++n) {
    auto p = std::make_unique<Instruction>();
    p->opcode = Opcode::parameter;
    p->shape = i->operands()[n]->shape;
    p->attrs = ParameterAttrs{std::int64_t(n)};
    inner->add_operand(c->add(std::move(p)));
  }
  infer_shape(base, inner->operands(), inner->attrs, inner->called(), &inner->shape,
              in_.location_at(where), module_->grid());
  c->set_root(c->add(std::move(inner)));
  i->attrs = {};
  i->set_called({c});
}

void HloParser::operands(Scope& scope, Opcode op, Instruction* i) {
  if (in_.peek() != ')') {
    do {
      i->add_operand(operand(scope));
    } while (in_.accept(','));
  }
  // Asynchronous steps take other operands than the opcode that they wrap.
  if (i->opcode != op) return;
  int count = info(op).operands;
  if (count >= 0 && std::size_t(count) != i->operands().size()) {
    in_.fail(std::string(ir::name(op)) + " takes " + std::to_string(count) + " operand" +
             (count == 1 ? "" : "s") + " and " + std::to_string(i->operands().size()) +
             " stand here");
  }
}

Instruction* HloParser::operand(Scope& scope) {
  in_.skip();
  const char* start = in_.position();
  bool shaped = in_.at_shape();
  Shape shape;
  if (shaped) shape = in_.shape();
  in_.skip();
  const char* at = in_.position();
  bool percent = at < in_.end() && *at == '%';
  std::string_view name = in_.name("an operand");
  if (!percent && in_.peek() == '(') {
    if (scope.depth >= kMaxNesting) {
      in_.fail_at(at, "instructions nest deeper than " + std::to_string(kMaxNesting));
    }
    in_.seek(start);
    ++scope.depth;
    Instruction* inner = right_side(scope, "", true);
    --scope.depth;
    return inner;
  }
  auto it = scope.names.find(name);
  if (it == scope.names.end()) {
    in_.fail_at(at, "instruction '" + std::string(name) + "' is not defined before this use in " +
                        scope.computation->name());
  }
  if (shaped && it->second->shape != shape) {
    in_.fail_at(start, "operand " + std::string(name) + " is written as " + shape.to_string() +
                           " and is " + it->second->shape.to_string());
  }
  return it->second;
}

}  // namespace tessera::ir
