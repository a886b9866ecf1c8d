// SPDX-License-Identifier: Apache-2.0
// Modules, computations and instructions as HLO text.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "src/ir/hlo/attribute_text.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hlo/literal_text.h"
#include "src/ir/hlo/sdy_attributes.h"
#include "src/ir/hlo/text_out.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"
#include "src/ir/names.h"
#include "src/ir/post_order.h"

namespace tessera::ir {

void append_shape(std::string& out, const Shape& shape) {
  if (shape.is_tuple) {
    out += '(';
    for (std::size_t i = 0; i < shape.elements.size(); ++i) {
      if (i > 0) out += ", ";
      append_shape(out, shape.elements[i]);
    }
    out += ')';
    return;
  }
  out += tessera::name(shape.dtype);
  out += '[';
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    if (i > 0) out += ',';
    append_int(out, shape.dims[i]);
  }
  out += ']';
  if (shape.dims.empty()) return;
  out += '{';
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    if (i > 0) out += ',';
    append_int(out,
               shape.layout.empty() ? std::int64_t(shape.dims.size() - 1 - i) : shape.layout[i]);
  }
  out += '}';
}

namespace {

class Printer {
 public:
  Printer(std::string& out, const PrintOptions& options) : out_(out), options_(options) {}

  void module(const Module& m);
  void computation(const Computation& c, bool entry);
  void instruction(const Instruction& i);
  void name_meshes(const std::vector<Computation*>& computations) {
    if (options_.axis_names) meshes_.collect(computations);
  }

 private:
  void header(const Module& m);
  void aliases(const Module& m);
  void name_of(const Instruction& i) {
    if (options_.canonical) {
      out_ += 'i';
      append_int(out_, i.index);
    } else {
      out_ += i.name;
    }
  }
  void name_of(const Computation& c) {
    auto it = options_.canonical ? numbers_.find(&c) : numbers_.end();
    if (it != numbers_.end()) {
      out_ += 'c';
      append_int(out_, it->second);
    } else {
      out_ += c.name();
    }
  }
  void right_side(const Instruction& i);
  void callees(const Instruction& i);
  void frontend_attributes(std::map<std::string, std::string> attributes);
  void metadata(const Metadata& m);
  void backend_config(const Instruction& i);

