// SPDX-License-Identifier: Apache-2.0
// Tuples, loops, branches, calls, tokens.
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

void Conversions::tuple(Operation& op) { set(op, Opcode::tuple, op.operands); }

void Conversions::get_tuple_element(Operation& op) {
  need_operands(op, 1, 1);
  std::int64_t index = 0;
  if (const Attribute* a = op.find("place")) {
    const char* back = in_.position();
    in_.seek(a->value.data());
    in_.expect('[', "before the index");
    index = in_.integer("an index");
    in_.expect(']', "after the index");
    in_.seek(back);
  } else {
    index = integer(op, "index");
  }
  set(op, Opcode::get_tuple_element, op.operands, ir::GetTupleElementAttrs{index});
}

void Conversions::while_loop(Operation& op) {
  need_regions(op, 2);
  need_results(op, op.operands.size());
  std::vector<Instruction*> state = op.operands;
  state.insert(state.end(), op.captured.begin(), op.captured.end());
  std::vector<Shape> shapes;
  for (const Instruction* i : state) shapes.push_back(i->shape);
  Shape shape = Shape::tuple(std::move(shapes));
  Instruction* init = add(op, Opcode::tuple, shape, std::move(state));
  Instruction* loop =
      add(op, Opcode::while_, std::move(shape), {init}, ir::WhileAttrs{}, op.regions);
  unpack(op, loop, op.operands.size());
}

void Conversions::conditional(Operation& op) {
  need_operands(op, 1, 1);
  bool is_if = op.name == "stablehlo.if" || op.name == "mhlo.if";
  if (is_if) {
    need_regions(op, 2);
  } else if (op.regions.empty()) {
    fail(op, "needs at least one branch");
  }
  Instruction* argument = nullptr;
  if (op.captured.size() == 1) {
    argument = op.captured[0];
  } else {
    std::vector<Shape> shapes;
    for (const Instruction* i : op.captured) shapes.push_back(i->shape);
    argument = add(op, Opcode::tuple, Shape::tuple(std::move(shapes)), op.captured);
  }
  std::vector<Instruction*> operands{op.operands[0]};
  operands.resize(op.regions.size() + 1, argument);
  set_results(op, Opcode::conditional, std::move(operands), {}, op.regions);
}

Instruction* Conversions::call_function(Operation& op, std::string_view symbol) {
  std::string_view name = symbol;
  if (!name.empty() && name[0] == '@') name.remove_prefix(1);
  if (name.size() > 1 && name[0] == '"') name = name.substr(1, name.size() - 2);
  auto it = by_name_.find(name);
  if (it == by_name_.end()) {
    in_.fail_at(symbol.data(), "there is no function @" + std::string(name));
  }
  Function& f = *it->second;
  if (f.body == nullptr) {
    in_.fail_at(symbol.data(), "function @" + std::string(name) + " has no body");
  }
  bool fit = f.arguments.size() == op.operands.size() && f.results.size() == op.results.size();
  for (std::size_t n = 0; fit && n < f.arguments.size(); ++n) {
    fit = fits(*f.arguments[n].type, op.operands[n]->shape) &&
          same_meaning(types_.quantized(f.arguments[n].type), quantized(op.operands[n]));
  }
  const Function* called = nullptr;
  if (fit) {
    called = &function_for(op, f, &op.operands);
    for (std::size_t n = 0; n < f.results.size(); ++n) {
      // What one of them leaves open, the other may say.
      if (fits(*op.results[n], *called->results[n].type)) {
        close_result(op, n, *called->results[n].type);
      }
    }
  }
  for (std::size_t n = 0; fit && n < f.results.size(); ++n) {
    fit = *called->results[n].type == *op.results[n] &&
          same_meaning(types_.quantized(f.results[n].type), types_.quantized(op.results[n]));
  }
  if (!fit) {
    std::string text = "(";
    for (const auto& a : f.arguments) {
      text += (text.size() > 1 ? ", " : "") + type_text(*a.type, types_.quantized(a.type));
    }
    text += ") -> (";
    std::string results;
    for (const auto& a : f.results) {
      results += (results.empty() ? "" : ", ") + type_text(*a.type, types_.quantized(a.type));
    }
    fail(op, "doesn't fit function @" + std::string(name) + ", which is " + text + results + ")");
  }
  return set_results(op, Opcode::call, op.operands, {}, {called->computation});
}

void Conversions::call(Operation& op) {
  set_call_attributes(op, call_function(op, need(op, "callee").value));
}

void Conversions::composite(Operation& op) {
  // What it is made of means the same.
  std::string_view symbol = need(op, "decomposition").value;
  call_function(op, symbol);
}

void Conversions::optimization_barrier(Operation& op) {
  need_results(op, op.operands.size());
  if (op.operands.empty()) return;
  if (op.operands.size() == 1) {
    set(op, Opcode::opt_barrier, op.operands);
    return;
  }
  std::vector<Shape> shapes;
  for (const Instruction* i : op.operands) shapes.push_back(i->shape);
  Shape shape = Shape::tuple(std::move(shapes));
  Instruction* packed = add(op, Opcode::tuple, shape, op.operands);
  Instruction* barrier = add(op, Opcode::opt_barrier, std::move(shape), {packed});
  unpack(op, barrier, op.operands.size());
}

void Conversions::token(Operation& op) { set(op, Opcode::after_all, op.operands); }

