// SPDX-License-Identifier: Apache-2.0
// What the operations of sdy become.
#include "src/ir/hlo/typed_calls.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

void Conversions::sharding_constraint(Operation& op) {
  need_operands(op, 1, 1);
  ir::ShardingConstraintAttrs attrs;
  if (op.name == "sdy.reshard") attrs.kind = ir::ShardingConstraintAttrs::Kind::reshard;
  set(op, Opcode::sharding_constraint, op.operands, std::move(attrs));
  pend(op.values[0], expanded(need(op, "sharding").value), {});
  sdy_.resharded.push_back({op.operands[0], op.values[0], op.info->name, op.at});
}

void Conversions::sharding_group(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 0);
  std::int64_t group = integer(op, "group_id");
  if (group < 0 || group > (1 << 30)) fail(op, "has a group_id that is out of range");
  sdy_.groups.push_back({op.operands[0], int(group), op.at, manual_scope_});
}

void Conversions::manual_computation(Operation& op) {
  need_regions(op, 1);
  ir::CustomCallAttrs a;
  a.target = ir::kManualComputationTarget;
  auto list = [&](const char* key) {
    std::string text = expanded_sdy(need(op, key).value);
    check_bound_axes(text, op.at);
    constexpr std::string_view kFramed = "#sdy.sharding_per_value";
    if (text.starts_with(kFramed) && text.size() > kFramed.size() + 1) {
      text = text.substr(kFramed.size() + 1, text.size() - kFramed.size() - 2);
    }
    manual_shardings_.emplace_back(op.at, text);
    return text;
  };
  a.other.emplace_back(ir::kManualInShardings, list("in_shardings"));
  a.other.emplace_back(ir::kManualOutShardings, list("out_shardings"));
  std::string axes(expanded(need(op, "manual_axes").value));
  for (const char* prefix : {"#sdy<manual_axes", "#sdy.manual_axes<"}) {
    if (axes.compare(0, std::string_view(prefix).size(), prefix) == 0) {
      axes = axes.substr(std::string_view(prefix).size());
      if (!axes.empty() && axes.back() == '>') axes.pop_back();
    }
  }
  while (!axes.empty() && axes.front() == ' ') axes.erase(axes.begin());
  if (axes.size() < 2 || axes.front() != '{' || axes.back() != '}') {
    fail(op, "has manual_axes " + axes + "; expected {\"x\", \"y\"}");
  }
  axes.front() = '[';
  axes.back() = ']';
  a.other.emplace_back(ir::kManualAxes, axes);
  const ir::Computation& body = *op.regions[0];
  if (body.parameters().size() != op.operands.size()) {
    fail(op, "has " + std::to_string(op.operands.size()) + " operands and a body with " +
                 std::to_string(body.parameters().size()) + " arguments");
  }
  set_results(op, Opcode::custom_call, op.operands, std::move(a), op.regions);
}

std::vector<Instruction*> Conversions::constrained(const Operation& op,
                                                   std::vector<Instruction*> values,
                                                   std::string_view key) {
  const Attribute* list = op.find(key);
  if (list == nullptr) return values;
  const char* back = in_.position();
  std::string_view text = expanded(list->value);
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) in_.fail_at(text.data(), "expected a list of shardings");
  in_.seek(text.data() + open + 1);
  std::size_t n = 0;
  in_.items(']', "after the shardings of all values", [&] {
    in_.skip();
    const char* at = in_.position();
    const std::string_view sharding = in_.value();
    if (n >= values.size()) {
      in_.fail_at(at, std::string(key) + " has more shardings than the " +
                          std::to_string(values.size()) + " values");
    }
    if (values[n]->shape.is_array()) {
      Instruction* given = values[n];
      values[n] = add(op, Opcode::sharding_constraint, values[n]->shape, {values[n]},
                      ir::ShardingConstraintAttrs());
      pend(values[n], expanded(sharding), {});
      sdy_.resharded.push_back({given, values[n], op.info->name, op.at});
    }
    ++n;
  });
  if (n != values.size()) {
    in_.fail_at(text.data(), std::string(key) + " has " + std::to_string(n) + " shardings for " +
                                 std::to_string(values.size()) + " values");
  }
  in_.seek(back);
  return values;
}