  std::string& out_;
  const PrintOptions& options_;
  std::unordered_map<const Computation*, std::int64_t> numbers_;
  SdyMeshNames meshes_;
  DeviceTexts devices_;
};

void Printer::aliases(const Module& m) {
  if (!m.input_output_alias.empty()) {
    out_ += ", input_output_alias={ ";
    for (std::size_t n = 0; n < m.input_output_alias.size(); ++n) {
      const Alias& a = m.input_output_alias[n];
      if (n > 0) out_ += ", ";
      append_braced(out_, a.output);
      out_ += ": (";
      append_int(out_, a.parameter);
      out_ += ", ";
      append_braced(out_, a.parameter_index);
      out_ += a.must ? ", must-alias)" : ", may-alias)";
    }
    out_ += " }";
  }
  if (!m.buffer_donor.empty()) {
    out_ += ", buffer_donor={ ";
    for (std::size_t n = 0; n < m.buffer_donor.size(); ++n) {
      if (n > 0) out_ += ", ";
      out_ += '(';
      append_int(out_, m.buffer_donor[n].first);
      out_ += ", ";
      append_braced(out_, m.buffer_donor[n].second);
      out_ += ')';
    }
    out_ += " }";
  }
}

void Printer::header(const Module& m) {
  out_ += "HloModule ";
  out_ += options_.canonical ? "m" : sanitize_name(m.name);
  aliases(m);
  if (const Computation* entry = m.entry(); entry != nullptr && entry->root() != nullptr) {
    out_ += ", entry_computation_layout={(";
    for (std::size_t i = 0; i < entry->parameters().size(); ++i) {
      if (i > 0) out_ += ", ";
      append_shape(out_, entry->parameter(i)->shape);
    }
    out_ += ")->";
    append_shape(out_, entry->root()->shape);
    out_ += '}';
  }
  if (m.replica_count != 1) {
    out_ += ", replica_count=";
    append_int(out_, m.replica_count);
  }
  if (m.num_partitions != 1) {
    out_ += ", num_partitions=";
    append_int(out_, m.num_partitions);
  }
  for (const auto& [k, v] : m.other) {
    out_ += ", ";
    out_ += k;
    out_ += '=';
    out_ += v;
  }
  std::map<std::string, std::string> attributes = m.frontend_attributes;
  if (options_.axis_names && !options_.canonical && !meshes_.empty()) {
    attributes[kSdyMeshes] = meshes_.table_text();
  }
  frontend_attributes(std::move(attributes));
  out_ += "\n";
}

void Printer::frontend_attributes(std::map<std::string, std::string> attributes) {
  if (attributes.empty()) return;
  out_ += ", frontend_attributes={";
  bool first = true;
  for (const auto& [k, v] : attributes) {
    if (!first) out_ += ',';
    first = false;
    const bool word =
        !k.empty() && is_name_start(k[0]) && std::all_of(k.begin(), k.end(), is_name_char);
    if (word) {
      out_ += k;
    } else {
      append_quoted(out_, k);
    }
    out_ += '=';
    append_quoted(out_, v);
  }
  out_ += '}';
}

void Printer::metadata(const Metadata& m) {
  if (m.empty() || !options_.metadata || options_.canonical) return;
  const std::size_t before = out_.size();
  out_ += ", metadata={";
  bool first = true;
  auto key = [&](std::string_view k) {
    if (!first) out_ += ' ';
    first = false;
    out_ += k;
    out_ += '=';
  };
  auto quoted = [&](std::string_view k, const std::string& v) {
    if (v.empty()) return;
    key(k);
    append_quoted(out_, v);
  };
  quoted("op_type", m.op_type);
  quoted("op_name", m.op_name);
  quoted("source_file", m.source_file);
  if (m.source_line != 0) {
    key("source_line");
    append_int(out_, m.source_line);
  }
  for (const auto& [k, v] : m.other) {
    key(k);
    out_ += v;
  }
  out_ += '}';
  if (first) out_.resize(before);
}

void Printer::backend_config(const Instruction& i) {
  const auto* loop = i.attrs.get_if<WhileAttrs>();
  std::string_view text = *i.backend_config;
  bool counted = loop != nullptr && loop->known_trip_count &&
                 text.find(kTripCountKey) == std::string_view::npos;
  if (!counted) {
    if (text.empty()) return;
    out_ += ", backend_config=";
    out_ += text;
    return;
  }
  out_ += ", backend_config={";
  out_ += kTripCountKey;
  out_ += ":{\"n\":\"";
  append_int(out_, *loop->known_trip_count);
  out_ += "\"}";
  // The rest of a config that is a dictionary goes on behind.
  std::size_t open = text.find('{');
  if (open != std::string_view::npos && text.back() == '}') {
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    if (rest.find_first_not_of(" \n\t") != std::string_view::npos) {
      out_ += ',';
      out_ += rest;
    }
  }
  out_ += '}';
}

void Printer::callees(const Instruction& i) {
  std::vector<std::string_view> keys = callee_keys(i);
  if (keys.empty()) return;
  if (keys.size() == i.called().size() && keys[0] != "branch_computations" &&
      keys[0] != "called_computations") {
    for (std::size_t n = 0; n < keys.size(); ++n) {
      out_ += ", ";
      out_ += keys[n];
      out_ += '=';
      name_of(*i.called()[n]);
    }
    return;
  }
  out_ += ", ";
  out_ += keys[0];
  out_ += "={";
  for (std::size_t n = 0; n < i.called().size(); ++n) {
    if (n > 0) out_ += ", ";
    name_of(*i.called()[n]);
  }
  out_ += '}';
}

void Printer::instruction(const Instruction& i) {
  name_of(i);
  out_ += " = ";
  if (!is_printed_as_custom_call(i.opcode)) return right_side(i);
  const auto* manual = i.attrs.get_if<ManualComputationAttrs>();
  const bool in_place = options_.canonical || (manual != nullptr && options_.axis_names &&
                                               !meshes_.keeps_name(manual->mesh));
  right_side(as_custom_call(i, in_place));
  const auto* custom = i.attrs.get_if<CustomPartitioningAttrs>();
  if (options_.canonical && custom != nullptr && custom->partitioner != nullptr) {
    out_ += ", partitioner=";
    append_quoted(out_, custom->partitioner->name());
  }
}

void Printer::right_side(const Instruction& i) {
  append_shape(out_, i.shape);
  out_ += ' ';
  out_ += ir::name(has_own_text(i) ? i.opcode : Opcode::custom_call);
  out_ += '(';
  if (const auto* p = i.attrs.get_if<ParameterAttrs>()) {
    append_int(out_, p->number);
  } else if (const auto* c = i.attrs.get_if<ConstantAttrs>()) {
    std::int64_t limit = options_.max_constant_elements;
    bool large = limit >= 0 && (c->value.is_tuple() || c->value.element_count() > limit);
    if (c->elided || large) {
      out_ += "{...}";
    } else {
      append_literal(out_, c->value);
    }
  } else {
    for (std::size_t n = 0; n < i.operands().size(); ++n) {
      if (n > 0) out_ += ", ";
      if (options_.operand_shapes) {
        append_shape(out_, i.operands()[n]->shape);
        out_ += ' ';
      }
      name_of(*i.operands()[n]);
    }
  }
  out_ += ')';
  append_attributes(out_, i, devices_);
  callees(i);
  if (!i.control_predecessors().empty()) {
    out_ += ", control-predecessors={";
    for (std::size_t n = 0; n < i.control_predecessors().size(); ++n) {
      if (n > 0) out_ += ", ";
      name_of(*i.control_predecessors()[n]);
    }
    out_ += '}';
  }
  if (options_.shardings && i.has_sharding()) {
    out_ += ", sharding=";
    if (options_.canonical) {
      append_canonical_sharding(out_, i, devices_);
    } else {
      append_sharding(out_, i, devices_);
    }
  }
  if (options_.axis_names && options_.shardings && !options_.canonical && i.has_sharding()) {
    std::map<std::string, std::string> attributes = *i.frontend_attributes;
    std::string text = meshes_.sharding_text(i);
    if (!text.empty()) attributes[kSdySharding] = std::move(text);
    frontend_attributes(std::move(attributes));
  } else {
    frontend_attributes(*i.frontend_attributes);
  }
  metadata(*i.metadata);
  backend_config(i);
}

void Printer::computation(const Computation& c, bool entry) {
  if (entry) out_ += "ENTRY ";
  name_of(c);
  out_ += " {\n";
  for (const auto& i : c.instructions()) {
    out_ += i.get() == c.root() ? "  ROOT " : "  ";
    instruction(*i);
    out_ += '\n';
  }
  out_ += "}\n";
}

void Printer::module(const Module& m) {
  std::vector<Computation*> roots;
  for (const auto& c : m.computations()) {
    if (c.get() != m.entry()) roots.push_back(c.get());
  }
  if (m.entry() != nullptr) roots.push_back(m.entry());
  if (options_.canonical && m.entry() != nullptr) roots = {m.entry()};
  std::vector<Computation*> order = post_order(roots);
  for (std::size_t n = 0; n < order.size(); ++n) numbers_.emplace(order[n], std::int64_t(n));
  name_meshes(order);
  header(m);
  for (const Computation* c : order) {
    out_ += '\n';
    computation(*c, c == m.entry());
  }
}

}  // namespace

std::string to_string(const Module& module, const PrintOptions& options) {
  std::string out;
  out.reserve(module.instruction_count() * 96);
  Printer(out, options).module(module);
  return out;
}

std::string to_string(const Computation& computation, const PrintOptions& options) {
  std::string out;
  Printer printer(out, options);
  printer.name_meshes({const_cast<Computation*>(&computation)});
  printer.computation(computation, computation.module()->entry() == &computation);
  return out;
}

std::string to_string(const Instruction& instruction, const PrintOptions& options) {
  std::string out;
  Printer printer(out, options);
  if (instruction.parent != nullptr) printer.name_meshes({instruction.parent});
  printer.instruction(instruction);
  return out;
}

}  // namespace tessera::ir
