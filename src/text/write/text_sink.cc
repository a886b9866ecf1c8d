// SPDX-License-Identifier: Apache-2.0
// Writes functions, regions and ops as StableHLO text.
#include "src/text/write/text_sink.h"

#include <algorithm>

#include "src/ir/hlo/text_out.h"
#include "src/text/write/text.h"

namespace tessera::text {

using ir::append_int;

void TextSink::module(std::string_view name, const Entries& attributes) {
  out_ += "module ";
  append_symbol(out_, name);
  out_ += " attributes";
  dictionary(attributes);
  out_ += " {\n";
}

void TextSink::mesh(std::string_view symbol, std::string_view mesh) {
  out_ += "  sdy.mesh ";
  append_symbol(out_, symbol);
  out_ += " = ";
  out_ += mesh;
  out_ += '\n';
}

std::string TextSink::finish() {
  out_ += "}\n";
  return std::move(out_);
}

Values TextSink::function(const FunctionHead& head) {
  next_value_ = next_argument_ = 0;
  line();
  out_ += head.entry ? "func.func public " : "func.func private ";
  append_symbol(out_, head.symbol);
  const Values parameters = arguments(head.arguments);
  bound_arguments(parameters, head.argument_attributes);
  if (!head.results.empty()) {
    out_ += " -> (";
    for (std::size_t n = 0; n < head.results.size(); ++n) {
      if (n > 0) out_ += ", ";
      append_type(out_, *head.results[n]);
      dictionary(head.result_attributes[n]);
    }
    out_ += ')';
  }
  out_ += " {\n";
  ++indent_;
  return parameters;
}

void TextSink::end_function(const Values& returned) {
  end_region("return", returned);
  out_ += '\n';
}

void TextSink::value(const Value& v) {
  out_ += v.argument ? "%arg" : "%";
  append_int(out_, v.number);
  if (v.result >= 0) {
    out_ += '#';
    append_int(out_, v.result);
  }
}

void TextSink::values(const Values& list) {
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n > 0) out_ += ", ";
    value(list[n]);
  }
}

namespace {

const Shape& type_of(const Value& v) { return *v.type; }
const Shape& type_of(const Shape* t) { return *t; }

}  // namespace

template <class List>
void TextSink::types(const List& list) {
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n > 0) out_ += ", ";
    append_type(out_, type_of(list[n]));
  }
}

void TextSink::signature(const Values& operands, const Types& results) {
  out_ += " : (";
  types(operands);
  out_ += ") -> ";
  if (results.size() != 1) out_ += '(';
  types(results);
  if (results.size() != 1) out_ += ')';
}

Values TextSink::results(const Types& types) {
  line();
  Values out;
  if (types.empty()) return out;
  const std::int32_t number = next_value_++;
  out_ += '%';
  append_int(out_, number);
  if (types.size() > 1) {
    out_ += ':';
    append_int(out_, std::int64_t(types.size()));
  }
  out_ += " = ";
  out.reserve(types.size());
  for (std::size_t n = 0; n < types.size(); ++n) {
    out.push_back({number, types.size() > 1 ? std::int32_t(n) : -1, false, types[n]});
  }
  return out;
}

Values TextSink::arguments(const Types& types) {
  Values out;
  out.reserve(types.size());
  for (const Shape* t : types) out.push_back({next_argument_++, -1, true, t});
  return out;
}

void TextSink::bound_arguments(const Values& list, const std::vector<Entries>& attributes) {
  out_ += '(';
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n > 0) out_ += ", ";
    value(list[n]);
    out_ += ": ";
    append_type(out_, *list[n].type);
    if (n < attributes.size()) dictionary(attributes[n]);
  }
  out_ += ')';
}

void TextSink::dictionary(Entries entries) {
  if (entries.empty()) return;
  std::sort(entries.begin(), entries.end());
  out_ += " {";
  for (std::size_t n = 0; n < entries.size(); ++n) {
    if (n > 0) out_ += ", ";
    out_ += entries[n].first;
    // A unit attribute has no value.
    if (entries[n].second.empty()) continue;
    out_ += " = ";
    out_ += entries[n].second;
  }
  out_ += '}';
}

void TextSink::location(const ir::Metadata& m) {
  if (locations_ && (!m.op_name.empty() || !m.source_file.empty())) {
    out_ += " loc(";
    if (!m.op_name.empty()) append_string(out_, m.op_name);
    if (!m.source_file.empty()) {
      if (!m.op_name.empty()) out_ += '(';
      append_string(out_, m.source_file);
      out_ += ':';
      append_int(out_, m.source_line);
      out_ += ":0";
      if (!m.op_name.empty()) out_ += ')';
    }
    out_ += ')';
  }
  out_ += '\n';
}

