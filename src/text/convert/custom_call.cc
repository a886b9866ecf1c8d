// SPDX-License-Identifier: Apache-2.0
// Custom calls, as XLA writes them in HLO.
#include <algorithm>

#include "src/ir/hlo/text_out.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

constexpr const char* kApiVersions[] = {"", "", "API_VERSION_STATUS_RETURNING",
                                        "API_VERSION_STATUS_RETURNING_UNIFIED",
                                        "API_VERSION_TYPED_FFI"};

/// `"..."`, and nothing behind it.
bool is_one_string(std::string_view text) {
  if (text.size() < 2 || text[0] != '"') return false;
  std::size_t at = 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at + 1 == text.size();
}

}  // namespace

std::string_view Conversions::call_target(const Operation& op) {
  const Attribute* callee = op.find("callee");
  if (callee == nullptr) callee = &need(op, "call_target_name");
  std::string_view target = callee->value;
  if (!target.empty() && target[0] == '@') target.remove_prefix(1);
  if (target.size() > 1 && target[0] == '"') target = target.substr(1, target.size() - 2);
  return target;
}

// An operation wrapped in a call: `@mhlo.topk(...) {mhlo.attributes = {k = 4 : i64}}`. False if the
// target names no operation.
bool Conversions::wrapped_operation(Operation& op, std::string_view target,
                                    const Attribute& attributes) {
  const OpInfo* info = find_operation(target);
  if (info == nullptr) return false;
  op.attributes = dictionary(attributes, "before the attributes");
  op.info = info;
  op.name = info->name;
  if (open_) close_before_conversion(op);
  (this->*info->convert)(op);
  return true;
}

// The backend's configuration, quoted as HLO does it or a dictionary; a dictionary makes the call
// one of version 4.
std::string Conversions::call_config(const Operation& op, std::int64_t* version) {
  std::string config;
  for (const char* key : {"backend_config", "mhlo.backend_config"}) {
    const Attribute* c = op.find(key);
    if (c == nullptr) continue;
    std::string_view value = expanded(c->value);
    if (value.empty() || value == "\"\"") continue;
    if (value[0] != '{' && !is_one_string(value)) {
      fail(op, std::string("has a ") + key + " that is neither text nor a dictionary");
    }
    if (value[0] == '"') {
      config.clear();
      ir::append_quoted(config, unescape(value.substr(1, value.size() - 2)));
      continue;
    }
    *version = 4;
    std::size_t dictionary_size = 0;
    at_value(value, [&] { dictionary_size = in_.balanced().size(); });
    if (dictionary_size != value.size()) {
      fail(op, std::string("has more in ") + key + " than one dictionary");
    }
    config = std::string(value);
  }
  if (op.find("mhlo.backend_config") != nullptr) *version = 4;
  return config;
}

// Layouts of operands or results, minor to major; none if the text gives none.
std::vector<Dims> Conversions::call_layouts(const Operation& op, const char* key,
                                            std::size_t count) {
  std::vector<Dims> out;
  const Attribute* list = op.find(key);
  if (list == nullptr) return out;
  at_value(expanded(list->value), [&] {
    in_.expect('[', "before the layouts");
    in_.items(']', "after the layouts", [&] { out.push_back(dims_of(in_.value())); });
  });
  if (out.size() != count) {
    fail(op, "has " + std::to_string(out.size()) + " " + key + " for " + std::to_string(count) +
                 " values");
  }
  return out;
}

Shape Conversions::with_layout(const Operation& op, Shape shape, const Dims& layout) {
  if (!shape.is_array()) return shape;
  Dims sorted = layout;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t n = 0; n < sorted.size(); ++n) {
    if (sorted[n] != std::int64_t(n)) sorted.clear();
  }
  if (sorted.size() != shape.dims.size()) {
    fail(op, "has a layout that is no order of the dims of " + mlir_type(shape));
  }
  if (!is_row_major(layout)) shape.layout = layout;
  return shape;
}

// HLO's `{f32[8,8]{0,1}, s32[]}`.
std::string Conversions::operand_layout_constraints(const Operation& op,
                                                    const std::vector<Dims>& layouts) {
  std::string text = "{";
  for (std::size_t n = 0; n < op.operands.size(); ++n) {
    if (n > 0) text += ", ";
    ir::append_shape(text, with_layout(op, op.operands[n]->shape, layouts[n]));
  }
  return text + "}";
}

