// SPDX-License-Identifier: Apache-2.0
// Custom calls, as XLA writes them in HLO, and what sdy says about shardings.
#include <algorithm>

#include "src/ir/hlo/text_out.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"
#include "src/text/read/reader.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

constexpr const char* kApiVersions[] = {"", "", "API_VERSION_STATUS_RETURNING",
                                        "API_VERSION_STATUS_RETURNING_UNIFIED",
                                        "API_VERSION_TYPED_FFI"};

bool is_row_major(const Dims& layout) {
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] != std::int64_t(layout.size() - 1 - i)) return false;
  }
  return true;
}

/// `"..."`, and nothing behind it.
bool is_one_string(std::string_view text) {
  if (text.size() < 2 || text[0] != '"') return false;
  std::size_t at = 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at + 1 == text.size();
}

}  // namespace

std::string_view Reader::call_target(const Operation& op) {
  const Attribute* callee = op.find("callee");
  if (callee == nullptr) callee = &need(op, "call_target_name");
  std::string_view target = callee->value;
  if (!target.empty() && target[0] == '@') target.remove_prefix(1);
  if (target.size() > 1 && target[0] == '"') target = target.substr(1, target.size() - 2);
  return target;
}

void Reader::custom_call(Operation& op) {
  ir::CustomCallAttrs a;
  a.target = unescape(call_target(op));
  if (const Attribute* inner = op.find("mhlo.attributes")) {
    // An operation in the clothes of a call: `@mhlo.topk(...) {mhlo.attributes = {k = 4 : i64}}`.
    const OpInfo* info = find_operation(a.target);
    if (info != nullptr) {
      const char* back = in_.position();
      in_.seek(expanded(inner->value).data());
      std::vector<Attribute> attributes;
      in_.expect('{', "before the attributes");
      attribute_dict(&attributes, '}');
      in_.seek(back);
      op.info = info;
      op.name = info->name;
      op.attributes = std::move(attributes);
      (this->*info->convert)(op);
      return;
    }
  }
  a.has_side_effect = flag(op, "has_side_effect", false);

  std::string config;
  std::int64_t version = integer_or(op, "api_version", 1);
  for (const char* key : {"backend_config", "mhlo.backend_config"}) {
    const Attribute* c = op.find(key);
    if (c == nullptr) continue;
    std::string_view value = expanded(c->value);
    if (value.empty() || value == "\"\"") continue;
    if (value[0] != '{' && !is_one_string(value)) {
      fail(op, std::string("has a ") + key + " that is neither text nor a dictionary");
    }
    if (value[0] == '{') version = 4;
    const char* back = in_.position();
    in_.seek(value.data());
    const bool one_dictionary = value[0] != '{' || in_.balanced().size() == value.size();
    in_.seek(back);
    if (!one_dictionary) fail(op, std::string("has more in ") + key + " than one dictionary");
    if (value[0] == '"') {
      // HLO quotes differently.
      config.clear();
      ir::append_quoted(config, unescape(value.substr(1, value.size() - 2)));
    } else {
      config = std::string(value);
    }
  }
  if (op.find("mhlo.backend_config") != nullptr) version = 4;
  if (version < 0 || version > 4) {
    fail(op, "has api_version " + std::to_string(version) + "; valid: 0 to 4");
  }
  a.api_version = kApiVersions[version];

  // Layouts of operands and results, minor to major.
  auto layouts = [&](const char* key, std::size_t count) {
    std::vector<Dims> out;
    const Attribute* list = op.find(key);
    if (list == nullptr) return out;
    const char* back = in_.position();
    in_.seek(expanded(list->value).data());
    in_.expect('[', "before the layouts");
    if (!in_.accept(']')) {
      do {
        out.push_back(dims_of(in_.value()));
      } while (in_.accept(','));
      in_.expect(']', "after the layouts");
    }
    in_.seek(back);
    if (out.size() != count) {
      fail(op, "has " + std::to_string(out.size()) + " " + key + " for " + std::to_string(count) +
                   " values");
    }
    return out;
  };
  auto with_layout = [&](Shape shape, const Dims& layout) {
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
  };
  std::vector<Dims> in_layouts = layouts("operand_layouts", op.operands.size());
  std::vector<Dims> out_layouts = layouts("result_layouts", op.results.size());
  if (op.find("operand_layouts") != nullptr) {
    std::string text = "{";
    for (std::size_t n = 0; n < op.operands.size(); ++n) {
      if (n > 0) text += ", ";
      ir::append_shape(text, with_layout(op.operands[n]->shape, in_layouts[n]));
    }
    a.other.emplace_back("operand_layout_constraints", text + "}");
  }
  if (const Attribute* aliases = op.find("output_operand_aliases")) {
    // [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, ...>]
    std::string text = "{";
    const char* back = in_.position();
    in_.seek(expanded(aliases->value).data());
    in_.expect('[', "before the aliases");
    if (!in_.accept(']')) {
      do {
        Operation one;
        one.at = op.at;
        one.name = op.name;
        one.attributes = fields({"output_operand_aliases", in_.value()});
        const std::int64_t operand = integer(one, "operand_index");
        if (operand < 0 || operand >= std::int64_t(op.operands.size())) {
          fail(op, "has output_operand_aliases that name operand " + std::to_string(operand) +
                       " of " + std::to_string(op.operands.size()));
        }
        if (text.size() > 1) text += ", ";
        text += "{" + join(integers(one, "output_tuple_indices")) + "}: (" +
                std::to_string(operand) + ", {" +
                join(integers_or(one, "operand_tuple_indices", {})) + "})";
      } while (in_.accept(','));
      in_.expect(']', "after the aliases");
    }
    in_.seek(back);
    if (text.size() > 1) a.other.emplace_back("output_to_operand_aliasing", text + "}");
  }
  std::vector<ir::Computation*> called;
  if (const Attribute* list = op.find("called_computations")) {
    const char* back = in_.position();
    in_.seek(list->value.data());
    in_.expect('[', "before the called functions");
    if (!in_.accept(']')) {
      do {
        in_.expect('@', "before the name of a function");
        std::string_view name = in_.suffix("the name of a function");
        auto it = by_name_.find(name);
        if (it == by_name_.end()) {
          in_.fail_at(name.data(), "there is no function @" + std::string(name));
        }
        called.push_back(it->second->computation);
      } while (in_.accept(','));
      in_.expect(']', "after the called functions");
    }
    in_.seek(back);
  }

  if (a.target == "ApproxTopK") return approx_top_k(op, called);
  std::vector<Shape> shapes;
  for (std::size_t n = 0; n < op.results.size(); ++n) {
    shapes.push_back(out_layouts.empty() ? *op.results[n]
                                         : with_layout(*op.results[n], out_layouts[n]));
  }
  Shape shape = shapes.size() == 1 ? shapes[0] : Shape::tuple(shapes);
  Instruction* i = add(op, Opcode::custom_call, shape, op.operands, std::move(a), called);
  i->backend_config = std::move(config);
  if (const Attribute* f = op.find("mhlo.frontend_attributes")) {
    i->frontend_attributes = frontend(*f);
    i->frontend_attributes.edit().erase("xla.sdy.sharding");
  }
  if (const Attribute* rule = op.find("sdy.sharding_rule")) {
    i->frontend_attributes.edit()["xla.sdy.sharding_rule"] = std::string(expanded(rule->value));
  }
  ir::raise_custom_call(i);
  if (!i->is(Opcode::custom_call)) check_shape(op, *i);
  if (op.results.size() == 1) {
    op.values.push_back(i);
  } else {
    unpack(op, i, op.results.size());
  }
}