Values TextSink::op(const Op& op, const ir::Metadata& metadata) {
  Values out = results(op.results);
  switch (op.form) {
    case Form::generic:
      generic(op);
      break;
    case Form::constant:
      constant(op);
      break;
    case Form::reduce:
      reduce(op);
      break;
    case Form::loop:
      loop(op);
      break;
    case Form::per_device:
      per_device(op);
      break;
    default:
      short_form(op);
      break;
  }
  location(metadata);
  return out;
}

void TextSink::regions(const Op& op, Open open) {
  open_.push_back(std::move(open));
  op.regions();
  open_.pop_back();
}

void TextSink::generic(const Op& op) {
  out_ += '"';
  out_ += op.name;
  out_ += "\"(";
  values(op.operands);
  out_ += ')';
  if (!op.properties.empty()) {
    out_ += " <{";
    out_ += op.properties;
    out_ += "}>";
  }
  if (op.regions) {
    out_ += " (";
    regions(op, {Form::generic});
    out_ += ')';
  }
  dictionary(op.attributes);
  signature(op.operands, op.results);
}

void TextSink::short_form(const Op& op) {
  out_ += op.name;
  if (!op.lead.empty() || !op.operands.empty() || !op.tail.empty()) out_ += ' ';
  out_ += op.lead;
  values(op.operands);
  out_ += op.tail;
  dictionary(op.attributes);
  types_of(op);
}

void TextSink::types_of(const Op& op) {
  if (op.form == Form::signature) return signature(op.operands, op.results);
  out_ += " : ";
  if (op.form == Form::operand_types) {
    types(op.operands);
    out_ += " -> ";
  } else if (op.form == Form::select) {
    append_type(out_, *op.operands[0].type);
    out_ += ", ";
  }
  append_type(out_, op.results.empty() ? *op.operands[0].type : *op.results[0]);
}

void TextSink::constant(const Op& op) {
  out_ += op.name;
  dictionary(op.attributes);
  out_ += ' ';
  append_dense(out_, *op.literal);
  out_ += " : ";
  append_type(out_, *op.results[0]);
}

void TextSink::reduce(const Op& op) {
  out_ += op.name;
  out_ += '(';
  value(op.operands[0]);
  out_ += " init: ";
  value(op.operands[1]);
  out_ += ')';
  out_ += op.tail;
  dictionary(op.attributes);
  signature(op.operands, op.results);
}

void TextSink::loop(const Op& op) {
  out_ += op.name;
  out_ += '(';
  const Values carried = arguments(op.results);
  for (std::size_t n = 0; n < carried.size(); ++n) {
    if (n > 0) out_ += ", ";
    value(carried[n]);
    out_ += " = ";
    value(op.operands[n]);
  }
  out_ += ") : ";
  types(op.results);
  if (!op.attributes.empty()) {
    out_ += " attributes";
    dictionary(op.attributes);
  }
  out_ += '\n';
  regions(op, {Form::loop, 0, carried});
}

void TextSink::per_device(const Op& op) {
  out_ += op.name;
  out_ += '(';
  values(op.operands);
  out_ += ')';
  out_ += op.tail;
  regions(op, {Form::per_device});
  signature(op.operands, op.results);
}

Values TextSink::region(const Types& types) {
  Open& open = open_.back();
  const int number = open.regions++;
  ++indent_;
  if (open.form == Form::loop) {
    if (number == 0) {
      out_.append((indent_ - 1) * 2, ' ');
      out_ += "cond {\n";
    } else {
      out_ += " do {\n";
    }
    return open.carried;
  }
  Values block = arguments(types);
  if (open.form == Form::per_device) {
    bound_arguments(block);
    out_ += " {\n";
    return block;
  }
  out_ += number > 0 ? ", {\n" : "{\n";
  if (block.empty()) return block;
  out_.append((indent_ - 1) * 2, ' ');
  out_ += "^bb0";
  bound_arguments(block);
  out_ += ":\n";
  return block;
}

void TextSink::end_region(std::string_view terminator, const Values& returned) {
  line();
  out_ += terminator;
  if (!returned.empty()) {
    out_ += ' ';
    values(returned);
    out_ += " : ";
    types(returned);
  }
  out_ += '\n';
  --indent_;
  line();
  out_ += '}';
}

}  // namespace tessera::text