void Conversions::named_computation(Operation& op) {
  need_regions(op, 1);
  const ir::Computation& body = *op.regions[0];
  if (body.parameters().size() != op.operands.size()) {
    fail(op, "has " + std::to_string(op.operands.size()) + " operands and a body with " +
                 std::to_string(body.parameters().size()) + " arguments");
  }
  set_results(op, Opcode::call, constrained(op, op.operands, "in_shardings"), {}, op.regions);
  // Unlike that of a function its body has been read, and there is no signature.
  const Instruction* call = current()->instructions().back().get();
  while (call->opcode != Opcode::call) call = call->operand(0);
  check_shape(op, *call);
  op.values = constrained(op, std::move(op.values), "out_shardings");
}

void Conversions::propagation_barrier(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  // By name, or by number in the generic form.
  const std::string_view direction = expanded(need(op, "allowed_direction").value);
  const auto is = [&](char number, std::string_view name) {
    return direction == name || (!direction.empty() && direction[0] == number);
  };
  ir::PropagationBarrierAttrs attrs;
  attrs.forward = is('1', "FORWARD");
  attrs.backward = is('2', "BACKWARD");
  if (!attrs.forward && !attrs.backward && !is('0', "NONE")) {
    fail(op, "has allowed_direction " + std::string(direction) +
                 "; valid: NONE, FORWARD, BACKWARD (without the operation, both)");
  }
  if (!op.operands[0]->shape.is_array()) return identity(op);
  set(op, Opcode::propagation_barrier, op.operands, std::move(attrs));
}

void Conversions::data_flow_edge(Operation& op) {
  check_data_flow_edge(op);
  const Attribute* sharding = op.find("sharding");
  if (sharding == nullptr) return identity(op);
  need_operands(op, 1, 1);
  need_results(op, 1);
  set(op, Opcode::copy, op.operands);
  pend(op.values[0], expanded(sharding->value), {});
  sdy_.resharded.push_back({op.operands[0], op.values[0], op.info->name, op.at});
}

void Conversions::sdy_collective(Operation& op) {
  need_operands(op, 1, 1);
  SdyRecords::Collective c;
  if (const Attribute* reduction = op.find("reduction_op")) {
    const std::string_view kind = expanded(reduction->value);
    if (kind.starts_with("max") || kind.starts_with('1')) c.reduction = Reduction::max;
    if (kind.starts_with("min") || kind.starts_with('2')) c.reduction = Reduction::min;
    bool known = false;
    for (std::string_view one : {"sum", "max", "min", "0", "1", "2"}) {
      known |= kind == one || kind.starts_with(std::string(one) + " ");
    }
    if (!known) {
      fail(op, "has the reduction " + std::string(kind) + "; valid: sum, max, min");
    }
  }
  for (const char* key : {"axes", "gathering_axes", "slicing_axes", "params", "reduction_axes",
                          "reduce_scatter_axes"}) {
    if (const Attribute* a = op.find(key)) c.axes = expanded_sdy(a->value);
  }
  // The whole array is the same on both sides, however it is sharded.
  ir::ShardingConstraintAttrs attrs;
  attrs.kind = ir::ShardingConstraintAttrs::Kind::reshard;
  c.operand = op.operands[0];
  c.of_argument = frames_.size() > 1 &&
                  (c.operand->is(Opcode::parameter) || c.operand->is(Opcode::get_tuple_element));
  set(op, Opcode::sharding_constraint, op.operands, std::move(attrs));
  pend(op.values[0], expanded(need(op, "out_sharding").value), {});
  c.result = op.values[0];
  c.name = op.info->name;
  c.at = op.at;
  sdy_.collectives.push_back(std::move(c));
}

}  // namespace tessera::text
