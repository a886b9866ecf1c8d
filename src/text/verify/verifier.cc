// SPDX-License-Identifier: Apache-2.0
// Which rules hold for which operations.
#include "src/text/verify/verifier.h"

#include <unordered_map>

#include "src/base/contains.h"

namespace tessera::text {
namespace {

using V = Verifier;

struct Rule {
  std::string_view operation;
  std::vector<void (Verifier::*)()> checks;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"stablehlo.all_gather",
       {&V::groups_not_empty, &V::groups_complete, &V::global_ids_need_channel}},
      {"stablehlo.all_reduce", {&V::groups_complete, &V::global_ids_need_channel}},
      {"stablehlo.collective_reduce", {&V::global_ids_need_channel}},
      {"stablehlo.reduce_scatter",
       {&V::groups_not_empty, &V::groups_complete, &V::global_ids_need_channel}},
      {"stablehlo.all_to_all", {&V::groups_complete, &V::groups_of_split_count}},
      {"stablehlo.collective_permute", {&V::pairs_of_devices}},
      {"stablehlo.send", {&V::channel_type, &V::pairs_of_devices}},
      {"stablehlo.recv", {&V::channel_type, &V::pairs_of_devices, &V::data_then_token}},
      {"stablehlo.infeed", {&V::data_then_token, &V::infeed_layout}},
      {"stablehlo.async_start", {&V::async_body}},
      {"stablehlo.broadcast", {&V::broadcast_result}},
      {"stablehlo.dynamic_broadcast_in_dim",
       {&V::shape_operand, &V::distinct_dims, &V::known_dims, &V::axis_of_broadcast}},
      {"stablehlo.dynamic_reshape", {&V::shape_operand, &V::axis_of_reshape}},
      {"stablehlo.dynamic_iota", {&V::shape_operand}},
      {"stablehlo.rng", {&V::shape_operand, &V::normal_of_floats}},
      {"stablehlo.rng_bit_generator", {&V::generator_state}},
      {"stablehlo.while", {&V::types_kept}},
      {"stablehlo.optimization_barrier", {&V::types_kept}},
      {"stablehlo.gather", {&V::sorted_dims}},
      {"stablehlo.dynamic_gather", {&V::sorted_dims}},
      {"stablehlo.scatter", {&V::sorted_dims}},
      {"stablehlo.reduce_window", {&V::window_dimensions}},
      {"stablehlo.select_and_scatter", {&V::window_dimensions}},
      {"stablehlo.dot", {&V::precisions}},
      {"stablehlo.dot_general", {&V::precisions, &V::dot_algorithm, &V::quantized_dot}},
      {"stablehlo.convolution",
       {&V::precisions, &V::convolution_types, &V::spatial_dims, &V::quantized_convolution}},
      {"stablehlo.dynamic_conv",
       {&V::precisions, &V::convolution_types, &V::spatial_dims, &V::quantized_convolution}},
      {"stablehlo.custom_call",
       {&V::call_layouts, &V::call_aliases, &V::call_config, &V::call_of_buffers}},
      {"stablehlo.composite", {&V::composite_name}},
      {"stablehlo.add", {&V::axis_of_sum}},
      {"stablehlo.broadcast_in_dim", {&V::distinct_dims, &V::axis_of_broadcast}},
      {"stablehlo.transpose", {&V::axis_of_transpose}},
      {"stablehlo.reshape", {&V::axis_of_reshape}},
      {"chlo.scan", {&V::scan_size}},
  };
  return all;
}

const Rule* rule_of(const OpInfo* info) {
  static const auto* by_info = [] {
    auto* map = new std::unordered_map<const OpInfo*, const Rule*>;
    for (const Rule& rule : rules()) map->emplace(find_operation(rule.operation), &rule);
    return map;
  }();
  auto it = by_info->find(info);
  return it == by_info->end() ? nullptr : it->second;
}

}  // namespace

void Reader::verify(const Operation& op) { Verifier(*this, op).run(); }

void Verifier::run() {
  if (op_.find("result_accuracy") != nullptr) result_accuracy();
  if (r_.types_.any_quantized()) quantized_types();
  const Rule* rule = rule_of(op_.info);
  if (rule == nullptr) return;
  for (auto check : rule->checks) (this->*check)();
}

bool Verifier::token(const Shape& shape) const {
  return !shape.is_tuple && shape.dtype == DType::token;
}

std::optional<Dims> Verifier::known(std::size_t operand) {
  if (operand >= op_.operands.size()) return std::nullopt;
  const ir::Instruction* i = op_.operands[operand];
  if (i->is(ir::Opcode::broadcast)) i = i->operand(0);
  if (!i->is(ir::Opcode::constant) || !is_integer(i->shape.dtype)) return std::nullopt;
  if (op_.operands[operand]->shape.element_count() > 1000) return std::nullopt;
  return r_.constant_integers(op_, operand);
}

std::vector<std::string_view> Verifier::items(std::string_view list) {
  std::vector<std::string_view> out;
  r_.at_value(r_.expanded(list), [&] {
    if (!r_.in_.accept('[')) return;
    if (r_.in_.accept(']')) return;
    do {
      r_.in_.skip();
      out.push_back(r_.expanded(r_.in_.value()));
    } while (r_.in_.accept(','));
    r_.in_.expect(']', "after the list");
  });
  return out;
}

void Verifier::result_accuracy() {
  const Operation parts = r_.fields_of(op_, *op_.find("result_accuracy"));
  if (parts.find("mode") == nullptr) return;
  const std::string_view mode = r_.keyword(parts, "mode");
  if (mode != "DEFAULT" && mode != "HIGHEST") return;
  for (std::string_view key : {"atol", "rtol", "ulps"}) {
    if (parts.find(key) == nullptr || r_.real(parts, key) == 0) continue;
    fail("has a result accuracy of mode " + std::string(mode) + " with " + std::string(key) +
         " other than 0; valid: tolerances of 0, or mode TOLERANCE");
  }
}

}  // namespace tessera::text