void Conversions::async_start(Operation& op) {
  // What may run meanwhile runs at once: its operations stand before this one already.
  need_results(op, 1);
  if (op.inlined.size() == 1) {
    op.values = op.inlined;
  } else {
    std::vector<Shape> shapes;
    for (const Instruction* i : op.inlined) shapes.push_back(i->shape);
    op.values.push_back(add(op, Opcode::tuple, Shape::tuple(std::move(shapes)), op.inlined));
  }
  if (!(op.values[0]->shape == *op.results[0])) {
    fail(op, "has a region that returns " + mlir_type(op.values[0]->shape) +
                 " and is written with a future of " + mlir_type(*op.results[0]));
  }
}

void Conversions::async_done(Operation& op) {
  need_operands(op, 1, 1);
  if (op.results.size() == 1 && op.operands[0]->shape == *op.results[0]) {
    op.values = op.operands;
    return;
  }
  for (std::size_t n = 0; n < op.results.size(); ++n) {
    op.values.push_back(element(op, op.operands[0], n));
    if (op.values[n]->shape == *op.results[n]) continue;
    fail(op, "has a future of " + mlir_type(op.operands[0]->shape) + " and gives " +
                 mlir_type(*op.results[n]) + " as result " + std::to_string(n));
  }
}

void Conversions::infeed(Operation& op) {
  need_operands(op, 1, 1);
  if (op.results.empty()) fail(op, "needs a token as its last result");
  std::vector<Shape> shapes;
  for (std::size_t n = 0; n + 1 < op.results.size(); ++n) shapes.push_back(*op.results[n]);
  Shape data = Shape::tuple(std::move(shapes));
  ir::TextAttrs a;
  if (const Attribute* config = op.find("infeed_config")) {
    a.items.emplace_back("infeed_config", std::string(config->value));
  }
  Instruction* in = add(op, Opcode::infeed, Shape::tuple({data, Shape::token()}), op.operands, a);
  Instruction* values = element(op, in, 0);
  unpack(op, values, op.results.size() - 1);
  op.values.push_back(element(op, in, 1));
}

void Conversions::outfeed(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  std::vector<Instruction*> data(op.operands.begin(), op.operands.end() - 1);
  std::vector<Shape> shapes;
  for (const Instruction* i : data) shapes.push_back(i->shape);
  Shape shape = Shape::tuple(std::move(shapes));
  ir::TextAttrs a;
  a.items.emplace_back("outfeed_shape", shape.to_string_with_layout());
  if (const Attribute* config = op.find("outfeed_config")) {
    a.items.emplace_back("outfeed_config", std::string(config->value));
  }
  Instruction* packed = add(op, Opcode::tuple, shape, std::move(data));
  set(op, Opcode::outfeed, {packed, op.operands.back()}, a);
}

void Conversions::send(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  ir::TextAttrs a;
  if (auto id = channel(op)) a.items.emplace_back("channel_id", std::to_string(*id));
  if (flag(op, "is_host_transfer", false)) a.items.emplace_back("is_host_transfer", "true");
  Instruction* data = op.operands[0];
  if (op.operands.size() != 2) {
    std::vector<Instruction*> parts(op.operands.begin(), op.operands.end() - 1);
    std::vector<Shape> shapes;
    for (const Instruction* i : parts) shapes.push_back(i->shape);
    data = add(op, Opcode::tuple, Shape::tuple(std::move(shapes)), std::move(parts));
  }
  Shape shape = Shape::tuple({data->shape, Shape(DType::u32, {}), Shape::token()});
  Instruction* started = add(op, Opcode::send, shape, {data, op.operands.back()}, a);
  set(op, Opcode::send_done, {started}, a);
}

void Conversions::recv(Operation& op) {
  need_operands(op, 1, 1);
  if (op.results.empty()) fail(op, "needs a token as its last result");
  ir::TextAttrs a;
  if (auto id = channel(op)) a.items.emplace_back("channel_id", std::to_string(*id));
  if (flag(op, "is_host_transfer", false)) a.items.emplace_back("is_host_transfer", "true");
  std::vector<Shape> shapes;
  for (std::size_t n = 0; n + 1 < op.results.size(); ++n) shapes.push_back(*op.results[n]);
  bool single = shapes.size() == 1;
  Shape data = single ? shapes[0] : Shape::tuple(std::move(shapes));
  Shape shape = Shape::tuple({data, Shape(DType::u32, {}), Shape::token()});
  Instruction* started = add(op, Opcode::recv, shape, op.operands, a);
  Instruction* done =
      add(op, Opcode::recv_done, Shape::tuple({data, Shape::token()}), {started}, a);
  Instruction* values = element(op, done, 0);
  if (single) {
    op.values.push_back(values);
  } else {
    unpack(op, values, op.results.size() - 1);
  }
  op.values.push_back(element(op, done, 1));
}

void Conversions::cast(Operation& op) {
  need_results(op, op.operands.size());
  for (std::size_t n = 0; n < op.operands.size(); ++n) {
    if (op.operands[n]->shape == *op.results[n]) continue;
    fail(op, "goes from " + mlir_type(op.operands[n]->shape) + " to " + mlir_type(*op.results[n]) +
                 "; valid: types of vhlo to those that they stand for, and back");
  }
  op.values = op.operands;
}

void Conversions::terminator(Operation& op) { frame().returned = op.operands; }

}  // namespace tessera::text
