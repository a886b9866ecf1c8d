// SPDX-License-Identifier: Apache-2.0
// Regions become computations.
#include "src/ir/rewrite/builder.h"
#include "src/text/read/reader.h"

namespace tessera::text {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

void Reader::block_argument(std::vector<BlockArgument>* out) {
  in_.skip();
  BlockArgument a;
  a.at = in_.position();
  in_.expect('%', "before the name of an argument");
  a.name = in_.suffix("the name of an argument");
  in_.expect(':', "after the name of an argument");
  a.type = types_.read();
  if (in_.accept_word("loc")) in_.balanced();
  out->push_back(a);
}

void Reader::block_header(std::vector<BlockArgument>* out) {
  if (!in_.accept('^')) return;
  in_.suffix("the name of a block");
  if (in_.accept('(')) {
    if (!in_.accept(')')) {
      do {
        block_argument(out);
      } while (in_.accept(','));
      in_.expect(')', "after the arguments of a block");
    }
  }
  in_.expect(':', "after the name of a block");
}

Instruction* InstructionBuilder::add_to(Computation* c, Opcode opcode, Shape shape,
                                        ir::Attributes attrs, std::vector<Instruction*> operands) {
  auto owned = std::make_unique<Instruction>();
  owned->opcode = opcode;
  owned->shape = std::move(shape);
  owned->attrs = std::move(attrs);
  owned->set_operands(std::move(operands));
  owned->name = std::string(ir::name(opcode)) + "." + std::to_string(++next_number_);
  return c->add(std::move(owned));
}

void Reader::check_closed(const BlockArgument& argument, const Shape& type) {
  if (!is_open(type)) return;
  in_.not_supported_at(argument.at, "the sizes of this argument, " + mlir_type(type) +
                                        ", don't follow from what it stands for");
}

void Reader::region_arguments(const Operation& op, const std::vector<BlockArgument>& arguments,
                              const char* at, Frame* inner) {
  Computation* c = inner->computation;
  if (inner->kind == Regions::loop) {
    if (arguments.size() != op.operands.size()) {
      in_.fail_at(at, "a region of " + std::string(op.name) + " has " +
                          std::to_string(arguments.size()) + " arguments; expected " +
                          std::to_string(op.operands.size()));
    }
    std::vector<const Shape*> types;
    std::vector<Shape> shapes;
    for (std::size_t n = 0; n < arguments.size(); ++n) {
      const Shape &type = *arguments[n].type, &given = op.operands[n]->shape;
      const bool open = open_ && fits(type, given);
      types.push_back(open ? types_.closed(&type, given) : &type);
      if (open_) check_closed(arguments[n], *types[n]);
      shapes.push_back(*types[n]);
    }
    inner->own = shapes.size();
    inner->tuple =
        add_to(c, Opcode::parameter, Shape::tuple(std::move(shapes)), ir::ParameterAttrs{0}, {});
    for (std::size_t n = 0; n < arguments.size(); ++n) {
      Instruction* v = add_to(c, Opcode::get_tuple_element, *types[n],
                              ir::GetTupleElementAttrs{std::int64_t(n)}, {inner->tuple});
      const Quantized* q = types_.quantized(arguments[n].type);
      if (!same_meaning(q, quantized(op.operands[n]))) {
        in_.fail_at(arguments[n].at,
                    "this argument is " + type_text(v->shape, q) + " and starts as " +
                        type_text(op.operands[n]->shape, quantized(op.operands[n])));
      }
      note_quantized(v, q);
      define(arguments[n].name, arguments[n].at, &v, 1);
    }
  } else if (inner->kind == Regions::branches) {
    if (!arguments.empty()) in_.fail_at(at, "a branch takes no arguments");
    inner->tuple = add_to(c, Opcode::parameter, Shape::tuple({}), ir::ParameterAttrs{0}, {});
  } else {
    inner->own = arguments.size();
    for (std::size_t n = 0; n < arguments.size(); ++n) {
      const Shape* type = arguments[n].type;
      if (open_ && op.info->regions == Regions::isolated && n < op.operands.size() &&
          fits(*type, op.operands[n]->shape)) {
        type = types_.closed(type, op.operands[n]->shape);
      }
      if (open_) check_closed(arguments[n], *type);
      Instruction* v = add_to(c, Opcode::parameter, *type, ir::ParameterAttrs{std::int64_t(n)}, {});
      note_quantized(v, types_.quantized(arguments[n].type));
      define(arguments[n].name, arguments[n].at, &v, 1);
    }
  }
}

Computation* Reader::region(Operation& op, std::size_t number,
                            const std::vector<BlockArgument>* arguments, Captures* captures) {
  in_.skip();
  const char* at = in_.position();
  in_.expect('{', "before a region");
  std::vector<BlockArgument> header;
  if (arguments == nullptr) {
    block_header(&header);
    arguments = &header;
  }
  return region_of(op, number, *arguments, at, captures);
}

Computation* Reader::region_of(Operation& op, std::size_t number,
                               const std::vector<BlockArgument>& arguments, const char* at,
                               Captures* captures) {
  Frame inner;
  inner.kind = op.info->regions;
  inner.captures = captures;
  inner.computation = module_->add_computation("region_" + std::to_string(next_number_++));
  Computation* c = inner.computation;
  frames_.push_back(&inner);

  region_arguments(op, arguments, at, &inner);
  operations(inner);
  if (types_.any_quantized()) {
    std::vector<const Quantized*>& returned = op.returned.emplace_back();
    for (const Instruction* i : inner.returned) returned.push_back(quantized(i));
  }

  std::vector<Instruction*> results = inner.returned;
  // The state goes on to the next trip: own values as returned, captured ones as they came.
  const bool is_body = inner.kind == Regions::loop && number == 1;
  if (is_body) {
    for (Instruction* outer : captures->values) results.push_back(capture(inner, outer, at));
  }
  if (results.size() == 1 && !is_body) {
    c->set_root(results[0]);
  } else {
    std::vector<Shape> shapes;
    for (const Instruction* i : results) shapes.push_back(i->shape);
    c->set_root(add_to(c, Opcode::tuple, Shape::tuple(std::move(shapes)), {}, std::move(results)));
  }
  frames_.pop_back();
  if (inner.kind == Regions::scalar) {
    // Reducers that mean the same are one computation.
    if (auto opcode = ir::as_binary_reducer(*c); opcode && c->root()->shape.dims.empty()) {
      c = binary_computation(*opcode, c->root()->shape.dtype);
    }
  }
  return c;
}

Computation* InstructionBuilder::binary_computation(Opcode opcode, DType dtype) {
  Computation*& c = binary_computations_[{opcode, dtype}];
  if (c == nullptr) c = ir::scalar_computation(module_.get(), opcode, dtype);
  return c;
}

void Reader::regions(Operation& op) {
  in_.skip();
  const char* at = in_.position();
  in_.expect('(', "before the regions");
  if (op.info->regions == Regions::none) {
    in_.fail_at(at, std::string(op.name) + " takes no regions");
  }
  if (op.info->regions == Regions::inlined) {
    inlined_region(op);
    in_.expect(')', "after the region");
    return;
  }
  Captures captures;
  do {
    op.regions.push_back(
        region(op, op.regions.size(), nullptr, captures_any(op) ? &captures : nullptr));
  } while (in_.accept(','));
  in_.expect(')', "after the regions");
  finish_regions(op, captures);
}

bool Reader::captures_any(const Operation& op) {
  // Two functions would share one list of arguments.
  return op.info->regions != Regions::isolated && op.info->opcode != Opcode::select_and_scatter;
}

void Reader::finish_regions(Operation& op, Captures& captures) {
  if (op.info->regions == Regions::scalar) op.captured = std::move(captures.values);
  if (op.info->regions == Regions::loop) finish_loop(op, captures);
  if (op.info->regions == Regions::branches) finish_branches(op, captures);
}

void Reader::inlined_region(Operation& op) {
  in_.skip();
  const char* at = in_.position();
  in_.expect('{', "before a region");
  std::vector<BlockArgument> arguments;
  block_header(&arguments);
  inline_region(op, arguments, at);
}

void Reader::inline_region(Operation& op, const std::vector<BlockArgument>& arguments,
                           const char* at) {
  if (!arguments.empty() && arguments.size() != op.operands.size()) {
    in_.fail_at(at, "a region of " + std::string(op.name) + " has " +
                        std::to_string(arguments.size()) + " arguments; expected " +
                        std::to_string(op.operands.size()));
  }
  Frame inner;
  inner.kind = Regions::inlined;
  inner.computation = current();
  frames_.push_back(&inner);
  for (std::size_t n = 0; n < arguments.size(); ++n) {
    const Quantized* q = types_.quantized(arguments[n].type);
    if (!fits(*arguments[n].type, op.operands[n]->shape) ||
        !same_meaning(q, quantized(op.operands[n]))) {
      in_.fail_at(arguments[n].at, "this argument is " + type_text(*arguments[n].type, q) +
                                       " and stands for " +
                                       type_text(op.operands[n]->shape, quantized(op.operands[n])));
    }
    define(arguments[n].name, arguments[n].at, &op.operands[n], 1);
  }
  operations(inner);
  frames_.pop_back();
  op.inlined = std::move(inner.returned);
}

void Reader::finish_loop(Operation& op, Captures& captures) {
  if (op.regions.size() != 2) {
    in_.fail_at(op.at, std::string(op.name) + " needs a condition and a body, not " +
                           std::to_string(op.regions.size()) + " regions");
  }
  for (Computation* c : op.regions) {
    Shape& state = c->parameter(0)->shape;
    for (std::size_t n = state.elements.size() - op.operands.size(); n < captures.values.size();
         ++n) {
      state.elements.push_back(captures.values[n]->shape);
    }
  }
  op.captured = std::move(captures.values);
}

void Reader::finish_branches(Operation& op, Captures& captures) {
  for (Computation* c : op.regions) {
    Instruction* parameter = c->parameter(0);
    if (captures.values.size() != 1) {
      for (const Instruction* outer : captures.values) {
        parameter->shape.elements.push_back(outer->shape);
      }
      continue;
    }
    // A single value needs no tuple.
    parameter->shape = captures.values[0]->shape;
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::get_tuple_element) || i->operand(0) != parameter) continue;
      i->replace_all_uses_with(parameter);
      only_captured_[i.get()] = parameter;
      i->set_operands({});
      i->opcode = Opcode::after_all;
      i->attrs = {};
      i->shape = Shape::token();
      break;
    }
  }
  op.captured = std::move(captures.values);
}

}  // namespace tessera::text