// [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, ...>] as HLO's
// `{{0}: (0, {})}`.
std::string Conversions::output_aliases(const Operation& op, const Attribute& aliases) {
  std::string text = "{";
  at_value(expanded(aliases.value), [&] {
    in_.expect('[', "before the aliases");
    in_.items(']', "after the aliases", [&] {
      const Operation one = fields_of(op, {"output_operand_aliases", in_.value()});
      const std::int64_t operand = integer(one, "operand_index");
      if (operand < 0 || operand >= std::int64_t(op.operands.size())) {
        fail(op, "has output_operand_aliases that name operand " + std::to_string(operand) +
                     " of " + std::to_string(op.operands.size()));
      }
      if (text.size() > 1) text += ", ";
      text += "{" + join(integers(one, "output_tuple_indices")) + "}: (" + std::to_string(operand) +
              ", {" + join(integers_or(one, "operand_tuple_indices", {})) + "})";
    });
  });
  return text + "}";
}

std::vector<ir::Computation*> Conversions::called_functions(const Operation& op) {
  std::vector<ir::Computation*> called;
  const Attribute* list = op.find("called_computations");
  if (list == nullptr) return called;
  at_value(list->value, [&] {
    in_.expect('[', "before the called functions");
    in_.items(']', "after the called functions", [&] {
      if (!op.flat) in_.expect('@', "before the name of a function");
      in_.skip();
      std::string_view name = in_.suffix("the name of a function");
      auto it = by_name_.find(name);
      if (it == by_name_.end()) {
        in_.fail_at(name.data(), "there is no function @" + std::string(name));
      }
      called.push_back(function_for(op, *it->second, nullptr).computation);
    });
  });
  return called;
}

void Conversions::custom_call(Operation& op) {
  ir::CustomCallAttrs a;
  a.target = unescape(call_target(op));
  if (const Attribute* inner = op.find("mhlo.attributes")) {
    if (wrapped_operation(op, a.target, *inner)) return;
  }
  if (dynamic_call(op, a.target)) return;
  if (a.target == "Sharding" || a.target == "annotate_device_placement") close_as_operands(op);
  if (a.target == "ApproxTopK" || a.target == "stablehlo.dynamic_approx_top_k") {
    std::vector<Dims> none;
    leave_out_shape_operands(op, &none);
    return approx_top_k(op);
  }
  a.has_side_effect = flag(op, "has_side_effect", false);
  std::int64_t version = integer_or(op, "api_version", 1);
  std::string config = call_config(op, &version);
  if (version < 0 || version > 4) {
    fail(op, "has api_version " + std::to_string(version) + "; valid: 0 to 4");
  }
  a.api_version = kApiVersions[version];
  std::vector<Dims> in_layouts = call_layouts(op, "operand_layouts", op.operands.size());
  leave_out_shape_operands(op, &in_layouts);
  // Those of a tuple are its elements'.
  std::vector<Shape> shapes;
  const bool tuple = op.results.size() == 1 && op.results[0]->is_tuple;
  if (tuple) shapes = op.results[0]->elements;
  for (std::size_t n = 0; n < op.results.size() && !tuple; ++n) shapes.push_back(*op.results[n]);
  const std::vector<Dims> out_layouts = call_layouts(op, "result_layouts", shapes.size());
  if (op.find("operand_layouts") != nullptr) {
    a.other.emplace_back("operand_layout_constraints", operand_layout_constraints(op, in_layouts));
  }
  if (const Attribute* aliases = op.find("output_operand_aliases")) {
    std::string text = output_aliases(op, *aliases);
    if (text != "{}") a.other.emplace_back("output_to_operand_aliasing", std::move(text));
  }
  std::vector<ir::Computation*> called = called_functions(op);

  for (std::size_t n = 0; n < out_layouts.size(); ++n) {
    shapes[n] = with_layout(op, std::move(shapes[n]), out_layouts[n]);
  }
  Shape shape = shapes.size() == 1 && !tuple ? shapes[0] : Shape::tuple(std::move(shapes));
  Instruction* i =
      add(op, Opcode::custom_call, shape, op.operands, std::move(a), std::move(called));
  i->backend_config = std::move(config);
  set_call_attributes(op, i);
  ir::raise_custom_call(i);
  if (!i->is(Opcode::custom_call)) check_shape(op, *i);
  if (op.results.size() == 1) {
    op.values.push_back(i);
  } else {
    unpack(op, i, op.results.size());
  }
}

void Conversions::set_call_attributes(const Operation& op, Instruction* i) {
  if (const Attribute* f = op.find("mhlo.frontend_attributes")) {
    i->frontend_attributes = frontend(*f);
    i->frontend_attributes.edit().erase("xla.sdy.sharding");
  }
  if (const Attribute* rule = op.find("sdy.sharding_rule")) {
    i->frontend_attributes.edit()["xla.sdy.sharding_rule"] = std::string(expanded(rule->value));
  }
}

}  // namespace tessera::text
