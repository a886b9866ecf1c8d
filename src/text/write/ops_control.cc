// SPDX-License-Identifier: Apache-2.0
// Ops with computations, calls out of the program, tokens, and what is started and ended.
#include <algorithm>

#include "src/ir/hlo/attribute_text.h"
#include "src/ir/hlo/hlo_lexer.h"
#include "src/ir/hlo/text_out.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/text/read/cursor.h"
#include "src/text/write/function.h"
#include "src/text/write/text.h"

namespace tessera::text {

using ir::append_int;
using ir::Instruction;
using ir::Opcode;

namespace {

std::string text_item(const Instruction& i, std::string_view key) {
  const auto* a = i.attrs.get_if<ir::TextAttrs>();
  if (a == nullptr) return {};
  for (const auto& [k, v] : a->items) {
    if (k == key) return v;
  }
  return {};
}

std::string quoted(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

/// `dense<[0, 1]> : tensor<2xindex>`, minor to major.
void append_layout(std::string& out, const Shape& s) {
  out += "dense<";
  Dims order = s.layout;
  if (order.empty()) {
    for (std::int64_t d = s.rank() - 1; d >= 0; --d) order.push_back(d);
  }
  if (order.size() == 1) {
    append_int(out, order[0]);
  } else if (!order.empty()) {
    append_list(out, order);
  }
  out += "> : tensor<";
  append_int(out, std::int64_t(order.size()));
  out += "xindex>";
}

std::string layouts(const Types& shapes) {
  std::string out = "[";
  for (std::size_t n = 0; n < shapes.size(); ++n) {
    if (n > 0) out += ", ";
    append_layout(out, *shapes[n]);
  }
  return out + "]";
}

/// Whether a text's brackets, of all of MLIR's kinds, close in one pair of braces.
bool is_dictionary(const std::string& text) {
  if (text[0] != '{') return false;
  try {
    return Cursor(text, "<backend_config>").balanced().size() == text.size();
  } catch (const ParseError&) {
    return false;
  }
}

/// HLO's `{f32[16,16]{0,1}, s32[]}`.
std::string operand_layouts(std::string_view text) {
  ir::HloLexer lexer(text, "<operand_layout_constraints>");
  lexer.expect('{', "before the shapes");
  std::vector<Shape> shapes;
  while (!lexer.accept('}')) {
    if (!shapes.empty()) lexer.expect(',', "between shapes");
    shapes.push_back(lexer.shape());
  }
  Types list;
  for (const Shape& s : shapes) append_leaves(s, &list);
  return layouts(list);
}

/// HLO's `{{0}: (1, {}, may-alias), {}: (0, {})}`.
std::string output_aliases(std::string_view text) {
  ir::HloLexer lexer(text, "<output_to_operand_aliasing>");
  lexer.expect('{', "before the aliases");
  std::string out = "[";
  while (!lexer.accept('}')) {
    if (out.size() > 1) {
      lexer.expect(',', "between aliases");
      out += ", ";
    }
    const Dims result = lexer.braced_integers("an index of the result");
    lexer.expect(':', "after the result");
    lexer.expect('(', "before the operand");
    const std::int64_t operand = lexer.integer("an operand's number");
    lexer.expect(',', "after the operand's number");
    const Dims path = lexer.braced_integers("an index of the operand");
    if (lexer.accept(',')) lexer.word("the kind of alias");
    lexer.expect(')', "after the operand");
    out += "#stablehlo.output_operand_alias<output_tuple_indices = ";
    append_list(out, result);
    out += ", operand_index = ";
    append_int(out, operand);
    out += ", operand_tuple_indices = ";
    append_list(out, path);
    out += '>';
  }
  return out + "]";
}

std::string_view api_version(std::string_view name) {
  if (name == "API_VERSION_ORIGINAL") return "1";
  if (name == "API_VERSION_STATUS_RETURNING") return "2";
  if (name == "API_VERSION_STATUS_RETURNING_UNIFIED") return "3";
  if (name == "API_VERSION_TYPED_FFI") return "4";
  return "0";
}

std::string frontend(const Instruction& i, const std::string& key) {
  auto it = i.frontend_attributes->find(key);
  return it == i.frontend_attributes->end() ? std::string() : it->second;
}

}  // namespace

Values Writer::while_loop(const Instruction& i, const Values& xs) {
  const ir::Computation& condition = *i.called().at(0);
  const ir::Computation& loop = *i.called().at(1);
  if (xs.empty()) {
    return emit(i, {"stablehlo.while", xs, "", {}, [&] {
                      closed_region(i, condition, xs);
                      closed_region(i, loop, xs);
                    }});
  }
  Op op{"stablehlo.while", xs, "", leaves_of(i.shape), [&] {
          region(i, condition);
          region(i, loop);
        }};
  op.form = Form::loop;
  return emit(i, std::move(op));
}

Values Writer::reduce(const Instruction& i, const Values& xs) {
  const Dims& dims = i.get<ir::DimensionsAttrs>().dims;
  const ir::Computation& reducer = *i.called().at(0);
  const Types types = leaves_of(i.shape);
  const auto op = types.size() == 1 ? ir::as_binary_reducer(reducer) : std::nullopt;
  const bool plain = op && reducer.root()->shape.dtype == xs[0].type->dtype;
  if (!plain || !sink_.has_short_forms()) {
    std::string p = "dimensions = ";
    append_i64_array(p, dims);
    return emit(i, {"stablehlo.reduce", xs, p, types, [&] { region(i, reducer); }});
  }
  Op reduction{"stablehlo.reduce", xs, "", types};
  reduction.form = Form::reduce;
  reduction.tail = " applies stablehlo." + std::string(ir::name(*op)) + " across dimensions = ";
  append_list(reduction.tail, dims);
  return emit(i, std::move(reduction));
}

Values Writer::composite(const Instruction& i, const Values& xs, const std::string& name,
                         const std::string& attributes, const std::string& version) {
  const ir::Computation& c = *i.called().at(0);
  std::string p;
  if (!attributes.empty() && attributes != "{}") p += "composite_attributes = " + attributes + ", ";
  p += "decomposition = ";
  append_symbol(p, symbol_of(c));
  p += ", name = " + quoted(name);
  if (!version.empty()) p += ", version = " + version + " : i32";
  return emit(i, {"stablehlo.composite", xs, p, leaves_of(i.shape)});
}

const Instruction& Writer::as_call(const Instruction& i) {
  // Values keep pointers to shapes.
  return calls_.emplace_back(ir::as_custom_call(i));
}

Values Writer::sharding_constraint(const Instruction& i, const Values& xs) {
  using Kind = ir::ShardingConstraintAttrs::Kind;
  if (result_markers_.count(&i) > 0) return xs;
  const bool says = i.has_sharding() && xs.size() == i.sharding.size();
  if (says || i.get<ir::ShardingConstraintAttrs>().kind == Kind::result) return constrained(i, xs);
  return custom_call(as_call(i), xs);
}

Values Writer::custom_partitioning(const Instruction& i, const Values& xs) {
  if (i.called().empty()) return custom_call(as_call(i), xs);
  // The callbacks live in this process only; the name and the plain body can be written.
  const auto& hook = i.get<ir::CustomPartitioningAttrs>().partitioner;
  const std::string name = hook != nullptr ? hook->name() : "";
  return composite(i, xs, "tessera.custom_partitioning", "{name = " + quoted(name) + "}", "");
}

Values Writer::custom_call(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::CustomCallAttrs>();
  Entries entries = decorations(i);
  if (ir::is_shard_shape_target(a.target)) {
    // Their meaning is that of the tiling.
    for (auto& [key, text] : entries) {
      if (key != "sdy.sharding") continue;
      key = "mhlo.sharding";
      text = quoted(tiling_text(i));
    }
  }
  const std::string_view version = api_version(a.api_version);
  if (!a.api_version.empty()) {
    entries.emplace_back("api_version", std::string(version) + " : i32");
  }
  const std::string config = unquoted(*i.backend_config);
  if (version == "4") {
    // Typed: a dictionary of attributes, where the others have text.
    if (!config.empty() && !is_dictionary(config)) {
      unsupported(i, "a backend_config of API_VERSION_TYPED_FFI that is no dictionary");
    }
    entries.emplace_back("backend_config", config.empty() ? "{}" : config);
  } else if (!config.empty()) {
    entries.emplace_back("backend_config", quoted(config));
  }
  if (!i.called().empty()) {
    std::string list = "[";
    for (const ir::Computation* c : i.called()) {
      if (list.size() > 1) list += ", ";
      append_symbol(list, symbol_of(*c));
    }
    entries.emplace_back("called_computations", list + "]");
  }
  if (a.has_side_effect) entries.emplace_back("has_side_effect", "true");
  const Types types = leaves_of(i.shape);
  for (const auto& [key, text] : a.other) {
    if (key == "operand_layout_constraints") {
      entries.emplace_back("operand_layouts", operand_layouts(text));
      entries.emplace_back("result_layouts", layouts(types));
    } else if (key == "output_to_operand_aliasing") {
      entries.emplace_back("output_operand_aliases", output_aliases(text));
    } else if (key != "schedule") {
      unsupported(i, "the attribute " + key + " of a custom call");
    }
  }
  Op op{"stablehlo.custom_call", xs, "call_target_name = " + quoted(a.target), types};
  op.form = Form::signature;
  append_symbol(op.lead, a.target);
  op.lead += '(';
  op.tail = ")";
  op.attributes = std::move(entries);
  op.decorated = false;  // they are among these
  return emit(i, std::move(op));
}

Values Writer::manual_computation(const Instruction& i, const Values& xs) {
  const ir::Computation& inside = *i.called().at(0);
  const auto& attrs = i.get<ir::ManualComputationAttrs>();
  const std::string in = meshes_.list_text(attrs.in_shardings),
                    out = meshes_.list_text(attrs.out_shardings),
                    axes = ir::axes_text(attrs.mesh, attrs.manual_axes);
  Op op{"sdy.manual_computation", xs, "", leaves_of(i.shape),
        [&] { region(i, inside, "sdy.return"); }};
  op.properties = "in_shardings = #sdy.sharding_per_value<" + in +
                  ">, manual_axes = " + "#sdy<manual_axes{" + axes +
                  "}>, out_shardings = #sdy.sharding_per_value<" + out + ">";
  op.form = Form::per_device;
  op.tail = " in_shardings=" + in + " out_shardings=" + out + " manual_axes={" + axes + "} ";
  op.decorated = false;
  return emit(i, std::move(op));
}

// infeed, outfeed, send, recv.
Values Writer::host_transfer(const Instruction& i, const Values& xs) {
  if (i.is(Opcode::infeed) || i.is(Opcode::outfeed)) {
    const bool in = i.is(Opcode::infeed);
    const std::string key = in ? "infeed_config" : "outfeed_config";
    const std::string p = key + " = " + quoted(unquoted(text_item(i, key)));
    return emit(i, {in ? "stablehlo.infeed" : "stablehlo.outfeed", xs, p, leaves_of(i.shape)});
  }
  const bool host = text_item(i, "is_host_transfer") == "true";
  const bool sends = i.is(Opcode::send);
  std::string channel = text_item(i, "channel_id");
  if (channel.empty()) channel = "0";
  // Kinds of channels: 1 between devices, 2 from a device to the host, 3 back.
  const std::string p = "channel_handle = #stablehlo.channel_handle<handle = " + channel +
                        ", type = " +
                        (!host   ? "1"
                         : sends ? "2"
                                 : "3") +
                        ">, is_host_transfer = " + (host ? "true" : "false");
  Types types;
  if (!sends) append_leaves(i.shape.elements.at(0), &types);
  types.push_back(own(Shape::token()));
  return emit(i, {sends ? "stablehlo.send" : "stablehlo.recv", xs, p, types, nullptr, false});
}

Values Writer::conditional(const Frame& f, const Instruction& i) {
  const bool two = i.operands()[0]->shape.dtype == DType::pred;
  return emit(i, {two ? "stablehlo.if" : "stablehlo.case", of(f, *i.operands()[0]), "",
                  leaves_of(i.shape), [&] {
                    for (std::size_t n = 0; n < i.called().size(); ++n) {
                      closed_region(i, *i.called()[n], of(f, *i.operands().at(n + 1)));
                    }
                  }});
}

Values Writer::sort(const Instruction& i, const Values& xs) {
  const auto& a = i.get<ir::SortAttrs>();
  const std::string p = "dimension = " + std::to_string(a.dim) +
                        " : i64, is_stable = " + (a.is_stable ? "true" : "false");
  return emit(i,
              {"stablehlo.sort", xs, p, leaves_of(i.shape), [&] { region(i, *i.called().at(0)); }});
}

Values Writer::map(const Instruction& i, const Values& xs) {
  Dims dims;
  for (std::int64_t d = 0; d < i.shape.rank(); ++d) dims.push_back(d);
  std::string p = "dimensions = ";
  append_i64_array(p, dims);
  return emit(i, {"stablehlo.map", xs, p, {&i.shape}, [&] { region(i, *i.called().at(0)); }});
}

// Together with the token behind a barrier: not before it.
Values Writer::add_dependency(const Instruction& i, const Values& xs) {
  Types types;
  for (const Value& v : xs) types.push_back(v.type);
  Values both = emit(i, {"stablehlo.optimization_barrier", xs, "", types, nullptr, false});
  both.pop_back();
  return constrained(i, both);
}

// StableHLO has no asynchronous ops: what is started is written at its start.
Values Writer::started(const Instruction& i, const Values& xs) {
  switch (i.opcode) {
    case Opcode::send:
    case Opcode::recv:
      return host_transfer(i, xs);
    case Opcode::async_start:
      return inlined(i, *i.called().at(0), xs);
    case Opcode::all_reduce_start:
      return collective(i, xs, leaves_of(i.shape));
    case Opcode::all_gather_start:
    case Opcode::collective_permute_start:
      return collective(i, xs, leaves_of(i.shape.elements.at(1)));
    default:
      return xs;  // a copy
  }
}

// What the operand of a later step was started as.
const Values& Writer::started_as(const Frame& f, const Instruction& i, const char* step) const {
  auto it = f.started.find(i.operands()[0]);
  if (it == f.started.end()) unsupported(i, std::string(step) + " of what was not started");
  return it->second;
}

Values Writer::control(Frame& f, const Instruction& i) {
  switch (i.opcode) {
    case Opcode::while_:
      return while_loop(i, operands(f, i));
    case Opcode::conditional:
      return conditional(f, i);
    case Opcode::call:
      if (text_item(i, "is_composite") == "true") {
        return composite(i, operands(f, i), frontend(i, "composite.name"),
                         frontend(i, "composite.attributes"), frontend(i, "composite.version"));
      }
      return call(i, *i.called().at(0), operands(f, i), true);
    case Opcode::fusion: {
      const ir::Computation& c = *i.called().at(0);
      const Values xs = operands(f, i);
      return constrained(i, uses_.at(&c) > 1 ? call(i, c, xs, false) : inlined(i, c, xs));
    }
    case Opcode::custom_call:
      return custom_call(i, operands(f, i));
    case Opcode::sharding_constraint:
      return sharding_constraint(i, operands(f, i));
    case Opcode::propagation_barrier:
    case Opcode::device_placement:
      return custom_call(as_call(i), operands(f, i));
    case Opcode::pvary:
      // As in text from JAX, values and collectives alone tell.
      return constrained(i, operands(f, i));
    case Opcode::manual_computation:
      return manual_computation(i, operands(f, i));
    case Opcode::custom_partitioning:
      return custom_partitioning(i, operands(f, i));
    case Opcode::reduce:
      return reduce(i, operands(f, i));
    case Opcode::sort:
      return sort(i, operands(f, i));
    case Opcode::map:
      return map(i, operands(f, i));
    case Opcode::opt_barrier: {
      const Values xs = operands(f, i);
      if (xs.empty()) return {};
      return emit(i, {"stablehlo.optimization_barrier", xs, "", leaves_of(i.shape)});
    }
    case Opcode::add_dependency:
      return add_dependency(i, operands(f, i));
    case Opcode::infeed:
    case Opcode::outfeed:
      return host_transfer(i, operands(f, i));
    case Opcode::send:
    case Opcode::recv:
    case Opcode::copy_start:
    case Opcode::async_start:
    case Opcode::all_reduce_start:
    case Opcode::all_gather_start:
    case Opcode::collective_permute_start:
      f.started.emplace(&i, started(i, operands(f, i)));
      return {};
    case Opcode::async_update: {
      const Values v = started_as(f, i, "an update");
      f.started.emplace(&i, v);
      return {};
    }
    case Opcode::send_done:
    case Opcode::recv_done:
    case Opcode::copy_done:
    case Opcode::async_done:
    case Opcode::all_reduce_done:
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
      return constrained(i, started_as(f, i, "an end"));
    case Opcode::all_gather:
    case Opcode::all_reduce:
    case Opcode::all_to_all:
    case Opcode::collective_broadcast:
    case Opcode::collective_permute:
    case Opcode::ragged_all_to_all:
    case Opcode::reduce_scatter:
      return collective(i, operands(f, i), leaves_of(i.shape));
    default:
      return arrays(i, operands(f, i));
  }
}

}  // namespace tessera::text