// What jax.lax.approx_max_k is where no hardware approximates: a sort, and the first of each row.
namespace {

// Whether a comparator says which of its first two arguments is larger (or smaller), and nothing
// else; empty if it says something else or is still to be read.
std::optional<bool> prefers_larger(const ir::Computation& comparator) {
  const Instruction* root = comparator.root();
  if (root == nullptr || !root->is(Opcode::compare) || comparator.parameters().size() < 2 ||
      root->operand(0) != comparator.parameter(0) || root->operand(1) != comparator.parameter(1)) {
    return std::nullopt;
  }
  const auto& compare = root->get<ir::CompareAttrs>();
  if (compare.type != ir::ComparisonType::by_dtype) return std::nullopt;
  if (compare.direction == ir::Direction::gt) return true;
  if (compare.direction == ir::Direction::lt) return false;
  return std::nullopt;
}

}  // namespace

// The best of values and what comes with them, their places: a top-k, exact as it is allowed to be.
void Reader::approx_top_k(Operation& op, const std::vector<ir::Computation*>& called) {
  const std::size_t count = op.results.size();
  need_operands(op, 2 * count, 2 * count);
  if (called.size() != 1) fail(op, "needs one called computation, that compares");
  const Attribute* config = op.find("mhlo.backend_config");
  if (config == nullptr) config = &need(op, "backend_config");
  Operation said;
  said.at = op.at;
  said.name = op.name;
  const char* back = in_.position();
  in_.seek(expanded(config->value).data());
  in_.expect('{', "before the fields of ApproxTopK");
  attribute_dict(&said.attributes, '}');
  in_.seek(back);
  const std::int64_t dim = integer(said, "reduction_dim");
  const std::vector<Instruction*> values(op.operands.begin(),
                                         op.operands.begin() + std::ptrdiff_t(count));
  std::vector<Shape> shapes;
  for (std::size_t n = 0; n < count; ++n) {
    const Shape &from = values[n]->shape, &to = *op.results[n];
    Dims want = from.dims;
    if (dim >= 0 && dim < from.rank() && to.rank() == from.rank()) {
      want[std::size_t(dim)] = std::min(from.dim(dim), to.dim(dim));
    }
    if (dim < 0 || dim >= from.rank() || want != to.dims) {
      fail(op, "can't give " + mlir_type(to) + " of " + mlir_type(from) + " with reduction_dim " +
                   std::to_string(dim));
    }
    shapes.push_back(from);
  }
  if (std::optional<bool> larger = prefers_larger(*called[0]);
      larger && count == 2 && dim + 1 == shapes[0].rank() && values[1]->is(Opcode::iota) &&
      values[1]->get<ir::IotaAttrs>().dim == dim && shapes[1].dtype == DType::s32 &&
      !is_complex(shapes[0].dtype)) {
    // The values with their places, as JAX asks for them.
    set_results(op, Opcode::topk, {values[0]}, ir::TopKAttrs{op.results[0]->dim(dim), *larger});
    return;
  }
  Instruction* sorted = add(op, Opcode::sort, count == 1 ? shapes[0] : Shape::tuple(shapes), values,
                            ir::SortAttrs{dim, true}, called);
  for (std::size_t n = 0; n < count; ++n) {
    const Dims& limits = op.results[n]->dims;
    Instruction* all = count == 1 ? sorted : element(op, sorted, n);
    op.values.push_back(
        add(op, Opcode::slice, *op.results[n], {all},
            ir::SliceAttrs{Dims(limits.size(), 0), limits, Dims(limits.size(), 1)}));
  }
}

void Reader::sharding_constraint(Operation& op) {
  need_operands(op, 1, 1);
  set(op, Opcode::sharding_constraint, op.operands, ir::ShardingConstraintAttrs{});
  pend(op.values[0], expanded(need(op, "sharding").value), {});
}

void Reader::sharding_group(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 0);
  std::int64_t group = integer(op, "group_id");
  if (group < 0 || group > (1 << 30)) fail(op, "has a group_id that is out of range");
  groups_.emplace_back(op.operands[0], int(group));
}

void Reader::manual_computation(Operation& op) {
  need_regions(op, 1);
  ir::CustomCallAttrs a;
  a.target = ir::kManualComputationTarget;
  auto list = [&](const char* key) {
    std::string text(expanded(need(op, key).value));
    for (const char* prefix : {"#sdy.sharding_per_value"}) {
      std::string_view p(prefix);
      if (text.compare(0, p.size(), p) == 0)
        text = text.substr(p.size() + 1, text.size() - p.size() - 2);
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

void Reader::named_computation(Operation& op) {
  need_regions(op, 1);
  set_results(op, Opcode::call, op.operands, {}, op.regions);
}

}  // namespace tessera::text
